/* SPDX-License-Identifier: MIT */
/*
 * cuda_rank: a rank of a ring, as a process of a party, with arrays on the GPU and beside it. What a test gives to the
 * ranks is a function of one of them, which joins before it and leaves after it.
 */
#ifndef T_GPU_CUDA_RANK_H
#define T_GPU_CUDA_RANK_H

#include "t/gpu/cuda_test.h"
#include "t/tools/party.h"

enum { CUDA_RANK_BYTES = 8 * 1024 * 1024, CUDA_RANK_STREAMS = 2 }; /* of an array; at most */

typedef struct cuda_rank {
    int rank, size, how; /* how: what the test gave to all of them */
    const hoop_fake_cuda *fake;
    hoop_comm *comm;
    hp_device *device;
    arena in, out;          /* on the GPU */
    char *data, *to, *seen; /* as large, on the host */
    void *stream[CUDA_RANK_STREAMS];
    int faulty; /* by cuda_rank_fault: objects of the driver may be left */
} cuda_rank;

/* 0, or 1 after a note. */
typedef int cuda_rank_fn(cuda_rank *r);

/* In the test: a party of `size`. How many of them did not end with 0, or a check that all did. */
int cuda_rank_run(party *p, int size, cuda_rank_fn *fn, int how);
void cuda_rank_party(party *p, int size, cuda_rank_fn *fn, int how, const char *what);

/* In a process of a party: is such a rank. */
int cuda_rank_be(int rank, int size, cuda_rank_fn *fn, int how);

/*
 * In the test: parties of three in which the k-th call of rank 0's driver fails, once alone and once with all later ones;
 * not every k, but for HOOP_TEST_FULL: about each step-th. In a rank: from here on it does. `judge`, in the test: 1 if the
 * ranks' notes are right, 0 after a diagnosis, -1 if so many calls are not made.
 */
void cuda_rank_faults(party *p, cuda_rank_fn *fn, unsigned step, int (*judge)(const party *p, long call));
void cuda_rank_fault(cuda_rank *r);

/* In a rank, as all below: opens so many streams, which leaving closes, and has all operations late by up to `delay_us`. */
int cuda_rank_streams(cuda_rank *r, int streams, unsigned delay_us);

/* NULL is the default stream. A copy in its order; until it has nothing more to do. */
int cuda_rank_copy(cuda_rank *r, void *stream, void *to, const void *from, size_t bytes);
int cuda_rank_wait(cuda_rank *r, void *stream);

/* `count` int32 of `in` are the rank's number from 1. Then the sums of all ranks, in `out`: blocking, or on a stream. */
void cuda_rank_fill(cuda_rank *r, size_t count);
int cuda_rank_sum(cuda_rank *r, size_t count);
int cuda_rank_sum_on(cuda_rank *r, size_t count, void *stream);

/* Until the communicator has failed: its error. */
hoop_error cuda_rank_failure(cuda_rank *r);

/* 1 if the communicator's error has this code and rank, and its text this word; else 0 after a note. */
int cuda_rank_failed_so(const cuda_rank *r, hoop_result code, int rank, const char *word);

/* Notes this thread's last error; returns 1. */
int cuda_rank_complain(const char *what);

/* 1 after a note if it took longer than so many seconds, and what that may take beside other tests. */
int cuda_rank_took_longer(double since, double most, const char *what);

#endif
