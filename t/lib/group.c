/* SPDX-License-Identifier: MIT */
/*
 * Groups without a ring: what is queued between start and end, which allreduces are fused into one operation, how its
 * tensors are found again, and what spoils a group. The communicator is made by hand: settings, a driver, no links.
 */
#include "lib/group.h"

#include "lib/entry.h"
#include "lib/progress.h"
#include "lib/works.h"
#include "t/tap/tap.h"

#include <stdlib.h>
#include <string.h>

static hoop_comm comm;
static int order[] = {0, 1, 2, 3};

static void
make_comm(void)
{
    hoop_error error;
    hoop_config *config = hoop_config_new();
    comm = (hoop_comm){.size = 4, .channels = 1, .order = order};
    comm.config = *config;
    comm.plan = (hp_plan_options){.slice_bytes = 65536, .slices = 4, .channels = 1, .stage_bytes = 65536};
    hoop_config_free(config);
    if (hp_progress_init(&comm, &error) != HOOP_SUCCESS || hp_host_ops.open(&comm.device[0], NULL, &error))
        bail("%s", error.text);
}

static void
free_comm(void)
{
    hp_work_pool_free(&comm);
    hp_loop_free(comm.loop);
}

/* A call as calls.c queues it. */
static void
add(hp_kind kind, hoop_dtype dtype, hoop_op op, uint64_t count, const void *send, void *recv)
{
    hp_request request = {.send = send, .recv = recv};
    request.call = (hp_call){.kind = (uint8_t)kind,
                             .dtype = (uint8_t)dtype,
                             .op = (uint8_t)op,
                             .root = kind == HP_BROADCAST ? 0 : -1,
                             .count = count};
    if (hp_group_join(&comm, &request, 0))
        return;
    hoop_work *work = hp_work_pool_take(&comm, 0);
    work->call = request.call;
    work->calls = 1;
    hp_work_single(work, send, recv);
    hp_group_add(work);
}

typedef struct closed {
    hoop_result result;
    hoop_work *first, *last;
    int works;
    hoop_error error;
} closed;

static closed
close_group(void)
{
    closed c = {0};
    hp_call refused;
    c.result = hp_group_close(&comm, &c.first, &c.last, &refused, &c.error);
    for (const hoop_work *work = c.first; work; work = work->next)
        c.works++;
    return c;
}

static void
recycle(const closed *c)
{
    for (hoop_work *work = c->first, *next; work; work = next) {
        next = work->next;
        hp_work_pool_give(&comm, work);
    }
}

static void
test_state(void)
{
    ok(!hp_group_open(), "outside a group");
    hp_group_begin(&comm);
    ok(hp_group_open() == &comm, "inside");
    closed c = close_group();
    ok(c.result == HOOP_SUCCESS && !c.first && !c.last, "an empty group is no work");
    ok(!hp_group_open(), "and is closed");
}

/* a b c d e: a, c and e are alike and small; they become one operation in a's place. */
static void
test_fusing(void)
{
    static float in[5][100], out[5][100];
    hp_group_begin(&comm);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 100, in[0], out[0]);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_MAX, 50, in[1], out[1]);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 7, in[2], out[2]);
    add(HP_BROADCAST, HOOP_FLOAT32, HOOP_SUM, 7, in[3], out[3]);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 0, in[4], out[4]);
    closed c = close_group();
    hoop_work *fused = c.first;
    is_int(3, c.works, "five calls are three operations");
    is_uint(107, fused->call.count, "the first is the sum of its tensors");
    ok(fused->call.fused && fused->calls == 3 && fused->segment_count == 3, "made of three calls");
    is_int(HOOP_MAX, fused->next->call.op, "the second is the maximum, alone");
    ok(!fused->next->call.fused && fused->next->segment_count == 1, "and not fused");
    is_int(HP_BROADCAST, c.last->call.kind, "the last is the broadcast");
    ok(fused->state == HP_WORK_FREED && fused->next->state == HP_WORK_FREED && c.last->state == 0,
       "the handle is the last one's");
    ok(fused->channels == 1 && fused->plan[0].count == 107, "it is planned");
    uint64_t run;
    ok(hp_work_at(fused, HP_SIDE_SEND, 0, &run) == (uint8_t *)in[0] && run == 100,
       "its elements begin in the first tensor");
    ok(hp_work_at(fused, HP_SIDE_SEND, 99, &run) == (uint8_t *)&in[0][99] && run == 1, "up to its end");
    ok(hp_work_at(fused, HP_SIDE_RECV, 100, &run) == (uint8_t *)out[2] && run == 7, "and go on in the next");
    ok(hp_work_at(fused, HP_SIDE_RECV, 106, &run) == (uint8_t *)&out[2][6] && run == 1, "to its last element");
    recycle(&c);
}

/* Empty tensors at either end and in between are skipped, never returned as a run of nothing. */
static void
test_empty_tensors(void)
{
    static int32_t in[2][8], out[2][8];
    uint64_t run;
    int right = 1;
    hp_group_begin(&comm);
    add(HP_ALLREDUCE, HOOP_INT32, HOOP_SUM, 0, in[0], out[0]);
    add(HP_ALLREDUCE, HOOP_INT32, HOOP_SUM, 3, in[0], out[0]);
    add(HP_ALLREDUCE, HOOP_INT32, HOOP_SUM, 0, in[0], out[0]);
    add(HP_ALLREDUCE, HOOP_INT32, HOOP_SUM, 5, in[1], out[1]);
    add(HP_ALLREDUCE, HOOP_INT32, HOOP_SUM, 0, in[0], out[0]);
    closed c = close_group();
    is_int(1, c.works, "five tensors, three of them empty, are one operation");
    for (uint64_t at = 0; at < 8; at++) {
        const uint8_t *wanted = (const uint8_t *)(at < 3 ? &in[0][at] : &in[1][at - 3]);
        right &= case_ok(hp_work_at(c.first, HP_SIDE_SEND, at, &run) == wanted, "element %d is elsewhere", (int)at);
        right &= case_int((intmax_t)(at < 3 ? 3 - at : 8 - at), (intmax_t)run, "the run of element %d", (int)at);
    }
    ok(right, "every element is found, with its run");
    recycle(&c);
}

/* Tensors one behind the other in both arrays are one piece; their sizes still count. */
static void
test_neighbours(void)
{
    static float in[64], out[64];
    hp_group_begin(&comm);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 10, in, out);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 20, in + 10, out + 10);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 5, in + 30, out + 31);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 5, in + 36, out + 36);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 5, in + 41, out + 41);
    closed c = close_group();
    ok(c.works == 1 && c.first->calls == 5 && c.first->call.count == 45, "five neighbours are one operation");
    is_uint(3, c.first->segment_count, "of three pieces: a gap in one of the arrays parts them");
    uint64_t run;
    ok(hp_work_at(c.first, HP_SIDE_RECV, 29, &run) == (uint8_t *)(out + 29) && run == 1, "the first ends at 30");
    ok(hp_work_at(c.first, HP_SIDE_RECV, 36, &run) == (uint8_t *)(out + 37) && run == 9, "the last two go on");
    recycle(&c);
}

/* Found in any order, whatever was asked for before. */
static void
test_any_order(void)
{
    static int32_t in[40][8], out[40][8];
    uint64_t run, begin[41] = {0};
    int right = 1;
    hp_group_begin(&comm);
    for (int i = 0; i < 40; i++) {
        uint64_t n = (uint64_t)(i * 5 % 8);
        add(HP_ALLREDUCE, HOOP_INT32, HOOP_SUM, n, in[i], out[39 - i]);
        begin[i + 1] = begin[i] + n;
    }
    closed c = close_group();
    for (int k = 0; k < 5000; k++) {
        int i = (int)(tap_random() % 40);
        uint64_t n = begin[i + 1] - begin[i], skip = n ? tap_random() % n : 0;
        if (n == 0)
            continue;
        right &= case_ok(hp_work_at(c.first, HP_SIDE_SEND, begin[i] + skip, &run) == (uint8_t *)&in[i][skip],
                         "element %d of tensor %d is sent from another place", (int)skip, i);
        right &= case_int((intmax_t)(n - skip), (intmax_t)run, "elements from %d of tensor %d on", (int)skip, i);
        hp_iov pieces = hp_work_iov(c.first, HP_SIDE_RECV, begin[i] + skip, n - skip);
        right &=
            case_ok(pieces.data == (uint8_t *)&out[39 - i][skip] && pieces.run == (n - skip) * 4 && pieces.elem == 4,
                    "element %d of tensor %d is received elsewhere, or %u bytes of %u elements", (int)skip, i,
                    (unsigned)pieces.run, (unsigned)pieces.elem);
    }
    ok(right, "tensors are found in any order, on both sides");
    recycle(&c);
}

static hp_where
received_into(hoop_work *work, uint64_t at, uint64_t count)
{
    hp_step step = {.flags = HP_STEP_RECV | HP_STEP_COPY, .from = 1, .to = 1, .recv_count = count, .in = at, .out = at};
    return hp_work_place(work, &work->plan[0], &step).recv.where;
}

/* Slices of large tensors go straight to them, slices of small ones through slots; each slice by itself. */
static void
test_pieces(void)
{
    enum { LARGE = HP_PIECE_BYTES / sizeof(float), SMALL = 16, OF_EACH = 16 };
    static float in[OF_EACH * (LARGE + SMALL + 2)];
    float *at = in;
    hp_group_begin(&comm);
    for (int i = 0; i < OF_EACH; i++, at += LARGE + 1)
        add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, LARGE, at, at);
    for (int i = 0; i < OF_EACH; i++, at += SMALL + 1)
        add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, SMALL, at, at);
    closed c = close_group();
    hoop_work *fused = c.first;
    is_int(HP_RECVBUF, (int)received_into(fused, 0, 4 * LARGE), "four large ones, whole: received where they lie");
    is_int(HP_RECVBUF, (int)received_into(fused, 7, 9), "a part of one, too");
    is_int(HP_SLOT, (int)received_into(fused, LARGE - 1, 2), "a seam with a byte or two on both sides: through a slot");
    is_int(HP_SLOT, (int)received_into(fused, OF_EACH * LARGE, SMALL * OF_EACH), "small ones: through a slot");
    is_int(HP_RECVBUF, (int)received_into(fused, (OF_EACH - 4) * LARGE, 4 * LARGE), "and the large ones as before");
    fused->place.direct = 0;
    is_int(HP_SLOT, (int)received_into(fused, 0, 4 * LARGE), "nothing where the host cannot address the tensors");
    recycle(&c);
}

static uint32_t
signature_of(const uint64_t *counts, int n)
{
    static int32_t in[100], out[100];
    hp_group_begin(&comm);
    for (int i = 0; i < n; i++)
        add(HP_ALLREDUCE, HOOP_INT32, HOOP_SUM, counts[i], in, out);
    closed c = close_group();
    uint32_t signature = c.first->signature;
    recycle(&c);
    return signature;
}

static void
test_signatures(void)
{
    const uint64_t a[] = {3, 5}, b[] = {5, 3}, c[] = {8, 0}, d[] = {3, 5};
    ok(signature_of(a, 2) == signature_of(d, 2), "the same tensors have one signature");
    ok(signature_of(a, 2) != signature_of(b, 2), "another order has another");
    ok(signature_of(a, 2) != signature_of(c, 2), "another cut of the same total, too");
}

static void
test_limits(void)
{
    static float in[1], out[1];
    uint64_t most = (uint64_t)hp_config_number(&comm.config, HP_SET_fuse_bytes) / sizeof(float);
    hp_group_begin(&comm);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, most, in, out);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, most + 1, in, out);
    add(HP_ALLREDUCE, HOOP_FLOAT64, HOOP_SUM, 1, in, out);
    closed c = close_group();
    is_int(3, c.works, "one that is too long, one of another type, one without a partner");
    ok(!c.first->call.fused && !c.last->call.fused, "nothing is fused");
    recycle(&c);
    hp_group_begin(&comm);
    for (int i = 0; i < 1000; i++)
        add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, most, in, out);
    c = close_group();
    ok(c.works == 1 && c.first->call.count == 1000 * most && c.first->calls == 1000, "a thousand long ones are one");
    recycle(&c);
    hp_group_begin(&comm);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 5, in, out);
    c = close_group();
    ok(c.first->segment_count == 1 && c.first->one.send == (uint8_t *)in, "a work used again has its one segment");
    recycle(&c);
}

static void
test_spoiled(void)
{
    static float in[1], out[1];
    hp_group_begin(&comm);
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 1, in, out);
    hp_entry_refuse(&comm, HOOP_ERR_INVALID_ARGUMENT, "the first");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_group_spoil(&comm, &(hp_call){.kind = HP_REDUCE}), "an error in a group");
    add(HP_ALLREDUCE, HOOP_FLOAT32, HOOP_SUM, 1, in, out);
    hp_entry_refuse(&comm, HOOP_ERR_NO_MEMORY, "the second");
    is_int(HOOP_ERR_NO_MEMORY, hp_group_spoil(&comm, &(hp_call){.kind = HP_GATHER}), "and another");
    closed c = close_group();
    ok(c.result == HOOP_ERR_INVALID_ARGUMENT && !c.first && !c.last, "a spoiled group is dropped");
    is_string("the first", c.error.text, "with its first error");
    ok(!hp_group_open(), "and closed");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    make_comm();
    test_state();
    test_fusing();
    test_empty_tensors();
    test_neighbours();
    test_any_order();
    test_pieces();
    test_signatures();
    test_limits();
    test_spoiled();
    free_comm();
    return tap_failures() != 0;
}
