/* SPDX-License-Identifier: MIT */
/*
 * server_search: see server_search.h. Rank 0's server has the first free port. So the next port is dialled when this
 * one turns out to be another program's or another job's; after a while all are, because that one may have ended
 * meanwhile. A dial that was refused by the right server has found it, too; the rank that joins there gets the
 * sentence.
 */
#include "lib/server_search.h"

#include "base/clock.h"
#include "base/err.h"
#include "net/race.h"
#include "net/socket.h"

#include <stdio.h>
#include <string.h>

enum {
    PORTS_MOST = 16,
    LOOK_MS = 1000,  /* between two looks at the time */
    CLOSED_MOST = 5, /* connections in a row that a port closes: it is another's */
    AGAIN_MS = 5000, /* between two dials of a port that is another's */
    WIDEN_MS = 3000, /* after which all ports are dialled */
    HOST_TEXT = 300
};

typedef struct candidate {
    struct port_search *search;
    hp_race *race;  /* NULL: it has failed, or has not begun */
    uint64_t again; /* when it may begin */
} candidate;

typedef struct port_search {
    const hp_server_search_options *o;
    hp_loop *loop;
    hp_addr_list host;
    uint64_t deadline;
    candidate candidate[PORTS_MOST];
    int open;       /* so many of them, the first ones, are dialled */
    int found;      /* the number of a candidate; -1: none yet */
    hp_addr server; /* where it was found */
    int foreign;    /* the port of another program or job; 0: none was seen */
    hoop_error met; /* of a port that accepts and does not answer, or closes: what was last seen there */
} port_search;

static int
number_of(const candidate *c)
{
    return (int)(c - c->search->candidate);
}

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    candidate *c = arg;
    port_search *f = c->search;
    if (result->fd >= 0)
        hp_socket_close(result->fd);
    if ((result->fd >= 0 || result->status) && f->found < 0) {
        f->found = number_of(c);
        f->server = result->to;
    } else if (result->error.code == HOOP_ERR_AUTH || result->error.code == HOOP_ERR_VERSION) {
        f->foreign = f->o->first + number_of(c);
    }
    if (f->found < 0 && f->open == number_of(c) + 1 && f->open <= f->o->last - f->o->first)
        f->open++;
    c->again = hp_loop_now(f->loop) + AGAIN_MS * HP_MS;
    hp_race_free(c->race);
    c->race = NULL;
    hp_loop_wake(f->loop);
}

/* Dials the open ports that are not being dialled. */
static hoop_result
dial_open(port_search *f, hoop_error *error)
{
    const hp_server_search_options *o = f->o;
    hp_sock_options sock = {0};
    hp_hello hello = {.my_rank = (uint32_t)o->rank, .world = (uint32_t)o->size, .your_rank = HP_RANK_SERVER};
    hello.role = HP_ROLE_CONTROL;
    hello.mode = o->keys->mode;
    hello.ver_min = HP_WIRE_MIN;
    hello.ver_max = HP_WIRE_MAX;
    memcpy(hello.job_id, o->keys->job_id, HP_JOB_ID_BYTES);
    for (int i = 0; i < f->open; i++) {
        candidate *c = &f->candidate[i];
        hp_addr_list to = f->host;
        if (c->race || hp_loop_now(f->loop) < c->again)
            continue;
        for (int k = 0; k < to.n; k++)
            hp_addr_set_port(&to.addr[k], (uint16_t)(o->first + i));
        c->race = hp_race_new(f->loop, &to,
                              &(hp_dial_options){.what = "the rendezvous server of rank 0",
                                                 .keys = o->keys,
                                                 .hello = hello,
                                                 .sock = sock,
                                                 .deadline = f->deadline,
                                                 .fn = on_dialled,
                                                 .arg = c});
        if (!c->race)
            return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the search of rank 0's server");
        hp_race_limit_closed(c->race, CLOSED_MOST);
    }
    return HOOP_SUCCESS;
}

static hoop_result
not_found(const port_search *f, const char *where, hoop_error *error)
{
    if (f->foreign)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "no server of this job was found %s within the bring-up time-out; at port %d something else "
                          "answers: another program, a proxy with nothing behind it, or a job with another secret or "
                          "name; see hoop_launch(7)",
                          where, f->foreign);
    if (f->met.code != HOOP_SUCCESS)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "no server of this job was found %s within the bring-up time-out; %.150s", where,
                          f->met.text);
    return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                      "no server of this job was found %s within the bring-up time-out: is rank 0 there, does it use "
                      "hoop, and does a firewall let these ports pass? See hoop_launch(7)",
                      where);
}

/* What is awaited, and what is at its ports instead. */
static void
describe(port_search *f, const char *where, char what[HOST_TEXT + HOST_TEXT])
{
    hoop_error met;
    for (int i = 0; i < f->open; i++)
        if (f->candidate[i].race && hp_race_explain(f->candidate[i].race, &met))
            f->met = met;
    int used = snprintf(what, HOST_TEXT, "the server of rank 0 %s", where);
    if (f->foreign)
        snprintf(what + used, HOST_TEXT, "; at port %d another program answers, or a job with another secret",
                 f->foreign);
    else if (f->met.code != HOOP_SUCCESS)
        snprintf(what + used, HOST_TEXT, "; %s", f->met.text);
}

static hoop_result
look(port_search *f, hp_bounded_wait *wait, hoop_error *error)
{
    char where[HOST_TEXT], what[HOST_TEXT + HOST_TEXT];
    snprintf(where, sizeof(where), "at %.100s, ports %u to %u", f->o->host, f->o->first, f->o->last);
    f->open = 1;
    for (uint64_t began = hp_loop_now(f->loop);;) {
        if (hp_loop_now(f->loop) - began > WIDEN_MS * HP_MS)
            f->open = f->o->last - f->o->first + 1;
        hoop_result result = dial_open(f, error);
        if (result != HOOP_SUCCESS)
            return result;
        hp_loop_run(f->loop, LOOK_MS * HP_MS);
        if (f->found >= 0)
            return HOOP_SUCCESS;
        describe(f, where, what);
        if (!hp_bounded_wait_ask(wait, what))
            return not_found(f, where, error);
    }
}

/* The host of a pod or of a job that begins may get its name only after a while. */
static hoop_result
resolve(port_search *f, hp_bounded_wait *wait, hoop_error *error)
{
    char text[HOST_TEXT], what[HOST_TEXT + 32];
    hoop_error why;
    snprintf(text, sizeof(text), strchr(f->o->host, ':') ? "[%.255s]:%u" : "%.255s:%u", f->o->host, f->o->first);
    snprintf(what, sizeof(what), "the address of rank 0's host, %.255s", f->o->host);
    while (hp_addr_find_all(&f->host, text, f->loop, f->deadline, &why) != HOOP_SUCCESS) {
        if (!hp_bounded_wait_ask(wait, what))
            return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                              "the host of rank 0 (MASTER_ADDR): %.180s; see hoop_launch(7)", why.text);
        hp_loop_run(f->loop, LOOK_MS * HP_MS);
    }
    return HOOP_SUCCESS;
}

hoop_result
hp_server_search_run(hp_addr *server, const hp_server_search_options *o, hp_loop *loop, hp_bounded_wait *wait,
                     hoop_error *error)
{
    port_search f = {.o = o, .loop = loop, .found = -1};
    f.deadline = hp_loop_now(loop) + (uint64_t)hp_bounded_wait_left_ms(wait) * HP_MS;
    for (int i = 0; i < PORTS_MOST; i++)
        f.candidate[i].search = &f;
    hoop_result result = resolve(&f, wait, error);
    if (result == HOOP_SUCCESS)
        result = look(&f, wait, error);
    for (int i = 0; i < PORTS_MOST; i++)
        hp_race_free(f.candidate[i].race);
    *server = f.found >= 0 ? f.server : f.host.addr[0];
    return result;
}
