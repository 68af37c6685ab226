/* SPDX-License-Identifier: MIT */
/*
 * jobs: two jobs at one server. A rank of one, with its job's own key and the other's name, gets no byte in answer; nor
 * does whoever takes the server's secret for a job's key; a server that has one job's key serves no other.
 */
#include "base/err.h"
#include "t/rendezvous/ranks.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { PATIENCE = 120000, SOON = 60000, BRIEF = 2000 };

/* Rank 0 of one in the job, with these keys, must be turned away in silence. */
static void
is_turned_away(meet *m, const hp_keys *keys, const char *job_id, const char *what)
{
    hp_client_options o = rank_options(m, job_id, 0, 1, 1, BRIEF);
    o.keys = keys;
    hp_client *client = rank_join(m, &o);
    int failed = ranks_reach(m, &client, 1, HP_CLIENT_FAILED, SOON);
    const hoop_error *error = hp_client_error(client);
    ok(failed && error->code == HOOP_ERR_AUTH && strstr(error->text, "without an answer"), "%s: %s", what,
       failed ? error->text : "was let in, or still waits");
    hp_client_free(client);
}

static void
is_let_in(meet *m, const char *job_id, const char *what)
{
    hp_client *clients[2];
    for (int rank = 0; rank < 2; rank++) {
        hp_client_options o = rank_options(m, job_id, rank, 2, 1, PATIENCE);
        clients[rank] = rank_join(m, &o);
    }
    ok(ranks_go(m, clients, 2, SOON), "%s", what);
    ranks_leave(m, clients, 2, 0);
}

/* The keys that a rank of `owner` can make for job `name`: with its own key, or by what it is made from. */
static hp_keys
keys_of(const hp_secret *secret, const char *owner, const char *name)
{
    uint8_t mine[HP_JOB_ID_BYTES], other[HP_JOB_ID_BYTES];
    hp_secret own = *secret;
    hp_keys keys;
    if (hp_job_id(mine, owner, NULL) || hp_job_id(other, name, NULL) ||
        (*owner && hp_secret_of_job(&own, secret, mine, NULL)) ||
        hp_keys_derive(&keys, own.key, other, HP_MODE_AUTH, NULL))
        bail("no keys");
    return keys;
}

static void
two_jobs(void)
{
    hp_secret secret = rank_secret();
    hp_keys foreign = keys_of(&secret, "alpha", "beta"), own = keys_of(&secret, "beta", "beta"),
            master = keys_of(&secret, "", "beta");
    meet m;
    meet_open(&m);
    is_let_in(&m, "alpha", "ranks of one job");
    is_let_in(&m, "beta", "and of another");
    ok(memcmp(&own, rank_options(&m, "beta", 0, 1, 1, 1).keys, sizeof(own)) == 0,
       "keys are made as those of the ranks");
    is_turned_away(&m, &foreign, "beta", "a rank of the one job, with its key and the other's name");
    is_turned_away(&m, &master, "beta", "the server's secret in the place of a job's key");
    meet_close(&m);
}

/* hooprun's own server: it knows one job. */
static void
one_job(void)
{
    hp_secret secret = rank_secret();
    uint8_t job_id[HP_JOB_ID_BYTES];
    meet m = {0};
    hp_keys gamma = keys_of(&secret, "gamma", "gamma");
    if (hp_job_id(job_id, "beta", NULL))
        bail("no job");
    meet_open_as(&m, &secret, job_id);
    is_let_in(&m, "beta", "a server with one job's key serves that job");
    is_turned_away(&m, &gamma, "gamma", "and no other of its secret");
    meet_close(&m);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    two_jobs();
    one_job();
    return 0;
}
