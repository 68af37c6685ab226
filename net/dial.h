/* SPDX-License-Identifier: MIT */
/*
 * dial: from an address to a proven connection, by one attempt after the other (50 ms to 1 s apart, +-50 %) until a
 * deadline. A peer that closes without a byte may be a proxy whose target is not up yet, or have another secret or job:
 * it is dialled until the deadline, which is then HOOP_ERR_AUTH. So is one that answers in another protocol, as a proxy for
 * HTTP does: the deadline is then HOOP_ERR_RENDEZVOUS, with its first words. A rank that refuses connections for three seconds is
 * given up, because it listens before it is dialled; so is the server of a ring, unless it comes back. A peer that is
 * busy is waited for; one that has no room for this rank is asked again for two seconds.
 */
#ifndef HP_DIAL_H
#define HP_DIAL_H

#include "net/handshake.h"
#include "net/loop.h"
#include "net/sock.h"

typedef struct hp_dial hp_dial;

/* How far a dial has come. */
typedef enum hp_dial_standing {
    HP_DIAL_ASKING,   /* no answer to the connection request yet */
    HP_DIAL_GREETING, /* something has accepted, and has proven nothing yet */
    HP_DIAL_MET,      /* the peer has proven itself, and the dial waits for it */
    HP_DIAL_FAILED    /* the last attempt has failed; the next one follows */
} hp_dial_standing;

typedef struct hp_dial_result {
    int fd; /* >= 0: proven, non-blocking, the owner's from now on; -1: failed, see error */
    uint64_t features;
    uint32_t assigned_rank;
    int shares;      /* the peer has opened the memory that the HELLO offers */
    hp_addr to;      /* the address that was dialled */
    uint16_t status; /* hp_status of a refusal, else 0 */
    uint32_t epoch;  /* of a refusal: the peer's */
    hoop_error error;
} hp_dial_result;

/* Called once, from the loop. The dial may be freed inside. */
typedef void hp_dial_fn(void *arg, const hp_dial_result *result);

typedef struct hp_dial_options {
    const char *what; /* names the peer in messages: "the rendezvous server", "rank 4 (node3)"; copied */
    const hp_keys *keys;
    hp_hello hello;
    hp_sock_options sock;
    hp_addr from; /* all zeros: any */
    uint64_t deadline;
    hp_dial_fn *fn;
    void *arg;
} hp_dial_options;

hp_dial *hp_dial_new(hp_loop *loop, const hp_addr *to, const hp_dial_options *options); /* NULL: out of memory */
/*
 * From now on `most` connections in a row that are closed without a byte, or answered in another protocol, are HOOP_ERR_AUTH at once: for a dial that has
 * other addresses to try, or a person who waits.
 */
void hp_dial_limit_closed(hp_dial *dial, int most);
/* What is dialled is a server that is started again when it has died: where nobody listens, it is waited for. */
void hp_dial_await_server(hp_dial *dial);
/*
 * What waits at the address: 1 with a sentence and a code (HOOP_ERR_AUTH if it may be the secret) if something there
 * accepts and closes, does not answer, answers in another protocol, or is busy; 0: nothing accepts, or it has given a reason that ends soon.
 */
int hp_dial_explain(const hp_dial *dial, hoop_error *error);
/* Since when nobody is there who has what is dialled: a rank's communicator that has left, or no process; 0: never. */
uint64_t hp_dial_absent_since(const hp_dial *dial);
/* Since when the host has answered no attempt, not even with a refusal; 0: it has answered the last one. */
uint64_t hp_dial_silent_since(const hp_dial *dial);
int hp_dial_has_asked(const hp_dial *dial); /* an attempt was made; before that nothing is known of the host */
hp_dial_standing hp_dial_stands(const hp_dial *dial);
const char *hp_dial_answer(const hp_dial *dial); /* what the address has answered so far, as a phrase */
void hp_dial_free(hp_dial *dial);                /* ends it without calling fn; NULL is fine */

#endif
