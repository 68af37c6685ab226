/* SPDX-License-Identifier: MIT */
/*
 * Which of several GPUs a communicator takes, on the stand-in driver: its arrays' GPU, else that of the thread's
 * current context, else HOOP_CUDA_DEVICE's, else LOCAL_RANK's; and the error for a GPU that does not exist.
 */
#include "lib/comm.h"
#include "t/gpu/cuda_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 3 };

typedef struct device_choice {
    const char *setting, *local_rank; /* HOOP_CUDA_DEVICE, LOCAL_RANK; NULL: not set */
    int current;                      /* the GPU whose context the thread has, or -1 */
    int array;                        /* the GPU of the call's array; -1: a call without one */
    int wanted;                       /* the GPU taken; -1: none, and in create if `refused_early` */
    const char *sentence;
    int refused_early;
    const char *what;
} device_choice;

static const device_choice choices[] = {
    {NULL, NULL, -1, -1, 0, NULL, 0, "without anything the first"},
    {NULL, "2", -1, -1, 2, NULL, 0, "LOCAL_RANK's"},
    {NULL, "7", -1, -1, 1, NULL, 0, "LOCAL_RANK's, modulo their count"},
    {NULL, "two", -1, -1, 0, NULL, 0, "the first where LOCAL_RANK is no number"},
    {NULL, "-1", -1, -1, 0, NULL, 0, "the first where LOCAL_RANK is none"},
    {"1", "2", -1, -1, 1, NULL, 0, "HOOP_CUDA_DEVICE's before LOCAL_RANK's"},
    {"-1", "2", -1, -1, 2, NULL, 0, "LOCAL_RANK's where HOOP_CUDA_DEVICE is -1"},
    {"1", "0", 2, -1, 2, NULL, 0, "the current context's before HOOP_CUDA_DEVICE's"},
    {"1", "0", 2, 0, 0, NULL, 0, "the array's before all others"},
    {"9", "0", -1, 1, 1, NULL, 0, "the array's, and nothing is asked of a setting that names none"},
    {"3", "0", -1, -1, -1, "HOOP_CUDA_DEVICE is 3, but this process sees only 3 GPUs, counted from 0", 0,
     "none of a number too high"},
    {"first", "0", -1, -1, -1, "HOOP_CUDA_DEVICE=first: give a whole number", 1, "none of what is no number"},
    {"1024", "0", -1, -1, -1, "HOOP_CUDA_DEVICE=1024: give a whole number", 1, "none of a number that no machine has"},
};

static void
put(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* An operation on the communicator: the GPU that ran it, or -1 with the thread's error. */
static int
use(hoop_comm *comm, void *array)
{
    hp_cuda_limits limits = {.ordinal = -1};
    hoop_result result =
        array ? hoop_allreduce(array, array, 100, HOOP_INT32, HOOP_SUM, comm) : hoop_barrier_on_stream(comm, NULL);
    if (result != HOOP_SUCCESS)
        return -1;
    hp_cuda_limits_of(comm->device[1], &limits);
    return limits.ordinal;
}

static int
says(const char *sentence)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(NULL, &error);
    if (error.code == HOOP_ERR_INVALID_ARGUMENT && strstr(error.text, sentence))
        return 1;
    party_note("error %d: %s", (int)error.code, error.text);
    return 0;
}

static int
create(const device_choice *c, hoop_comm **comm)
{
    hoop_result result = hoop_comm_create(comm, NULL);
    if (c->refused_early)
        return result == HOOP_SUCCESS || !says(c->sentence);
    return result == HOOP_SUCCESS ? 0 : cuda_rank_complain("create");
}

static int
choose(int number, int size, void *arg)
{
    const device_choice *c = &choices[*(int *)arg];
    hoop_comm *comm = NULL;
    arena array = {0}, touched = {0};
    hp_device *owner = NULL, *current = NULL;
    put("HOOP_CUDA_DEVICE", c->setting);
    put("LOCAL_RANK", c->local_rank);
    cuda_test_driver();
    if (c->current >= 0) /* a thread without a context gets one by its first call */
        touched = arena_new(current = cuda_test_open_on(c->current), ARENA_DEVICE, 4096);
    if (c->array >= 0)
        array = arena_new(owner = cuda_test_open_on(c->array), ARENA_DEVICE, 4096);
    int bad = create(c, &comm);
    if (comm) {
        int seen = use(comm, array.memory);
        bad = seen != c->wanted || (seen < 0 && !says(c->sentence));
        if (seen != c->wanted)
            party_note("GPU %d instead of %d", seen, c->wanted);
        bad = bad || hoop_comm_destroy(comm) != HOOP_SUCCESS;
    }
    if (owner)
        arena_free(&array);
    if (current)
        arena_free(&touched);
    if (owner)
        owner->ops->close(owner);
    if (current)
        current->ops->close(current);
    return bad;
}

static void
test_choice(party *p, int number)
{
    ok(party_run(p, 1, choose, &number, 30) == 0, "a communicator takes %s", choices[number].what);
}

/* Each rank has a GPU of its own, but the last two share one: all ranks get the right results. */
static int
adds(cuda_rank *r)
{
    hp_cuda_limits limits;
    int32_t value;
    hp_cuda_limits_of(r->device, &limits);
    cuda_rank_fill(r, 1);
    int bad = limits.ordinal != r->rank % DEVICES || cuda_rank_sum(r, 1);
    arena_get(&r->out, &value, sizeof(value));
    if (!bad && value != r->size * (r->size + 1) / 2) {
        party_note("%d", value);
        bad = 1;
    }
    return bad;
}

static int
apart(int number, int size, void *arg)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    setenv("LOCAL_RANK", text, 1);
    return cuda_rank_be(number, size, adds, 0);
}

/* After other arrays, one in a private context: the call refuses it and starts nothing. */
static int
private_context(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_work *work = NULL;
    int bad = cuda_rank_sum(r, 10);
    r->fake->apart(1);
    arena other = arena_new(r->device, ARENA_DEVICE, 4096);
    r->fake->apart(0);
    if (r->rank == 0 &&
        (hoop_allreduce(other.memory, r->out.memory, 10, HOOP_INT32, HOOP_SUM, r->comm) != HOOP_ERR_UNSUPPORTED ||
         hoop_iallreduce(r->in.memory, other.memory, 10, HOOP_INT32, HOOP_SUM, r->comm, &work) !=
             HOOP_ERR_UNSUPPORTED ||
         hoop_broadcast_on_stream(other.memory, other.memory, 10, HOOP_INT32, 0, r->comm, NULL) !=
             HOOP_ERR_UNSUPPORTED)) {
        party_note("not refused");
        bad = 1;
    }
    hoop_comm_error(NULL, &error);
    if (r->rank == 0 && !strstr(error.text, "in a CUDA context of its own"))
        bad = cuda_rank_complain("another sentence");
    bad = bad || cuda_rank_sum(r, 10);
    arena_free(&other);
    return bad;
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    if (getenv("HOOP_TEST_CUDA"))
        skip_all("a real driver has the GPUs that it has");
    setenv("HOOP_FAKE_CUDA_DEVICES", "3", 1);
    party_open(&p);
    for (int i = 0; i < (int)(sizeof(choices) / sizeof(*choices)); i++)
        test_choice(&p, i);
    ok(party_run(&p, 4, apart, NULL, 60) == 0, "4 ranks: on GPUs of their own, by LOCAL_RANK");
    cuda_rank_party(&p, 2, private_context, 0,
                    "an array of a context of its own is one call's error, and nobody else's");
    party_close(&p);
    return 0;
}
