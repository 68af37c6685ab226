/* SPDX-License-Identifier: MIT */
/* registration: what a rank says to come in, for the first time or again; pure. Its settings (agree) are the caller's to add. */
#ifndef HP_REGISTRATION_H
#define HP_REGISTRATION_H

#include "net/handshake.h"
#include "net/sock.h"
#include "rendezvous/message.h"

enum { HP_RETURN_MS = 5000 }; /* how long a member tries; the server waits for it for less while others do */

/*
 * The roster is checked against these: for a world it must have `size` ranks (and give `rank`, where one is wanted).
 * For a split, parent_rank and parent_size are what counts, rank and size are not looked at.
 */
typedef struct hp_client_options {
    hp_addr server;
    const hp_keys *keys; /* held */
    hp_sock_options sock;
    int rank; /* -1: the server gives one */
    int size;
    char host[HP_HOST_TEXT];
    uint64_t host_id;
    uint32_t processors, pid;
    hp_addr listen;      /* our data listener, as others reach it */
    const char *agree;   /* settings that all ranks must share: "key=value\n" lines, <= 2 KiB; copied */
    uint64_t deadline;   /* hp_loop_now() at which bring-up has failed */
    uint64_t op_timeout; /* ns, 0: none; the server judges by the first joiner's */
    uint64_t warn_after; /* ns, 0: never; likewise */
    /* a split: parent communicator, which of its splits, our rank and its size there; comm 0: none */
    uint64_t parent, parent_digest; /* hp_ring_digest */
    uint64_t started, completed;    /* operations there */
    uint32_t split;
    int parent_rank, parent_size, color, key;
} hp_client_options;

hp_join hp_registration_first(const hp_client_options *options, uint64_t now);
/* JOIN of a member: all that a server needs to know of this rank, also one that has been started anew. */
hp_join hp_registration_again(const hp_client_options *options, const hp_ring *ring);
/* What HELLO declares: the communicator that is cut or come back to (again: its ring, else NULL), the rank and the size there. */
hp_hello hp_registration_hello(const hp_client_options *options, const hp_ring *again);
/* Whether this is the roster's next part, its first `parts_to` members being in the ring, and what was asked for. */
int hp_registration_fits(const hp_client_options *options, const hp_ring *ring, int parts_to, const hp_part *part);

#endif
