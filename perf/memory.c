/* SPDX-License-Identifier: MIT */
/*
 * memory: pages of the host, or of a GPU. The GPU's come from the CUDA driver, which is loaded when it is asked for, so
 * that this program links nothing of CUDA and needs no header of it.
 */
#include "perf/memory.h"

#include "hoop.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t GUARDS = (size_t)2 * PERF_GUARD;

static const perf_memory host = {"host memory"};

/* --- a GPU's memory --- */

typedef unsigned long long gpu_address;

/* The driver's functions, by the names that symbols[] has in the same order. */
static struct {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int length, int device);
    int (*primary_retain)(void **context, int device);
    int (*context_set)(void *context);
    int (*alloc)(gpu_address *memory, size_t bytes);
    int (*release)(gpu_address memory);
    int (*copy)(gpu_address to, gpu_address from, size_t bytes);
    int (*stream_wait)(void *stream);
    int (*error_name)(int error, const char **name);
} driver;

static const char *const symbols[] = {
    "cuInit",        "cuDeviceGet",  "cuDeviceGetName", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
    "cuMemAlloc_v2", "cuMemFree_v2", "cuMemcpy",        "cuStreamSynchronize",      "cuGetErrorName"};
enum { SYMBOLS = sizeof(symbols) / sizeof(symbols[0]), GPU_PIECE = 1024 * 1024 };
_Static_assert(sizeof(driver) == SYMBOLS * sizeof(void *), "every function has its symbol");

static char gpu_name[96];
static char gpu_pattern[GPU_PIECE];

static gpu_address
address(const void *memory)
{
    return (gpu_address)(uintptr_t)memory;
}

static int
load_driver(char *why, size_t size)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, size, "%s", dlerror());
        return -1;
    }
    for (size_t i = 0; i < SYMBOLS; i++) {
        void *function = dlsym(library, symbols[i]);
        if (!function) {
            snprintf(why, size, "libcuda.so.1 has no function %s", symbols[i]);
            return -1;
        }
        memcpy((char *)&driver + i * sizeof(function), &function, sizeof(function));
    }
    return 0;
}

static const char *
error_name(int error)
{
    const char *name = NULL;
    return driver.error_name(error, &name) == 0 && name ? name : "an unknown error";
}

/* There is nothing left to measure where a GPU fails: the program ends. */
static void
need_gpu(int error, const char *call)
{
    if (error == 0)
        return;
    fprintf(stderr, "hoop-bench: %s failed: %s\n", call, error_name(error));
    exit(EXIT_FAILURE);
}

static const perf_memory gpu = {gpu_name};

/* Opens the GPU that hoop takes for this process, and leaves its context on this thread. 0, or -1 and why. */
static int
open_gpu(char *why, size_t size)
{
    hoop_error error = {.size = sizeof(error)};
    int ordinal, device = 0, failed;
    char name[64] = "";
    void *context = NULL;
    if (hoop_gpu_ordinal(&ordinal) != HOOP_SUCCESS) {
        hoop_comm_error(NULL, &error);
        snprintf(why, size, "%s", error.text);
        return -1;
    }
    if (load_driver(why, size) != 0)
        return -1;
    failed = driver.init(0);
    failed = failed ? failed : driver.device_get(&device, ordinal);
    failed = failed ? failed : driver.device_name(name, sizeof(name), device);
    failed = failed ? failed : driver.primary_retain(&context, device);
    failed = failed ? failed : driver.context_set(context);
    if (failed)
        snprintf(why, size, "GPU %d cannot be opened: %s", ordinal, error_name(failed));
    snprintf(gpu_name, sizeof(gpu_name), "memory of GPU %d (%s)", ordinal, name);
    return failed ? -1 : 0;
}

/* --- which of them --- */

const perf_memory *
perf_memory_open(int gpus, char *why, size_t size)
{
    char reason[256] = "";
    if (gpus == 0)
        return &host;
    if (open_gpu(reason, sizeof(reason)) == 0)
        return &gpu;
    snprintf(why, size, "-g %d asks for GPU memory, and there is none here (%s): use -g 0 for host memory", gpus,
             reason);
    return NULL;
}

uint64_t
perf_memory_available(const char *meminfo)
{
    unsigned long long kib;
    uint64_t bytes = UINT64_MAX;
    char line[128];
    FILE *file = fopen(meminfo, "re");
    if (!file)
        return bytes;
    while (bytes == UINT64_MAX && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            bytes = kib * 1024;
    fclose(file);
    return bytes;
}

static void *
alloc(const perf_memory *memory, size_t bytes)
{
    gpu_address there = 0;
    if (memory == &gpu)
        return driver.alloc(&there, bytes) == 0 ? (void *)(uintptr_t)there : NULL;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void
perf_memory_copy(const perf_memory *memory, void *to, const void *from, size_t bytes)
{
    if (memory == &host)
        memcpy(to, from, bytes);
    if (memory == &host || bytes == 0)
        return;
    need_gpu(driver.copy(address(to), address(from), bytes), "cuMemcpy");
    /* A copy to the GPU may return when its source was read, before it arrives. */
    need_gpu(driver.stream_wait(NULL), "cuStreamSynchronize");
}

void
perf_memory_fill(const perf_memory *memory, void *to, int byte, size_t bytes)
{
    if (memory == &host) {
        memset(to, byte, bytes);
        return;
    }
    memset(gpu_pattern, byte, bytes < GPU_PIECE ? bytes : GPU_PIECE);
    for (size_t at = 0; at < bytes; at += GPU_PIECE)
        perf_memory_copy(memory, (char *)to + at, gpu_pattern, bytes - at < GPU_PIECE ? bytes - at : GPU_PIECE);
}

/* --- buffers --- */

uint64_t
perf_buffer_takes(uint64_t bytes)
{
    return bytes < UINT64_MAX - GUARDS ? bytes + GUARDS : UINT64_MAX;
}

int
perf_buffer_open(perf_buffer *buffer, const perf_memory *memory, size_t bytes)
{
    *buffer = (perf_buffer){.memory = memory, .bytes = bytes};
    buffer->base = alloc(memory, bytes + GUARDS);
    if (!buffer->base)
        return -1;
    buffer->data = buffer->base + PERF_GUARD;
    perf_memory_fill(memory, buffer->base, 0, bytes + GUARDS); /* the kernel gives all pages before the first timing */
    return 0;
}

void
perf_buffer_close(perf_buffer *buffer)
{
    if (buffer->base && buffer->memory == &gpu)
        driver.release(address(buffer->base));
    else if (buffer->base)
        munmap(buffer->base, buffer->bytes + GUARDS);
    buffer->base = NULL;
}

enum { EDGE = 64, MARK = 0x5C };

void
perf_buffer_guard(perf_buffer *buffer, size_t used)
{
    perf_memory_fill(buffer->memory, buffer->data - EDGE, MARK, EDGE);
    perf_memory_fill(buffer->memory, buffer->data + used, MARK, EDGE);
}

size_t
perf_buffer_trespassed(const perf_buffer *buffer, size_t used)
{
    uint8_t edges[2 * EDGE];
    size_t changed = 0;
    perf_memory_copy(buffer->memory, edges, buffer->data - EDGE, EDGE);
    perf_memory_copy(buffer->memory, edges + EDGE, buffer->data + used, EDGE);
    for (size_t i = 0; i < sizeof(edges); i++)
        changed += edges[i] != MARK;
    return changed;
}
