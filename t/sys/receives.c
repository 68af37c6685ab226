/* SPDX-License-Identifier: MIT */
/* What a receive gets: messages shorter than its array, how much came, and from whom. */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { EAGER = 64 << 10, ROOM = 1 << 20, MOST = 3 * ROOM };

static party p;
static uint8_t from[MOST], to[MOST];

static uint8_t
byte_of(int seed, size_t i)
{
    return (uint8_t)((unsigned)seed * 37 + i * 31 % 251);
}

/* Whether the array holds so many bytes of this message, and behind them what was there before. */
static int
holds(int seed, size_t n)
{
    size_t rest = sizeof(to) - n;
    for (size_t i = 0; i < n; i++)
        if (to[i] != byte_of(seed, i))
            return 0;
    return rest == 0 || (to[n] == 0xa5 && memcmp(to + n, to + n + 1, rest - 1) == 0);
}

/* A message of n bytes. */
static void
fill(int seed, size_t n)
{
    for (size_t i = 0; i < n; i++)
        from[i] = byte_of(seed, i);
    memset(to, 0xa5, sizeof(to));
}

/* In a rank: notes the error of a call that failed. */
static int
is_well(hoop_result result, const hoop_comm *comm)
{
    hoop_error e = {.size = sizeof(e)};
    if (result == HOOP_SUCCESS)
        return 1;
    hoop_comm_error(comm, &e);
    party_note("%d: %s", (int)result, e.text);
    return 0;
}

/* Whether this thread's last receive, or that work, got so many elements of this rank. */
static int
got(hoop_work *work, int peer, size_t count)
{
    int who = -7;
    size_t n = SIZE_MAX;
    hoop_result result = work ? hoop_work_received(work, &who, &n) : hoop_received(&who, &n);
    if (result == HOOP_SUCCESS && who == peer && n == count)
        return 1;
    party_note("%zu elements of rank %d instead of %zu of rank %d (%d)", n, who, count, peer, (int)result);
    return 0;
}

/* --- larger arrays --- */

static const size_t sizes[] = {0, 1, 257, EAGER - 1, EAGER, EAGER + 1, ROOM + 1, 2 * ROOM};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* The receive of rank 1 is larger by one byte, or by much; it comes first or last. */
static int
larger(int rank, int size, void *arg)
{
    int late = *(const int *)arg, good = 1;
    hoop_comm *comm = party_join(0);
    for (int i = 0; i < 2 * SIZES && good; i++) {
        size_t n = sizes[i / 2], room = i % 2 ? n + 1 : sizeof(to);
        fill(i, n);
        if (rank == late)
            party_nap(0.02);
        good = is_well(rank ? hoop_recv(to, room, HOOP_UINT8, 0, 0, comm) : hoop_send(from, n, HOOP_UINT8, 1, 0, comm),
                       comm);
        if (rank == 1 && good)
            good = holds(i, n) && got(NULL, 0, n);
    }
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* Work form, to oneself, elements of 4 bytes, and a group, in which nothing tells what came. */
static int
larger_works(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(0);
    hoop_work *receive, *send;
    int good = hoop_received(NULL, NULL) == HOOP_ERR_INVALID_USAGE, done = 0;
    for (int i = 0; i < 2 * SIZES && good; i++) {
        size_t n = sizes[i / 2] / 4;
        fill(i, 4 * n);
        good = is_well(hoop_irecv(to, sizeof(to) / 4, HOOP_INT32, rank, 5, comm, &receive), comm);
        good &= hoop_work_received(receive, NULL, NULL) == HOOP_ERR_INVALID_USAGE;
        good = good && is_well(hoop_isend(from, n, HOOP_INT32, rank, 5, comm, &send), comm);
        good = good && is_well(hoop_work_wait(send, -1), comm);
        for (done = 0; i % 2 && good && !done;)
            good = is_well(hoop_work_test(receive, &done), comm);
        good = good && (!done || got(receive, rank, n)) && is_well(hoop_work_wait(receive, -1), comm) &&
               got(NULL, rank, n) && holds(i, 4 * n);
    }
    fill(99, ROOM);
    hoop_group_start(comm);
    hoop_recv(to, sizeof(to), HOOP_UINT8, rank, 5, comm);
    hoop_send(from, ROOM, HOOP_UINT8, rank, 5, comm);
    good = good && is_well(hoop_group_end(comm), comm) && holds(99, ROOM) && got(NULL, rank, sizes[SIZES - 1] / 4);
    hoop_group_start(comm);
    hoop_recv(to, sizeof(to), HOOP_UINT8, rank, 5, comm); /* alone in its group, but not of hoop_irecv */
    good = good && is_well(hoop_igroup_end(comm, &receive), comm) &&
           is_well(hoop_send(from, 5, HOOP_UINT8, rank, 5, comm), comm);
    for (done = 0; good && !done;)
        good = is_well(hoop_work_test(receive, &done), comm);
    good = good && hoop_work_received(receive, NULL, NULL) == HOOP_ERR_INVALID_USAGE &&
           is_well(hoop_work_wait(receive, -1), comm) && got(NULL, rank, sizes[SIZES - 1] / 4);
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* --- from any rank --- */

enum { EACH = 40 };

/* How many bytes message k of a rank has. */
static size_t
bytes_of(int rank, int k)
{
    return (size_t)k % 5 == 4 ? EAGER + (size_t)rank : (size_t)(rank * 7 + k) % 300;
}

static int
send_all(hoop_comm *comm, int rank)
{
    int good = 1;
    for (int k = 0; k < EACH && good; k++) {
        fill(rank * EACH + k, bytes_of(rank, k));
        good = is_well(hoop_send(from, bytes_of(rank, k), HOOP_UINT8, 0, 2, comm), comm);
    }
    return good;
}

/* Each sender's messages come in their order, with the right bytes, and the getters tell of each. */
static int
from_any(int rank, int size, void *arg)
{
    int works = *(const int *)arg, next[8] = {0}, good = 1, peer = -1;
    size_t count = 0;
    hoop_comm *comm = party_join(0);
    hoop_work *work = NULL;
    if (rank > 0)
        return !send_all(comm, rank) | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
    for (int i = 0; i < (size - 1) * EACH && good; i++) {
        memset(to, 0xa5, sizeof(to));
        if (works)
            good = is_well(hoop_irecv(to, sizeof(to), HOOP_UINT8, HOOP_ANY_RANK, 2, comm, &work), comm) &&
                   is_well(hoop_work_wait(work, -1), comm);
        else
            good = is_well(hoop_recv(to, sizeof(to), HOOP_UINT8, HOOP_ANY_RANK, 2, comm), comm);
        hoop_received(&peer, &count);
        good = good && peer > 0 && peer < size && holds(peer * EACH + next[peer], count) &&
               count == bytes_of(peer, next[peer]);
        next[peer > 0 && peer < 8 ? peer : 0]++;
    }
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* Receives from any rank and from one get messages in the order of their calls, whether the messages are there or not. */
static int
in_order(int rank, int size, void *arg)
{
    int here = *(const int *)arg, good = 1;
    hoop_comm *comm = party_join(1);
    int32_t value[4] = {0, 0, 0, 0}, all = 1;
    hoop_work *work[4];
    if (rank == 1 && !here)
        hoop_recv(&all, 1, HOOP_INT32, 0, 9, comm);
    for (int32_t k = 1; k <= 4 && rank == 1; k++)
        good &= is_well(hoop_send(&k, 1, HOOP_INT32, 0, 2, comm), comm);
    if (here) /* behind them, so they are here */
        good &= is_well(rank ? hoop_send(&all, 1, HOOP_INT32, 0, 8, comm) : hoop_recv(&all, 1, HOOP_INT32, 1, 8, comm),
                        comm);
    for (int k = 0; k < 4 && rank == 0; k++)
        good &= is_well(hoop_irecv(&value[k], 1, HOOP_INT32, k % 3 ? 1 : HOOP_ANY_RANK, 2, comm, &work[k]), comm);
    if (rank == 0 && !here)
        hoop_send(&all, 1, HOOP_INT32, 1, 9, comm);
    good &= rank > 0 || is_well(hoop_wait_all(work, 4), comm);
    for (int k = 0; k < 4 && rank == 0; k++)
        good &= value[k] == k + 1;
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* In a group, with oneself; and what is refused. */
static int
any_forms(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(0);
    hoop_work *work;
    hoop_error e = {.size = sizeof(e)};
    int good = 1;
    fill(3, ROOM);
    hoop_group_start(comm);
    hoop_recv(to, sizeof(to), HOOP_UINT8, HOOP_ANY_RANK, 5, comm);
    hoop_send(from, ROOM, HOOP_UINT8, rank, 5, comm);
    good = is_well(hoop_group_end(comm), comm) && holds(3, ROOM);
    fill(4, 9);
    good = good && is_well(hoop_send(from, 9, HOOP_UINT8, rank, 6, comm), comm) &&
           is_well(hoop_recv(to, sizeof(to), HOOP_UINT8, HOOP_ANY_RANK, 6, comm), comm) && holds(4, 9) &&
           got(NULL, rank, 9);
    good &= hoop_send(from, 1, HOOP_UINT8, HOOP_ANY_RANK, 6, comm) == HOOP_ERR_INVALID_ARGUMENT;
    good &= hoop_recv_on_stream(to, 1, HOOP_UINT8, HOOP_ANY_RANK, 6, comm, NULL) == HOOP_ERR_UNSUPPORTED;
    hoop_comm_error(comm, &e);
    good &= strstr(e.text, "from any rank in the order of a stream") != NULL;
    good = good && is_well(hoop_irecv(to, 1, HOOP_UINT8, HOOP_ANY_RANK, 7, comm, &work), comm);
    good = good && hoop_work_wait_or_fail(work, 50) == HOOP_ERR_TIMEOUT;
    hoop_comm_error(comm, &e);
    if (!strstr(e.text, "in recv of 1 x uint8 (tag 7) from any rank"))
        party_note("%s", e.text);
    else
        return !good | (hoop_comm_destroy(comm) == HOOP_ERR_INTERNAL);
    return 1;
}

/* Rank 0 waits for any; rank 1 leaves, and rank 2 sends later, leaves too, or dies. */
typedef enum end { SENDS, LEAVES, DIES } end;

static int
others_end(int rank, int size, void *arg)
{
    end what = *(const end *)arg;
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *comm = party_join(0);
    if (rank == 2)
        party_nap(1.5);
    if (rank == 2 && what == DIES)
        _exit(0);
    if (rank == 2 && what == SENDS && !is_well(hoop_send(from, 9, HOOP_UINT8, 0, 2, comm), comm))
        return 1;
    if (rank > 0)
        return hoop_comm_destroy(comm) != HOOP_SUCCESS && what != DIES;
    hoop_result result = hoop_recv(to, 9, HOOP_UINT8, HOOP_ANY_RANK, 2, comm);
    if (what == SENDS)
        return !is_well(result, comm) | !got(NULL, 2, 9);
    hoop_comm_error(comm, &e);
    party_note("%d of rank %d: %s", (int)result, e.rank, e.text);
    return result != HOOP_ERR_PEER_LOST || (what == DIES && e.rank != 2) ||
           (what == LEAVES && !strstr(e.text, "from any rank, and all others have left"));
}

/* On three hosts: rank 1 sends twice and leaves, while rank 0 computes for longer than that takes. Then rank 2 sends. */
static int
computes(int rank, int size, void *arg)
{
    party_set_host(rank, 1);
    hoop_comm *comm = party_join(0);
    int good = 1;
    fill(rank, 9);
    if (rank == 2)
        party_nap(5);
    for (int k = rank; k > 0 && k < 3; k++) {
        good = good && is_well(hoop_send(from, 9, HOOP_UINT8, 0, 2, comm), comm);
        party_nap(k == 1 ? 0.5 : 0); /* rank 0 has begun to compute */
    }
    for (int k = 0; rank == 0 && k < 3; k++) {
        good = good && is_well(hoop_recv(to, sizeof(to), HOOP_UINT8, HOOP_ANY_RANK, 2, comm), comm) &&
               holds(k < 2 ? 1 : 2, 9);
        party_nap(k == 0 ? 3 : 0);
    }
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || !good;
}

/*
 * Of eight ranks, rank 3 leaves, and its process ends. Rank 0, which has no connection to it, asks its port in vain for
 * longer than a dial does, and goes on waiting for the others.
 */
static int
one_is_gone(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    int good = 1;
    fill(rank, 4);
    if (rank == 0)
        good = is_well(hoop_recv(to, sizeof(to), HOOP_UINT8, HOOP_ANY_RANK, 5, comm), comm) && holds(5, 4) &&
               got(NULL, 5, 4);
    if (rank == 0)
        party_mark();
    else if (rank == 5) {
        party_nap(6);
        good = is_well(hoop_send(from, 4, HOOP_UINT8, 0, 5, comm), comm);
    } else if (rank != 3) {
        party_await_marks(1);
    }
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || !good;
}

/*
 * Rank 0 waits for a message for so long that it dials rank 1, which computes. It leaves just when rank 1 answers, and waits
 * for the server's word meanwhile, since the test has stopped that. Rank 2 sends later.
 */
static int
leaves_as_it_dials(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    int good = 1;
    fill(2, 9);
    if (rank == 0) {
        good = is_well(hoop_recv(to, sizeof(to), HOOP_UINT8, HOOP_ANY_RANK, 5, comm), comm) && holds(2, 9);
        party_mark();
        party_await_marks(2);
    } else if (rank == 1) {
        party_await_marks(2);
        good = is_well(hoop_recv(to, sizeof(to), HOOP_UINT8, HOOP_ANY_RANK, 5, comm), comm) && holds(2, 9) &&
               got(NULL, 2, 9);
    } else {
        party_nap(1);
        good = is_well(hoop_send(from, 9, HOOP_UINT8, 0, 5, comm), comm);
        party_await_marks(3);
        good = good && is_well(hoop_send(from, 9, HOOP_UINT8, 1, 5, comm), comm);
    }
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || !good;
}

static void
test_leaves_as_it_dials(void)
{
    party_start(&p, 3, leaves_as_it_dials, NULL, 60);
    party_await_marks(1);
    kill(p.server, SIGSTOP);
    party_mark();
    party_nap(1);
    kill(p.server, SIGCONT);
    party_nap(2);
    party_mark();
    party_wait(&p);
    ok(party_failed(&p) == 0, "a rank that leaves while it makes a connection ends nothing");
}

int
main(void)
{
    end ends[] = {SENDS, LEAVES, DIES};
    int yes[] = {0, 1};
    int late[] = {0, 1};
    plan_lazy();
    party_open(&p);
    party_expect(&p, 2, larger, &late[0], 60,
                 "a message fills the start of a larger array, whose receive is there first");
    party_expect(&p, 2, larger, &late[1], 60, "likewise, whose receive comes later");
    party_expect(&p, 1, larger_works, NULL, 60, "likewise of works, to oneself, and in a group");
    party_expect(&p, 4, from_any, &yes[0], 60, "messages of any rank: each sender's order, its rank and its length");
    party_expect(&p, 5, from_any, &yes[1], 60, "likewise of works");
    party_expect(&p, 2, in_order, &yes[0], 60,
                 "receives from any rank and from one, which are there first, keep their order");
    party_expect(&p, 2, in_order, &yes[1], 60, "likewise where the messages are there first");
    party_expect(&p, 1, any_forms, NULL, 60,
                 "from any rank in a group, from oneself, on a stream, and beyond its time limit");
    party_expect(&p, 3, others_end, &ends[0], 60, "a rank that leaves does not end a receive from any");
    party_expect(&p, 3, others_end, &ends[1], 60, "all others that leave do");
    party_expect(&p, 3, others_end, &ends[2], 60, "a rank that dies does, and is named");
    party_expect(&p, 3, computes, NULL, 60, "a rank that leaves while the receiver computes ends nothing");
    party_expect(&p, 8, one_is_gone, NULL, 60, "a rank that has left, and whose process has ended, ends nothing");
    test_leaves_as_it_dials();
    party_close(&p);
    return 0;
}
