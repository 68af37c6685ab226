/* SPDX-License-Identifier: MIT */
/*
 * server_search: see server_search.h. Rank 0's server has the first free port. So the next port is dialled when this
 * one turns out to be another program's or another job's; after a while all are, because that one may have ended
 * meanwhile. At each port all addresses of the host are dialled (race.h). A dial that was refused by the right server has
 * found it, too; the rank that joins there gets the sentence.
 */
#include "lib/server_search.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"
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
    struct server_search *search;
    hp_race *race;  /* NULL: it has failed, or has not begun */
    uint64_t again; /* when it may begin */
} candidate;

typedef struct server_search {
    const hp_server_search_options *o;
    hp_loop *loop;
    hp_addr_list host;
    uint16_t first, last;
    char where[HOST_TEXT]; /* "at host7, ports 5801 to 5816" */
    uint64_t deadline;
    candidate candidate[PORTS_MOST];
    int open;         /* so many of them, the first ones, are dialled */
    int found;        /* the number of a candidate; -1: none yet */
    hp_addr server;   /* where it was found */
    int foreign;      /* the port of another program or job; 0: none was seen */
    hoop_error error; /* of the last race */
    hoop_error met;   /* of a port that accepts and does not answer, or closes: what was last seen there */
} server_search;

static int
number_of(const candidate *c)
{
    return (int)(c - c->search->candidate);
}

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    candidate *c = arg;
    server_search *f = c->search;
    if (result->fd >= 0)
        hp_socket_close(result->fd);
    if ((result->fd >= 0 || result->status) && f->found < 0) {
        f->found = number_of(c);
        f->server = result->to;
    } else if (result->error.code == HOOP_ERR_AUTH || result->error.code == HOOP_ERR_VERSION) {
        f->foreign = f->first + number_of(c);
    }
    if (f->found < 0 && f->open == number_of(c) + 1 && f->open <= f->last - f->first)
        f->open++;
    f->error = result->error;
    c->again = hp_loop_now(f->loop) + AGAIN_MS * HP_MS;
    hp_race_free(c->race);
    c->race = NULL;
    hp_loop_wake(f->loop);
}

/* Dials the open ports that are not being dialled. */
static hoop_result
dial_open(server_search *f, hoop_error *error)
{
    const hp_server_search_options *o = f->o;
    hp_sock_options sock = {0};
    hp_hello hello = o->hello;
    hello.mode = o->keys->mode;
    memcpy(hello.job_id, o->keys->job_id, HP_JOB_ID_BYTES);
    for (int i = 0; i < f->open; i++) {
        candidate *c = &f->candidate[i];
        hp_addr_list to = f->host;
        c->search = f;
        if (c->race || hp_loop_now(f->loop) < c->again)
            continue;
        for (int k = 0; k < to.n; k++)
            hp_addr_set_port(&to.addr[k], (uint16_t)(f->first + i));
        c->race = hp_race_new(f->loop, &to,
                              &(hp_dial_options){.what = o->what,
                                                 .keys = o->keys,
                                                 .hello = hello,
                                                 .sock = sock,
                                                 .deadline = f->deadline,
                                                 .fn = on_dialled,
                                                 .arg = c});
        if (!c->race)
            return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the search of rank 0's server");
        if (f->first < f->last) /* a proxy whose server is not up yet is no reason to leave the only port */
            hp_race_limit_closed(c->race, CLOSED_MOST);
    }
    return HOOP_SUCCESS;
}

static hoop_result
not_found(const server_search *f, hoop_error *error)
{
    if (f->foreign)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "no server of this job was found %s within the bring-up time-out; at port %d something else "
                          "answers: another program, a proxy with nothing behind it, or a job with another secret or "
                          "name; see hoop_launch(7)",
                          f->where, f->foreign);
    if (f->met.code != HOOP_SUCCESS)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "no server of this job was found %s within the bring-up time-out; %.230s", f->where,
                          f->met.text);
    return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                      "no server of this job was found %s within the bring-up time-out: is rank 0 there, does it use "
                      "hoop, and does a firewall let these ports pass? See hoop_launch(7)",
                      f->where);
}

/* What is awaited, and what is at its ports instead. */
static void
describe(server_search *f, char what[HOST_TEXT + HOST_TEXT])
{
    hoop_error met;
    for (int i = 0; i < f->open; i++)
        if (f->candidate[i].race && hp_race_explain(f->candidate[i].race, &met))
            f->met = met;
    int used = snprintf(what, HOST_TEXT, "%s %s", f->o->what, f->where);
    if (f->foreign)
        snprintf(what + used, HOST_TEXT, "; at port %d another program answers, or a job with another secret",
                 f->foreign);
    else if (f->met.code != HOOP_SUCCESS)
        snprintf(what + used, HOST_TEXT, "; %s", f->met.text);
}

/* Waits for news. 1: the search goes on, as far as the wait knows. */
static int
look(server_search *f, hp_bounded_wait *wait)
{
    char what[HOST_TEXT + HOST_TEXT];
    hp_loop_run(f->loop, (hp_interrupt_is_set() ? HP_INTERRUPT_MS : LOOK_MS) * HP_MS);
    if (f->found >= 0)
        return 1;
    describe(f, what);
    return hp_bounded_wait_ask(wait, what);
}

/* The host of a pod or of a job that begins may get its name only after a while. */
static hoop_result
resolve(server_search *f, hp_bounded_wait *wait, hoop_error *error)
{
    char text[HOST_TEXT], what[HOST_TEXT + 32];
    hoop_error why;
    snprintf(text, sizeof(text), strchr(f->o->host, ':') ? "[%.255s]:%u" : "%.255s:%u", f->o->host, f->first);
    snprintf(what, sizeof(what), "the address of rank 0's host, %.255s", f->o->host);
    while (hp_addr_find_all(&f->host, text, f->loop, f->deadline, &why) != HOOP_SUCCESS) {
        if (!hp_bounded_wait_ask(wait, what))
            return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                              "the host of rank 0 (MASTER_ADDR): %.180s; see hoop_launch(7)", why.text);
        hp_loop_run(f->loop, LOOK_MS * HP_MS);
    }
    return HOOP_SUCCESS;
}

static server_search
begin(const hp_server_search_options *o, hp_loop *loop, const hp_bounded_wait *wait)
{
    return (server_search){.o = o,
                           .loop = loop,
                           .deadline = hp_loop_now(loop) + (uint64_t)hp_bounded_wait_left_ms(wait) * HP_MS,
                           .open = 1,
                           .found = -1};
}

static void
end(server_search *f, hp_addr *server)
{
    *server = f->found >= 0 ? f->server : f->host.addr[0];
    for (int i = 0; i < PORTS_MOST; i++)
        hp_race_free(f->candidate[i].race);
}

hoop_result
hp_server_search_ports(hp_addr *server, uint16_t first, uint16_t last, const hp_server_search_options *o, hp_loop *loop,
                       hp_bounded_wait *wait, hoop_error *error)
{
    server_search f = begin(o, loop, wait);
    f.first = first;
    f.last = last;
    snprintf(f.where, sizeof(f.where), "at %.100s, ports %u to %u", o->host, first, last);
    hoop_result result = resolve(&f, wait, error);
    for (uint64_t began = hp_loop_now(loop); result == HOOP_SUCCESS && f.found < 0;) {
        if (hp_loop_now(loop) - began > WIDEN_MS * HP_MS)
            f.open = last - first + 1;
        result = dial_open(&f, error);
        if (result == HOOP_SUCCESS && !look(&f, wait))
            result = not_found(&f, error);
    }
    end(&f, server);
    return result;
}

hoop_result
hp_server_search_addresses(hp_addr *server, const hp_addr_list *to, const hp_server_search_options *o, hp_loop *loop,
                           hp_bounded_wait *wait, hoop_error *error)
{
    server_search f = begin(o, loop, wait);
    f.host = *to;
    f.first = f.last = hp_addr_port(&to->addr[0]);
    snprintf(f.where, sizeof(f.where), "at %.200s", o->host);
    hoop_result result = to->n > 1 ? dial_open(&f, error) : HOOP_SUCCESS;
    while (f.found < 0 && f.candidate[0].race && result == HOOP_SUCCESS)
        if (!look(&f, wait) && hp_interrupt_asks())
            result = hp_err_set(error, HOOP_ERR_ABORTED, "the program interrupted this call");
    if (result == HOOP_SUCCESS && f.found < 0 && to->n > 1) {
        *error = f.error;
        result = error->code;
    }
    end(&f, server);
    return result;
}
