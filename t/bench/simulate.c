/* SPDX-License-Identifier: MIT */
/*
 * The model of bench/model.h against arithmetic: closed forms of rings, chords and stragglers where everything can be
 * computed by hand, the law of the window, monotony, byte counts of every shape and number of ranks, and what jitter
 * may and may not change.
 */
#include "bench/model.h"
#include "t/tap/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { SLICE = 256 << 10, ELEM = 4 };

/* 1 Gbit/s, 30 us a hop, 10 GB/s of reduction; S slices, a window that never holds anybody up. */
static model_options
usual(int ranks, uint64_t bytes, uint32_t slices)
{
    model_options o;
    model_defaults(&o);
    o.ranks = ranks;
    o.count = bytes / ELEM;
    o.algorithm = HP_ALG_RING;
    o.plan.slices = slices;
    o.plan.slice_bytes = SLICE;
    o.window = 4 * slices;
    o.alpha = 30e-6;
    o.beta = 8e-9;
    o.gamma = 0.1e-9;
    return o;
}

static model_result
run(const model_options *o)
{
    model_result result = {0};
    const char *why = NULL;
    if (model_run(o, &result, &why) != 0)
        bail("%d ranks, %ju elements: %s", o->ranks, (uintmax_t)o->count, why);
    return result;
}

static double
time_of(const model_options *o)
{
    return run(o).time;
}

static bool
is_near(double wanted, double seen, double share, const char *what)
{
    bool near = fabs(seen - wanted) <= share * wanted;
    if (!ok(near, "%s", what))
        diag("wanted %.9f s, seen %.9f s", wanted, seen);
    return near;
}

static double
wire_of(const model_options *o, double bytes)
{
    return (bytes + o->header) * o->beta;
}

static double
larger(double a, double b)
{
    return a > b ? a : b;
}

/* --- closed forms --- */

/*
 * One loop of a ring of n: a row's slices leave one after the other, and a row begins when its first slice has come,
 * been reduced (rows 1 ... n-1), and the row before has left.
 */
static double
one_loop(const model_options *o, uint32_t slices)
{
    double b = (double)(o->count * ELEM) / o->ranks / slices, wire = wire_of(o, b), start = 0;
    for (int row = 1; row <= 2 * o->ranks - 3; row++)
        start += larger(slices * wire, wire + o->alpha + (row < o->ranks ? b * o->gamma : 0));
    return start + slices * wire + o->alpha;
}

static void
test_two_ranks(void)
{
    model_options o = usual(2, 64 << 10, 4);
    double wire = wire_of(&o, 32 << 10), reduce = (32 << 10) * o.gamma;
    is_near(2 * (wire + o.alpha) + reduce, time_of(&o), 1e-9, "two ranks, a slice: two hops and a reduction");
    o.overhead = 5e-6;
    is_near(2 * (wire + o.alpha) + reduce + 4 * o.overhead, time_of(&o), 1e-9,
            "a frame's overhead at both ends: load, receive and send, receive");
    o.overhead = 0;
    o.header = 0;
    o.alpha = o.gamma = 0;
    is_near((64 << 10) * o.beta, time_of(&o), 1e-9, "nothing but bandwidth: the wire's time");
    o = usual(2, 2 * 4 * SLICE, 4);
    is_near(one_loop(&o, 4), time_of(&o), 1e-9, "four slices overlap");
    o.alpha = 20e-3;
    is_near(one_loop(&o, 4), time_of(&o), 1e-9, "and do not where a hop is longer than they are");
    o = usual(2, 2 * 4 * SLICE * 32, 4);
    is_int(32, (intmax_t)run(&o).loops, "32 loops");
    model_options one = usual(2, 2 * 4 * SLICE, 4);
    is_near(32 * one_loop(&one, 4), time_of(&o), 1e-9, "a loop begins when the last slice of the one before has come");
    o.window = 8;
    is_near(2 * 32 * 4 * wire_of(&o, SLICE) + o.alpha, time_of(&o), 0.01,
            "with the library's window: the wire's time and a hop, within 1 %");
}

static void
test_rings(void)
{
    static const int sizes[] = {3, 4, 7, 8, 16, 64};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        model_options o = usual(sizes[i], (uint64_t)sizes[i] * 4 * SLICE, 4);
        char text[40];
        snprintf(text, sizeof(text), "a ring of %d", sizes[i]);
        is_near(one_loop(&o, 4), time_of(&o), 1e-9, text);
        o = usual(sizes[i], (uint64_t)sizes[i] * 1024, 4);
        snprintf(text, sizeof(text), "a ring of %d, small slices", sizes[i]);
        is_near(one_loop(&o, 1), time_of(&o), 1e-9, text);
    }
}

/* Round k carries 2^k vectors; before them the vector is copied, after them seven are added. */
static void
test_spread(void)
{
    model_options o = usual(8, 1024, 1);
    double time = 8 * 1024 * o.gamma;
    o.algorithm = HP_ALG_SPREAD;
    o.window = 8;
    for (int k = 0; k < 3; k++)
        time += wire_of(&o, 1024 << k) + o.alpha;
    is_near(time, time_of(&o), 1e-9, "whole vectors over chords, eight ranks: three hops");
}

/* Every round carries one vector and adds it. */
static void
test_doubling(void)
{
    model_options o = usual(8, 64 << 10, 1);
    double bytes = 64 << 10;
    o.algorithm = HP_ALG_DOUBLING;
    o.window = 8;
    is_near(bytes * o.gamma + 3 * (wire_of(&o, bytes) + o.alpha + bytes * o.gamma), time_of(&o), 0.05,
            "doubling, eight ranks: three hops");
}

/* Two ranks of a host share its wire, and each hands on its half through memory. */
static void
test_levels(void)
{
    model_options o = usual(4, 64 << 10, 1);
    double half = 32 << 10, memory;
    o.algorithm = -1;
    o.host_ranks = 2;
    o.plan.levels = 1;
    o.memory_alpha = 2e-6;
    o.memory_beta = 0.5e-9;
    memory = (half + o.header) * o.memory_beta + o.memory_alpha;
    is_near(2 * (memory + wire_of(&o, half) + half * o.gamma) + o.alpha, time_of(&o), 1e-3,
            "two levels, two hosts of two ranks: one hop over the wire, and two through memory");
    is_int(HP_ALG_LEVELS, (int)run(&o).algorithm, "... as the plan chose");
}

/* A part of n: log2 n rounds of half of what is left each; then the same back. */
static void
test_halves(void)
{
    model_options o = usual(8, 64 << 10, 1);
    double time = 0, bytes = 64 << 10, load = bytes * o.gamma;
    o.algorithm = HP_ALG_HALVES;
    for (int k = 1; k <= 3; k++)
        time += 2 * (wire_of(&o, bytes / (1 << k)) + o.alpha) + bytes / (1 << k) * o.gamma;
    time += 2 * load; /* into the stage, and out of it */
    /* the announcement's frame is on the wire while the vector is loaded */
    is_near(time, time_of(&o), 0.05, "halving and doubling, eight ranks: six hops");
}

/* --- laws --- */

static void
test_window(void)
{
    int locked = 0, finished = 0, wanted = 0;
    for (int n = 2; n <= 5; n++)
        for (uint32_t slices = 1; slices <= 8; slices++)
            for (uint32_t window = 1; window <= slices + 2; window++) {
                model_options o = usual(n, (uint64_t)n * slices * 2 * SLICE, slices);
                o.window = window;
                wanted += window <= slices;
                locked += window <= slices && run(&o).locked;
                finished += window > slices && !run(&o).locked;
            }
    is_int(wanted, locked, "every window up to S locks");
    is_int(4 * 8 * 2, finished, "every window above S finishes");
}

static void
test_monotony(void)
{
    model_options base = usual(4, 16 << 20, 4), o;
    double last = 0;
    int grows = 1;
    base.overhead = 1e-6;
    base.window = 8;
    for (int i = 0; i < 8; i++) {
        double *knobs[] = {&o.alpha, &o.beta, &o.gamma, &o.overhead, &o.delay};
        for (int k = 0; k < 5; k++) {
            double before, factor = 1 << i;
            o = base;
            o.delay = 1e-6;
            *knobs[k] *= factor;
            before = time_of(&o);
            *knobs[k] *= 2;
            grows &= time_of(&o) >= before * (1 - 1e-12);
        }
    }
    ok(grows, "more latency, less bandwidth, more work: never faster");
    for (uint64_t bytes = 4, t = 1; bytes <= 256 << 20; bytes *= 4, t++) {
        o = base;
        o.count = bytes / ELEM;
        grows &= time_of(&o) >= last;
        last = time_of(&o);
    }
    ok(grows, "more bytes: never faster");
    last = INFINITY;
    for (uint32_t window = 5; window <= 64; window++) {
        o = base;
        o.window = window;
        o.delay = 1e-3;
        grows &= time_of(&o) <= last * (1 + 1e-12);
        last = time_of(&o);
    }
    ok(grows, "a larger window: never slower");
    last = INFINITY;
    for (uint32_t slices = 1; slices <= 16; slices *= 2) {
        o = usual(8, 64 << 20, slices);
        o.delay = 2e-3;
        grows &= time_of(&o) <= last;
        last = time_of(&o);
    }
    ok(grows, "more slices hide more of a device's latency");
}

static void
test_bytes(void)
{
    static const int algorithms[] = {HP_ALG_RING, HP_ALG_HALVES};
    int exact = 1, laws = 1;
    for (int n = 2; n <= 33; n++)
        for (int s = 0; s < 2; s++) {
            uint64_t bytes = (uint64_t)n * 64 << 10;
            model_options o = usual(n, bytes, 4);
            o.algorithm = algorithms[s];
            exact &= run(&o).sent == 2 * bytes / (uint64_t)n * (uint64_t)(n - 1);
            laws &= !run(&o).locked;
            o.count = 1 + (uint64_t)n * 1000 / 7;
            laws &= !run(&o).locked;
            o.algorithm = HP_ALG_SPREAD;
            laws &= !run(&o).locked;
        }
    ok(exact, "2N(n-1)/n bytes a rank, ring and halves, 2 to 33 ranks");
    ok(laws, "every shape finishes at every size, and sender and receiver agree on every frame");
}

/* --- people and accidents --- */

static void
test_stragglers(void)
{
    model_options o = usual(8, 64 << 20, 4);
    double even = time_of(&o);
    o.window = 8;
    o.straggler = 3;
    o.slowness = 2;
    is_near(2 * even, time_of(&o), 0.01, "one rank at half the speed: everybody is");
    o = usual(8, 64 << 10, 4);
    even = time_of(&o);
    o.late = 5;
    o.lateness = 1;
    ok(time_of(&o) >= 1 && time_of(&o) <= 1 + even, "one rank a second late: all are, and the rest overlaps");
}

static void
test_jitter(void)
{
    model_options o = usual(8, 64 << 20, 4);
    double quiet, one, again, other;
    o.window = 8;
    quiet = time_of(&o);
    o.jitter = 1;
    one = time_of(&o);
    again = time_of(&o);
    o.seed++;
    other = time_of(&o);
    ok(one > quiet && one < 2 * quiet, "jitter costs something");
    ok(one == again, "one seed, one result");
    ok(one != other, "another seed, another result");
}

static void
test_sockets(void)
{
    model_options o = usual(4, 64 << 20, 4);
    double bare;
    o.window = 5;
    o.jitter = 1;
    bare = time_of(&o);
    o.buffer = 4 << 20;
    ok(time_of(&o) < bare, "sockets that hold bytes help a narrow window");
    o = usual(4, 64 << 20, 4);
    o.window = 8;
    bare = time_of(&o);
    o.taken = 1;
    o.alpha = 5e-3;
    ok(time_of(&o) > bare, "slots that wait for the receiver's word, a long way away, cost time");
    ok(!run(&o).locked, "and do not lock");
}

/* --- the program --- */

static int
run_program(const char *arguments, char *out, size_t size)
{
    char command[512];
    FILE *pipe;
    size_t got;
    snprintf(command, sizeof(command), "%s/bench/simulate %s 2>&1", getenv("abs_top_builddir"), arguments);
    pipe = popen(command, "r");
    if (!pipe)
        bail("no pipe");
    got = fread(out, 1, size - 1, pipe);
    out[got] = 0;
    return WEXITSTATUS(pclose(pipe));
}

static void
test_program(void)
{
    char out[4096];
    int ranks;
    unsigned long long bytes;
    double time = 0;
    model_options o = usual(2, 1 << 20, 4);
    if (!getenv("abs_top_builddir")) {
        skip(5, "run by hand");
        return;
    }
    o.window = 8;
    is_int(0, run_program("--ranks 2 --bytes 1m --slice-bytes 256k --overhead 0 --csv --shape ring", out, sizeof(out)),
           "bench/simulate");
    ok(strchr(out, '\n') && sscanf(strchr(out, '\n') + 1, "%d,%llu,ring,%*u,%*u,%*u,%lf", &ranks, &bytes, &time) == 3,
       "prints a line of values");
    is_near(time_of(&o), time, 1e-6, "the model's");
    is_int(1, run_program("--ranks 4 --slices 4 --window 4", out, sizeof(out)), "a ring that locks");
    is_int(2, run_program("--jitter 101", out, sizeof(out)), "a value that makes no sense");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    test_two_ranks();
    test_rings();
    test_spread();
    test_doubling();
    test_levels();
    test_halves();
    test_window();
    test_monotony();
    test_bytes();
    test_stragglers();
    test_jitter();
    test_sockets();
    test_program();
    return 0;
}
