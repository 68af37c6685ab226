/* SPDX-License-Identifier: MIT */
/* memory: host memory; a GPU's is in perf_gpu.c. */
#include "perf/memory.h"

#include "base/mem.h"
#include "perf/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t GUARDS = (size_t)2 * PERF_GUARD;

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

static const perf_memory host = {"host memory", hp_pages, hp_pages_free, copy, copy, fill};

const perf_memory *
perf_memory_open(int gpus, char *why, size_t size)
{
    hoop_error error = {.size = sizeof(error)};
    const perf_memory *gpu;
    if (gpus == 0)
        return &host;
    gpu = perf_gpu_open(&error);
    if (!gpu)
        snprintf(why, size, "-g %d asks for GPU memory, which there is none of here (%s): use -g 0 for host memory",
                 gpus, error.text);
    return gpu;
}

uint64_t
perf_memory_available(const char *meminfo)
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
perf_memory_is_host(const perf_memory *memory)
{
    return memory == &host;
}

uint64_t
perf_buffer_takes(uint64_t bytes)
{
    return bytes < UINT64_MAX - GUARDS ? bytes + GUARDS : UINT64_MAX;
}

int
perf_buffer_open(perf_buffer *buffer, const perf_memory *memory, size_t bytes)
{
    *buffer = (perf_buffer){.memory = memory, .bytes = bytes};
    buffer->base = memory->alloc(bytes + GUARDS);
    if (!buffer->base)
        return -1;
    buffer->data = buffer->base + PERF_GUARD;
    memory->fill(buffer->base, 0, bytes + GUARDS); /* all pages are there before anything is timed */
    return 0;
}

void
perf_buffer_close(perf_buffer *buffer)
{
    if (buffer->base)
        buffer->memory->release(buffer->base, buffer->bytes + GUARDS);
    buffer->base = NULL;
}

enum { EDGE = 64, MARK = 0x5C };

void
perf_buffer_guard(perf_buffer *buffer, size_t used)
{
    buffer->memory->fill(buffer->data - EDGE, MARK, EDGE);
    buffer->memory->fill(buffer->data + used, MARK, EDGE);
}

size_t
perf_buffer_trespassed(const perf_buffer *buffer, size_t used)
{
    uint8_t edges[2 * EDGE];
    size_t changed = 0;
    buffer->memory->get(edges, buffer->data - EDGE, EDGE);
    buffer->memory->get(edges + EDGE, buffer->data + used, EDGE);
    for (size_t i = 0; i < sizeof(edges); i++)
        changed += edges[i] != MARK;
    return changed;
}
