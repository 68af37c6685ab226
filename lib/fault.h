/* SPDX-License-Identifier: MIT */
/*
 * fault: the first cause wins, and every rank gets the same one. A symptom (end of file, reset) waits a short grace for
 * the cause; a fault seen here is told to the server, whose verdict, one for the whole ring, may still overrule it.
 */
#ifndef HP_FAULT_H
#define HP_FAULT_H

#include "hoop.h"
#include "lib/probe.h"
#include "net/link.h"

#include <stdatomic.h>

typedef struct hp_fault {
    atomic_int known; /* 1: error is final; it is everybody's from here on, whoever drives may have yet to hear of it */
    atomic_int failed; /* 1: and nothing moves any more */
    hoop_error error;
    hoop_error suspicion; /* what will be the error if nobody knows better by `grace` */
    uint64_t grace;       /* hp_loop_now() when the suspicion becomes the error; 0: none */
    const hp_link *ended; /* the link whose end is the suspicion; NULL: it is something else */
    uint64_t tell;        /* when the server is to be told of that; 0: it was, or need not be */
    hp_probe probe;       /* of that link's peer */
} hp_fault;

/* Looks at the control connection, the links, the devices and the clock. Baton holder only. */
void hp_fault_check(hoop_comm *comm, uint64_t now);

/*
 * What was just told to the server may have gone to a connection that was reset, seen or not: waits half a second at
 * most until this rank is back there, and has told it again. Baton holder only.
 */
void hp_fault_find_server(hoop_comm *comm);

/* Makes `cause` the error, unless there is one. Any thread. */
void hp_fault_claim(hoop_comm *comm, const hoop_error *cause);

/*
 * Makes `cause` this communicator's error and ends all works with it; tells the neighbours and the server. A failure of
 * this rank itself (its GPU, its memory) is kept here as it is; the others get HOOP_ERR_ABORTED. Idempotent.
 */
void hp_fault_fail(hoop_comm *comm, const hoop_error *cause);

/* What the other ranks are told of a cause: one rank's own failure is not theirs. */
hoop_error hp_fault_told(const hoop_comm *comm, const hoop_error *cause);

/* A cause that this rank saw: told to the server, then as above after the grace; its own failure, as above at once. */
void hp_fault_report(hoop_comm *comm, const hoop_error *cause, uint64_t now);

#endif
