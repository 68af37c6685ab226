/* SPDX-License-Identifier: MIT */
/*
 * fake_net: what an acceptor asks of the system, for fuzz_acceptor: connections that wait are those that the target
 * queues, the clock, descriptors and random bytes are what it says (link with ACCEPTOR_FAKES).
 */
#ifndef FUZZ_FAKE_NET_H
#define FUZZ_FAKE_NET_H

#include "net/addr.h"

enum { FAKE_NET_PLENTY = 100000, FAKE_NET_MOST = 128 };

extern uint64_t fake_net_now;    /* hp_now() and the alarm's time */
extern int fake_net_spare;       /* descriptors that may still be opened */
extern int fake_net_shortage;    /* errno of every accept; 0: they succeed */
extern int fake_net_failures;    /* accepts in a row that failed for it */
extern int fake_net_accepted;    /* connections accepted so far, in the order of fake_net_connect */
extern uint64_t fake_net_random; /* numbers drawn so far; each is the next one */

void fake_net_reset(void);

/* A connection waits at the listener from now on: the acceptor's end, and the address that it will see. */
void fake_net_connect(int fd, const hp_addr *addr);

void fake_net_ring(void); /* lets the alarm ring if its time has come */

#endif
