/* SPDX-License-Identifier: MIT */
/* cuda_test: drivers, memory, data and comparison for the tests of the CUDA backend. */
#include "t/gpu/cuda_test.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "gpu/codec.h"
#include "gpu/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const hoop_fake_cuda *
stand_in(void)
{
    const char *path = getenv("HOOP_TEST_LIBCUDA");
    const char *build = getenv("abs_top_builddir");
    char made[4096];
    if (!path) {
        snprintf(made, sizeof(made), "%s/t/tools/.libs/libcuda.so.1", build ? build : ".");
        path = made;
    }
    if (access(path, F_OK) != 0)
        skip_all("the stand-in driver %s is not there: was hoop configured with --disable-shared?", path);
    /* Once a library of that name is in the process, every dlopen of the name finds it. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        bail("cannot load the stand-in driver: %s", dlerror());
    const hoop_fake_cuda *fake = dlsym(handle, "hoop_fake_cuda_table");
    if (!fake)
        bail("%s is not the stand-in driver", path);
    return fake;
}

/* Asks the driver, not hoop: if there is a GPU and hoop cannot use it, the tests must fail. */
static void
want_gpu(void)
{
    static const char absent[] = "libcuda.so.1: cannot open shared object file";
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const char *why = !driver ? dlerror() : "";
    if (!driver && strncmp(why, absent, strlen(absent)) == 0)
        skip_all("no CUDA driver: %s", why);
    if (!driver)
        bail("the CUDA driver cannot be loaded: %s", why);
    hp_cu_result (*start)(unsigned flags) = NULL;
    hp_cu_result (*count)(int *number) = NULL;
    void *functions[] = {dlsym(driver, "cuInit"), dlsym(driver, "cuDeviceGetCount")};
    memcpy(&start, &functions[0], sizeof(start));
    memcpy(&count, &functions[1], sizeof(count));
    int number = 1;
    hp_cu_result started = start ? start(0) : HP_CU_SUCCESS;
    if (started == HP_CU_SUCCESS && count && count(&number) != HP_CU_SUCCESS)
        number = 1;
    if (started == HP_CU_NO_DEVICE || number == 0)
        skip_all("the CUDA driver shows no GPU");
}

hp_device *
cuda_test_open(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_device *device = NULL;
    if (hp_cuda_ops.open(&device, NULL, &error) != HOOP_SUCCESS)
        bail("cannot open the GPU: %s", error.text);
    return device;
}

const hoop_fake_cuda *
cuda_test_driver(void)
{
    const char *which = getenv("HOOP_TEST_CUDA");
    if (!which || strcmp(which, "real") != 0)
        return stand_in();
    want_gpu();
    hp_cuda_ops.close(cuda_test_open());
    return NULL;
}

static void *
open_apart(void *out)
{
    *(hp_device **)out = cuda_test_open();
    return NULL;
}

hp_device *
cuda_test_open_on(int ordinal)
{
    hp_device *device = NULL;
    pthread_t thread;
    hp_cuda_configure(&(hp_cuda_options){.device = ordinal});
    if (pthread_create(&thread, NULL, open_apart, &device) != 0)
        bail("no thread");
    pthread_join(thread, NULL);
    hp_cuda_configure(&(hp_cuda_options){.device = -1});
    return device;
}

arena
arena_new(hp_device *device, arena_kind kind, size_t bytes)
{
    arena a = {.kind = kind, .device = device, .bytes = bytes};
    hoop_error error = {.size = sizeof(error)};
    void *memory = NULL;
    if (kind == ARENA_DEVICE) {
        if (hp_cuda_alloc(device, &memory, bytes, &error) != HOOP_SUCCESS)
            bail("%s", error.text);
    } else {
        memory = kind == ARENA_SLOT ? hp_pages(bytes) : aligned_alloc(64, (bytes + 63) & ~(size_t)63);
        if (!memory)
            bail("out of memory");
        if (kind == ARENA_SLOT && device->ops->pin(device, memory, bytes, &error) != HOOP_SUCCESS)
            bail("%s", error.text);
    }
    a.memory = memory;
    return a;
}

void
arena_free(arena *a)
{
    if (a->kind == ARENA_DEVICE) {
        hp_cuda_free(a->device, a->memory);
    } else if (a->kind == ARENA_SLOT) {
        a->device->ops->unpin(a->device, a->memory);
        hp_pages_free(a->memory, a->bytes);
    } else {
        free(a->memory);
    }
}

void
arena_put(const arena *a, const void *bytes, size_t count)
{
    hoop_error error = {.size = sizeof(error)};
    if (a->kind != ARENA_DEVICE)
        memcpy(a->memory, bytes, count);
    else if (hp_cuda_copy(a->device, a->memory, bytes, count, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
}

void
arena_get(const arena *a, void *bytes, size_t count)
{
    hoop_error error = {.size = sizeof(error)};
    if (a->kind != ARENA_DEVICE)
        memcpy(bytes, a->memory, count);
    else if (hp_cuda_copy(a->device, bytes, a->memory, count, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
}

int
cuda_test_wait(hp_queue *queue, uint64_t ticket)
{
    tap_wait w = {0};
    if (ticket == 0)
        return 0;
    while (queue->ops->done(queue) < ticket) {
        if (!tap_waits(&w) || queue->ops->status(queue, NULL) != HOOP_SUCCESS)
            return 0;
        usleep(20);
    }
    return 1;
}

/* Bit patterns that are special in some type; cut to its size. */
static const uint64_t specials[] = {0,
                                    1,
                                    2,
                                    0x7f,
                                    0x80,
                                    0x81,
                                    0xff,
                                    0x7b,
                                    0x7c,
                                    0xfc,
                                    0x7e,
                                    0x3c00,
                                    0x7bff,
                                    0x7c00,
                                    0xfc00,
                                    0x7e00,
                                    0x8000,
                                    0x03ff,
                                    0x0400,
                                    0x7f80,
                                    0xff80,
                                    0x7fc0,
                                    0x007f,
                                    0x7fffffff,
                                    0x80000000,
                                    0x7f800000,
                                    0xff800000,
                                    0x7fc00000,
                                    0x00800000,
                                    0x007fffff,
                                    0x7f7fffff,
                                    0xffffffff,
                                    0x7ff0000000000000,
                                    0xfff0000000000000,
                                    0x7ff8000000000000,
                                    0x8000000000000000,
                                    0x7fffffffffffffff,
                                    0x000fffffffffffff,
                                    0x0010000000000000,
                                    0xffffffffffffffff};

void
cuda_test_fill(hoop_dtype dtype, void *elements, size_t count)
{
    size_t size = hp_dtype_size(dtype);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = tap_random();
        if (bits % 8 == 0)
            bits = specials[(bits >> 8) % (sizeof(specials) / sizeof(*specials))];
        else if (dtype == HOOP_BOOL) /* half of them false */
            bits = bits & 8 ? bits >> 8 : 0;
        else if (dtype == HOOP_FLOAT32) /* of similar size: sums that round */
            bits = hp_float_bits((float)(int32_t)bits * 0x1p-20f);
        memcpy((char *)elements + i * size, &bits, size); /* little-endian: the low bytes */
    }
}

static double
value_of(hoop_dtype dtype, const char *element)
{
    uint64_t bits = 0;
    double wide;
    memcpy(&bits, element, hp_dtype_size(dtype));
    memcpy(&wide, &bits, sizeof(wide));
    switch (dtype) {
    case HOOP_FLOAT16: return (double)hp_fp16_decode((uint16_t)bits);
    case HOOP_BFLOAT16: return (double)hp_bf16_decode((uint16_t)bits);
    case HOOP_FLOAT8E4M3: return (double)hp_e4m3_decode((uint8_t)bits);
    case HOOP_FLOAT8E5M2: return (double)hp_e5m2_decode((uint8_t)bits);
    case HOOP_FLOAT32: return (double)hp_float_from_bits((uint32_t)bits);
    case HOOP_FLOAT64: return wide;
    default: return 1; /* integers have no NaN and one zero */
    }
}

int
cuda_test_same(hoop_dtype dtype, hoop_op op, const void *wanted, const void *seen, size_t count)
{
    size_t size = hp_dtype_size(dtype);
    if (memcmp(wanted, seen, count * size) == 0)
        return 1;
    for (size_t i = 0; i < count; i++) {
        const char *a = (const char *)wanted + i * size, *b = (const char *)seen + i * size;
        double x = value_of(dtype, a), y = value_of(dtype, b);
        int nans = x != x && y != y;
        int zeros = (op == HOOP_MAX || op == HOOP_MIN) && x == 0 && y == 0;
        if (memcmp(a, b, size) != 0 && !nans && !zeros) {
            uint64_t p = 0, q = 0;
            memcpy(&p, a, size);
            memcpy(&q, b, size);
            diag("element %zu: wanted %#llx, seen %#llx", i, (unsigned long long)p, (unsigned long long)q);
            return 0;
        }
    }
    return 1;
}

/* --- numbers --- */

hp_queue *
cuda_test_queue(hp_device *device)
{
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = NULL;
    if (device->ops->queue_open(device, &queue, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    return queue;
}

hp_command
cuda_test_copy(void *to, const void *from, size_t count)
{
    return (hp_command){.elem = HOOP_INT32,
                        .wire = HOOP_INT32,
                        .sources = 1,
                        .destinations = 1,
                        .src = {{(void *)(uintptr_t)from, 0}},
                        .dst = {{to, 0}},
                        .count = count};
}

hp_command
cuda_test_add(void *to, const void *from, size_t count)
{
    hp_command command = cuda_test_copy(to, from, count);
    command.sources = 2;
    command.src[1].ptr = to;
    return command;
}

void
arena_fill(const arena *a, int value)
{
    int32_t numbers[ARENA_VALUES];
    for (int i = 0; i < ARENA_VALUES; i++)
        numbers[i] = value;
    arena_put(a, numbers, sizeof(numbers));
}

int
arena_value(const arena *a)
{
    int32_t numbers[ARENA_VALUES];
    arena_get(a, numbers, sizeof(numbers));
    for (int i = 1; i < ARENA_VALUES; i++) {
        if (numbers[i] != numbers[0])
            return -1;
    }
    return numbers[0];
}

/* --- drivers that behave differently --- */

void
cuda_test_variants(const hoop_fake_cuda *fake, void (*test)(unsigned delay_us))
{
    const unsigned late = 300;
    test(0);
    if (!fake)
        return;
    fake->delay(late);
    diag("every operation of a stream is late, by different times");
    test(late);
    fake->memory_ops(0);
    diag("kernels in place of stream memory operations");
    test(late);
    fake->jealous(1);
    diag("calls that may wait for all streams do");
    test(late);
}
