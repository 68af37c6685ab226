/* SPDX-License-Identifier: MIT */
/*
 * Sums and means of float32 that travel as bfloat16, or as e4m3 in blocks, on real rings of processes: each result is known to
 * the bit. It is compared with a loop here, which rounds each rank's elements, adds in float32 in rank order, and rounds again
 * where all ranks get the result. Over two levels it rounds the sums of the hosts, and again if there are more than two.
 * Ordinary numbers, huge and tiny ones, denormals, outliers, NaN and infinities; in place and apart, by the setting and by
 * an option, in a group, over one channel and two, between hosts of one and two ranks and over TCP. On one host nothing is
 * rounded in memory.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Longer than what travels as it is with as many ranks on one host. */
enum { MOST = 1 << 20, SMALL = 16, DATA = 8, BLOCK = 64 };

typedef struct trial {
    hoop_comm *comm;
    uint64_t seed;
    int rank, size, data, noted;
    int together; /* ranks whose sum is rounded: 1, or those of a host */
    hoop_op op;
    hoop_wire wire;
    float *send, *recv;
    float *elements; /* of this rank: the first `known` of the data `known_of` and the seed */
    uint64_t known, known_seed;
    int known_of;
} trial;

static uint32_t
bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float
float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* To the nearest bfloat16, of two the even one. A NaN stays one. */
static float
to_bfloat16(float value)
{
    uint32_t bits = bits_of(value), half = 0x7fff + (bits >> 16 & 1);
    return isnan(value) ? value : float_of((bits + half) & 0xffff0000);
}

static double
greatest(const float *values, uint64_t count)
{
    double most = 0;
    for (uint64_t i = 0; i < count; i++)
        most = isfinite(values[i]) ? fmax(most, fabs((double)values[i])) : most;
    return most;
}

/* 2^power, of a normal number. */
static double
two_to(int power)
{
    uint64_t bits = (uint64_t)(power + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Under a scale of 2^power to the nearest of e4m3, which has 3 bits behind the first from 2^-6 to 448, and of two the even one. */
static float
to_e4m3(float value, int power)
{
    double quotient = (double)value * two_to(-power), most = power == 120 ? 240 : 448;
    int unit = (fabs(quotient) < 0x1p-6 ? -6 : ilogb(quotient)) - 3;
    double nearest = nearbyint(quotient * two_to(-unit)) * two_to(unit);
    nearest = nearest > most ? most : nearest < -most ? -most : nearest;
    return nearest == 0 ? 0 : (float)(nearest * two_to(power));
}

/* As a block of these elements arrives. */
static void
round_block(const trial *t, float *values, uint64_t count)
{
    double most = greatest(values, count);
    int power = most > 464 * two_to(-126) ? ilogb(most) - 9 : -126;
    while (most > 464 * two_to(power))
        power++;
    for (uint64_t i = 0; i < count; i++)
        if (t->wire == HOOP_WIRE_BFLOAT16)
            values[i] = to_bfloat16(values[i]);
        else if (isfinite(values[i]))
            values[i] = to_e4m3(values[i], power);
}

static float
element(const trial *t, int rank, uint64_t i)
{
    uint64_t random = tap_mix(t->seed ^ tap_mix((uint64_t)rank << 40 ^ i));
    float plain = (float)((double)(random >> 40) / 8388608.0 - 1);
    switch (t->data) {
    case 0: return plain;
    case 1: return plain * 3e38F;                                   /* sums overflow */
    case 2: return plain * 1e-36F;                                  /* sums of small numbers, some denormal */
    case 3: return plain * 1e-42F;                                  /* denormals */
    case 4: return i % 97 == 0 ? plain * 1e30F : plain;             /* outliers */
    case 5: return i % 11 == (uint64_t)rank ? NAN : plain;          /* NaN from one rank */
    case 6: return i % 7 == 0 ? copysignf(INFINITY, plain) : plain; /* both infinities, which give NaN */
    default: return float_of((uint32_t)random);                     /* any bits */
    }
}

/* What is known of an element's sum: exactly, the magnitudes in it, and the greatest ones in the ranks' blocks. */
typedef struct exact {
    double sum, all, around;
} exact;

/* How far hoop_allreduce(3) lets a result be from the exact one. Beyond the range of float32 there is no bound. */
static int
is_bounded(const trial *t, exact e, double got)
{
    double n = t->size, by = t->op == HOOP_AVG ? n : 1, adding = n * e.all * 0x1p-23;
    if (!(e.all < 3.2e38))
        return 1;
    if (t->wire == HOOP_WIRE_E4M3)
        return fabs(got - e.sum / by) <=
               (e.all * 0x1p-3 + e.all * 0x1p-8 + e.around * 0x1p-16 + adding) / by + (n / by + 1) * 0x1p-136;
    return fabs(got - e.sum / by) <= (e.all * 0x1p-7 + adding) / by + (n / by + 1) * 0x1p-134;
}

/*
 * Who gets results: one rank, which has as many as it likes, or as many as each; or all ranks, so that they are rounded once
 * more, unless each of two hosts has summed both. The first never go over two levels, the second where hosts are equal.
 */
typedef enum audience { ONE, ONE_OF_EQUALS, ALL } audience;

static void
wanted(const trial *t, uint64_t first, uint64_t count, audience who, float *all, exact *exacts)
{
    int together = who == ALL || (who == ONE_OF_EQUALS && t->size % t->together == 0) ? t->together : 1;
    float host[BLOCK];
    memset(exacts, 0, count * sizeof(*exacts));
    for (int r = 0; r < t->size; r++) {
        float values[BLOCK];
        for (uint64_t i = 0; i < count; i++)
            values[i] = element(t, r, first + i);
        double most = greatest(values, count);
        for (uint64_t i = 0; i < count; i++) {
            exacts[i].sum += (double)values[i];
            exacts[i].all += fabs((double)values[i]);
            exacts[i].around += most;
        }
        for (uint64_t i = 0; i < count; i++)
            host[i] = r % together ? host[i] + values[i] : values[i];
        if ((r + 1) % together && r + 1 < t->size)
            continue;
        round_block(t, host, count);
        for (uint64_t i = 0; i < count; i++)
            all[i] = r >= together ? all[i] + host[i] : host[i];
    }
    for (uint64_t i = 0; i < count && t->op == HOOP_AVG; i++)
        all[i] /= (float)t->size;
    if (who == ALL && (together == 1 || t->size > 2 * together))
        round_block(t, all, count);
}

static int
block_is_right(trial *t, const float *got, uint64_t first, uint64_t count, audience who)
{
    float want[BLOCK];
    exact exacts[BLOCK];
    wanted(t, first, count, who, want, exacts);
    for (uint64_t i = 0; i < count; i++) {
        if (isnan(want[i]) ? isnan(got[i])
                           : bits_of(got[i]) == bits_of(want[i]) && is_bounded(t, exacts[i], (double)got[i]))
            continue;
        party_note("data %d: element %llu is %a, not %a", t->data, (unsigned long long)(first + i), (double)got[i],
                   (double)want[i]);
        t->noted = 1;
        return 0;
    }
    return 1;
}

static int
are_identical(const trial *t, const float *got, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum = tap_mix(sum ^ bits_of(got[i]));
    return party_agrees(t->comm, sum);
}

/* Of what all ranks get, each judges some of the blocks, and all must hold the same bits. */
static int
are_right(trial *t, const float *got, uint64_t first, uint64_t count, audience who)
{
    uint64_t step = who == ALL ? (uint64_t)t->size : 1, at = who == ALL ? (uint64_t)t->rank * BLOCK : 0;
    for (; at < count; at += step * BLOCK)
        if (!block_is_right(t, got + at, first + at, count - at < BLOCK ? count - at : BLOCK, who))
            return 0;
    return who != ALL || are_identical(t, got, count);
}

static void
fill(trial *t, uint64_t count)
{
    if (t->known_of != t->data || t->known_seed != t->seed)
        t->known = 0;
    t->known_of = t->data, t->known_seed = t->seed;
    for (; t->known < count; t->known++)
        t->elements[t->known] = element(t, t->rank, t->known);
    memcpy(t->send, t->elements, count * sizeof(float));
    memset(t->recv, 0xa5, count * sizeof(float));
}

/* How many calls have travelled in the trial's type by now; none must have travelled in another. */
static uint64_t
narrowed(const trial *t)
{
    hoop_stats stats = {.size = sizeof(stats)};
    hoop_comm_stats(t->comm, &stats);
    if (stats.narrowed_e4m3 != (t->wire == HOOP_WIRE_E4M3 ? stats.narrowed : 0))
        return UINT64_MAX;
    return stats.narrowed;
}

static int
reduces(trial *t, uint64_t count, int in_place)
{
    float *result = in_place ? t->send : t->recv;
    fill(t, count);
    return hoop_allreduce(t->send, result, count, HOOP_FLOAT32, t->op, t->comm) == HOOP_SUCCESS &&
           are_right(t, result, 0, count, ALL);
}

static int
scatters(trial *t, uint64_t each)
{
    fill(t, each * (uint64_t)t->size);
    return hoop_reduce_scatter(t->send, t->recv, each, HOOP_FLOAT32, t->op, t->comm) == HOOP_SUCCESS &&
           are_right(t, t->recv, each * (uint64_t)t->rank, each, ONE_OF_EQUALS);
}

static int
scatters_uneven(trial *t, uint64_t each)
{
    size_t counts[64], first = 0, all = 0;
    for (int r = 0; r < t->size; r++) {
        counts[r] = r == 1 ? 0 : (size_t)each + 17 * (size_t)r;
        first = r == t->rank ? all : first;
        all += counts[r];
    }
    fill(t, all);
    return hoop_reduce_scatterv(t->send, t->recv, counts, NULL, HOOP_FLOAT32, t->op, t->comm) == HOOP_SUCCESS &&
           are_right(t, t->recv, first, counts[t->rank], ONE);
}

/* Tensors that are cut anywhere become one operation. */
static int
in_a_group(trial *t, uint64_t count)
{
    int good = hoop_group_start(t->comm) == HOOP_SUCCESS;
    fill(t, count);
    for (uint64_t at = 0, n; at < count; at += n) {
        n = 1 + tap_mix(t->seed + at) % 5000;
        n = n < count - at ? n : count - at;
        good &= hoop_allreduce(t->send + at, t->recv + at, n, HOOP_FLOAT32, t->op, t->comm) == HOOP_SUCCESS;
    }
    return (hoop_group_end(t->comm) == HOOP_SUCCESS) & good && are_right(t, t->recv, 0, count, ALL);
}

/* An option for it, and one against it, whatever the setting is. */
static int
by_option(trial *t, uint64_t count)
{
    const hoop_wire wires[] = {HOOP_WIRE_FLOAT32, t->wire};
    for (int k = 0; k < 2; k++) {
        hoop_call_options options = {.size = sizeof(options), .wire = wires[k]};
        hoop_work *work = NULL;
        uint64_t before = narrowed(t);
        fill(t, count);
        if (hoop_iallreduce_with(t->send, t->recv, count, HOOP_FLOAT32, t->op, t->comm, &options, &work) ||
            hoop_work_wait(work, -1) || narrowed(t) - before != (uint64_t)k)
            return 0;
    }
    return are_right(t, t->recv, 0, count, ALL);
}

/* Whether no element has lost anything: the sums of the results, and what is left of all ranks, are those of the elements. */
static int
nothing_is_lost(const trial *t, const double *all, const float *left, uint64_t count, int calls)
{
    double *rest = calloc(count, sizeof(double));
    int good = rest != NULL;
    for (uint64_t i = 0; i < count && good; i++)
        rest[i] = (double)left[i];
    good = good && hoop_allreduce(rest, rest, count, HOOP_FLOAT64, HOOP_SUM, t->comm) == HOOP_SUCCESS;
    for (uint64_t i = 0; i < count && good; i++) {
        double sum = 0, most = 0;
        for (int r = 0; r < t->size; r++) {
            double value = (double)element(t, r, i);
            sum += value;
            most += fabs(value);
        }
        good = fabs(all[i] + rest[i] - calls * sum) <= calls * t->size * (most * 0x1p-22 + 1e-37);
        if (!good)
            party_note("element %llu: %g and %g left are not %g", (unsigned long long)i, all[i], rest[i], calls * sum);
    }
    free(rest);
    return good;
}

/*
 * With a residual a rank sends its element and what was taken away before, and the owner of a part, who rounds the sum, keeps
 * what that takes away. So after many calls the sums of the results and of what is left in all residuals are those of the
 * elements, but for the rounding of float32.
 */
static int
keeps_residuals(trial *t, uint64_t count, int in_place)
{
    enum { CALLS = 20 };
    float *left = calloc(count, sizeof(float));
    double *all = calloc(count, sizeof(double)), worst = 0;
    hoop_call_options options = {sizeof(options), HOOP_ORDER_SETTING, t->wire, left, count};
    int good = left && all;
    float *result = in_place ? t->send : t->recv;
    for (int k = 0; k < CALLS && good; k++) {
        hoop_work *work = NULL;
        fill(t, count);
        good = hoop_iallreduce_with(t->send, result, count, HOOP_FLOAT32, t->op, t->comm, &options, &work) ==
                   HOOP_SUCCESS &&
               hoop_work_wait(work, -1) == HOOP_SUCCESS;
        for (uint64_t i = 0; i < count; i++)
            all[i] += (double)result[i] * (t->op == HOOP_AVG ? t->size : 1);
    }
    for (uint64_t i = 0; i < count && good; i++) {
        double sum = 0, most = 0;
        for (int r = 0; r < t->size; r++) {
            double value = (double)element(t, r, i);
            sum += value;
            most += fabs(value);
        }
        /* what one call leaves behind, of all ranks, is all that is missing after twenty; in a block beside a huge element it
         * is more than the element */
        if (t->wire == HOOP_WIRE_BFLOAT16 || t->data == 0)
            worst = fmax(worst, fabs(all[i] - CALLS * sum) / (most + (t->wire == HOOP_WIRE_BFLOAT16 ? 1e-30 : 1e-2)));
    }
    if (good && worst > (t->wire == HOOP_WIRE_BFLOAT16 ? 2.2 / 256 : 2.2 / 16)) {
        party_note("after %d calls the sums are off by %g of the magnitudes", CALLS, worst);
        t->noted = 1;
        good = 0;
    }
    if (good && t->data == 0 && !nothing_is_lost(t, all, left, count, CALLS))
        good = !(t->noted = 1);
    free(left), free(all);
    return good;
}

/* Of infinities and NaN nothing is kept. */
static int
stays_finite(trial *t, uint64_t count)
{
    float *left = calloc(count, sizeof(float));
    hoop_call_options options = {sizeof(options), HOOP_ORDER_SETTING, t->wire, left, count};
    int good = left != NULL;
    for (int k = 0; k < 2 && good; k++) {
        hoop_work *work = NULL;
        fill(t, count);
        good = hoop_iallreduce_with(t->send, t->recv, count, HOOP_FLOAT32, t->op, t->comm, &options, &work) ==
                   HOOP_SUCCESS &&
               hoop_work_wait(work, -1) == HOOP_SUCCESS;
    }
    for (uint64_t i = 0; i < count && good; i++)
        good = isfinite(left[i]) != 0;
    free(left);
    return good;
}

/* What is short, of another type or another operation keeps all its bits. */
static int
leaves_others(trial *t)
{
    uint64_t before = narrowed(t), count = 100003;
    double *values = (double *)(void *)t->send;
    fill(t, SMALL);
    if (hoop_allreduce(t->send, t->recv, SMALL, HOOP_FLOAT32, HOOP_MAX, t->comm))
        return 0;
    for (uint64_t i = 0; i < SMALL; i++) {
        float most = element(t, 0, i);
        for (int r = 1; r < t->size; r++)
            most = fmaxf(most, element(t, r, i));
        if (t->recv[i] != most)
            return 0;
    }
    for (uint64_t i = 0; i < count; i++)
        values[i] = 1 + ldexp(1, -40);
    if (hoop_allreduce(values, values, count, HOOP_FLOAT64, HOOP_SUM, t->comm))
        return 0;
    for (uint64_t i = 0; i < count; i++)
        if (values[i] != t->size * (1 + ldexp(1, -40)))
            return 0;
    for (uint64_t i = 0; i < SMALL; i++)
        t->send[i] = 1.0009765625F;
    if (hoop_allreduce(t->send, t->recv, SMALL, HOOP_FLOAT32, HOOP_SUM, t->comm) ||
        t->recv[0] != 1.0009765625F * (float)t->size)
        return 0;
    return narrowed(t) == before;
}

static int
tells(const trial *t, const char *what, int good)
{
    if (!good && !t->noted)
        party_note("data %d: %s", t->data, what);
    return good;
}

static trial
trial_of(int rank, int size, uint64_t seed)
{
    trial t = {.rank = rank, .size = size, .together = 1, .seed = seed, .wire = HOOP_WIRE_BFLOAT16};
    if (strcmp(getenv("HOOP_WIRE_DTYPE"), "e4m3") == 0)
        t.wire = HOOP_WIRE_E4M3;
    t.send = malloc((MOST + 65536) * sizeof(float)), t.recv = malloc((MOST + 65536) * sizeof(float));
    t.elements = malloc((MOST + 65536) * sizeof(float));
    return t;
}

/* The bits of a sum that is asked to travel narrower, and of one that is not. No residual is touched. */
static int
keeps_bits(trial *t, uint64_t count)
{
    hoop_call_options options = {sizeof(options), HOOP_ORDER_SETTING, t->wire, NULL, count};
    float *plain = calloc(count, sizeof(float));
    uint64_t before = narrowed(t);
    hoop_work *work = NULL;
    options.residual = t->send + count;
    t->send[count] = 1;
    memset(t->send + count + 1, 0, (count - 1) * sizeof(float));
    fill(t, count);
    int good = plain && hoop_iallreduce_with(t->send, t->recv, count, HOOP_FLOAT32, t->op, t->comm, &options, &work) ==
                            HOOP_SUCCESS;
    good = good && hoop_work_wait(work, -1) == HOOP_SUCCESS;
    options = (hoop_call_options){.size = sizeof(options), .wire = HOOP_WIRE_FLOAT32};
    good = good &&
           hoop_iallreduce_with(t->send, plain, count, HOOP_FLOAT32, t->op, t->comm, &options, &work) == HOOP_SUCCESS;
    good = good && hoop_work_wait(work, -1) == HOOP_SUCCESS;
    good = good && memcmp(plain, t->recv, count * sizeof(float)) == 0 && narrowed(t) == before;
    free(plain);
    return good && t->send[count] == 1 && t->send[count + 1] == 0;
}

static int
in_memory(int rank, int size, void *arg)
{
    trial t = trial_of(rank, size, *(const uint64_t *)arg);
    int good = party_create(&t.comm) == HOOP_SUCCESS;
    for (t.data = 0; t.data < 5 && good; t.data++) {
        t.op = t.data % 2 ? HOOP_AVG : HOOP_SUM;
        good = tells(&t, "in memory", keeps_bits(&t, 300001));
    }
    good = hoop_comm_destroy(t.comm) == HOOP_SUCCESS && good;
    free(t.send), free(t.recv), free(t.elements);
    return !good;
}

typedef struct job {
    uint64_t seed;
    int host;   /* ranks of one; 0: all are on one */
    int levels; /* over two levels */
} job;

static int
ranks_fn(int rank, int size, void *arg)
{
    static const uint64_t counts[] = {150001, 196608, 262147, MOST - 1};
    const job *j = arg;
    trial t = trial_of(rank, size, j->seed);
    if (j->host)
        party_set_host(rank, j->host);
    if (j->levels)
        t.together = j->host;
    else
        setenv("HOOP_LEVELS", "0", 1);
    int good = party_create(&t.comm) == HOOP_SUCCESS;
    for (t.data = (int)(t.seed % 2); t.data < DATA && good; t.data += 2, t.seed++) {
        uint64_t count = counts[(t.seed + (uint64_t)t.data) % 4], before = narrowed(&t);
        t.op = (t.data / 2 + size) % 2 ? HOOP_AVG : HOOP_SUM;
        good = tells(&t, "allreduce", reduces(&t, count, 0)) && tells(&t, "in place", reduces(&t, count, 1)) &&
               tells(&t, "reduce_scatter", scatters(&t, count / (uint64_t)size)) &&
               tells(&t, "reduce_scatterv", scatters_uneven(&t, 300007 / (uint64_t)size)) &&
               tells(&t, "in a group", in_a_group(&t, 200017)) &&
               tells(&t, "it is not counted", narrowed(&t) > before + 4) &&
               tells(&t, "by an option", by_option(&t, 150001));
    }
    for (int k = 0; k < 3 && good; k++) {
        t.data = k == 1 ? 4 : 0; /* outliers, or ordinary numbers */
        t.op = k ? HOOP_AVG : HOOP_SUM;
        good = tells(&t, "residuals", keeps_residuals(&t, 150001, k == 1));
    }
    t.data = 6;
    good = good && tells(&t, "a residual of what is no number", stays_finite(&t, 150001));
    t.data = 0;
    good = good && tells(&t, "others", leaves_others(&t));
    good = hoop_comm_destroy(t.comm) == HOOP_SUCCESS && good;
    free(t.send), free(t.recv), free(t.elements);
    return !good;
}

static void
test_ring(int size, int host, int levels, const char *channels)
{
    party p;
    job j = {tap_random() >> 8, host, levels}; /* the seed's parity chooses half of the data */
    setenv("HOOP_SHM", host ? "1" : "0", 1);
    setenv("HOOP_CHANNELS", channels, 1);
    party_open(&p);
    int good = party_run(&p, size, ranks_fn, &j, 90) == 0;
    for (int rank = 0; rank < size && !good; rank++)
        diag("rank %d: %s", rank, p.guest[rank].note);
    ok(good, "%s, %d ranks, %d a host%s, %s channel%s: every bit is known", getenv("HOOP_WIRE_DTYPE"), size,
       host ? host : size, levels ? ", over two levels" : "", channels, *channels == '1' ? "" : "s");
    party_close(&p);
}

static void
test_memory(int size)
{
    party p;
    uint64_t seed = tap_random() >> 8;
    setenv("HOOP_SHM", "1", 1);
    party_open(&p);
    int good = party_run(&p, size, in_memory, &seed, 90) == 0;
    for (int rank = 0; rank < size && !good; rank++)
        diag("rank %d: %s", rank, p.guest[rank].note);
    ok(good, "%s, %d ranks on one host: no bit is lost in memory", getenv("HOOP_WIRE_DTYPE"), size);
    party_close(&p);
}

int
main(void)
{
    static const int sizes[] = {2, 3, 5, 6};
    plan_lazy();
    tap_limit(480);
    tap_seed();
    for (int i = 0; i < 8; i++) {
        int size = sizes[i / 2];
        setenv("HOOP_WIRE_DTYPE", i % 2 ? "e4m3" : "bfloat16", 1);
        test_ring(size, size == 2 ? 1 : 2, size >= 5, "1");
        test_ring(size, 0, 0, size == 3 ? "2" : "1");
        if (size == 3)
            test_ring(size, 2, 1, "1");
        if (size == 6) /* two hosts, which add up whole vectors; the second one is smaller */
            test_ring(size, 4, 1, "1");
        test_memory(size);
    }
    return tap_failures() != 0;
}
