/* SPDX-License-Identifier: MIT */
/* cuda_rank: a rank of a ring, as a process of a party, with arrays on the GPU and beside it. */
#ifndef T_GPU_CUDA_RANK_H
#define T_GPU_CUDA_RANK_H

#include "t/gpu/cuda_test.h"
#include "t/tools/party.h"

enum { CUDA_RANK_BYTES = 8 * 1024 * 1024 }; /* of an array */

typedef struct cuda_rank {
    int rank, size;
    const hoop_fake_cuda *fake;
    hoop_comm *comm;
    hp_device *device;
    arena in, out;          /* on the GPU */
    char *data, *to, *seen; /* as large, on the host */
} cuda_rank;

/* Joins the ring and allocates; status for the rank's function, as leave's: 0, or 1 after a note. */
int cuda_rank_enter(cuda_rank *r, int number, int size);

/* Destroys the communicator. Without an error, all of the driver's objects must be gone. */
int cuda_rank_leave(cuda_rank *r);

/* Notes this thread's last error; returns 1. */
int cuda_rank_complain(const char *what);

/* In the test: a party of `size`, of which all must end well. */
void cuda_rank_party(party *p, int size, party_fn *fn, const char *what);

#endif
