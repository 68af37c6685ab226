/* SPDX-License-Identifier: MIT */
/*
 * pmi: clients of the two protocols of launchers' key-value channels. PMI-1 is the text protocol of mpiexec (Hydra),
 * flux run and srun --mpi=pmi2, on the descriptor in PMI_FD: one line asks, one line answers. PMIx is that of Open
 * MPI's and PRRTE's mpirun and of srun --mpi=pmix; libpmix is opened when it is needed, so hoop does not depend on it.
 * A process has one such connection; no two threads may use it at once.
 */
#ifndef HP_PMI_H
#define HP_PMI_H

#include "hoop.h"
#include "lib/bounded_wait.h"

/* --- PMI-1, on a descriptor --- */

enum { HP_PMI_NAME = 256, HP_PMI_LINE = 2048 };

typedef struct hp_pmi {
    int fd;
    int open;       /* the launcher wants a goodbye */
    int in_barrier; /* it owes the answer to a barrier that this process has entered */
    long most;      /* characters of a value */
    char space[HP_PMI_NAME];
} hp_pmi;

/* Errors are HOOP_ERR_RENDEZVOUS, with a whole sentence about the launcher's channel. */
hoop_result hp_pmi_open(hp_pmi *pmi, int fd, hp_bounded_wait *wait, hoop_error *error);
hoop_result hp_pmi_put(hp_pmi *pmi, const char *key, const char *value, hp_bounded_wait *wait, hoop_error *error);
hoop_result hp_pmi_get(hp_pmi *pmi, const char *key, char *value, size_t size, hp_bounded_wait *wait,
                       hoop_error *error);

/*
 * Of all processes of the job. After one that was not complete in time the process is still inside, and the next call
 * waits on; nothing else may use the channel in between.
 */
hoop_result hp_pmi_barrier(hp_pmi *pmi, hp_bounded_wait *wait, hoop_error *error);

/*
 * Says goodbye, which Hydra wants to hear before a process ends, and after which it closes the connection for good. No
 * effect unless it is open. A forked child must not call it.
 */
void hp_pmi_finalize(hp_pmi *pmi);

/* "key=value" of a line, up to the next blank. 1, or 0: there is none, or no room. Pure. */
int hp_pmi_word(const char *line, const char *key, char *value, size_t size);

/* --- PMIx, by libpmix --- */

/*
 * *size: the processes of the job. Once it is open, opening it again is nothing. Close ends the thread and the
 * connection of libpmix, unless an MPI library of the process has opened it, too; no effect unless it is open. A forked
 * child must call none of these. The barrier is of all processes, and afterwards what was put can be read; after one that
 * was not complete in time the process is still inside, and the next call waits on. Likewise, after a put that was not
 * complete in time, the next one waits until that text is put, and puts no other. Nothing waits longer than it is given,
 * also if the launcher's daemon is stopped. Errors are HOOP_ERR_RENDEZVOUS, with a whole sentence.
 */
hoop_result hp_pmix_open(int *size, hp_bounded_wait *wait, hoop_error *error);
hoop_result hp_pmix_put(const char *key, const char *value, hp_bounded_wait *wait, hoop_error *error);
hoop_result hp_pmix_barrier(hp_bounded_wait *wait, hoop_error *error);
hoop_result hp_pmix_get(int rank, const char *key, char *value, size_t size, hp_bounded_wait *wait, hoop_error *error);
void hp_pmix_close(hp_bounded_wait *wait);

#endif
