/* SPDX-License-Identifier: MIT */
/* actor: see actor.h. */
#include "t/rendezvous/actor.h"

#include "base/clock.h"
#include "base/err.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t
storm_roll(storm *t, uint64_t below)
{
    return control_random(&t->s, below);
}

void
storm_complain(storm *t, const actor *a, const char *what)
{
    if (!t->over)
        snprintf(t->why, sizeof(t->why), "%.3f s, rank %d: %s", (double)(t->s.time - 1000 * HP_SEC) / 1e9,
                 a ? a->rank : -1, what);
    t->over = 1;
}

/* --- the ring that an actor works on --- */

seat *
actor_seat(actor *a)
{
    return a->child.open ? &a->child : &a->world;
}

static int
is_child(const actor *a, const seat *e)
{
    return e == &a->child;
}

links *
actor_links(storm *t, const seat *e)
{
    const hp_ring *ring = &e->m.ring;
    for (int i = 0; i < t->rings_n; i++)
        if (t->rings[i].comm == ring->comm)
            return &t->rings[i];
    links *l = &t->rings[t->rings_n++ % RINGS];
    *l = (links){.comm = ring->comm, .size = ring->size};
    for (int w = 0; w < RANKS; w++) {
        l->of_ring[w] = -1;
        for (int r = 0; r < ring->size; r++)
            if (ring->members[r].pid == (uint32_t)(w + 800))
                l->of_ring[w] = r;
    }
    return l;
}

static int
world_rank(const links *l, int rank)
{
    for (int w = 0; w < RANKS; w++)
        if (l->of_ring[w] == rank)
            return w;
    return -1;
}

/* --- how a job goes wrong --- */

void
actor_end(actor *a, int reset)
{
    seat_close(&a->child, reset);
    seat_close(&a->world, reset);
    a->at = AT_END;
}

/* Whether the error names the rank that has died, by its pid or as one end of a connection, or no rank. */
static int
is_right(storm *t, const seat *e, const hoop_error *error)
{
    const char *pid = strstr(error->text, "pid ");
    char end[32];
    snprintf(end, sizeof(end), "(node%d)", t->victim + 1);
    if (pid)
        return atoi(pid + 4) - 800 == t->victim;
    if (strstr(error->text, "the connection between "))
        return strstr(error->text, end) != NULL;
    return error->rank < 0 ||
           (e->m.ring.size > 0 ? world_rank(actor_links(t, e), error->rank) : error->rank) == t->victim;
}

/* The actor that the error names, if its process has ended; else NULL. */
static const actor *
named_end(const storm *t, const hoop_error *error)
{
    const char *pid = strstr(error->text, "pid ");
    int who = pid ? atoi(pid + 4) - 800 : -1;
    return who >= 0 && who < t->n && t->actors[who].at == AT_END ? &t->actors[who] : NULL;
}

static int
others_ended(const storm *t, const actor *a)
{
    int ended = 0;
    for (int i = 0; i < t->n; i++)
        ended += i != a->rank && t->actors[i].at == AT_END;
    return ended;
}

/* One that was free to go on has left, and the server that knew this has died: nobody can tell those who wait in the split. */
static int
is_forgotten(const storm *t, const actor *a)
{
    return t->forgotten || (a->at <= AT_GO && t->s.deaths && !t->died && others_ended(t, a));
}

/* The call of this rank has failed, and its program ends: with destroy, or without. */
static void
fail(storm *t, actor *a, seat *e, const hoop_error *error)
{
    const actor *named = named_end(t, error);
    if (t->s.log)
        diag("%.3f rank %d fails: %s", (double)t->s.time / 1e9, a->rank, error->text);
    if (is_forgotten(t, a))
        a->unheard = t->forgotten = 1;
    else if (!t->died && named && named->unheard)
        a->unheard = 1; /* a reset in the moment in which that one left has destroyed its LEAVE */
    else if (!t->died)
        storm_complain(t, a, error->text);
    else if (!t->hidden && !is_right(t, e, error) && !(t->unwatched && named))
        storm_complain(t, a, error->text);
    else if (error->code != HOOP_ERR_PEER_LOST && error->code != HOOP_ERR_RENDEZVOUS)
        storm_complain(t, a, error->text);
    t->unwatched |= t->s.time < t->s.server_frozen || t->s.time < t->s.server_dead;
    links *l = e->m.ring.size > 0 ? actor_links(t, e) : NULL;
    if (l && !l->aborted) {
        l->aborted = 1;
        l->abort = *error;
    }
    if (storm_roll(t, 2)) {
        if (a->child.open)
            hp_membership_leave(&a->child.m, a->completed[1]);
        hp_membership_leave(&a->world.m, a->completed[0]);
    }
    actor_end(a, 0);
}

static void
fail_here(storm *t, actor *a, seat *e, int who, hoop_result code, const char *text)
{
    hoop_error error;
    hp_err_set(&error, code, "%s", text);
    error.rank = who;
    hp_membership_abort(&e->m, &error);
    fail(t, a, e, &error);
}

/* --- one rank --- */

static void
wait_at(actor *a, place at)
{
    a->at = at;
    a->since = a->clock;
}

void
actor_join(storm *t, actor *a)
{
    hp_client_options o = {.rank = a->rank, .size = t->n, .agree = "slice=1\n", .parent_rank = -1};
    o.host_id = 100;
    o.proxied = t->proxied;
    o.pid = (uint32_t)a->rank + 800;
    snprintf(o.host, sizeof(o.host), "node%d", a->rank + 1);
    o.deadline = a->clock + BRINGUP_MS * HP_MS;
    o.op_timeout = (uint64_t)t->limit_ms * HP_MS;
    if (hp_addr_parse(&o.listen, "10.0.0.1:4000", NULL))
        bail("no address");
    seat_open(&t->s, &a->world, &o, a->clock);
    wait_at(a, AT_JOIN);
}

static void
join_split(storm *t, actor *a, const scene *now)
{
    hp_client_options o = a->world.m.options;
    const hp_ring *ring = &a->world.m.ring;
    o.rank = -1;
    o.deadline = a->clock + BRINGUP_MS * HP_MS;
    o.parent = ring->comm;
    o.parent_digest = hp_ring_digest(ring);
    o.parent_rank = ring->rank;
    o.parent_size = ring->size;
    o.split = (uint32_t)++a->splits;
    o.color = a->rank == now->outsider ? -1 : 0;
    o.key = -a->rank;
    o.started = a->sequence[0];
    o.completed = a->completed[0];
    o.parent_ring = ring;
    o.parent_origin = hp_registration_origin(&a->world.m.options, ring);
    o.parent_placed = a->world.m.placed;
    o.comes_back = a->world.m.comes_back;
    a->sequence[1] = a->completed[1] = 0;
    seat_open(&t->s, &a->child, &o, a->clock);
    wait_at(a, AT_JOIN);
}

/* The next thing in the program. */
static void
go_on(storm *t, actor *a)
{
    const scene *now = &t->scenes[a->scene];
    a->until = a->clock;
    a->at = AT_WORK;
    if (a->scene == t->scenes_n) {
        wait_at(a, AT_LEAVE);
        return;
    }
    if (a->op == 0 && now->late == a->rank)
        a->until += (uint64_t)now->late_ms * HP_MS;
    if (now->pause_ms)
        a->until += storm_roll(t, (uint64_t)now->pause_ms) * HP_MS;
}

static void
next_scene(storm *t, actor *a)
{
    a->scene++;
    a->op = 0;
    go_on(t, a);
}

static void
begin(storm *t, actor *a)
{
    const scene *now = &t->scenes[a->scene];
    seat *e = actor_seat(a);
    if (now->kind == SCENE_SPLIT) {
        join_split(t, a, now);
        return;
    }
    if (now->kind == SCENE_CLOSE || (now->kind == SCENE_CHILD_OPS && !a->child.open)) {
        if (now->kind == SCENE_CLOSE && a->child.open)
            wait_at(a, AT_LEAVE);
        else
            next_scene(t, a);
        return;
    }
    links *l = actor_links(t, e);
    l->entered[a->rank] = ++a->sequence[is_child(a, e)];
    a->reported = a->clock;
    a->in_op_told = 0;
    a->suspects = a->found_at = 0;
    wait_at(a, AT_OP);
}

static hp_report
report_of(const actor *a, const seat *e)
{
    int size = e->m.ring.size;
    return (hp_report){.sequence = a->sequence[is_child(a, e)],
                       .step = 1,
                       .since = a->clock - a->since,
                       .awaited = {HP_WAIT_PEER, (e->m.ring.rank + size - 1) % size}};
}

/* The neighbour on the ring that has died; -1: none. */
static int
dead_neighbour(storm *t, const links *l, const seat *e)
{
    int size = e->m.ring.size, me = e->m.ring.rank;
    int victim = t->died && l->of_ring[t->victim] >= 0 ? l->of_ring[t->victim] : -1;
    return victim >= 0 && ((me + 1) % size == victim || (victim + 1) % size == me) ? victim : -1;
}

static void
lose(storm *t, actor *a, seat *e, int peer, int repaired)
{
    hp_loss loss = {.peer = peer, .number = storm_roll(t, 2) ? ECONNRESET : 0, .sequence = a->sequence[is_child(a, e)]};
    loss.repaired = repaired;
    hp_report r = report_of(a, e);
    hp_membership_in_op(&e->m, &r, a->clock);
    a->in_op_told = 1;
    hp_membership_lost(&e->m, &loss);
}

/* A link breaks before it has carried anything, and is made again at once. */
static void
hiccup(storm *t, actor *a, seat *e)
{
    if (a->found_at && a->clock >= a->found_at) {
        hp_membership_found(&e->m);
        actor_links(t, e)->broken = 0;
        a->found_at = HP_NEVER;
    }
    if (!t->hiccups || a->found_at || t->died || t->s.time < t->hiccup_until ||
        t->s.time - t->last_trouble < 30 * HP_SEC || e->m.ring.size < 3 || storm_roll(t, 400))
        return;
    lose(t, a, e, (e->m.ring.rank + 1) % e->m.ring.size, 1);
    actor_links(t, e)->broken = 1;
    t->hiccup_until = t->s.time + 2 * HP_SEC;
    a->found_at = a->clock + (20 + storm_roll(t, 380)) * HP_MS;
}

static void
check_links(storm *t, actor *a, seat *e, const links *l)
{
    int dead = dead_neighbour(t, l, e);
    if (dead < 0)
        return;
    if (!a->suspects) {
        a->suspects = a->clock + (hp_membership_has_server(&e->m, a->clock) ? 800 : 200) * HP_MS;
        lose(t, a, e, dead, (int)storm_roll(t, 2));
    } else if (a->clock >= a->suspects) {
        fail_here(t, a, e, dead, HOOP_ERR_PEER_LOST, "its process has ended");
    }
}

static int
all_entered(const links *l, uint64_t sequence)
{
    for (int w = 0; w < RANKS; w++)
        if (l->of_ring[w] >= 0 && l->entered[w] < sequence)
            return 0;
    return 1;
}

static void
be_in_op(storm *t, actor *a)
{
    seat *e = actor_seat(a);
    int child = is_child(a, e);
    links *l = actor_links(t, e);
    const scene *now = &t->scenes[a->scene];
    if (!l->broken && all_entered(l, a->sequence[child])) {
        a->completed[child] = a->sequence[child];
        if (a->in_op_told)
            hp_membership_out(&e->m, a->completed[child]);
        if (++a->op < now->ops)
            go_on(t, a);
        else
            next_scene(t, a);
        return;
    }
    if (l->aborted) {
        hp_membership_abort(&e->m, &l->abort);
        fail(t, a, e, &l->abort);
        return;
    }
    check_links(t, a, e, l);
    if (t->died && others_ended(t, a) == t->n - 1 && a->clock - a->since > HP_RETURN_MS * HP_MS)
        actor_end(a, 0); /* its links tell it, whoever was the first */
    if (a->at != AT_OP)
        return;
    hiccup(t, a, e);
    if (a->clock - a->reported >= (a->in_op_told ? 250 : 125) * HP_MS) {
        hp_report r = report_of(a, e);
        hp_membership_in_op(&e->m, &r, a->clock);
        a->reported = a->clock;
        a->in_op_told = 1;
    }
    if (a->clock - a->since > (2 * (uint64_t)t->limit_ms + 60000) * HP_MS)
        storm_complain(t, a, "an operation does not end");
}

/* Its driver sleeps, as that of a ring on one host does. */
static int
rests(const storm *t, const actor *a)
{
    return (int)(t->rests >> a->rank & 1);
}

static void
be_in_join(storm *t, actor *a)
{
    seat *e = actor_seat(a);
    hp_membership *m = &e->m;
    if (is_child(a, e) && !rests(t, a) &&
        hp_membership_may_return(&a->world.m)) /* its program waits, but its driver drives the world, too */
        hp_membership_return(&a->world.m, a->sequence[0], a->completed[0], a->clock);
    if (m->state == HP_CLIENT_ROSTER && m->ring.size == 0) {
        hp_membership_placed(&a->world.m, m->options.split);
        seat_close(e, 0);
        next_scene(t, a);
        return;
    }
    if (a->at == AT_JOIN && m->state == HP_CLIENT_ROSTER) {
        actor_links(t, e)->ready[a->rank] = 1;
        a->at = AT_LINKS;
    }
    if (a->at == AT_LINKS) {
        links *l = actor_links(t, e);
        int all = 1;
        for (int w = 0; w < RANKS; w++) {
            if (l->ready[w] && !t->actors[w].frozen)
                l->met[a->rank] |= 1u << w;
            all &= l->of_ring[w] < 0 || (l->met[a->rank] >> w & 1);
        }
        if (all && storm_roll(t, 4) == 0) {
            hp_membership_ready(m);
            a->at = AT_GO;
        }
    }
    int begun = m->state == HP_CLIENT_GO || (m->state == HP_CLIENT_GONE && a->at == AT_GO);
    if (begun && is_child(a, e)) {
        hp_membership_placed(&a->world.m, m->options.split);
        next_scene(t, a);
    } else if (begun) {
        go_on(t, a);
    }
    if (a->clock > m->options.deadline + 2 * HP_SEC)
        storm_complain(t, a, "a join does not end");
}

/* Whether the server's system has all that the rank has said: TCP acknowledges that, also for a server that is frozen. */
static int
is_acknowledged(const seat *e)
{
    const frame *last = e->wire ? e->wire->up.last : NULL;
    return !last || last->at <= e->sim->time;
}

static void
be_leaving(storm *t, actor *a)
{
    seat *e = actor_seat(a);
    int child = is_child(a, e);
    if (hp_membership_is_away(&e->m) && a->clock - a->since < HP_RETURN_MS * HP_MS) {
        hp_membership_return(&e->m, a->sequence[child], a->completed[child], a->clock);
        seat_obey(e, a->clock);
        return;
    }
    if (e->m.state != HP_CLIENT_LEFT) {
        a->left = a->clock;
        a->unheard |= e->wire && e->wire->closed; /* and the rank has not seen it */
    }
    int leaves = e->m.state != HP_CLIENT_LEFT;
    hp_membership_leave(&e->m, a->completed[child]);
    a->unheard |= leaves && e->m.line == HP_LINE_NONE; /* it has not been back for 5 s, and leaves without a word */
    seat_obey(e, a->clock);
    uint64_t waited = a->clock - a->left;
    int owes = hp_membership_is_away(&e->m) || !is_acknowledged(e);
    if (hp_membership_is_leaving(&e->m) && waited < (owes ? PEER_MS : 100) * HP_MS)
        return;
    /* else its LEAVE arrives, if only behind a freeze */
    int is_lost = hp_membership_is_away(&e->m) || !e->wire || e->wire->rank_sees != HP_NEVER;
    a->unheard |= (hp_membership_is_leaving(&e->m) && is_lost) || e->m.state == HP_CLIENT_GONE;
    if (a->clock - a->since > LEAVE_MS * HP_MS)
        storm_complain(t, a, "destroy does not end");
    if (child) {
        seat_close(e, 0);
        next_scene(t, a);
    } else {
        actor_end(a, 0);
    }
}

/* Verdicts of the ring on which the rank waits, and control connections that have to be made again. */
static void
check_server(storm *t, actor *a)
{
    seat *e = actor_seat(a);
    hoop_error verdict;
    if (a->at == AT_WORK || a->at == AT_END || a->at == AT_LEAVE)
        return;
    if (hp_membership_may_return(&e->m))
        hp_membership_return(&e->m, a->sequence[is_child(a, e)], a->completed[is_child(a, e)], a->clock);
    if (hp_membership_verdict(&e->m, &verdict))
        fail(t, a, e, &verdict);
    else if (e->m.state == HP_CLIENT_FAILED)
        fail(t, a, e, &e->m.error);
}

/*
 * What is driven: the ring on which the rank waits, the one that it splits, and any whose control connection has to be made
 * again, or lags.
 */
static void
drive(const storm *t, actor *a)
{
    seat *both[] = {&a->world, &a->child}, *e = actor_seat(a);
    for (int i = 0; i < 2; i++) {
        int waits = both[i] == e ? a->at != AT_WORK : a->at <= AT_GO && !rests(t, a);
        if (!both[i]->open || (!waits && !hp_membership_is_away(&both[i]->m) && !both[i]->m.owes_out))
            continue;
        if (hp_membership_is_away(&both[i]->m))
            hp_membership_return(&both[i]->m, a->sequence[i], a->completed[i], a->clock);
        seat_turn(both[i], a->clock);
    }
}

void
actor_live(storm *t, actor *a)
{
    t->s.steps++;
    if (a->dead || a->at == AT_END)
        return;
    if (a->frozen > t->s.time)
        return;
    a->frozen = 0;
    a->clock += STEP_MS * HP_MS;
    drive(t, a);
    check_server(t, a);
    switch (a->at) {
    case AT_JOIN:
    case AT_LINKS:
    case AT_GO: be_in_join(t, a); break;
    case AT_WORK:
        if (a->clock >= a->until)
            begin(t, a);
        break;
    case AT_OP: be_in_op(t, a); break;
    case AT_LEAVE: be_leaving(t, a); break;
    default: break;
    }
    if (!rests(t, a) || !a->child.open || a->at > AT_GO || hp_membership_is_away(&a->world.m))
        seat_obey(&a->world, a->clock);
    if (a->child.open)
        seat_obey(&a->child, a->clock);
}
