/* SPDX-License-Identifier: MIT */
/*
 * ring: see sim.h. One hp_channel a rank, all operations' arrays and works, and a scheduler that picks by its seed who
 * moves next: a rank's belt, a link, a device, or a rank that starts its next operation. When nothing picked moves for
 * long, everybody gets a turn; when that moves nothing either, the ring is locked.
 */
#include "base/dtype.h"
#include "t/sim/blocks.h"
#include "t/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 16, SEGMENTS = 24 };

typedef struct buffers {
    uint8_t *memory, *before;
    size_t bytes;
    uint8_t *send, *recv;
    size_t send_bytes, recv_bytes;
    int one;                         /* in place */
    uint8_t *pieces, *pieces_before; /* fused: the tensors, send and recv side */
    size_t pieces_bytes;
} buffers;

typedef struct member {
    hp_channel *channel;
    hp_device *device;
    hoop_work work[SIM_OPS_MAX];
    hp_segment segment[SIM_OPS_MAX][SEGMENTS];
    hp_block blocks[SIM_OPS_MAX][SIM_RANKS_MAX];
    buffers user[SIM_OPS_MAX];
    int started;
    uint32_t spoilt;                     /* free gather buffers that are full of rubbish already */
    const hp_link *asked[SIM_RANKS_MAX]; /* which links its belt asked what has arrived, in this call of it */
    int asks;
} member;

typedef struct ring {
    const sim_ring *o;
    int order[SIM_RANKS_MAX]; /* position -> rank */
    int host_of[SIM_RANKS_MAX], first[SIM_RANKS_MAX + 1];
    hp_host_map hosts; /* o->hosts, with these ranks */
    member *by_rank;
    uint64_t random;
    int overlooked; /* a belt stopped though it had been told of commands that let it move */
    int mislaid;    /* a piece of slot memory was lent twice, or got lost */
    int belated;    /* a belt asked what had arrived before it passed on what needs nothing */
    int repeated;   /* a belt asked a link twice in one call */
} ring;

/* For what a link calls. */
static ring *running;

static uint64_t
draw(ring *r, uint64_t below)
{
    r->random = r->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (r->random >> 33) % below;
}

static size_t
elem_of(const hp_call *call)
{
    return hp_dtype_size((hoop_dtype)call->dtype);
}

static int
within(const void *data, const uint8_t *from, size_t bytes)
{
    return (const uint8_t *)data >= from && (const uint8_t *)data < from + bytes;
}

/* Of an operation's tensors, the one that this lies in. */
static const hp_segment *
tensor_of(const hoop_work *w, const void *data)
{
    for (size_t k = 0; k < w->segment_count && w->call.fused; k++)
        if (within(data, w->segments[k].recv, w->segments[k].count * elem_of(&w->call)))
            return &w->segments[k];
    return NULL;
}

/* Memory that is posted for receiving is spoiled; in place it is input, too, and must keep its content. */
static void
spoil(void *data, uint32_t bytes)
{
    const sim_ring *o = running->o;
    for (int r = 0; r < o->size; r++)
        for (int i = 0; i < o->ops; i++) {
            const buffers *b = &running->by_rank[r].user[i];
            const hp_segment *tensor = tensor_of(&running->by_rank[r].work[i], data);
            if ((b->one && within(data, b->memory, b->bytes)) || (tensor && tensor->send == tensor->recv))
                return;
        }
    memset(data, 0xdb, bytes);
}

/* Whether a step passes the station that it stands before without anything new. */
static int
can_go_on(const sim_ring *o, member *m)
{
    const hp_channel *c = m->channel;
    const hp_slot *received = &c->slot[c->received % HP_WINDOW_MAX], *worked = &c->slot[c->worked % HP_WINDOW_MAX];
    const hp_slot *sent = &c->slot[c->sent % HP_WINDOW_MAX];
    if (c->received < c->posted && received->recv_mark == 0)
        return 1;
    if (c->worked < c->received && !worked->failed && !(worked->place.settled && c->retired < c->worked))
        return 1;
    if (o->device.on_ask || c->sent == c->worked ||
        sent->failed) /* what ends while it is asked is seen the next time */
        return 0;
    sim_device_hold(m->device, 1);
    int done = !sent->command_mark || c->queue[0]->ops->done(c->queue[0]) >= sent->command_mark;
    sim_device_hold(m->device, 0);
    return done;
}

static void
ask(const hp_link *link)
{
    member *m = &running->by_rank[link->self];
    running->belated |= m->asks == 0 && can_go_on(running->o, m);
    for (int i = 0; i < m->asks && i < SIM_RANKS_MAX; i++)
        running->repeated |= m->asked[i] == link;
    m->asked[m->asks++ % SIM_RANKS_MAX] = link;
}

/* --- arrays --- */

static int
make_buffers(buffers *b, hp_block *blocks, const sim_ring *o, int rank, int op)
{
    const hp_call *call = &o->call[op];
    size_t elem = elem_of(call), own = call->count * elem * (size_t)rank, larger;
    if (hp_kind_has_counts(call->kind)) {
        sim_blocks(blocks, call, rank, o->size);
        own = blocks[rank].at * elem;
    }
    b->send_bytes = sim_send_count(call, rank, o->size) * elem;
    b->recv_bytes = sim_recv_count(call, rank, o->size) * elem;
    b->one = o->in_place[op] && b->send_bytes && b->recv_bytes;
    larger = b->send_bytes > b->recv_bytes ? b->send_bytes : b->recv_bytes;
    b->bytes = (b->one ? larger : b->send_bytes + GUARD + b->recv_bytes) + (size_t)2 * GUARD;
    b->memory = malloc(b->bytes);
    b->before = malloc(b->bytes);
    if (!b->memory || !b->before)
        return 0;
    memset(b->memory, 0x5a, b->bytes);
    b->send = b->memory + GUARD;
    b->recv = b->one ? b->send : b->send + b->send_bytes + GUARD;
    if (b->one && b->recv_bytes > b->send_bytes)
        b->send += own;
    if (b->one && b->send_bytes > b->recv_bytes)
        b->recv += own;
    sim_fill(call, o->seed + (uint64_t)op, rank, o->size, b->send);
    memcpy(b->before, b->memory, b->bytes);
    return 1;
}

/* Nothing but recvbuf may have changed, and in it no gap. */
static int
rest_is_untouched(const buffers *b, const hp_call *call, int rank, int size)
{
    for (size_t i = 0; i < b->bytes; i++) {
        const uint8_t *at = b->memory + i;
        if (*at != b->before[i] && (!within(at, b->recv, b->recv_bytes) ||
                                    sim_is_gap(call, rank, size, (size_t)(at - b->recv) / elem_of(call))))
            return 0;
    }
    return 1;
}

/* --- works --- */

/* A fused allreduce: the vector as tensors of their own, some in place, far apart and in another order. */
static void
cut_segments(ring *r, hoop_work *w, hp_segment *segments, buffers *b)
{
    uint64_t at = 0, count = w->call.count;
    size_t elem = elem_of(&w->call);
    size_t side = b->send_bytes + (size_t)SEGMENTS * GUARD, place = side;
    w->segments = segments;
    w->segment_count = 1 + (size_t)draw(r, SEGMENTS);
    w->piece = (uint32_t)(draw(r, 8) * elem); /* some slices may be moved in pieces, some may not */
    b->pieces_bytes = 2 * side;
    b->pieces = calloc(2, side);
    b->pieces_before = malloc(2 * side);
    for (size_t k = 0; k < w->segment_count; k++) {
        uint64_t left = w->segment_count - k, n = left > 1 ? draw(r, 2 * (count - at) / left + 1) : count - at;
        place -= n * elem + GUARD;
        segments[k] = (hp_segment){at, n, b->pieces + place, b->pieces + (draw(r, 2) ? side : 0) + place};
        memcpy(b->pieces + place, b->send + at * elem, n * elem);
        at += n;
    }
    memcpy(b->pieces_before, b->pieces, 2 * side);
}

/* Nothing but the tensors' receiving sides may have changed. */
static int
rest_of_pieces_is_untouched(const hoop_work *w, const buffers *b)
{
    for (size_t i = 0; i < b->pieces_bytes; i++)
        if (b->pieces[i] != b->pieces_before[i] && !tensor_of(w, b->pieces + i))
            return 0;
    return 1;
}

/* The tensors of a finished fused operation, put together. */
static void
join_segments(const hoop_work *w, const buffers *b)
{
    for (size_t k = 0; k < w->segment_count && w->call.fused; k++)
        memcpy(b->recv + w->segments[k].begin * elem_of(&w->call), w->segments[k].recv,
               w->segments[k].count * elem_of(&w->call));
}

static void
make_work(ring *r, member *m, int op)
{
    const sim_ring *o = r->o;
    hoop_work *w = &m->work[op];
    hp_plan_options options = {.slice_bytes = o->slice_bytes, .slices = o->slices, .channels = 1};
    options.stage_bytes = o->stage_bytes;
    options.spread_bytes = o->spread_bytes;
    options.halves_bytes = o->halves_bytes;
    options.hosts = o->hosts ? &r->hosts : NULL;
    options.levels = 1;
    options.one_bytes = o->one_bytes;
    options.whole_bytes = o->whole_bytes;
    options.block_bytes = o->block_bytes;
    w->call = o->call[op];
    w->signature = hp_call_signature(&w->call);
    w->sequence = (uint64_t)op + 1;
    w->calls = 1;
    w->channels = w->channels_left = 1;
    w->place = (hp_place_options){.direct = o->device.addressable, .in_place = m->user[op].one};
    w->place.in_place &= !w->call.fused; /* as lib/group.c has it */
    hp_work_single(w, m->user[op].send, m->user[op].recv);
    if (w->call.fused)
        cut_segments(r, w, m->segment[op], &m->user[op]);
    hp_plan_make(&w->plan[0], &w->call, m->blocks[op], r->order, o->size, &options, 0, 1);
}

static int
make_member(ring *r, int position)
{
    const sim_ring *o = r->o;
    int rank = r->order[position];
    member *m = &r->by_rank[rank];
    sim_device_options device = o->device;
    hoop_error error;
    if (rank != o->faulty)
        device.refuse = device.stick = 0;
    m->device = sim_device_new(&device);
    hp_channel_options c = {.epoch = 3, .size = o->size, .position = position, .order = r->order, .window = o->window};
    c.slice_bytes = o->slice_bytes;
    c.stage_bytes = o->stage_bytes;
    c.stripes = o->stripes;
    c.device[0] = m->device;
    m->channel = hp_channel_new(&c, &error);
    for (int i = 0; i < o->ops; i++) {
        if (!make_buffers(&m->user[i], m->blocks[i], o, rank, i))
            return 0;
        make_work(r, m, i);
    }
    return m->channel != NULL;
}

static void
free_member(member *m, int ops)
{
    hp_channel_free(m->channel);
    sim_device_free(m->device);
    for (int i = 0; i < ops; i++) {
        free(m->user[i].memory);
        free(m->user[i].before);
        free(m->user[i].pieces);
        free(m->user[i].pieces_before);
    }
}

/* --- turns --- */

static int
start_next(const ring *r, int rank)
{
    member *m = &r->by_rank[rank];
    if (m->started == r->o->ops || (rank == r->o->absent && m->started == r->o->absent_from))
        return 0;
    hp_channel_append(m->channel, &m->work[m->started++]);
    return 1;
}

/* Every piece of slot memory is in exactly one place: on the stack of free_pieces, or with one step on the belt. */
static int
is_mislaid(const sim_ring *o, const hp_channel *c)
{
    uint64_t seen = 0;
    uint32_t held = 0;
    for (uint32_t i = 0; i < HP_WINDOW_MAX + c->free_pieces && c->free_pieces <= o->window; i++) {
        const hp_slot *slot = i < HP_WINDOW_MAX ? &c->slot[i] : NULL;
        const uint8_t *piece = !slot ? c->free_piece[i - HP_WINDOW_MAX] : slot->room ? NULL : slot->memory;
        size_t at = piece ? (size_t)(piece - c->memory) : 0, number = at / o->slice_bytes;
        if (!piece)
            continue;
        if (piece < c->memory || at % o->slice_bytes || number >= o->window || seen >> number & 1)
            return 1;
        seen |= UINT64_C(1) << number;
        held++;
    }
    return held != o->window;
}

/* The slots of a stage that steps hold are those that its operation counts, each once; the others are filled with rubbish. */
static int
rooms_are_mislaid(const hp_channel *c, const hp_slot *slot)
{
    const hp_plan *plan = &slot->work->plan[c->o.index];
    uint64_t held = 0;
    for (int i = 0; i < HP_WINDOW_MAX; i++) {
        uint64_t room = c->slot[i].work == slot->work ? c->slot[i].room : 0;
        if (room & held)
            return 1;
        held |= room;
    }
    for (int k = 0; k < plan->size; k++)
        if (!(held >> k & 1)) {
            uint64_t at = plan->slots + (uint64_t)k * plan->part;
            memset(slot->work->stage[c->o.index] + hp_plan_wire_bytes(plan, at), 0xde,
                   hp_plan_wire_bytes(plan, plan->part));
        }
    return held != slot->work->rooms[c->o.index] || (plan->size < 64 && held >> plan->size);
}

/* What has retired is free for any step: free slots and freed gather buffers are filled with rubbish. */
static void
spoil_free_memory(const sim_ring *o, member *m)
{
    hp_channel *c = m->channel;
    for (uint32_t i = 0; i < c->free_pieces; i++)
        memset(c->free_piece[i], 0xdc, o->slice_bytes);
    for (uint32_t i = m->spoilt; i < c->free_stages; i++)
        memset(c->free_stage[i], 0xdd, o->stage_bytes);
    m->spoilt = c->free_stages;
}

/* A queue wakes no driver for what it has reported: where nothing is new, a belt that has stopped must not move again. It has
 * stopped when no step got on and it has no news: then its driver may sleep. */
static int
look_again(member *m)
{
    sim_device_hold(m->device, 1);
    m->asks = 0;
    int moved = hp_channel_progress(m->channel);
    sim_device_hold(m->device, 0);
    return moved;
}

static int
progress(ring *r, int rank)
{
    member *m = &r->by_rank[rank];
    uint64_t before = hp_channel_passed(m->channel);
    m->asks = 0;
    int moved = hp_channel_progress(m->channel);
    int stopped = hp_channel_passed(m->channel) == before && !m->channel->more_done;
    if (r->o->device.on_ask && !r->o->net.on_ask && stopped)
        r->overlooked |= look_again(m);
    r->mislaid |= is_mislaid(r->o, m->channel);
    for (int i = 0; i < HP_WINDOW_MAX; i++)
        if (m->channel->slot[i].room)
            r->mislaid |= rooms_are_mislaid(m->channel, &m->channel->slot[i]);
    if (hp_channel_passed(m->channel) != before && !r->mislaid)
        spoil_free_memory(r->o, m);
    return moved;
}

static int
something(ring *r)
{
    int rank = (int)draw(r, (uint64_t)r->o->size);
    switch (draw(r, 8)) {
    case 0: return start_next(r, rank);
    case 1:
    case 2: return progress(r, rank);
    case 3: return sim_device_finish(r->by_rank[rank].channel->queue[0], draw(r, 4) ? 1 + draw(r, 3) : UINT64_MAX);
    default: return sim_net_move();
    }
}

static int
everybody(ring *r)
{
    int moved = 0;
    for (int rank = 0; rank < r->o->size; rank++) {
        moved |= start_next(r, rank);
        moved |= progress(r, rank);
        moved |= sim_device_finish(r->by_rank[rank].channel->queue[0], UINT64_MAX);
    }
    return moved | sim_net_flush();
}

static int
works_left(const ring *r)
{
    int left = 0;
    for (int rank = 0; rank < r->o->size; rank++)
        for (int i = 0; i < r->o->ops; i++)
            left += r->by_rank[rank].work[i].channels_left > 0;
    return left;
}

static void
turn(ring *r)
{
    int idle = 0;
    while (!sim_net_fault() && !r->mislaid && works_left(r)) {
        idle = something(r) ? 0 : idle + 1;
        if (idle < 20 * r->o->size)
            continue;
        if (!everybody(r) &&
            !everybody(r)) /* twice: a command that ends when it is asked about is reported the next time */
            return;
        idle = 0;
    }
}

/* --- the end --- */

static int
results_are_right(const ring *r, int rank, char *why, size_t why_size)
{
    const member *m = &r->by_rank[rank];
    for (int i = 0; i < r->o->ops; i++) {
        if (m->work[i].channels_left)
            continue;
        join_segments(&m->work[i], &m->user[i]);
        if (!sim_answer_is_right(&r->o->call[i], r->o->seed + (uint64_t)i, rank, r->o->size, m->user[i].recv, why,
                                 why_size))
            return 0;
        if (!rest_is_untouched(&m->user[i], &r->o->call[i], rank, r->o->size) ||
            !rest_of_pieces_is_untouched(&m->work[i], &m->user[i])) {
            snprintf(why, why_size, "rank %d: operation %d wrote outside recvbuf", rank, i + 1);
            return 0;
        }
    }
    return 1;
}

/* All ranks that have a result have the same bits. */
static int
results_are_identical(const ring *r, char *why, size_t why_size)
{
    for (int i = 0; i < r->o->ops; i++) {
        const member *first = NULL;
        for (int rank = 0; rank < r->o->size && r->o->call[i].kind == HP_ALLREDUCE; rank++) {
            const member *m = &r->by_rank[rank];
            if (m->work[i].channels_left)
                continue;
            if (first && memcmp(first->user[i].recv, m->user[i].recv, m->user[i].recv_bytes) != 0) {
                snprintf(why, why_size, "operation %d: rank %d has other bits", i + 1, rank);
                return 0;
            }
            first = first ? first : m;
        }
    }
    return 1;
}

static void
note_ends(const ring *r, sim_rank_end *ends)
{
    for (int rank = 0; rank < r->o->size; rank++) {
        const member *m = &r->by_rank[rank];
        ends[rank] =
            (sim_rank_end){.command_error = m->channel->command_error, .oldest = hp_channel_oldest(m->channel)};
        for (int i = 0; i < r->o->ops; i++)
            ends[rank].finished += m->work[i].channels_left == 0;
        ends[rank].oldest.work = NULL; /* gone when the caller looks */
    }
}

static sim_end
judge(const ring *r, char *why, size_t why_size)
{
    if (sim_net_fault()) {
        snprintf(why, why_size, "%s", sim_net_fault());
        return SIM_WRONG;
    }
    snprintf(why, why_size, "a piece of slot memory was lent twice, or got lost");
    if (r->mislaid)
        return SIM_WRONG;
    snprintf(why, why_size, "a belt asked what had arrived before it passed on what needs nothing");
    if (r->belated)
        return SIM_WRONG;
    snprintf(why, why_size, "a belt asked a link twice in one call");
    if (r->repeated)
        return SIM_WRONG;
    snprintf(why, why_size, "a belt stopped though it had been told of commands that let it move");
    if (r->overlooked)
        return SIM_WRONG;
    for (int rank = 0; rank < r->o->size; rank++)
        if (!results_are_right(r, rank, why, why_size))
            return SIM_WRONG;
    if (!results_are_identical(r, why, why_size))
        return SIM_WRONG;
    snprintf(why, why_size, "%d works are left", works_left(r));
    return works_left(r) ? SIM_LOCKED : SIM_RIGHT;
}

static void
mix_order(ring *r)
{
    for (int i = 0; i < r->o->size; i++) {
        int j = (int)draw(r, (uint64_t)i + 1);
        r->order[i] = r->order[j];
        r->order[j] = i;
    }
}

static void
place_ranks(ring *r)
{
    uint64_t host[SIM_RANKS_MAX];
    for (int p = 0; p < r->o->size && r->o->hosts; p++) {
        r->host_of[r->order[p]] = hp_host_map_seat(r->o->hosts, p).host;
        host[p] = (uint64_t)r->host_of[r->order[p]];
    }
    r->hosts.first = r->first;
    if (r->o->hosts)
        hp_host_map_fill(&r->hosts, host, r->order, r->o->size);
    sim_answer_hosts(r->o->hosts ? r->host_of : NULL);
}

sim_end
sim_ring_run(const sim_ring *o, sim_rank_end ends[SIM_RANKS_MAX], char *why, size_t why_size)
{
    ring r = {.o = o, .random = o->seed, .by_rank = calloc((size_t)o->size, sizeof(member))};
    sim_net_options net = o->net;
    sim_end end = SIM_WRONG;
    int made = 1;
    net.spoil = spoil;
    net.ask = ask;
    net.seed = o->seed ^ UINT64_C(0x51713);
    running = &r;
    sim_net_begin(&net);
    mix_order(&r);
    place_ranks(&r);
    for (int p = 0; p < o->size; p++)
        made &= make_member(&r, p);
    snprintf(why, why_size, "out of memory");
    if (made) {
        turn(&r);
        end = judge(&r, why, why_size);
        note_ends(&r, ends);
    }
    for (int rank = 0; rank < o->size; rank++)
        free_member(&r.by_rank[rank], o->ops);
    sim_net_end();
    if (sim_net_fault() && end != SIM_WRONG) {
        snprintf(why, why_size, "%s", sim_net_fault());
        end = SIM_WRONG;
    }
    sim_answer_hosts(NULL);
    free(r.by_rank);
    return end;
}
