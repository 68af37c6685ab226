/* SPDX-License-Identifier: MIT */
/*
 * pair: both ends of one handshake in memory (pair.h). The keys are those of the known answers once make_keys has run.
 */
#include "t/net/pair.h"

#include <stdio.h>
#include <string.h>

#include "t/tap/tap.h"

hp_keys keys;

void
unhex(uint8_t *out, const char *text)
{
    for (unsigned byte; sscanf(text, "%2x", &byte) == 1; text += 2)
        *out++ = (uint8_t)byte;
}

void
make_keys(hp_keys *made, uint8_t first, uint8_t job_first)
{
    uint8_t secret[HP_SECRET], job[HP_JOB];
    for (size_t k = 0; k < sizeof secret; k++)
        secret[k] = (uint8_t)(first + k);
    for (size_t k = 0; k < sizeof job; k++)
        job[k] = (uint8_t)(job_first + k);
    if (hp_keys_derive(made, secret, job, HP_MODE_AUTH, NULL) != HOOP_SUCCESS)
        bail("no keys");
}

void
set_up(pair *p)
{
    memset(p, 0, sizeof *p);
    p->hello = (hp_hello){
        .comm = 5, .my_rank = 3, .your_rank = 4, .world = 8, .role = HP_ROLE_DATA, .ver_min = 2, .ver_max = 2};
    memcpy(p->hello.job, keys.job, HP_JOB);
    p->policy = (hp_conn_policy){.my_rank = 4, .world = 8, .comm = 5, .role = HP_ROLE_DATA};
    memset(p->nonce_i, 0x11, 32);
    memset(p->nonce_r, 0x22, 32);
}

void
begin(pair *p)
{
    hp_conn_start(&p->i, &keys, &p->hello, p->nonce_i, limit);
    hp_conn_accept(&p->r, &keys, &p->policy, p->nonce_r, limit);
}

hp_conn_state
pass(hp_conn *from, hp_conn *to)
{
    size_t n = from->out_n;
    hp_conn_state state = hp_conn_feed(to, from->out, n, start);
    hp_conn_wrote(from, n);
    return state;
}

hp_conn *
reach(pair *p, int m, hp_conn **receiver)
{
    begin(p);
    for (int k = 0; k < m; k++) {
        hp_conn *from = k % 2 == 0 ? &p->i : &p->r;
        if (pass(from, from == &p->i ? &p->r : &p->i) == HP_CONN_JUDGE)
            hp_conn_judge(&p->r, HP_OK, p->hello.my_rank);
    }
    *receiver = m % 2 == 0 ? &p->r : &p->i;
    return m % 2 == 0 ? &p->i : &p->r;
}

int
wiped(const hp_conn *conn)
{
    return conn->keys == NULL;
}

int
is_bad(const hp_conn *conn)
{
    return conn->state == HP_CONN_BAD && conn->out_n == 0 && conn->out == NULL && conn->why[0] != '\0' && wiped(conn) &&
           hp_conn_want(conn) == 0;
}
