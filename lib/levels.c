/* SPDX-License-Identifier: MIT */
/*
 * levels: an allreduce over H hosts. The vector goes in blocks, a block in one part for each owner: the first K ranks of
 * each host own a part each, or the first rank owns all. Four phases:
 *
 *     GIVE   within the host each rank sends each owner its elements of that owner's part, and the owner sums them;
 *     MEET   owners of one part, one on each host, exchange these sums, and sum them: the whole part; or, if it is split,
 *            each the share that belongs to its host;
 *     SHARE  if it is split they hand each other their shares;
 *     HAND   within the host each owner sends its part to all other ranks.
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
 * rounded, too, so that all ranks get the same bits. Within a host elements travel as they are.
 */
#include "lib/levels.h"

enum { GIVE, MEET, SHARE, HAND }; /* the phases */

typedef struct stretch {
    uint64_t at, count;
} stretch;

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
    uint64_t turn = plan->loops == 1 ? 0 : block % 3;
    rooms r = {.given = turn * plan->area, .sum = turn * plan->packed_area};
    r.loads = r.given + (uint64_t)plan->hosts->most * plan->part;
    r.results = r.loads + (uint64_t)plan->owners * plan->part;
    r.met = r.sum + plan->part;
    r.shared = r.met + (uint64_t)plan->hosts->count * plan->share;
    return r;
}

static stretch
cut(stretch whole, uint64_t parts, uint64_t k, uint32_t grain)
{
    if (parts == 1) /* mostly: a division costs more than the rest */
        return whole;
    uint64_t at = hp_cut(whole.count, parts, k, grain);
    return (stretch){whole.at + at, hp_cut(whole.count, parts, k + 1, grain) - at};
}

/* Owner k's part of a block, by its place in the vector. */
static stretch
part_of(const hp_plan *plan, uint64_t block, int k)
{
    stretch all = cut((stretch){plan->begin, plan->count}, plan->loops, block, plan->grain);
    return cut(all, (uint64_t)plan->owners, (uint64_t)k, plan->grain);
}

/* What of that part a host sums. */
static stretch
share_of(const hp_plan *plan, uint64_t block, int k, int host)
{
    stretch part = part_of(plan, block, k);
    return plan->split ? cut(part, (uint64_t)plan->hosts->count, (uint64_t)host, plan->grain) : part;
}

/* The place of a part's elements in a room of its kind: `base` is the room of part 0. */
static uint64_t
placed(const hp_plan *plan, uint64_t base, uint64_t block, int k, stretch s)
{
    return base + (uint64_t)k * plan->part + (s.at - part_of(plan, block, k).at);
}

static int
further(int from, int d, int n)
{
    return (from + d + n) % n;
}

static hp_step
send(const hp_plan *plan, hp_seat me, int phase, int d, uint64_t block, hp_step step)
{
    rooms room = rooms_of(plan, block);
    int within = phase == GIVE || phase == HAND;
    int to = within ? further(me.local, d, me.ranks) : further(me.host, d, plan->hosts->count);
    int here = plan->hosts->first[me.host] + me.local;
    stretch s;
    if ((within && d >= me.ranks) || (phase == GIVE ? to : me.local) >= plan->owners)
        return step;
    step.flags |= HP_STEP_SEND;
    step.to = further(plan->hosts->first[within ? me.host : to] + (within ? to : me.local), -here, plan->size);
    step.send_first = block == 0;
    switch (phase) {
    case GIVE:
        step.flags |= HP_STEP_LOAD;
        s = part_of(plan, block, to);
        step.stage_send = placed(plan, room.loads, block, to, s);
        break;
    case MEET:
        s = share_of(plan, block, me.local, to);
        step.stage_send = room.sum + s.at - part_of(plan, block, me.local).at;
        break;
    case SHARE:
        s = share_of(plan, block, me.local, me.host);
        step.stage_send = plan->narrow ? room.shared + s.at - part_of(plan, block, me.local).at
                                       : placed(plan, room.results, block, me.local, s);
        step.send_first = 0;
        break;
    default:
        s = part_of(plan, block, me.local);
        step.stage_send = placed(plan, room.results, block, me.local, s);
        step.send_first &= to >= plan->owners; /* an owner has had its part of this rank's elements before */
        break;
    }
    if (phase == SHARE || phase == HAND)
        step.flags |= HP_STEP_WHOLE;
    step.in = s.at;
    step.send_count = s.count;
    return step;
}

/* The sum that the last step of a phase makes. */
static hp_step
sum(const hp_plan *plan, hp_seat me, int phase, uint64_t block, hp_step step)
{
    rooms room = rooms_of(plan, block);
    stretch part = part_of(plan, block, me.local), share = share_of(plan, block, me.local, me.host);
    step.flags |= HP_STEP_REDUCE;
    if (phase == GIVE) {
        step.own = (hp_own){part.at, part.at, part.count};
        step.members = me.ranks;
        step.self = me.local;
        step.stage_into = room.given;
        step.stage_packed = room.sum;
        return step;
    }
    step.flags |= HP_STEP_DIVIDE;
    step.own = (hp_own){room.sum + share.at - part.at, share.at, share.count};
    step.members = plan->hosts->count;
    step.self = me.host;
    step.stage_into = room.met;
    step.stage_sum = placed(plan, room.results, block, me.local, share);
    step.stage_packed = room.shared + share.at - part.at;
    return step;
}

static hp_step
receive(const hp_plan *plan, hp_seat me, int phase, int d, uint64_t block, hp_step step)
{
    rooms room = rooms_of(plan, block);
    int within = phase == GIVE || phase == HAND;
    int from = within ? further(me.local, -(d % me.ranks), me.ranks) : further(me.host, -d, plan->hosts->count);
    int here = plan->hosts->first[me.host] + me.local;
    stretch s;
    if ((within && d >= me.ranks) || (phase == HAND ? from : me.local) >= plan->owners)
        return step;
    step.flags |= HP_STEP_RECV;
    step.from = further(here - plan->hosts->first[within ? me.host : from], -(within ? from : me.local), plan->size);
    step.recv_first = block == 0;
    switch (phase) {
    case GIVE:
        s = part_of(plan, block, me.local);
        step.stage_recv = room.given + (uint64_t)from * plan->part;
        break;
    case MEET:
        s = share_of(plan, block, me.local, me.host);
        step.stage_recv = room.met + (uint64_t)from * plan->share;
        break;
    case SHARE:
        s = share_of(plan, block, me.local, from);
        step.stage_sum = placed(plan, room.results, block, me.local, s);
        step.stage_recv = plan->narrow ? room.shared + s.at - part_of(plan, block, me.local).at : step.stage_sum;
        step.recv_first = 0;
        break;
    default:
        s = part_of(plan, block, from);
        step.stage_recv = placed(plan, room.results, block, from, s);
        step.recv_first &= me.local >= plan->owners;
        break;
    }
    if (phase == SHARE || phase == HAND)
        step.flags |= HP_STEP_COPY;
    step.out = s.at;
    step.recv_count = s.count;
    return step;
}

hp_step
hp_levels_step(const hp_plan *plan, int position, uint64_t i)
{
    hp_seat me = hp_host_map_seat(plan->hosts, position);
    uint32_t j = (uint32_t)(i % plan->slices), number = 0;
    int phase = GIVE, most = plan->hosts->most - 1;
    for (; j >= (uint32_t)most; number++) {
        j -= (uint32_t)most;
        phase += phase == MEET && !plan->split ? 2 : 1;
        most = phase == HAND ? plan->hosts->most - 1 : plan->hosts->count - 1;
    }
    int d = (int)j + 1;
    hp_step step = {.flags = HP_STEP_STAGED};
    if (phase == MEET || (phase == SHARE && plan->narrow))
        step.flags |= HP_STEP_PACKED;
    if (plan->exchanges && (phase == MEET || phase == SHARE))
        step.flags |= HP_STEP_EXCHANGE;
    uint64_t sent = i / plan->slices - number, received = sent - 1; /* blocks; below 0 they wrap round, and are none */
    if (sent < plan->loops)
        step = send(plan, me, phase, d, sent, step);
    if (received < plan->loops)
        step = receive(plan, me, phase, d, received, step);
    if (received < plan->loops && d == most && me.local < plan->owners && phase <= MEET)
        step = sum(plan, me, phase, received, step);
    return step;
}
