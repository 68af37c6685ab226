/* SPDX-License-Identifier: MIT */
/*
 * acceptor: a listener and the connections that have not proven the job's secret yet. It accepts, holds at most 256
 * pending connections in a fixed pool (fewer where few descriptors may be opened; at most 32, or `world`, of one
 * address, loopback excepted; the oldest makes room), runs the handshake with each (hoop_protocol(7), 5 s), sends no
 * byte before a right tag, and hands proven connections to the owner. A HELLO with a right tag that finds no room is told
 * HP_BUSY. The rendezvous server has one, and every process has one for its data connections.
 */
#ifndef HP_ACCEPTOR_H
#define HP_ACCEPTOR_H

#include "base/log.h"
#include "net/incoming.h"
#include "net/loop.h"
#include "net/sock.h"

enum { HP_WORLD_MOST = 65536, HP_ACCEPTOR_EXPENDABLE = 2 };

typedef struct hp_acceptor hp_acceptor;

typedef struct hp_acceptor_owner {
    void *arg;
    /* The keys of a job; NULL: the job is unknown, and the connection is closed without a byte. */
    const hp_keys *(*keys)(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES]);
    /*
     * What a HELLO is compared with. Returns 0 to close without a byte, or HP_ACCEPTOR_EXPENDABLE where the connection
     * will be refused whatever it proves: it then has no more right to a place than a pending connection.
     */
    int (*policy)(void *arg, const hp_hello *hello, hp_handshake_policy *policy);
    /* The peer is proven: HP_OK (and *assigned), or why it is refused. The owner keeps nothing yet. */
    hp_status (*judge)(void *arg, const hp_hello *hello, const hp_addr *peer, uint32_t *assigned);
    /* After judge said HP_OK: the connection is the owner's (non-blocking, WELCOME is written). */
    void (*enter)(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *peer);
    /*
     * Two accepts in a row failed with `number` (EMFILE, ENFILE ...), and no pending connection could be closed
     * instead. The acceptor goes on trying. May be NULL: then it keeps one descriptor for a connection that the owner lets
     * in and sends away (hp_acceptor_lacks).
     */
    void (*starved)(void *arg, int number);
    /*
     * Asked before judge. Returns 1 if the candidate is the owner's from now on; the owner sends its last message
     * (hp_candidate_answer) in any thread. May be NULL.
     */
    int (*take)(void *arg, hp_candidate *candidate);
    /*
     * A peer that named this job has another secret. Anyone may claim that: it proves nothing. Returns the level of the
     * log line about it. May be NULL: HP_LOG_WARN.
     */
    int (*mistrusted)(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES], const hp_addr *peer);
} hp_acceptor_owner;

/*
 * Listens on `addr`; with port 0 on the first free port of `ports`, or on any where `ports` is NULL. The acceptor
 * owns the listener. Returns NULL with the error filled. loop NULL: the owner calls hp_acceptor_tune soon, and
 * hp_acceptor_serve whenever hp_acceptor_fd is readable.
 */
hp_acceptor *hp_acceptor_new(hp_loop *loop, const hp_addr *addr, const hp_ports *ports, const hp_sock_options *options,
                             const hp_acceptor_owner *owner, int world, hoop_error *error);

/* Readable whenever hp_acceptor_serve has work; any number of loops may watch it. */
int hp_acceptor_fd(const hp_acceptor *acceptor);
void hp_acceptor_tune(const hp_acceptor *acceptor); /* sets the listener's options; may log */
/* Does a bounded part of the work. Never blocks, and logs nothing itself. */
void hp_acceptor_serve(hp_acceptor *acceptor, hp_log_queue *log_queue);

/*
 * For how long the process has had no descriptor for one more connection, so that the latest has the one kept for this;
 * 0: there is one. The owner asks now and then, so that the acceptor has one again. Only if `starved` is NULL.
 */
uint64_t hp_acceptor_lacks(hp_acceptor *acceptor);

/* From now on `world` ranks, perhaps all of one address, may connect; one of them makes so many connections at once, if it is more than one. */
void hp_acceptor_expect(hp_acceptor *acceptor, int world, int at_once);
const hp_addr *hp_acceptor_addr(const hp_acceptor *acceptor); /* with the real port */
/* For tests: the limit of a whole handshake, from accept, which is 5 s unless set. */
void hp_acceptor_timeout(hp_acceptor *acceptor, uint64_t ns);

/* Closes without a byte everything that was not handed over. Allowed inside the owner's functions. */
void hp_acceptor_free(hp_acceptor *acceptor);

#endif
