/* SPDX-License-Identifier: MIT */
/* sim: see sim.h. */
#include "t/rendezvous/sim.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/wire.h"
#include "rendezvous/hold_up.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
drop_ring(sim_conn *g)
{
    free(g->ring.members);
    free(g->ring.order);
    memset(&g->ring, 0, sizeof(g->ring));
}

static void
on_tell(void *arg, void *peer, int type, const void *payload, size_t n)
{
    sim_conn *g = peer;
    if (!g->present)
        bail("a message of type %d was sent to one who is not there", type);
    if (type == HP_ROSTER)
        g->empty++;
    g->go += type == HP_GO;
    g->pings += type == HP_PING;
    if (type != HP_ABORT && type != HP_REFUSED)
        return;
    if (g->causes++ == 0) {
        g->cause_type = type;
        if (!hp_abort_get(&g->cause, payload, n))
            bail("a cause that cannot be read");
    }
}

/* Takes the roster as a client would: through its bytes. */
static void
on_assign(void *arg, void *peer, hp_roster *roster, int rank)
{
    sim_conn *g = peer;
    uint8_t bytes[HP_CONTROL_MAX];
    hp_part part;
    drop_ring(g);
    g->joined++;
    g->rank = rank;
    for (int next = 0; next < roster->ring.size;) {
        size_t n = hp_part_put(bytes, &roster->ring, rank, next, &next);
        if (!hp_part_get(&part, bytes, n))
            bail("a roster that cannot be read");
        if (!g->ring.members) {
            g->ring = (hp_ring){.comm = part.comm,
                                .epoch = part.epoch,
                                .rank = part.rank,
                                .size = part.size,
                                .least = part.least,
                                .most = part.most};
            g->ring.members = calloc((size_t)part.size, sizeof(hp_member));
            g->ring.order = calloc((size_t)part.size, sizeof(int));
        }
        if (!hp_part_members(&part, g->ring.members, g->ring.order))
            bail("a roster part that cannot be read");
    }
    if (!hp_ring_close(&g->ring))
        bail("a ring that is none");
}

static void
on_disconnect(void *arg, void *peer)
{
    sim_conn *g = peer;
    g->disconnected++;
}

static void
on_say(void *arg, hp_notice sort, const char *line)
{
    sim *s = arg;
    if (sort == HP_NOTICE_WARNING) {
        s->warnings++;
        snprintf(s->warning, sizeof(s->warning), "%s", line);
    } else {
        s->lines++;
        snprintf(s->line, sizeof(s->line), "%s", line);
    }
}

static void
on_failed(void *arg, const char *split, const hoop_error *cause, uint32_t pid)
{
    sim *s = arg;
    s->failures++;
    s->failed_pid = pid;
    snprintf(s->failed_split, sizeof(s->failed_split), "%s", split ? split : "");
    s->failure = *cause;
}

static int
on_reached(void *arg, const void *peer)
{
    const sim_conn *g = peer;
    return !g->cut_off;
}

static const char *
on_host_of(void *arg, int rank)
{
    static char host[32];
    const sim *s = arg;
    snprintf(host, sizeof(host), "node%d", s->per_host ? rank / s->per_host + 1 : 0);
    return s->per_host ? host : NULL;
}

static hp_process
on_process(void *arg, int rank, uint32_t pid)
{
    const sim *s = arg;
    return s->held == rank ? HP_PROCESS_STOPPED : s->held >= 0 ? HP_PROCESS_RUNS : HP_PROCESS_UNKNOWN;
}

static void
on_ended(void *arg, const hp_roster *ring)
{
    sim *s = arg;
    s->ended++;
}

void
sim_open(sim *s)
{
    static const uint8_t job_id[HP_JOB_ID_BYTES] = {0x4f, 0x21, 0xc0, 0xde};
    memset(s, 0, sizeof(*s));
    const hp_starter starter = {s, on_say, on_failed, on_host_of, on_process};
    s->events = (hp_events){starter, s, on_tell, on_assign, on_disconnect, on_reached, on_ended};
    s->held = -1;
    s->now = 1000 * HP_SEC;
    s->job = hp_job_new(&s->events, job_id, NULL, UINT64_MAX - 1);
    if (!s->job)
        bail("no hall");
}

void
sim_close(sim *s)
{
    for (int g = 0; g < SIM_MAX; g++) {
        sim_lose(s, g);
        drop_ring(&s->conns[g]);
    }
    sim_pass(s, HP_RETURN_MS + 500);                  /* a ring is kept for ranks that may dial again, */
    sim_pass(s, hp_job_idle(s->job) ? 0 : 60 * 1000); /* and longer for one that was cut off */
    s->job->ended.size = 0;                           /* for that alone it is kept */
    if (!hp_job_idle(s->job))
        bail("something is left in an empty hall");
    hp_job_free(s->job);
}

hp_join
sim_join_of(int rank, int size, int per_host)
{
    int host = rank < 0 ? 0 : rank / per_host;
    hp_join join = {.member = {.rank = rank, .host_id = (uint64_t)host + 100, .pid = (uint32_t)(rank + 800)},
                    .size = size,
                    .patience = 5000,
                    .op_timeout = 2 * HP_SEC,
                    .parent_rank = -1,
                    .agree = "slice=1\n",
                    .agree_n = 8};
    snprintf(join.member.host, HP_HOST_TEXT, "node%d", host + 1);
    if (hp_addr_parse(&join.member.addr, "10.0.0.1:4000", NULL))
        bail("no address");
    return join;
}

hp_join
sim_derived_of(const sim *s, int member)
{
    const sim_conn *was = &s->conns[member];
    hp_join join = sim_join_of(was->rank, was->ring.size, 1);
    join.member = was->ring.members[was->rank];
    join.member.rank = -1;
    join.parent = was->ring.comm;
    join.parent_rank = was->rank;
    join.parent_size = join.size = was->ring.size;
    join.digest = hp_ring_digest(&was->ring);
    join.warn_after = HP_SEC / 2;
    return join;
}

int
sim_has_ring(const sim *s, int g, int rank, int size, uint32_t epoch)
{
    const sim_conn *c = &s->conns[g];
    return c->joined == 1 && c->rank == rank && c->ring.size == size && c->ring.epoch == epoch;
}

int
sim_enter(sim *s, int g, const hp_join *join)
{
    int rank = join->parent ? join->parent_rank : join->member.rank;
    hp_hello hello = {.comm = join->parent,
                      .my_rank = rank < 0 ? HP_RANK_UNKNOWN : (uint32_t)rank,
                      .world = (uint32_t)(join->parent ? join->parent_size : join->size)};
    hp_status status = hp_admission_judge(s->job, &hello, 0, s->now);
    if (status)
        return (int)status;
    drop_ring(&s->conns[g]);
    memset(&s->conns[g], 0, sizeof(s->conns[g]));
    s->conns[g].present = 1;
    hp_job_enter(s->job, &s->conns[g].conn, &hello);
    return HP_OK;
}

int
sim_say(sim *s, int g, int type, const void *payload, size_t n)
{
    hoop_error error;
    uint8_t *exact = malloc(n ? n : 1);
    if (n)
        memcpy(exact, payload, n);
    const hp_control_frame frame = {type, exact, n};
    int result = hp_job_message(&s->conns[g].conn, &frame, s->now, &error);
    free(exact);
    return result;
}

int
sim_join(sim *s, int g, const hp_join *join)
{
    uint8_t bytes[HP_CONTROL_MAX];
    if (sim_enter(s, g, join))
        return -1;
    return sim_say(s, g, join->shrink ? HP_SHRINK : join->grow ? HP_GROW : HP_JOIN, bytes, hp_join_put(bytes, join));
}

int
sim_report(sim *s, int g, uint64_t sequence, uint64_t step, int waits_for)
{
    hp_report report = {.sequence = sequence, .step = step, .awaited = {HP_WAIT_PEER, waits_for}};
    return sim_in_op(s, g, HP_IN_OP, &report);
}

int
sim_in_op(sim *s, int g, int type, const hp_report *report)
{
    uint8_t bytes[HP_REPORT_BYTES];
    hp_report_put(bytes, report);
    return sim_say(s, g, type, bytes, sizeof(bytes));
}

int
sim_count(sim *s, int g, int type, uint64_t count)
{
    uint8_t bytes[HP_COUNT_BYTES];
    hp_put64(bytes, count);
    return sim_say(s, g, type, bytes, sizeof(bytes));
}

int
sim_abort(sim *s, int g, hoop_result code, int rank, const char *text)
{
    uint8_t bytes[HP_ABORT_BYTES];
    hoop_error error;
    hp_err_set(&error, code, "%s", text);
    error.rank = rank;
    return sim_say(s, g, HP_ABORT, bytes, hp_abort_put(bytes, &error));
}

static int
say_lost(sim *s, int g, hp_loss loss)
{
    uint8_t bytes[HP_LOSS_BYTES];
    hp_loss_put(bytes, &loss);
    return sim_say(s, g, HP_LOST, bytes, sizeof(bytes));
}

int
sim_lost(sim *s, int g, int peer, int number, uint64_t sequence)
{
    return say_lost(s, g, (hp_loss){peer, number, sequence, 0});
}

int
sim_repairs(sim *s, int g, int peer, int number, uint64_t sequence)
{
    return say_lost(s, g, (hp_loss){peer, number, sequence, 1});
}

void
sim_break(sim *s, int g)
{
    s->conns[g].present = 0;
    hp_job_broke(&s->conns[g].conn, s->now);
}

int
sim_return(sim *s, int g, const sim_conn *was, uint64_t completed)
{
    uint8_t bytes[HP_CONTROL_MAX];
    const hp_ring *ring = &was->ring;
    sim_conn *conn = &s->conns[g];
    hp_join join = {.member = ring->members[was->rank],
                    .size = ring->size,
                    .ring = ring->comm,
                    .epoch = ring->epoch,
                    .digest = hp_ring_digest(ring),
                    .started = completed + 1,
                    .completed = completed,
                    .parent_rank = -1,
                    .agree = "slice=1\n",
                    .agree_n = 8};
    hp_hello hello = {.comm = ring->comm, .my_rank = (uint32_t)was->rank, .world = (uint32_t)ring->size};
    size_t n = hp_join_put(bytes, &join);
    if (hp_admission_judge(s->job, &hello, 0, s->now))
        return -1;
    if (conn == was)
        conn->causes = conn->go = conn->disconnected = 0;
    else
        memset(conn, 0, sizeof(*conn));
    conn->present = 1;
    hp_job_enter(s->job, &conn->conn, &hello);
    return sim_say(s, g, HP_JOIN, bytes, n);
}

void
sim_lose(sim *s, int g)
{
    if (!s->conns[g].present)
        return;
    s->conns[g].present = 0;
    hp_job_lost(&s->conns[g].conn, NULL, s->now);
}

void
sim_pass(sim *s, int ms)
{
    for (int passed = 0; passed < ms; passed += 50) {
        s->now += 50 * HP_MS;
        hp_job_tick(s->job, s->now);
    }
}

void
sim_world(sim *s, int n, int per_host)
{
    int order[SIM_MAX];
    tap_shuffle(order, n);
    for (int i = 0; i < n; i++) {
        hp_join join = sim_join_of(order[i], n, per_host);
        if (sim_join(s, order[i], &join))
            bail("rank %d could not join", order[i]);
    }
    for (int i = 0; i < n; i++)
        if (sim_say(s, order[i], HP_READY, NULL, 0) || s->conns[order[i]].joined != 1)
            bail("rank %d has no seat", order[i]);
}

int
sim_told(const sim *s, int n, int except, hoop_result code, int rank)
{
    int told = 0;
    for (int i = 0; i < n; i++) {
        const sim_conn *g = &s->conns[i];
        told += i != except && g->present && g->causes == 1 && g->cause.code == code && g->cause.rank == rank;
    }
    return told;
}

const char *
sim_late(const sim *s, const hp_roster *ring, uint64_t stalled, char *out, size_t size)
{
    hp_whereabouts where = hp_whereabouts_take(s->job, NULL, s->now);
    hp_hold_up_find(&where, ring, stalled, out, size);
    hp_whereabouts_free(&where);
    return out;
}

void
sim_ring(sim *s, int n, int per_host, uint64_t op_timeout)
{
    sim_open(s);
    for (int i = 0; i < n; i++) {
        hp_join join = sim_join_of(i, n, per_host);
        join.op_timeout = op_timeout;
        sim_join(s, i, &join);
    }
    for (int i = 0; i < n; i++)
        sim_say(s, i, HP_READY, NULL, 0);
}

void
sim_split(sim *s, int at, int from, uint64_t op_timeout)
{
    const hp_ring ring = s->job->rosters->ring;
    for (int i = 0; i < ring.size; i++) {
        hp_join join = sim_join_of(-1, 0, 1);
        join.parent = ring.comm;
        join.split = 1;
        join.parent_rank = i;
        join.parent_size = ring.size;
        join.color = i < from ? -1 : 0;
        join.op_timeout = op_timeout;
        join.member = ring.members[i];
        join.member.rank = -1;
        sim_join(s, at + i, &join);
    }
    for (int i = from; i < ring.size; i++)
        sim_say(s, at + i, HP_READY, NULL, 0);
}
