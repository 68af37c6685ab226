/* SPDX-License-Identifier: MIT */
/*
 * fuzz_rdv: members that break the protocol, at the rendezvous server's state (job.c and all below it), through a
 * transport in memory and a clock of its own. The input is a script of short commands: connect, send a well-formed or
 * a raw frame, vanish, let time pass; the server dies, and is told of rings. Whatever happens, nothing is sent to a closed connection, no rank receives GO
 * or a cause twice, every roster is a ring, and nothing is left at the end. A script that begins with 0xFF is one
 * message for a client's decoders.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/wire.h"
#include "fuzz/fuzz.h"
#include "lib/peer_heartbeat.h"
#include "rendezvous/admission.h"
#include "rendezvous/job.h"
#include "rendezvous/job_state.h"

#include <string.h>

const char fuzz_name[] = "rdv";

enum { GUESTS = 8, RING_MAX = 300 };
enum {
    ENTER,
    JOIN,
    SPLIT,
    READY,
    REPORT,
    OUT,
    LEAVE,
    ABORT,
    RAW,
    LOSE,
    PASS,
    ENDED,
    STATS,
    WAITING,
    DIE,
    COME,
    COMMANDS
};

typedef struct incoming {
    hp_job_conn conn; /* first: a guest's address is its connection's */
    int present, go, causes, disconnected;
    uint64_t comm;
} incoming;

/* The last ring of each guest, which it tells a server that was started again. */
typedef struct known {
    hp_ring ring;
    hp_member members[GUESTS];
    int order[GUESTS];
} known;

static incoming incomings[GUESTS];
static known rings[GUESTS];
static uint64_t now, last_comm;
static hp_job *job;

static void
on_tell(void *arg, void *peer, int type, const void *payload, size_t n)
{
    incoming *v = peer;
    hoop_error error;
    (void)arg;
    fuzz_check(v->present && n <= HP_CONTROL_MAX);
    fuzz_check(type == HP_GO || type == HP_PING || type == HP_ROSTER || type == HP_ABORT || type == HP_REFUSED ||
               (type == HP_RECALL && n == 1));
    v->go += type == HP_GO;
    v->causes += type == HP_ABORT || type == HP_REFUSED;
    if (type == HP_ABORT || type == HP_REFUSED)
        fuzz_check(hp_abort_get(&error, payload, n) && error.code != HOOP_SUCCESS);
    fuzz_check(v->go <= 1 && v->causes <= 1);
}

static void
on_assign(void *arg, void *peer, hp_roster *roster, int rank)
{
    incoming *v = peer;
    known *k = &rings[v - incomings];
    int from = 0;
    uint8_t bytes[HP_CONTROL_MAX];
    hp_part part;
    (void)arg;
    fuzz_check(v->present && roster->ring.size <= GUESTS);
    k->ring = roster->ring;
    k->ring.rank = rank;
    k->ring.order = k->order;
    k->ring.members = k->members;
    size_t n = hp_part_put(bytes, &roster->ring, rank, 0, &from);
    fuzz_check(from == k->ring.size && hp_part_get(&part, bytes, n) && part.rank == rank);
    fuzz_check(hp_part_members(&part, k->members, k->order) && hp_ring_close(&k->ring));
    v->comm = last_comm = part.comm;
}

static void
on_disconnect(void *arg, void *peer)
{
    incoming *v = peer;
    (void)arg;
    fuzz_check(v->present && v->disconnected == 0);
    v->disconnected = 1;
}

static void
on_say(void *arg, hp_notice sort, const char *line)
{
    (void)arg, (void)sort;
    fuzz_check(strncmp(line, "job ", 4) == 0);
}

static hp_process
on_process(void *arg, int rank, uint32_t pid)
{
    (void)arg, (void)rank;
    return (hp_process)(pid % 3);
}

static const char *
on_host_of(void *arg, int rank)
{
    (void)arg;
    return rank % 3 ? "node" : NULL;
}

static void
on_ended(void *arg, const hp_roster *ring)
{
    (void)arg;
    (void)ring;
}

static int
on_reached(void *arg, const void *peer)
{
    (void)arg;
    (void)peer;
    return 0;
}

static void
on_failed(void *arg, const char *split, const hoop_error *cause, uint32_t pid)
{
    (void)arg, (void)pid;
    fuzz_check(!split || strncmp(split, "split ", 6) == 0 || strncmp(split, "epoch ", 6) == 0);
    fuzz_check(cause->code != HOOP_SUCCESS && cause->text[0] != 0);
}

static void
lose(incoming *v)
{
    if (!v->present)
        return;
    v->present = 0;
    hp_job_lost(&v->conn, NULL, now);
}

static void
say(incoming *v, int type, const uint8_t *payload, size_t n)
{
    hoop_error error;
    hp_err_clear(&error);
    if (!v->present)
        return;
    const hp_control_frame frame = {type, payload, n};
    int result = hp_job_message(&v->conn, &frame, now, &error);
    fuzz_check(result == 0 || error.code == HOOP_ERR_PROTOCOL);
    if (result)
        lose(v);
}

static void
enter(incoming *v, uint32_t rank, uint32_t world, uint64_t parent)
{
    hp_hello hello = {.comm = parent, .my_rank = rank, .world = world};
    if (v->present || hp_admission_judge(job, &hello, 0, now) != HP_OK)
        return;
    memset(v, 0, sizeof(*v));
    v->present = 1;
    hp_job_enter(job, &v->conn, &hello);
}

static void
join(incoming *v, fuzz_script *s, uint64_t parent)
{
    uint8_t bytes[HP_CONTROL_MAX];
    int world = fuzz_next(s) % 5 + 1, rank = fuzz_next(s) % (world + 1) - (parent == 0);
    if (rank >= world)
        return;
    hp_join said = {
        .member = {.rank = parent ? -1 : rank, .host = "h", .host_id = fuzz_next(s) % 3, .pid = fuzz_next(s)},
        .size = parent ? 0 : world,
        .patience = fuzz_next(s) * 20u,
        .op_timeout = fuzz_next(s) * 10 * HP_MS,
        .parent = parent,
        .parent_rank = parent ? rank : -1,
        .parent_size = parent ? world : 0,
        .color = parent ? (int)(fuzz_next(s) % 4) - 1 : 0,
        .agree = "k=1\nl=2\n",
        .agree_n = fuzz_next(s) % 16 ? 8 : 4};
    said.member.addr.u.v4.sin_family = AF_INET;
    said.member.addr.length = sizeof(said.member.addr.u.v4);
    enter(v, rank < 0 ? HP_RANK_UNKNOWN : (uint32_t)rank, (uint32_t)world, parent);
    say(v, HP_JOIN, bytes, hp_join_put(bytes, &said));
}

static void
die(void)
{
    static const uint8_t job_id[HP_JOB_ID_BYTES];
    const hp_events *events = job->owner;
    for (int i = 0; i < GUESTS; i++)
        incomings[i].present = 0;
    uint64_t seed = job->next_comm + 1000;
    hp_job_free(job);
    job = hp_job_new(events, job_id, NULL, seed);
    fuzz_check(job);
}

/* As a member of a ring, or as one that makes something of it. */
static void
come(incoming *v, fuzz_script *s)
{
    const hp_ring *ring = &rings[fuzz_next(s) % GUESTS].ring;
    uint8_t bytes[HP_CONTROL_MAX], how = fuzz_next(s);
    if (!ring->size)
        return;
    hp_join said = {.member = ring->members[ring->rank],
                    .digest = hp_ring_digest(ring) + (how % 32 == 31),
                    .parent_rank = -1,
                    .epoch = ring->epoch,
                    .ring = ring->comm,
                    .size = ring->size,
                    .patience = 5000,
                    .agree = "k=1\nl=2\n",
                    .agree_n = 8};
    if (how & 1) {
        said.ring = 0;
        said.size = 0;
        said.member.rank = -1;
        said.parent = ring->comm;
        said.parent_rank = ring->rank;
        said.parent_size = ring->size;
        said.epoch = fuzz_next(s);
        said.split = how / 2 % 4;
        said.color = said.split ? how / 8 % 4 - 1 : 0;
        said.shrink = how / 2 % 4 == 0;
        said.grow = !said.shrink && how / 32 % 4 == 3;
        said.color = said.grow ? 0 : said.color;
    }
    enter(v, (uint32_t)ring->rank, (uint32_t)ring->size, ring->comm);
    v->conn.recalls = how % 16 != 15;
    say(v, said.shrink ? HP_SHRINK : said.grow ? HP_GROW : HP_JOIN, bytes, hp_join_put(bytes, &said));
}

static void
tell(incoming *v, fuzz_script *s)
{
    const hp_ring *ring = &rings[fuzz_next(s) % GUESTS].ring;
    uint8_t bytes[HP_CONTROL_MAX], how = fuzz_next(s);
    hp_statement said = {.origin = {.lineage = ring->comm, .parent = last_comm, .split = how % 4, .color = how / 4 % 2},
                         .epoch = ring->epoch,
                         .standing = (hp_standing)(how / 8 % 4),
                         .patience = how * 100u,
                         .placed = how / 16 % 4};
    hp_statement_put(bytes, &said);
    say(v, HP_RECALL, bytes, HP_RECALL_BYTES);
    for (int next = 0; how < 200 && next < ring->size;)
        say(v, HP_ROSTER, bytes, hp_part_put(bytes, ring, ring->rank, next, &next));
}

/* Rank -1: no longer. */
static void
wait_for_message(incoming *v, const hp_report *report)
{
    uint8_t bytes[HP_WAITING_BYTES];
    hp_waiting waiting = {.since = report->step * HP_SEC, .awaited = report->awaited};
    waiting.call = (hp_call){.kind = report->awaited.rank < 0 ? 0 : HP_RECV, .count = 5};
    hp_waiting_put(bytes, &waiting);
    say(v, HP_WAITING, bytes, sizeof(bytes));
}

static void
say_something(incoming *v, int command, fuzz_script *s)
{
    uint8_t bytes[HP_CONTROL_MAX] = {0};
    hp_report report = {.sequence = fuzz_next(s), .step = fuzz_next(s), .awaited.rank = (int)(fuzz_next(s) % 7) - 1};
    hoop_error cause;
    report.awaited.what = report.step & 1 ? HP_WAIT_LINK : HP_WAIT_PEER;
    report.call.kind = HP_BARRIER;
    report.call_name = report.step & 127;
    switch (command) {
    case READY: say(v, HP_READY, NULL, 0); break;
    case REPORT:
        hp_report_put(bytes, &report);
        say(v, HP_PROGRESS, bytes, HP_REPORT_BYTES);
        break;
    case STATS:
        hp_vitals_put(bytes, &(hp_vitals){.at = report.step, .sent = report.sequence});
        say(v, HP_STATS, bytes, HP_VITALS_BYTES);
        break;
    case WAITING: wait_for_message(v, &report); break;
    case OUT:
    case LEAVE:
        bytes[0] = (uint8_t)report.sequence;
        say(v, command == OUT ? HP_OUT : HP_LEAVE, bytes, HP_COUNT_BYTES);
        break;
    default:
        hp_err_set(&cause, HOOP_ERR_ABORTED, "why");
        cause.rank = report.awaited.rank;
        say(v, HP_ABORT, bytes, hp_abort_put(bytes, &cause));
    }
}

static void
say_raw(incoming *v, fuzz_script *s)
{
    int type = fuzz_next(s);
    size_t n = fuzz_next(s);
    n = n < s->left ? n : s->left;
    const uint8_t *payload = s->at;
    s->at += n;
    s->left -= n;
    say(v, type, payload, n);
}

static void
pass(int ticks)
{
    for (; ticks > 0; ticks--) {
        now += 50 * HP_MS;
        hp_job_tick(job, now);
    }
}

static void
ended(fuzz_script *s)
{
    int size = fuzz_next(s) % 5 + 1;
    hp_job_ended(job, fuzz_next(s) % size, size, "h", now);
}

static void
run(fuzz_script *s)
{
    uint8_t byte = fuzz_next(s);
    incoming *v = &incomings[byte >> 4 & 7];
    int command = byte & 15;
    switch (command) {
    case ENTER: enter(v, fuzz_next(s), fuzz_next(s), byte & 128 ? last_comm : 0); break;
    case JOIN: join(v, s, 0); break;
    case SPLIT: join(v, s, last_comm ? last_comm : 1); break;
    case RAW: say_raw(v, s); break;
    case LOSE: lose(v); break;
    case PASS: pass(fuzz_next(s)); break;
    case ENDED: ended(s); break;
    case DIE: die(); break;
    case COME: byte & 128 ? tell(v, s) : come(v, s); break;
    default:
        if (command < COMMANDS)
            say_something(v, command, s);
    }
}

/* What either side decodes: a roster, a report, a refused call, ticks or a JOIN. */
static void
decode(const uint8_t *in, size_t n)
{
    hp_part part;
    hp_join said;
    hp_report report;
    hoop_error cause;
    uint32_t split;
    hp_loss loss;
    hp_unstarted unstarted;
    hp_waiting waiting;
    char name[HP_CALL_NAME_TEXT];
    int number;
    static const int ring[GUESTS] = {0, 1, 2, 3, 4, 5, 6, 7};
    hp_heartbeats *ticks = hp_heartbeats_new(GUESTS, 2, ring);
    static hp_member members[RING_MAX];
    static int order[RING_MAX];
    if (hp_part_get(&part, in, n) && part.size > 0 && part.size <= RING_MAX && part.first == 0 &&
        part.count == part.size && hp_part_members(&part, members, order)) {
        hp_ring told = {.size = part.size, .order = order, .members = members};
        if (hp_ring_close(&told))
            for (int i = 0; i < part.size; i++)
                fuzz_check(members[i].rank == i && order[i] >= 0 && order[i] < part.size);
    }
    if (hp_join_get(&said, in, n)) {
        uint8_t again[HP_CONTROL_MAX];
        fuzz_check(strlen(said.member.host) < HP_HOST_TEXT && said.member.rank >= -1);
        fuzz_check(hp_join_put(again, &said) == n);
    }
    if (ticks && hp_heartbeats_receive(ticks, in, n, 1)) {
        hp_blame blame = hp_heartbeats_blame(ticks, 1, 1);
        uint8_t out[HP_HEARTBEATS_BYTES];
        fuzz_check(blame.rank >= -1 && blame.rank < GUESTS && blame.other >= -1 && blame.other < GUESTS);
        for (; hp_heartbeats_put(ticks, 1, out); hp_heartbeats_taken(ticks))
            fuzz_check(hp_get32(out) < GUESTS && hp_get32(out) != 1 && hp_get64(out + 12) > 0);
    }
    hp_heartbeats_free(ticks);
    if (hp_refusal_get(&split, &cause, in, n))
        fuzz_check(n >= 4 && cause.code != HOOP_SUCCESS);
    if (hp_report_get(&report, in, n))
        fuzz_check(report.sequence > 0 && report.awaited.rank >= -1 && report.call_name < 128 && report.call.fused < 2);
    if (hp_waiting_get(&waiting, in, n) && waiting.call.kind)
        fuzz_check(waiting.awaited.what > HP_WAIT_NONE && waiting.awaited.what < HP_WAITS &&
                   hp_wait_is_for_rank(waiting.awaited.what) == (waiting.awaited.rank >= 0));
    if (hp_call_name_get(&number, name, in, n))
        fuzz_check(number > 0 && number <= HP_CALL_NAMES && strlen(name) > 0 && strlen(name) < sizeof(name));
    if (hp_loss_get(&loss, in, n))
        fuzz_check(loss.peer >= 0 && loss.peer < HP_WORLD_MAX && loss.number >= 0);
    if (hp_unstarted_get(&unstarted, in, n))
        fuzz_check(unstarted.sequence > 0 && unstarted.cause.code != HOOP_SUCCESS);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t job_id[HP_JOB_ID_BYTES];
    hp_events events = {{NULL, on_say, on_failed, on_host_of, on_process},
                        NULL,
                        on_tell,
                        on_assign,
                        on_disconnect,
                        on_reached,
                        on_ended};
    fuzz_script s = {data, size};
    if (size > 0 && data[0] == 0xFF) {
        decode(data + 1, size - 1);
        return 0;
    }
    memset(incomings, 0, sizeof(incomings));
    memset(rings, 0, sizeof(rings));
    now = HP_SEC;
    last_comm = 0;
    job = hp_job_new(&events, job_id, NULL, 7);
    fuzz_check(job);
    while (s.left > 0)
        run(&s);
    for (int i = 0; i < GUESTS; i++)
        lose(&incomings[i]);
    pass(140);           /* ranks that are away may come back for some seconds */
    job->ended.size = 0; /* the job is kept for that only */
    fuzz_check(hp_job_idle(job));
    hp_job_free(job);
    return 0;
}
