/* SPDX-License-Identifier: MIT */
/*
 * pmix: a client of PMIx, the key-value channel of Open MPI's and PRRTE's mpirun and of srun --mpi=pmix. libpmix is
 * opened when it is needed, so hoop does not depend on it. No two threads may use it at once.
 */
#ifndef HP_PMIX_H
#define HP_PMIX_H

#include "hoop.h"
#include "lib/bounded_wait.h"

/*
 * *size: the processes of the job. Once it is open, opening it again is nothing. Close ends the thread and the
 * connection of libpmix, unless an MPI library of the process has opened it, too; no effect unless it is open. A forked
 * child must call none of these. The barrier is of all processes, and afterwards what was put can be read; after one that
 * was not complete in time the process is still inside, and the next call waits on. Errors are HOOP_ERR_RENDEZVOUS,
 * with a whole sentence.
 */
hoop_result hp_pmix_open(int *size, hp_bounded_wait *wait, hoop_error *error);
hoop_result hp_pmix_put(const char *key, const char *value, hoop_error *error);
hoop_result hp_pmix_barrier(hp_bounded_wait *wait, hoop_error *error);
hoop_result hp_pmix_get(int rank, const char *key, char *value, size_t size, hp_bounded_wait *wait, hoop_error *error);
void hp_pmix_close(void);

#endif
