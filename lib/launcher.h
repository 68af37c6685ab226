/* SPDX-License-Identifier: MIT */
/*
 * launcher: who started this process, and how its ranks can meet: by the launcher's own key-value channel, or at a port
 * of the first host that follows from the job. Pure: it reads variables through a function.
 */
#ifndef HP_LAUNCHER_H
#define HP_LAUNCHER_H

#include "hoop.h"

#include <stdint.h>

/* How the processes learn where the server of rank 0 is. */
typedef enum hp_launcher_way {
    HP_BY_NONE,
    HP_BY_PMI,  /* PMI-1 on a descriptor */
    HP_BY_PMIX, /* libpmix */
    HP_BY_PORT  /* the server has the first free one of a few ports */
} hp_launcher_way;

enum { HP_LAUNCHER_HOST = 256, HP_LAUNCHER_JOB = 256, HP_LAUNCHER_PORTS = 16 };

typedef struct hp_launcher {
    const char *name;                 /* "srun"; NULL: no launcher */
    const char *size_name, *why_none; /* variable of the size, or NULL; HP_BY_NONE: what is missing */
    int rank;
    int size;     /* 0: only PMIx knows it */
    int one_host; /* all processes are on this host, by what the launcher says */
    hp_launcher_way way;
    int fd;                      /* HP_BY_PMI */
    char host[HP_LAUNCHER_HOST]; /* HP_BY_PORT: where rank 0 is; with one_host it is not used */
    uint16_t first, last;        /* and its ports */
    char job[HP_LAUNCHER_JOB];   /* and the text that this start has in common with no other */
} hp_launcher;

/* What the settings say; size 0, rank -1: nothing. */
typedef struct hp_launcher_settings {
    int size, rank;
    const char *job;
} hp_launcher_settings;

typedef const char *hp_lookup_fn(const char *name); /* getenv, or a test's */

/*
 * An error if the variables contradict each other, or show several processes without saying which of them this is. A
 * launcher that started one process only has size 1; so has none at all, with name NULL, and so has a process whose
 * settings say both size 1 and rank 0: it is alone on purpose.
 */
hoop_result hp_launcher_find(hp_launcher *launcher, const hp_launcher_settings *settings, hp_lookup_fn *lookup,
                             hoop_error *error);

/* Several processes, and HP_BY_NONE: the sentence about what is missing. */
hoop_result hp_launcher_refuse(const hp_launcher *launcher, hoop_error *error);

/* This process's number among those of its host, by HOOP_LOCAL_RANK or any launcher's variable; -1: none is set. */
int hp_launcher_local_rank(hp_lookup_fn *lookup);

/* "node[03-07,9],other" -> "node03"; 0: there is no room for it. */
int hp_launcher_first_host(const char *list, char out[HP_LAUNCHER_HOST]);

#endif
