/* SPDX-License-Identifier: MIT */
/*
 * mapping: which ranks run on which host, and how each host is reached. It is decided before any process is started,
 * and printed by --map and --dry-run.
 */
#ifndef HP_LAUNCH_MAPPING_H
#define HP_LAUNCH_MAPPING_H

#include "launch/options.h"

/* Ranks by host. The ranks of one host are consecutive; hosts are filled in the order listed. */
typedef struct hp_rank_map {
    int size;   /* ranks in all */
    int *first; /* by host: its first rank */
    int *count; /* by host: how many ranks */
    int *room;  /* by host: how many may run there */
} hp_rank_map;

typedef struct hp_rank_map_request {
    int ranks;              /* 0: not given: as many as there are slots, */
    int most;               /* but no more than these; 0: any number */
    int per_host;           /* 0: not given: by slots */
    int local;              /* all hosts are this one: more ranks than processors are fine unless slots were written */
    int cores;              /* what this host, listed alone and once, offers when neither slots nor ranks were given */
    const char *allocation; /* "Slurm job 7" gave the hosts and slots; NULL: the user */
} hp_rank_map_request;

/* Pure. Frees nothing on error. HOOP_ERR_INVALID_ARGUMENT says how many slots there are and what to write. */
hoop_result hp_rank_map_fill(hp_rank_map *map, const hp_host_list *hosts, const hp_rank_map_request *request,
                             hoop_error *error);
void hp_rank_map_free(hp_rank_map *map);

typedef struct hp_mapped_host {
    int here;                    /* the ranks run on this machine, without a remote shell */
    int used;                    /* it has ranks, or gets some if others are lost: it has an agent */
    int local_first, local_size; /* of its ranks: hosts that are one machine count together */
    hp_strings call;             /* the command that starts the agent */
    hp_strings other;            /* the one to try if the agent's program is not there; empty: none */
} hp_mapped_host;

typedef struct hp_mapping {
    const hp_options *options;
    const hp_host_list *list; /* the options', or this machine alone */
    hp_host_list alone;
    hp_rank_map ranks;
    hp_mapped_host *host; /* by host of the list */
    int all_here;
} hp_mapping;

/* HOOP_ERR_INVALID_ARGUMENT: the ranks do not fit. Free it in any case. */
hoop_result hp_mapping_make(hp_mapping *mapping, const hp_options *options, hoop_error *error);
const char *hp_mapping_name(const hp_mapping *mapping, int host); /* as messages name it */
void hp_mapping_print(const hp_mapping *mapping);                 /* to standard output */
/* One line to standard error, if the hosts are those of a batch system: the user has not named them. */
void hp_mapping_announce(const hp_mapping *mapping);
void hp_mapping_free(hp_mapping *mapping);

#endif
