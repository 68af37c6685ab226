/* SPDX-License-Identifier: MIT */
/*
 * events: what the pure rooms of the server (meeting, roster, hall) may cause outside. `peer` is the owner's handle of
 * one control connection. Every function only queues or notes: none may call back into the room that called it.
 */
#ifndef HP_EVENTS_H
#define HP_EVENTS_H

#include "hoop.h"

#include <stddef.h>

struct hp_roster;

typedef struct hp_events {
    void *arg;
    void (*tell)(void *arg, void *peer, int type, const void *payload, size_t n); /* one control frame */
    /* The peer is rank `rank` of this ring now: its roster goes out in parts (hp_part_put). */
    void (*assign)(void *arg, void *peer, struct hp_roster *roster, int rank);
    void (*disconnect)(void *arg, void *peer); /* close when everything told has been written */
    void (*say)(void *arg, const char *line);
    void (*warn)(void *arg, const char *line); /* for whoever started the job, also where nobody asked */
    /* A ring has failed, or will not come to be; the line that says so has been said. */
    void (*failed)(void *arg, const hoop_error *cause);
    /* Whether the peer's host has taken all that was told to it, be it read or not; a question, no event. */
    int (*reached)(void *arg, const void *peer);
    /* Where rank `rank` was started, as far as the owner knows; NULL: it does not. */
    const char *(*host_of)(void *arg, int rank);
} hp_events;

#endif
