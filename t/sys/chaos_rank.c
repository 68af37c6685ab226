/* SPDX-License-Identifier: MIT */
/*
 * chaos_rank: a guest of t/sys/chaos.t. It does operations, and what the script has for it; after a loss it shrinks the
 * ring, and it grows it until all are in it whom the script wants there. Each ring begins with a meeting, in which every
 * rank learns who the others are, and compares what they know. What a rank does next depends on that alone, so that all
 * do the same.
 */
#include "t/sys/chaos.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"
#include "t/tools/ledger.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    GRACE = 1, /* seconds in which every call ends, when a rank has died (hoop_faults(7)) */
    AWAY =
        10, /* peer_timeout_ms, in seconds, where ranks are behind a proxy: so long one may come back that has died, if
                   no connection to it was in use */
    BACK = 5, /* a server that was started again waits so long for ranks that it misses */
    OWN = 12,
    EACH = 5,         /* descriptors of a communicator; and for each rank and stripe */
    GROWTH = 16 << 10 /* KiB that a process may have more than after its first phase */
};

/* What a rank tells the others in a meeting. */
typedef struct card {
    uint64_t guest, phase, epoch, least, most;
    uint64_t completed; /* of the ring that was shrunk to this one; of another one UINT64_MAX */
} card;

typedef struct life {
    const chaos_run *run;
    const chaos_script *script;
    chaos_ring ring;
    uint32_t here;      /* the guests of the ring, as bits */
    int phase, epoch;   /* the epoch as it must be */
    int failed;         /* the ring has, or has not met */
    int operation;      /* of this guest in this phase */
    uint64_t drawn;     /* operations on this ring */
    uint32_t armed;     /* faults of this phase, as bits */
    uint64_t completed; /* by the ring before, if that was shrunk */
    int descriptors;    /* before the first ring */
    int resident;       /* KiB after the first phase */
} life;

/* --- faults --- */

static void
arm(int number, unsigned delay_us)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number};
    struct itimerspec when = {.it_value = {.tv_nsec = 1 + 1000L * (long)delay_us}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, NULL) != 0)
        chaos_wrong("no timer");
}

/* A connection through the guest's door is cut, so many bytes from now on. */
static void
cut(const life *l, const chaos_fault *f)
{
    proxy_door *d = &l->run->proxy->door[l->script->slot[f->guest]];
    int back = (int)(f->delay_us % 2);
    if (atomic_load(&d->act) != PROXY_PASS && !atomic_load(&d->done))
        return;
    atomic_store(&d->act, PROXY_PASS);
    atomic_store(&d->back, back);
    atomic_store(&d->at, atomic_load(&d->passed[back]) + f->delay_us);
    atomic_store(&d->done, 0);
    atomic_store(&d->act, f->length_ms % 2 ? PROXY_RESET : PROXY_CUT);
}

static void
provoke(const life *l, const chaos_fault *f)
{
    chaos_place *me = &chaos_shared->place[chaos_guest];
    chaos_say("fault %d in %u us", (int)f->kind, f->delay_us);
    if (f->kind == CHAOS_KILL || f->kind == CHAOS_FREEZE)
        atomic_store(&me->lost_at, chaos_now() + 1000LL * f->delay_us);
    switch (f->kind) {
    case CHAOS_KILL: arm(SIGKILL, f->delay_us); break;
    case CHAOS_STOP:
    case CHAOS_FREEZE:
        atomic_store(&me->stop_ms, f->kind == CHAOS_STOP ? (int)f->length_ms : -1);
        arm(SIGSTOP, f->delay_us);
        break;
    case CHAOS_CUT: cut(l, f); break;
    case CHAOS_HUSH:
        atomic_store(&chaos_shared->hush_ms, (int)f->length_ms);
        kill(atomic_load(&chaos_shared->server), SIGSTOP);
        break;
    case CHAOS_DEATH:
        atomic_store(&chaos_shared->hush_ms, (int)f->length_ms);
        kill(atomic_load(&chaos_shared->server), SIGKILL);
        break;
    }
}

/* This guest's faults of such a moment, once each. */
static void
face(life *l, chaos_moment moment)
{
    const chaos_phase *p = &l->script->phase[l->phase];
    for (int k = 0; k < p->faults; k++) {
        const chaos_fault *f = &p->fault[k];
        if (f->guest != chaos_guest || f->moment != moment || l->armed >> k & 1 ||
            (moment == CHAOS_OPERATION && f->operation != l->operation))
            continue;
        l->armed |= 1U << k;
        provoke(l, f);
    }
}

/* --- what is promised --- */

/* The moment of the last loss until now, or 0. */
static long long
last_loss(void)
{
    long long last = 0, now = chaos_now();
    for (int guest = 0; guest < CHAOS_GUESTS; guest++) {
        long long at = atomic_load(&chaos_shared->place[guest].lost_at);
        last = at > last && at <= now ? at : last;
    }
    return last;
}

/* Nothing takes longer after a loss than is promised, besides the time in which others are stopped. */
static double
patience(const life *l)
{
    int slow = l->script->scene == CHAOS_FROZEN ? 40 : l->script->scene == CHAOS_RETURNS ? BACK : 0;
    slow = l->script->proxied ? AWAY + 2 : slow;
    return GRACE + slow + chaos_stopped(l->script, l->phase) + tap_room();
}

static int
is_lost(int guest)
{
    long long at = guest < 0 ? 0 : atomic_load(&chaos_shared->place[guest].lost_at);
    return at && at <= chaos_now();
}

/* One that has died before it could tell which rank it was. */
static int
is_lost_unseen(void)
{
    int lost = 0;
    for (int guest = 0; guest < CHAOS_GUESTS; guest++)
        lost |= is_lost(guest);
    return lost;
}

/* Whose process the sentence names. */
static int
guest_of_process(const char *text)
{
    const char *at = strstr(text, ", pid ");
    int pid = at ? atoi(at + 6) : 0;
    for (int guest = 0; guest < CHAOS_GUESTS && pid; guest++)
        if (atomic_load(&chaos_shared->place[guest].pid) == pid)
            return guest;
    return -1;
}

static void
check_cause(hoop_result result, const hoop_error *e, int guest, int frozen)
{
    int epoch = atomic_load(&chaos_shared->place[chaos_guest].epoch);
    if (result == HOOP_ERR_ABORTED && e->code == HOOP_ERR_PEER_LOST) /* the ring has learned why by now */
        result = e->code;
    int is_code = result == HOOP_ERR_PEER_LOST || (frozen && result == HOOP_ERR_TIMEOUT);
    if (result == HOOP_ERR_ABORTED && strstr(e->text, "called hoop_comm_shrink") && is_lost_unseen() &&
        atomic_load(&chaos_shared->apart[epoch % CHAOS_EPOCHS]))
        return;
    guest = guest < 0 ? guest_of_process(e->text) : guest;
    if (!is_code || e->rank < 0 || (guest >= 0 ? !is_lost(guest) : !is_lost_unseen()))
        chaos_wrong("result %d names rank %d, guest %d, which is not lost: %s", (int)result, e->rank, guest, e->text);
}

void
chaos_blame(const chaos_ring *ring, hoop_result result)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(ring->comm, &e);
    chaos_say("%d: %s", (int)result, e.text);
    check_cause(result, &e, e.rank >= 0 && e.rank < ring->size ? ring->guest[e.rank] : -1, 0);
}

/* The ring has failed in a call. Its ranks may not have met. */
static void
fail(life *l, hoop_result result)
{
    hoop_error e = {.size = sizeof(e)};
    long long last = last_loss();
    double late = (double)(chaos_now() - last) * 1e-9;
    hoop_comm_error(l->ring.comm, &e);
    /* While a part of the ring is made, ranks have their new numbers already. */
    int has_seat = e.phase != HOOP_PHASE_BRINGUP && e.rank >= 0 && e.rank < CHAOS_SLOTS;
    int guest = has_seat ? atomic_load(&chaos_shared->seat[l->epoch % CHAOS_EPOCHS][e.rank]) - 1 : -1;
    chaos_say("%d of guest %d after %.3f s: %s", (int)result, guest, late, e.text);
    l->failed = 1;
    if (is_lost(chaos_guest)) /* it was stopped for long */
        return;
    check_cause(result, &e, guest, l->script->scene == CHAOS_FROZEN);
    if (late > patience(l))
        chaos_wrong("a call has ended %.3f s after the loss", late);
}

/* --- rings --- */

static void
take_seat(life *l)
{
    l->ring.rank = hoop_comm_rank(l->ring.comm);
    l->ring.size = hoop_comm_size(l->ring.comm);
    l->drawn = 0;
    atomic_store(&chaos_shared->place[chaos_guest].epoch, l->epoch);
    if (hoop_comm_epoch(l->ring.comm) != (uint64_t)l->epoch || l->ring.rank < 0 || l->ring.size > CHAOS_SLOTS)
        chaos_wrong("rank %d of %d, epoch %llu instead of %d", l->ring.rank, l->ring.size,
                    (unsigned long long)hoop_comm_epoch(l->ring.comm), l->epoch);
    atomic_store(&chaos_shared->seat[l->epoch % CHAOS_EPOCHS][l->ring.rank], chaos_guest + 1);
}

static int
seat_of(const chaos_ring *ring, int guest)
{
    int rank = 0;
    while (ring->guest[rank] != guest)
        rank++;
    return rank;
}

/* Old ranks are in their order, and who is missing is lost; newcomers are behind them. */
static void
check_roster(const life *l, const card *cards, uint32_t here)
{
    int next = 0, newcomers = 0;
    for (int rank = 0; rank < l->ring.size; rank++) {
        int guest = (int)cards[rank].guest, is_old = l->here >> guest & 1;
        int seat = is_old ? seat_of(&l->ring, guest) : CHAOS_SLOTS;
        if (seat < next || (is_old && newcomers))
            chaos_wrong("guest %d is rank %d, out of order", guest, rank);
        next = seat + is_old;
        newcomers += !is_old;
    }
    for (int guest = 0; guest < CHAOS_GUESTS; guest++)
        if ((l->here & ~here) >> guest & 1 && !is_lost(guest))
            chaos_wrong("guest %d is not in the ring, and lives", guest);
}

static void
check_cards(const life *l, const card *cards)
{
    const card *mine = &cards[l->ring.rank];
    uint64_t least = UINT64_MAX, most = 0;
    for (int rank = 0; rank < l->ring.size; rank++) {
        const card *c = &cards[rank];
        if (c->epoch != mine->epoch || c->least != mine->least || c->most != mine->most)
            chaos_wrong("rank %d has epoch %llu and history %llu to %llu, this one %llu and %llu to %llu", rank,
                        (unsigned long long)c->epoch, (unsigned long long)c->least, (unsigned long long)c->most,
                        (unsigned long long)mine->epoch, (unsigned long long)mine->least,
                        (unsigned long long)mine->most);
        least = c->completed < least ? c->completed : least;
        most = c->completed > most ? c->completed : most;
    }
    if (l->completed != UINT64_MAX && (least != mine->least || most != mine->most))
        chaos_wrong("the history is %llu to %llu, and the ranks have completed %llu to %llu",
                    (unsigned long long)mine->least, (unsigned long long)mine->most, (unsigned long long)least,
                    (unsigned long long)most);
}

/* The first operation of a ring. A newcomer learns in it how far the others are. */
static void
meet(life *l)
{
    card mine = {.guest = (uint64_t)chaos_guest, .phase = (uint64_t)l->phase, .epoch = (uint64_t)l->epoch};
    card cards[CHAOS_SLOTS];
    uint32_t here = 0;
    mine.completed = l->completed;
    hoop_comm_history(l->ring.comm, &mine.least, &mine.most);
    memset(cards, 0xa5, sizeof(cards));
    chaos_say("a meeting of %d", l->ring.size);
    hoop_result result = hoop_allgather(&mine, cards, sizeof(mine) / sizeof(uint64_t), HOOP_UINT64, l->ring.comm);
    if (result != HOOP_SUCCESS) {
        fail(l, result);
        return;
    }
    check_cards(l, cards);
    for (int rank = 0; rank < l->ring.size; rank++)
        here |= 1U << cards[rank].guest;
    check_roster(l, cards, here);
    for (int rank = 0; rank < l->ring.size; rank++) {
        l->ring.guest[rank] = (int)cards[rank].guest;
        l->ring.slot[rank] = l->script->slot[cards[rank].guest];
        l->phase = (int)cards[rank].phase > l->phase ? (int)cards[rank].phase : l->phase;
    }
    l->here = here;
    l->failed = 0;
}

/* 0: the others have gone on without this guest, which was stopped for that long. */
static int
shrink(life *l)
{
    hoop_comm *old = l->ring.comm;
    chaos_place *me = &chaos_shared->place[chaos_guest];
    face(l, CHAOS_SHRINK);
    chaos_say("shrink");
    l->completed = hoop_comm_completed(old);
    hoop_result result = hoop_comm_shrink(old, &l->ring.comm);
    long long took = chaos_now() - last_loss();
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(NULL, &e);
    hoop_comm_destroy(old);
    if (result == HOOP_ERR_STALE_EPOCH && is_lost(chaos_guest))
        return 0;
    if (result != HOOP_SUCCESS)
        chaos_wrong("shrink: %d %s", (int)result, e.text);
    if ((double)took * 1e-9 > patience(l) + tap_room())
        chaos_wrong("the shrink has ended %.3f s after the last loss", (double)took * 1e-9);
    if (took > atomic_load(&me->worst))
        atomic_store(&me->worst, took);
    atomic_fetch_add(&me->shrinks, 1);
    l->epoch++;
    take_seat(l);
    meet(l);
    return 1;
}

/* A call that fails has lost a newcomer, or an old rank; then the ring is shrunk first, whichever it was. */
static void
grow(life *l)
{
    hoop_comm *old = l->ring.comm;
    face(l, CHAOS_GROW);
    chaos_say("grow");
    hoop_result result = hoop_comm_grow(old, &l->ring.comm);
    if (result != HOOP_SUCCESS) {
        hoop_error e = {.size = sizeof(e)};
        hoop_comm_error(NULL, &e);
        chaos_say("grow: %d %s", (int)result, e.text);
        check_cause(result, &e, -1, 0);
        chaos_part();
        l->ring.comm = old;
        l->failed = 1;
    } else if (l->ring.comm == old) {
        party_nap(0.01);
    } else {
        hoop_comm_destroy(old);
        l->epoch++;
        l->completed = UINT64_MAX;
        take_seat(l);
        meet(l);
    }
}

/* The first ring, or a place in one that grows; a newcomer that was in a ring which lost a rank meanwhile asks again. */
static void
enter(life *l)
{
    int newcomer = chaos_guest >= CHAOS_SLOTS;
    face(l, CHAOS_CREATE);
    do {
        chaos_say("create");
        hoop_result result = party_create(&l->ring.comm);
        hoop_error e = {.size = sizeof(e)};
        hoop_comm_error(NULL, &e);
        if (result != HOOP_SUCCESS)
            chaos_say("create: %d %s", (int)result, e.text);
        if (result != HOOP_SUCCESS && !newcomer)
            chaos_wrong("create: %d %s", (int)result, e.text);
        else if (result != HOOP_SUCCESS)
            check_cause(result, &e, -1, 0);
    } while (!l->ring.comm);
    l->epoch = (int)hoop_comm_epoch(l->ring.comm);
    l->completed = UINT64_MAX;
    take_seat(l);
    meet(l);
}

/* --- a life --- */

static void
operate(life *l)
{
    uint64_t draw = tap_mix(l->script->seed ^ tap_mix((uint64_t)l->epoch << 32 | l->drawn++));
    l->ring.moment = (long long)l->epoch << 32 | (long long)l->drawn << 2;
    face(l, CHAOS_OPERATION);
    l->operation++;
    /* a split awaits a rank that is stopped, or has ended behind a proxy, until the bring-up time-out */
    int is_settled = l->here == l->script->phase[l->phase].here;
    int served =
        l->phase < l->script->phases && (is_settled || !(l->script->proxied || l->script->scene == CHAOS_FROZEN));
    hoop_result result = chaos_operate(&l->ring, draw, served);
    if (result != HOOP_SUCCESS)
        fail(l, result);
    else
        atomic_fetch_add(&chaos_shared->place[chaos_guest].done, 1);
}

/* Resident memory in KiB. */
static int
resident(void)
{
    int pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %d", &pages) != 1)
        chaos_wrong("no /proc/self/statm");
    fclose(f);
    return pages * (int)(sysconf(_SC_PAGESIZE) / 1024);
}

/* A ring has some descriptors for itself, and some for each rank; what the rings before had is given back. */
static void
check_growth(life *l)
{
    int descriptors = count_descriptors(0) - l->descriptors, kib = resident();
    chaos_say("%d descriptors, %ld pieces of memory, %d KiB resident", descriptors, ledger_alive(), kib);
    l->resident = l->resident ? l->resident : kib;
    if (kib > l->resident + GROWTH && !tap_sanitized())
        chaos_wrong("%d KiB are resident, and were %d after the first phase", kib, l->resident);
    if (descriptors > OWN + EACH * atoi(l->script->stripes) * l->ring.size)
        chaos_wrong("%d descriptors are open in a ring of %d", descriptors, l->ring.size);
}

/* Nothing is left; the test compares the memory of guests with few rings and with many. */
static void
check_rest(const life *l)
{
    int descriptors = count_descriptors(0) - l->descriptors;
    atomic_store(&chaos_shared->place[chaos_guest].pieces, (int)ledger_alive());
    chaos_say("%d descriptors, %ld pieces of memory, %d KiB resident", descriptors, ledger_alive(), resident());
    if (descriptors)
        chaos_wrong("%d descriptors are left", descriptors);
}

/* Until the ring has the guests whom the script wants. */
static int
settle(life *l)
{
    const chaos_phase *p = &l->script->phase[l->phase];
    uint32_t lost = chaos_lost(l->script, l->phase), growing = chaos_lost_at(l->script, l->phase, CHAOS_GROW);
    while (l->failed || l->here != p->here) {
        if (l->failed) {
            if (!shrink(l))
                return 0;
        } else if (l->here & lost & ~growing) {
            operate(l);
        } else if (p->here & ~l->here) {
            grow(l);
        } else {
            face(l, CHAOS_GROW);
            operate(l);
        }
    }
    return 1;
}

static int
live_phase(life *l)
{
    int phase = l->phase;
    l->operation = 0;
    l->armed = 0;
    chaos_place *me = &chaos_shared->place[chaos_guest];
    atomic_store(&me->phase, phase);
    for (int now = atomic_load(&chaos_shared->phase); now < phase;)
        atomic_compare_exchange_weak(&chaos_shared->phase, &now, phase);
    if (!settle(l))
        return 0;
    atomic_fetch_add(&me->settled, 1);
    for (int i = 0; i < l->script->phase[phase].quiet && !l->failed; i++)
        operate(l);
    /* A rank that has gone on may be lost, while this one's split is not over yet. */
    if (l->failed && atomic_load(&chaos_shared->phase) == phase)
        chaos_wrong("the ring has failed, and nobody is lost");
    check_growth(l);
    l->phase = phase + 1;
    return 1;
}

/* The server is killed, and the ring goes on. Then a rank is: every call of the others ends, and none finds a server. */
static void
outlive_server(life *l)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *next = NULL;
    int victim = (int)(tap_mix(l->script->seed) % (uint64_t)l->ring.size);
    if (l->ring.rank == 0)
        kill(atomic_load(&chaos_shared->server), SIGKILL);
    for (int i = 0; i < 20 && !l->failed; i++)
        operate(l);
    if (l->failed)
        chaos_wrong("the ring has failed without a server");
    if (l->ring.rank == victim && l->ring.size > 1)
        provoke(l, &(chaos_fault){.kind = CHAOS_KILL, .delay_us = (unsigned)(l->script->seed % 20000)});
    while (l->ring.size > 1 && !l->failed)
        operate(l);
    long long began = chaos_now();
    hoop_comm_error(l->ring.comm, &e);
    if (l->failed && !(e.flags & HOOP_ERROR_BEST_EFFORT))
        chaos_wrong("without a server a guess is none: %s", e.text);
    hoop_result result = l->failed ? hoop_comm_shrink(l->ring.comm, &next) : HOOP_ERR_RENDEZVOUS;
    double took = (double)(chaos_now() - began) * 1e-9;
    hoop_comm_error(NULL, &e);
    if (result != HOOP_ERR_RENDEZVOUS || took > 3 + tap_room())
        chaos_wrong("a shrink without a server: %d after %.3f s: %s", (int)result, took, e.text);
}

static int
first_phase(const chaos_script *s)
{
    int phase = 0;
    while (phase < s->phases && !(s->phase[phase].come >> chaos_guest & 1))
        phase++;
    return chaos_guest < CHAOS_SLOTS ? 0 : phase;
}

static void
set_up(life *l)
{
    const chaos_script *s = l->script;
    l->ring.proxied = s->proxied;
    l->phase = first_phase(s);
    if (s->proxied) {
        setenv("HOOP_LINK_REPAIR", "all", 1);
        setenv("HOOP_PEER_TIMEOUT_MS", "10000", 1);
        proxy_stand_before(l->run->proxy, s->slot[chaos_guest]);
    }
    if (s->host)
        party_set_host(chaos_guest, s->host);
    setenv("HOOP_SHM", s->shared ? "1" : "0", 1);
    setenv("HOOP_STRIPES", s->stripes, 1);
    setenv("HOOP_CHANNELS", s->channels, 1);
    setenv("HOOP_CHECKSUM", s->checksum, 1);
    setenv("HOOP_SIZE", "8", 1);
    if (chaos_guest >= CHAOS_SLOTS) {
        unsetenv("HOOP_SIZE");
        unsetenv("HOOP_RANK");
        setenv("HOOP_JOIN", "1", 1);
    }
    if (s->scene == CHAOS_FROZEN) {
        setenv("HOOP_OP_TIMEOUT_MS", "6000", 1);
        setenv("HOOP_PEER_TIMEOUT_MS", "60000", 1);
        setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "14000", 1);
    }
}

int
chaos_live(int guest, int size, void *arg)
{
    life l = {.run = arg, .script = ((const chaos_run *)arg)->script};
    (void)size;
    chaos_guest = guest;
    set_up(&l);
    atomic_store(&chaos_shared->place[guest].pid, (int)getpid());
    atomic_store(&chaos_shared->place[guest].phase, l.phase);
    while (atomic_load(&chaos_shared->phase) < l.phase)
        party_nap(0.002);
    l.descriptors = count_descriptors(0);
    for (enter(&l); l.phase < l.script->phases;)
        if (!live_phase(&l))
            return 0;
    if (l.script->scene == CHAOS_UNSERVED)
        outlive_server(&l);
    chaos_say("the end");
    chaos_gather(&l.ring, 3);
    hoop_result result = hoop_comm_destroy(l.ring.comm);
    if (result != (l.failed ? HOOP_ERR_PEER_LOST : HOOP_SUCCESS))
        chaos_wrong("the last ring: %d", (int)result);
    check_rest(&l);
    return 0;
}
