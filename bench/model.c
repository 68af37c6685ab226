/* SPDX-License-Identifier: MIT */
/* model: see model.h. Each event moves one counter and then lets a belt, and the ports it touched, do what they can. */
#include "bench/model.h"

#include "bench/agenda.h"
#include "lib/config.h"
#include "lib/place.h"
#include "net/frame.h"

#include <stdlib.h>

enum { ELEM = 4, DISTANCES = 64 /* different distances of one plan: halves have most, two for each doubling */ };

typedef struct slot {
    hp_step step;
    hp_placement place;
    int receiving, working, sending; /* still awaited */
    int may_send;
} slot;

/* Frames between two belts at one distance, in both roles: what this belt sends, and what it receives. */
typedef struct port {
    int distance;
    uint64_t out_posted, out_left, out_taken; /* frames */
    uint64_t out_bytes;                       /* begun so far */
    uint64_t in_posted, in_arrived, in_done;
    uint64_t in_bytes;            /* asked for so far */
    uint64_t *out_step, *in_step; /* steps of the posted frames, a ring of W each */
    double *out_time;             /* when they were posted */
} port;

typedef struct belt {
    int rank;
    int running;
    const hp_plan *plan;
    uint64_t admitted, received, worked, sent, retired;
    slot *slots;
    port ports[DISTANCES];
} belt;

/* What carries frames: one at a time out, and one at a time in. */
typedef struct line {
    double sends_until, takes_until;
} line;

typedef struct machine {
    line wire; /* of its host, if it is the first rank there; else not used */
    line memory;
    double works_until;
    double slowness;
    uint64_t random, bytes, frames;
} machine;

typedef struct model {
    const model_options *o;
    hp_plan *plans; /* one a channel */
    uint32_t channels, window, ports;
    int *order;
    belt *belts; /* rank * channels + channel */
    machine *machines;
    hp_host_map hosts;
    agenda agenda;
    double now, end;
    uint64_t belts_left;
    const char *why;
} model;

/* --- events --- */

static uint32_t
index_of(const model *m, const belt *b)
{
    return (uint32_t)(b - m->belts);
}

static void
at_time(model *m, double at, event_kind kind, const belt *b, uint32_t p, uint64_t step)
{
    if (!agenda_push(&m->agenda, (event){.at = at, .kind = kind, .belt = index_of(m, b), .port = p, .step = step}))
        m->why = "out of memory";
}

/* --- machines --- */

/* splitmix64, a stream a rank. */
static double
draw(machine *who)
{
    uint64_t z = who->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static double
shaken(const model *m, machine *who, double length)
{
    if (m->o->jitter > 0)
        length *= 1 + m->o->jitter * (2 * draw(who) - 1);
    return length * who->slowness;
}

static double
later(double a, double b)
{
    return a > b ? a : b;
}

/* --- ports --- */

static uint32_t
port_at(model *m, belt *b, int distance)
{
    uint32_t p = 0;
    while (p < m->ports && b->ports[p].distance != distance)
        p++;
    if (p == m->ports)
        m->why = "a step uses a distance that no first sight of the plan showed";
    return p < m->ports ? p : 0;
}

static belt *
neighbour(const model *m, const belt *b, int distance)
{
    int n = m->o->ranks, rank = ((b->rank + distance) % n + n) % n;
    return &m->belts[(uint64_t)rank * m->channels + index_of(m, b) % m->channels];
}

static int
host_of(const model *m, int rank)
{
    return m->o->host_ranks > 1 ? rank / m->o->host_ranks : rank;
}

static line *
line_of(const model *m, int rank, int local)
{
    int first = m->o->host_ranks > 1 ? host_of(m, rank) * m->o->host_ranks : rank;
    return local ? &m->machines[rank].memory : &m->machines[first].wire;
}

static uint64_t
payload(const belt *b, uint64_t step, uint32_t window)
{
    return b->slots[step % window].step.send_count * ELEM;
}

/* Whether the oldest frame that waits at this port may leave: the receiver asked for it, or its socket holds it. */
static int
may_leave(const model *m, const belt *b, uint32_t p)
{
    const port *out = &b->ports[p];
    if (out->out_posted == out->out_left)
        return 0;
    const port *in = &neighbour(m, b, out->distance)->ports[p];
    uint64_t bytes = payload(b, out->out_step[out->out_left % m->window], m->window);
    return out->out_left < in->in_posted || out->out_bytes + bytes <= in->in_bytes + m->o->buffer;
}

/* What the oldest waiting frame's receiver asked for, if it did, is this frame: the law of lag, and the same bytes. */
static void
check_laws(model *m, const belt *b, uint32_t p)
{
    const port *out = &b->ports[p];
    const belt *to = neighbour(m, b, out->distance);
    const port *in = &to->ports[p];
    uint64_t step = out->out_step[out->out_left % m->window], wanted = in->in_step[out->out_left % m->window];
    if (out->out_left >= in->in_posted)
        return;
    if (wanted != step + b->plan->slices)
        m->why = "the schedule broke the law of lag";
    else if (to->slots[wanted % m->window].step.recv_count * ELEM != payload(b, step, m->window))
        m->why = "a sender and its receiver disagree about a frame's bytes";
}

static void
leave(model *m, belt *b, uint32_t p)
{
    port *out = &b->ports[p];
    const belt *to = neighbour(m, b, out->distance);
    int local = host_of(m, b->rank) == host_of(m, to->rank);
    machine *sender = &m->machines[b->rank], *taker = &m->machines[to->rank];
    line *from = line_of(m, b->rank, local), *into = line_of(m, to->rank, local);
    uint64_t step = out->out_step[out->out_left % m->window], bytes = payload(b, step, m->window);
    double length = (double)(bytes + m->o->header) * (local ? m->o->memory_beta : m->o->beta), gone, there;
    double alpha = shaken(m, sender, local ? m->o->memory_alpha : m->o->alpha);
    check_laws(m, b, p);
    out->out_left++;
    out->out_bytes += bytes;
    sender->bytes += bytes;
    sender->frames++;
    gone = m->now + shaken(m, sender, length);
    there = later(gone + alpha, later(m->now + alpha, into->takes_until) + length * taker->slowness);
    into->takes_until = there;
    from->sends_until = gone;
    at_time(m, gone, LEFT, b, p, step);
    at_time(m, there, ARRIVED, to, p, 0);
}

/* A line out of these ranks, when free, takes the frame that was posted first of those that may leave over it. */
static void
send_over(model *m, int rank, int ranks, int local)
{
    belt *from = NULL, *first = &m->belts[(uint64_t)rank * m->channels];
    uint32_t from_port = 0;
    double oldest = 0;
    if (line_of(m, rank, local)->sends_until > m->now)
        return;
    for (belt *b = first; b < first + (uint32_t)ranks * m->channels; b++)
        for (uint32_t p = 0; p < m->ports; p++) {
            double posted = b->ports[p].out_time[b->ports[p].out_left % m->window];
            int there = host_of(m, neighbour(m, b, b->ports[p].distance)->rank), stays = there == host_of(m, b->rank);
            if (stays == local && may_leave(m, b, p) && (!from || posted < oldest)) {
                from = b;
                from_port = p;
                oldest = posted;
            }
        }
    if (from)
        leave(m, from, from_port);
}

static void
send_next(model *m, int rank)
{
    int ranks = m->o->host_ranks > 1 ? m->o->host_ranks : 1;
    int first = rank / ranks * ranks, left = m->o->ranks - first;
    send_over(m, first, ranks < left ? ranks : left, 0);
    if (ranks > 1)
        send_over(m, rank, 1, 1);
}

/* Frames that have arrived and were asked for are received. */
static int
take_frames(model *m, belt *b, uint32_t p)
{
    port *in = &b->ports[p];
    uint64_t before = in->in_done;
    while (in->in_done < in->in_arrived && in->in_done < in->in_posted) {
        b->slots[in->in_step[in->in_done % m->window] % m->window].receiving = 0;
        in->in_done++;
        if (m->o->taken)
            at_time(m, m->now + m->o->alpha, TAKEN, neighbour(m, b, -in->distance), p, 0);
    }
    return in->in_done > before;
}

/* --- the belt: the stations of lib/channel.c --- */

static int
admit(model *m, belt *b)
{
    uint64_t i = b->admitted;
    slot *s = &b->slots[i % m->window];
    if (i == b->plan->steps || i - b->retired == m->window)
        return 0;
    *s = (slot){.step = hp_schedule_at(b->plan, m->order, b->rank, i), .working = 1};
    s->place = hp_place(b->plan, &s->step, &(hp_place_options){.direct = 1, .in_place = 1});
    s->sending = (s->step.flags & HP_STEP_SEND) != 0;
    b->admitted++;
    if (s->step.flags & HP_STEP_RECV) {
        uint32_t p = port_at(m, b, s->step.from);
        port *in = &b->ports[p];
        s->receiving = 1;
        in->in_step[in->in_posted++ % m->window] = i;
        in->in_bytes += s->step.recv_count * ELEM;
        take_frames(m, b, p);
        send_next(m, neighbour(m, b, -s->step.from)->rank);
    }
    return 1;
}

static int
receive(model *m, belt *b)
{
    if (b->received == b->admitted || b->slots[b->received % m->window].receiving)
        return 0;
    b->received++;
    return 1;
}

/* Bytes that the step's jobs read of their longer operand. */
static double
job_bytes(const model *m, const belt *b, const slot *s)
{
    uint64_t n = (uint64_t)m->o->ranks, elements = 0;
    for (int i = 0; i < s->place.tasks; i++)
        elements += s->place.task[i].count;
    elements += ((s->place.fold.members ? (uint64_t)s->place.fold.members : n) - 1) * s->place.fold.count;
    if (s->place.unfold)
        elements += b->plan->count;
    return (double)(elements * ELEM);
}

static int
work(model *m, belt *b)
{
    uint64_t i = b->worked;
    slot *s = &b->slots[i % m->window];
    machine *who = &m->machines[b->rank];
    int frames = s->sending + ((s->step.flags & HP_STEP_RECV) != 0);
    double begins = later(m->now, who->works_until), seen, done;
    if (i == b->received)
        return 0;
    b->worked++;
    seen = begins + frames * shaken(m, who, m->o->overhead);
    done = seen + shaken(m, who, job_bytes(m, b, s) * m->o->gamma);
    who->works_until = done;
    if (done > seen)
        done += shaken(m, who, m->o->delay);
    at_time(m, s->place.forward ? seen : done, CAN_SEND, b, 0, i);
    at_time(m, done, JOB_DONE, b, 0, i);
    return 1;
}

static int
send_on(model *m, belt *b)
{
    uint64_t i = b->sent;
    slot *s = &b->slots[i % m->window];
    if (i == b->worked || !s->may_send)
        return 0;
    b->sent++;
    if (s->sending) {
        uint32_t p = port_at(m, b, s->step.to);
        port *out = &b->ports[p];
        out->out_step[out->out_posted % m->window] = i;
        out->out_time[out->out_posted % m->window] = m->now;
        out->out_posted++;
        send_next(m, b->rank);
    }
    return 1;
}

static int
retire(model *m, belt *b)
{
    const slot *s = &b->slots[b->retired % m->window];
    if (b->retired == b->sent || s->working || s->sending)
        return 0;
    b->retired++;
    if (b->retired == b->plan->steps) {
        m->belts_left--;
        m->end = m->now;
    }
    return 1;
}

static void
progress(model *m, belt *b)
{
    int moved = b->running;
    while (moved) {
        moved = 0;
        while (admit(m, b) || receive(m, b) || work(m, b) || send_on(m, b) || retire(m, b))
            moved = 1;
    }
}

static void
happen(model *m, const event *e)
{
    belt *b = &m->belts[e->belt];
    slot *s = &b->slots[e->step % m->window];
    port *p = &b->ports[e->port];
    switch (e->kind) {
    case STARTS: b->running = 1; break;
    case CAN_SEND: s->may_send = 1; break;
    case JOB_DONE: s->working = 0; break;
    case LEFT:
        if (!m->o->taken)
            s->sending = 0;
        send_next(m, b->rank);
        break;
    case ARRIVED:
        p->in_arrived++;
        if (!take_frames(m, b, e->port))
            return;
        break;
    case TAKEN: b->slots[p->out_step[p->out_taken++ % m->window] % m->window].sending = 0; break;
    }
    progress(m, b);
}

/* --- setting up --- */

static uint32_t
setting(hp_setting which)
{
    return (uint32_t)strtoul(hp_setting_table[which].value, NULL, 10);
}

void
model_defaults(model_options *o)
{
    *o = (model_options){.ranks = 2, .kind = HP_ALLREDUCE, .count = 1, .algorithm = -1, .straggler = -1, .late = -1};
    o->window = setting(HP_SET_window);
    o->plan.slice_bytes = setting(HP_SET_slice_bytes);
    o->plan.slices = setting(HP_SET_slices);
    o->plan.stage_bytes = setting(HP_SET_stage_bytes);
    hp_plan_depth(&o->plan, &o->window, 0);
    o->plan.channels = setting(HP_SET_channels);
    o->plan.spread_bytes = hp_plan_spread(-1, 0, o->ranks);
    o->plan.halves_bytes = setting(HP_SET_halves_bytes);
    o->slowness = 1;
    o->header = HP_DATA_HEAD;
    o->seed = 1;
}

static int
is_staged(const model_options *o)
{
    return o->algorithm >= 0 && hp_algorithm_is_staged((hp_algorithm)o->algorithm);
}

/* The options under which the plan chooses the wanted shape, as far as it would at any size. */
static hp_plan_options
options_for(const model_options *o)
{
    hp_plan_options plan = o->plan;
    if (o->algorithm >= 0) {
        plan.spread_bytes = plan.halves_bytes = 0;
        plan.levels = HP_LEVELS_NONE;
    }
    if (is_staged(o))
        plan.channels = 1;
    return plan;
}

/* The library has these for short vectors only, and a spread where no doubling fits; their rows suit any. */
static void
make_staged(hp_plan *plan, hp_algorithm algorithm)
{
    uint64_t n = (uint64_t)plan->size;
    uint32_t rounds = hp_plan_rounds(plan->size);
    plan->algorithm = algorithm;
    plan->exchanges = algorithm == HP_ALG_DOUBLING;
    plan->part = (plan->count + n - 1) / n;
    plan->loops = plan->slices = 1;
    plan->rows = algorithm == HP_ALG_HALVES ? 2 * rounds + 2 : rounds + 1;
    plan->steps = plan->rows;
}

/* The distances of a rank's steps. Of the ring it shows them early. */
static void
add_distances(model *m, int rank, int distances[DISTANCES])
{
    const hp_plan *plan = &m->plans[0];
    uint64_t steps = plan->algorithm == HP_ALG_RING ? plan->slices + 1 : plan->steps;
    for (uint64_t i = 0; i < steps && i < plan->steps; i++) {
        hp_step step = hp_schedule_at(plan, m->order, rank, i);
        int found[2] = {step.flags & HP_STEP_SEND ? step.to : 0, step.flags & HP_STEP_RECV ? step.from : 0};
        for (int k = 0; k < 2; k++) {
            uint32_t p = 0;
            while (p < m->ports && distances[p] != found[k])
                p++;
            if (found[k] && p == m->ports && m->ports < DISTANCES)
                distances[m->ports++] = found[k];
        }
    }
}

/* A plan's distances are the same for every rank, but over levels for each place in a host, and for each host. */
static void
find_distances(model *m, int distances[DISTANCES])
{
    for (int rank = 0; rank < (m->plans[0].algorithm == HP_ALG_LEVELS ? m->o->ranks : 1); rank++)
        add_distances(m, rank, distances);
}

static int
map_hosts(model *m, hp_plan_options *options)
{
    size_t n = (size_t)m->o->ranks;
    uint64_t *host = calloc(n, sizeof(*host));
    int *order = calloc(n, sizeof(*order));
    m->hosts.first = calloc(n + 1, sizeof(int));
    for (size_t r = 0; r < n && host && order; r++) {
        host[r] = (uint64_t)host_of(m, (int)r);
        order[r] = (int)r;
    }
    if (host && order && m->hosts.first)
        hp_host_map_fill(&m->hosts, host, order, m->o->ranks);
    free(host);
    free(order);
    options->hosts = &m->hosts;
    return m->hosts.count > 0;
}

static int
make_belt(model *m, belt *b, uint32_t index, const int distances[DISTANCES])
{
    int made = 1;
    b->rank = (int)(index / m->channels);
    b->plan = &m->plans[index % m->channels];
    b->slots = calloc(m->window, sizeof(*b->slots));
    for (uint32_t p = 0; p < m->ports; p++) {
        port *q = &b->ports[p];
        q->distance = distances[p];
        q->out_step = calloc(m->window, sizeof(*q->out_step));
        q->in_step = calloc(m->window, sizeof(*q->in_step));
        q->out_time = calloc(m->window, sizeof(*q->out_time));
        made &= q->out_step && q->in_step && q->out_time;
    }
    at_time(m, b->rank == m->o->late ? m->o->lateness : 0, STARTS, b, 0, 0);
    return made && b->slots;
}

static int
make(model *m)
{
    const model_options *o = m->o;
    hp_call call = {.kind = (uint8_t)o->kind, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = o->count};
    hp_plan_options options = options_for(o);
    size_t n = (size_t)o->ranks;
    int distances[DISTANCES] = {0}, made = 1;
    if (o->kind == HP_BARRIER)
        call = (hp_call){.kind = HP_BARRIER, .dtype = HOOP_UINT8, .op = HOOP_SUM, .root = -1};
    if (!map_hosts(m, &options))
        return 0;
    m->channels = hp_plan_channels(&call, o->ranks, &options);
    m->window = o->window;
    m->belts_left = n * m->channels;
    m->plans = calloc(m->channels, sizeof(*m->plans));
    m->order = calloc(n, sizeof(*m->order));
    m->belts = calloc(m->belts_left, sizeof(*m->belts));
    m->machines = calloc(n, sizeof(*m->machines));
    if (!m->plans || !m->order || !m->belts || !m->machines)
        return 0;
    for (size_t r = 0; r < n; r++) {
        m->order[r] = (int)r;
        m->machines[r].random = o->seed * UINT64_C(0x2545f4914f6cdd1d) + r;
        m->machines[r].slowness = (int)r == o->straggler ? o->slowness : 1;
    }
    for (uint32_t c = 0; c < m->channels; c++)
        hp_plan_make(&m->plans[c], &call, NULL, m->order, o->ranks, &options, c, m->channels);
    if (is_staged(o))
        make_staged(&m->plans[0], (hp_algorithm)o->algorithm);
    if (m->plans[0].window)
        m->window = m->plans[0].window;
    find_distances(m, distances);
    for (uint32_t b = 0; b < m->belts_left; b++)
        made &= make_belt(m, &m->belts[b], b, distances);
    return made;
}

static void
unmake(model *m)
{
    size_t belts = m->belts ? (size_t)m->o->ranks * m->channels : 0;
    for (size_t b = 0; b < belts; b++) {
        for (uint32_t p = 0; p < m->ports; p++) {
            free(m->belts[b].ports[p].out_step);
            free(m->belts[b].ports[p].in_step);
            free(m->belts[b].ports[p].out_time);
        }
        free(m->belts[b].slots);
    }
    free(m->belts);
    free(m->machines);
    free(m->order);
    free(m->plans);
    free(m->hosts.first);
    agenda_free(&m->agenda);
}

static void
sum_up(const model *m, model_result *result)
{
    *result = (model_result){.locked = m->belts_left > 0, .time = m->end, .channels = m->channels};
    result->algorithm = m->plans[0].algorithm;
    result->loops = m->plans[0].loops;
    result->slices = m->plans[0].slices;
    for (int r = 0; r < m->o->ranks; r++)
        if (m->machines[r].bytes >= result->sent) {
            result->sent = m->machines[r].bytes;
            result->frames = m->machines[r].frames;
        }
}

int
model_run(const model_options *options, model_result *result, const char **why)
{
    model m = {.o = options};
    if (!make(&m))
        m.why = "out of memory";
    while (!m.why && m.agenda.events > 0) {
        event e = agenda_pop(&m.agenda);
        m.now = e.at;
        happen(&m, &e);
    }
    if (!m.why)
        sum_up(&m, result);
    if (why)
        *why = m.why;
    unmake(&m);
    return m.why ? -1 : 0;
}
