/* SPDX-License-Identifier: MIT */
/* Messages that cannot come: every rank that waits gets a sentence that names the pair and the call, in bounded time. */
#include "hoop.h"
#include "t/sys/told.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_MS = 5000, LARGE = 4 << 20 };
enum { PLOTS = 4, FIRST_LIMITED = 3 }; /* scenes */

static int32_t array[LARGE / 4];

typedef struct wanted {
    hoop_result result;
    int rank; /* -1: any */
    double least, most;
    const char *word, *other;
} wanted;

static int
is_told(int rank, wanted w)
{
    told t = hear(rank);
    return case_ok(t.result == (int)w.result && (w.rank < 0 || t.rank == w.rank) && t.ms >= w.least * 1000 &&
                       t.ms <= (w.most + tap_room()) * 1000 && strstr(t.text, w.word) && strstr(t.text, w.other),
                   "rank %d: %s", rank, p.guest[rank].note);
}

/* --- other calls --- */

static int
other_count(int rank, int size, void *arg)
{
    const size_t *n = arg;
    hoop_comm *comm = party_join(0);
    double since = party_clock();
    hoop_result result =
        rank ? hoop_recv(array, n[1], HOOP_INT32, 0, 3, comm) : hoop_send(array, n[0], HOOP_INT32, 1, 3, comm);
    if (rank == 0 && result == HOOP_SUCCESS) /* the message travelled ahead */
        result = hoop_recv(array, 1, HOOP_INT32, 1, 3, comm);
    tell(comm, result, since);
    return hoop_send(array, 1, HOOP_INT32, 1 - rank, 0, comm) != HOOP_ERR_MISMATCH;
}

static void
mismatches(void)
{
    size_t counts[][2] = {{6, 5}, {1, 0}, {5, 0}, {LARGE / 4, 7}, {LARGE / 4, LARGE / 4 - 1}};
    int good = 0, n = sizeof(counts) / sizeof(*counts);
    for (int i = 0; i < n; i++) {
        char sent[64], awaited[64];
        snprintf(sent, sizeof(sent), "rank 0 called send of %zu x int32 (tag 3) to rank 1", counts[i][0]);
        snprintf(awaited, sizeof(awaited), "rank 1 called recv of %zu x int32 (tag 3) from rank 0", counts[i][1]);
        wanted w = {HOOP_ERR_MISMATCH, -1, 0, 5, sent, awaited};
        int bad = party_run(&p, 2, other_count, counts[i], 90);
        good += is_told(0, w) & is_told(1, w) & (bad == 0);
    }
    is_int(n, good, "a receive that is too small is a mismatch on both ranks, whose sentence has both calls");
}

/* Rank 0 sends rank 2 another count than that one awaits, and one of them may be 0. */
static int
other_block(int rank, int size, void *arg)
{
    const size_t *n = arg;
    size_t sends[] = {1, 1, 1}, receives[] = {1, 1, 1};
    static int32_t to[16];
    hoop_comm *comm = party_join(0);
    double since = party_clock();
    if (rank == 0)
        sends[2] = n[0];
    if (rank == 2)
        receives[0] = n[1];
    hoop_result result = hoop_alltoallv(array, to, sends, NULL, receives, NULL, HOOP_INT32, comm);
    if (result == HOOP_SUCCESS)
        result = hoop_barrier(comm);
    return tell(comm, result, since);
}

static void
other_blocks(void)
{
    size_t counts[][2] = {{5, 6}, {0, 5}, {5, 0}};
    int good = 0;
    for (int i = 0; i < 3; i++) {
        char sent[64], awaited[64];
        snprintf(sent, sizeof(sent), "rank 0 called alltoallv number 0 with %zu x int32 for rank 2", counts[i][0]);
        snprintf(awaited, sizeof(awaited), "rank 2 called alltoallv number 0 with %zu x int32 from rank 0",
                 counts[i][1]);
        wanted w = {HOOP_ERR_MISMATCH, -1, 0, 5, sent, awaited};
        party_run(&p, 3, other_block, counts[i], 90);
        good += is_told(0, w) & is_told(1, w) & is_told(2, w);
    }
    is_int(3, good, "blocks of an alltoallv with different counts on their two ranks are named on every rank");
}

/* --- a peer that does not come --- */

typedef struct plot {
    int sends;  /* the waiting rank sends, a large message, instead of receiving */
    int before; /* a message was exchanged before */
} plot;

static hoop_result
wait_for(int peer, const plot *s, hoop_comm *comm)
{
    return s->sends ? hoop_send(array, LARGE / 4, HOOP_INT32, peer, 3, comm)
                    : hoop_recv(array, 5, HOOP_INT32, peer, 3, comm);
}

static void
meet(int rank, const plot *s, hoop_comm *comm)
{
    if (s->before && rank == 2)
        hoop_recv(array, 1, HOOP_INT32, 0, 1, comm);
    if (s->before && rank == 0)
        hoop_send(array, 1, HOOP_INT32, 2, 1, comm);
}

/* Rank 2 waits for rank 0, which is elsewhere; rank 1 and 3 wait for nobody. */
static int
too_late(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = party_join(0);
    double since = party_clock();
    meet(rank, s, comm);
    if (rank == 2) {
        tell(comm, wait_for(0, s, comm), since);
        party_mark();
    }
    return !party_await_marks(1);
}

static void
times_out(int i)
{
    plot s = {i & 1, i >> 1};
    wanted w = {HOOP_ERR_TIMEOUT, 0, LIMIT_MS / 1e3 - 0.1, LIMIT_MS / 1e3 + 1.2, "rank 2 (", "rank 0 ("};
    party_run(&p, 4, too_late, &s, 90);
    const char *note = p.guest[2].note;
    ok(is_told(2, w) && strstr(note, s.sends ? "send of 1048576 x int32 (tag 3) to" : "recv of 5 x int32 (tag 3) from"),
       "a message that does not come within the time-out: the pair and the call are named: %s", note);
}

static int
killed(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = party_join(0);
    meet(rank, s, comm);
    if (rank == 0) {
        party_nap(0.3);
        kill(getpid(), SIGKILL);
    }
    double since = party_clock();
    return tell(comm, rank == 2 ? wait_for(0, s, comm) : hoop_recv(array, 1, HOOP_INT32, 2, 0, comm), since);
}

static void
deaths(void)
{
    int good = 0;
    for (int i = 0; i < PLOTS; i++) {
        plot s = {i & 1, i >> 1};
        wanted w = {HOOP_ERR_PEER_LOST, 0, 0, 1.3, "rank 0 (", "rank 0 ("};
        party_run(&p, 4, killed, &s, 90);
        good += is_told(2, w) & is_told(1, w) & is_told(3, w);
        if (i == 0)
            diag("%s", p.guest[2].note);
    }
    is_int(4, good, "a rank that dies is named to all that wait, whomever they wait for");
}

static int
leaves(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = party_join(0);
    meet(rank, s, comm);
    if (rank == 0) {
        party_nap(0.2);
        return hoop_comm_destroy(comm) != HOOP_SUCCESS;
    }
    double since = party_clock();
    if (rank == 2) {
        tell(comm, wait_for(0, s, comm), since);
        party_mark();
    }
    return !party_await_marks(1);
}

static void
departures(void)
{
    int good = 0;
    for (int i = 0; i < PLOTS; i++) {
        plot s = {i & 1, i >> 1};
        wanted w = {HOOP_ERR_PEER_LOST, 0, 0, 2.3, "rank 2 (", "left the communicator"};
        party_run(&p, 4, leaves, &s, 90);
        good += is_told(2, w);
    }
    is_int(4, good, "a rank that leaves: the one that waits for it is told so");
}

/* --- what is left behind --- */

static int
unread(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(0);
    if (rank == 0)
        hoop_send(array, 5, HOOP_INT32, 1, 3, comm);
    else
        hoop_recv(array, 5, HOOP_INT32, 0, 3, comm);
    for (int i = 0; i < 3 && rank == 0; i++)
        hoop_send(array, 5, HOOP_INT32, 1, 4, comm);
    hoop_barrier(comm);
    party_nap(0.1);
    hoop_barrier(comm);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static int
received_from_one_that_left(int rank, int size, void *arg)
{
    int good = 1;
    hoop_comm *comm = party_join(0);
    for (int i = 0; i < 5; i++) {
        if (rank == 1 && i == 1)
            party_nap(0.5);
        array[0] = i;
        good &= rank ? hoop_recv(array, 1, HOOP_INT32, 0, i, comm) == HOOP_SUCCESS && array[0] == i
                     : hoop_send(array, 1, HOOP_INT32, 1, i, comm) == HOOP_SUCCESS;
    }
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

enum { AHEAD = 64 << 10, PIECES = 15 };

/*
 * All that may travel ahead, to a rank that calls nothing until it is sent, and for longer than a second: its system cannot
 * hold all.
 */
static int
received_long_after(int rank, int size, void *arg)
{
    static uint8_t bytes[AHEAD], expected[AHEAD];
    hoop_comm *comm = party_join(0);
    if (rank == 1)
        hoop_recv(bytes, 1, HOOP_UINT8, 0, PIECES, comm);
    else
        hoop_send(bytes, 1, HOOP_UINT8, 1, PIECES, comm);
    double since = party_clock();
    int in_time = 1;
    if (rank == 1) {
        party_nap(1.5);
        in_time = party_await_marks(1);
    }
    for (int i = 0; i < PIECES; i++) {
        memset(expected, 'a' + i, AHEAD);
        memset(bytes, rank ? '?' : 'a' + i, AHEAD);
        hoop_result result =
            rank ? hoop_recv(bytes, AHEAD, HOOP_UINT8, 0, i, comm) : hoop_send(bytes, AHEAD, HOOP_UINT8, 1, i, comm);
        if (result != HOOP_SUCCESS || memcmp(bytes, expected, AHEAD) != 0)
            return 1 + tell(comm, result, since);
    }
    if (rank == 0)
        party_mark();
    hoop_result left = hoop_comm_destroy(comm);
    party_note("%s, %d, %.1f s", in_time ? "sent ahead" : "waits until it is received", (int)left,
               party_clock() - since);
    return left != HOOP_SUCCESS || !in_time;
}

static void
leavings(void)
{
    party_expect(&p, 2, unread, NULL, 90, "messages that nobody received keep nobody from leaving");
    party_expect(&p, 2, received_from_one_that_left, NULL, 90, "what a rank has sent is received after it has left");
    setenv("HOOP_RCVBUF", "16384", 1);
    for (int shares = 0; shares < 2; shares++) {
        setenv("HOOP_SHM", shares ? "1" : "0", 1);
        int bad = party_run(&p, 2, received_long_after, NULL, 90);
        ok(bad == 0, "a mebibyte too, by a rank that was busy meanwhile: %s; %s", p.guest[0].note, p.guest[1].note);
    }
}

static void
play(int scene)
{
    char limit[16];
    snprintf(limit, sizeof(limit), "%d", LIMIT_MS);
    if (scene >= FIRST_LIMITED)
        setenv("HOOP_OP_TIMEOUT_MS", scene < FIRST_LIMITED + PLOTS ? limit : "120000", 1);
    party_open(&p);
    switch (scene) {
    case 0: mismatches(); break;
    case 1: other_blocks(); break;
    case 2: leavings(); break;
    case FIRST_LIMITED + PLOTS: deaths(); break;
    case FIRST_LIMITED + PLOTS + 1: departures(); break;
    default: times_out(scene - FIRST_LIMITED);
    }
    party_close(&p);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    tap_scenes(FIRST_LIMITED + PLOTS + 2, play);
    return tap_failures() != 0;
}
