/* SPDX-License-Identifier: MIT */
/*
 * inbox: operations that were submitted, until the driver takes them, and the last call that was refused before it
 * became an operation. Any thread, under the driver's mutex.
 */
#ifndef HP_INBOX_H
#define HP_INBOX_H

#include "lib/comm.h"

typedef enum hp_inbox_refused {
    HP_INBOX_REFUSED_KNOWN, /* it was reported, or there was none */
    HP_INBOX_REFUSED_NEW,   /* it has to be reported */
    HP_INBOX_REFUSED_OVER   /* an operation was started in its place */
} hp_inbox_refused;

/* Numbers the works of the list (linked by `next`) and appends them. The caller holds the driver's mutex. */
void hp_inbox_put(hp_driver *driver, hoop_work *first, hoop_work *last);

/*
 * All works of the inbox, which is empty then; *last is the number of the last one, 0 without any; *refused:
 * hp_inbox_refused_call has a call to report.
 */
hoop_work *hp_inbox_take(hoop_comm *comm, uint64_t *last, int *refused);

/* Keeps a call that was refused, under the number that it would have had. */
void hp_inbox_refuse(hoop_comm *comm, const hp_call *call, const hoop_error *cause);

/* What the server needs to know of the last refused call, once operations up to `last` have been started. */
hp_inbox_refused hp_inbox_refused_call(hoop_comm *comm, uint64_t last, hp_unstarted *refusal);

uint64_t hp_inbox_started(hoop_comm *comm); /* operations, by any thread: the number of the last */

#endif
