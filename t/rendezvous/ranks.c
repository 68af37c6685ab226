/* SPDX-License-Identifier: MIT */
/* ranks: see ranks.h. */
#include "t/rendezvous/ranks.h"

#include "t/tap/tap.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum { JOBS_MAX = 64 };

static const hp_secret secret = {.key = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

static void
listen_to(void *arg, hp_notice sort, const char *line)
{
    meet *m = arg;
    if (sort == HP_NOTICE_EVENT && m->lines_n < LINES_MAX)
        snprintf(m->lines[m->lines_n++], sizeof(m->lines[0]), "%s", line);
}

void
meet_serve(meet *m)
{
    hoop_error error;
    hp_server_options options = {.listen = m->addr, .mode = HP_MODE_AUTH, .starter = {.arg = m, .say = listen_to}};
    options.secret = &m->secret;
    m->server = hp_server_new(m->loop, &options, &error);
    if (!m->server)
        bail("no server: %s", error.text);
    m->addr = *hp_server_addr(m->server);
}

static void
prepare(meet *m, const hp_secret *known)
{
    hoop_error error;
    memset(m, 0, sizeof(*m));
    m->secret = *known;
    m->loop = hp_loop_new();
    if (!m->loop || hp_addr_parse(&m->addr, "127.0.0.1:0", &error))
        bail("no loop or no address");
    meet_serve(m);
}

void
meet_open(meet *m)
{
    prepare(m, &secret);
}

void
meet_open_as(meet *m, const hp_secret *known, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    hp_secret own;
    if (hp_secret_of_job(&own, known, job_id, NULL))
        bail("no key");
    prepare(m, &own);
}

hp_secret
rank_secret(void)
{
    return secret;
}

void
meet_close(meet *m)
{
    hp_server_free(m->server);
    hp_loop_free(m->loop);
}

int
meet_said(const meet *m, const char *part)
{
    int n = 0;
    for (int i = 0; i < m->lines_n; i++)
        n += strstr(m->lines[i], part) != NULL;
    return n;
}

hp_client_options
rank_options(const meet *m, const char *job_id, int rank, int size, int per_host, int patience_ms)
{
    static hp_keys keys[JOBS_MAX];
    static char names[JOBS_MAX][32];
    static int used;
    hp_client_options o = {.server = m->addr, .rank = rank, .size = size, .agree = ""};
    uint8_t id[HP_JOB_ID_BYTES];
    hp_secret own;
    int at = 0;
    while (at < used && strcmp(names[at], job_id) != 0)
        at++;
    if (at == JOBS_MAX)
        bail("too many job names in one test");
    if (at == used) {
        snprintf(names[used++], sizeof(names[0]), "%s", job_id);
        if (hp_job_id(id, job_id, NULL) || hp_secret_of_job(&own, &secret, id, NULL) ||
            hp_keys_derive(&keys[at], own.key, id, HP_MODE_AUTH, NULL))
            bail("no keys");
    }
    o.keys = &keys[at];
    o.host_id = (uint64_t)(rank < 0 ? 0 : rank / per_host) + 1000;
    snprintf(o.host, sizeof(o.host), "node%d", (rank < 0 ? 0 : rank / per_host) + 1);
    o.pid = (uint32_t)(rank + 800);
    o.deadline = hp_now() + (uint64_t)patience_ms * HP_MS;
    o.op_timeout = SOON_MS * HP_MS;
    o.listen.u.v4.sin_family = AF_INET;
    o.listen.u.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    o.listen.length = sizeof(o.listen.u.v4);
    hp_addr_set_port(&o.listen, (uint16_t)(rank + 10000));
    return o;
}

hp_client *
rank_join(meet *m, const hp_client_options *options)
{
    hp_client *client = hp_client_new(m->loop, options);
    if (!client)
        bail("no client");
    return client;
}

void
meet_run(meet *m, int ms)
{
    uint64_t until = hp_now() + (uint64_t)ms * HP_MS;
    for (uint64_t now = hp_now(); now < until; now = hp_now())
        hp_loop_run(m->loop, until - now);
    for (int i = 0; i < 20; i++)
        hp_loop_run(m->loop, 0);
}

int
ranks_reach(meet *m, hp_client **clients, int n, hp_client_state state, int ms)
{
    uint64_t until = hp_now() + (uint64_t)ms * HP_MS;
    for (;;) {
        int there = 0;
        for (int i = 0; i < n; i++)
            there += hp_client_status(clients[i]) == state;
        uint64_t now = hp_now();
        if (there == n || now >= until)
            return there == n;
        hp_loop_run(m->loop, until - now < 20 * HP_MS ? until - now : 20 * HP_MS);
    }
}

int
ranks_go(meet *m, hp_client **clients, int n, int ms)
{
    if (!ranks_reach(m, clients, n, HP_CLIENT_ROSTER, ms))
        return 0;
    for (int i = 0; i < n; i++)
        hp_membership_ready(hp_client_membership(clients[i]));
    return ranks_reach(m, clients, n, HP_CLIENT_GO, ms);
}

void
ranks_free(hp_client **clients, int n)
{
    for (int i = 0; i < n; i++) {
        hp_client_free(clients[i]);
        clients[i] = NULL;
    }
}

void
ranks_leave(meet *m, hp_client **clients, int n, uint64_t completed)
{
    for (int i = 0; i < n; i++)
        hp_client_leave(clients[i], completed);
    for (int i = 0; i < 20; i++)
        hp_loop_run(m->loop, HP_MS);
    ranks_free(clients, n);
}
