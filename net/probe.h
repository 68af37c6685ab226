/* SPDX-License-Identifier: MIT */
/*
 * probe: whether the process at an address still exists. A listening socket is closed when its process ends, so a
 * connection that is refused means that it has ended, one that is accepted that it lives. No answer means that packets do
 * not get there and back; what fails on this side means nothing. Never blocks.
 */
#ifndef HP_PROBE_H
#define HP_PROBE_H

#include "net/sock.h"

typedef enum hp_probe_state {
    HP_PROBE_NONE,      /* not asked, or an answer that means nothing */
    HP_PROBE_ASKED,     /* no answer yet */
    HP_PROBE_UNREACHED, /* this kernel, or a router, has given up */
    HP_PROBE_ALIVE,
    HP_PROBE_ENDED
} hp_probe_state;

typedef struct hp_probe {
    hp_probe_state state;
    int fd; /* while ASKED */
} hp_probe;

void hp_probe_start(hp_probe *probe, const hp_addr *addr, const hp_sock_options *options);
hp_probe_state hp_probe_poll(hp_probe *probe);
void hp_probe_stop(hp_probe *probe); /* forgets the answer too */

#endif
