/* SPDX-License-Identifier: MIT */
/* entry: what a rank says to come in, for the first time or again; pure. Its settings (agree) are the caller's to add. */
#ifndef HP_ENTRY_H
#define HP_ENTRY_H

#include "rendezvous/client.h"

enum { HP_ENTRY_AGAIN_MS = 5000 }; /* how long a member tries; the server waits for it for less while others do */

hp_join hp_entry_first(const hp_client_options *options, uint64_t now);
/* JOIN of a member: all that a server needs to know of this rank, also one that has been started anew. */
hp_join hp_entry_again(const hp_client_options *options, const hp_ring *ring);

#endif
