/* SPDX-License-Identifier: MIT */
/*
 * shm: memory that two processes of one host share, as a stream of bytes in each direction: a ring of bytes, one count that
 * its writer alone changes and one that its reader alone changes. A process that sleeps has said before at which count it
 * wants to be woken, over the connection that stands beside the memory. No count of the other process is believed: one that
 * cannot be is an error, and what is read is copied before it is looked at.
 *
 * The process that dials makes the memory, a sealed memfd, which cannot shrink. The other one opens it by /proc, with
 * the number of the process and the descriptor in the HELLO, and compares what it finds.
 */
#ifndef HP_SHM_H
#define HP_SHM_H

#include "net/handshake.h"

#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { HP_SHM_LEAST = 64 }; /* the smallest ring */

/* One end of one direction: it writes or reads up to a count that the other process moves on. */
typedef struct hp_pipe {
    /* shared: how many bytes each process has put in or taken out; at which count of the other one it wants to be woken */
    _Atomic uint64_t *count, *other_count, *wish, *other_wish;
    uint8_t *bytes;    /* shared: the ring; NULL: there is no such direction */
    uint32_t capacity; /* of the ring */
    uint32_t ahead; /* so far ahead of the other count the own one may be: a writer's by the capacity, a reader's not */
    uint64_t own, other; /* the two counts; that of the other process as last seen */
} hp_pipe;

typedef struct hp_shm {
    hp_pipe out, in;
    void *memory;
    size_t size;
    int fd; /* until the other process has opened it; -1: it has */
} hp_shm;

/*
 * The memory for the connection that `hello` greets, of `capacity` bytes for each of one or two directions; a power of two.
 * Writes into the HELLO where it is. NULL: the system lets us have none (errno).
 */
hp_shm *hp_shm_new(hp_hello *hello, uint32_t capacity, int directions);

/* The memory that a proven HELLO offers. NULL: there is none, or it is not the one meant: *why says that in words. */
hp_shm *hp_shm_open(const hp_hello *hello, int directions, const char **why);

void hp_shm_opened(hp_shm *shm); /* the other process has opened it, so nobody else need be able to */
void hp_shm_free(hp_shm *shm);   /* NULL is fine */

/*
 * Copies from the places into the ring, or out of it: how many bytes fit in, or have come. -1: the other process's count
 * cannot be. Never blocks.
 */
ssize_t hp_pipe_move(hp_pipe *pipe, const struct iovec *places, int n);

/* The room of a writer, the bytes that a reader has not read; more than the capacity if a count cannot be. */
uint64_t hp_pipe_left(hp_pipe *pipe);

/*
 * Before a sleep: asks the other process for a wake-up when `n` bytes (at most half a ring) have come, or have room.
 * Returns 1 if they have already. hp_pipe_awake takes that back.
 */
int hp_pipe_await(hp_pipe *pipe, uint32_t n);
void hp_pipe_awake(hp_pipe *pipe);

/* After a write, or a read: 1 if the other process wants to be woken now. Each wish is granted once. */
int hp_pipe_wakes_other(hp_pipe *pipe);

#endif
