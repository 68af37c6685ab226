/* SPDX-License-Identifier: MIT */
/*
 * lookup: resolves a host name, with a deadline. getaddrinfo may take half a minute if the name service is dead, and
 * it cannot be cancelled; so it runs in a thread of its own, which is abandoned when the time is up.
 */
#ifndef HP_LOOKUP_H
#define HP_LOOKUP_H

#include "net/loop.h"

#include <netdb.h>

enum { HP_LOOKUP_LATE = 1 }; /* next to getaddrinfo's own codes, which are negative */

/*
 * Returns 0, and the caller frees the result; or EAI_* (EAI_SYSTEM: errno); or HP_LOOKUP_LATE: hp_loop_now() has
 * reached the deadline. A numeric address needs no thread, nor does a lookup without a loop, which has no deadline.
 */
int hp_lookup(const char *host, hp_loop *loop, uint64_t deadline, struct addrinfo **found);

#endif
