/* SPDX-License-Identifier: MIT */
/*
 * The stand-in driver counts hoop's calls. From operation to operation hoop makes no memory, registration, stream,
 * event, module or context, and calls nothing that waits; each command of the belt is one kernel and one written
 * ticket. An open queue has loaded every kernel, also the first queue of each device, because each device has a module
 * of its own.
 */
#include "base/dtype.h"
#include "lib/comm.h"
#include "t/gpu/cuda_rank.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 100, WARM_UP = 20 };

/* --- kernels --- */

/* Commands of every kind, type and operation: each kernel at least once. */
static void
run_all(hp_queue *queue, const arena *a)
{
    uint64_t last = 0;
    for (int i = 0; i < HP_DTYPES * (HP_OPS + 2); i++) {
        hoop_dtype dtype = hp_dtype_at(i / (HP_OPS + 2));
        int kind = i % (HP_OPS + 2), mean = kind < HP_OPS && hp_op_at(kind) == HOOP_AVG;
        hp_command command = {.elem = dtype,
                              .wire = kind <= HP_OPS ? dtype : HOOP_BFLOAT16,
                              .op = kind < HP_OPS ? hp_op_at(kind) : HOOP_SUM,
                              .sources = kind == HP_OPS ? 1 : 2,
                              .destinations = 1,
                              .divisor = mean && hp_narrow_index(dtype) < 0 ? 2 : 0,
                              .ranks = {mean && hp_narrow_index(dtype) >= 0, 1},
                              .src = {{a->memory, kind > HP_OPS}, {a->memory, 0}},
                              .dst = {{a->memory, 0}},
                              .count = 8};
        if ((kind <= HP_OPS || dtype == HOOP_FLOAT32) && hp_op_applies(command.op, dtype))
            last = queue->ops->submit(queue, &command);
    }
    ok(cuda_test_wait(queue, last), "commands of every type and operation");
}

/* Marks a caller's stream, blocks it with a gate, opens the gate. */
static void
run_gate(hp_device *device)
{
    hoop_error error = {.size = sizeof(error)};
    void *stream = NULL;
    hp_gate *gate = NULL;
    hp_mark *mark = NULL;
    if (hp_cuda_stream_open(device, &stream, &error) != HOOP_SUCCESS ||
        device->ops->mark(device, stream, &mark, &error) != HOOP_SUCCESS ||
        device->ops->gate_close(device, stream, &gate, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    device->ops->gate_open(gate);
    is_int(HOOP_SUCCESS, hp_cuda_stream_wait(device, stream, &error), "a stream is marked, held and let go");
    device->ops->unmark(mark);
    hp_cuda_stream_close(device, stream);
}

static void
test_loads(const hoop_fake_cuda *fake, int memory_ops)
{
    hoop_error error = {.size = sizeof(error)};
    hp_device *device[2] = {NULL, NULL}; /* of one GPU: two communicators open one each */
    hp_queue *queue[2][2];
    long loads = fake->loads();
    fake->memory_ops(memory_ops);
    for (int d = 0; d < 2; d++) {
        device[d] = cuda_test_open();
        for (int q = 0; q < 2; q++) {
            if (device[d]->ops->queue_open(device[d], &queue[d][q], &error) != HOOP_SUCCESS)
                bail("%s", error.text);
            ok(q == 0 ? fake->loads() > loads : fake->loads() == loads,
               "memory operations %d, device %d: its queue %d loads %s", memory_ops, d, q, q ? "nothing" : "kernels");
            loads = fake->loads();
        }
    }
    for (int d = 0; d < 2; d++) {
        arena a = arena_new(device[d], ARENA_DEVICE, 4096);
        for (int q = 0; q < 2; q++)
            run_all(queue[d][q], &a);
        run_gate(device[d]);
        arena_free(&a);
        is_int(loads, fake->loads(), "... and no kernel was loaded for them");
    }
    for (int d = 0; d < 2; d++) {
        for (int q = 0; q < 2; q++)
            device[d]->ops->queue_close(queue[d][q]);
        device[d]->ops->close(device[d]);
    }
    fake->memory_ops(1);
    is_int(0, fake->live(), "nothing of the driver's is left");
}

/* --- calls --- */

/*
 * An operation makes none of these calls. Not listed: cuStreamQuery, which never waits, and which hoop calls if a queue
 * makes no progress; the event and the host function that wake a sleeping thread, one per sleep.
 */
static const char *const never[] = {
    "cuInit",        "cuDevice",       "cuCtxSetCurrent", "cuCtxSynchronize",   "cuModule",
    "cuMemAlloc",    "cuMemFree",      "cuMemHost",       "cuMemcpy",           "cuStreamCreate",
    "cuEventCreate", "cuEventDestroy", "cuStreamDestroy", "cuEventSynchronize", "cuCtxGetStreamPriorityRange",
    "cuCtxGetDevice"};

enum { NEVER = sizeof(never) / sizeof(*never) };

typedef struct tally {
    long never[NEVER], synchronised, launched, written, held;
    uint64_t steps;
} tally;

static tally
count(const cuda_rank *r)
{
    tally t = {.synchronised = r->fake->called("cuStreamSynchronize"),
               .launched = r->fake->called("cuLaunchKernel"),
               .written = r->fake->called("cuStreamWriteValue64"),
               .held = r->fake->called("cuStreamWaitValue32")};
    for (int i = 0; i < NEVER; i++)
        t.never[i] = r->fake->called(never[i]);
    for (uint32_t c = 0; c < r->comm->channels; c++)
        t.steps += r->comm->channel[c]->retired;
    return t;
}

static int
call(cuda_rank *r, size_t elements, void *stream)
{
    hoop_result result = !stream ? hoop_allreduce(r->in.memory, r->out.memory, elements, HOOP_INT32, HOOP_MAX, r->comm)
                                 : hoop_allreduce_on_stream(r->in.memory, r->out.memory, elements, HOOP_INT32, HOOP_MAX,
                                                            r->comm, stream);
    return result != HOOP_SUCCESS ? cuda_rank_complain("allreduce") : 0;
}

static int
repeat(cuda_rank *r, int rounds, size_t elements, void *stream)
{
    hoop_error error = {.size = sizeof(error)};
    int bad = 0;
    for (int i = 0; i < rounds && !bad; i++)
        bad = call(r, elements, stream);
    if (!bad && stream)
        bad = cuda_rank_wait(r, stream);
    return bad;
}

/*
 * A command is a kernel and a written ticket. A step has at most one command, except the first step of a DOUBLING,
 * which also copies the rank's own array.
 */
static int
judge(const cuda_rank *r, const tally *before, size_t elements, int streamed)
{
    tally t = count(r);
    long marks = streamed ? 2 * ROUNDS : ROUNDS; /* one before the gate, one behind it */
    long launched = t.launched - before->launched, written = t.written - before->written;
    long held = t.held - before->held, synchronised = t.synchronised - before->synchronised;
    uint64_t steps = t.steps - before->steps;
    int bad = 0;
    for (int i = 0; i < NEVER; i++) {
        if (t.never[i] != before->never[i]) {
            party_note("%zu elements: %ld calls of %s*", elements, t.never[i] - before->never[i], never[i]);
            bad = 1;
        }
    }
    /* the test waits for the stream once, at the end; every operation has the same number of commands */
    if (written != launched + marks || held != (streamed ? ROUNDS : 0) || synchronised != streamed ||
        launched % ROUNDS != 0 || launched < ROUNDS || launched > (long)steps + ROUNDS) {
        party_note("%zu elements, stream %d, %lu steps: %ld kernels, %ld words, %ld waits in streams, %ld waits here",
                   elements, streamed, (unsigned long)steps, launched, written, held, synchronised);
        bad = 1;
    }
    return bad;
}

static int
from_call_to_call(cuda_rank *r)
{
    static const size_t counts[] = {1, 1000, 30000, 300000};
    int bad = cuda_rank_streams(r, 1, 0);
    for (size_t i = 0; i < 2 * sizeof(counts) / sizeof(*counts) && !bad; i++) {
        void *where = i % 2 ? r->stream[0] : NULL;
        bad = repeat(r, WARM_UP, counts[i / 2], where);
        tally before = count(r);
        bad = bad || repeat(r, ROUNDS, counts[i / 2], where) || judge(r, &before, counts[i / 2], i % 2 != 0);
    }
    return bad;
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    if (getenv("HOOP_TEST_CUDA"))
        skip_all("a real driver does not count what it is asked");
    const hoop_fake_cuda *fake = cuda_test_driver();
    test_loads(fake, 1);
    test_loads(fake, 0);
    party_open(&p);
    for (int size = 1; size <= 4; size++)
        cuda_rank_party(&p, size, from_call_to_call, 0, "from call to call nothing is made, and nothing waits");
    setenv("HOOP_SPIN", "0", 1);
    cuda_rank_party(&p, 3, from_call_to_call, 0, "... also where whoever drives sleeps at once");
    party_close(&p);
    return 0;
}
