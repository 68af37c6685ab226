/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend's arithmetic against the host's: every type, operation and shape of a command, every alignment,
 * tails, operands in device memory, slots and plain host memory in every mixture, nothing written beside the
 * destinations.
 */
#include "base/dtype.h"
#include "t/gpu/cuda_test.h"
#include "t/gpu/reference.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA = 9 * 1024, MARGIN = 64, MOST = 1000 };

typedef struct command_shape {
    const char *name;
    int sources, destinations, exchange;
    uint32_t divisor;
} command_shape;

static const uint32_t means[][2] = {{1, 1}, {2, 1}, {1, 4}, {6, 7}, {63, 1}, {1, 999}};

static const command_shape shapes[] = {
    {"send", 1, 1, 0, 0},          {"copy to two", 1, 2, 0, 0},    {"reduce", 2, 1, 0, 0},
    {"reduce to two", 2, 2, 0, 0}, {"reduce, divide", 2, 2, 0, 3}, {"divide", 1, 1, 0, 7},
    {"exchange", 2, 2, 1, 0},      {"divide to two", 1, 2, 0, 2},
};

static hp_device *device;
static hp_queue *queue;
static arena arenas[4][ARENA_KINDS]; /* for src[0], src[1], dst[0], dst[1] */

/* The operand's offset in bytes: `step` elements past the margin. */
static size_t
offset_of(hoop_dtype dtype, unsigned step)
{
    return MARGIN + step * hp_dtype_size(dtype);
}

/* Runs a command on arenas of the kinds and at the offsets given, and on copies by the host; compares all bytes. */
static int
try_command(hp_command command, const int kinds[4], const size_t offsets[4])
{
    static char before[4][ARENA], wanted[4][ARENA], seen[4][ARENA];
    hp_command reference = command;
    hp_operand *operands[] = {&command.src[0], &command.src[1], &command.dst[0], &command.dst[1]};
    hp_operand *copies[] = {&reference.src[0], &reference.src[1], &reference.dst[0], &reference.dst[1]};
    int good = 1;
    for (int i = 0; i < 4; i++) {
        hoop_dtype type = operands[i]->wire ? command.wire : command.elem;
        size_t size = hp_dtype_size(type);
        cuda_test_fill(type == HP_SCALED ? HOOP_UINT8 : type, before[i] + offsets[i] % size, (ARENA - size) / size);
        arena_put(&arenas[i][kinds[i]], before[i], ARENA);
        memcpy(wanted[i], before[i], ARENA);
        operands[i]->ptr = arenas[i][kinds[i]].memory + offsets[i];
        copies[i]->ptr = wanted[i] + offsets[i];
    }
    good = cuda_test_wait(queue, queue->ops->submit(queue, &command));
    hp_host_run(&reference);
    for (int i = 0; i < 4 && good; i++) {
        hoop_dtype type = operands[i]->wire ? command.wire : command.elem;
        size_t bytes = (size_t)hp_dtype_bytes(type, command.count), past = offsets[i] + bytes;
        arena_get(&arenas[i][kinds[i]], seen[i], ARENA);
        good =
            memcmp(wanted[i], seen[i], offsets[i]) == 0 && memcmp(wanted[i] + past, seen[i] + past, ARENA - past) == 0;
        if (!good)
            diag("operand %d: bytes beside the array changed", i);
        if (good && type == HP_SCALED)
            good = memcmp(wanted[i] + offsets[i], seen[i] + offsets[i], bytes) == 0;
        else if (good)
            good = cuda_test_same(type, command.op, wanted[i] + offsets[i], seen[i] + offsets[i], command.count);
    }
    return good;
}

static hp_command
command_of(const command_shape *s, hoop_dtype dtype, hoop_op op, size_t count)
{
    return (hp_command){.elem = dtype,
                        .wire = dtype,
                        .op = s->divisor > 0 ? HOOP_AVG : op,
                        .sources = s->sources,
                        .destinations = s->destinations,
                        .exchange = s->exchange,
                        .divisor = s->divisor,
                        .count = count};
}

/* Whether the type has the operation, or the mean of a command that divides. */
static int
applies(const command_shape *s, hoop_dtype dtype, hoop_op op)
{
    return hp_op_applies(s->divisor > 0 ? HOOP_AVG : op, dtype);
}

static void
test_types(void)
{
    const int kinds[4] = {ARENA_SLOT, ARENA_DEVICE, ARENA_SLOT, ARENA_DEVICE};
    for (int i = 0; i < HP_DTYPES * HP_OPS; i++) {
        hoop_dtype dtype = hp_dtype_at(i / HP_OPS);
        hoop_op op = hp_op_at(i % HP_OPS);
        size_t at = offset_of(dtype, 0), offsets[4] = {at, at, at, at};
        int good = 1;
        for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes) && good; s++) {
            good =
                !applies(&shapes[s], dtype, op) || try_command(command_of(&shapes[s], dtype, op, 997), kinds, offsets);
            if (!good)
                diag("shape: %s", shapes[s].name);
        }
        if (hp_op_applies(op, dtype))
            ok(good, "%s %s: every shape, bits as on the host", hp_dtype_name(dtype), hp_op_name(op));
    }
}

/* Two means joined, on 16- and 8-bit floats: the same bits as the host's and as the reference's. */
static void
test_means(void)
{
    static const size_t counts[] = {0, 1, 15, 16, 17, 31, 127, 128, 997};
    const int kinds[4] = {ARENA_SLOT, ARENA_DEVICE, ARENA_SLOT, ARENA_DEVICE};
    for (int i = 0; i < HP_NARROW; i++) {
        int good = 1;
        for (size_t m = 0; m < sizeof(means) / sizeof(*means) && good; m++) {
            for (size_t c = 0; c < sizeof(counts) / sizeof(*counts) && good; c++) {
                size_t at = offset_of(hp_narrow[i], 0), odd = offset_of(hp_narrow[i], 3);
                size_t offsets[4] = {at, c % 3 ? at : odd, at, at};
                hp_command command = command_of(&shapes[c % 2 ? 2 : 3], hp_narrow[i], HOOP_AVG, counts[c]);
                memcpy(command.ranks, means[m], sizeof(command.ranks));
                good = try_command(command, kinds, offsets);
            }
        }
        ok(good, "%s, means of two means: bits as on the host", hp_dtype_name(hp_narrow[i]));
    }
}

/* Aligned operands; for 8-bit floats every element with every other. */
static void
test_means_reference(void)
{
    enum { COUNT = 1 << 16 };
    static uint16_t elements[2][COUNT], mean[COUNT];
    for (int i = 0; i < HP_NARROW; i++) {
        hoop_dtype dtype = hp_narrow[i];
        size_t size = hp_dtype_size(dtype), wrong = 0;
        arena a = arena_new(device, ARENA_DEVICE, COUNT * size), b = arena_new(device, ARENA_SLOT, COUNT * size);
        for (size_t k = 0; k < COUNT; k++) {
            ref_put(dtype, elements[0], k, size == 1 ? k & 0xff : ref_random(dtype));
            ref_put(dtype, elements[1], k, size == 1 ? k >> 8 : ref_random(dtype));
        }
        arena_put(&a, elements[0], COUNT * size);
        arena_put(&b, elements[1], COUNT * size);
        for (size_t m = 0; m < sizeof(means) / sizeof(*means); m++) {
            hp_command command = {.elem = dtype, .wire = dtype, .op = HOOP_AVG, .sources = 2, .destinations = 1};
            command.src[0].ptr = a.memory;
            command.src[1].ptr = b.memory;
            command.dst[0].ptr = mean;
            command.count = COUNT;
            memcpy(command.ranks, means[m], sizeof(command.ranks));
            wrong += !cuda_test_wait(queue, queue->ops->submit(queue, &command));
            for (size_t k = 0; k < COUNT; k++)
                wrong +=
                    ref_get(dtype, mean, k) != ref_mean(dtype, means[m][0], means[m][1], ref_get(dtype, elements[0], k),
                                                        ref_get(dtype, elements[1], k));
        }
        is_uint(0, wrong, "%s, means of two means: bits as in the reference", hp_dtype_name(dtype));
        arena_free(&a);
        arena_free(&b);
    }
}

static void
test_alignments(void)
{
    const int kinds[4] = {ARENA_SLOT, ARENA_DEVICE, ARENA_SLOT, ARENA_DEVICE};
    for (int d = 0; d < HP_DTYPES; d++) {
        hoop_dtype dtype = hp_dtype_at(d);
        unsigned steps = (unsigned)(16 / hp_dtype_size(dtype));
        int good = 1;
        for (int round = 0; round < 60 && good; round++) {
            const command_shape *s = &shapes[tap_random() % (sizeof(shapes) / sizeof(*shapes))];
            size_t count = round < 40 ? (size_t)round : tap_random() % MOST;
            size_t offsets[4];
            unsigned common = (unsigned)(tap_random() % steps);
            for (int i = 0; i < 4; i++) /* every other round with the same offset from 16-byte boundaries */
                offsets[i] = offset_of(dtype, round % 2 ? common : (unsigned)(tap_random() % steps));
            hoop_op op = hp_op_at((int)(tap_random() % HP_OPS));
            if (!hp_op_applies(op, dtype))
                op = HOOP_MIN;
            good = !applies(s, dtype, op) || try_command(command_of(s, dtype, op, count), kinds, offsets);
            if (!good)
                diag("%s, %zu elements at %zu %zu %zu %zu", s->name, count, offsets[0], offsets[1], offsets[2],
                     offsets[3]);
        }
        ok(good, "%s: any alignment, any tail", hp_dtype_name((hoop_dtype)dtype));
    }
}

static void
test_mixtures(void)
{
    size_t offsets[4] = {MARGIN, MARGIN + 8, MARGIN, MARGIN + 16};
    for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
        int good = 1;
        for (int mix = 0; mix < ARENA_KINDS * ARENA_KINDS * ARENA_KINDS * ARENA_KINDS && good; mix++) {
            int kinds[4] = {mix % 3, mix / 3 % 3, mix / 9 % 3, mix / 27};
            hoop_dtype dtype = hp_dtype_at(mix % HP_DTYPES);
            good = !applies(&shapes[s], dtype, HOOP_SUM) ||
                   try_command(command_of(&shapes[s], dtype, HOOP_SUM, 500), kinds, offsets);
            if (!good)
                diag("kinds %d %d %d %d", kinds[0], kinds[1], kinds[2], kinds[3]);
        }
        ok(good, "%s: operands in device memory, slots and host memory, in every mixture", shapes[s].name);
    }
}

static void
test_wire(void)
{
    const hoop_dtype floats[] = {HOOP_FLOAT16,  HOOP_FLOAT32,    HOOP_FLOAT64,
                                 HOOP_BFLOAT16, HOOP_FLOAT8E4M3, HOOP_FLOAT8E5M2};
    const int kinds[4] = {ARENA_SLOT, ARENA_DEVICE, ARENA_SLOT, ARENA_DEVICE};
    const size_t offsets[4] = {MARGIN, MARGIN, MARGIN, MARGIN};
    for (size_t pair = 0; pair < 36; pair++) {
        hoop_dtype elem = floats[pair / 6], wire = floats[pair % 6];
        int good = 1;
        for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
            for (int tags = 0; tags < 16 && good; tags++) {
                hp_command command = command_of(&shapes[s], elem, (hoop_op)(tap_random() % 4), 300);
                command.wire = wire;
                command.src[0].wire = tags & 1;
                command.src[1].wire = tags >> 1 & 1;
                command.dst[0].wire = tags >> 2 & 1;
                command.dst[1].wire = tags >> 3 & 1;
                command.remainder = elem == HOOP_FLOAT32 && command.destinations == 2 && !command.exchange &&
                                    tags >> 2 == 1 && tap_random() % 2;
                good = try_command(command, kinds, offsets);
                if (!good)
                    diag("%s, tags %d", shapes[s].name, tags);
            }
        }
        ok(good, "%s on a wire of %s", hp_dtype_name(elem), hp_dtype_name(wire));
    }
}

/* Whole blocks, and with a short one at the end; in pages that need the bounce buffer, too. */
static void
test_scaled(void)
{
    static const size_t counts[] = {0, 1, 63, 64, 65, 300, 640};
    const size_t offsets[4] = {MARGIN, MARGIN, MARGIN, MARGIN};
    int kinds[4];
    for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
        int good = !shapes[s].exchange;
        for (int tags = 1; tags < 16 && good; tags++) {
            hp_command command = command_of(&shapes[s], HOOP_FLOAT32, HOOP_SUM, counts[tap_random() % 7]);
            for (int i = 0; i < 4; i++)
                kinds[i] = (int)(tap_random() % ARENA_KINDS);
            command.wire = HP_SCALED;
            command.src[0].wire = tags & 1;
            command.src[1].wire = tags >> 1 & 1;
            command.dst[0].wire = tags >> 2 & 1;
            command.dst[1].wire = tags >> 3 & 1;
            command.remainder = command.destinations == 2 && tags >> 2 == 1;
            good = try_command(command, kinds, offsets);
            if (!good)
                diag("%s, tags %d, %zu elements", shapes[s].name, tags, command.count);
        }
        if (!shapes[s].exchange)
            ok(good, "float32 as e4m3 in blocks: %s", shapes[s].name);
    }
}

/* dst[0] is src[0], dst[1] is src[1], as in operations in place. */
static void
test_in_place(void)
{
    for (int kind = 0; kind < ARENA_KINDS; kind++) {
        for (int exchange = 0; exchange < 2; exchange++) {
            float a[700], b[700], sum[700], x[700], y[700];
            const arena *first = &arenas[0][kind], *second = &arenas[1][ARENA_DEVICE];
            for (int i = 0; i < 700; i++) {
                a[i] = (float)i;
                b[i] = (float)(1000 - 3 * i);
                sum[i] = a[i] + b[i];
            }
            arena_put(first, a, sizeof(a));
            arena_put(second, b, sizeof(b));
            hp_command command = {.elem = HOOP_FLOAT32,
                                  .wire = HOOP_FLOAT32,
                                  .sources = 2,
                                  .destinations = 2,
                                  .exchange = exchange,
                                  .src = {{first->memory, 0}, {second->memory, 0}},
                                  .dst = {{first->memory, 0}, {second->memory, 0}},
                                  .count = 700};
            ok(cuda_test_wait(queue, queue->ops->submit(queue, &command)), "a command on its own sources is done");
            arena_get(first, x, sizeof(x));
            arena_get(second, y, sizeof(y));
            is_blob(exchange ? b : sum, x, sizeof(x), "kind %d, %s: the first", kind, exchange ? "exchange" : "sum");
            is_blob(exchange ? a : sum, y, sizeof(y), "kind %d, %s: the second", kind, exchange ? "exchange" : "sum");
        }
    }
}

/* Larger than a piece of the bounce buffer, and than the grid: loops run more than once. */
static void
test_large(void)
{
    const size_t count = 1024 * 1024 + 13;
    float *a = malloc(count * sizeof(*a)), *b = malloc(count * sizeof(*b));
    arena in = arena_new(device, ARENA_DEVICE, count * sizeof(*a));
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        a[i] = (float)(i % 1000);
    arena_put(&in, a, count * sizeof(*a));
    hp_command command = {.elem = HOOP_FLOAT32,
                          .wire = HOOP_FLOAT32,
                          .op = HOOP_SUM,
                          .sources = 2,
                          .destinations = 2,
                          .src = {{in.memory, 0}, {a, 0}},
                          .dst = {{in.memory, 0}, {b, 0}},
                          .count = count};
    ok(cuda_test_wait(queue, queue->ops->submit(queue, &command)), "a million elements, half of them in host memory");
    for (size_t i = 0; i < count; i++)
        wrong += b[i] < 2 * a[i] || b[i] > 2 * a[i];
    is_uint(0, wrong, "host side right");
    memset(a, 0, count * sizeof(*a));
    arena_get(&in, a, count * sizeof(*a));
    is_blob(b, a, count * sizeof(*a), "device side the same");
    arena_free(&in);
    free(a);
    free(b);
}

static void *
open_second(void *arg)
{
    hp_device **second = arg;
    hp_cuda_configure(&(hp_cuda_options){.device = 1}); /* a new thread has no current context, which would decide */
    *second = cuda_test_open();
    hp_cuda_configure(&(hp_cuda_options){.device = -1});
    return NULL;
}

/* Work on another GPU is in no stream of this one, so its arrays are refused, by the call and by a queue. */
static void
test_second_gpu(void)
{
    const size_t count = 1000;
    hp_device *second = NULL;
    hp_queue *own = NULL;
    hp_cuda_limits limits;
    pthread_t thread;
    hoop_error error = {.size = sizeof(error)};
    pthread_create(&thread, NULL, open_second, &second);
    pthread_join(thread, NULL);
    hp_cuda_limits_of(second, &limits);
    is_int(1, limits.ordinal, "the configured GPU is opened");
    arena there = arena_new(second, ARENA_DEVICE, count * sizeof(int32_t));
    arena here = arena_new(device, ARENA_DEVICE, count * sizeof(int32_t));
    is_int(HOOP_SUCCESS, device->ops->admit(device, here.memory, &error), "an array of the own GPU is taken");
    is_int(HOOP_ERR_UNSUPPORTED, device->ops->admit(device, there.memory, &error), "an array of another one is not");
    ok(strstr(error.text, "in the memory of GPU 1, and this communicator uses GPU 0"), "%s", error.text);
    hp_command command = {.elem = HOOP_INT32,
                          .wire = HOOP_INT32,
                          .op = HOOP_SUM,
                          .sources = 2,
                          .destinations = 2,
                          .src = {{there.memory, 0}, {here.memory, 0}},
                          .dst = {{there.memory, 0}, {here.memory, 0}},
                          .count = count};
    if (device->ops->queue_open(device, &own, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    is_uint(0, own->ops->submit(own, &command), "a command on arrays of two GPUs is refused");
    is_int(HOOP_ERR_UNSUPPORTED, own->ops->status(own, &error), "%s", error.text);
    device->ops->queue_close(own);
    arena_free(&there);
    arena_free(&here);
    second->ops->close(second);
}

int
main(void)
{
    hoop_error error = {.size = sizeof(error)};
    tap_limit(240);
    setenv("HOOP_FAKE_CUDA_DEVICES", "2", 1);
    const hoop_fake_cuda *fake = cuda_test_driver();
    plan_lazy();
    device = cuda_test_open();
    if (device->ops->queue_open(device, &queue, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    for (int i = 0; i < 4; i++) {
        for (int kind = 0; kind < ARENA_KINDS; kind++)
            arenas[i][kind] = arena_new(device, (arena_kind)kind, ARENA);
    }
    test_types();
    test_means();
    test_means_reference();
    test_alignments();
    test_mixtures();
    test_wire();
    test_scaled();
    test_in_place();
    test_large();
    if (fake)
        test_second_gpu();
    is_int(HOOP_SUCCESS, queue->ops->status(queue, &error), "no error on the way");
    for (int i = 0; i < 4; i++) {
        for (int kind = 0; kind < ARENA_KINDS; kind++)
            arena_free(&arenas[i][kind]);
    }
    queue->ops->queue_close(queue);
    device->ops->close(device);
    if (fake)
        is_int(0, fake->live(), "nothing of the driver's is left");
    return 0;
}
