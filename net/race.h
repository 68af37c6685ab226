/* SPDX-License-Identifier: MIT */
/*
 * race: dials a peer at several addresses, the first one at once and each next one after a head start (RFC 8305, "Happy
 * Eyeballs"), or as soon as the one before it has failed. The first that is proven to be the peer wins; the others are
 * closed. With one address it is a dial.
 */
#ifndef HP_RACE_H
#define HP_RACE_H

#include "net/dial.h"

typedef struct hp_race hp_race;

/*
 * Dials all of `to`. fn is called once, as by a dial, with the address that has won in `to`; or
 * with the failure at the first address and what the others have answered. NULL: out of memory.
 */
hp_race *hp_race_new(hp_loop *loop, const hp_addr_list *to, const hp_dial_options *options);
void hp_race_limit_closed(hp_race *race, int most); /* as hp_dial_limit_closed, for each address */
/* As hp_dial_explain. With several addresses: 1 with what each has answered, until the peer has. */
int hp_race_explain(const hp_race *race, hoop_error *error);
uint64_t hp_race_absent_since(const hp_race *race); /* as hp_dial_absent_since, of all addresses that answer */
uint64_t hp_race_silent_since(const hp_race *race); /* as hp_dial_silent_since, of all addresses */
void hp_race_free(hp_race *race);                   /* ends it without calling fn; NULL is fine */

/*
 * When the next address is dialled, where the latest one was dialled at `began`: a host that accepts may be the right
 * one that is busy, so it gets more time than one that is not heard. HP_NEVER: the peer itself has answered. Pure.
 */
uint64_t hp_race_next(uint64_t began, hp_dial_standing standing);

#endif
