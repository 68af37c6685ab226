/* SPDX-License-Identifier: MIT */
/*
 * listener: where the other ranks reach this process: one acceptor, shared by all its communicators, so that a firewall
 * has to let one port of each process pass. Every communicator has an entry in it, and its loop watches the acceptor's
 * descriptor: the driver of any of them serves all connections. A candidate that is proven waits in the entry of its
 * communicator, whose own driver judges it and sends the last message, since no other thread may touch that
 * communicator's links. The acceptor is closed with the last entry.
 *
 * All acceptors of a process share one lock, which is held for a bounded part of their work and never during a wait. A
 * communicator has an acceptor of its own where its interface or range of ports differs, or where its job has the same
 * name and another secret. The receive buffer is that of the first communicator.
 */
#ifndef HP_LISTENER_H
#define HP_LISTENER_H

#include "net/acceptor.h"

#include <stdatomic.h>

typedef struct hp_listener hp_listener;

/* A communicator's. Everything here is under the lock, except what only its driver uses. */
typedef struct hp_listener_entry {
    hp_listener *listener; /* NULL: it has none */
    hp_addr addr;          /* of the listener; the driver's */
    hp_watch *watch;       /* in the communicator's loop; the driver's */
    hp_loop *loop;         /* to wake the driver */
    const hp_keys *keys;   /* the communicator's; they outlive the entry */
    int named;             /* the communicator is known: comm, rank, epoch and size */
    int retired;           /* it has failed or left */
    int claimed;           /* the rank of the job that this process is by this communicator, -1: by its parent */
    atomic_int rival;      /* the rank, + 1, that another thread asked to be; 0: none */
    hp_addr server;
    uint64_t comm;
    uint32_t rank, epoch;
    int per_rank;
    int size;                 /* ranks of the communicator; before it is named, those that may dial */
    hp_candidate *candidates; /* proven candidates, oldest first: for the driver */
    int number;               /* why the last connection could not be accepted (errno), 0: none has failed */
    atomic_int has_events;    /* there are candidates, or `number` is set: read without the lock */
    struct hp_listener_entry *next, **link;
} hp_listener_entry;

/* How this process is reached: at which address of its own, and in which ports. */
typedef struct hp_listener_options {
    hp_addr local; /* port 0 */
    int all;       /* at all addresses of the host; `local` is the one that is told */
    int automatic; /* nobody has chosen an address: a listener at all of them will do, or one at `local` */
    hp_ports ports;
    hp_sock_options sock;
    int per_rank; /* so many proven candidates of one rank may wait for the communicator's driver; 0: any number */
    hp_addr server;
    int rank;        /* of the job, -1: that of the parent */
    const char *job; /* its name */
} hp_listener_options;

/* Whether it listens at all addresses of the host. */
int hp_listener_is_everywhere(const hp_listener_entry *entry);

/*
 * Adds an entry, which is all zero, to a suitable listener, or opens one. Nothing is kept after an error.
 * HOOP_ERR_INVALID_USAGE: this process is another rank of the job already, and a ring dials processes. That other
 * communicator hears of it, too (hp_listener_rival), because it may be waiting for this rank. A rank asked for within
 * half a minute of that is refused as well, since both may have ended meanwhile.
 */
hoop_result hp_listener_join(hp_listener_entry *entry, const hp_listener_options *options, hp_loop *loop,
                             const hp_keys *keys, int size, hoop_error *error);

hoop_result hp_listener_rival(const hp_listener_entry *entry, const char *job, hoop_error *error);

/* Names the communicator. Until then its candidates are refused, and dial again. */
void hp_listener_name(hp_listener_entry *entry, uint64_t comm, int rank, uint32_t epoch, int size);

/* The communicator has failed: its candidates are refused, and dial again, as if no process listened. */
void hp_listener_retire(hp_listener_entry *entry);

/* Whether hp_listener_next has a candidate or an errno. */
static inline int
hp_listener_has_events(const hp_listener_entry *entry)
{
    return atomic_load_explicit(&entry->has_events, memory_order_relaxed);
}

/*
 * The next proven candidate, for hp_candidate_answer; NULL: no more, and *number is an errno if accepting has failed.
 */
hp_candidate *hp_listener_next(hp_listener_entry *entry, int *number);

void hp_listener_leave(hp_listener_entry *entry);

/* Around a fork; forked in the child, instead of unlock: forgets all acceptors. */
void hp_listener_lock(void);
void hp_listener_unlock(void);
void hp_listener_forked(void);

#endif
