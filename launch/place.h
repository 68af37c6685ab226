/* SPDX-License-Identifier: MIT */
/* place: which rank runs on which host. Pure. Ranks of one host are consecutive; hosts are filled in the order listed.
 */
#ifndef HP_LAUNCH_PLACE_H
#define HP_LAUNCH_PLACE_H

#include "launch/hostfile.h"

typedef struct hp_rank_map {
    int size;   /* ranks in all */
    int *first; /* by host: its first rank */
    int *count; /* by host: how many ranks; 0: it is not used */
} hp_rank_map;

typedef struct hp_rank_map_request {
    int ranks;    /* 0: not said: as many as there are slots */
    int per_host; /* 0: not said: by slots */
    int local;    /* all hosts are this one: more ranks than processors are fine unless slots were written */
    int cores;    /* what this host, listed alone and once, offers when neither slots nor ranks were said */
} hp_rank_map_request;

/* Frees nothing on error. HOOP_ERR_INVALID_ARGUMENT says how many slots there are and what to write. */
hoop_result hp_rank_map_fill(hp_rank_map *map, const hp_host_list *hosts, const hp_rank_map_request *request,
                             hoop_error *error);
void hp_rank_map_free(hp_rank_map *map);

#endif
