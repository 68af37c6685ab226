/* SPDX-License-Identifier: MIT */
/* link: see link.h. A link keeps the posts and their order; its stripes move the bytes. */
#include "net/link.h"

#include "base/err.h"
#include "base/mem.h"
#include "net/parting.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

hp_link *
hp_link_new(int sending, int self, int peer, int distance, int stripes, uint32_t capacity)
{
    hp_link *link = hp_alloc(1, sizeof(*link));
    if (!link)
        return NULL;
    link->posts = hp_alloc(capacity, sizeof(*link->posts));
    if (sending && distance == 1) /* heartbeats travel round the ring only */
        link->heartbeats = hp_alloc(1, HP_HEARTBEATS_ROOM);
    if (!link->posts || (sending && distance == 1 && !link->heartbeats)) {
        free(link->posts);
        free(link->heartbeats);
        free(link);
        return NULL;
    }
    link->sending = link->dials = sending;
    link->self = self;
    link->peer = peer;
    link->distance = distance;
    link->stripes = stripes;
    link->capacity = capacity;
    hp_err_clear(&link->error);
    return link;
}

void
hp_link_pair(hp_link *out, hp_link *in, int dials)
{
    out->twin = in;
    in->twin = out;
    free(out->heartbeats); /* they travel round the ring only */
    out->heartbeats = NULL;
    out->dials = in->dials = dials;
}

static void
set_stripe(hp_link *link, int k, hp_stripe *stripe)
{
    link->stripe[k] = stripe;
    if (link->twin)
        link->twin->stripe[k] = stripe;
}

static void
set_open(hp_link *link, int again)
{
    for (int k = 0; k < link->stripes; k++)
        if (!link->stripe[k])
            return;
    if (link->state > HP_LINK_DIALING && !(again && link->state == HP_LINK_LOST))
        return;
    link->state = HP_LINK_OPEN;
    hp_err_clear(&link->error);
}

/* A link that lacks stripe k alone is open when that has come. */
static int
lacks_only(const hp_link *link, int k)
{
    int only = link->state == HP_LINK_LOST;
    for (int i = 0; i < link->stripes; i++)
        only &= i == k || !link->stripe[i] || !link->stripe[i]->medium.eof;
    return only;
}

static hoop_result
attached(hp_link *link, int again, int is_there, hoop_error *error)
{
    if (!is_there)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the connection to rank %d", link->peer);
    set_open(link, again);
    if (link->twin)
        set_open(link->twin, again);
    return HOOP_SUCCESS;
}

hoop_result
hp_link_attach(hp_link *link, int k, int fd, hp_loop *loop, hp_kick_fn *kick, void *arg, hoop_error *error)
{
    int again = lacks_only(link, k); /* it has carried nothing in that place */
    hp_stripe_free(link->stripe[k]);
    set_stripe(link, k, hp_stripe_new(link, k, fd, loop, kick, arg));
    return attached(link, again, link->stripe[k] != NULL, error);
}

void
hp_link_share(hp_link *link, int k, hp_shm *shm)
{
    hp_shm_opened(shm);
    link->stripe[k]->medium.shm = shm;
}

int
hp_link_shares(const hp_link *link)
{
    return link->stripe[0] && link->stripe[0]->medium.shm;
}

hoop_result
hp_link_repair(hp_link *link, int k, hoop_error *error)
{
    link->repaired = 1;
    if (link->twin)
        link->twin->repaired = 1;
    return attached(link, 0, hp_stripe_repair(link->stripe[k]), error);
}

hoop_result
hp_link_resume(hp_link *link, int k, int fd, uint16_t generation, hoop_error *error)
{
    int again = lacks_only(link, k);
    return attached(link, again, hp_stripe_resume(link->stripe[k], fd, generation), error);
}

int
hp_link_resumes(const hp_link *link, int k, uint16_t generation)
{
    const hp_stripe *s = link->stripe[k];
    if (!link->repaired || !s || !generation || link->state > HP_LINK_LOST || link->state == HP_LINK_LEFT)
        return 0;
    int16_t later = (int16_t)(uint16_t)(generation - s->generation);
    return later > 0 || (later == 0 && !s->heard);
}

int
hp_link_is_repaired(const hp_link *link)
{
    return link->repaired && link->state == HP_LINK_LOST;
}

int
hp_link_is_broken(const hp_link *link, int k)
{
    return hp_link_is_repaired(link) && link->stripe[k] && link->stripe[k]->unacked && link->stripe[k]->medium.eof;
}

uint16_t
hp_link_next_generation(const hp_link *link, int k)
{
    uint16_t next = (uint16_t)(link->stripe[k]->generation + 1);
    return next ? next : 1;
}

int
hp_link_is_fresh(const hp_link *link, int k)
{
    const hp_stripe *stripe = link->stripe[k];
    return !stripe || (stripe->accepted && !stripe->heard && !stripe->generation);
}

int
hp_link_stands(const hp_link *link, int k)
{
    char byte;
    ssize_t n = link->stripe[k] ? recv(link->stripe[k]->medium.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : 0;
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

int
hp_link_is_stuck(const hp_link *link)
{
    const hp_stripe *next = link->stripe[link->done % (uint64_t)link->stripes];
    return link->done < link->posted && (link->state == HP_LINK_LOST || (next && next->medium.eof));
}

const hp_frame *
hp_link_unposted(const hp_link *link)
{
    hp_stripe *next = link->stripe[link->posted % (uint64_t)link->stripes];
    return next && !link->sending ? hp_stripe_unposted(next) : NULL;
}

hp_tcp_path
hp_link_path(const hp_link *link)
{
    hp_tcp_path all = {0};
    for (int k = 0; k < link->stripes; k++) {
        const hp_medium *m = link->stripe[k] ? &link->stripe[k]->medium : NULL;
        if (!m || m->shm)
            continue;
        hp_tcp_path one = hp_tcp_path_of(m->fd, m->one_address);
        all.retransmits += one.retransmits;
        all.delivery_rate += one.delivery_rate;
        all.rtt_us = one.rtt_us > all.rtt_us ? one.rtt_us : all.rtt_us;
    }
    return all;
}

static hp_tcp_look
look(const hp_stripe *stripe)
{
    return !stripe || stripe->medium.eof || stripe->medium.shut ? (hp_tcp_look){0} : hp_tcp_look_at(stripe->medium.fd);
}

uint64_t
hp_link_silence(hp_link *link, uint64_t now)
{
    uint64_t longest = 0;
    for (int k = 0; k < link->stripes && link->state == HP_LINK_OPEN; k++) {
        hp_tcp_look seen = look(link->stripe[k]);
        if (!link->stripe[k])
            continue;
        hp_tcp_silence_note(&link->stripe[k]->medium.silence, &seen, now);
        uint64_t silence = hp_tcp_silence_lasts(&link->stripe[k]->medium.silence, now);
        longest = silence > longest ? silence : longest;
    }
    return longest;
}

uint32_t
hp_link_lost_size(hp_link *link, int answered, uint64_t now)
{
    uint32_t size = 0;
    for (int k = 0; k < link->stripes && link->state == HP_LINK_OPEN; k++) {
        hp_tcp_look seen = look(link->stripe[k]);
        if (!link->stripe[k])
            continue;
        hp_tcp_silence_answer(&link->stripe[k]->medium.silence, &seen, answered);
        if (hp_tcp_silence_may_be_size(&link->stripe[k]->medium.silence, &seen, now))
            size = seen.mss;
    }
    return size;
}

int
hp_link_is_heard(const hp_link *link, uint64_t within)
{
    for (int k = 0; k < link->stripes && link->state == HP_LINK_OPEN; k++) {
        const hp_medium *m = link->stripe[k] ? &link->stripe[k]->medium : NULL;
        if (m && !m->eof && !m->shut && hp_tcp_is_heard(m->fd, within))
            return 1;
    }
    return 0;
}

void
hp_link_cut(hp_link *link)
{
    if (link->state == HP_LINK_DIALING) {
        hp_err_set(&link->error, HOOP_ERR_PEER_LOST, "rank %d does not answer", link->peer);
        link->error.sys_errno = ETIMEDOUT;
        link->state = HP_LINK_LOST;
        if (link->twin) {
            link->twin->error = link->error;
            link->twin->state = HP_LINK_LOST;
        }
    }
    for (int k = 0; k < link->stripes; k++)
        if (link->stripe[k])
            hp_stripe_cut(link->stripe[k], 0);
    if (!hp_link_is_repaired(link))
        return;
    hp_link_give_up(link, 1);
    if (link->twin)
        link->twin->gave_up = 1;
}

int
hp_link_cut_once(hp_link *link)
{
    int cut = 0;
    for (int k = 0; k < link->stripes && link->repaired; k++)
        if (link->stripe[k] && link->stripe[k]->unacked)
            cut |= hp_stripe_cut(link->stripe[k], 1);
    return cut;
}

uint64_t
hp_link_post(hp_link *link, const hp_frame *frame, void *data, uint32_t bytes)
{
    return hp_link_post_iov(link, frame, &(hp_iov){.data = data, .run = bytes}, bytes);
}

uint64_t
hp_link_post_iov(hp_link *link, const hp_frame *frame, const hp_iov *pieces, uint32_t bytes)
{
    link->posts[link->posted & (link->capacity - 1)] = (hp_post){.frame = *frame, .bytes = bytes, .body = *pieces};
    return ++link->posted;
}

static void
count_done(hp_link *link)
{
    while (link->done < link->posted && link->posts[link->done & (link->capacity - 1)].done)
        link->done++;
}

int
hp_link_move(hp_link *link)
{
    int moved = 0;
    if (link->state != HP_LINK_OPEN && link->state != HP_LINK_LEFT)
        return 0;
    for (int k = 0; k < link->stripes; k++)
        if (link->stripe[k])
            moved |= hp_stripe_move(link->stripe[k], link);
    count_done(link);
    if (link->twin)
        count_done(link->twin);
    return moved;
}

int
hp_link_send_heartbeats(hp_link *link, const uint8_t *heartbeats, size_t n)
{
    return !link->sending && link->state == HP_LINK_OPEN &&
           hp_stripe_send_control(link->stripe[0], HP_TICK, heartbeats, n);
}

int
hp_link_send_credit(hp_link *link, const uint8_t payload[HP_CREDIT_BYTES])
{
    return link->state == HP_LINK_OPEN && hp_stripe_send_control(link->stripe[0], HP_CREDIT, payload, HP_CREDIT_BYTES);
}

void
hp_link_arm(hp_link *link)
{
    /* if it moves nothing, what has come would wake the driver for ever */
    int moves = link->state == HP_LINK_OPEN || link->state == HP_LINK_LEFT;
    for (int k = 0; k < link->stripes; k++) {
        hp_stripe *s = link->stripe[k];
        if (s && moves)
            hp_stripe_arm(s);
        else if (s && s->watch)
            hp_watch_set(s->watch, 0);
    }
}

/* The last word to the peer. */
static void
end(hp_link *link, int type, const void *payload, size_t n)
{
    for (int k = 0; k < link->stripes; k++) {
        if (!link->stripe[k])
            continue;
        hp_stripe_send_control(link->stripe[k], type, payload, n);
        hp_parting_shut(link->stripe[k]);
    }
}

void
hp_link_stop(hp_link *link, const hoop_error *cause)
{
    uint8_t payload[HP_ABORT_BYTES];
    end(link, HP_ABORT, payload, hp_abort_put(payload, cause));
    hp_link_give_up(link, 0);
    if (link->state <= HP_LINK_LEFT)
        link->state = HP_LINK_ABORT;
}

void
hp_link_ask(hp_link *link)
{
    for (int k = 0; k < link->stripes && link->repaired; k++)
        if (link->stripe[k])
            hp_parting_ask(link->stripe[k]);
}

int
hp_link_is_free(const hp_link *link, uint64_t waited, uint64_t peer_timeout, int proxied)
{
    int needed = 0;
    if (!link->repaired || (link->state != HP_LINK_OPEN && link->state != HP_LINK_LOST))
        return 1;
    for (int k = 0; k < link->stripes; k++)
        needed += link->stripe[k] && !hp_parting_is_free(link->stripe[k], waited, peer_timeout, proxied);
    return needed == 0;
}

void
hp_link_leave(hp_link *link)
{
    hp_link_give_up(link, 0);
    end(link, HP_LEAVE, NULL, 0);
}

int
hp_link_closed(hp_link *link)
{
    int open = 0;
    for (int k = 0; k < link->stripes; k++)
        open += link->stripe[k] && !hp_parting_closed(link->stripe[k]);
    return open == 0;
}

void
hp_link_free(hp_link *link)
{
    if (!link)
        return;
    for (int k = 0; k < link->stripes; k++) {
        hp_stripe_free(link->stripe[k]);
        set_stripe(link, k, NULL);
    }
    if (link->twin)
        link->twin->twin = NULL;
    free(link->posts);
    free(link->heartbeats);
    free(link);
}
