/* SPDX-License-Identifier: MIT */
/*
 * lease: how long the ranks of a host behind a network run while its agent and the launcher do not hear each other.
 * Every time limit of that follows from peer_timeout_ms, here; hp_lease_of and hp_lease_judge are pure.
 *
 * The launcher speaks to each agent, and each agent to the launcher, a few times in the time-out. When the network
 * fails and is back after some time, TCP waits for up to as long again before it tries once more, so silence alone does
 * not mean that the network is still cut. An agent that has heard nothing for a while therefore knocks: it makes a new
 * connection to the job's server, which the launcher has, and proves in a handshake (HP_ROLE_ASK) on which host it is.
 * If that succeeds, the launcher lives, and the network is back; the launcher learns the same about the agent. An agent
 * whose knocks are not answered ends its ranks when its lease is over; the launcher gives up the host after that, so no
 * rank is left there.
 */
#ifndef HP_LAUNCH_LEASE_H
#define HP_LAUNCH_LEASE_H

#include "net/handshake.h"
#include "net/loop.h"
#include "net/sock.h"

#include <stdint.h>

/* All in ns. */
typedef struct hp_lease {
    uint64_t ping;  /* the launcher speaks this often */
    uint64_t knock; /* an agent knocks this often, once it has heard nothing for three times ping */
    uint64_t end;   /* silence, without an answer to a knock, that ends the ranks */
    uint64_t most;  /* silence that ends them in any case: a connection that does not recover in this time never does */
    uint64_t away;  /* silence of a host that bears out another's word that it is cut off */
    uint64_t lost;  /* silence after which the launcher gives the host up; the ranks have been killed by then */
} hp_lease;

/* What an agent does now. */
typedef enum hp_lease_word { HP_LEASE_WAIT, HP_LEASE_KNOCK, HP_LEASE_OVER } hp_lease_word;

/* timeout: ns for which a host may be unreachable (peer_timeout_ms), > 0. */
hp_lease hp_lease_of(uint64_t timeout);

/*
 * heard: when bytes from the launcher came last; answered: when a knock was answered last, 0: never. Times are the
 * loop's (hp_loop_now), so time in which the agent itself was stopped does not count.
 */
hp_lease_word hp_lease_judge(const hp_lease *lease, uint64_t heard, uint64_t answered, uint64_t now);

/* An agent's knocks: one attempt at a time. */
typedef struct hp_knock {
    hp_loop *loop;
    hp_addr server;
    hp_keys *keys; /* NULL: it cannot knock */
    hp_hello hello;
    int fd; /* -1: no attempt */
    hp_watch *watch;
    int connected;
    hp_handshake handshake;
    uint64_t answered; /* when the server accepted a connection last; 0: never */
} hp_knock;

/*
 * server: its address, "host:port" in numbers; NULL or another text: the knock never has an answer. secret_fd: the sealed
 * file with the job's key, only read here. host: its number.
 */
void hp_knock_open(hp_knock *knock, hp_loop *loop, const char *server, int secret_fd, int host);
void hp_knock_again(hp_knock *knock); /* ends the last attempt, and starts the next one */
void hp_knock_close(hp_knock *knock); /* zeroed memory is fine */

#endif
