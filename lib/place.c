/* SPDX-License-Identifier: MIT */
/*
 * place: see place.h.
 *
 *     step                received into, command, sent from                     the same where the host can address memory
 *     send                -, in -> slot [out], slot                         -, [in -> out], in
 *     recvReduceSend      slot, slot op in -> slot, slot                    slot, slot op in -> slot, slot
 *     recvReduceCopySend  slot, slot op in -> slot out, slot                slot, slot op in -> out, out
 *     recvCopySend        slot, slot -> out, slot (at once)                 out, -, out (at once)
 *     recvSend            slot, -, slot (at once)                           slot, -, slot (at once)
 *     recv                slot, slot -> out, -                              out, -, -
 *     exchange            slot, slot <-> in = out (or two copies), slot     out, -, in
 *
 * An alltoall in place never goes direct: what arrives may overwrite a block only after that block was saved in a slot.
 */
#include "lib/place.h"

static void
add(hp_placement *p, hp_task task)
{
    if (task.count > 0)
        p->task[p->tasks++] = task;
}

static hp_task
copy(hp_spot from, hp_spot to, uint64_t count)
{
    return (hp_task){.sources = 1, .destinations = 1, .src = {from}, .dst = {to}, .count = count};
}

/* Of what travels in a narrower type. With a residual the value is the element and what was taken from it before. */
static hp_task
narrowed(uint64_t in, hp_spot to, uint64_t count, const hp_place_options *o)
{
    hp_task task = copy((hp_spot){HP_SENDBUF, in}, to, count);
    if (o->residual) {
        task.sources = task.destinations = 2;
        task.src[1] = task.dst[1] = (hp_spot){HP_RESIDUAL, in};
        task.remainder = 1;
    }
    return task;
}

static const hp_spot slot = {HP_SLOT, 0};

static hp_spot
in_at(const hp_step *step)
{
    return (hp_spot){HP_SENDBUF, step->in};
}

static hp_spot
out_at(const hp_step *step)
{
    return (hp_spot){HP_RECVBUF, step->out};
}

/* Halves: everything happens in the stage; the vector enters rotated, in two pieces, and leaves part by part. */
static hp_placement
place_halves(const hp_plan *plan, const hp_step *step)
{
    hp_placement p = {0};
    hp_spot vector = {HP_STAGE, 0}, start = {HP_SENDBUF, 0};
    hp_spot wrapped = {HP_STAGE, step->stage_into};
    if (step->flags & HP_STEP_LOAD) {
        add(&p, copy(in_at(step), vector, plan->count - step->in));
        add(&p, copy(start, wrapped, step->in));
    }
    if (step->recv_count > 0)
        p.recv = (hp_spot){HP_STAGE, step->stage_recv};
    if (step->send_count > 0)
        p.send = (hp_spot){HP_STAGE, step->stage_send};
    if (step->flags & HP_STEP_REDUCE) {
        hp_task task = {.sources = 2, .destinations = 1, .src = {p.recv, vector}, .count = step->recv_count};
        task.dst[0] = (hp_spot){HP_STAGE, step->stage_into};
        task.divide = (step->flags & HP_STEP_DIVIDE) != 0;
        add(&p, task);
    }
    p.forward = !(step->flags & (HP_STEP_REDUCE | HP_STEP_LOAD));
    p.unfold = (step->flags & HP_STEP_GATHERED) != 0;
    return p;
}

/* The sum at an area of the stage; the first is the rank's own vector, which stays where it is if it can. */
static hp_spot
sum_at(uint64_t area, const hp_place_options *o)
{
    return area == 0 && o->direct ? (hp_spot){HP_SENDBUF, 0} : (hp_spot){HP_STAGE, area};
}

static hp_placement
place_doubling(const hp_plan *plan, const hp_step *step, const hp_place_options *o)
{
    hp_placement p = {.forward = 1};
    if ((step->flags & HP_STEP_LOAD) && !o->direct) {
        add(&p, copy((hp_spot){HP_SENDBUF, 0}, (hp_spot){HP_STAGE, 0}, plan->count));
        p.forward = 0;
    }
    if (step->send_count > 0)
        p.send = sum_at(step->stage_send, o);
    if (step->recv_count > 0) {
        hp_spot came = {HP_STAGE, step->stage_recv}, had = sum_at(step->stage_recv - plan->count, o);
        int left = (step->flags & HP_STEP_LEFT) != 0, last = (step->flags & HP_STEP_COPY) != 0;
        hp_task task = {.sources = 2, .destinations = 1, .divide = last, .count = plan->count};
        task.ranks[0] = task.ranks[1] = step->came;
        task.src[0] = left ? came : had;
        task.src[1] = left ? had : came;
        task.dst[0] = last ? (hp_spot){HP_RECVBUF, 0} : came;
        add(&p, task);
        p.recv = came;
        p.forward = 0;
        p.settled = last && o->direct;
    }
    return p;
}

static hp_placement
place_staged(const hp_plan *plan, const hp_step *step)
{
    hp_placement p = {.forward = 1};
    hp_spot stage = {HP_STAGE, 0};
    if (step->flags & HP_STEP_SEND)
        p.send = stage;
    if (step->flags & HP_STEP_RECV)
        p.recv = (hp_spot){HP_STAGE, step->stage_recv};
    if (step->flags & HP_STEP_LOAD) {
        add(&p, copy(in_at(step), stage, plan->count));
        p.forward = 0;
    }
    if (step->flags & HP_STEP_REDUCE)
        p.fold = (hp_fold){.count = plan->count,
                           .own = stage,
                           .dst = {{HP_RECVBUF, 0}},
                           .destinations = 1,
                           .ordered = plan->ordered,
                           .divide = 1,
                           .where = HP_STAGE,
                           .stride = plan->count,
                           .sums = plan->sums};
    return p;
}

/*
 * What is sent, received and summed. What is given and results pass a slot where the host cannot address the user's memory, or
 * where they are converted: a result leaves the step's slot before what is given comes in.
 */
static hp_placement
place_allpairs(const hp_plan *plan, const hp_step *step, const hp_place_options *o)
{
    hp_placement p = {.forward = 1, .send = {HP_STAGE, step->stage_send}, .recv = {HP_STAGE, step->stage_recv}};
    int loads = (step->flags & HP_STEP_LOAD) != 0, copies = (step->flags & HP_STEP_COPY) != 0;
    int narrow = plan->narrow, direct = o->direct && !narrow; /* what is copied is converted, too */
    int sums = (step->flags & HP_STEP_REDUCE) != 0, passes = direct && plan->kind == HP_ALLREDUCE;
    if (loads)
        p.send = direct ? in_at(step) : slot;
    else if (passes)
        p.send = out_at(step);
    if (copies && !sums)
        p.recv = direct ? out_at(step) : slot;
    if (copies && !sums && !direct)
        add(&p, copy(p.recv, out_at(step), step->recv_count));
    if (loads && !direct)
        add(&p, narrow ? narrowed(step->in, p.send, step->send_count, o) : copy(in_at(step), p.send, step->send_count));
    p.forward = p.tasks == 0 && !sums;
    p.held = sums;
    if (!sums)
        return p;
    p.fold = (hp_fold){.count = step->own.count,
                       .own = {HP_SENDBUF, step->own.in},
                       .ordered = plan->ordered,
                       .divide = 1,
                       .where = HP_STAGE,
                       .vectors = step->stage_sum,
                       .stride = plan->part,
                       .sums = plan->sums};
    if (copies)
        p.fold.dst[p.fold.destinations++] = (hp_spot){HP_RECVBUF, step->own.out};
    if (narrow) { /* the own elements are rounded as all others are, so that the bits depend on the values alone */
        p.fold.own = (hp_spot){HP_STAGE, step->stage_into};
        add(&p, narrowed(step->own.in, p.fold.own, step->own.count, o));
    }
    if (!passes && (plan->kind == HP_ALLREDUCE || (plan->kind == HP_REDUCE && !copies)))
        p.fold.dst[p.fold.destinations++] = (hp_spot){HP_STAGE, step->stage_into};
    if (narrow && o->residual && plan->kind == HP_ALLREDUCE)
        p.fold.residual = (hp_spot){HP_RESIDUAL, step->own.in};
    return p;
}

/*
 * The sum of this host's ranks goes to the stage, that of the hosts to recvbuf, or to both where it is sent from there. What
 * is narrow goes to recvbuf by way of the stage: a fused group's tensors, which end anywhere, would cut its blocks. So the
 * own elements lie there, too.
 */
static void
place_levels_sum(hp_placement *p, const hp_plan *plan, const hp_step *step, const hp_place_options *o)
{
    int between = (step->flags & HP_STEP_DIVIDE) != 0, narrow = plan->narrow, sent = plan->kind != HP_REDUCE_SCATTER;
    hp_spot own = {between ? HP_STAGE : HP_SENDBUF, step->own.in}, packed = {HP_STAGE, step->stage_packed};
    hp_fold fold = {.count = step->own.count, .own = own, .divide = between, .sums = plan->sums};
    fold.where = between ? HP_STAGE : HP_PLAIN;
    fold.vectors = step->stage_into;
    fold.stride = between ? plan->share : plan->part;
    fold.members = step->members;
    fold.self = step->self;
    fold.numbers = step->numbers;
    fold.ordered = plan->ordered;
    if (between)
        fold.dst[fold.destinations++] = (hp_spot){HP_RECVBUF, step->own.out};
    if (!between || (sent && narrow && plan->split))
        fold.dst[fold.destinations++] = packed;
    if (between && sent && (!o->direct || (narrow && !plan->split)))
        fold.dst[fold.destinations++] = (hp_spot){HP_PLAIN, step->stage_sum};
    if (narrow && o->residual && (!between || (sent && plan->split)))
        fold.residual = (hp_spot){HP_RESIDUAL, step->own.out};
    p->held = 1;
    if (step->members == 1) {
        add(p, narrow ? narrowed(step->own.in, packed, fold.count, o) : copy(own, packed, fold.count));
        return;
    }
    if (narrow && !between) {
        fold.own = (hp_spot){HP_PLAIN, fold.vectors + (uint64_t)fold.self * fold.stride};
        add(p, copy(own, fold.own, fold.count));
    }
    p->fold = fold;
}

/* An allgather: this rank's elements go where the others' come, and the later steps send them from there. */
static void
place_levels_own(hp_placement *p, const hp_step *step, const hp_place_options *o)
{
    hp_task task = {.sources = 1, .src = {{HP_SENDBUF, step->own.in}}, .count = step->own.count};
    if (!o->in_place)
        task.dst[task.destinations++] = (hp_spot){HP_RECVBUF, step->own.out};
    if (!o->direct)
        task.dst[task.destinations++] = p->send;
    if (task.destinations > 0)
        add(p, task);
    p->held = 1;
}

/* Received or loaded as in the all-pairs; what is complete is sent from recvbuf if it can be. */
static hp_placement
place_levels(const hp_plan *plan, const hp_step *step, const hp_place_options *o)
{
    hp_where where = step->flags & HP_STEP_PACKED ? HP_STAGE : HP_PLAIN;
    hp_placement p = {.send = {where, step->stage_send}, .recv = {where, step->stage_recv}};
    int loads = (step->flags & HP_STEP_LOAD) != 0, copies = (step->flags & HP_STEP_COPY) != 0;
    int converts = plan->narrow && where == HP_STAGE, direct = o->direct && !converts;
    hp_spot plain = p.recv;
    if (loads && direct)
        p.send = in_at(step);
    else if ((step->flags & HP_STEP_WHOLE) && direct)
        p.send = (hp_spot){HP_RECVBUF, step->in};
    if (copies && direct)
        p.recv = out_at(step);
    if (copies && converts && !o->direct) {
        plain = (hp_spot){HP_PLAIN, step->stage_sum};
        add(&p, copy(p.recv, plain, step->recv_count));
    }
    if (copies && !direct)
        add(&p, copy(plain, out_at(step), step->recv_count));
    if (loads && !direct)
        add(&p, copy(in_at(step), p.send, step->send_count));
    if (step->flags & HP_STEP_OWN)
        place_levels_own(&p, step, o);
    if (step->flags & HP_STEP_REDUCE)
        place_levels_sum(&p, plan, step, o);
    p.held |= copies && converts; /* the last phase hands on what was converted */
    p.forward = p.tasks == 0 && p.fold.count == 0;
    return p;
}

/* Data that starts here: out of sendbuf, to the next rank and perhaps to recvbuf. */
static void
place_load(hp_placement *p, const hp_step *step, const hp_place_options *o, int direct)
{
    hp_task task = copy(in_at(step), slot, step->send_count);
    int keep = (step->flags & HP_STEP_COPY) != 0 && !o->in_place;
    if (direct) {
        p->send = in_at(step);
        if (keep)
            add(p, copy(in_at(step), out_at(step), step->send_count));
        return;
    }
    p->send = slot;
    if (keep)
        task.dst[task.destinations++] = out_at(step);
    add(p, task);
}

static void
place_reduce(hp_placement *p, const hp_step *step, const hp_place_options *o)
{
    hp_task task = {.sources = 2, .src = {slot, in_at(step)}, .ranks = {step->came, step->had}};
    int sends = (step->flags & HP_STEP_SEND) != 0, copies = (step->flags & HP_STEP_COPY) != 0;
    int through_out = sends && copies && o->direct;
    task.count = step->recv_count;
    p->recv = slot;
    if (sends)
        p->send = through_out ? out_at(step) : slot;
    if (sends && !through_out)
        task.dst[task.destinations++] = slot;
    if (copies)
        task.dst[task.destinations++] = out_at(step);
    task.divide = (step->flags & HP_STEP_DIVIDE) != 0;
    add(p, task);
}

/* Alltoall: one block arrives while another leaves. */
static void
place_exchange(hp_placement *p, const hp_step *step, const hp_place_options *o, int direct)
{
    hp_task swap = {
        .sources = 2, .destinations = 2, .exchange = 1, .src = {slot, in_at(step)}, .count = step->recv_count};
    p->recv = direct ? out_at(step) : slot;
    p->send = direct ? in_at(step) : slot;
    if (direct)
        return;
    if (o->in_place && step->in == step->out) {
        swap.dst[0] = slot;
        swap.dst[1] = out_at(step);
        add(p, swap);
        return;
    }
    add(p, copy(slot, out_at(step), step->recv_count));
    add(p, copy(in_at(step), slot, step->send_count));
}

/* Part i of what is received goes to part i of the vector; at its sender it was s(round) further. */
static void
ranks_of_part(const hp_plan *plan, const hp_step *step, uint64_t part, uint32_t ranks[2])
{
    ranks[0] = hp_halves_ranks(plan->size, step->round - 1, part + (uint64_t)step->from);
    ranks[1] = hp_halves_ranks(plan->size, step->round - 1, part);
}

hp_task
hp_place_piece(const hp_plan *plan, const hp_step *step, const hp_task *task, uint64_t at)
{
    hp_task piece = *task;
    uint64_t end = at;
    uint32_t ranks[2];
    for (int k = 0; k < 2; k++) {
        piece.src[k].at += at;
        piece.dst[k].at += at;
    }
    piece.count -= at;
    if (plan->algorithm != HP_ALG_HALVES)
        return piece;
    ranks_of_part(plan, step, at / plan->part, piece.ranks);
    do {
        end += plan->part;
        ranks_of_part(plan, step, end / plan->part, ranks);
    } while (end < task->count && ranks[0] == piece.ranks[0] && ranks[1] == piece.ranks[1]);
    piece.count = end - at;
    return piece;
}

/* This rank's own elements. A bool becomes 0 or 1 by a reduction with itself, which slot.c knows to be x or x. */
static hp_task
own(const hp_plan *plan, const hp_step *step)
{
    hp_task task = copy((hp_spot){HP_SENDBUF, step->own.in}, (hp_spot){HP_RECVBUF, step->own.out}, step->own.count);
    if (plan->normalize) {
        task.sources = 2;
        task.src[1] = task.src[0];
    }
    return task;
}

hp_placement
hp_place(const hp_plan *plan, const hp_step *step, const hp_place_options *o)
{
    hp_placement p = {0};
    int direct = o->direct && !(plan->algorithm == HP_ALG_PAIRWISE && o->in_place);
    int receives = (step->flags & HP_STEP_RECV) && step->recv_count > 0, loads = (step->flags & HP_STEP_LOAD) != 0;
    if (plan->algorithm == HP_ALG_HALVES)
        return place_halves(plan, step);
    if (plan->algorithm == HP_ALG_DOUBLING)
        return place_doubling(plan, step, o);
    if (plan->algorithm == HP_ALG_ALLPAIRS)
        return place_allpairs(plan, step, o);
    if (plan->algorithm == HP_ALG_LEVELS)
        return place_levels(plan, step, o);
    if (step->flags & HP_STEP_STAGED)
        return place_staged(plan, step);
    if (receives && loads)
        place_exchange(&p, step, o, direct);
    else if (loads)
        place_load(&p, step, o, direct);
    else if (receives && (step->flags & HP_STEP_REDUCE))
        place_reduce(&p, step, o);
    else if (receives) {
        int copies = (step->flags & HP_STEP_COPY) != 0;
        p.recv = copies && direct ? out_at(step) : slot;
        p.forward = 1;
        if (step->flags & HP_STEP_SEND)
            p.send = p.recv;
        if (copies && !direct)
            add(&p, copy(slot, out_at(step), step->recv_count));
    }
    if ((step->flags & HP_STEP_OWN) && (plan->normalize || !o->in_place))
        add(&p, own(plan, step));
    return p;
}
