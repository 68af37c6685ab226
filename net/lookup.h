/* SPDX-License-Identifier: MIT */
/*
 * lookup: a host's name to addresses, with an end. getaddrinfo may take half a minute where the name service is dead, and
 * nothing stops it; so it runs in a thread of its own, which is left alone when the time is up.
 */
#ifndef HP_LOOKUP_H
#define HP_LOOKUP_H

#include "net/loop.h"

#include <netdb.h>

enum { HP_LOOKUP_LATE = 1 }; /* beside getaddrinfo's own reasons, which are negative */

/*
 * 0, and the caller frees what was found; else EAI_* (EAI_SYSTEM: errno) or HP_LOOKUP_LATE: hp_loop_now() has come to the
 * deadline. An address in numbers needs no thread, nor does a lookup without a loop, which has no deadline.
 */
int hp_lookup(const char *host, hp_loop *loop, uint64_t deadline, struct addrinfo **found);

#endif
