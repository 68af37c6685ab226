/* SPDX-License-Identifier: MIT */
/* server_process: see server_process.h. rendezvous/server.c is the server; what it calls becomes messages here. */
#include "launch/server_process.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/wire.h"
#include "launch/job_ranks.h"
#include "launch/streams.h"
#include "rendezvous/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 64 * 1024 };

typedef struct server_process {
    hp_loop *loop;
    hp_server *server;
    hp_job_rank *rank;
    int size, logs;
    uint8_t job_id[HP_JOB_ID_BYTES];
    hp_watch *watch;
    hp_buffer in;
    hp_write_queue out;
    int stranded;          /* as the launcher knows it, */
    uint32_t peer_timeout; /* likewise */
    int rows;              /* of the table that is being told */
    int over, status;
} server_process;

/* --- to the launcher --- */

static void
tell(server_process *p, hp_agent_msg_type type, const void *a, size_t na, const void *b, size_t nb)
{
    hp_agent_msg_put(&p->out.buffer, type, a, na, b, nb);
    hp_write_queue_push(&p->out);
}

/* A line that is too long is none of ours. */
static void
tell_line(void *arg, hp_notice sort, const char *line)
{
    server_process *p = arg;
    const uint8_t head = (uint8_t)sort;
    size_t n = strlen(line) + 1;
    if (n < HP_AGENT_MSG_TEXT && (p->logs || sort != HP_NOTICE_EVENT))
        tell(p, HP_MSG_LINE, &head, 1, line, n);
}

static void
tell_row(void *arg, const char *line)
{
    ((server_process *)arg)->rows++;
    tell_line(arg, HP_NOTICE_WARNING, line);
}

static void
tell_ring_failed(void *arg, const char *split, const hoop_error *cause, uint32_t pid)
{
    uint8_t head[sizeof(*cause) + 5];
    memcpy(head, cause, sizeof(*cause));
    hp_put32(head + sizeof(*cause), pid);
    head[sizeof(*cause) + 4] = split != NULL;
    tell(arg, HP_MSG_RING_FAILED, head, sizeof(head), split ? split : "", split ? strlen(split) + 1 : 1);
}

static void
tell_number(server_process *p, hp_agent_msg_type type, uint32_t number)
{
    hp_agent_msg_put32(&p->out.buffer, type, number);
    hp_write_queue_push(&p->out);
}

static void
tell_knocked(void *arg, int host)
{
    tell_number(arg, HP_MSG_KNOCKED, (uint32_t)host);
}

/* --- what the server asks --- */

static const char *
host_of(void *arg, int rank)
{
    const server_process *p = arg;
    return rank >= 0 && rank < p->size ? p->rank[rank].host : NULL;
}

static hp_process
process_of(void *arg, int rank, uint32_t pid)
{
    const server_process *p = arg;
    return hp_job_rank_process(p->rank, p->size, rank, pid, hp_loop_now(p->loop));
}

/* --- from the launcher --- */

static void
serve(server_process *p, const hp_agent_msg *msg)
{
    static hp_serving serving;
    hp_server_options options = {.mode = HP_MODE_AUTH,
                                 .listener = HP_SERVER_LISTENER,
                                 .secret = &serving.secret,
                                 .job = serving.job,
                                 .asked = 1,
                                 .comes_back = 1,
                                 .starter = {p, tell_line, tell_ring_failed, host_of, process_of},
                                 .knocked = tell_knocked};
    hoop_error error = {.text = "the launcher is another version"};
    if (msg->size == sizeof(serving)) {
        memcpy(&serving, msg->payload, sizeof(serving));
        memcpy(p->job_id, serving.secret.job_id, sizeof(p->job_id));
        p->size = serving.size;
        p->rank = hp_xcalloc((size_t)p->size, sizeof(*p->rank));
        p->logs = serving.logs;
        options.summary = serving.summary;
        p->server = hp_server_new(p->loop, &options, &error);
        hp_wipe(&serving.secret, sizeof(serving.secret)); /* the server has a copy */
    }
    if (!p->server) {
        tell_line(p, HP_NOTICE_WARNING, error.text);
        p->over = p->status = 1;
    }
}

static void
take_rank(server_process *p, const hp_agent_msg *msg)
{
    int rank = hp_job_rank_take(p->rank, p->size, msg, hp_loop_now(p->loop));
    if (rank >= 0) /* it has ended just now */
        hp_server_rank_ended(p->server, p->job_id, rank, p->size, p->rank[rank].host);
}

/* question: u32 its number | u32 lines | u32 columns | u32 1: only if a rank has waited for a second */
static void
print_table(server_process *p, const uint8_t *question)
{
    int most = (int)hp_get32(question + 4);
    const hp_table_options options = {.most = most, .lines = most, .to = {(int)hp_get32(question + 8), tell_row, p}};
    p->rows = 0;
    if (hp_get32(question + 12) && hp_server_stalled(p->server) < HP_SEC)
        return;
    hp_server_print(p->server, &options);
    if (p->rows == 0)
        tell_line(p, HP_NOTICE_WARNING, "no rank is in a ring of hoop now");
}

static void
take_message(server_process *p, const hp_agent_msg *msg)
{
    if (msg->type == HP_MSG_SERVE) {
        if (!p->server)
            serve(p, msg);
    } else if (p->server && msg->type == HP_MSG_SERVED_RANK) {
        take_rank(p, msg);
    } else if (p->server) {
        if (msg->type == HP_MSG_TABLE)
            print_table(p, msg->payload);
        else
            hp_server_summarize(p->server);
        tell(p, HP_MSG_SAID, msg->payload, 4, NULL, 0);
    }
}

static void
readable(void *arg, int ready)
{
    server_process *p = arg;
    hp_agent_msg msg;
    hoop_error error;
    int got = 0;
    (void)ready;
    ssize_t n = read(STDIN_FILENO, hp_xbuffer_room(&p->in, PIECE), PIECE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    hp_buffer_grown(&p->in, n > 0 ? (size_t)n : 0);
    while (n > 0 && (got = hp_agent_msg_get(&p->in, HP_TO_SERVER, &msg, &error)) > 0) {
        take_message(p, &msg);
        hp_agent_msg_done(&p->in, &msg);
    }
    p->over |= n <= 0 || got < 0;
}

/* --- life --- */

int
hp_server_process_main(void)
{
    server_process p = {.loop = hp_loop_new()};
    struct sockaddr_storage at;
    socklen_t n = sizeof(at);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "hoop-launch"); /* it may have been started as /proc/self/exe; hoop-top looks for the name */
    if (getsockname(STDIN_FILENO, (struct sockaddr *)&at, &n) < 0 || at.ss_family != AF_UNIX) {
        fprintf(stderr,
                "hooprun: hoop-launch --serve is started by hooprun only; hoop-rendezvous is a server by hand\n");
        return 2;
    }
    if (!p.loop || hp_write_queue_open(&p.out, p.loop, STDIN_FILENO) < 0)
        return 1;
    p.watch = hp_watch_new(p.loop, STDIN_FILENO, readable, &p);
    p.over = p.status = !p.watch || hp_watch_set(p.watch, HP_READ) < 0;
    while (!p.over) {
        hp_loop_run(p.loop, HP_NEVER);
        int stranded = p.server ? hp_server_stranded(p.server) : 0;
        if (stranded != p.stranded)
            tell_number(&p, HP_MSG_STRANDED, (uint32_t)stranded);
        p.stranded = stranded;
        uint32_t ms = p.server ? hp_server_peer_timeout(p.server) : 0;
        if (ms && ms != p.peer_timeout)
            tell_number(&p, HP_MSG_PEER_TIMEOUT, ms);
        p.peer_timeout = ms ? ms : p.peer_timeout;
    }
    hp_server_free(p.server);
    hp_job_ranks_free(p.rank, p.size);
    hp_write_queue_close(&p.out);
    hp_watch_free(p.watch);
    hp_buffer_free(&p.in);
    hp_loop_free(p.loop);
    return p.status;
}
