/* SPDX-License-Identifier: MIT */
/*
 * acceptor: a listener and the strangers in front of it. Accepts, holds at most 256 unauthenticated connections in a static
 * pool, fewer where few descriptors may be opened (oldest without a valid tag evicted; per address 32 or `world`, no
 * limit on loopback), runs handshake H1 with each (5 s), sends no byte to a stranger, and hands proven connections to
 * the owner. Used by the rendezvous server and by every process's data listener.
 */
#ifndef HP_ACCEPTOR_H
#define HP_ACCEPTOR_H

#include "net/candidate.h"
#include "net/log_queue.h"
#include "net/loop.h"
#include "net/ports.h"
#include "net/sock.h"

enum { HP_WORLD_MOST = 65536, HP_ACCEPTOR_VAIN = 2 };

typedef struct hp_acceptor hp_acceptor;

typedef struct hp_acceptor_owner {
    void *arg;
    /* Keys for a job id, or NULL when the job is unknown (the connection is then closed in silence). */
    const hp_keys *(*keys)(void *arg, const uint8_t job_id[HP_JOB_ID]);
    /* What this hello is compared with; return 0 to close in silence; HP_ACCEPTOR_VAIN: nobody here will let it in, whoever it
     * is, so it has no more right to a place than a stranger. */
    int (*policy)(void *arg, const hp_hello *hello, hp_handshake_policy *policy);
    /* The peer is proven: HP_OK (and *assigned) or a refusal. Nothing is kept yet. */
    hp_status (*judge)(void *arg, const hp_hello *hello, const hp_addr *peer, uint32_t *assigned);
    /* The connection is the owner's now (non-blocking, WELCOME already written). Called after judge said HP_OK. */
    void (*enter)(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *peer);
    /* Nothing is left for a connection that waits (EMFILE, ENFILE ...), and there was no stranger whose place it could
     * get, twice in a row. The door goes on trying. May be NULL: logged only. */
    void (*starved)(void *arg, int number);
    /* Asked before judge: 1: the caller is the owner's, out of the door, its last message still to be said
     * (hp_candidate_answer), in whatever thread. May be NULL. */
    int (*take)(void *arg, hp_candidate *candidate);
} hp_acceptor_owner;

/*
 * Listens on `addr` (port 0: on the first free one of `ports`, or on any where that is NULL). The door owns the listener.
 * NULL with the error filled. loop NULL: the owner calls hp_acceptor_tune soon, and hp_acceptor_serve whenever hp_acceptor_fd can be
 * read.
 */
hp_acceptor *hp_acceptor_new(hp_loop *loop, const hp_addr *addr, const hp_ports *ports, const hp_sock_options *options,
                             const hp_acceptor_owner *owner, int world, hoop_error *error);

int hp_acceptor_fd(
    const hp_acceptor *acceptor); /* can be read whenever the door has something to do; any number may watch it */
void hp_acceptor_tune(const hp_acceptor *acceptor); /* sets the listener's options; may log */
/* Does some of that: a bounded part; never waits, and logs nothing itself. */
void hp_acceptor_serve(hp_acceptor *acceptor, hp_log_queue *log_queue);

/* From now on so many ranks, perhaps all of one address, have reason to knock. */
void hp_acceptor_expect(hp_acceptor *acceptor, int world);
const hp_addr *hp_acceptor_addr(const hp_acceptor *acceptor); /* with the real port */
void hp_acceptor_patience(hp_acceptor *acceptor,
                          uint64_t ns); /* for a whole handshake, from accept: 5 s unless set (tests) */

/* In a forked child: closes the descriptors, of the listener and of who is in the door; touches nothing else. */
void hp_acceptor_abandon(const hp_acceptor *acceptor);
/* Closes everything that was not handed over, in silence. Allowed inside the owner's functions. */
void hp_acceptor_free(hp_acceptor *acceptor);

#endif
