/* SPDX-License-Identifier: MIT */
/* slot: see slot.h. */
#include "lib/slot.h"

#include "base/dtype.h"

#include <string.h>

enum { FOLD_PIECE = 2048 }; /* elements; whole blocks of HP_SCALED */

/* There is a piece for every step in the window: one of the channel, or for the all-pairs one of the operation's stage. */
static uint8_t *
memory(hp_channel *channel, hp_slot *slot)
{
    int c = channel->o.index;
    const hp_plan *plan = &slot->work->plan[c];
    if (!slot->memory && plan->algorithm == HP_ALG_ALLPAIRS) {
        uint64_t *taken = &slot->work->rooms[c];
        slot->room = ~*taken & (*taken + 1); /* the first one that is free */
        *taken |= slot->room;
        uint64_t at = plan->slots + (uint64_t)__builtin_ctzll(slot->room) * plan->part;
        slot->memory = slot->work->stage[c] + hp_plan_wire_bytes(plan, at);
    } else if (!slot->memory) {
        slot->memory = channel->free_piece[--channel->free_pieces];
    }
    return slot->memory;
}

void
hp_slot_free(hp_channel *channel, hp_slot *slot)
{
    if (slot->room)
        slot->work->rooms[channel->o.index] &= ~slot->room;
    else if (slot->memory)
        channel->free_piece[channel->free_pieces++] = slot->memory;
    slot->memory = NULL;
    slot->room = 0;
}

uint8_t *
hp_slot_address(hp_channel *channel, hp_slot *slot, hp_spot spot, uint64_t *run)
{
    hoop_work *work = slot->work;
    const hp_plan *plan = &work->plan[channel->o.index];
    switch (spot.where) {
    case HP_SLOT: return memory(channel, slot) + hp_plan_wire_bytes(plan, spot.at);
    case HP_STAGE: return work->stage[channel->o.index] + plan->packed + hp_plan_wire_bytes(plan, spot.at);
    case HP_PLAIN: return work->stage[channel->o.index] + spot.at * plan->elem;
    case HP_SENDBUF: return hp_work_at(work, HP_SIDE_SEND, spot.at, run);
    case HP_RECVBUF: return hp_work_at(work, HP_SIDE_RECV, spot.at, run);
    case HP_RESIDUAL: return (uint8_t *)(work->residual + spot.at);
    default: return NULL;
    }
}

hp_queue *
hp_slot_queue(const hp_channel *channel, const hp_slot *slot)
{
    return channel->queue[slot->work->device];
}

static void
submit(hp_channel *channel, hp_slot *slot, const hp_command *command)
{
    hp_queue *queue = hp_slot_queue(channel, slot);
    slot->command_mark = queue->ops->submit(queue, command);
    if (slot->command_mark == 0) {
        slot->failed = 1;
        channel->command_error = HOOP_ERR_CUDA;
    }
}

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether what travels is a mean, over more and more ranks; else it is divided at the end if at all. */
static int
is_mean(const hoop_work *work)
{
    return work->call.op == HOOP_AVG && hp_narrow_index((hoop_dtype)work->call.dtype) >= 0;
}

static hp_operand
operand_at(hp_channel *channel, hp_slot *slot, hp_spot spot, uint64_t at, uint64_t *count)
{
    uint64_t run = UINT64_MAX;
    spot.at += at;
    int wide = slot->work->plan[channel->o.index].wide; /* then the command's wire type is the array's */
    hp_operand operand = {.ptr = hp_slot_address(channel, slot, spot, &run), .wire = hp_is_packed(spot.where) != wide};
    *count = least(*count, run);
    return operand;
}

static uint64_t
at_once(const hoop_work *work)
{
    return work->device == 0 ? FOLD_PIECE : UINT64_MAX;
}

/*
 * A piece of a copy from or to a fused group's tensors, a block of which lies in several of them: its elements pass through
 * the room for sums. Returns how many there are.
 */
static uint64_t
gather_blocks(hp_channel *channel, hp_slot *slot, const hp_task *task, uint64_t at)
{
    const hp_plan *plan = &slot->work->plan[channel->o.index];
    uint64_t count = least(task->count - at, at_once(slot->work)), run = UINT64_MAX;
    int leaves = task->dst[0].where == HP_RECVBUF;
    hp_command convert = {.elem = HOOP_FLOAT32, .wire = plan->wire, .sources = 1, .destinations = 1}, move = convert;
    hp_operand room = {.ptr = hp_slot_address(channel, slot, (hp_spot){HP_STAGE, plan->sums}, &run)};
    hp_operand blocks = operand_at(channel, slot, leaves ? task->src[0] : task->dst[0], at, &run);
    convert.count = (size_t)count;
    convert.src[0] = leaves ? blocks : room;
    convert.dst[0] = leaves ? room : blocks;
    if (leaves)
        submit(channel, slot, &convert);
    for (uint64_t moved = 0; moved < count && !slot->failed; moved += run) {
        run = count - moved;
        hp_operand tensor = operand_at(channel, slot, leaves ? task->dst[0] : task->src[0], at + moved, &run);
        hp_operand part = {.ptr = (float *)room.ptr + moved};
        move.count = (size_t)run;
        move.src[0] = leaves ? part : tensor;
        move.dst[0] = leaves ? tensor : part;
        submit(channel, slot, &move);
    }
    if (!leaves && !slot->failed)
        submit(channel, slot, &convert);
    return count;
}

static int
has_blocks(const hp_plan *plan, const hp_task *task)
{
    return plan->wire == HP_SCALED && (hp_is_packed(task->src[0].where) || hp_is_packed(task->dst[0].where));
}

/*
 * A task becomes one command, or one for each piece of a fused group's tensors that it covers. Pieces of blocks are whole
 * blocks.
 */
static void
run_task(hp_channel *channel, hp_slot *slot, const hp_task *task)
{
    const hoop_work *work = slot->work;
    const hp_plan *plan = &work->plan[channel->o.index];
    /* the only rank's bools are combined with themselves: x or x, whatever the call's operation is */
    hoop_op op = plan->normalize ? HOOP_MAX : (hoop_op)work->call.op;
    hoop_dtype dtype = (hoop_dtype)work->call.dtype;
    int widens = plan->wide && (task->src[0].where == HP_STAGE || task->dst[0].where == HP_STAGE);
    hp_command command = {.elem = widens ? HOOP_FLOAT32 : dtype,
                          .wire = plan->wide ? dtype : plan->wire,
                          .op = op,
                          .exchange = task->exchange};
    command.remainder = task->remainder;
    command.sources = task->sources;
    command.destinations = task->destinations;
    if (is_mean(work) && task->sources == 2)
        memcpy(command.ranks, task->ranks, sizeof(command.ranks));
    else if (task->divide && command.op == HOOP_AVG)
        command.divisor = (uint32_t)channel->o.size;
    for (uint64_t at = 0, count; at < task->count && !slot->failed; at += count) {
        count = task->count - at;
        for (int i = 0; i < task->sources; i++)
            command.src[i] = operand_at(channel, slot, task->src[i], at, &count);
        for (int i = 0; i < task->destinations; i++)
            command.dst[i] = operand_at(channel, slot, task->dst[i], at, &count);
        if (has_blocks(plan, task) && count < task->count - at)
            count -= count % HP_SCALED_BLOCK;
        if (count == 0) {
            count = gather_blocks(channel, slot, task, at);
            continue;
        }
        command.count = (size_t)count;
        submit(channel, slot, &command);
    }
}

/*
 * The q-th operand of a sum: this rank's own vector, or one that has come. Numbers are ring positions or, in rank order,
 * ranks; over the levels those of ranks in a host, or of hosts.
 */
static hp_operand
vector(hp_channel *channel, hp_slot *slot, const hp_fold *f, int q, uint64_t at, hp_operand own)
{
    int n = channel->o.size, number = f->numbers ? f->numbers[q] : q;
    uint64_t run = UINT64_MAX;
    while (!f->members && f->ordered && channel->o.order[number] != q)
        number = (number + 1) % n;
    if (!f->members)
        number = (channel->o.position - number + n) % n;
    if (number == f->self)
        return own;
    hp_spot spot = {f->where, f->vectors + (uint64_t)number * f->stride};
    return operand_at(channel, slot, spot, at, &run);
}

/* Where the sum is made until it is whole. A wide one has the room of a vector that has come. */
static hp_operand
sum_at(hp_channel *channel, hp_slot *slot, const hp_fold *f, uint64_t at, hp_operand own, hp_operand dst)
{
    const hp_plan *plan = &slot->work->plan[channel->o.index];
    uint64_t run = UINT64_MAX;
    hp_operand sum = dst;
    if (plan->wide && f->divide)
        sum = vector(channel, slot, f, f->numbers[0] == f->self, at, own);
    else if (plan->narrow || (f->ordered && !f->members))
        sum = operand_at(channel, slot, (hp_spot){HP_STAGE, f->sums}, 0, &run);
    sum.wire = 0;
    return sum;
}

/* Of how many ranks the q-th operand holds the data. */
static uint32_t
ranks_in(const hp_plan *plan, const hp_fold *f, int q)
{
    const hp_host_map *hosts = plan->hosts;
    return f->members && f->divide ? (uint32_t)(hosts->first[q + 1] - hosts->first[q]) : 1;
}

/*
 * Rounds a sum to dst[0] in the stage, and adds what that has taken away to the residual. The residual was added to the
 * elements of a sum of all ranks; to that of a host it is added here.
 */
static void
round_off(hp_channel *channel, hp_slot *slot, const hp_fold *f, uint64_t at, hp_command command, hp_operand sum)
{
    uint64_t run = UINT64_MAX;
    hp_operand residual = operand_at(channel, slot, f->residual, at, &run);
    command.sources = 1;
    command.destinations = 2;
    command.remainder = 1;
    command.divisor = f->divide && command.op == HOOP_AVG ? (uint32_t)channel->o.size : 0;
    command.src[0] = command.dst[1] = sum;
    if (!f->divide) {
        command.sources = 2;
        command.src[1] = command.dst[1] = residual;
    }
    submit(channel, slot, &command);
    if (!f->divide || slot->failed)
        return;
    command.remainder = 0;
    command.divisor = 0;
    command.destinations = 1;
    command.sources = 2;
    command.src[0] = command.dst[0] = residual;
    command.src[1] = sum;
    submit(channel, slot, &command);
}

/* A piece of a narrow sum, from dst[1] to dst[2] if there is one, and from the last of the two to dst[0]. */
static void
hand_on(hp_channel *channel, hp_slot *slot, const hp_fold *f, uint64_t at, uint64_t count)
{
    hp_spot from = f->dst[1];
    for (int k = f->destinations == 3 ? 2 : 0; k >= 0; k -= 2) {
        hp_task copy = {.sources = 1, .destinations = 1, .src = {from}, .dst = {f->dst[k]}, .count = count};
        from = f->dst[k];
        copy.src[0].at += at;
        copy.dst[0].at += at;
        run_task(channel, slot, &copy);
    }
}

/*
 * All n vectors, one after the other, so that every rank computes the same bits. On the host piece by piece: a sum stays
 * in the nearest cache until it is whole. A result that is rounded for all ranks goes to the stage, then from there to
 * recvbuf.
 */
static void
fold(hp_channel *channel, hp_slot *slot, const hp_fold *f)
{
    const hoop_work *work = slot->work;
    const hp_plan *plan = &work->plan[channel->o.index];
    hoop_dtype dtype = (hoop_dtype)work->call.dtype;
    int hands_on = plan->narrow && f->destinations > 1, destinations = hands_on ? 1 : f->destinations;
    int n = f->members ? f->members : channel->o.size, widens = f->ordered && hp_narrow_index(dtype) >= 0,
        weighs = !f->ordered && is_mean(work);
    for (uint64_t at = 0, count; at < f->count && !slot->failed; at += count) {
        hp_command command = {.elem = widens ? HOOP_FLOAT32 : dtype,
                              .wire = plan->wide ? dtype : plan->wire,
                              .op = (hoop_op)work->call.op};
        hp_operand dst[2] = {{0}}, sum, own;
        count = least(f->count - at, at_once(work));
        for (int k = 0; k < destinations; k++)
            dst[k] = operand_at(channel, slot, f->dst[hands_on + k], at, &count);
        own = operand_at(channel, slot, f->own, at, &count);
        sum = sum_at(channel, slot, f, at, own, dst[0]);
        if (widens && !f->members)
            dst[0].wire = dst[1].wire = own.wire = 1;
        command.count = (size_t)count;
        command.sources = 2;
        command.ranks[0] = 0;
        for (int q = 1; q < n && !slot->failed; q++) {
            int last = q == n - 1 && f->residual.where == HP_NOWHERE;
            command.src[0] = q == 1 ? vector(channel, slot, f, 0, at, own) : sum;
            command.src[1] = vector(channel, slot, f, q, at, own);
            command.dst[0] = last ? dst[0] : sum;
            command.dst[1] = dst[1];
            command.destinations = last ? destinations : 1;
            command.divisor = last && f->divide && command.op == HOOP_AVG && !weighs ? (uint32_t)channel->o.size : 0;
            if (weighs) {
                command.ranks[0] += ranks_in(plan, f, q - 1);
                command.ranks[1] = ranks_in(plan, f, q);
            }
            submit(channel, slot, &command);
        }
        command.dst[0] = dst[0];
        if (f->residual.where != HP_NOWHERE && !slot->failed)
            round_off(channel, slot, f, at, command, sum);
        if (hands_on && !slot->failed)
            hand_on(channel, slot, f, at, count);
    }
}

/* The gathered parts of the halves, which lie in the stage backwards from this rank's own, into recvbuf. */
static void
unfold(hp_channel *channel, hp_slot *slot)
{
    const hp_plan *plan = &slot->work->plan[channel->o.index];
    uint64_t n = (uint64_t)channel->o.size, r = (uint64_t)channel->o.position;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = (r + n - i) % n * plan->part, left = at < plan->count ? plan->count - at : 0;
        hp_task task = {.sources = 1, .destinations = 1, .count = least(left, plan->part)};
        task.src[0] = (hp_spot){HP_STAGE, (2 * n - 1 + i) * plan->part};
        task.dst[0] = (hp_spot){HP_RECVBUF, at};
        run_task(channel, slot, &task);
    }
}

void
hp_slot_work(hp_channel *channel, hp_slot *slot)
{
    for (int i = 0; i < slot->place.tasks; i++) {
        const hp_task *task = &slot->place.task[i];
        if (task->sources == 2 && is_mean(slot->work)) {
            /* a mean's operands are weighted by the ranks whose data they hold: a task for each piece of one number */
            const hp_plan *plan = &slot->work->plan[channel->o.index];
            hp_task piece;
            for (uint64_t at = 0; at < task->count; at += piece.count) {
                piece = hp_place_piece(plan, &slot->step, task, at);
                run_task(channel, slot, &piece);
            }
        } else {
            run_task(channel, slot, task);
        }
    }
    if (slot->place.fold.count > 0)
        fold(channel, slot, &slot->place.fold);
    if (slot->place.unfold)
        unfold(channel, slot);
}
