/* SPDX-License-Identifier: MIT */
/*
 * pair: both ends of one handshake in memory (pair.h). The keys are those of the known answers once make_keys has run.
 */
#include "t/net/pair.h"

#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

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
    uint8_t secret[HP_SECRET], job_id[HP_JOB_ID_BYTES];
    for (size_t k = 0; k < sizeof(secret); k++)
        secret[k] = (uint8_t)(first + k);
    for (size_t k = 0; k < sizeof(job_id); k++)
        job_id[k] = (uint8_t)(job_first + k);
    if (hp_keys_derive(made, secret, job_id, HP_MODE_AUTH, NULL) != HOOP_SUCCESS)
        bail("no keys");
}

void
set_up(pair *p)
{
    memset(p, 0, sizeof(*p));
    p->hello = (hp_hello){.comm = 5,
                          .my_rank = 3,
                          .your_rank = 4,
                          .world = 8,
                          .role = HP_ROLE_DATA,
                          .ver_min = HP_WIRE_MIN,
                          .ver_max = HP_WIRE_MAX};
    memcpy(p->hello.job_id, keys.job_id, HP_JOB_ID_BYTES);
    p->policy = (hp_handshake_policy){.my_rank = 4, .world = 8, .comm = 5, .role = HP_ROLE_DATA};
    memset(p->nonce_i, 0x11, 32);
    memset(p->nonce_r, 0x22, 32);
}

void
begin(pair *p)
{
    hp_handshake_start(&p->i, &keys, &p->hello, p->nonce_i, limit);
    hp_handshake_accept(&p->r, &keys, &p->policy, p->nonce_r, limit);
}

hp_handshake_state
pass(hp_handshake *from, hp_handshake *to)
{
    size_t n = from->out_n;
    hp_handshake_state state = hp_handshake_feed(to, from->out, n, start);
    hp_handshake_wrote(from, n);
    return state;
}

hp_handshake *
reach(pair *p, int m, hp_handshake **receiver)
{
    begin(p);
    for (int k = 0; k < m; k++) {
        hp_handshake *from = k % 2 == 0 ? &p->i : &p->r;
        if (pass(from, from == &p->i ? &p->r : &p->i) == HP_HANDSHAKE_JUDGE)
            hp_handshake_judge(&p->r, HP_OK, p->hello.my_rank);
    }
    *receiver = m % 2 == 0 ? &p->r : &p->i;
    return m % 2 == 0 ? &p->i : &p->r;
}

int
wiped(const hp_handshake *handshake)
{
    return !handshake->keys;
}

int
is_bad(const hp_handshake *handshake)
{
    return handshake->state == HP_HANDSHAKE_BAD && handshake->out_n == 0 && !handshake->out &&
           handshake->why[0] != '\0' && wiped(handshake) && hp_handshake_want(handshake) == 0;
}
