/* SPDX-License-Identifier: MIT */
/*
 * events: what the server's pure files (job, join_group, roster) cause outside. `peer` is the owner's handle of one
 * control connection. Every function only queues or notes something; none may call back into the file that called it.
 */
#ifndef HP_EVENTS_H
#define HP_EVENTS_H

#include "hoop.h"

#include <stddef.h>
#include <stdint.h>

struct hp_roster;
struct hp_join_group;
struct hp_member;

/* Where ranks wait: in the oldest operation of a ring, in a split of it, or one rank in a message there. */
typedef struct hp_wait_place {
    const struct hp_roster *ring;      /* NULL: nowhere */
    const struct hp_join_group *split; /* NULL: not in a split */
    int rank;                          /* of the ring, that waits in a message; -1: not in a message */
} hp_wait_place;

/* What is known of a rank's process by those who started it. */
typedef enum hp_process { HP_PROCESS_UNKNOWN, HP_PROCESS_RUNS, HP_PROCESS_STOPPED } hp_process;

typedef struct hp_events {
    void *arg;
    void (*send)(void *arg, void *peer, int type, const void *payload, size_t n); /* sends one control frame */
    /* The peer is rank `rank` of this ring from now on: its roster is sent in parts (hp_part_put). */
    void (*assign)(void *arg, void *peer, struct hp_roster *roster, int rank);
    void (*disconnect)(void *arg, void *peer); /* close when all that was sent is written */
    void (*log)(void *arg, const char *line);  /* one line, for the server's log */
    void (*warn)(void *arg, const char *line); /* for the user, even without a log */
    /* A ring has failed, or cannot be made. It was logged before. split: as hp_title_split, and its name. */
    void (*failed)(void *arg, const char *split, const hoop_error *cause);
    /* A question, not an event: has the peer's host taken all bytes sent to it, read or not? */
    int (*reached)(void *arg, const void *peer);
    /* A question: on which host rank `rank` was started; NULL: unknown. */
    const char *(*host_of)(void *arg, int rank);
    /* A question: what is known of a rank's process. `who` is as in its ring; the owner of a job gets it as in the job. */
    hp_process (*process)(void *arg, const struct hp_member *who);
    /* A question: what hp_wait_chain_print says. */
    int (*elsewhere)(void *arg, const hp_wait_place *from, uint64_t stalled, int *guilty, char *out, size_t size);
    void (*ended)(void *arg, const struct hp_roster *ring); /* a ring is over, and forgotten after this */
} hp_events;

#endif
