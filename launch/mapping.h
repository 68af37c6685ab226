/* SPDX-License-Identifier: MIT */
/*
 * mapping: what will run where, and how each host is reached: decided before anything is started, and printed by --map
 * and
 * --dry-run.
 */
#ifndef HP_LAUNCH_MAPPING_H
#define HP_LAUNCH_MAPPING_H

#include "launch/options.h"
#include "launch/place.h"

typedef struct hp_mapped_host {
    int here;                    /* the ranks run on this machine, without a remote shell */
    int local_first, local_size; /* of its ranks: hosts that are one machine count together */
    hp_strings call;             /* command that starts the agent */
    hp_strings other;            /* what to try when the agent's program is not there; none: nothing */
} hp_mapped_host;

typedef struct hp_mapping {
    const hp_options *options;
    const hp_host_list *list; /* the options', or this machine alone */
    hp_host_list alone;
    hp_rank_map ranks;
    hp_mapped_host *host; /* by host */
    int all_here;
} hp_mapping;

/* HOOP_ERR_INVALID_ARGUMENT: they do not fit. Free it in any case. */
hoop_result hp_mapping_make(hp_mapping *mapping, const hp_options *options, hoop_error *error);
void hp_mapping_print(const hp_mapping *mapping); /* to standard output */
void hp_mapping_free(hp_mapping *mapping);

#endif
