/* SPDX-License-Identifier: MIT */
/*
 * server: see server.h. The acceptor lets proven connections in. Each becomes a peer: a control connection, and what its
 * job knows of it (hp_job_conn), which decides. Here are the sockets, the jobs and one timer, and who reads nothing is closed.
 */
#include "rendezvous/server.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/acceptor.h"
#include "net/socket.h"
#include "rendezvous/admission.h"
#include "rendezvous/control_conn.h"
#include "rendezvous/grow.h"
#include "rendezvous/inquiry.h"
#include "rendezvous/job.h"
#include "rendezvous/job_keys.h"
#include "rendezvous/lookout.h"
#include "rendezvous/table.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TICK_MS = 50,
    JOIN_MS = 5000,         /* within which a proven connection must send JOIN */
    UNREAD_MS = 5000,       /* for which output may be blocked */
    GOODBYE_MS = 1000,      /* for which a connection stays open after it was disconnected */
    ROSTER_QUEUE = 16 << 10 /* the next part of a roster is queued only below this */
};

typedef struct peer {
    hp_job_conn conn; /* first: its address is the peer's, the handle of events */
    struct peer *next, **link;
    hp_server *server;
    hp_control_conn *control;
    uint64_t since; /* since it entered, or was disconnected */
    int next_part;  /* the next part of its roster, while there are more */
    int full;       /* its queue overflowed */
} peer;

struct hp_server {
    hp_loop *loop;
    hp_acceptor *acceptor;
    hp_inquiry *inquiry; /* NULL: nobody asks, or it could not be opened */
    hp_timer *tick;
    int ticking;
    hp_server_options options;
    hp_events events;
    int most_conns; /* connections of one job */
    hp_secret *secret;
    hp_job_keys keys; /* of jobs without a proven rank */
    hp_job *jobs;
    peer *peers;
    hp_lookout lookout;
};

static void
arm(hp_server *server)
{
    if (!server->ticking)
        hp_timer_set(server->tick, TICK_MS * HP_MS);
    server->ticking = 1;
}

/* --- events of jobs --- */

static void
on_send(void *arg, void *handle, int type, const void *payload, size_t n)
{
    peer *p = handle;
    if (!hp_control_conn_send(p->control, (hp_frame_type)type, payload, n))
        p->full = 1;
    arm(arg);
}

static void
send_parts(void *arg)
{
    peer *p = arg;
    const hp_roster *roster = p->conn.roster;
    uint8_t payload[HP_CONTROL_MAX];
    while (roster && !p->conn.returned && p->next_part < roster->ring.size &&
           hp_control_conn_queued(p->control) < ROSTER_QUEUE) {
        size_t n = hp_part_put(payload, &roster->ring, p->conn.rank, p->next_part, &p->next_part);
        if (!hp_control_conn_send(p->control, HP_ROSTER, payload, n))
            p->full = 1;
    }
}

static void
on_assign(void *arg, void *handle, hp_roster *roster, int rank)
{
    (void)roster, (void)rank;
    peer *p = handle;
    p->next_part = 0;
    send_parts(p);
    arm(arg);
}

static void
on_disconnect(void *arg, void *handle)
{
    peer *p = handle;
    p->since = hp_loop_now(p->server->loop);
    hp_control_conn_shut(p->control);
    arm(arg);
}

static void
on_summary(void *arg, const char *line)
{
    const hp_server *server = arg;
    hp_events_say(&server->events, HP_NOTICE_SUMMARY, line);
}

static int
on_reached(void *arg, const void *handle)
{
    const peer *p = handle;
    (void)arg;
    return hp_control_conn_arrived(p->control);
}

/* What a ring has done goes to an owner that wants to know. */
static void
on_ended(void *arg, const hp_roster *ring)
{
    const hp_server *server = arg;
    const hp_line_sink lines = {.line = on_summary, .arg = arg};
    if (server->options.summary)
        hp_summary_print(ring, &lines);
}

/* --- peers --- */

/* How many connections of one address the acceptor must expect at once: the ranks of the jobs that are here. */
static void
expect(hp_server *server)
{
    int world = 0;
    for (const hp_job *job = server->jobs; job; job = job->next)
        world += world < HP_WORLD_MAX ? hp_admission_expects(job) : 0;
    hp_acceptor_expect(server->acceptor, world, 0);
}

static void
sweep(hp_server *server)
{
    for (hp_job **at = &server->jobs; *at;) {
        hp_job *job = *at;
        if (!hp_job_idle(job)) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        hp_lookout_forget(&server->lookout, job);
        hp_job_free(job);
    }
    expect(server);
}

/* Frees a peer that its job has forgotten already. */
static void
discard(peer *p)
{
    hp_control_conn_free(p->control);
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    free(p);
}

static void
drop(peer *p, const char *why)
{
    hp_job_lost(&p->conn, why, hp_loop_now(p->server->loop));
    discard(p);
}

static int
on_frame(void *arg, const hp_control_frame *frame, hoop_error *error)
{
    peer *p = arg;
    arm(p->server);
    int result = hp_job_message(&p->conn, frame, hp_loop_now(p->server->loop), error);
    if (result == 0 && frame->type == HP_CLOCK && frame->n == HP_QUESTION_BYTES &&
        !hp_control_conn_queued(
            p->control)) { /* behind other frames the answer would be late, and a rank may not read */
        uint8_t answer[HP_ANSWER_BYTES];
        hp_answer_put(answer, frame->payload, hp_now());
        hp_control_conn_send(p->control, HP_CLOCK, answer, sizeof(answer));
    }
    return result;
}

static void
on_closed(void *arg, const hoop_error *error)
{
    peer *p = arg;
    hp_server *server = p->server;
    char why[300];
    if (!server->acceptor) { /* the server is closed, and the jobs with it */
        discard(p);
        return;
    }
    int broke_rules = error->code == HOOP_ERR_PROTOCOL || error->code == HOOP_ERR_CORRUPT;
    if (broke_rules) {
        snprintf(why, sizeof(why), "it violated the protocol: %s", error->text);
        hp_log_class("rendezvous protocol", HP_LOG_WARN, "%s: closed a control connection: %s", p->conn.job->label,
                     error->text);
    }
    /* a reset, or a host that hears nothing gives up; a process that ends closes its connections */
    if (error->code == HOOP_ERR_SYSTEM || (!error->code && hp_absence_was_silent(&p->conn))) {
        hp_job_broke(&p->conn, hp_loop_now(p->server->loop));
        discard(p);
    } else {
        drop(p, broke_rules ? why : NULL);
    }
    sweep(server);
    arm(server);
}

static const char *
overdue(const peer *p, uint64_t now)
{
    uint64_t blocked = hp_control_conn_blocked_since(p->control);
    if (p->full || (blocked != HP_NEVER && now > blocked && now - blocked > UNREAD_MS * HP_MS))
        return "it does not read the messages of the rendezvous server";
    if (p->conn.done)
        return now - p->since > GOODBYE_MS * HP_MS ? "" : NULL;
    int idle = !p->conn.roster && p->conn.where == HP_BEFORE_JOIN;
    return idle && now - p->since > JOIN_MS * HP_MS ? "it sent no JOIN in time" : NULL;
}

static void
on_tick(void *arg)
{
    hp_server *server = arg;
    uint64_t now = hp_loop_now(server->loop);
    int more = 0, looks = hp_lookout_due(&server->lookout, now);
    server->ticking = 0;
    if (!server->acceptor)
        return; /* it is closed */
    hp_acceptor_lacks(server->acceptor);
    for (hp_job *job = server->jobs; job; job = job->next)
        hp_job_tick(job, now);
    for (peer *p = server->peers, *next; p; p = next) {
        next = p->next;
        if (looks)
            hp_lookout_see(p->control, &p->conn, now);
        const char *why = overdue(p, now);
        if (why)
            drop(p, why);
        else /* whether this peer is closed some day if nothing more happens */
            more |= p->conn.done || hp_control_conn_queued(p->control) ||
                    (!p->conn.roster && p->conn.where == HP_BEFORE_JOIN);
    }
    for (hp_job *job = server->jobs; job; job = job->next)
        more |= hp_lookout_ask(&server->lookout, job, now) | hp_job_timed(job);
    sweep(server);
    if (more)
        arm(server);
    else if (!server->ticking)
        hp_timer_set(server->tick, server->peers ? HP_LOOK_MS * HP_MS : HP_NEVER);
}

/* --- what the acceptor asks --- */

static hp_job *
find_job(const hp_server *server, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    for (hp_job *job = server->jobs; job; job = job->next)
        if (memcmp(job->job_id, job_id, HP_JOB_ID_BYTES) == 0)
            return job;
    return NULL;
}

static hp_job *
open_job(hp_server *server, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    uint64_t seed;
    hp_job *job = find_job(server, job_id);
    if (job || hp_random(&seed, sizeof(seed), NULL))
        return job;
    job = hp_job_new(&server->events, job_id, server->options.job, seed);
    if (job) {
        job->next = server->jobs;
        server->jobs = job;
    }
    return job;
}

static const hp_keys *
on_keys(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    hp_server *server = arg;
    const hp_job *job = find_job(server, job_id);
    return job && job->keys ? job->keys : hp_job_keys_find(&server->keys, server->secret, job_id, server->options.mode);
}

/* A rank of another job, which looks for its own server, is no mistake of this one. */
static int
on_mistrusted(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES], const hp_addr *from)
{
    hp_job *job = find_job(arg, job_id);
    char text[HP_ADDR_TEXT];
    if (!job)
        return HP_LOG_INFO;
    hp_job_mistrust(job, hp_addr_print(from, text));
    return HP_LOG_WARN;
}

static int
on_policy(void *arg, const hp_hello *hello, hp_handshake_policy *policy)
{
    const hp_server *server = arg;
    int asks = hello->role == HP_ROLE_ASK && server->inquiry;
    *policy =
        (hp_handshake_policy){.epoch = server->options.one_attempt && !asks ? server->options.attempt : hello->epoch,
                              .my_rank = HP_RANK_SERVER,
                              .role = asks ? HP_ROLE_ASK : HP_ROLE_CONTROL,
                              .mode = (uint8_t)server->options.mode,
                              .features = HP_FEATURE_STATS | HP_FEATURE_CALL_NAMES | HP_FEATURE_WAITING |
                                          HP_FEATURE_COMEBACK | (server->options.comes_back ? HP_FEATURE_RECALL : 0)};
    return 1;
}

static hp_status
on_judge(void *arg, const hp_hello *hello, const hp_addr *from, uint32_t *assigned)
{
    hp_server *server = arg;
    (void)from;
    *assigned = hello->my_rank;
    if (hello->role == HP_ROLE_ASK && hello->my_rank < HP_WORLD_MAX && server->options.knocked)
        server->options.knocked(server->options.starter.arg, (int)hello->my_rank); /* it asks nothing, and closes */
    if (hello->role == HP_ROLE_ASK)
        return hp_inquiry_has_room(server->inquiry) ? HP_OK : HP_BUSY;
    hp_job *job = open_job(server, hello->job_id);
    arm(server);
    if (job && job->conns >= server->most_conns)
        return HP_BUSY;
    return hp_admission_judge(job, hello, hp_acceptor_lacks(server->acceptor), hp_loop_now(server->loop));
}

static void
on_enter(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *from)
{
    hp_server *server = arg;
    if (hello->role == HP_ROLE_ASK) {
        hp_inquiry_admit(server->inquiry, fd, hello->job_id);
        return;
    }
    peer *p = hp_alloc(1, sizeof(*p));
    hp_control_conn_owner owner = {p, on_frame, send_parts, on_closed};
    hp_job *job = open_job(server, hello->job_id);
    if (p && job)
        p->control = hp_control_conn_new(server->loop, fd, &owner);
    if (!p || !p->control) {
        hp_log_class("rendezvous memory", HP_LOG_WARN, "a control connection is refused: out of memory or descriptors");
        free(p);
        hp_socket_close(fd);
        return;
    }
    const hp_keys *keys = job->keys ? NULL : on_keys(server, hello->job_id);
    if (keys)
        job->keys = hp_keys_hold(keys);
    hp_job_enter(job, &p->conn, hello);
    if (hp_addr_is_link_local(from))
        job->network = *from;
    p->conn.recalls = (features & HP_FEATURE_RECALL) != 0;
    p->conn.starved = hp_acceptor_lacks(server->acceptor) != 0;
    expect(server);
    p->server = server;
    p->since = hp_loop_now(server->loop);
    p->next = server->peers;
    p->link = &server->peers;
    if (p->next)
        p->next->link = &p->next;
    server->peers = p;
    arm(server);
}

/* --- the server itself --- */

static hoop_result
check_mode(const hp_server_options *options, hoop_error *error)
{
    if (options->mode == HP_MODE_AUTH)
        return HOOP_SUCCESS;
    if (options->mode != HP_MODE_NONE)
        return hp_err_set(error, HOOP_ERR_UNSUPPORTED, "the rendezvous server knows the security modes auth and none");
    if (!hp_addr_is_loopback(&options->listen))
        return hp_err_set(
            error, HOOP_ERR_INVALID_ARGUMENT,
            "security mode none is for loopback only, since anyone could join; use mode auth with a secret");
    return HOOP_SUCCESS;
}

static void
on_question(void *arg, const uint8_t *job_id, int rows, int width, hp_buffer *out)
{
    const hp_server *server = arg;
    hp_table_answer(out, server->jobs, &(hp_table_request){job_id, rows, width}, hp_loop_now(server->loop));
}

hp_server *
hp_server_new(hp_loop *loop, const hp_server_options *options, hoop_error *error)
{
    if (check_mode(options, error))
        return NULL;
    hp_server *server = hp_alloc(1, sizeof(*server));
    if (!server) {
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    server->loop = loop;
    server->options = *options;
    server->options.secret = NULL;
    server->most_conns = options->mode == HP_MODE_AUTH && options->secret->of_job ? INT_MAX : hp_admission_share();
    server->events = (hp_events){options->starter, server, on_send, on_assign, on_disconnect, on_reached, on_ended};
    server->tick = hp_timer_new(loop, on_tick, server);
    hp_acceptor_owner owner = {server, on_keys, on_policy, on_judge, on_enter, NULL, NULL, on_mistrusted};
    hp_sock_options sock = {.listener = options->listener};
    server->secret = hp_secmem_new(sizeof(*server->secret));
    if (server->secret && options->mode == HP_MODE_AUTH)
        *server->secret = *options->secret;
    if (server->tick && server->secret)
        server->acceptor = hp_acceptor_new(loop, &options->listen, &options->ports, &sock, &owner, 0, error);
    else
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory");
    if (!server->acceptor) {
        hp_server_free(server);
        return NULL;
    }
    if (options->asked) { /* a server that cannot be asked serves its ranks all the same */
        const hp_inquiry_owner asked = {server, on_question};
        hoop_error why;
        server->inquiry = hp_inquiry_new(loop, &asked, &why);
        if (why.code)
            hp_log(HP_LOG_INFO, "hoop-top cannot ask this server: %s", why.text);
    }
    return server;
}

const hp_addr *
hp_server_addr(const hp_server *server)
{
    return hp_acceptor_addr(server->acceptor);
}

int
hp_server_jobs(const hp_server *server)
{
    int jobs = 0;
    for (const hp_job *job = server->jobs; job; job = job->next)
        jobs++;
    return jobs;
}

void
hp_server_print(const hp_server *server, const hp_table_options *options)
{
    for (const hp_job *job = server->jobs; job; job = job->next)
        hp_table_print(job, options, hp_loop_now(server->loop));
}

void
hp_server_summarize(hp_server *server)
{
    for (const hp_job *job = server->jobs; job; job = job->next)
        for (const hp_roster *r = job->rosters; r; r = r->next)
            on_ended(server, r);
    server->options.summary = 0; /* rings that end now have been told of */
}

uint64_t
hp_server_stalled(const hp_server *server)
{
    return hp_table_stalled(server->jobs, hp_loop_now(server->loop));
}

uint32_t
hp_server_peer_timeout(const hp_server *server)
{
    uint64_t longest = 0;
    for (const hp_job *job = server->jobs; job; job = job->next)
        for (const hp_roster *r = job->rosters; r; r = r->next)
            longest = r->state == HP_ROSTER_RUNNING && r->peer_timeout > longest ? r->peer_timeout : longest;
    return (uint32_t)(longest / HP_MS);
}

int
hp_server_stranded(const hp_server *server)
{
    int waiting = 0;
    for (const hp_job *job = server->jobs; job; job = job->next)
        waiting += hp_grow_stranded(job);
    return waiting;
}

void
hp_server_rank_ended(hp_server *server, const uint8_t job_id[HP_JOB_ID_BYTES], int rank, int size, const char *host)
{
    hp_job *job = open_job(server, job_id);
    if (job)
        hp_job_ended(job, rank, size, host, hp_loop_now(server->loop));
    arm(server);
}

void
hp_server_close(hp_server *server)
{
    uint64_t now = hp_loop_now(server->loop);
    char host[64] = "";
    hoop_error cause;
    gethostname(host, sizeof(host) - 1);
    hp_err_set(
        &cause, HOOP_ERR_RENDEZVOUS,
        "the rendezvous server (%.63s, pid %d) was stopped before all ranks had joined: its program has ended, or "
        "called hoop_server_stop",
        host, (int)getpid());
    cause.phase = HOOP_PHASE_BRINGUP;
    for (hp_job *job = server->jobs; job; job = job->next)
        hp_job_close(job, &cause, now);
    hp_inquiry_free(server->inquiry); /* it would ask for connections that go now */
    server->inquiry = NULL;
    hp_acceptor_free(server->acceptor);
    server->acceptor = NULL;
    for (peer *p = server->peers; p; p = p->next)
        hp_control_conn_shut(p->control);
}

int
hp_server_is_closed(const hp_server *server)
{
    for (const peer *p = server->peers; p; p = p->next)
        if (!hp_control_conn_arrived(p->control))
            return 0;
    return 1;
}

void
hp_server_free(hp_server *server)
{
    if (!server)
        return;
    if (server->acceptor)
        hp_acceptor_free(server->acceptor);
    hp_inquiry_free(server->inquiry);
    for (peer *p = server->peers, *next; p; p = next) {
        next = p->next;
        hp_control_conn_free(p->control);
        free(p);
    }
    while (server->jobs) {
        hp_job *job = server->jobs;
        server->jobs = job->next;
        hp_job_free(job);
    }
    if (server->tick)
        hp_timer_free(server->tick);
    hp_lookout_clear(&server->lookout);
    hp_job_keys_clear(&server->keys);
    hp_secmem_free(server->secret);
    free(server);
}
