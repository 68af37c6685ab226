/* SPDX-License-Identifier: MIT */
/* bench_memory: host memory; a GPU's is in bench_gpu.c. */
#include "bin/bench_memory.h"

#include "base/mem.h"
#include "bin/bench_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t GUARDS = (size_t)2 * BENCH_GUARD;

static void
copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void
fill(void *to, int byte, size_t bytes)
{
    memset(to, byte, bytes);
}

static const bench_memory host = {"host memory", hp_pages, hp_pages_free, copy, copy, fill};

const bench_memory *
bench_memory_open(int gpus, char *why, size_t size)
{
    hoop_error error = {.size = sizeof(error)};
    const bench_memory *gpu;
    if (gpus == 0)
        return &host;
    gpu = bench_gpu_open(&error);
    if (!gpu)
        snprintf(why, size, "-g %d asks for GPU memory, which there is none of here (%s): use -g 0 for host memory",
                 gpus, error.text);
    return gpu;
}

uint64_t
bench_memory_available(const char *meminfo)
{
    static const char name[] = "MemAvailable:";
    uint64_t bytes = UINT64_MAX;
    char line[128];
    FILE *file = fopen(meminfo, "re");
    if (!file)
        return bytes;
    while (bytes == UINT64_MAX && fgets(line, sizeof(line), file))
        if (strncmp(line, name, sizeof(name) - 1) == 0)
            bytes = strtoull(line + sizeof(name) - 1, NULL, 10) * 1024;
    fclose(file);
    return bytes;
}

int
bench_memory_is_host(const bench_memory *memory)
{
    return memory == &host;
}

uint64_t
bench_buffer_takes(uint64_t bytes)
{
    return bytes < UINT64_MAX - GUARDS ? bytes + GUARDS : UINT64_MAX;
}

int
bench_buffer_open(bench_buffer *buffer, const bench_memory *memory, size_t bytes)
{
    *buffer = (bench_buffer){.memory = memory, .bytes = bytes};
    buffer->base = memory->alloc(bytes + GUARDS);
    if (!buffer->base)
        return -1;
    buffer->data = buffer->base + BENCH_GUARD;
    memory->fill(buffer->base, 0, bytes + GUARDS); /* all pages are there before anything is timed */
    return 0;
}

void
bench_buffer_close(bench_buffer *buffer)
{
    if (buffer->base)
        buffer->memory->release(buffer->base, buffer->bytes + GUARDS);
    buffer->base = NULL;
}

enum { EDGE = 64, MARK = 0x5C };

void
bench_buffer_guard(bench_buffer *buffer, size_t used)
{
    buffer->memory->fill(buffer->data - EDGE, MARK, EDGE);
    buffer->memory->fill(buffer->data + used, MARK, EDGE);
}

size_t
bench_buffer_trespassed(const bench_buffer *buffer, size_t used)
{
    uint8_t edges[2 * EDGE];
    size_t changed = 0;
    buffer->memory->get(edges, buffer->data - EDGE, EDGE);
    buffer->memory->get(edges + EDGE, buffer->data + used, EDGE);
    for (size_t i = 0; i < sizeof(edges); i++)
        changed += edges[i] != MARK;
    return changed;
}
