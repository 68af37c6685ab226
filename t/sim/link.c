/* SPDX-License-Identifier: MIT */
/*
 * link: net/link.h without sockets, for tests that link this object in place of the real ones. The same posts, counters
 * and stripes; bytes move from memory to memory, some at a time, when sim_net_move says so. A sender's frame is
 * compared with what the receiver awaits, as stripe.c does it.
 */
#include "base/err.h"
#include "t/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINKS_MAX = 8192, HEADER = 4 /* units of a frame's head; 1 unit = 1 byte of payload */ };

typedef struct end {
    uint64_t next; /* the post being moved */
    uint64_t moved;
} end;

typedef struct head {
    hp_frame frame;
    uint32_t bytes;
} head;

typedef struct stripe {
    end out, in;
    uint8_t *held; /* the bytes on the way: a ring of net.held */
    uint64_t put, got;
    head *heads; /* of the frames on the way: a ring of heads_room() */
    uint64_t head_put, head_got;
} stripe;

typedef struct sim_link {
    hp_link link;
    struct sim_link *other;        /* the far end */
    stripe stripe[HP_STRIPES_MAX]; /* the sending end's are used */
} sim_link;

static sim_net_options net;
static sim_link *links[LINKS_MAX];
static int link_count;
static uint64_t state, delivered;
static char fault[200];

static uint64_t
draw(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

void
sim_net_begin(const sim_net_options *options)
{
    net = *options;
    state = options->seed;
    delivered = 0;
    fault[0] = 0;
}

void
sim_net_end(void)
{
    if (link_count)
        snprintf(fault, sizeof(fault), "%d links were not freed", link_count);
}

const char *
sim_net_fault(void)
{
    return fault[0] ? fault : NULL;
}

uint64_t
sim_net_bytes(void)
{
    return delivered;
}

/* --- moving --- */

static hp_post *
post_at(sim_link *l, uint64_t number)
{
    return number < l->link.posted ? &l->link.posts[number & (l->link.capacity - 1)] : NULL;
}

static uint64_t
heads_room(void)
{
    return net.held / HEADER + 2;
}

/* The sender begins a frame. */
static void
begin(stripe *s, const hp_post *out)
{
    s->heads[s->head_put++ % heads_room()] = (head){out->frame, out->bytes};
}

/* The receiver begins one: it must be the one awaited. */
static void
compare(const sim_link *from, stripe *s, const hp_post *in)
{
    const head *out = &s->heads[s->head_got++ % heads_room()];
    const hp_frame *a = &out->frame, *b = &in->frame;
    int same = a->epoch == b->epoch && a->channel == b->channel && a->sequence == b->sequence && a->step == b->step &&
               a->signature == b->signature && a->flags == b->flags && out->bytes == in->bytes;
    if (same && a->flags & HP_FRAME_CALL)
        same = hp_call_equal(&a->call, &b->call);
    if (!same && !fault[0])
        snprintf(fault, sizeof(fault), "rank %d sent operation %ju step %u (%u bytes), rank %d awaits %ju step %u (%u)",
                 from->link.self, (uintmax_t)a->sequence, a->step, out->bytes, from->link.peer, (uintmax_t)b->sequence,
                 b->step, in->bytes);
}

static void
finish(sim_link *l, hp_post *post)
{
    post->done = 1;
    while (l->link.done < l->link.posted && post_at(l, l->link.done)->done)
        l->link.done++;
}

/* One unit further. The last one ends the post. */
static void
advance(sim_link *l, end *e, hp_post *post)
{
    if (++e->moved < HEADER + (uint64_t)post->bytes)
        return;
    finish(l, post);
    e->moved = 0;
    e->next += (uint64_t)l->link.stripes;
}

/* Where a byte of the payload lies. */
static uint8_t *
byte_at(const hp_post *post, uint64_t at)
{
    struct iovec place;
    hp_iov_list(&post->body, (uint32_t)at, (uint32_t)at + 1, &place, 1);
    return place.iov_base;
}

static uint8_t
unit(const hp_post *post, uint64_t at)
{
    return at < HEADER ? (uint8_t)at : *byte_at(post, at - HEADER);
}

static void
store(sim_link *l, end *e, hp_post *post, uint8_t value)
{
    if (e->moved >= HEADER) {
        *byte_at(post, e->moved - HEADER) = value;
        l->link.bytes++;
        delivered++;
    } else if (value != e->moved && !fault[0]) {
        snprintf(fault, sizeof(fault), "rank %d sent a payload where rank %d awaits a head", l->link.peer,
                 l->link.self);
    }
    advance(l, e, post);
}

static int
pass(sim_link *l, stripe *s)
{
    hp_post *out = post_at(l, s->out.next), *in = post_at(l->other, s->in.next);
    if (!out || !in)
        return 0;
    if (s->out.moved == 0) {
        begin(s, out);
        compare(l, s, in);
    }
    if (fault[0])
        return 0;
    uint8_t value = unit(out, s->out.moved);
    advance(l, &s->out, out);
    store(l->other, &s->in, in, value);
    return 1;
}

static int
take(sim_link *l, stripe *s)
{
    hp_post *out = post_at(l, s->out.next);
    if (!out || s->put - s->got == net.held)
        return 0;
    if (s->out.moved == 0)
        begin(s, out);
    s->held[s->put++ % net.held] = unit(out, s->out.moved);
    advance(l, &s->out, out);
    return 1;
}

static int
give(sim_link *l, stripe *s)
{
    hp_post *in = l->other ? post_at(l->other, s->in.next) : NULL;
    if (!in || s->put == s->got)
        return 0;
    if (s->in.moved == 0)
        compare(l, s, in);
    if (fault[0])
        return 0;
    store(l->other, &s->in, in, s->held[s->got++ % net.held]);
    return 1;
}

static int
move_stripe(sim_link *l, int k, uint64_t units)
{
    stripe *s = &l->stripe[k];
    int any = 0, now = 1;
    for (uint64_t i = 0; i < units && now; i++) {
        if (net.held == 0)
            now = l->other ? pass(l, s) : 0;
        else
            now = draw(2) ? take(l, s) || give(l, s) : give(l, s) || take(l, s);
        any |= now;
    }
    return any;
}

/* Mostly a few units, sometimes all there is. */
static uint64_t
some(void)
{
    return draw(4) == 0 ? UINT64_MAX : 1 + draw(64);
}

int
sim_net_move(void)
{
    sim_link *l = link_count ? links[draw((uint64_t)link_count)] : NULL;
    if (!l || !l->link.sending)
        return 0;
    return move_stripe(l, (int)draw((uint64_t)l->link.stripes), some());
}

int
sim_net_flush(void)
{
    int moved = 0;
    for (int i = 0; i < link_count; i++)
        for (int k = 0; k < links[i]->link.stripes && links[i]->link.sending; k++)
            moved |= move_stripe(links[i], k, UINT64_MAX);
    return moved;
}

/* --- net/link.h --- */

static void
find_other(sim_link *l)
{
    for (int i = 0; i < link_count; i++) {
        const hp_link *a = &links[i]->link, *b = &l->link;
        if (a->self != b->peer || a->peer != b->self || a->distance != b->distance || a->sending == b->sending)
            continue;
        if (!a->twin != !b->twin) /* exchanges have links of their own */
            continue;
        l->other = links[i];
        links[i]->other = l;
    }
}

hp_link *
hp_link_new(int sending, int self, int peer, int distance, int stripes, uint32_t capacity)
{
    sim_link *l = calloc(1, sizeof(*l));
    if (!l || link_count == LINKS_MAX)
        return NULL;
    l->link = (hp_link){.sending = sending, .self = self, .peer = peer, .distance = distance, .state = HP_LINK_OPEN};
    l->link.stripes = stripes;
    l->link.capacity = capacity;
    l->link.posts = calloc(capacity, sizeof(*l->link.posts));
    for (int k = 0; k < stripes; k++) {
        l->stripe[k].out.next = l->stripe[k].in.next = (uint64_t)k;
        l->stripe[k].held = calloc(net.held + 1, 1);
        l->stripe[k].heads = calloc(heads_room(), sizeof(head));
    }
    links[link_count++] = l;
    return &l->link;
}

void
hp_link_pair(hp_link *out, hp_link *in, int dials)
{
    out->twin = in;
    in->twin = out;
    out->dials = in->dials = dials;
}

hoop_result
hp_link_attach(hp_link *link, int k, int fd, hp_loop *loop, void (*kick)(void *arg), void *arg, hoop_error *error)
{
    (void)link, (void)k, (void)fd, (void)loop, (void)kick, (void)arg;
    return hp_err_set(error, HOOP_ERR_INTERNAL, "a simulated link has no sockets");
}

int
hp_link_is_fresh(const hp_link *link, int k)
{
    (void)k;
    return link->posted == 0;
}

int
hp_link_is_stuck(const hp_link *link)
{
    (void)link;
    return 0;
}

static uint64_t
append(hp_link *link, const hp_frame *frame, const hp_iov *body, uint32_t bytes)
{
    struct iovec place;
    if (!((sim_link *)link)->other)
        find_other((sim_link *)link);
    if (link->posted - link->done == link->capacity && !fault[0])
        snprintf(fault, sizeof(fault), "rank %d has more posts than the link has room for", link->self);
    for (uint32_t at = 0; at < bytes && !link->sending; at += (uint32_t)place.iov_len) {
        hp_iov_list(body, at, bytes, &place, 1);
        net.spoil(place.iov_base, (uint32_t)place.iov_len);
    }
    link->posts[link->posted & (link->capacity - 1)] = (hp_post){.frame = *frame, .bytes = bytes, .body = *body};
    return ++link->posted;
}

uint64_t
hp_link_post(hp_link *link, const hp_frame *frame, void *data, uint32_t bytes)
{
    hp_iov one = {.data = data, .run = bytes};
    return append(link, frame, &one, bytes);
}

uint64_t
hp_link_post_iov(hp_link *link, const hp_frame *frame, const hp_iov *pieces, uint32_t bytes)
{
    return append(link, frame, pieces, bytes);
}

int
hp_link_move(hp_link *link)
{
    sim_link *l = (sim_link *)link, *from = link->sending ? l : l->other;
    if (!link->sending)
        net.ask(link);
    if (!net.on_ask || !from || link->state != HP_LINK_OPEN)
        return 0;
    return move_stripe(from, (int)draw((uint64_t)link->stripes), some());
}

void
hp_link_arm(hp_link *link)
{
    (void)link;
}

void
hp_link_stop(hp_link *link, const hoop_error *cause)
{
    link->error = *cause;
    link->state = HP_LINK_ABORT;
}

void
hp_link_leave(hp_link *link)
{
    link->state = HP_LINK_LEFT;
}

int
hp_link_closed(hp_link *link)
{
    (void)link;
    return 1;
}

void
hp_link_free(hp_link *link)
{
    sim_link *l = (sim_link *)link;
    int i = 0;
    if (!l)
        return;
    while (links[i] != l)
        i++;
    links[i] = links[--link_count];
    if (l->other)
        l->other->other = NULL;
    for (int k = 0; k < link->stripes; k++) {
        free(l->stripe[k].held);
        free(l->stripe[k].heads);
    }
    free(link->posts);
    free(l);
}
