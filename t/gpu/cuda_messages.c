/* SPDX-License-Identifier: MIT */
/*
 * hoop_send, hoop_recv and hoop_alltoallv with arrays in a GPU's memory, on the stand-in driver: all sizes, in every form
 * and with the GPU on either side; messages that come before their receive and after it; to oneself; and streams in an
 * order that would wait for ever if calls waited for streams. The bytes are compared on the host.
 */
#include "t/gpu/cuda_rank.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = CUDA_RANK_BYTES, EAGER = 64 << 10, SLICE = 512 << 10, POISON = 0xa5, GUARD = 64 };

/* Which side's arrays are on the GPU. */
enum { BOTH, SENDER, RECEIVER, SIDES };

/* --- bytes --- */

/* A message's bytes repeat after a prime number of them, so that no slice is like another one. */
enum { PERIOD = 4093 };

static char
byte_of(unsigned seed, size_t i)
{
    return (char)tap_mix(((uint64_t)seed << 32) + i);
}

static void
fill(char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n && i < PERIOD; i++)
        bytes[i] = byte_of(seed, i);
    for (size_t made = PERIOD, more; made < n; made += more) {
        more = made < n - made ? made : n - made;
        memcpy(bytes + made, bytes, more);
    }
}

static int
holds(const char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n && i < PERIOD; i++)
        if (bytes[i] != byte_of(seed, i))
            return 0;
    return n <= PERIOD || memcmp(bytes, bytes + PERIOD, n - PERIOD) == 0;
}

/* The array of this rank's sends, or of its receives, where this side has it. */
static char *
source(cuda_rank *r, int side)
{
    return side == RECEIVER ? r->data : r->in.memory;
}

static char *
target(cuda_rank *r, int side)
{
    return side == SENDER ? r->to : r->out.memory;
}

/* n bytes to send, at an offset. */
static void
lay_out(cuda_rank *r, int side, size_t at, size_t n, unsigned seed)
{
    fill(r->data + at, n, seed);
    if (side != RECEIVER && n > 0)
        hp_cuda_copy(r->device, r->in.memory + at, r->data + at, n, NULL);
}

/* What a receive of n bytes may write, and what it may not. */
static void
poison(cuda_rank *r, int side, size_t at, size_t n)
{
    memset(r->to + at, POISON, n + GUARD);
    if (side != SENDER)
        hp_cuda_copy(r->device, r->out.memory + at, r->to + at, n + GUARD, NULL);
}

/* 1 if the n bytes are there, and no more; else 0 after a note. */
static int
arrived(cuda_rank *r, int side, size_t at, size_t n, unsigned seed, const char *what)
{
    memset(r->seen, 0, n + GUARD);
    hp_cuda_copy(r->device, r->seen, target(r, side) + at, n + GUARD, NULL);
    int rest = 1;
    for (size_t i = n; i < n + GUARD; i++)
        rest &= (unsigned char)r->seen[i] == POISON;
    if (rest && holds(r->seen, n, seed))
        return 1;
    party_note("%s: %zu bytes, side %d: %s", what, n, side, rest ? "other bytes" : "bytes behind the message");
    return 0;
}

/* --- sizes --- */

static const size_t sizes[] = {
    0,         1,     2,         3,     63,        255,     257,           4093,    EAGER - 1,    EAGER,
    EAGER + 1, 99991, SLICE - 1, SLICE, SLICE + 1, 1 << 20, (1 << 20) + 1, 1299709, 3 * SLICE + 5};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

static int
next_of(const cuda_rank *r)
{
    return (r->rank + 1) % r->size;
}

static int
previous_of(const cuda_rank *r)
{
    return (r->rank + r->size - 1) % r->size;
}

static int
in_group(cuda_rank *r, int side, size_t n)
{
    hoop_group_start(r->comm);
    hoop_send(source(r, side), n, HOOP_UINT8, next_of(r), 0, r->comm);
    hoop_recv(target(r, side), n, HOOP_UINT8, previous_of(r), 0, r->comm);
    return hoop_group_end(r->comm) != HOOP_SUCCESS;
}

/* The receive comes first, or late: then what travels ahead is here before it. */
static int
non_blocking(cuda_rank *r, int side, size_t n, int late)
{
    hoop_work *works[2];
    int bad = 0;
    if (!late)
        bad = hoop_irecv(target(r, side), n, HOOP_UINT8, previous_of(r), 0, r->comm, &works[1]) != HOOP_SUCCESS;
    bad = bad || hoop_isend(source(r, side), n, HOOP_UINT8, next_of(r), 0, r->comm, &works[0]) != HOOP_SUCCESS;
    if (late && n <= EAGER && r->size > 1)
        bad = bad || hoop_work_wait(works[0], -1) != HOOP_SUCCESS;
    if (late)
        bad = bad || hoop_irecv(target(r, side), n, HOOP_UINT8, previous_of(r), 0, r->comm, &works[1]) != HOOP_SUCCESS;
    if (!(late && n <= EAGER && r->size > 1))
        bad = bad || hoop_work_wait(works[0], -1) != HOOP_SUCCESS;
    return bad || hoop_work_wait(works[1], -1) != HOOP_SUCCESS;
}

/* Two streams, one a direction; both are waited for. A stream-ordered call needs an array on the GPU. */
static int
on_streams(cuda_rank *r, int side, size_t n, void *const stream[2])
{
    hoop_error error = {.size = sizeof(error)};
    hoop_result result;
    hoop_work *work = NULL;
    if (side == RECEIVER)
        result = hoop_isend(source(r, side), n, HOOP_UINT8, next_of(r), 0, r->comm, &work);
    else
        result = hoop_send_on_stream(source(r, side), n, HOOP_UINT8, next_of(r), 0, r->comm, stream[0]);
    if (result == HOOP_SUCCESS && side == SENDER)
        result = hoop_irecv(target(r, side), n, HOOP_UINT8, previous_of(r), 0, r->comm, &work);
    else if (result == HOOP_SUCCESS)
        result = hoop_recv_on_stream(target(r, side), n, HOOP_UINT8, previous_of(r), 0, r->comm, stream[1]);
    if (result != HOOP_SUCCESS || (work && hoop_work_wait(work, -1) != HOOP_SUCCESS))
        return 1;
    return cuda_rank_wait(r, stream[0]) || cuda_rank_wait(r, stream[1]);
}

static int
exchange(cuda_rank *r, int side, size_t n, int form, void *const stream[2])
{
    static const char *const names[] = {"in a group", "receive first", "receive last", "on streams"};
    unsigned seed = (unsigned)(n + (size_t)form);
    lay_out(r, side, 0, n, seed + (unsigned)r->rank);
    poison(r, side, 0, n);
    int bad = form == 0   ? in_group(r, side, n)
              : form == 3 ? on_streams(r, side, n, stream)
                          : non_blocking(r, side, n, form == 2);
    if (bad)
        return cuda_rank_complain(names[form]);
    return !arrived(r, side, 0, n, seed + (unsigned)previous_of(r), names[form]);
}

static int
all_sizes(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    int bad = cuda_rank_streams(r, 2, 100);
    for (int i = 0; i < SIZES * SIDES * 4 && !bad; i++)
        bad = exchange(r, i / 4 % SIDES, sizes[i / 4 / SIDES], i % 4, r->stream);
    return bad;
}

/* Elements keep their bits, whatever their type: a bool need not be 0 or 1. */
static int
types(cuda_rank *r)
{
    static const hoop_dtype dtypes[] = {HOOP_BOOL,    HOOP_INT8,    HOOP_FLOAT16,    HOOP_BFLOAT16,
                                        HOOP_FLOAT32, HOOP_FLOAT64, HOOP_FLOAT8E4M3, HOOP_INT64};
    static const size_t bytes[] = {1, 1, 2, 2, 4, 8, 1, 8};
    enum { COUNT = 100003 };
    int bad = 0;
    for (int i = 0; i < 16 && !bad; i++) {
        size_t count = i % 2 ? COUNT : 1001, n = count * bytes[i / 2];
        lay_out(r, BOTH, 0, n, (unsigned)(i + r->rank));
        poison(r, BOTH, 0, n);
        hoop_group_start(r->comm);
        hoop_send(r->in.memory, count, dtypes[i / 2], next_of(r), i, r->comm);
        hoop_recv(r->out.memory, count, dtypes[i / 2], previous_of(r), i, r->comm);
        bad = hoop_group_end(r->comm) != HOOP_SUCCESS
                  ? cuda_rank_complain("types")
                  : !arrived(r, BOTH, 0, n, (unsigned)(i + previous_of(r)), "types");
    }
    return bad;
}

/* --- many at once --- */

/* Each rank sends `MANY` messages of all lengths to each rank, itself included, and receives them last one first. */
static int
many(cuda_rank *r)
{
    enum { MANY = 24, ROOM = 160 << 10 };
    hoop_work *works[2 * 4 * MANY];
    int bad = cuda_rank_streams(r, 0, 50), n = 0;
    for (int turn = 0; turn < 2 && !bad; turn++) { /* 48 arrays of each kind have room at once */
        n = 0;
        for (int i = 0; i < r->size * MANY / 2 && !bad; i++) {
            int peer = i % r->size, tag = i / r->size + turn * MANY / 2;
            size_t bytes = (size_t)tag * 6151 + (size_t)(tag % 3), at = (size_t)i * ROOM;
            lay_out(r, BOTH, at, bytes, (unsigned)(r->rank * 1000 + peer * 100 + tag));
            poison(r, BOTH, at, bytes);
            bad = hoop_isend(r->in.memory + at, bytes, HOOP_UINT8, peer, tag, r->comm, &works[n++]) != HOOP_SUCCESS;
        }
        for (int i = r->size * MANY / 2; i-- > 0 && !bad;) {
            int peer = i % r->size, tag = i / r->size + turn * MANY / 2;
            size_t bytes = (size_t)tag * 6151 + (size_t)(tag % 3), at = (size_t)i * ROOM;
            bad = hoop_irecv(r->out.memory + at, bytes, HOOP_UINT8, peer, tag, r->comm, &works[n++]) != HOOP_SUCCESS;
        }
        bad = bad || hoop_wait_all(works, (size_t)n) != HOOP_SUCCESS;
        if (bad)
            cuda_rank_complain("many");
        for (int i = 0; i < r->size * MANY / 2 && !bad; i++) {
            int peer = i % r->size, tag = i / r->size + turn * MANY / 2;
            size_t bytes = (size_t)tag * 6151 + (size_t)(tag % 3), at = (size_t)i * ROOM;
            bad = !arrived(r, BOTH, at, bytes, (unsigned)(peer * 1000 + r->rank * 100 + tag), "many");
        }
    }
    return bad;
}

/* --- alltoallv --- */

/* Elements from rank a to rank b in a round: none, few, or more than travel ahead. */
static size_t
block(int round, int a, int b)
{
    static const size_t counts[] = {0, 1, 300, 16385, 200003};
    return counts[(round + 3 * a + 7 * b) % 5];
}

/* The counts and places of one side, with a gap behind each block. */
static void
places(int round, int rank, int size, int sending, size_t *counts, size_t *displs)
{
    size_t at = 0;
    for (int peer = 0; peer < size; peer++) {
        counts[peer] = sending ? block(round, rank, peer) : block(round, peer, rank);
        displs[peer] = at;
        at += counts[peer] + GUARD;
    }
}

/* form 0: blocking; 1: non-blocking; 2: on a stream; 3: two in a group, with a collective. */
static int
all_to_all(cuda_rank *r, int round, int side, int form, void *stream)
{
    size_t sends[8], from[8], receives[8], to[8];
    hoop_error error = {.size = sizeof(error)};
    hoop_work *work = NULL;
    hoop_result result;
    places(round, r->rank, r->size, 1, sends, from);
    places(round, r->rank, r->size, 0, receives, to);
    for (int peer = 0; peer < r->size; peer++) {
        lay_out(r, side, from[peer] * 4, sends[peer] * 4, (unsigned)(round * 100 + r->rank * 10 + peer));
        poison(r, side, to[peer] * 4, receives[peer] * 4);
    }
    if (form == 1)
        result =
            hoop_ialltoallv(source(r, side), target(r, side), sends, from, receives, to, HOOP_FLOAT32, r->comm, &work);
    else if (form == 2)
        result = hoop_alltoallv_on_stream(source(r, side), target(r, side), sends, from, receives, to, HOOP_FLOAT32,
                                          r->comm, stream);
    else
        result = hoop_alltoallv(source(r, side), target(r, side), sends, from, receives, to, HOOP_FLOAT32, r->comm);
    if (result == HOOP_SUCCESS && form == 1)
        result = hoop_work_wait(work, -1);
    if (result == HOOP_SUCCESS && form == 2)
        result = hp_cuda_stream_wait(r->device, stream, NULL);
    if (result != HOOP_SUCCESS)
        return cuda_rank_complain("alltoallv");
    for (int peer = 0; peer < r->size; peer++)
        if (!arrived(r, side, to[peer] * 4, receives[peer] * 4, (unsigned)(round * 100 + peer * 10 + r->rank),
                     "alltoallv"))
            return 1;
    return 0;
}

static int
all_alltoallv(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    int bad = cuda_rank_streams(r, 1, 100);
    for (int i = 0; i < 5 * SIDES * 3 && !bad; i++)
        bad = all_to_all(r, i / 3 / SIDES, i / 3 % SIDES, i % 3, r->stream[0]);
    return bad;
}

/* --- streams --- */

/*
 * On each rank stream 0 first waits for a message of the previous rank, and holds HELD long messages behind it; the
 * message that it waits for is sent by stream 1, and is called last. Whoever waited for streams in the order of the calls
 * would wait for ever, and so would messages held up by others of other tags.
 */
static int
crossed(cuda_rank *r)
{
    enum { HELD = 7, LONG = 200003, PLACE = 256 << 10 };
    hoop_error error = {.size = sizeof(error)};
    hoop_work *works[HELD];
    int bad = cuda_rank_streams(r, 2, 200), next = next_of(r), previous = previous_of(r);
    for (int i = 0; i <= HELD && !bad; i++) {
        lay_out(r, BOTH, (size_t)i * PLACE, LONG, (unsigned)(100 * r->rank + i));
        poison(r, BOTH, (size_t)i * PLACE, LONG);
    }
    for (int i = 0; i < HELD && !bad; i++)
        bad = hoop_irecv(r->out.memory + (size_t)i * PLACE, LONG, HOOP_UINT8, previous, i, r->comm, &works[i]) !=
              HOOP_SUCCESS;
    bad = bad || hoop_recv_on_stream(r->out.memory + (size_t)HELD * PLACE, LONG, HOOP_UINT8, previous, HELD, r->comm,
                                     r->stream[0]) != HOOP_SUCCESS;
    for (int i = 0; i < HELD && !bad; i++)
        bad = hoop_send_on_stream(r->in.memory + (size_t)i * PLACE, LONG, HOOP_UINT8, next, i, r->comm, r->stream[0]) !=
              HOOP_SUCCESS;
    bad = bad || hoop_send_on_stream(r->in.memory + (size_t)HELD * PLACE, LONG, HOOP_UINT8, next, HELD, r->comm,
                                     r->stream[1]) != HOOP_SUCCESS;
    bad = bad || hoop_wait_all(works, HELD) != HOOP_SUCCESS;
    for (int s = 0; s < 2; s++)
        bad = bad || cuda_rank_wait(r, r->stream[s]);
    if (bad)
        cuda_rank_complain("crossed");
    for (int i = 0; i <= HELD && !bad; i++)
        bad = !arrived(r, BOTH, (size_t)i * PLACE, LONG, (unsigned)(100 * previous + i), "crossed");
    return bad;
}

/*
 * Messages of one tag keep the order of their calls, though the first one's stream comes late: it waits for another
 * message first. Behind it are one on a free stream, and one from host memory.
 */
static int
same_tag(cuda_rank *r)
{
    enum { N = 5003, PLACE = 8192 };
    hoop_error error = {.size = sizeof(error)};
    hoop_work *work[4] = {NULL, NULL, NULL, NULL};
    int bad = cuda_rank_streams(r, 2, 0), peer = 1 - r->rank;
    for (int i = 0; i < 4 && !bad; i++) {
        lay_out(r, BOTH, (size_t)i * PLACE, N, (unsigned)(10 * r->rank + i));
        poison(r, BOTH, (size_t)i * PLACE, N);
    }
    if (!bad && r->rank == 0)
        bad =
            hoop_recv_on_stream(r->out.memory, N, HOOP_UINT8, peer, 9, r->comm, r->stream[0]) != HOOP_SUCCESS ||
            hoop_send_on_stream(r->in.memory, N, HOOP_UINT8, peer, 5, r->comm, r->stream[0]) != HOOP_SUCCESS ||
            hoop_send_on_stream(r->in.memory + PLACE, N, HOOP_UINT8, peer, 5, r->comm, r->stream[1]) != HOOP_SUCCESS ||
            hoop_isend(r->data + 2 * PLACE, N, HOOP_UINT8, peer, 5, r->comm, &work[0]) != HOOP_SUCCESS ||
            hoop_isend(r->data + 3 * PLACE, N, HOOP_UINT8, peer, 6, r->comm, &work[1]) != HOOP_SUCCESS;
    for (int i = 0; i < 4 && !bad && r->rank == 1; i++)
        bad = hoop_irecv(r->out.memory + (size_t)i * PLACE, N, HOOP_UINT8, peer, i < 3 ? 5 : 6, r->comm, &work[i]) !=
              HOOP_SUCCESS;
    if (!bad && r->rank == 1) /* tag 6 is not held up by tag 5 */
        bad = hoop_work_wait(work[3], -1) != HOOP_SUCCESS ||
              hoop_send(r->in.memory, N, HOOP_UINT8, peer, 9, r->comm) != HOOP_SUCCESS;
    if (r->rank == 1)
        work[3] = NULL;
    bad = bad || hoop_wait_all(work, 4) != HOOP_SUCCESS;
    for (int s = 0; s < 2; s++)
        bad = bad || cuda_rank_wait(r, r->stream[s]);
    if (bad)
        cuda_rank_complain("same tag");
    for (int i = 0; i < (r->rank == 0 ? 1 : 4) && !bad; i++)
        bad = !arrived(r, BOTH, (size_t)i * PLACE, N, (unsigned)(10 * peer + i), "same tag");
    return bad;
}

/* The stream's own copies make the input and read the result: only the stream's order keeps the messages right. */
static int
chain(cuda_rank *r)
{
    enum { ROUNDS = 12 };
    static const size_t lengths[] = {100, EAGER, 300007};
    hoop_error error = {.size = sizeof(error)};
    int bad = cuda_rank_streams(r, 1, 300);
    for (int l = 0; l < 3 && !bad; l++) {
        size_t n = lengths[l];
        lay_out(r, BOTH, 0, n, (unsigned)(r->rank + l));
        poison(r, BOTH, 0, n);
        for (int i = 0; i < ROUNDS && !bad; i++) {
            int first = r->rank % 2 == 0; /* even ranks send first: the r->rank of ranks is even */
            for (int turn = 0; turn < 2 && !bad; turn++)
                bad = ((turn == 0) == first
                           ? hoop_send_on_stream(r->in.memory, n, HOOP_UINT8, next_of(r), i, r->comm, r->stream[0])
                           : hoop_recv_on_stream(r->out.memory, n, HOOP_UINT8, previous_of(r), i, r->comm,
                                                 r->stream[0])) != HOOP_SUCCESS;
            bad = bad || cuda_rank_copy(r, r->stream[0], r->in.memory, r->out.memory, n);
        }
        bad = bad || cuda_rank_wait(r, r->stream[0]);
        if (bad)
            cuda_rank_complain("chain");
        bad = bad || !arrived(r, BOTH, 0, n, (unsigned)((r->rank + r->size * ROUNDS - ROUNDS) % r->size + l), "chain");
    }
    return bad;
}

/* Calls without a stream start after the default stream's work: here a copy that makes their input. */
static int
after_default_stream(cuda_rank *r)
{
    enum { N = 70001 };
    hoop_error error = {.size = sizeof(error)};
    int bad = cuda_rank_streams(r, 0, 2000);
    for (int form = 0; form < 3 && !bad; form++) {
        lay_out(r, BOTH, MOST / 2, N, (unsigned)(r->rank + form));
        lay_out(r, BOTH, 0, N, 77);
        poison(r, BOTH, 0, N);
        if (cuda_rank_copy(r, NULL, r->in.memory, r->in.memory + MOST / 2, N))
            return 1;
        bad = form == 0 ? in_group(r, BOTH, N) : non_blocking(r, BOTH, N, form == 2);
        bad = bad ? cuda_rank_complain("default stream")
                  : !arrived(r, BOTH, 0, N, (unsigned)(previous_of(r) + form), "default stream");
    }
    return bad;
}

/* A call without arrays is ordered too; host memory has no stream, nor has a group. */
static int
edges(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    int bad = cuda_rank_streams(r, 1, 0);
    bad = bad || hoop_send_on_stream(NULL, 0, HOOP_INT32, next_of(r), 0, r->comm, r->stream[0]) != HOOP_SUCCESS ||
          hoop_recv_on_stream(NULL, 0, HOOP_INT32, previous_of(r), 0, r->comm, r->stream[0]) != HOOP_SUCCESS ||
          cuda_rank_wait(r, r->stream[0]);
    bad = bad ||
          hoop_send_on_stream(r->data, 4, HOOP_INT32, next_of(r), 0, r->comm, r->stream[0]) != HOOP_ERR_UNSUPPORTED;
    bad = bad || hoop_recv_on_stream(r->out.memory, 4, HOOP_INT32, r->size, 0, r->comm, r->stream[0]) !=
                     HOOP_ERR_INVALID_ARGUMENT;
    hoop_group_start(r->comm);
    bad = bad || hoop_send_on_stream(r->in.memory, 4, HOOP_INT32, next_of(r), 0, r->comm, r->stream[0]) !=
                     HOOP_ERR_INVALID_USAGE;
    hoop_group_end(r->comm);
    if (bad)
        cuda_rank_complain("edges");
    return bad;
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    for (int size = 1; size <= 3; size++)
        cuda_rank_party(&p, size, all_sizes, 0, "messages of all sizes, with the GPU on either side");
    for (int size = 1; size <= 4; size++)
        cuda_rank_party(&p, size, many, 0, "many messages at once");
    for (int size = 1; size <= 4; size++)
        cuda_rank_party(&p, size, all_alltoallv, 0, "alltoallv, blocking, non-blocking, and on a stream");
    cuda_rank_party(&p, 2, types, 0, "elements of every size keep their bits");
    cuda_rank_party(&p, 2, after_default_stream, 0, "calls without a stream start after the default stream's work");
    cuda_rank_party(&p, 2, edges, 0, "empty messages on a stream, and what is refused there");
    cuda_rank_party(&p, 4, chain, 0, "messages and copies of one stream keep its order");
    setenv("HOOP_SPIN", "0", 1);
    setenv("HOOP_SLICE_BYTES", "8192", 1);
    cuda_rank_party(&p, 3, crossed, 0, "a stream that waits holds up no message of another one");
    cuda_rank_party(&p, 2, same_tag, 0, "messages of one tag keep the order of their calls");
    cuda_rank_party(&p, 4, many, 0, "many messages at once, with small slices and a driver that sleeps at once");
    setenv("HOOP_FAKE_CUDA_DEPTH", "4", 1);
    cuda_rank_party(&p, 2, all_sizes, 0, "messages of all sizes, where a hardware queue holds four operations");
    party_close(&p);
    return 0;
}
