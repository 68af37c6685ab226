/* SPDX-License-Identifier: MIT */
/*
 * listener: where the other ranks reach this process: one door, shared by all its communicators, so that one port of
 * each process has to pass a firewall. Every communicator has a seat at it, and its loop watches the door: whoever
 * drives any of them serves all who knock. Who is proven is handed to the communicator that was asked for, whose own
 * driver judges and says the last message, since nobody else may touch its links. It is closed with the last seat.
 *
 * All doors of a process are behind one lock, which is held for a bounded part of their work and never while anything
 * is waited for. Only communicators on other interfaces, with another range of ports, or of a job that has the same
 * name and another secret, have a door of their own. Its receive buffer is the one that its first communicator is set
 * to.
 */
#ifndef HP_LISTENER_H
#define HP_LISTENER_H

#include "net/acceptor.h"

#include <stdatomic.h>

typedef struct hp_listener hp_listener;

/* A communicator's. Everything here is behind the lock, but for what its driver alone uses. */
typedef struct hp_listener_entry {
    hp_listener *listener; /* NULL: it has none */
    hp_addr addr;          /* of the listener; the driver's */
    hp_watch *watch;       /* in the communicator's loop; the driver's */
    hp_loop *loop;         /* to wake the driver */
    const hp_keys *keys;   /* the communicator's; they outlive the seat */
    int named;             /* what follows is known */
    int retired;           /* and was: it is not any more */
    uint64_t comm;
    uint32_t rank, epoch;
    int size;                 /* of the communicator; before it is known, of those who may come */
    hp_candidate *candidates; /* proven, in the order in which they came: for the driver */
    int number;               /* what is lacking for one more connection (errno), 0: nothing */
    atomic_int news;          /* there are callers, or something is lacking: looked at without the lock */
    struct hp_listener_entry *next, **link;
} hp_listener_entry;

/* How this process is reached: at which address of its own, and in which ports. */
typedef struct hp_listener_options {
    hp_addr local; /* port 0 */
    hp_ports ports;
    hp_sock_options sock;
} hp_listener_options;

/* Takes a seat, which is all zero, at the door that is there, or opens one. Nothing is kept after an error. */
hoop_result hp_listener_join(hp_listener_entry *entry, const hp_listener_options *options, hp_loop *loop,
                             const hp_keys *keys, int size, hoop_error *error);

/* The communicator is known now. Until then who asks for it is told to come again. */
void hp_listener_name(hp_listener_entry *entry, uint64_t comm, int rank, uint32_t epoch, int size);

/* The communicator has failed: whoever comes for it is told to come again, as if nobody listened, and waits for nobody. */
void hp_listener_retire(hp_listener_entry *entry);

/* Whether hp_listener_next has something. */
static inline int
hp_listener_news(const hp_listener_entry *entry)
{
    return atomic_load_explicit(&entry->news, memory_order_relaxed);
}

/* The next proven caller, for hp_candidate_answer; NULL: no more, and *number is what has been lacking, if anything. */
hp_candidate *hp_listener_next(hp_listener_entry *entry, int *number);

void hp_listener_leave(hp_listener_entry *entry);

/* Around a fork; and in the child: closes the descriptors of all doors, and forgets them and the lock. */
void hp_listener_lock(void);
void hp_listener_unlock(void);
void hp_listener_abandon(void);

#endif
