/* SPDX-License-Identifier: MIT */
/*
 * roster: one ring at the server, from the moment all its ranks have joined until the last one is gone. Pure: no I/O,
 * no clock of its own. It orders the ring, waits until all links are up, and then finds ranks that vanish, leave too
 * early or hold up the others. The first cause wins: it is sent to every other rank, and nothing later changes it.
 */
#ifndef HP_ROSTER_H
#define HP_ROSTER_H

#include "rendezvous/blame.h"
#include "rendezvous/disagreement.h"
#include "rendezvous/join_group.h"
#include "rendezvous/link_loss.h"
#include "rendezvous/refused_call.h"
#include "rendezvous/ring_names.h"
#include "rendezvous/straggler.h"

#include <string.h>

enum { HP_LABEL_TEXT = 64 };

typedef enum hp_roster_state {
    HP_ROSTER_LINKING, /* the roster is sent; awaits READY of all ranks */
    HP_ROSTER_RUNNING, /* the ring is up; awaits reports and LEAVE */
    HP_ROSTER_FAILED,  /* the cause is sent; awaits that all ranks disconnect */
    HP_ROSTER_OVER     /* all ranks have sent LEAVE */
} hp_roster_state;

typedef struct hp_roster {
    struct hp_roster *next; /* for the owner's list */
    const hp_events *events;
    char label[HP_LABEL_TEXT];
    char name[HP_NAME_TEXT]; /* as a rank has given it last; empty: none */
    hp_roster_state state;
    int world; /* 1: a job's first ring, 0: made by a split or a shrink */
    hp_origin origin;
    int recalled;              /* 1: its ranks have told of it (recall.h) */
    uint64_t shrunk_from;      /* the ring whose remaining ranks it has; 0: none */
    int outlived;              /* 1: a ring of its remaining ranks has run, and no other rank may join that */
    hp_ring ring;              /* ring.rank is not used */
    void **peers;              /* by rank; NULL: gone, or away */
    hp_witness *witnesses;     /* by rank */
    hp_history *histories;     /* by rank; NULL: none has reported counters */
    hp_ring_names *call_names; /* NULL: no rank has told one */
    hp_refused_calls refused_calls;
    hp_disagreement disagreement; /* noted, and the verdict is put off until the ranks have told their calls */
    uint64_t *ready;              /* a bit by rank */
    uint32_t splits;              /* splits with numbers below this are over */
    int present, ready_n, left_n, in_op_n;
    hp_link_losses losses; /* link losses, and ranks that are away */
    hoop_error cause;      /* in FAILED */
    hoop_error asked; /* a rank's time-out, of which the owner judges the cause; code HOOP_SUCCESS: there is none */
    uint64_t op_timeout, warn_after, peer_timeout, heartbeat;
    uint64_t opened, deadline; /* of the join */
    hp_stall_warning linking;  /* of the connections that are not up */
    uint64_t moved;            /* when any report last grew */
    uint64_t overdue_at;       /* since when a rank reports a wait that is overdue; 0: none does */
    hp_pings pings;
} hp_roster;

/* Assigns ranks to `count` members (joined[i] is rank i), and has their rosters sent. NULL: out of memory. */
hp_roster *hp_roster_new(const hp_join_group *join_group, const char *label, const hp_joined *joined, int count,
                         uint64_t comm, uint64_t now);
void hp_roster_free(hp_roster *roster); /* sends nothing; NULL is fine */

int hp_roster_where(const hp_roster *roster, int rank); /* HP_AT_*, for hp_message_fits */

/* A frame that fits (hp_message_fits). Returns 0, or -1 with the error filled: the rank broke the protocol. */
int hp_roster_message(hp_roster *roster, int rank, const hp_control_frame *frame, uint64_t now, hoop_error *error);
/*
 * The connection is closed. `why`: the end of a sentence, such as "it broke the protocol"; NULL: the rank vanished, in
 * an operation that other ranks may tell within a tenth of a second.
 */
void hp_roster_lost(hp_roster *roster, int rank, const char *why, uint64_t now);
/*
 * The control connection broke, but the rank may be alive and dial again. If it was in an operation, it has half a
 * second for that.
 */
void hp_roster_broke(hp_roster *roster, int rank, uint64_t now);
/* Its host has been silent for peer_timeout, and a probe has shown that it is not back. */
void hp_roster_cut_off(hp_roster *roster, int rank, uint64_t silence, uint64_t now);
/* Its links are up: all its ranks hear that. */
void hp_roster_begin(hp_roster *roster, uint64_t now);
/* This rank's process has ended for certain: if the rank is away, it does not come back; else it is doubted. */
void hp_roster_ended(hp_roster *roster, int rank, uint64_t now);
/*
 * This rank's process is proven to be alive. One in an operation dials again at once, so one that does not is in none: what
 * it said of the end of its operation was lost with its connection. Or it was stopped, and others wait for it.
 */
void hp_roster_alive(hp_roster *roster, int rank, uint64_t now);
/* The rank is connected again (admission.h), and has completed so many operations. */
void hp_roster_back(hp_roster *roster, int rank, uint64_t completed, uint64_t now);
/* Whether it is the whole job's ring, or what shrinks and grows have made of it. */
static inline int
hp_roster_is_whole(const hp_roster *roster)
{
    return roster->world || (roster->ring.epoch > 0 && !strstr(roster->label, "split "));
}

/* A rank is connected, or may come back. here: when a rank of this job was last connected, perhaps in another ring. */
int hp_roster_needed(const hp_roster *roster, uint64_t here, uint64_t now);
void hp_roster_over(hp_roster *roster); /* all ranks have left, or no other is needed: the log says so, once */
/* 1: the time of those that wait in an operation is up, and the owner fails the ring, since it knows all rings. */
int hp_roster_tick(hp_roster *roster, uint64_t now);
int hp_roster_timed(const hp_roster *roster); /* whether it needs hp_roster_tick */

/* The server ends: sends a verdict that was put off, or, if the ring is not up, the cause. */
void hp_roster_close(hp_roster *roster, const hoop_error *cause, uint64_t now);

/* Fails the ring by a cause that its owner has found, unless it has failed already. */
void hp_roster_fail(hp_roster *roster, const hoop_error *cause);

/* The member of this rank while it is in the ring, others are connected, and the ring has not failed, else NULL. */
const hp_member *hp_roster_holder(const hp_roster *roster, int rank);

#endif
