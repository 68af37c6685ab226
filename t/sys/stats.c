/* SPDX-License-Identifier: MIT */
/*
 * hoop_comm_stats: counts are exact for sizes round a power of two at 2, 3 and 5 ranks; a wait is counted where its
 * reason is; a failed communicator, another thread, and programs with a smaller or a larger struct may ask.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 90, MS = 1000000, MOST = 65537 };

static const uint64_t MUCH_NS = 80000ULL * MS; /* what a busy machine may add to any time */

static party p;

static hoop_stats
ask(const hoop_comm *comm)
{
    hoop_stats s;
    memset(&s, 0xa5, sizeof(s));
    s.size = sizeof(s);
    if (hoop_comm_stats(comm, &s) != HOOP_SUCCESS || s.size != sizeof(s))
        s.operations = UINT64_MAX;
    return s;
}

/* 1, or a note of the rank and 0. */
static int
holds(int truth, const char *what, uint64_t found, uint64_t least, uint64_t most)
{
    if (!truth)
        party_note("%s: %llu instead of %llu to %llu", what, (unsigned long long)found, (unsigned long long)least,
                   (unsigned long long)most);
    return truth;
}

static int
is(const char *what, uint64_t wanted, uint64_t found)
{
    return holds(wanted == found, what, found, wanted, wanted);
}

static int
between(const char *what, uint64_t least, uint64_t found, uint64_t most)
{
    return holds(least <= found && found <= most, what, found, least, most);
}

/* --- counts --- */

typedef struct traffic {
    uint64_t sent, received;
} traffic;

/* What a rank must have sent and received, by the definitions of the collectives: b bytes a block. */
static traffic
through_all(int size, uint64_t b)
{
    uint64_t others = (uint64_t)(size - 1) * b;
    return (traffic){others, others};
}

/* From rank 0 on to the last, or back. */
static traffic
through_chain(int rank, int size, uint64_t b, int out)
{
    traffic t = {rank < size - 1 ? b : 0, rank > 0 ? b : 0};
    return out ? t : (traffic){t.received, t.sent};
}

static int
grew(const char *what, hoop_stats *before, const hoop_comm *comm, uint64_t operations, traffic t)
{
    hoop_stats now = ask(comm);
    int good = is(what, operations, now.operations - before->operations) &&
               is(what, t.sent, now.bytes_sent - before->bytes_sent) &&
               is(what, t.received, now.bytes_received - before->bytes_received);
    *before = now;
    return good;
}

static int
count_sizes(int rank, int size, void *arg)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, MOST - 2, MOST - 1, MOST};
    uint8_t *x = calloc((size_t)size, MOST), *y = calloc((size_t)size, MOST);
    hoop_comm *comm = party_join(0);
    hoop_stats s = ask(comm);
    int good = is("at first", 0, s.operations + s.bytes_sent + s.bytes_received + s.messages + s.inside_ns) &&
               is("at first", 1, s.slowest_rank == -1),
        next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && good; i++) {
        size_t n = sizes[i];
        hoop_allgather(x, y, n, HOOP_UINT8, comm);
        good = good && grew("allgather", &s, comm, 1, through_all(size, n));
        hoop_reduce_scatter(x, y, n, HOOP_UINT8, HOOP_MAX, comm);
        good = good && grew("reduce_scatter", &s, comm, 1, through_all(size, n));
        hoop_alltoall(x, y, n, HOOP_UINT8, comm);
        good = good && grew("alltoall", &s, comm, 1, through_all(size, n));
        hoop_broadcast(x, y, n, HOOP_UINT8, 0, comm);
        good = good && grew("broadcast", &s, comm, 1, through_chain(rank, size, n, 1));
        hoop_reduce(x, y, n, HOOP_UINT8, HOOP_MAX, size - 1, comm);
        good = good && grew("reduce", &s, comm, 1, through_chain(rank, size, n, 1));
        hoop_barrier(comm); /* while a rank is in it, a message may come ahead */
        hoop_group_start(comm);
        hoop_send(x, n, HOOP_UINT8, next, 0, comm);
        hoop_recv(y, n, HOOP_UINT8, previous, 0, comm);
        hoop_group_end(comm);
        good = good && is("messages", 2, ask(comm).messages - s.messages);
        good = good && grew("a barrier, and a message each way", &s, comm, 1, (traffic){n, n});
    }
    free(x);
    free(y);
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* Both ways of an allreduce together move twice the array to each other rank. */
static int
count_allreduce(int rank, int size, void *arg)
{
    enum { N = 1 << 20 };
    static float x[N];
    hoop_comm *comm = party_join(0);
    hoop_stats s = ask(comm);
    uint64_t all[2] = {0, 0}, bytes = 2 * (uint64_t)(size - 1) * sizeof(x);
    int good = hoop_allreduce(x, x, N, HOOP_FLOAT32, HOOP_SUM, comm) == HOOP_SUCCESS;
    hoop_stats now = ask(comm);
    all[0] = now.bytes_sent - s.bytes_sent;
    all[1] = now.bytes_received - s.bytes_received;
    good = good && hoop_allreduce(all, all, 2, HOOP_UINT64, HOOP_SUM, comm) == HOOP_SUCCESS;
    good = good && is("all sent", bytes, all[0]) && is("all received", bytes, all[1]);
    hoop_comm_destroy(comm);
    return !good;
}

/* 1 once the rank has compared its clock with the server's: it calls until the answer is there. */
static int
has_clock(int rank, hoop_comm *comm)
{
    for (int i = 0, all = 0; i < 1000 && !all; i++) {
        int32_t known = ask(comm).clock_error_ns != UINT64_MAX;
        if (rank == 0)
            party_nap(0.05);
        if (hoop_allreduce(&known, &all, 1, HOOP_INT32, HOOP_MIN, comm) != HOOP_SUCCESS)
            return 0;
        if (all)
            return 1;
    }
    party_note("the server has not told the time");
    return 0;
}

/*
 * Of 2,100 operations, some of them fused, two have their times of call kept, by the clock of the server, which is the
 * same one.
 */
static int
count_entries(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(0);
    int x[4] = {0}, good = 1;
    uint64_t start = (uint64_t)(party_clock() * 1e9);
    for (int i = 0; i < 525 && good; i++) {
        good = hoop_group_start(comm) == HOOP_SUCCESS;
        for (int k = 0; k < 3; k++)
            hoop_allreduce(&x[k], &x[k], 1, HOOP_INT32, HOOP_SUM, comm);
        good = good && hoop_group_end(comm) == HOOP_SUCCESS && hoop_barrier(comm) == HOOP_SUCCESS;
    }
    uint64_t end = (uint64_t)(party_clock() * 1e9);
    good = good && is("operations", 2100, ask(comm).operations) && has_clock(rank, comm);
    hoop_stats s = ask(comm);
    good = good && is("entries", 2, s.entries) && between("their error", 1, s.entered_error_ns, 20000ULL * MS) &&
           between("their times", 2 * (start - MS), s.entered_ns + s.entered_error_ns, UINT64_MAX) &&
           between("their times", 0, s.entered_ns, 2 * (end + MS) + s.entered_error_ns);
    hoop_comm_destroy(comm);
    return !good;
}

/* --- waits --- */

/* The late rank comes a second after the others have said that they enter. */
static void
await_entry(int rank, int late, int size)
{
    if (rank != late) {
        party_mark();
    } else {
        party_await_marks(size - 1);
        party_nap(1);
    }
}

static int
await_late_peer(int rank, int size, void *arg)
{
    int x = 1, late = size - 1, good = 1;
    hoop_comm *comm = party_join(10);
    hoop_stats before = ask(comm);
    await_entry(rank, late, size);
    good = hoop_allreduce(&x, &x, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS;
    hoop_stats s = ask(comm);
    uint64_t waited = s.waited_peer_ns - before.waited_peer_ns;
    if (rank == late) {
        good = good && between("the late rank was outside", 195 * MS, before.outside_ns + 200 * MS, MUCH_NS);
    } else {
        good = good && between("waited for it", 150 * MS, waited, MUCH_NS) &&
               between("was inside", waited, s.inside_ns - before.inside_ns, MUCH_NS) &&
               between("for the slowest", 150 * MS, s.slowest_ns, s.waited_peer_ns + s.waited_link_ns);
        if (size == 2)
            good = good && is("which is", (uint64_t)late, (uint64_t)s.slowest_rank);
    }
    party_nap(0.05);
    s = ask(comm);
    good = good && between("outside", 50 * MS, s.outside_ns, MUCH_NS);
    hoop_comm_destroy(comm);
    return !good;
}

/* While rank 0 waits in an operation, another of its threads asks. It may have waited in those before. */
static void *
ask_meanwhile(void *arg)
{
    hoop_comm *comm = arg;
    hoop_stats s = ask(comm);
    uint64_t before = s.waited_peer_ns;
    for (tap_wait w = {0}; s.waited_peer_ns < before + 100 * MS && tap_waits(&w); s = ask(comm))
        party_nap(0.02);
    party_mark();
    int good = between("waits already", 100 * MS, s.waited_peer_ns, MUCH_NS) &&
               between("is inside", 100 * MS, s.inside_ns, MUCH_NS) && is("is not outside", 0, s.outside_ns) &&
               is("for rank", 1, (uint64_t)s.slowest_rank);
    return good ? comm : NULL;
}

static int
ask_while_waiting(int rank, int size, void *arg)
{
    int x = 1, good = 1;
    hoop_comm *comm = party_join(10);
    pthread_t thread;
    void *result = comm;
    if (rank == 0)
        good = pthread_create(&thread, NULL, ask_meanwhile, comm) == 0;
    else
        good = party_await_marks(1);
    good = hoop_allreduce(&x, &x, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS && good;
    if (rank == 0)
        pthread_join(thread, &result);
    hoop_comm_destroy(comm);
    return !good || !result;
}

enum { MUCH = 64 << 20 }; /* more than sockets hold */

static int
is_stopped(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "r");
    if (stat && fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (stat)
        fclose(stat);
    return state == 'T';
}

/*
 * Rank 1 stops in the middle of a broadcast, once it has a part; a child of it lets it go on. It drives the communicator
 * itself: a thread of the library would take the rest while the fork lasts.
 */
static int
stop_in_broadcast(uint8_t *x, hoop_comm *comm)
{
    hoop_work *work;
    pid_t self = getpid();
    if (hoop_comm_fd(comm) < 0 || hoop_ibroadcast(x, x, MUCH, HOOP_UINT8, 0, comm, &work) != HOOP_SUCCESS)
        return 0;
    while (ask(comm).bytes_received < 1 << 20)
        hoop_comm_progress(comm);
    pid_t child = fork();
    if (child == 0) {
        for (tap_wait w = {0}; !is_stopped(self) && tap_waits(&w);)
            party_nap(0.01);
        party_nap(1.5);
        kill(self, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    waitpid(child, NULL, 0);
    return hoop_work_wait(work, -1) == HOOP_SUCCESS;
}

static int
await_full_link(int rank, int size, void *arg)
{
    uint8_t *x = calloc(MUCH, 1);
    hoop_comm *comm = party_join(10);
    hoop_stats before = ask(comm);
    int good = rank == 1 ? stop_in_broadcast(x, comm) : hoop_broadcast(x, x, MUCH, HOOP_UINT8, 0, comm) == HOOP_SUCCESS;
    hoop_stats s = ask(comm);
    if (rank == 0)
        good = good && between("waited for the link", 200 * MS, s.waited_link_ns - before.waited_link_ns, MUCH_NS) &&
               is("of rank", 1, (uint64_t)s.slowest_rank);
    free(x);
    hoop_comm_destroy(comm);
    return !good;
}

/* Rank 1 receives late what does not travel ahead. */
static int
await_receive(int rank, int size, void *arg)
{
    uint8_t *x = calloc(MUCH, 1);
    hoop_comm *comm = party_join(10);
    hoop_stats before = ask(comm);
    await_entry(rank, 1, 2);
    int good = (rank == 0 ? hoop_send(x, MUCH, HOOP_UINT8, 1, 0, comm) : hoop_recv(x, MUCH, HOOP_UINT8, 0, 0, comm)) ==
               HOOP_SUCCESS;
    hoop_stats s = ask(comm);
    if (rank == 0)
        good = good && between("waited for the link", 200 * MS, s.waited_link_ns - before.waited_link_ns, MUCH_NS) &&
               is("messages", 1, s.messages);
    free(x);
    hoop_comm_destroy(comm);
    return !good;
}

/* --- TCP, and memory --- */

static int
measure(int rank, int size, void *arg)
{
    enum { N = 1 << 18 };
    static float x[N];
    int shares = arg != NULL, good = 1;
    setenv("HOOP_SHM", shares ? "1" : "0", 1);
    hoop_comm *comm = party_join(0);
    for (int i = 0; i < 10; i++)
        good = good && hoop_allreduce(x, x, N, HOOP_FLOAT32, HOOP_SUM, comm) == HOOP_SUCCESS;
    party_nap(1.1);
    hoop_barrier(comm); /* reads them */
    hoop_stats s = ask(comm);
    good = good && is("medium", (uint64_t)shares, (uint64_t)s.shares_memory);
    if (shares)
        good = good && is("round trip", 0, s.rtt_us) && is("rate", 0, s.delivery_rate);
    else
        good =
            good && between("round trip", 1, s.rtt_us, 30000000) && between("rate", 1000, s.delivery_rate, UINT64_MAX);
    hoop_barrier(comm);
    hoop_comm_destroy(comm);
    return !good;
}

/* Two hosts of two ranks: memory within a host, TCP between them. */
static int
measure_levels(int rank, int size, void *arg)
{
    static float x[1 << 18];
    int good = 1;
    party_set_host(rank, 2);
    setenv("HOOP_SHM", "1", 1);
    hoop_comm *comm = party_join(0);
    for (int i = 0; i < 10; i++)
        good = good && hoop_allreduce(x, x, 1 << 18, HOOP_FLOAT32, HOOP_SUM, comm) == HOOP_SUCCESS;
    party_nap(1.1);
    hoop_broadcast(x, x, 1, HOOP_FLOAT32, 0, comm); /* reads them */
    hoop_barrier(comm);
    hoop_stats s = ask(comm);
    good = good && between("over levels", 10, s.levels, 12) && between("round trip", 1, s.rtt_us, 30000000) &&
           between("rate", 1000, s.delivery_rate, UINT64_MAX);
    hoop_barrier(comm);
    hoop_comm_destroy(comm);
    return !good;
}

/* Ranks and server share a machine, and so a clock: the offset is 0, and what is stated is less wrong than it says. */
static int
compare_clocks(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(10);
    for (int i = 0; i < 4; i++) { /* each waits twice for more than a second: it asks, and knows */
        if (rank == i % 2)
            party_nap(1.1);
        hoop_barrier(comm);
    }
    hoop_stats s = ask(comm);
    uint64_t offset = (uint64_t)llabs(s.clock_offset_ns);
    int good = between("error", 1, s.clock_error_ns, MUCH_NS) && between("offset", 0, offset, s.clock_error_ns);
    hoop_barrier(comm);
    hoop_comm_destroy(comm);
    return !good;
}

/* Rank 1 calls short operations seldom, and the others always wait for it: it has the same figures as they have. */
static int
measure_straggler(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(0);
    int good = 1;
    for (int i = 0; i < 50 && good; i++) {
        if (rank == 1)
            party_nap(0.05);
        good = hoop_barrier(comm) == HOOP_SUCCESS;
    }
    hoop_stats s = ask(comm);
    good = good && between("clock's error", 1, s.clock_error_ns, UINT64_MAX - 1);
    hoop_comm_destroy(comm);
    return !good;
}

/* --- who may ask --- */

static int
ask_after_failure(int rank, int size, void *arg)
{
    int x = 1;
    hoop_comm *comm = party_join(7);
    hoop_work *work;
    if (rank == 0) {
        hoop_iallreduce(&x, &x, 1, HOOP_INT32, HOOP_SUM, comm, &work);
        for (tap_wait w = {0}; ask(comm).waited_peer_ns < 50 * MS && tap_waits(&w);)
            party_nap(0.02);
        hoop_comm_abort(comm, "the test wants a failed communicator");
        party_mark();
    } else {
        party_await_marks(1);
        hoop_allreduce(&x, &x, 1, HOOP_INT32, HOOP_SUM, comm);
    }
    hoop_stats s = ask(comm), later = (party_nap(0.02), ask(comm));
    int good = between("operations", 7, s.operations, rank == 0 ? 7 : 8) &&
               is("inside stands still", s.inside_ns, later.inside_ns) &&
               is("waits stand still", s.waited_peer_ns, later.waited_peer_ns) &&
               between("outside goes on", s.outside_ns + 20 * MS, later.outside_ns, UINT64_MAX);
    if (rank == 0)
        good = good && between("waited until then", 50 * MS, s.waited_peer_ns, MUCH_NS);
    hoop_comm_destroy(comm);
    return !good;
}

typedef struct asker {
    const hoop_comm *comm;
    atomic_int stop;
    int bad;
} asker;

static int
is_behind(const hoop_stats *a, const hoop_stats *b)
{
    return a->operations < b->operations || a->messages < b->messages || a->bytes_sent < b->bytes_sent ||
           a->bytes_received < b->bytes_received || a->inside_ns < b->inside_ns ||
           a->waited_peer_ns < b->waited_peer_ns || a->waited_link_ns < b->waited_link_ns ||
           a->waited_reduction_ns < b->waited_reduction_ns || a->entries < b->entries;
}

static void *
ask_on(void *arg)
{
    asker *a = arg;
    hoop_stats last = ask(a->comm);
    while (!atomic_load(&a->stop)) {
        hoop_stats s = ask(a->comm);
        a->bad += is_behind(&s, &last) || s.operations == UINT64_MAX;
        last = s;
    }
    return NULL;
}

static int
ask_from_another_thread(int rank, int size, void *arg)
{
    static float x[5000];
    hoop_comm *comm = party_join(0);
    asker a = {.comm = comm};
    pthread_t thread;
    int good = pthread_create(&thread, NULL, ask_on, &a) == 0, next = (rank + 1) % size, got, tag = 3;
    for (int i = 0; i < 300 && good; i++) {
        hoop_work *work[3] = {NULL};
        good = hoop_iallreduce(x, x, 5000, HOOP_FLOAT32, HOOP_MAX, comm, &work[0]) == HOOP_SUCCESS &&
               hoop_isend(&rank, 1, HOOP_INT32, next, tag, comm, &work[1]) == HOOP_SUCCESS &&
               hoop_irecv(&got, 1, HOOP_INT32, (rank + size - 1) % size, tag, comm, &work[2]) == HOOP_SUCCESS;
        for (int k = 0; k < 3; k++)
            good = good && hoop_work_wait(work[k], -1) == HOOP_SUCCESS;
        good = good && hoop_barrier(comm) == HOOP_SUCCESS;
    }
    atomic_store(&a.stop, 1);
    pthread_join(thread, NULL);
    hoop_stats s = ask(comm);
    good = good && is("went back", 0, (uint64_t)a.bad) && is("operations", 600, s.operations) &&
           is("messages", 600, s.messages);
    hoop_comm_destroy(comm);
    return !good;
}

static void
sizes_of_the_struct(void)
{
    struct {
        hoop_stats s;
        uint64_t newer;
    } of;
    hoop_comm *comm;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        bail("no ring of one");
    hoop_barrier(comm);
    memset(&of, 0xa5, sizeof(of));
    of.s.size = offsetof(hoop_stats, messages);
    is_int(HOOP_SUCCESS, hoop_comm_stats(comm, &of.s), "an older struct");
    is_int(1, (long long)of.s.operations, "its fields are filled");
    is_int(offsetof(hoop_stats, messages), (long long)of.s.size, "its size stays");
    ok(of.s.messages == 0xa5a5a5a5a5a5a5a5U, "nothing is written behind it");
    of.s.size = sizeof(of);
    is_int(HOOP_SUCCESS, hoop_comm_stats(comm, &of.s), "a newer struct");
    is_int(sizeof(of.s), (long long)of.s.size, "its size says how much of it is filled");
    ok(of.newer == 0xa5a5a5a5a5a5a5a5U && of.s.slowest_rank == -1 && of.s.clock_error_ns == UINT64_MAX,
       "the rest is as it was");
    of.s.size = offsetof(hoop_stats, messages) - 1;
    of.s.operations = 99;
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_comm_stats(comm, &of.s), "a struct that is too small");
    is_int(99, (long long)of.s.operations, "... is as it was");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_comm_stats(comm, NULL), "no struct");
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    ok(strstr(e.text, "stats is NULL"), "is the communicator's error: %s", e.text);
    of.s.size = sizeof(of.s);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_comm_stats(NULL, &of.s), "no communicator");
    hoop_comm_destroy(comm);
}

/* Without a recorder nobody takes the time of a call; the rest is counted. */
static int
without_recorder(int rank, int size, void *arg)
{
    int x = 1;
    setenv("HOOP_RECORDER", "0", 1);
    hoop_comm *comm = party_join(3);
    await_entry(rank, 1, 2);
    int good = hoop_allreduce(&x, &x, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS;
    hoop_stats s = ask(comm);
    good = good && is("operations", 4, s.operations) && is("inside", 0, s.inside_ns) && is("outside", 0, s.outside_ns);
    if (rank == 0)
        good = good && between("waited", 50 * MS, s.waited_peer_ns, MUCH_NS);
    hoop_comm_destroy(comm);
    return !good;
}

int
main(void)
{
    static const int ranks[] = {2, 3, 5};
    plan(33);
    sizes_of_the_struct();
    party_open(&p);
    for (int i = 0; i < 3; i++) {
        party_expect(&p, ranks[i], count_sizes, NULL, LIMIT,
                     "operations, messages and bytes of every size are counted");
        party_expect(&p, ranks[i], count_allreduce, NULL, LIMIT, "an allreduce's bytes");
        party_expect(&p, ranks[i], await_late_peer, NULL, LIMIT, "who waits for a late rank has waited for it");
    }
    party_expect(&p, 3, count_entries, NULL, LIMIT, "every 1,024th entry");
    party_expect(&p, 2, ask_while_waiting, NULL, LIMIT, "a wait counts while it lasts");
    party_expect(&p, 2, await_full_link, NULL, LIMIT, "a rank that takes nothing any more");
    party_expect(&p, 2, await_receive, NULL, LIMIT, "a receive that comes late");
    party_expect(&p, 3, measure, NULL, LIMIT, "TCP's figures");
    party_expect(&p, 3, measure, &p, LIMIT, "no figures of TCP where memory carries the data");
    party_expect(&p, 4, measure_levels, NULL, LIMIT, "what goes over TCP where hosts have several ranks");
    party_expect(&p, 2, compare_clocks, NULL, LIMIT, "clocks are compared with the server's");
    party_expect(&p, 3, measure_straggler, NULL, LIMIT, "the figures of a rank that never waits long");
    party_expect(&p, 2, ask_after_failure, NULL, LIMIT, "a failed communicator");
    party_expect(&p, 3, ask_from_another_thread, NULL, LIMIT, "another thread asks, and no figure goes back");
    party_expect(&p, 2, without_recorder, NULL, LIMIT, "without a flight recorder");
    party_close(&p);
    return 0;
}
