/* SPDX-License-Identifier: MIT */
/*
 * layout: what will run where, and how each host is reached: decided before anything is started, and printed by --map
 * and
 * --dry-run.
 */
#ifndef HP_LAYOUT_H
#define HP_LAYOUT_H

#include "launch/options.h"
#include "launch/place.h"

typedef struct hp_site {
    int here;                    /* the ranks run on this machine, without a remote shell */
    int local_first, local_size; /* of its ranks: hosts that are one machine count together */
    hp_words call;               /* command that starts the agent */
    hp_words other;              /* what to try when the agent's program is not there; none: nothing */
} hp_site;

typedef struct hp_layout {
    const hp_options *options;
    const hp_hosts *hosts; /* the options', or this machine alone */
    hp_hosts alone;
    hp_place place;
    hp_site *site; /* by host */
    int all_here;
} hp_layout;

/* HOOP_ERR_INVALID_ARGUMENT: they do not fit. Free it in any case. */
hoop_result hp_layout_make(hp_layout *layout, const hp_options *options, hoop_error *error);
void hp_layout_print(const hp_layout *layout); /* to standard output */
void hp_layout_free(hp_layout *layout);

#endif
