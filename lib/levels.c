/* SPDX-License-Identifier: MIT */
/*
 * levels: an allreduce, a reduce_scatter or an allgather over H hosts. The vector goes in blocks, a block in one part for
 * each owner: the first K ranks of each host own a part each, or the first rank owns all. Four phases:
 *
 *     GIVE   within the host each rank sends each owner its elements of that owner's part, and the owner sums them;
 *     MEET   owners of one part, one on each host, exchange these sums, and sum them: the whole part; or, if it is split,
 *            each the share that belongs to its host;
 *     SHARE  if it is split they hand each other their shares;
 *     HAND   within the host each owner sends its part to all other ranks.
 *
 * A reduce_scatter has the first two phases, an allgather the last two, if each host has L ranks. Rank k of each host owns
 * part k, which has a share for each host: of what belongs to rank k there. These shares lie far apart in the array, so within
 * a host a part travels share by share.
 *
 * A rank has a step for each distance of each phase: the peer is d places further, in its host or among the hosts, where
 * both count modulo their number. A smaller host has no peer at the larger distances, and ranks that own nothing have only
 * the first phase and the last. S is the number of these steps, and row m consists of them:
 *
 *     step (phase p, distance d) of row m   SEND what phase p of block m - p sends;   RECV what the row before has sent
 *
 * so that a phase has received all of block m - 1 - p when the next one, in the same row, sends what came of it. The last
 * step of GIVE, and of MEET, sums. With a window of S + 1 steps three blocks have rooms in the stage: when a room is used
 * again, three rows later, the steps that had used it have retired.
 *
 * What is narrow is so between hosts: an owner rounds its host's sum, and then its share of the whole one. Its own copies are
 * rounded, too, so that all ranks get the same bits. Within a host elements travel as they are. In the order of hosts the sums
 * of small floats meet as float32, which is wide; the whole sum is rounded once.
 */
#include "lib/levels.h"

enum { GIVE, MEET, SHARE, HAND }; /* the phases */

typedef struct stretch {
    uint64_t at, count; /* in the vector; of arrays with a block for each rank in the one that has all, */
    uint64_t own;       /* and in the one that has this rank's */
    uint64_t room;      /* from the beginning of its part's room in the stage */
} stretch;

/* Where a step is in its row. */
typedef struct turn {
    int phase, d, last; /* last: of this phase, and of this piece */
    int piece, first;   /* the piece of a part that it moves, and whether no other was before */
    uint64_t block;     /* what phase moves in this row */
} turn;

/* Where a block's rooms begin in the stage. The last three are in the wire's type. */
typedef struct rooms {
    uint64_t given;          /* a part from each rank of the host, */
    uint64_t loads, results; /* the vector and the result, where the host cannot address the user's memory */
    uint64_t sum;            /* the sum of the host's parts, */
    uint64_t met;            /* a share from each host, */
    uint64_t shared;         /* and the whole sums as they travel, if they are narrow */
} rooms;

static rooms
rooms_of(const hp_plan *plan, uint64_t block)
{
    uint64_t third = plan->loops == 1 ? 0 : block % 3;
    rooms r = {.given = third * plan->area, .sum = third * plan->packed_area};
    r.loads = r.given + (uint64_t)plan->hosts->most * plan->part;
    r.results = plan->kind == HP_ALLGATHER ? r.given : r.loads + (uint64_t)plan->owners * plan->part;
    r.met = r.sum + plan->part;
    r.shared = r.met + (uint64_t)plan->hosts->count * plan->share;
    return r;
}

static stretch
cut(stretch whole, uint64_t parts, uint64_t k, uint32_t grain)
{
    if (parts == 1) /* mostly: a division costs more than the rest */
        return whole;
    uint64_t at = hp_cut(whole.count, parts, k, grain), count = hp_cut(whole.count, parts, k + 1, grain) - at;
    return (stretch){whole.at + at, count, whole.own + at, whole.room + at};
}

static stretch
block_of(const hp_plan *plan, uint64_t block)
{
    return cut((stretch){plan->begin, plan->count, plan->begin, 0}, plan->loops, block, plan->grain);
}

/* Owner k's part of a block. */
static stretch
part_of(const hp_plan *plan, uint64_t block, int k)
{
    stretch part = cut(block_of(plan, block), (uint64_t)plan->owners, (uint64_t)k, plan->grain);
    part.room = 0;
    return part;
}

/* What of that part a host sums, or has. */
static stretch
share_of(const hp_plan *plan, const int *order, uint64_t block, int k, int host)
{
    if (plan->pieces > 1) { /* of the block of rank k on that host */
        stretch its = block_of(plan, block);
        its.at += (uint64_t)order[plan->hosts->first[host] + k] * plan->block;
        its.room = (uint64_t)host * plan->share;
        return its;
    }
    stretch part = part_of(plan, block, k);
    return plan->split ? cut(part, (uint64_t)plan->hosts->count, (uint64_t)host, plan->grain) : part;
}

/* What of it travels within a host in one step. */
static stretch
piece_of(const hp_plan *plan, const int *order, turn t, int k)
{
    return plan->pieces > 1 ? share_of(plan, order, t.block, k, t.piece) : part_of(plan, t.block, k);
}

static int
further(int from, int d, int n)
{
    return (from + d + n) % n;
}

static int
is_within(int phase)
{
    return phase == GIVE || phase == HAND;
}

static hp_step
send(const hp_plan *plan, const int *order, hp_seat me, turn t, hp_step step)
{
    rooms room = rooms_of(plan, t.block);
    int within = is_within(t.phase), first = t.block == 0 && t.first;
    int to = within ? further(me.local, t.d, me.ranks) : further(me.host, t.d, plan->hosts->count);
    int here = plan->hosts->first[me.host] + me.local;
    uint64_t results = room.results + (uint64_t)me.local * plan->part;
    stretch s;
    if ((within && t.d >= me.ranks) || (t.phase == GIVE ? to : me.local) >= plan->owners)
        return step;
    step.flags |= HP_STEP_SEND;
    step.to = further(plan->hosts->first[within ? me.host : to] + (within ? to : me.local), -here, plan->size);
    switch (t.phase) {
    case GIVE:
        step.flags |= HP_STEP_LOAD;
        s = piece_of(plan, order, t, to);
        step.stage_send = room.loads + (uint64_t)to * plan->part + s.room;
        break;
    case MEET:
        s = share_of(plan, order, t.block, me.local, to);
        step.stage_send = room.sum + s.room;
        break;
    case SHARE:
        s = share_of(plan, order, t.block, me.local, me.host);
        step.stage_send = (plan->narrow ? room.shared : results) + s.room;
        first &= plan->kind == HP_ALLGATHER; /* else they have met */
        break;
    default:
        s = piece_of(plan, order, t, me.local);
        step.stage_send = results + s.room;
        first &= to >= plan->owners || plan->kind == HP_ALLGATHER; /* else this rank has given the owner its elements */
        break;
    }
    if (t.phase == SHARE || t.phase == HAND)
        step.flags |= HP_STEP_WHOLE;
    if (plan->kind == HP_ALLGATHER && t.phase == SHARE && t.d == 1) {
        step.flags |= HP_STEP_OWN;
        step.own = (hp_own){s.own, s.at, s.count};
    }
    step.send_first = (uint8_t)first;
    step.in = s.at;
    step.send_count = s.count;
    return step;
}

/* The sum that the last step of a phase makes. */
static hp_step
sum(const hp_plan *plan, const int *order, hp_seat me, turn t, hp_step step)
{
    rooms room = rooms_of(plan, t.block);
    stretch s =
        t.phase == GIVE ? piece_of(plan, order, t, me.local) : share_of(plan, order, t.block, me.local, me.host);
    step.flags |= HP_STEP_REDUCE;
    if (t.phase == GIVE) {
        step.own = (hp_own){s.at, s.at, s.count};
        step.members = me.ranks;
        step.self = me.local;
        step.numbers = plan->ordered ? plan->hosts->by_rank + plan->hosts->first[me.host] : NULL;
        step.stage_into = room.given + s.room;
        step.stage_packed = room.sum + s.room;
        return step;
    }
    step.flags |= HP_STEP_DIVIDE;
    step.own = (hp_own){room.sum + s.room, s.own, s.count};
    step.members = plan->hosts->count;
    step.self = me.host;
    step.numbers = plan->ordered ? plan->hosts->hosts : NULL;
    step.stage_into = room.met;
    if (plan->kind == HP_REDUCE_SCATTER) /* nobody else wants it */
        return step;
    step.stage_sum = room.results + (uint64_t)me.local * plan->part + s.room;
    step.stage_packed = room.shared + s.room;
    return step;
}

static hp_step
receive(const hp_plan *plan, const int *order, hp_seat me, turn t, hp_step step)
{
    rooms room = rooms_of(plan, t.block);
    int within = is_within(t.phase), first = t.block == 0 && t.first;
    int from = within ? further(me.local, -(t.d % me.ranks), me.ranks) : further(me.host, -t.d, plan->hosts->count);
    int here = plan->hosts->first[me.host] + me.local;
    stretch s;
    if ((within && t.d >= me.ranks) || (t.phase == HAND ? from : me.local) >= plan->owners)
        return step;
    step.flags |= HP_STEP_RECV;
    step.from = further(here - plan->hosts->first[within ? me.host : from], -(within ? from : me.local), plan->size);
    switch (t.phase) {
    case GIVE:
        s = piece_of(plan, order, t, me.local);
        step.stage_recv = room.given + (uint64_t)from * plan->part + s.room;
        break;
    case MEET:
        s = share_of(plan, order, t.block, me.local, me.host);
        step.stage_recv = room.met + (uint64_t)from * plan->share;
        break;
    case SHARE:
        s = share_of(plan, order, t.block, me.local, from);
        step.stage_sum = room.results + (uint64_t)me.local * plan->part + s.room;
        step.stage_recv = plan->narrow ? room.shared + s.room : step.stage_sum;
        first &= plan->kind == HP_ALLGATHER;
        break;
    default:
        s = piece_of(plan, order, t, from);
        step.stage_recv = room.results + (uint64_t)from * plan->part + s.room;
        first &= me.local >= plan->owners || plan->kind == HP_ALLGATHER;
        break;
    }
    if (t.phase == SHARE || t.phase == HAND)
        step.flags |= HP_STEP_COPY;
    step.recv_first = (uint8_t)first;
    step.out = s.at;
    step.recv_count = s.count;
    return step;
}

/* Which phase, peer and piece step j of a row is for; the block is counted from the row's number, `row`. */
static turn
turn_of(const hp_plan *plan, uint64_t row, uint32_t j)
{
    turn t = {.phase = plan->kind == HP_ALLGATHER ? SHARE : GIVE, .block = row};
    uint32_t within = (uint32_t)(plan->hosts->most - 1), between = (uint32_t)(plan->hosts->count - 1), steps;
    for (;; t.block--) {
        steps = is_within(t.phase) ? within * (uint32_t)plan->pieces : between;
        if (j < steps)
            break;
        j -= steps;
        t.phase += t.phase == MEET && !plan->split ? 2 : 1;
    }
    steps = is_within(t.phase) ? within : between;
    t.d = (int)(j % steps) + 1;
    t.last = t.d == (int)steps;
    t.first = j < steps;
    t.piece = (int)(j / steps) % plan->pieces;
    return t;
}

hp_step
hp_levels_step(const hp_plan *plan, const int *order, int position, uint64_t i)
{
    hp_seat me = hp_host_map_seat(plan->hosts, position);
    turn t = turn_of(plan, i / plan->slices, (uint32_t)(i % plan->slices));
    hp_step step = {.flags = HP_STEP_STAGED};
    if (t.phase == MEET || (t.phase == SHARE && plan->narrow))
        step.flags |= HP_STEP_PACKED;
    if (plan->exchanges && !is_within(t.phase))
        step.flags |= HP_STEP_EXCHANGE;
    if (t.block < plan->loops) /* blocks below 0 wrap round, and are none */
        step = send(plan, order, me, t, step);
    t.block--;
    if (t.block >= plan->loops)
        return step;
    step = receive(plan, order, me, t, step);
    if (t.last && me.local < plan->owners && t.phase <= MEET)
        step = sum(plan, order, me, t, step);
    return step;
}
