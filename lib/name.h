/* SPDX-License-Identifier: MIT */
/*
 * name: a communicator's name, by which sentences, tables and the flight recorder call it, and the names of its calls. They
 * are local: the ranks need not agree on them. The server learns them between two rounds.
 */
#ifndef HP_NAME_H
#define HP_NAME_H

#include "lib/comm.h"

enum { HP_NAME_PREFIX = HP_NAME_TEXT + 4 };

/* `name` is a name to print of at most HP_NAME_TEXT - 1 bytes; empty: none. Any thread. */
void hp_name_set(hoop_comm *comm, const char *name);

/*
 * Calls have this name from now on, of at most HP_CALL_NAME_TEXT - 1 bytes; empty: none. 0: there are as many names as
 * there may be, and they have none. Any thread.
 */
int hp_name_set_calls(hoop_comm *comm, const char *name);

/* Into a call that is made now. Any thread. */
static inline void
hp_name_call(const hoop_comm *comm, hp_call *call)
{
    call->name = atomic_load_explicit(&comm->calls_name, memory_order_relaxed);
}

/* How the communicator's sentences begin: '"dp": ', or nothing. Any thread. Returns out. */
const char *hp_name_prefix(const hoop_comm *comm, char out[HP_NAME_PREFIX]);

/* Tells the server names that it does not know yet. Baton holder only. */
void hp_name_report(hoop_comm *comm);

/* The number of a call's name for the server; 0: the call has none, or the server does not know it. Baton holder only. */
int hp_name_number(const hoop_comm *comm, const hp_call *call);

#endif
