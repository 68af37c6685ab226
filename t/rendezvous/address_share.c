/* SPDX-License-Identifier: MIT */
/*
 * address_share: connections to the server that prove nothing share its places by address: each address has 32, or as
 * many as the jobs that are here have ranks. Loopback has no share, so this gives itself another address, in a network
 * of its own.
 */
#include "base/err.h"
#include "net/incoming.h"
#include "t/rendezvous/ranks.h"
#include "t/tap/tap.h"
#include "t/tools/network.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { JOB = 100, MANY = 160 };

static hp_client *clients[RANKS_MAX];
static int fds[MANY];

/* Connects without a word; the server has time to accept. */
static void
knock(meet *m, int n)
{
    for (int i = 0; i < n; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fds[i], (const struct sockaddr *)&m->addr.u, m->addr.length) != 0)
            bail("cannot connect");
        meet_run(m, 1);
    }
    meet_run(m, 20);
}

/* How many of them the server has not closed; closes them. */
static int
still_there(int n)
{
    int open = 0;
    char byte;
    for (int i = 0; i < n; i++) {
        open += recv(fds[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
        close(fds[i]);
    }
    return open;
}

static void
join(meet *m, int n)
{
    for (int i = 0; i < n; i++) {
        hp_client_options o = rank_options(m, "job", i, n, n, SOON_MS);
        clients[i] = rank_join(m, &o);
    }
}

int
main(void)
{
    meet m = {.secret = rank_secret()};
    hoop_error error;
    const char *why;
    tap_limit(240);
    if (!own_network("10.77.0.1", &why))
        skip_all("%s", why);
    plan_lazy();
    m.loop = hp_loop_new();
    if (!m.loop || hp_addr_parse(&m.addr, "10.77.0.1:0", &error))
        bail("no loop or no address");
    meet_serve(&m);
    knock(&m, MANY);
    join(&m, 2);
    ok(ranks_go(&m, clients, 2, SOON_MS), "a job of two ranks of the same address meets meanwhile");
    int stay = still_there(MANY); /* the two have taken a place each for a moment */
    ok(stay <= HP_PER_ADDRESS && stay >= HP_PER_ADDRESS - 4, "of %d pending connections of one address %d stay", MANY,
       stay);
    ranks_leave(&m, clients, 2, 0);
    join(&m, JOB);
    ok(ranks_go(&m, clients, JOB, SOON_MS), "a job of %d ranks of one address meets", JOB);
    knock(&m, MANY);
    is_int(JOB, still_there(MANY), "while it is here %d pending connections of its address may stay", JOB);
    ranks_leave(&m, clients, JOB, 0);
    meet_run(&m, 100);
    is_int(0, hp_server_jobs(m.server), "it is gone");
    knock(&m, MANY);
    is_int(HP_PER_ADDRESS, still_there(MANY), "and %d are the share again", HP_PER_ADDRESS);
    meet_close(&m);
    return 0;
}
