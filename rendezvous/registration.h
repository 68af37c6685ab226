/* SPDX-License-Identifier: MIT */
/* registration: what a rank says to come in, for the first time or again; pure. Its settings (agree) are the caller's to add. */
#ifndef HP_REGISTRATION_H
#define HP_REGISTRATION_H

#include "rendezvous/client.h"

enum { HP_RETURN_MS = 5000 }; /* how long a member tries; the server waits for it for less while others do */

hp_join hp_registration_first(const hp_client_options *options, uint64_t now);
/* JOIN of a member: all that a server needs to know of this rank, also one that has been started anew. */
hp_join hp_registration_again(const hp_client_options *options, const hp_ring *ring);
/* What HELLO declares: the communicator that is cut or come back to (again: its ring, else NULL), the rank and the size there. */
hp_hello hp_registration_hello(const hp_client_options *options, const hp_ring *again);
/* Whether this is the roster's next part, its first `parts_to` members being in the ring, and what was asked for. */
int hp_registration_fits(const hp_client_options *options, const hp_ring *ring, int parts_to, const hp_part *part);

#endif
