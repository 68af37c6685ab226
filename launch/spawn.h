/* SPDX-License-Identifier: MIT */
/*
 * spawn: starts a program with exactly the descriptors, signals and environment it should have: 0, 1, 2, at most one
 * more as 3, and no others; signals at their defaults. It tells why a program cannot be started, in a sentence that says
 * what to do about it. And it ends processes with all that they have started, as /proc shows them. An agent adopts the
 * orphans of its ranks (PR_SET_CHILD_SUBREAPER), so all that a rank has started is among the agent's descendants.
 */
#ifndef HP_LAUNCH_SPAWN_H
#define HP_LAUNCH_SPAWN_H

#include <limits.h>
#include <sched.h>
#include <sys/types.h>

typedef struct hp_spawn {
    char *const *argv;         /* argv[0] is searched in the PATH of the new environment */
    const char *file;          /* the program's file, whatever argv[0] is; NULL: that */
    char *const *environ;      /* NULL: ours */
    const char *also_dir;      /* another folder for a name without '/'; NULL: none */
    int fd[4];                 /* become 0, 1, 2, 3; -1: /dev/null for the first three, closed for the fourth */
    int session;               /* 1: a session and process group of its own */
    int death_signal;          /* sent to it when the thread that starts it dies; 0: none */
    const cpu_set_t *affinity; /* the processors it is bound to; NULL: as we are */
    int shielded; /* 1: it ignores what is sent to our whole process group, by a terminal or timeout(1), and is ours */
} hp_spawn;

typedef enum hp_spawn_step { HP_SPAWN_FORK, HP_SPAWN_SET_UP, HP_SPAWN_EXEC } hp_spawn_step;

/* Between us and a program's 0, 1 and 2; [0] is read, [1] written. -1: not open. */
typedef struct hp_spawn_pipes {
    int in[2], out[2], err[2];
} hp_spawn_pipes;

int hp_spawn_pipes_open(hp_spawn_pipes *pipes, int with_in); /* 0; or opens none, and -1 with errno */
void hp_spawn_pipes_close(hp_spawn_pipes *pipes);

/* The process id, or -1 with errno and *step: what could not be done. */
pid_t hp_spawn_start(const hp_spawn *spawn, hp_spawn_step *step);

/* Why the ranks of a host could not be started. */
typedef struct hp_start_error {
    int status; /* exit status for the whole job: 126, 127, 1 or 2 */
    char text[1200];
} hp_start_error;

void hp_start_error_say(hp_start_error *e, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The program of so many ranks was not started. Called with the errno of the failure, in their folder and with their PATH. */
void hp_start_error_program(hp_start_error *e, const char *program, int ranks, hp_spawn_step step);

/* Raises this process's limit of open descriptors to the most; the programs it starts get the old limit. */
void hp_spawn_many_files(void);

/* Where the program of this process lies, by /proc, or by how it was started where that is not mounted; "" unknown. */
void hp_spawn_own_path(char path[PATH_MAX]);

/* Makes descriptors 0, 1, 2 exist, so that no pipe lands there. */
void hp_spawn_fill_standard(void);

/* The living descendants of `ancestor`; *list is to be freed. Returns how many there are. */
size_t hp_proctree_list(pid_t ancestor, pid_t **list);

/* Sends `signal` to every living descendant of `ancestor`; returns how many have got it: one of another user may not. */
int hp_proctree_signal(pid_t ancestor, int signal);

/*
 * Kills `root` and every living descendant. All are stopped first: a process that runs could start another between the
 * look at /proc and the signal, and that one would outlive its parent.
 */
void hp_proctree_end(pid_t root);

#endif
