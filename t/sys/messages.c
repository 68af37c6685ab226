/* SPDX-License-Identifier: MIT */
/*
 * hoop_send and hoop_recv between processes: all sizes, tags out of order, random exchanges, groups, oneself, what
 * travels ahead and what does not.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, MESSAGES = 1000, TAGS = 5, LARGEST = 300000, EAGER = 64 << 10, ROOM = 1 << 20 };

static party p;

static uint8_t
byte_of(uint64_t seed, size_t i)
{
    return (uint8_t)((seed * 2654435761U + i * 31) >> 3);
}

static void
fill(uint8_t *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_of(seed, i);
}

static int
holds(const uint8_t *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != byte_of(seed, i))
            return 0;
    return 1;
}

static hoop_comm *
join(void)
{
    return party_join(0);
}

/* In a rank: notes the communicator's error, if the result is not the wanted one. */
static int
is_result(hoop_result wanted, hoop_result result, const hoop_comm *comm)
{
    hoop_error e = {.size = sizeof(e)};
    if (wanted == result)
        return 1;
    hoop_comm_error(comm, &e);
    party_note("%d instead of %d: %s", (int)result, (int)wanted, e.text);
    return 0;
}

static int
tells(const hoop_comm *comm, const char *word)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    if (strstr(e.text, word))
        return 1;
    party_note("\"%s\" has no \"%s\"", e.text, word);
    return 0;
}

/* --- sizes --- */

static const size_t sizes[] = {0,     1,         2,    3,        4,        5,         7,           64,
                               255,   256,       257,  1021,     4096,     EAGER - 1, EAGER,       EAGER + 1,
                               99991, 2 * EAGER, ROOM, ROOM - 1, ROOM + 1, 1299709,   4 * ROOM + 3};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* Rank 0 sends to rank 1, both blocking; the receiver comes first or last. */
static int
one_way(int rank, int size, void *arg)
{
    int late = *(const int *)arg, good = 1;
    uint8_t *bytes = malloc(4 * ROOM + 64);
    hoop_comm *comm = join();
    for (int i = 0; i < SIZES && good; i++) {
        size_t n = sizes[i];
        if (rank == late)
            party_nap(0.002);
        if (rank == 0) {
            fill(bytes, n, (uint64_t)i);
            good = is_result(HOOP_SUCCESS, hoop_send(bytes, n, HOOP_UINT8, 1, 0, comm), comm);
        } else {
            memset(bytes, 0xa5, n + 1);
            good = is_result(HOOP_SUCCESS, hoop_recv(bytes, n, HOOP_UINT8, 0, 0, comm), comm) &&
                   holds(bytes, n, (uint64_t)i) && bytes[n] == 0xa5;
        }
    }
    free(bytes);
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* Both send and receive at once, in a group. */
static int
both_ways(int rank, int size, void *arg)
{
    uint8_t *from = malloc(4 * ROOM + 64), *to = malloc(4 * ROOM + 64);
    int good = 1;
    hoop_comm *comm = join();
    for (int i = 0; i < SIZES && good; i++) {
        size_t n = sizes[i];
        int next = (rank + 1) % size, previous = (rank + size - 1) % size;
        fill(from, n, (uint64_t)(i + rank));
        memset(to, 0xa5, n + 1);
        hoop_group_start(comm);
        hoop_send(from, n, HOOP_UINT8, next, i, comm);
        hoop_recv(to, n, HOOP_UINT8, previous, i, comm);
        good = is_result(HOOP_SUCCESS, hoop_group_end(comm), comm) && holds(to, n, (uint64_t)(i + previous)) &&
               to[n] == 0xa5;
    }
    free(from);
    free(to);
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* Both send first, and never sleep: what has been received makes room for the next message, also if nobody waited. */
static int
both_send_first(int rank, int size, void *arg)
{
    uint8_t *from = malloc(EAGER), *to = malloc(EAGER);
    hoop_comm *comm = join();
    int good = is_result(HOOP_SUCCESS, hoop_comm_set_timeout(comm, 5000), comm);
    for (int i = 0; i < 1000 && good; i++) {
        fill(from, EAGER, (uint64_t)(i + rank));
        memset(to, 0xa5, EAGER);
        good = is_result(HOOP_SUCCESS, hoop_send(from, EAGER, HOOP_UINT8, 1 - rank, 0, comm), comm) &&
               is_result(HOOP_SUCCESS, hoop_recv(to, EAGER, HOOP_UINT8, 1 - rank, 0, comm), comm) &&
               holds(to, EAGER, (uint64_t)(i + 1 - rank));
    }
    free(from);
    free(to);
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* --- tags --- */

/* Rank 0 sends tags 0 to TAGS - 1 in turn; rank 1 receives the last tag first, also messages that do not travel ahead. */
static int
tags_backwards(int rank, int size, void *arg)
{
    enum { EACH = 6 };
    static uint8_t bytes[TAGS][EACH][2 * EAGER];
    hoop_work *work[TAGS * EACH];
    hoop_comm *comm = join();
    int good = 1;
    for (int i = 0; i < TAGS * EACH && rank == 0; i++) {
        size_t n = i % 3 ? 100 : 2 * EAGER;
        fill(bytes[i % TAGS][i / TAGS], n, (uint64_t)i);
        good &= is_result(HOOP_SUCCESS,
                          hoop_isend(bytes[i % TAGS][i / TAGS], n, HOOP_UINT8, 1, i % TAGS, comm, &work[i]), comm);
    }
    if (rank == 0)
        good &= is_result(HOOP_SUCCESS, hoop_wait_all(work, TAGS * EACH), comm);
    for (int tag = TAGS - 1; tag >= 0 && rank == 1 && good; tag--)
        for (int k = 0; k < EACH && good; k++) {
            size_t n = (k * TAGS + tag) % 3 ? 100 : 2 * EAGER;
            good = is_result(HOOP_SUCCESS, hoop_recv(bytes[0][0], n, HOOP_UINT8, 0, tag, comm), comm) &&
                   holds(bytes[0][0], n, (uint64_t)(k * TAGS + tag));
        }
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* 3 MiB of small messages stay unread, while another tag passes them both ways; then they come in order. */
static int
much_unread(int rank, int size, void *arg)
{
    enum { SMALL = 1000, COUNT = 3 * ROOM / SMALL };
    static uint8_t bytes[COUNT][SMALL];
    static hoop_work *work[COUNT];
    uint8_t ping = 0;
    int good = 1;
    hoop_comm *comm = join();
    for (int i = 0; i < COUNT && rank == 0 && good; i++) {
        fill(bytes[i], SMALL, (uint64_t)i);
        good = is_result(HOOP_SUCCESS, hoop_isend(bytes[i], SMALL, HOOP_UINT8, 1, 7, comm, &work[i]), comm);
    }
    for (int i = 0; i < 10 && good; i++) {
        good = is_result(
            HOOP_SUCCESS,
            rank ? hoop_recv(&ping, 1, HOOP_UINT8, 0, 8, comm) : hoop_send(&ping, 1, HOOP_UINT8, 1, 8, comm), comm);
        good &= is_result(
            HOOP_SUCCESS,
            rank ? hoop_send(&ping, 1, HOOP_UINT8, 0, 9, comm) : hoop_recv(&ping, 1, HOOP_UINT8, 1, 9, comm), comm);
    }
    for (int i = 0; i < COUNT && rank == 1 && good; i++)
        good = is_result(HOOP_SUCCESS, hoop_recv(bytes[0], SMALL, HOOP_UINT8, 0, 7, comm), comm) &&
               holds(bytes[0], SMALL, (uint64_t)i);
    if (rank == 0 && good)
        good = is_result(HOOP_SUCCESS, hoop_wait_all(work, COUNT), comm);
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* --- random exchanges --- */

typedef struct letter {
    int from, to, tag;
    size_t bytes;
    int order; /* among all receives of its receiver */
} letter;

static letter letters[MESSAGES];

/* Every rank has the same list. A receiver calls its receives in an order of its own, that of each tag kept. */
static void
write_letters(void)
{
    for (int i = 0; i < MESSAGES; i++) {
        letter *l = &letters[i];
        *l = (letter){(int)tap_pick(RANKS), (int)tap_pick(RANKS), (int)tap_pick(TAGS), 0, 0};
        l->bytes = tap_pick(20) ? (size_t)tap_pick(2000) : (size_t)tap_pick(LARGEST);
        l->order = (int)tap_pick(MESSAGES);
        for (int k = 0; k < i; k++)
            if (letters[k].from == l->from && letters[k].to == l->to && letters[k].tag == l->tag &&
                letters[k].order > l->order)
                l->order = letters[k].order;
    }
}

static int
random_letters(int rank, int size, void *arg)
{
    static uint8_t *to[MESSAGES], *from[MESSAGES];
    static hoop_work *work[2 * MESSAGES];
    int works = 0, good = 1;
    hoop_comm *comm = join();
    float sum = 1;
    for (int order = 0; order < MESSAGES && good; order++)
        for (int i = 0; i < MESSAGES && good; i++) {
            letter *l = &letters[i];
            if (l->from == rank && i == order) {
                from[i] = malloc(l->bytes + 1);
                fill(from[i], l->bytes, (uint64_t)i);
                good = is_result(HOOP_SUCCESS,
                                 hoop_isend(from[i], l->bytes, HOOP_UINT8, l->to, l->tag, comm, &work[works++]), comm);
            }
            if (l->to == rank && l->order == order) {
                to[i] = calloc(1, l->bytes + 1);
                good &= is_result(HOOP_SUCCESS,
                                  hoop_irecv(to[i], l->bytes, HOOP_UINT8, l->from, l->tag, comm, &work[works++]), comm);
            }
            if (i == 0 && order % 100 == 50) /* a collective between them */
                good &= is_result(HOOP_SUCCESS, hoop_allreduce(&sum, &sum, 1, HOOP_FLOAT32, HOOP_MAX, comm), comm);
        }
    good = good && is_result(HOOP_SUCCESS, hoop_wait_all(work, (size_t)works), comm);
    for (int i = 0; i < MESSAGES; i++) {
        if (letters[i].to == rank && good && !holds(to[i], letters[i].bytes, (uint64_t)i)) {
            party_note("message %d of %zu bytes from rank %d is wrong", i, letters[i].bytes, letters[i].from);
            good = 0;
        }
        free(to[i]);
        free(from[i]);
    }
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* --- forms --- */

static int
to_oneself(int rank, int size, void *arg)
{
    static uint8_t from[2 * EAGER], to[2 * EAGER];
    hoop_comm *comm = join();
    hoop_work *work[2];
    int good = 1;
    fill(from, sizeof(from), 1);
    good &= is_result(HOOP_SUCCESS, hoop_send(from, EAGER, HOOP_UINT8, rank, 1, comm), comm);
    good &= is_result(HOOP_SUCCESS, hoop_recv(to, EAGER, HOOP_UINT8, rank, 1, comm), comm) && holds(to, EAGER, 1);
    good &=
        hoop_send(from, EAGER + 1, HOOP_UINT8, rank, 1, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "oneself");
    memset(to, 0, sizeof(to));
    good &= is_result(HOOP_SUCCESS, hoop_isend(from, sizeof(from), HOOP_UINT8, rank, 2, comm, &work[0]), comm);
    good &= is_result(HOOP_SUCCESS, hoop_irecv(to, sizeof(to), HOOP_UINT8, rank, 2, comm, &work[1]), comm);
    good &= is_result(HOOP_SUCCESS, hoop_wait_all(work, 2), comm) && holds(to, sizeof(to), 1);
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* A group of messages and collectives; its work is complete when all are. */
static int
mixed_group(int rank, int size, void *arg)
{
    static uint8_t from[2 * EAGER], to[2][2 * EAGER];
    int32_t one = 1, sum = 0, completed;
    hoop_comm *comm = join();
    hoop_work *work;
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, good = 1;
    for (int i = 0; i < 50 && good; i++) {
        fill(from, sizeof(from), (uint64_t)(rank + i));
        sum = 0;
        completed = (int)hoop_comm_completed(comm);
        hoop_group_start(comm);
        hoop_send(from, sizeof(from), HOOP_UINT8, next, 0, comm);
        hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
        hoop_recv(to[0], sizeof(from), HOOP_UINT8, previous, 0, comm);
        hoop_barrier(comm);
        hoop_send(from, 10, HOOP_UINT8, next, 0, comm);
        hoop_recv(to[1], 10, HOOP_UINT8, previous, 0, comm);
        good = is_result(HOOP_SUCCESS, hoop_igroup_end(comm, &work), comm) &&
               is_result(HOOP_SUCCESS, hoop_work_wait(work, -1), comm);
        good &= holds(to[0], sizeof(from), (uint64_t)(previous + i)) && holds(to[1], 10, (uint64_t)(previous + i)) &&
                sum == size && (int)hoop_comm_completed(comm) == completed + 2;
    }
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

static int
wrong_arguments(int rank, int size, void *arg)
{
    int32_t value = 7;
    hoop_comm *comm = join();
    hoop_work *work = (hoop_work *)comm;
    int good = 1;
    good &= hoop_recv(&value, 1, HOOP_INT32, -2, 0, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "peer -2");
    good &= hoop_send(&value, 1, HOOP_INT32, -1, 0, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "ranks 0 to 1");
    good &= hoop_send(&value, 1, HOOP_INT32, size, 0, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "peer 2");
    good &= hoop_send(&value, 1, HOOP_INT32, 0, -1, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "tag -1");
    good &= hoop_send(NULL, 1, HOOP_INT32, 0, 0, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "sendbuf is NULL");
    good &= hoop_recv(NULL, 1, HOOP_INT32, 0, 0, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "recvbuf is NULL");
    good &= hoop_recv(&value, 1, (hoop_dtype)99, 0, 0, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "dtype");
    good &= hoop_recv(&value, SIZE_MAX, HOOP_INT32, 0, 0, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "count");
    good &=
        hoop_recv((char *)&value + 1, 1, HOOP_INT32, 0, 0, comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "aligned");
    good &=
        hoop_isend(&value, 1, HOOP_INT32, 0, 0, comm, NULL) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "work is NULL");
    good &= hoop_isend(NULL, 1, HOOP_INT32, 0, 0, comm, &work) == HOOP_ERR_INVALID_ARGUMENT && !work;
    good &= hoop_send(&value, 1, HOOP_INT32, 0, 0, NULL) == HOOP_ERR_INVALID_ARGUMENT;
    hoop_group_start(comm);
    good &= hoop_isend(&value, 1, HOOP_INT32, 0, 0, comm, &work) == HOOP_ERR_INVALID_USAGE;
    good &= hoop_recv(&value, 1, HOOP_INT32, -2, 0, comm) == HOOP_ERR_INVALID_ARGUMENT;
    good &= hoop_group_end(comm) == HOOP_ERR_INVALID_ARGUMENT && tells(comm, "peer -2");
    if (rank == 1) { /* the other rank learns nothing of a group without collectives that was refused, and waits */
        hoop_group_start(comm);
        good &= hoop_recv(&value, 1, HOOP_INT32, -2, 0, comm) == HOOP_ERR_INVALID_ARGUMENT;
        good &= hoop_group_end(comm) == HOOP_ERR_INVALID_ARGUMENT;
        party_nap(2.5);
    }
    good &= is_result(HOOP_SUCCESS, hoop_barrier(comm), comm);
    value = 40 + rank; /* nothing was lost */
    good &= is_result(HOOP_SUCCESS,
                      rank ? hoop_recv(&value, 1, HOOP_INT32, 0, INT32_MAX, comm)
                           : hoop_send(&value, 1, HOOP_INT32, 1, INT32_MAX, comm),
                      comm);
    return !good | (value != 40) | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* A program with a loop of its own: polls, and never waits. */
static int
polled(int rank, int size, void *arg)
{
    static uint8_t from[ROOM], to[ROOM];
    hoop_comm *comm = join();
    hoop_work *work[2];
    int done[2] = {0, 0}, good = hoop_comm_fd(comm) >= 0;
    fill(from, sizeof(from), (uint64_t)rank);
    good &= hoop_irecv(to, sizeof(to), HOOP_UINT8, 1 - rank, 0, comm, &work[0]) == HOOP_SUCCESS;
    good &= hoop_isend(from, sizeof(from), HOOP_UINT8, 1 - rank, 0, comm, &work[1]) == HOOP_SUCCESS;
    for (tap_wait w = {0}; (!done[0] || !done[1]) && tap_waits(&w);) {
        hoop_comm_progress(comm);
        for (int i = 0; i < 2; i++)
            hoop_work_test(work[i], &done[i]);
    }
    good &= done[0] && done[1] && is_result(HOOP_SUCCESS, hoop_wait_all(work, 2), comm);
    return !good | !holds(to, sizeof(to), (uint64_t)(1 - rank)) | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* --- alltoallv --- */

enum { BLOCK = 40000 };

/* What rank `from` sends to rank `to` in round i, in elements: many zeros, and few large ones. */
static size_t
count_of(int from, int to, int i)
{
    uint32_t h = (uint32_t)(from * 31 + to * 7 + i * 1009) * 2654435761U >> 8;
    return h % 3 == 0 ? 0 : h % 7 == 1 ? h % BLOCK : h % 200;
}

/* Blocks one after the other, or backwards with gaps. Element k of a block is made of its two ranks. */
static int
blocks_of_all_sizes(int rank, int size, void *arg)
{
    enum { MOST = 5 };
    static int32_t from[MOST * (BLOCK + 1)], to[MOST * (BLOCK + 1)];
    size_t counts[2][MOST], displs[2][MOST];
    hoop_comm *comm = join();
    hoop_work *work;
    int good = 1;
    for (int i = 0; i < 40 && good; i++) {
        size_t at[2] = {0, 0};
        memset(to, 0xa5, sizeof(to));
        for (int r = 0; r < size; r++) {
            counts[0][r] = count_of(rank, r, i);
            counts[1][r] = count_of(r, rank, i);
            for (int k = 0; k < 2; k++) {
                displs[k][r] = i % 2 ? (size_t)(size - 1 - r) * (BLOCK + 1) : at[k];
                at[k] += counts[k][r];
            }
            for (size_t k = 0; k < counts[0][r]; k++)
                from[displs[0][r] + k] = (int32_t)((size_t)(rank * 100 + r) * BLOCK + k);
        }
        if (i % 4 == 0) {
            good = is_result(HOOP_SUCCESS, hoop_alltoallv(from, to, counts[0], NULL, counts[1], NULL, HOOP_INT32, comm),
                             comm);
        } else {
            good = is_result(
                HOOP_SUCCESS,
                hoop_ialltoallv(from, to, counts[0], displs[0], counts[1], displs[1], HOOP_INT32, comm, &work), comm);
            size_t kept[MOST];
            memcpy(kept, counts[1], sizeof(kept));
            memset(counts, 1, sizeof(counts)); /* they were copied */
            good = good && is_result(HOOP_SUCCESS, hoop_work_wait(work, -1), comm);
            memcpy(counts[1], kept, sizeof(kept));
        }
        for (int r = 0; r < size; r++) {
            for (size_t k = 0; k < counts[1][r]; k++)
                good &= to[displs[1][r] + k] == (int32_t)((size_t)(r * 100 + rank) * BLOCK + k);
            if (i % 2)
                good &= to[displs[1][r] + counts[1][r]] == (int32_t)0xa5a5a5a5;
        }
    }
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

/* Two of them and a message in one group, and wrong arguments. */
static int
grouped_blocks(int rank, int size, void *arg)
{
    int8_t from[8] = {1, 2, 3, 4, 5, 6, 7, 8}, to[2][8] = {{0}}, other = 0;
    size_t two[] = {2, 2, 2, 2}, one[] = {1, 1, 1, 1}, wrong[] = {2, 2, 2, 3}, huge[] = {SIZE_MAX, 0, 0, 0};
    hoop_comm *comm = join();
    int good = size == 4;
    hoop_group_start(comm);
    hoop_alltoallv(from, to[0], two, NULL, two, NULL, HOOP_INT8, comm);
    hoop_alltoallv(from, to[1], one, NULL, one, NULL, HOOP_INT8, comm);
    hoop_send(&from[rank], 1, HOOP_INT8, rank ^ 1, 0, comm);
    hoop_recv(&other, 1, HOOP_INT8, rank ^ 1, 0, comm);
    good &= is_result(HOOP_SUCCESS, hoop_group_end(comm), comm) && other == from[rank ^ 1];
    for (int r = 0; r < size; r++)
        good &= to[0][2 * r] == 2 * rank + 1 && to[0][2 * r + 1] == 2 * rank + 2 && to[1][r] == rank + 1;
    wrong[rank] = 3;
    good &= hoop_alltoallv(from, to[0], wrong, NULL, two, NULL, HOOP_INT8, comm) == HOOP_ERR_INVALID_ARGUMENT &&
            tells(comm, "itself");
    good &= hoop_alltoallv(from, from + 7, two, NULL, two, NULL, HOOP_INT8, comm) == HOOP_ERR_INVALID_ARGUMENT &&
            tells(comm, "overlap");
    good &= hoop_alltoallv(from, to[0], NULL, NULL, two, NULL, HOOP_INT8, comm) == HOOP_ERR_INVALID_ARGUMENT &&
            tells(comm, "sendcounts is NULL");
    good &= hoop_alltoallv(from, NULL, two, NULL, two, NULL, HOOP_INT8, comm) == HOOP_ERR_INVALID_ARGUMENT &&
            tells(comm, "recvbuf is NULL");
    good &= hoop_alltoallv(from, to[0], huge, NULL, two, NULL, HOOP_INT8, comm) == HOOP_ERR_INVALID_ARGUMENT &&
            tells(comm, "exceeds");
    good &= hoop_alltoallv(from, to[0], two, NULL, two, NULL, (hoop_dtype)99, comm) == HOOP_ERR_INVALID_ARGUMENT &&
            tells(comm, "dtype");
    good &= is_result(HOOP_SUCCESS, hoop_alltoallv(from, to[0], two, NULL, two, NULL, HOOP_INT8, comm), comm);
    return !good | (hoop_comm_destroy(comm) != HOOP_SUCCESS);
}

int
main(void)
{
    int late[] = {0, 1}, good = 0, n = party_rounds(60);
    plan_lazy();
    party_open(&p);
    party_expect(&p, 2, one_way, &late[0], 60, "messages of all sizes, the sender late");
    party_expect(&p, 2, one_way, &late[1], 60, "messages of all sizes, the receiver late");
    party_expect(&p, 2, both_ways, NULL, 60, "all sizes in both directions at once, in a group");
    party_expect(&p, 1, both_ways, NULL, 60, "all sizes to oneself, in a group");
    party_expect(&p, RANKS, both_ways, NULL, 60, "all sizes round a ring of 4, in a group");
    party_expect(&p, 2, both_send_first, NULL, 60, "two ranks that send 64 KiB first, and do not sleep");
    party_expect(&p, 2, tags_backwards, NULL, 60, "a receive does not wait behind an unread tag");
    party_expect(&p, 2, much_unread, NULL, 60, "3 MiB of unread messages hold no other tag up, and come in order");
    for (int i = 0; i < n; i++) {
        write_letters();
        good += case_int(0, party_run(&p, RANKS, random_letters, NULL, 60), "exchange %d: %s", i, p.guest[0].note);
    }
    is_int(n, good, "a thousand random messages between four ranks, with collectives between them");
    party_expect(&p, 2, to_oneself, NULL, 60, "messages to oneself");
    party_expect(&p, 3, mixed_group, NULL, 60, "a group of messages and collectives");
    party_expect(&p, 2, wrong_arguments, NULL, 60, "wrong arguments are refused, and lose nothing");
    party_expect(&p, 2, polled, NULL, 60, "a program with a loop of its own");
    for (int size = 1; size <= 5; size++)
        party_expect(&p, size, blocks_of_all_sizes, NULL, 60,
                     "blocks of all sizes between all ranks, of which there are so many");
    party_expect(&p, 4, grouped_blocks, NULL, 60, "alltoallv in a group, and its wrong arguments");
    setenv("HOOP_CHECKSUM", "payload", 1);
    setenv("HOOP_SLICE_BYTES", "4096", 1);
    party_expect(&p, 2, both_ways, NULL, 60, "with checksums, in slices of 4 KiB");
    party_close(&p);
    return 0;
}
