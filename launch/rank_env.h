/* SPDX-License-Identifier: MIT */
/*
 * rank_env: what a rank finds when it starts: the variables handed on from the launching shell, its own HOOP_* and
 * RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, the folder it runs in, its program where homes differ between hosts, the
 * processors that it is bound to, and the terminal that is its standard output.
 */
#ifndef HP_LAUNCH_RANK_ENV_H
#define HP_LAUNCH_RANK_ENV_H

#include "launch/agent_msg.h"

#include <sched.h>

/* --- on the launcher's side --- */

/*
 * Adds every HOOP_* of our environment that is a setting; those that belong to one job, rank or host stay behind. Adds
 * HOOPRUN_TTY, too: ranks write into pipes, and it tells which of our descriptors 1 and 2 are terminals ("12"). Behind
 * these come those of -x, which win.
 */
void hp_rank_env_settings(hp_strings *variables, const hp_strings *given);

/*
 * The value of -x: "NAME=value", or "NAME" for our own value; adds nothing if that is not set.
 * HOOP_ERR_INVALID_ARGUMENT for a bad name.
 */
hoop_result hp_rank_env_option(hp_strings *variables, const char *value, hoop_error *error);

/* --- on the agent's side --- */

/*
 * Puts the spec's variables into this process's environment, removes what an outer job may have left there, and sets
 * PYTHONUNBUFFERED=1 unless it is set.
 */
void hp_rank_env_adopt(const hp_spec *spec);

/* Puts the folder of hoop's library, installed in `prefix`, in front of LD_LIBRARY_PATH. */
void hp_rank_env_add_library(const char *prefix);

/*
 * Changes into the spec's folder. If that fails and --wdir did not ask for it, tries the folder of the same name in our
 * home, provided that it lies in the launching user's home. 0, or -1 with errno.
 */
int hp_rank_env_enter_folder(const hp_spec *spec);

/* Replaces a program in the launching user's home that is not here by the same path in our home, if it is there. */
void hp_rank_env_find_program(hp_spec *spec);

/* The environment of the spec's i-th rank, on top of ours; i -1: of one that waits for a place. Free with hp_rank_env_free. */
char **hp_rank_env_new(const hp_spec *spec, int i, int secret_fd);
void hp_rank_env_free(char **variables);

/* --- its processors --- */

/*
 * With --bind. Neighbours in the ring get neighbouring processors; a core is not divided as long as there is one for every
 * rank. Pure, except for reading the machine.
 */
typedef struct hp_cpu {
    int package, core, number; /* as Linux counts them; a core is told by the first of its hyperthreads */
} hp_cpu;

typedef struct hp_cpu_list {
    hp_cpu *list; /* by package, core, number */
    int count;
} hp_cpu_list;

/* Those that this process may run on. A cpus that does not tell its cores has one for each processor. */
void hp_affinity_read(hp_cpu_list *cpus);
void hp_affinity_sort(hp_cpu_list *cpus);
void hp_affinity_free(hp_cpu_list *cpus);

/* The set of the i-th of so many ranks, one processor at least; of no processors an empty one. */
void hp_affinity_of_rank(const hp_cpu_list *cpus, int ranks, int i, cpu_set_t *set);

/* --- its terminal --- */

/* The words of --pty, in the order of options.def. */
enum { HP_PTY_AUTO, HP_PTY_ALWAYS, HP_PTY_NEVER };

/*
 * A terminal that changes no byte: pair[0] is read, pair[1] written, as a pipe's. A read after the last writer has gone
 * fails with EIO. 0, or -1 with errno.
 */
int hp_terminal_open(int pair[2], hp_winsize winsize);

hp_winsize hp_terminal_size(int fd); /* zeroes: it is no terminal */
void hp_terminal_resize(int fd, hp_winsize winsize);

#endif
