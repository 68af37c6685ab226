/* SPDX-License-Identifier: MIT */
/*
 * symbol: see symbol.h. Per rank a belt of five counters, a queue of commands that finish in order at any time, and per
 * distance a wire that takes symbols from the sender's memory and puts them into the receiver's one by one at any time
 * between post and end. A posted target is spoiled at once, since a step that still needs what lay there is too late; only
 * in place a target may be posted while it is input, because what arrives there cannot come before the input has gone.
 */
#include "t/sim/symbol.h"

#include "base/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_MAX = 64 };

typedef struct message {
    sym *data;
    uint64_t count, step; /* step: the receiver's number */
    uint64_t moved;       /* tokens: one for the header, one for each symbol */
} message;

/* From one rank over one distance. */
typedef struct wire {
    message out[WINDOW_MAX], in[WINDOW_MAX];
    uint64_t out_posted, out_done, in_posted, in_done;
    sym *held;
    uint64_t put, got; /* tokens that entered and left `held` */
} wire;

typedef struct command {
    sym *src[2], *dst[2];
    hp_task task;
} command;

typedef struct slot {
    hp_step step;
    hp_placement place;
    uint64_t number, command_mark, recv_mark, send_mark;
    wire *recv_wire, *send_wire;
    sym *memory;
} slot;

typedef struct rank {
    int position;
    sym_arrays user;
    slot slot[WINDOW_MAX];
    hp_plan plan;                /* the world's, with this rank's blocks */
    sym *memory, *plain, *stage; /* plain: what the levels have in the stage before the rest */
    uint64_t admitted, received, worked, sent, retired;
    command *commands;
    uint64_t submitted, done;
    wire **wires; /* that begin here and are in use */
    int wire_count;
} rank;

typedef struct world {
    const sym_case *c;
    hp_plan plan;
    rank *ranks;  /* by position */
    wire **wires; /* [from position][distance] */
    uint64_t random;
    uint64_t slot_count, plain_count, stage_count, command_room;
    char *why;
    size_t why_size;
    int broken;
} world;

static uint64_t
draw(world *w, uint64_t below)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (w->random >> 33) % below;
}

static void
broken(world *w, const rank *r, const char *what, uint64_t step)
{
    if (!w->broken)
        snprintf(w->why, w->why_size, "position %d, step %ju: %s", r->position, (uintmax_t)step, what);
    w->broken = 1;
}

static slot *
slot_of(rank *r, uint64_t i)
{
    return &r->slot[i % WINDOW_MAX];
}

static wire *
wire_at(world *w, int position, int distance)
{
    int n = w->c->size;
    wire **at = &w->wires[(size_t)position * (size_t)n + (size_t)distance];
    if (!*at) {
        *at = calloc(1, sizeof(**at));
        (*at)->held = calloc(w->c->wire + 1, sizeof(sym));
        w->ranks[position].wires[w->ranks[position].wire_count++] = *at;
    }
    return *at;
}

/* --- memory --- */

/* The address of `count` symbols at a spot; the end must lie within the array. */
static sym *
address(world *w, rank *r, slot *s, hp_spot spot, uint64_t count)
{
    sym *base = NULL;
    uint64_t room = 0;
    switch (spot.where) {
    case HP_SLOT: base = s->memory, room = w->slot_count; break;
    case HP_STAGE: base = r->stage, room = w->stage_count; break;
    case HP_PLAIN: base = r->plain, room = w->plain_count; break;
    case HP_SENDBUF: base = r->user.send, room = r->user.send_count; break;
    case HP_RECVBUF: base = r->user.recv, room = r->user.recv_count; break;
    default: break;
    }
    if (count > 0 && (!base || spot.at > room || count > room - spot.at)) {
        broken(w, r, base ? "past the end of a buffer" : "bytes that live nowhere", s->number);
        return NULL;
    }
    return base ? base + spot.at : NULL;
}

/* --- commands --- */

static void
run_command(const command *j)
{
    for (uint64_t i = 0; i < j->task.count; i++) {
        sym a = j->src[0][i], b = j->task.sources == 2 ? j->src[1][i] : (sym){0};
        if (j->task.exchange) {
            j->dst[0][i] = b;
            j->dst[1][i] = a;
            continue;
        }
        if (j->task.sources == 2)
            a.order = sym_order(a, b);
        if (j->task.sources == 2)
            a.misjudged += b.misjudged + (a.terms != j->task.ranks[0] || b.terms != j->task.ranks[1]);
        a.hash += b.hash;
        a.terms += b.terms;
        a.divided += b.divided + (uint32_t)j->task.divide;
        for (int k = 0; k < j->task.destinations; k++)
            j->dst[k][i] = a;
    }
}

static void
submit(world *w, rank *r, slot *s, const hp_task *task)
{
    command *j = &r->commands[r->submitted % w->command_room];
    j->task = *task;
    for (int k = 0; k < task->sources; k++)
        j->src[k] = address(w, r, s, task->src[k], task->count);
    for (int k = 0; k < task->destinations; k++)
        j->dst[k] = address(w, r, s, task->dst[k], task->count);
    if (w->broken || task->count == 0)
        return;
    s->command_mark = ++r->submitted;
    if (w->c->early_commands)
        run_command(j);
}

/* As for a mean, whose operands weigh as many ranks as they are of: sums piece by piece, all else at once. */
static void
submit_pieces(world *w, rank *r, slot *s, const hp_task *task)
{
    int sums = task->sources == 2 && !task->exchange;
    hp_task piece = *task;
    for (uint64_t at = 0; at < task->count && !w->broken; at += piece.count) {
        if (sums)
            piece = hp_place_piece(&w->plan, &s->step, task, at);
        if (piece.count == 0 || piece.count > task->count - at)
            broken(w, r, "a task's pieces are not the task", s->number);
        submit(w, r, s, &piece);
    }
}

/* The q-th operand of what place.h calls a fold. */
static hp_spot
operand(const world *w, const rank *r, const hp_fold *f, int q)
{
    int n = w->c->size, position = q, number = f->numbers ? f->numbers[q] : q;
    if (f->members)
        return number == f->self ? f->own : (hp_spot){f->where, f->vectors + (uint64_t)number * f->stride};
    for (int p = 0; p < n && f->ordered; p++)
        position = w->c->order[p] == q ? p : position;
    int distance = (r->position - position + n) % n;
    return distance ? (hp_spot){HP_STAGE, f->vectors + (uint64_t)distance * f->stride} : f->own;
}

/* Of how many ranks it holds the data. */
static uint32_t
ranks_in(const world *w, const hp_fold *f, int q)
{
    int host = f->numbers ? f->numbers[q] : q;
    return f->members && f->divide ? (uint32_t)(w->plan.hosts->first[host + 1] - w->plan.hosts->first[host]) : 1;
}

/* Where the sum is until it is whole. */
static hp_spot
sum_at(const world *w, const rank *r, const hp_fold *f)
{
    if (w->plan.wide && f->divide)
        return operand(w, r, f, f->numbers[0] == f->self);
    if (w->plan.narrow || (f->ordered && !f->members))
        return (hp_spot){HP_STAGE, f->sums};
    return f->dst[0];
}

/* As place.h says of a fold. */
static void
submit_fold(world *w, rank *r, slot *s)
{
    const hp_fold *f = &s->place.fold;
    int n = f->members ? f->members : w->c->size, hands_on = w->plan.narrow && f->destinations > 1;
    hp_spot sum = sum_at(w, r, f);
    hp_task task = {.sources = 2, .destinations = 1, .count = f->count, .dst = {sum}};
    for (int q = 1; q < n; q++) {
        task.ranks[0] += ranks_in(w, f, q - 1);
        task.ranks[1] = ranks_in(w, f, q);
        task.src[0] = q == 1 ? operand(w, r, f, 0) : sum;
        task.src[1] = operand(w, r, f, q);
        if (q == n - 1) {
            task.divide = f->divide;
            task.destinations = hands_on ? 1 : f->destinations;
            task.dst[0] = f->dst[hands_on];
            task.dst[1] = f->dst[1];
        }
        submit(w, r, s, &task);
    }
    hp_spot from = f->dst[1];
    for (int k = f->destinations == 3 ? 2 : 0; k >= 0 && hands_on; k -= 2) {
        submit(w, r, s,
               &(hp_task){.sources = 1, .destinations = 1, .src = {from}, .dst = {f->dst[k]}, .count = f->count});
        from = f->dst[k];
    }
}

/* As place.h says of the halves' end: the gathered parts, which lie backwards from the own one, into recvbuf. */
static void
submit_unfold(world *w, rank *r, slot *s)
{
    uint64_t n = (uint64_t)w->c->size, part = w->plan.part, count = w->plan.count;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = ((uint64_t)r->position + n - i) % n * part, left = at < count ? count - at : 0;
        hp_task task = {.sources = 1, .destinations = 1, .count = left < part ? left : part};
        task.src[0] = (hp_spot){HP_STAGE, (2 * n - 1 + i) * part};
        task.dst[0] = (hp_spot){HP_RECVBUF, at};
        submit(w, r, s, &task);
    }
}

static int
finish_command(world *w, rank *r)
{
    if (r->done == r->submitted)
        return 0;
    if (!w->c->early_commands)
        run_command(&r->commands[r->done % w->command_room]);
    r->done++;
    return 1;
}

/* --- wires --- */

static uint64_t
post(message *ring, uint64_t *posted, sym *data, uint64_t count, uint64_t step)
{
    ring[*posted % WINDOW_MAX] = (message){.data = data, .count = count, .step = step};
    return ++*posted;
}

static message *
head_of(message *ring, uint64_t posted, uint64_t done)
{
    return done < posted ? &ring[done % WINDOW_MAX] : NULL;
}

/* Both sides' idea of the message, compared when its header arrives. */
static int
agree(const world *w, const message *out, const message *in)
{
    return out->step + w->plan.slices == in->step && out->count == in->count;
}

static void
step_on(message *m, uint64_t *done)
{
    if (++m->moved > m->count)
        ++*done;
}

/* Nothing is held: a token goes from memory to memory. */
static int
pass(world *w, wire *x)
{
    message *out = head_of(x->out, x->out_posted, x->out_done), *in = head_of(x->in, x->in_posted, x->in_done);
    if (!out || !in)
        return 0;
    if (!agree(w, out, in))
        broken(w, w->ranks, "the two sides of a link disagree", in->step);
    else if (out->moved > 0)
        in->data[in->moved - 1] = out->data[out->moved - 1];
    step_on(out, &x->out_done);
    step_on(in, &x->in_done);
    return 1;
}

static int
take(world *w, wire *x)
{
    message *out = head_of(x->out, x->out_posted, x->out_done);
    if (!out || x->put - x->got == w->c->wire)
        return 0;
    sym token = {.hash = out->step, .terms = (uint32_t)out->count};
    x->held[x->put++ % w->c->wire] = out->moved ? out->data[out->moved - 1] : token;
    step_on(out, &x->out_done);
    return 1;
}

static int
give(world *w, wire *x)
{
    message *in = head_of(x->in, x->in_posted, x->in_done);
    if (!in || x->put == x->got)
        return 0;
    sym token = x->held[x->got++ % w->c->wire];
    if (in->moved > 0)
        in->data[in->moved - 1] = token;
    else if (token.hash + w->plan.slices != in->step || token.terms != (uint32_t)in->count)
        broken(w, w->ranks, "the two sides of a link disagree", in->step);
    step_on(in, &x->in_done);
    return 1;
}

static int
move_wire(world *w, wire *x, uint64_t tokens)
{
    int moved = 0, now = 1;
    for (uint64_t k = 0; k < tokens && now && !w->broken; k++) {
        if (w->c->wire == 0)
            now = pass(w, x);
        else if (!w->c->seed)
            now = take(w, x) | give(w, x);
        else
            now = draw(w, 2) ? take(w, x) || give(w, x) : give(w, x) || take(w, x);
        moved |= now;
    }
    return moved;
}

/* --- the belt's stations --- */

static void
post_receive(world *w, rank *r, slot *s)
{
    int n = w->c->size;
    uint64_t count = s->step.recv_count;
    sym *data = address(w, r, s, s->place.recv, count);
    s->recv_wire = wire_at(w, (r->position - s->step.from + n) % n, s->step.from);
    int spoil = data && (s->place.recv.where != HP_RECVBUF || !w->c->place.in_place);
    for (uint64_t i = 0; spoil && i < count; i++)
        data[i] = (sym){.hash = UINT64_C(0xbad0bad), .terms = 777, .divided = 7};
    s->recv_mark = post(s->recv_wire->in, &s->recv_wire->in_posted, data, count, s->number);
}

static uint32_t
window_of(const world *w)
{
    return w->plan.window ? w->plan.window : w->c->window;
}

static int
admit(world *w, rank *r)
{
    slot *s = slot_of(r, r->admitted);
    if (r->admitted == w->plan.steps || r->admitted - r->retired == window_of(w))
        return 0;
    memset(s, 0, sizeof(*s));
    s->memory = r->memory + r->admitted % window_of(w) * w->slot_count;
    s->number = r->admitted;
    s->step = hp_schedule_at(&r->plan, w->c->order, r->position, r->admitted);
    s->place = hp_place(&r->plan, &s->step, &w->c->place);
    if (s->step.flags & HP_STEP_RECV)
        post_receive(w, r, s);
    r->admitted++;
    return 1;
}

static int
receive(world *w, rank *r)
{
    (void)w;
    const slot *s = slot_of(r, r->received);
    if (r->received == r->admitted || (s->recv_mark && s->recv_wire->in_done < s->recv_mark))
        return 0;
    r->received++;
    return 1;
}

static int
work(world *w, rank *r)
{
    slot *s = slot_of(r, r->worked);
    if (r->worked == r->received || r->submitted - r->done + (uint64_t)w->c->size + HP_TASKS > w->command_room)
        return 0;
    if (s->place.settled && r->retired < r->worked)
        return 0;
    for (int i = 0; i < s->place.tasks; i++)
        submit_pieces(w, r, s, &s->place.task[i]);
    if (s->place.fold.count > 0)
        submit_fold(w, r, s);
    if (s->place.unfold)
        submit_unfold(w, r, s);
    r->worked++;
    return 1;
}

static int
jobs_done(const rank *r, const slot *s)
{
    return r->done >= s->command_mark;
}

static int
send_on(world *w, rank *r)
{
    slot *s = slot_of(r, r->sent);
    int sends = s->step.flags & HP_STEP_SEND;
    if (r->sent == r->worked || (((sends && !s->place.forward) || s->place.held) && !jobs_done(r, s)))
        return 0;
    if (sends) {
        sym *data = address(w, r, s, s->place.send, s->step.send_count);
        s->send_wire = wire_at(w, r->position, s->step.to);
        s->send_mark = post(s->send_wire->out, &s->send_wire->out_posted, data, s->step.send_count, s->number);
    }
    r->sent++;
    return 1;
}

static int
retire(world *w, rank *r)
{
    (void)w;
    const slot *s = slot_of(r, r->retired);
    if (r->retired == r->sent || !jobs_done(r, s) || (s->send_mark && s->send_wire->out_done < s->send_mark))
        return 0;
    r->retired++;
    return 1;
}

/* --- which rank moves next --- */

typedef int station(world *w, rank *r);
static station *const stations[] = {admit, receive, work, finish_command, send_on, retire};
enum { STATIONS = sizeof(stations) / sizeof(*stations) };

/* Everybody once, as far as it goes. */
static int
sweep(world *w)
{
    int n = w->c->size, moved = 0;
    for (int p = 0; p < n && !w->broken; p++) {
        for (int k = 0; k < STATIONS; k++)
            while (!w->broken && stations[k](w, &w->ranks[p]))
                moved = 1;
        for (int k = 0; k < w->ranks[p].wire_count; k++)
            moved |= move_wire(w, w->ranks[p].wires[k], UINT64_MAX);
    }
    return moved;
}

static int
something(world *w)
{
    int n = w->c->size, p = (int)draw(w, (uint64_t)n), k = (int)draw(w, STATIONS + 3);
    rank *r = &w->ranks[p];
    if (k < STATIONS)
        return stations[k](w, r);
    return r->wire_count ? move_wire(w, r->wires[draw(w, (uint64_t)r->wire_count)], 1 + draw(w, 4)) : 0;
}

static int
finished(const world *w)
{
    for (int p = 0; p < w->c->size; p++)
        if (w->ranks[p].retired < w->plan.steps)
            return 0;
    return 1;
}

static void
run(world *w)
{
    int idle = 0;
    while (!w->broken) {
        int moved = w->c->seed ? something(w) : sweep(w);
        idle = moved ? 0 : idle + 1;
        if (idle < (w->c->seed ? 200 * w->c->size : 1))
            continue;
        if (finished(w))
            return;
        if (w->c->seed && sweep(w))
            idle = 0;
        else
            broken(w, w->ranks, "deadlock", w->ranks->retired);
    }
}

/* --- making --- */

static void
open_rank(world *w, rank *r, int position)
{
    r->position = position;
    r->plan = w->plan;
    r->plan.blocks = r->user.blocks;
    r->admitted = r->received = r->worked = r->sent = r->retired = r->submitted = r->done = 0;
    r->wire_count = 0;
    r->wires = calloc((size_t)w->c->size, sizeof(*r->wires));
    r->memory = calloc(window_of(w) * w->slot_count + 1, sizeof(sym));
    r->plain = calloc(w->plain_count + 1, sizeof(sym));
    r->stage = calloc(w->stage_count + 1, sizeof(sym));
    r->commands = calloc(w->command_room, sizeof(command));
}

static void
close_rank(rank *r)
{
    free(r->memory);
    free(r->plain);
    free(r->stage);
    free(r->commands);
    for (int k = 0; k < r->wire_count; k++) {
        free(r->wires[k]->held);
        free(r->wires[k]);
    }
    free(r->wires);
}

static void
run_channel(world *w, uint32_t channel)
{
    int n = w->c->size;
    hp_plan_make(&w->plan, &w->c->call, w->ranks[0].user.blocks, w->c->order, n, &w->c->options, channel,
                 w->c->channels);
    w->slot_count = w->c->options.slice_bytes / w->plan.elem;
    if (w->plan.algorithm == HP_ALG_ALLPAIRS)
        w->slot_count = w->plan.part;
    w->plain_count = w->plan.packed / w->plan.elem;
    w->stage_count = hp_plan_wire_fits(&w->plan, w->c->options.stage_bytes - w->plan.packed);
    w->command_room = HP_TASKS * (WINDOW_MAX + 1) + (uint64_t)n; /* an unfold is n commands */
    w->wires = calloc((size_t)n * (size_t)n, sizeof(*w->wires));
    for (int p = 0; p < n; p++)
        open_rank(w, &w->ranks[p], p);
    run(w);
    for (int p = 0; p < n; p++)
        close_rank(&w->ranks[p]);
    free(w->wires);
}

int
sym_run(const sym_case *c, char *why, size_t why_size)
{
    world w = {.c = c, .random = c->seed, .why = why, .why_size = why_size};
    w.ranks = calloc((size_t)c->size, sizeof(*w.ranks));
    for (int p = 0; p < c->size; p++)
        w.broken |= !sym_arrays_make(&w.ranks[p].user, c, c->order[p]);
    for (uint32_t k = 0; k < c->channels && !w.broken; k++)
        run_channel(&w, k);
    sym *sums = sym_sums(c);
    for (int p = 1; p < c->size && c->call.kind == HP_ALLREDUCE && !w.broken; p++)
        if (!sym_arrays_agree(&w.ranks[0].user, &w.ranks[p].user))
            broken(&w, &w.ranks[p], "other bits than at position 0", w.plan.steps);
    for (int p = 0; p < c->size; p++) {
        if (!w.broken)
            w.broken = !sym_arrays_check(&w.ranks[p].user, c, c->order[p], sums, why, why_size);
        sym_arrays_free(&w.ranks[p].user);
    }
    free(sums);
    free(w.ranks);
    return !w.broken;
}
