/* SPDX-License-Identifier: MIT */
/*
 * ways: at which of its addresses another rank is dialled. This process remembers for each host which address has won a
 * race (net/race.h), for all its communicators; later links begin with it.
 */
#ifndef HP_WAYS_H
#define HP_WAYS_H

#include "net/race.h"
#include "rendezvous/message.h"

_Static_assert((int)HP_ADDRS_MOST == 1 + (int)HP_OTHERS, "a race has room for all addresses of a rank");

/*
 * The member's addresses, the best first. One to which there is no route is left out, and so is one that this host has,
 * too, unless the member is on this host, which is me->host_id. Returns how many, at least 1.
 */
hp_addr_list hp_ways_list(const hp_member *member, const hp_member *me);
void hp_ways_note(const hp_member *member, const hp_addr *winner);

/* One address: the one that has won, else the first. For a question whether the process lives. */
const hp_addr *hp_ways_best(const hp_member *member);

#endif
