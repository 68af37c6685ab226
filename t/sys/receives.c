/* SPDX-License-Identifier: MIT */
/* What a receive gets: messages shorter than its array, how much came, and from whom. */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdint.h>
#include <string.h>

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
    for (size_t i = 0; i < sizeof(to); i++)
        if (to[i] != (i < n ? byte_of(seed, i) : 0xa5))
            return 0;
    return 1;
}

static void
fill(int seed)
{
    for (size_t i = 0; i < sizeof(from); i++)
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

static void
expect(int size, party_fn *fn, void *arg, const char *text)
{
    int bad = party_run(&p, size, fn, arg, 60);
    for (int rank = 0; rank < size && bad; rank++)
        diag("rank %d: %s", rank, p.guest[rank].note);
    is_int(0, bad, "%s", text);
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
    (void)size;
    for (int i = 0; i < 2 * SIZES && good; i++) {
        size_t n = sizes[i / 2], room = i % 2 ? n + 1 : sizeof(to);
        fill(i);
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
    (void)size, (void)arg;
    for (int i = 0; i < 2 * SIZES && good; i++) {
        size_t n = sizes[i / 2] / 4;
        fill(i);
        good = is_well(hoop_irecv(to, sizeof(to) / 4, HOOP_INT32, rank, 5, comm, &receive), comm);
        good &= hoop_work_received(receive, NULL, NULL) == HOOP_ERR_INVALID_USAGE;
        good = good && is_well(hoop_isend(from, n, HOOP_INT32, rank, 5, comm, &send), comm);
        good = good && is_well(hoop_work_wait(send, -1), comm);
        for (done = 0; i % 2 && good && !done;)
            good = is_well(hoop_work_test(receive, &done), comm);
        good = good && (!done || got(receive, rank, n)) && is_well(hoop_work_wait(receive, -1), comm) &&
               got(NULL, rank, n) && holds(i, 4 * n);
    }
    fill(99);
    hoop_group_start(comm);
    hoop_recv(to, sizeof(to), HOOP_UINT8, rank, 5, comm);
    hoop_send(from, ROOM, HOOP_UINT8, rank, 5, comm);
    good = good && is_well(hoop_group_end(comm), comm) && holds(99, ROOM);
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

int
main(void)
{
    int late[] = {0, 1};
    plan_lazy();
    party_open(&p);
    expect(2, larger, &late[0], "a message fills the start of a larger array, whose receive is there first");
    expect(2, larger, &late[1], "likewise, whose receive comes later");
    expect(1, larger_works, NULL, "likewise of works, to oneself, and in a group");
    party_close(&p);
    return 0;
}
