/* SPDX-License-Identifier: MIT */
/*
 * memory: the kinds of memory that the benchmark's buffers can be (-g), and buffers with guarded edges. All other files move
 * bytes by these functions only.
 */
#ifndef PERF_MEMORY_H
#define PERF_MEMORY_H

#include <stddef.h>
#include <stdint.h>

typedef struct perf_memory {
    const char *name; /* for the table's head: "host memory" */
} perf_memory;

/*
 * The memory for -g `gpus` on a rank. For a GPU it is that of the device that hoop takes for this process; NULL, with a
 * sentence in why, where the library or the machine has none. Later errors of the GPU end the program.
 */
const perf_memory *perf_memory_open(int gpus, char *why, size_t size);

/* Either side of a copy may be ordinary memory. */
void perf_memory_copy(const perf_memory *memory, void *to, const void *from, size_t bytes);
void perf_memory_fill(const perf_memory *memory, void *to, int byte, size_t bytes);

/* Bytes of host memory that are still available by `meminfo` (/proc/meminfo); UINT64_MAX where it does not say. */
uint64_t perf_memory_available(const char *meminfo);

enum { PERF_GUARD = 4096 };

typedef struct perf_buffer {
    const perf_memory *memory;
    uint8_t *base, *data; /* data = base + PERF_GUARD: page-aligned */
    size_t bytes;         /* at data; as many as PERF_GUARD follow */
} perf_buffer;

uint64_t perf_buffer_takes(uint64_t bytes);                                         /* with its edges */
int perf_buffer_open(perf_buffer *buffer, const perf_memory *memory, size_t bytes); /* 0, or -1 out of memory */
void perf_buffer_close(perf_buffer *buffer);

/* Marks what lies before data and behind its first `used` bytes; later: how many of the marked bytes have changed. */
void perf_buffer_guard(perf_buffer *buffer, size_t used);
size_t perf_buffer_trespassed(const perf_buffer *buffer, size_t used);

#endif
