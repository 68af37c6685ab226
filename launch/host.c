/* SPDX-License-Identifier: MIT */
/*
 * host: what a host's agent says, checked and passed on: output to the screen, deaths to the failure, failures to the
 * job. An agent that ends before it has said that all is over is a failure of its host.
 */
#include "launch/host.h"

#include "base/clock.h"
#include "base/wire.h"
#include "launch/diag.h"
#include "launch/local_addr.h"

#include <signal.h>

enum {
    CALLS_AT_ONCE = 64,         /* remote shells that have not answered yet */
    BACKLOG_STOPPING = 16 << 20 /* output of stopping ranks beyond this is thrown away: nobody is held any more */
};

const char *
hp_host_name(const hp_host *host)
{
    const hp_mapping *mapping = host->run->mapping;
    return mapping->alone.count > 0 ? hp_local_name() : mapping->list->entry[host->host].name;
}

/* --- what it says --- */

static void
greeted(void *arg, hp_agent_conn *conn)
{
    hp_host *p = arg;
    hp_run *j = p->run;
    if (j->options->verbose) {
        hp_diag(j->output, "%s has answered", hp_host_name(p));
        hp_diag_quote(j->output, hp_host_name(p), hp_agent_conn_banner(conn));
        hp_diag_quote(j->output, hp_host_name(p), hp_agent_conn_stderr(conn));
    }
    if (j->phase == HP_CALLING)
        hp_run_greeted(j, p);
    else
        hp_agent_conn_hang_up(conn);
}

static int
rank_of(const hp_run *j, int host, uint32_t rank)
{
    int first = j->mapping->ranks.first[host];
    return rank >= (uint32_t)first && rank < (uint32_t)(first + j->mapping->ranks.count[host]) ? (int)rank : -1;
}

static void
take_output(hp_run *j, int rank, int stream, const uint8_t *bytes, size_t n)
{
    if (j->phase == HP_STOPPING && hp_output_backlog(j->output) > BACKLOG_STOPPING)
        return;
    hp_output_rank(j->output, rank, stream, bytes, n);
    if (stream == 2)
        hp_failure_stderr(&j->failure, rank, bytes, n, hp_output_shown(j->output));
}

static void
rank_ended(hp_host *p, int rank, const uint8_t *bytes)
{
    hp_run *j = p->run;
    hp_rank_exit ending = {.rank = rank,
                           .pid = (int)hp_get32(bytes + 4),
                           .host = hp_host_name(p),
                           .program = j->options->argv[0],
                           .status = (int)hp_get32(bytes + 8),
                           .ms = hp_get64(bytes + 12)};
    hp_output_ended(j->output, rank);
    /* After another status the job is stopped, and what the others say of it would only hide the cause. */
    if (ending.status == 0)
        hp_job_server_rank_exited(&j->server, rank, hp_host_name(p));
    if (hp_failure_exited(&j->failure, &ending) && j->phase != HP_STOPPING)
        hp_run_expect_failures(j);
}

static void
host_failed(hp_host *p, const hp_agent_msg *msg)
{
    hp_run *j = p->run;
    if (j->phase != HP_STOPPING)
        hp_diag(j->output, "%s: %.*s", hp_host_name(p), (int)(msg->size - 4), (const char *)msg->payload + 4);
    p->done = 1;
    j->failure.running -= j->mapping->ranks.count[p->host];
    hp_run_stop(j, (int)(hp_get32(msg->payload) & 255), HP_GRACE);
}

/* What concerns one rank; a rank that is not on that host is none of its business. */
static void
take_rank_packet(hp_host *p, const hp_agent_msg *msg)
{
    hp_run *j = p->run;
    const uint8_t *bytes = msg->payload;
    int rank = rank_of(j, p->host, hp_get32(bytes));
    if (rank < 0)
        return;
    if (msg->type == HP_MSG_STARTED) {
        hp_failure_started(&j->failure, rank);
        if (j->options->verbose)
            hp_diag(j->output, "rank %d runs on %s, pid %u", rank, hp_host_name(p), hp_get32(bytes + 4));
    } else if (msg->type == HP_MSG_OUTPUT && (bytes[4] == 1 || bytes[4] == 2)) {
        take_output(j, rank, bytes[4], bytes + 5, msg->size - 5);
        hp_run_check_output(j);
    } else if (msg->type == HP_MSG_EXIT) {
        rank_ended(p, rank, bytes);
    }
}

static void
take_packet(void *arg, hp_agent_conn *conn, const hp_agent_msg *msg)
{
    hp_host *p = arg;
    (void)conn;
    if (!p->ordered && msg->type != HP_MSG_FAIL)
        return;
    switch (msg->type) {
    case HP_MSG_TAKEN:
        if (p->run->input)
            hp_stdin_taken(p->run->input, hp_get32(msg->payload));
        break;
    case HP_MSG_FAIL: host_failed(p, msg); break;
    case HP_MSG_DONE: p->done = 1; break;
    default: take_rank_packet(p, msg);
    }
}

/* --- its beginning and end --- */

static void
contact_over(void *arg, hp_agent_conn *conn)
{
    hp_host *p = arg;
    hp_run *j = p->run;
    j->over++;
    if (!p->done && j->failure.first.rank >= 0)
        hp_run_report_failure(j);
    if (!p->done && j->phase != HP_STOPPING && j->phase != HP_FINISHED) {
        hp_diag_agent_ended(j->output, hp_host_name(p), conn, &j->mapping->host[p->host].call,
                            p->ordered ? j->failure.running : -1);
        hp_run_stop(j, 1, HP_GRACE);
    }
    if (j->phase == HP_CALLING)
        hp_host_start_more(j);
    if (j->over == j->called && j->failure.first.rank >= 0)
        hp_run_report_failure(j);
    hp_run_finish(j);
}

static void
call_host(hp_host *p)
{
    const hp_agent_conn_owner owner = {p, greeted, take_packet, contact_over};
    const hp_mapped_host *site = &p->run->mapping->host[p->host];
    hp_run *j = p->run;
    hoop_error error;
    p->conn =
        hp_agent_conn_new(j->loop, hp_host_name(p), site->call.item, site->other.item, site->here, &owner, &error);
    if (!p->conn) {
        hp_diag(j->output, "%s", error.text);
        hp_run_stop(j, 1, HP_GRACE);
        return;
    }
    j->called++;
    if (j->options->verbose)
        hp_diag(j->output, "calling %s: %s", hp_host_name(p), hp_agent_conn_command(p->conn));
}

void
hp_host_start_more(hp_run *j)
{
    int i;
    for (i = 0; i < j->hosts; i++) {
        if (j->called - j->greeted - j->over >= CALLS_AT_ONCE || j->phase != HP_CALLING)
            return;
        if (j->mapping->ranks.count[i] > 0 && !j->host[i].conn)
            call_host(&j->host[i]);
    }
}

void
hp_host_send_spec(hp_host *p)
{
    hp_job_server_put_spec(&p->run->server, p->host, hp_agent_conn_out(p->conn));
    p->ordered = 1;
    hp_agent_conn_push(p->conn);
}

void
hp_host_signal(hp_host *p, int number)
{
    if (!p->ordered)
        return;
    hp_agent_msg_put32(hp_agent_conn_out(p->conn), HP_MSG_SIGNAL, (uint32_t)number);
    hp_agent_conn_push(p->conn);
}

void
hp_host_resize(hp_host *p)
{
    if (!p->ordered)
        return;
    hp_winsize_put(hp_agent_conn_out(p->conn), p->run->server.winsize);
    hp_agent_conn_push(p->conn);
}

void
hp_host_stop(hp_host *p, uint64_t grace)
{
    if (!p->conn || hp_agent_conn_status(p->conn) == HP_AGENT_CONN_OVER)
        return;
    if (!p->ordered) {
        hp_agent_conn_hang_up(p->conn);
        if (hp_agent_conn_status(p->conn) == HP_AGENT_CONN_STARTING)
            hp_agent_conn_kill(p->conn, SIGTERM);
        return;
    }
    hp_agent_conn_pause(p->conn, 0);
    hp_agent_msg_put32(hp_agent_conn_out(p->conn), HP_MSG_STOP, (uint32_t)(grace / HP_MS));
    hp_agent_conn_push(p->conn);
}
