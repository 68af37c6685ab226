/* SPDX-License-Identifier: MIT */
/* control_sim: see control_sim.h. */
#include "t/rendezvous/control_sim.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/wire.h"
#include "rendezvous/admission.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 50, KEEPALIVE_MS = 25000, REFUSED_MS = 3000 };

uint64_t
control_random(control_sim *s, uint64_t below)
{
    uint64_t x = s->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return below ? (x ^ (x >> 31)) % below : 0;
}

/* --- frames --- */

static void
put(control_sim *s, way *w, int type, const void *bytes, size_t n)
{
    frame *f = malloc(sizeof(*f) + n);
    uint64_t at = s->time + control_random(s, (uint64_t)s->slow + 1) * HP_MS;
    if (!f)
        bail("no memory");
    *f = (frame){.at = w->last && w->last->at > at ? w->last->at : at, .frame = {type, f->bytes, n}};
    if (n)
        memcpy(f->bytes, bytes, n);
    if (w->last)
        w->last->next = f;
    else
        w->first = f;
    w->last = f;
}

static frame *
take(control_sim *s, way *w)
{
    frame *f = w->first;
    if (!f || f->at > s->time)
        return NULL;
    w->first = f->next;
    if (!w->first)
        w->last = NULL;
    return f;
}

static void
empty(way *w)
{
    for (frame *f; (f = w->first);) {
        w->first = f->next;
        free(f);
    }
    w->last = NULL;
}

/* --- events of the job --- */

static void
on_send(void *arg, void *peer, int type, const void *payload, size_t n)
{
    wire *w = peer;
    if (w->server_up && w->server_sees == HP_NEVER)
        put(arg, &w->down, type, payload, n);
}

static void
on_assign(void *arg, void *peer, hp_roster *roster, int rank)
{
    uint8_t bytes[HP_CONTROL_MAX];
    for (int next = 0; next < roster->ring.size;) {
        size_t n = hp_part_put(bytes, &roster->ring, rank, next, &next);
        on_send(arg, peer, HP_ROSTER, bytes, n);
    }
}

static void
on_disconnect(void *arg, void *peer)
{
    on_send(arg, peer, -1, NULL, 0);
}

static void
on_line(void *arg, hp_notice sort, const char *line)
{
    (void)sort;
    control_sim *s = arg;
    snprintf(s->line[s->lines++ % CONTROL_LINES], sizeof(s->line[0]), "%s", line);
    s->over += strstr(line, "over: all ") || strstr(line, "over: its 1 ");
    if (s->log)
        diag("%.3f server: %s", (double)s->time / 1e9, line);
}

static void
on_failed(void *arg, const char *split, const hoop_error *cause, uint32_t pid)
{
    control_sim *s = arg;
    s->failures++;
}

static int
on_reached(void *arg, const void *peer)
{
    return 1;
}

static void
on_ended(void *arg, const hp_roster *ring)
{
}

static void
open_job(control_sim *s, uint64_t seed)
{
    static const uint8_t job_id[HP_JOB_ID_BYTES] = {0x4f, 0x21, 0xc0, 0xde};
    s->job = hp_job_new(&s->events, job_id, NULL, seed);
    if (!s->job)
        bail("no job");
}

void
control_open(control_sim *s, uint64_t seed)
{
    memset(s, 0, sizeof(*s));
    const hp_starter starter = {.arg = s, .say = on_line, .failed = on_failed};
    s->events = (hp_events){starter, s, on_send, on_assign, on_disconnect, on_reached, on_ended};
    s->random = seed;
    s->time = s->server_clock = 1000 * HP_SEC;
    s->slow = 5;
    s->queue = 16 << 10;
    open_job(s, seed);
}

/* --- the server --- */

/* The server's end is closed: the job has been told. */
static void
shut(control_sim *s, wire *w)
{
    w->server_up = 0;
    empty(&w->up);
    if (w->rank_up && w->rank_sees == HP_NEVER)
        put(s, &w->down, -1, NULL, 0);
}

static void
serve_wire(control_sim *s, wire *w)
{
    hoop_error error;
    if (w->server_sees <= s->time && !(w->closed && w->up.first)) {
        w->server_up = 0;
        empty(&w->up);
        if (w->closed)
            hp_job_lost(&w->conn, NULL, s->server_clock);
        else
            hp_job_broke(&w->conn, s->server_clock);
        return;
    }
    for (frame *f; w->server_up && (f = take(s, &w->up)); free(f)) {
        s->steps++;
        if (f->frame.type < 0) {
            hp_job_lost(&w->conn, NULL, s->server_clock);
            shut(s, w);
        } else if (hp_job_message(&w->conn, &f->frame, s->server_clock, &error)) {
            diag("the server: %s", error.text);
            s->broken = 1;
            hp_job_lost(&w->conn, "it violated the protocol", s->server_clock);
            shut(s, w);
        }
    }
}

static void
sweep(control_sim *s)
{
    for (wire **at = &s->wires; *at;) {
        wire *w = *at;
        if (w->rank_up || w->server_up) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        empty(&w->up);
        empty(&w->down);
        free(w);
    }
}

void
control_serve(control_sim *s, uint64_t tick)
{
    s->steps++;
    if (s->time < s->server_frozen || s->time < s->server_dead)
        return;
    s->server_clock += tick;
    for (wire *w = s->wires; w; w = w->next)
        if (w->server_up)
            serve_wire(s, w);
    if (s->server_clock - s->ticked >= TICK_MS * HP_MS) {
        s->ticked = s->server_clock;
        hp_job_tick(s->job, s->server_clock);
    }
    sweep(s);
}

void
control_kill(control_sim *s, uint64_t after)
{
    int resets = (int)control_random(s, 2);
    for (wire *w = s->wires; w; w = w->next) {
        if (w->server_up && w->rank_up && w->rank_sees == HP_NEVER && resets)
            w->rank_sees = s->time + ((uint64_t)s->slow + 1 + control_random(s, 20)) * HP_MS;
        else if (w->server_up && w->rank_up && w->rank_sees == HP_NEVER)
            put(s, &w->down, -1, NULL, 0);
        w->server_up = 0;
        empty(&w->up);
    }
    hp_job_free(s->job);
    open_job(s, control_random(s, UINT64_MAX));
    s->server_dead = s->time + after;
    s->deaths++;
}

void
control_close(control_sim *s)
{
    for (wire *w = s->wires; w; w = w->next) {
        w->rank_up = 0;
        if (w->server_up)
            hp_job_lost(&w->conn, NULL, s->server_clock);
        w->server_up = 0;
    }
    sweep(s);
    hp_job_free(s->job);
}

/* --- a rank's end --- */

/* A frozen server reads nothing: the bytes stay here, as many as the queue holds. */
static size_t
on_queued(void *arg)
{
    const seat *e = arg;
    size_t n = 0;
    for (const frame *f = e->wire ? e->wire->up.first : NULL; f && e->sim->time < e->sim->server_frozen; f = f->next)
        n += f->frame.n + 20;
    return n;
}

static int
on_frame_out(void *arg, hp_frame_type type, const void *payload, size_t n)
{
    seat *e = arg;
    if (type != HP_ABORT && type != HP_LEAVE && type != HP_JOIN && on_queued(e) > e->sim->queue) {
        e->full = 1;
        return 0;
    }
    if (e->wire && e->wire->rank_up && e->wire->rank_sees == HP_NEVER)
        put(e->sim, &e->wire->up, (int)type, payload, n);
    return 1;
}

void
seat_open(control_sim *s, seat *e, const hp_client_options *options, uint64_t clock)
{
    const hp_outlet outlet = {e, on_frame_out, on_queued};
    *e = (seat){.sim = s, .open = 1};
    hp_membership_open(&e->m, options, &outlet, clock);
}

void
seat_reset(seat *e)
{
    control_sim *s = e->sim;
    wire *w = e->wire;
    if (!w || w->rank_sees != HP_NEVER)
        return;
    w->rank_sees = s->time + control_random(s, 20) * HP_MS;
    w->server_sees = s->time + (control_random(s, 8) ? control_random(s, 20) : KEEPALIVE_MS) * HP_MS;
    e->unseen = w->server_sees;
    empty(&w->up);
    empty(&w->down);
}

void
seat_shut(seat *e)
{
    control_sim *s = e->sim;
    wire *w = e->wire;
    if (!w || w->rank_sees != HP_NEVER)
        return;
    w->closed = 1;
    w->rank_sees = s->time + control_random(s, 20) * HP_MS;
    w->server_sees = s->time + control_random(s, 20) * HP_MS;
}

static void
let_go(seat *e, int reset)
{
    wire *w = e->wire;
    e->wire = NULL;
    e->dialling = 0;
    if (!w)
        return;
    if (w->rank_sees == HP_NEVER && reset) {
        w->server_sees = e->sim->time;
        empty(&w->up);
    } else if (w->rank_sees == HP_NEVER && w->server_up) {
        put(e->sim, &w->up, -1, NULL, 0);
    }
    w->rank_up = 0;
    empty(&w->down);
}

void
seat_close(seat *e, int reset)
{
    if (!e->open)
        return;
    let_go(e, reset);
    hp_membership_close(&e->m);
    e->open = 0;
}

static void
dial(seat *e, uint64_t clock)
{
    control_sim *s = e->sim;
    e->hello = hp_membership_dial(&e->m, clock, &e->dial_until);
    e->dialling = 1;
    int waits = e->m.state == HP_CLIENT_JOINING && (e->m.options.comes_back || !e->hello.comm);
    e->refused = !waits ? clock + REFUSED_MS * HP_MS : HP_NEVER;
    e->dial_at = s->time + 2 * control_random(s, (uint64_t)s->slow + 1) * HP_MS;
}

void
seat_obey(seat *e, uint64_t clock)
{
    if (e->m.line == HP_LINE_NONE && (e->wire || e->dialling))
        let_go(e, 0);
    if (hp_membership_wants_dial(&e->m, clock))
        dial(e, clock);
}

void
seat_accept(seat *e)
{
    control_sim *s = e->sim;
    if (!e->open || e->dialling != 1 || e->dial_at > s->time || s->time < s->server_frozen || s->time < s->server_dead)
        return;
    e->status = hp_admission_judge(s->job, &e->hello, 0, s->time);
    e->dialling = 2;
    e->dial_at = s->time + control_random(s, (uint64_t)s->slow + 1) * HP_MS;
    if (e->status)
        return;
    wire *w = calloc(1, sizeof(*w));
    if (!w)
        bail("no memory");
    w->next = s->wires;
    w->rank_up = w->server_up = 1;
    w->rank_sees = w->server_sees = HP_NEVER;
    s->wires = e->wire = w;
    hp_job_enter(s->job, &w->conn, &e->hello);
    w->conn.recalls = 1;
}

static void
end_dial(seat *e, uint64_t clock)
{
    hp_dial_result result = {.fd = -1, .status = e->status, .features = UINT64_MAX};
    if (e->dialling == 2 && e->dial_at <= e->sim->time && (e->status == HP_BUSY || e->status == HP_LATE)) {
        e->dialling = 1;
        return;
    }
    if (e->dialling == 2 && e->dial_at <= e->sim->time) {
        result.fd = e->status ? -1 : 1;
        hp_err_set(&result.error, e->status ? HOOP_ERR_RENDEZVOUS : HOOP_SUCCESS, "the server refuses the rank");
    } else if (clock >= e->refused && e->dialling == 1 && e->sim->time < e->sim->server_dead) {
        let_go(e, 0);
        hp_err_set(&result.error, HOOP_ERR_RENDEZVOUS, "the server no longer listens");
        result.error.sys_errno = ECONNREFUSED;
    } else if (clock >= e->dial_until) {
        let_go(e, 0);
        hp_err_set(&result.error, HOOP_ERR_RENDEZVOUS, "the server does not answer");
    } else {
        return;
    }
    e->dialling = 0;
    hp_membership_dialled(&e->m, &result, clock);
}

/* The frames of one turn; a reset, or an end of file, is the last thing seen. */
static void
receive(seat *e, uint64_t clock)
{
    control_sim *s = e->sim;
    wire *w = e->wire;
    hoop_error error;
    hp_err_clear(&error);
    int over = w->rank_sees <= s->time && !(w->closed && w->down.first);
    if (over && !w->closed)
        hp_err_sys(&error, HOOP_ERR_SYSTEM, ECONNRESET, "the control connection broke");
    for (frame *f; !over && (f = take(s, &w->down)); free(f)) {
        s->steps++;
        over = f->frame.type < 0 || hp_membership_frame(&e->m, &f->frame, clock, &error);
    }
    if (!over)
        return;
    if (error.code == HOOP_ERR_PROTOCOL) {
        diag("a rank: %s", error.text);
        s->broken = 1;
    }
    let_go(e, 0);
    hp_membership_closed(&e->m, &error, clock);
}

void
seat_turn(seat *e, uint64_t clock)
{
    control_sim *s = e->sim;
    s->steps++;
    if (!e->open)
        return;
    if (e->dialling)
        end_dial(e, clock);
    else if (e->wire)
        receive(e, clock);
    if (e->full && on_queued(e) == 0) {
        e->full = 0;
        hp_membership_room(&e->m);
    }
    hp_membership_time(&e->m, clock);
    seat_obey(e, clock);
}
