/* SPDX-License-Identifier: MIT */
/* registration: see registration.h. The client's options make JOIN and HELLO, and a roster is checked against them. */
#include "rendezvous/registration.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hp_join
common(const hp_client_options *o)
{
    hp_join join = {.member = {.rank = -1,
                               .host_id = o->host_id,
                               .processors = o->processors,
                               .pid = o->pid,
                               .pid_space = o->pid_space,
                               .addr = o->listen},
                    .op_timeout = o->op_timeout,
                    .warn_after = o->warn_after,
                    .peer_timeout = o->sock.peer_timeout,
                    .started = o->started,
                    .completed = o->completed,
                    .parent_rank = -1};
    join.member.proxied = o->proxied;
    memcpy(join.member.other, o->other, sizeof(join.member.other));
    memcpy(join.member.host, o->host, sizeof(join.member.host));
    return join;
}

hp_join
hp_registration_first(const hp_client_options *o, uint64_t now)
{
    uint64_t left = o->deadline > now ? (o->deadline - now) / HP_MS + 1 : 1;
    hp_join join = common(o);
    join.size = o->size;
    if (o->shrink) /* the other half is for the links to those that have come */
        left /= 2;
    join.patience = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
    join.digest = o->parent_digest;
    join.epoch = o->number;
    join.shrink = o->shrink;
    join.grow = o->grow;
    join.parent = o->parent;
    join.split = o->split;
    join.color = o->color;
    join.key = o->key;
    if (o->parent) {
        join.parent_rank = o->parent_rank;
        join.parent_size = o->parent_size;
    } else {
        join.member.rank = o->rank;
    }
    return join;
}

hp_join
hp_registration_again(const hp_client_options *o, const hp_ring *ring)
{
    hp_join join = common(o);
    join.member.rank = ring->rank;
    join.size = ring->size;
    join.patience = HP_RETURN_MS;
    join.ring = ring->comm;
    join.epoch = ring->epoch;
    join.digest = hp_ring_digest(ring);
    return join;
}

hp_origin
hp_registration_origin(const hp_client_options *o, const hp_ring *ring)
{
    hp_origin origin = o->shrink || o->grow ? o->parent_origin
                                            : (hp_origin){.parent = o->parent, .split = o->split, .color = o->color};
    if (!o->shrink)
        origin.lineage = ring->comm;
    return origin;
}

hp_hello
hp_registration_hello(const hp_client_options *o, const hp_ring *again)
{
    int rank = again ? again->rank : o->parent ? o->parent_rank : o->rank;
    int size = again ? again->size : o->parent ? o->parent_size : o->size;
    return (hp_hello){.comm = again ? again->comm : o->parent,
                      .epoch = o->attempt,
                      .my_rank = rank < 0 ? HP_RANK_UNKNOWN : (uint32_t)rank,
                      .your_rank = HP_RANK_SERVER,
                      .world = (uint32_t)size,
                      .role = HP_ROLE_CONTROL,
                      .ver_min = HP_WIRE_MIN,
                      .ver_max = HP_WIRE_MAX,
                      .features = HP_FEATURE_STATS | HP_FEATURE_CALL_NAMES | HP_FEATURE_WAITING | HP_FEATURE_COMEBACK |
                                  HP_FEATURE_RECALL};
}

/* Whether this is the roster's next part after its first `parts_to` members, and fits what was asked for. */
static int
fits(const hp_client_options *o, const hp_ring *ring, int parts_to, const hp_part *part)
{
    if (part->first != parts_to)
        return 0;
    if (parts_to > 0)
        return part->comm == ring->comm && part->epoch == ring->epoch && part->rank == ring->rank &&
               part->size == ring->size && part->least == ring->least && part->most == ring->most;
    if (o->grow)
        return part->size == 0 ? o->parent != 0 : part->size > o->size;
    if (o->parent)
        return part->size <= o->parent_size && (o->color < 0) == (part->size == 0);
    return part->size == o->size && (o->rank < 0 || part->rank == o->rank);
}

/* The size is the expected one; the first part was checked against it. */
static int
open_ring(hp_ring *ring, const hp_part *part)
{
    size_t n = part->size > 0 ? (size_t)part->size : 1;
    free(ring->order);
    free(ring->members);
    *ring = (hp_ring){.comm = part->comm,
                      .epoch = part->epoch,
                      .rank = part->rank,
                      .size = part->size,
                      .least = part->least,
                      .most = part->most};
    ring->order = hp_alloc(n, sizeof(int));
    ring->members = hp_alloc(n, sizeof(hp_member));
    return ring->order && ring->members;
}

int
hp_registration_part(const hp_client_options *o, hp_ring *ring, int *parts_to, const uint8_t *payload, size_t n,
                     hoop_error *error)
{
    hp_part part;
    if (hp_part_get(&part, payload, n) && fits(o, ring, *parts_to, &part)) {
        if (*parts_to == 0 && !open_ring(ring, &part)) {
            hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for a roster of %d ranks", part.size);
            return -1;
        }
        int right = hp_part_members(&part, ring->members, ring->order);
        for (int i = *parts_to; right && i < *parts_to + part.count; i++)
            hp_addr_scope_as(&ring->members[i].addr, &o->own);
        *parts_to += right ? part.count : 0;
        if (right && *parts_to < ring->size)
            return 0;
        if (right && hp_ring_close(ring))
            return 1;
    }
    hp_err_set(error, HOOP_ERR_PROTOCOL, "the rendezvous server sent a malformed roster");
    return -1;
}

void
hp_registration_duplicate(const hp_client_options *o, hoop_error *error)
{
    int rank = (int)hp_registration_hello(o, NULL).my_rank;
    hp_err_set(error, HOOP_ERR_RENDEZVOUS,
               "duplicate rank: rank %d has already joined this job; two processes were started with one rank, or two "
               "jobs share one job name (HOOP_JOB)",
               rank);
    error->rank = rank;
}

void
hp_registration_other_attempt(const hp_client_options *o, uint32_t attempt, hoop_error *error)
{
    char server[HP_ADDR_TEXT];
    hp_err_set(error, HOOP_ERR_STALE_EPOCH,
               "the server at %s is that of attempt %u of this job, and this rank is of attempt %u (HOOP_ATTEMPT): %s",
               hp_addr_print(&o->server, server), attempt, o->attempt,
               attempt < o->attempt ? "the old process must end, or the new one use another port"
                                    : "the job was started again, and this process is left over");
}

void
hp_registration_cut_off(const hp_client_options *o, uint64_t silent, hoop_error *error)
{
    char server[HP_ADDR_TEXT];
    hp_err_set(error, HOOP_ERR_RENDEZVOUS,
               "the host of the rendezvous server at %s has acknowledged nothing for %u s: it is down, or cut off from "
               "this host; look at the cables, the switches and the firewalls of both",
               hp_addr_print(&o->server, server), (unsigned)(silent / HP_SEC));
    error->sys_errno = ETIMEDOUT;
}

void
hp_registration_too_late(const hp_client_options *o, int connected, hoop_error *error)
{
    char server[HP_ADDR_TEXT];
    hp_addr_print(&o->server, server);
    if (connected)
        hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                   "the rendezvous server at %s did not answer within the bring-up time-out", server);
    else
        hp_err_set(error, HOOP_ERR_RENDEZVOUS, "no rendezvous server was found at %s within the bring-up time-out",
                   server);
}

/* --- frames that are sent again --- */

void
hp_resend_clear(hp_resend *resend)
{
    *resend = (hp_resend){.loss.peer = -1};
    hp_err_clear(&resend->cause);
    hp_err_clear(&resend->absence);
}

static void
put(hp_resend *resend, const hp_outlet *outlet, hp_frame_type type, const void *payload, size_t n)
{
    resend->dropped |= !outlet->send(outlet->arg, type, payload, n);
}

static void
send_abort(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_ABORT_BYTES];
    if (outlet && resend->cause.code)
        put(resend, outlet, HP_ABORT, payload, hp_abort_put(payload, &resend->cause));
}

static void
send_lost(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_LOSS_BYTES];
    if (!outlet || resend->loss.peer < 0)
        return;
    hp_loss_put(payload, &resend->loss);
    put(resend, outlet, HP_LOST, payload, sizeof(payload));
}

static void
send_unstarted(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_UNSTARTED_BYTES];
    if (outlet && resend->unstarted.sequence)
        put(resend, outlet, HP_UNSTARTED, payload, hp_unstarted_put(payload, &resend->unstarted));
}

static void
send_refused(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_REFUSAL_BYTES];
    if (outlet && resend->absence.code)
        put(resend, outlet, HP_REFUSED, payload, hp_refusal_put(payload, resend->split, &resend->absence));
}

static void
send_name(hp_resend *resend, const hp_outlet *outlet)
{
    uint8_t payload[HP_NAME_TEXT];
    if (outlet && resend->named)
        put(resend, outlet, HP_NAME, payload, hp_name_put(payload, resend->name));
}

static void
send_call_name(hp_resend *resend, const hp_outlet *outlet, int number)
{
    uint8_t payload[HP_CALL_NAME_BYTES];
    size_t n = hp_call_name_put(payload, number, hp_call_names_get(&resend->call_names, number));
    if (outlet)
        put(resend, outlet, HP_CALL_NAME, payload, n);
}

void
hp_resend_abort(hp_resend *resend, const hp_outlet *outlet, const hoop_error *cause)
{
    resend->cause = *cause;
    send_abort(resend, outlet);
}

void
hp_resend_lost(hp_resend *resend, const hp_outlet *outlet, const hp_loss *loss)
{
    resend->loss = *loss;
    send_lost(resend, outlet);
}

void
hp_resend_unstarted(hp_resend *resend, const hp_outlet *outlet, const hp_unstarted *unstarted)
{
    resend->unstarted = *unstarted;
    send_unstarted(resend, outlet);
}

void
hp_resend_refuse(hp_resend *resend, const hp_outlet *outlet, uint32_t split, const hoop_error *cause)
{
    resend->split = split;
    resend->absence = *cause;
    send_refused(resend, outlet);
}

void
hp_resend_name(hp_resend *resend, const hp_outlet *outlet, int number, const char *name)
{
    if (number) {
        send_call_name(resend, outlet, hp_call_names_add(&resend->call_names, name));
        return;
    }
    resend->named = 1;
    snprintf(resend->name, sizeof(resend->name), "%s", name);
    send_name(resend, outlet);
}

void
hp_resend_all(hp_resend *resend, const hp_outlet *outlet)
{
    resend->dropped = 0;
    send_name(resend, outlet);
    for (int number = 1; number <= resend->call_names.count; number++)
        send_call_name(resend, outlet, number);
    send_unstarted(resend, outlet);
    send_refused(resend, outlet);
    send_lost(resend, outlet);
    send_abort(resend, outlet);
}

void
hp_resend_dropped(hp_resend *resend, const hp_outlet *outlet)
{
    if (resend->dropped)
        hp_resend_all(resend, outlet);
}
