/* SPDX-License-Identifier: MIT */
/*
 * exchange: one text of rank 0 reaches all processes that a launcher has started, over the launcher's own key-value
 * channel, once: a process keeps it for all its communicators.
 */
#ifndef HP_EXCHANGE_H
#define HP_EXCHANGE_H

#include "lib/bounded_wait.h"
#include "lib/launcher.h"

enum { HP_EXCHANGE_TEXT = 256 };

/*
 * By HP_BY_PMI or HP_BY_PMIX. The first call waits for the first calls of all other processes. `text` is rank 0's,
 * without blanks; afterwards, and after all later calls, it is what rank 0 gave to its first call. A call that was not
 * complete in time may be repeated, and then waits for the same first calls. Any thread may call it.
 * HOOP_ERR_RENDEZVOUS in a child of a process that has called it: the channel is the parent's.
 */
hoop_result hp_exchange_text(const hp_launcher *launcher, char text[HP_EXCHANGE_TEXT], hp_bounded_wait *wait,
                             hoop_error *error);

/* How many processes the launcher started, for one whose variables do not say. */
hoop_result hp_exchange_size(hp_launcher *launcher, hp_bounded_wait *wait, hoop_error *error);

#endif
