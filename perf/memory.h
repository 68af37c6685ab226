/* SPDX-License-Identifier: MIT */
/*
 * memory: where the benchmark's buffers live, as a row of functions (-g), and buffers with guarded edges.
 * Everybody else moves bytes by these functions only, so that a further kind of memory is a further row.
 */
#ifndef PERF_MEMORY_H
#define PERF_MEMORY_H

#include <stddef.h>
#include <stdint.h>

typedef struct perf_memory {
    const char *name;             /* for the table's head: "host memory" */
    void *(*alloc)(size_t bytes); /* page-aligned; NULL when there is not enough */
    void (*release)(void *memory, size_t bytes);
    void (*put)(void *to, const void *from, size_t bytes); /* from ordinary memory */
    void (*get)(void *to, const void *from, size_t bytes); /* to ordinary memory */
    void (*fill)(void *to, int byte, size_t bytes);
} perf_memory;

/* The memory for -g `gpus` on a rank; NULL, with a sentence in why, where this build or machine has none. */
const perf_memory *perf_memory_open(int gpus, char *why, size_t size);

/*
 * Host memory that can still be had, in bytes, as the system's `meminfo` (/proc/meminfo) tells; UINT64_MAX where it
 * does not tell.
 */
uint64_t perf_memory_available(const char *meminfo);
int perf_memory_is_host(const perf_memory *memory);

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
