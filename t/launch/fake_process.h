/* SPDX-License-Identifier: MIT */
/*
 * fake_process: processes that are only records: hp_spawn_start, waitpid, waitid and kill of the code under test end here (link
 * with FAKES). Process ids are larger than any real one, and no signal leaves the test.
 */
#ifndef T_LAUNCH_FAKE_PROCESS_H
#define T_LAUNCH_FAKE_PROCESS_H

#include "launch/spawn.h"

enum { FAKE_PID = 1 << 30 }; /* of the first; the next ones count up */

typedef struct fake_process {
    int fd[4];         /* as it was given them; -1: closed */
    char command[512]; /* its words, with a blank between */
    char **environ;    /* NULL: the starter's */
    int session, death_signal;
    int bound;          /* it was given processors of its own */
    char signals[256];  /* what was sent to it, as "15 18 " */
    int running, ended; /* ended: a zombie */
    int status;
} fake_process;

extern int fake_processes;          /* how many were started */
extern char fake_self_signals[256]; /* what the code under test sent to its own process */

fake_process *fake_process_at(int i); /* the i-th that was started */
void fake_process_forget(void);       /* all of them: closes what they have open */

void fake_process_fail(hp_spawn_step step, int number); /* the next start fails, with this errno */
void fake_process_exit(fake_process *p,
                       int wait_status); /* closes its descriptors; sends SIGCHLD where it is awaited */

/* Reads what came on a descriptor of it, up to n bytes; 0: nothing; never waits. */
size_t fake_process_read(fake_process *p, int fd, void *bytes, size_t n);
void fake_process_write(fake_process *p, int fd, const void *bytes, size_t n);
const char *fake_process_getenv(const fake_process *p, const char *name); /* NULL: it has no such variable */

#endif
