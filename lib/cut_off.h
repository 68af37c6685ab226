/* SPDX-License-Identifier: MIT */
/*
 * cut_off: whether the hosts that this rank waits for still acknowledge what is sent to them (net/tcp.h). TCP itself ends
 * only connections that carry nothing. A rank leaves the verdict to the server for some seconds, then asks once whether the
 * host answers, and then takes the link for lost. One that is repaired is made again long before, if the host answers;
 * one that only the peer may wait for, once no outage that may pass explains the silence. It also warns of a path that drops
 * large packets alone. Baton holder only.
 */
#ifndef HP_CUT_OFF_H
#define HP_CUT_OFF_H

#include "lib/comm.h"

/* Looks, once a second. A link whose host is cut off is lost (ETIMEDOUT) afterwards. */
void hp_cut_off_check(hoop_comm *comm, uint64_t now);

/* Whether this link was lost because the other host does not acknowledge. */
int hp_cut_off_took(const hp_link *link);

/*
 * The error about such a link, PEER_LOST: the peer is cut off; or, if this rank hears no other host, perhaps this host is.
 * Then it names nobody.
 */
void hp_cut_off_error(const hoop_comm *comm, const hp_link *link, hoop_error *error);

#endif
