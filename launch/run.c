/* SPDX-License-Identifier: MIT */
/*
 * job: the launcher's life. CALLING: agents are started, until all have greeted; then the server listens and all get
 * their orders at once. RUNNING: until every rank has ended. STOPPING: a rank failed, a host was lost, the time is up
 * or the user said so: TERM, a grace, KILL. It is over when every agent's process is reaped and the output is written.
 * The first cause decides the exit status; what follows from it is not reported.
 */
#include "launch/run.h"

#include "base/clock.h"
#include "base/err.h"
#include "launch/diag.h"
#include "launch/host.h"
#include "launch/local_addr.h"
#include "launch/terminal.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKLOG_HIGH = 1024 * 1024, BACKLOG_LOW = 256 * 1024 }; /* output that waits for a slow reader */

#define GREETING_LIMIT (60 * HP_SEC)
#define LAST_RESORT (2 * HP_SEC)  /* after KILL the agents should be gone */
#define DELIBERATION (50 * HP_MS) /* failures that come together are judged together */

static const char *
plural(int n)
{
    return n == 1 ? "" : "s";
}

/* --- stopping --- */

/* All agents are gone; what is left is output that a slow reader has not taken. Who said stop does not wait for him. */
void
hp_run_finish(hp_run *j)
{
    if (j->over != j->called)
        return;
    hp_output_all_ended(j->output);
    if (hp_output_backlog(j->output) == 0 || j->hurry) {
        j->phase = HP_FINISHED;
    } else if ((j->by_signal || j->last_resort) && !j->flushing) {
        j->flushing = 1;
        hp_timer_set(j->deadline, HP_SEC);
    }
}

void
hp_run_stop(hp_run *j, int status, uint64_t grace)
{
    int i;
    if (j->phase == HP_FINISHED)
        return;
    if (j->phase != HP_STOPPING)
        j->status = status;
    j->phase = HP_STOPPING;
    hp_timer_set(j->limit, HP_NEVER);
    hp_timer_set(j->patience, HP_NEVER);
    hp_timer_set(j->deadline, grace + LAST_RESORT);
    for (i = 0; i < j->hosts; i++)
        hp_host_stop(&j->host[i], grace);
    hp_run_finish(j);
}

/* Agents or remote shells that do not end: they are killed with all they have started here, and then left. */
static void
deadline_passed(void *arg)
{
    hp_run *j = arg;
    int i;
    if (j->last_resort || j->flushing)
        j->phase = HP_FINISHED;
    if (j->over == j->called)
        return;
    j->last_resort = 1;
    for (i = 0; i < j->hosts; i++)
        if (j->host[i].conn && hp_agent_conn_status(j->host[i].conn) != HP_AGENT_CONN_OVER)
            hp_agent_conn_kill(j->host[i].conn, SIGKILL);
    hp_timer_set(j->deadline, HP_SEC);
}

static void
time_is_up(void *arg)
{
    hp_run *j = arg;
    hp_diag(j->output, "the time limit of %g s is reached; stopping %d rank%s",
            (double)j->options->timeout / (double)HP_SEC, j->failure.running, plural(j->failure.running));
    hp_run_stop(j, 124, HP_GRACE);
}

/* --- firsts --- */

void
hp_run_report_failure(hp_run *j)
{
    if (j->failure.first.rank < 0 || j->failure.reported || j->phase == HP_STOPPING)
        return;
    hp_failure_report(&j->failure, j->output, j->options->output_dir && !j->options->tee);
    hp_run_stop(j, hp_exit_status(j->failure.first.status), HP_GRACE);
}

static void
deliberated(void *arg)
{
    hp_run_report_failure(arg);
}

void
hp_run_expect_failures(hp_run *j)
{
    hp_timer_set(j->deliberation, j->failure.running > 0 ? DELIBERATION : 0);
}

/* --- input --- */

static void
give_input(void *arg, const uint8_t *bytes, size_t n)
{
    hp_run *j = arg;
    hp_agent_conn *conn = j->host[j->first].conn;
    hp_agent_msg_put(hp_agent_conn_out(conn), HP_MSG_STDIN, bytes, n, NULL, 0);
    hp_agent_conn_push(conn);
}

static void
end_input(void *arg)
{
    hp_run *j = arg;
    hp_agent_conn *conn = j->host[j->first].conn;
    hp_agent_msg_put(hp_agent_conn_out(conn), HP_MSG_STDIN_END, NULL, 0, NULL, 0);
    hp_agent_conn_push(conn);
}

/* --- orders --- */

static void
start_ranks(hp_run *j)
{
    int i;
    hp_timer_set(j->patience, HP_NEVER);
    j->phase = HP_RUNNING;
    j->failure.running = j->mapping->ranks.size;
    for (i = 0; i < j->hosts; i++)
        if (j->host[i].conn)
            hp_host_send_spec(&j->host[i]);
    hp_job_server_forget_secret(&j->server);
    if (j->options->timeout > 0)
        hp_timer_set(j->limit, j->options->timeout);
    if (j->input)
        hp_stdin_go(j->input);
    else
        end_input(j);
}

static void
server_says(void *arg, const char *line)
{
    const hp_run *j = arg;
    if (j->options->verbose)
        hp_diag(j->output, "%s", line);
}

static void
server_warns(void *arg, const char *line)
{
    const hp_run *j = arg;
    hp_diag(j->output, "%s", line);
}

static void
ring_failed(void *arg, const hoop_error *cause)
{
    hp_run *j = arg;
    hp_failure_ring_failed(&j->failure, cause);
}

static const char *
host_of(void *arg, int rank)
{
    const hp_run *j = arg;
    const hp_rank_map *map = &j->mapping->ranks;
    int i;
    for (i = 0; i < j->hosts; i++)
        if (rank >= map->first[i] && rank < map->first[i] + map->count[i])
            return hp_host_name(&j->host[i]);
    return NULL;
}

/* Opens the server once a host has answered that can tell where it sees us. */
static void
meet(hp_run *j, const hp_host *p)
{
    const hp_job_server_owner owner = {j, server_says, server_warns, ring_failed, host_of};
    int met = j->server.server != NULL;
    char text[HP_ADDR_TEXT];
    hoop_error error;
    if (hp_job_server_start(&j->server, j->loop, p->host, hp_agent_conn_seen_from(p->conn), &owner, &error)) {
        hp_diag(j->output, "cannot open the rendezvous server: %s", error.text);
        hp_run_stop(j, 2, HP_GRACE);
    } else if (j->options->verbose && !met && j->server.server) {
        hp_diag(j->output, "the rendezvous server listens on %s", hp_addr_print(&j->server.address, text));
    }
}

void
hp_run_greeted(hp_run *j, hp_host *p)
{
    j->greeted++;
    meet(j, p);
    if (j->phase == HP_CALLING)
        hp_host_start_more(j);
    if (j->greeted == j->used && j->phase == HP_CALLING)
        start_ranks(j);
}

/* --- output --- */

/* A reader that is slower than the ranks holds them back through the agents; while stopping nobody is held. */
static void
balance(hp_run *j)
{
    size_t backlog = hp_output_backlog(j->output);
    int pause = j->phase != HP_STOPPING && (backlog > BACKLOG_HIGH || (j->paused && backlog > BACKLOG_LOW));
    int i;
    if (pause == j->paused)
        return;
    j->paused = pause;
    for (i = 0; i < j->hosts; i++)
        if (j->host[i].conn)
            hp_agent_conn_pause(j->host[i].conn, pause);
}

void
hp_run_check_output(hp_run *j)
{
    int number = hp_output_broken(j->output);
    balance(j);
    if (number == 0 || j->phase != HP_RUNNING)
        return;
    if (number != EPIPE)
        hp_diag(j->output, "cannot write the ranks' output: %s; stopping %d ranks", strerror(number),
                j->failure.running);
    hp_run_stop(j, number == EPIPE ? 128 + SIGPIPE : 1, HP_GRACE);
}

static void
output_moved(void *arg)
{
    hp_run *j = arg;
    hp_run_check_output(j);
    if (j->over == j->called && j->phase != HP_CALLING)
        hp_run_finish(j);
}

/* --- patience --- */

/* How long hosts may take to answer: as long as ranks may take to meet. */
static uint64_t
patience(void)
{
    const char *ms = getenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
    long value = ms ? strtol(ms, NULL, 10) : 0;
    return value > 0 ? (uint64_t)value * HP_MS : GREETING_LIMIT;
}

static void
lost_patience(void *arg)
{
    hp_run *j = arg;
    int i;
    for (i = 0; i < j->hosts; i++)
        if (j->host[i].conn && hp_agent_conn_status(j->host[i].conn) == HP_AGENT_CONN_STARTING)
            hp_diag_agent_silent(j->output, hp_host_name(&j->host[i]), j->host[i].conn, &j->mapping->host[i].call,
                                 (double)patience() / (double)HP_SEC);
    hp_run_stop(j, 1, HP_GRACE);
}

/* --- signals --- */

static void
reap(hp_run *j)
{
    int status, i;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (i = 0; i < j->hosts; i++)
            if (j->host[i].conn && hp_agent_conn_reaped(j->host[i].conn, pid, status))
                break;
}

static void
interrupted(hp_run *j, int number)
{
    const char *name = number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "SIGHUP";
    if (j->by_signal != 0) {
        hp_diag(j->output, "%s again; killing what is left", name);
        j->hurry = 1;
        hp_run_stop(j, j->status, 0);
        return;
    }
    j->by_signal = number;
    if (j->phase != HP_STOPPING)
        hp_diag(j->output, "%s; stopping %d rank%s (once more: kill at once)", name, j->failure.running,
                plural(j->failure.running));
    hp_run_stop(j, 128 + number, HP_GRACE);
}

static void
pass_on(hp_run *j, int number)
{
    int i;
    for (i = 0; i < j->hosts; i++)
        hp_host_signal(&j->host[i], number);
}

/*
 * Ctrl-Z: the ranks are stopped, then we are, until the shell's fg or bg. They cannot be left to a SIGTSTP: their
 * sessions have no shell, so it would not stop them. Time does not count meanwhile.
 */
static void
sleep_until_continued(hp_run *j)
{
    if (j->phase == HP_RUNNING)
        pass_on(j, SIGSTOP);
    (void)hp_loop_now(j->loop); /* what it sleeps from here on is not counted */
    kill(getpid(), SIGSTOP);
    if (j->phase == HP_RUNNING)
        pass_on(j, SIGCONT);
}

/* How large a line of a rank may be: labels take their part of ours. */
static hp_winsize
window_of_ranks(const hp_run *j)
{
    hp_winsize winsize = hp_terminal_size(STDOUT_FILENO);
    int label = j->label ? snprintf(NULL, 0, "[%d] ", j->mapping->ranks.size - 1) : 0;
    if (winsize.columns > label)
        winsize.columns = (uint16_t)(winsize.columns - label);
    return winsize;
}

static void
resized(hp_run *j)
{
    int i;
    j->server.winsize = window_of_ranks(j);
    for (i = 0; i < j->hosts; i++)
        hp_host_resize(&j->host[i]);
}

static void
signalled(void *arg, int number)
{
    hp_run *j = arg;
    switch (number) {
    case SIGCHLD: reap(j); break;
    case SIGUSR1:
    case SIGUSR2: pass_on(j, number); break;
    case SIGTSTP: sleep_until_continued(j); break;
    case SIGWINCH: resized(j); break;
    case SIGCONT:
        if (j->input && j->phase == HP_RUNNING)
            hp_stdin_go(j->input);
        break;
    default: interrupted(j, number);
    }
}

/* As nohup leaves SIGHUP, and a shell without job control SIGTSTP. */
static int
is_ignored(int number)
{
    struct sigaction old;
    return sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

static int
open_signals(hp_run *j)
{
    static const int ours[] = {SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH, SIGHUP, SIGTSTP};
    int numbers[sizeof(ours) / sizeof(ours[0]) + 1], count = 0;
    size_t i;
    for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if ((ours[i] != SIGHUP && ours[i] != SIGTSTP) || !is_ignored(ours[i]))
            numbers[count++] = ours[i];
    numbers[count] = 0;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    return hp_signals_open(&j->signals, j->loop, numbers, signalled, j);
}

/* --- life --- */

static void
fill_party(hp_run *j)
{
    int i;
    j->hosts = j->mapping->list->count;
    j->host = hp_xcalloc((size_t)j->hosts, sizeof(*j->host));
    for (i = j->hosts - 1; i >= 0; i--) {
        j->host[i] = (hp_host){.run = j, .host = i};
        j->used += j->mapping->ranks.count[i] > 0;
        j->first = j->mapping->ranks.count[i] > 0 ? i : j->first;
    }
}

static int
wants_labels(const hp_run *j)
{
    return j->mapping->ranks.size > 1 && (j->options->label || isatty(STDOUT_FILENO));
}

static hoop_result
open_job(hp_run *j, hoop_error *error)
{
    const hp_output_options output = {.size = j->mapping->ranks.size,
                                      .label = j->label,
                                      .lazy_labels = !j->options->label,
                                      .dir = j->options->output_dir,
                                      .force = j->options->force,
                                      .tee = j->options->tee,
                                      .moved = output_moved,
                                      .arg = j};
    const hp_stdin_owner input = {j, give_input, end_input};
    fill_party(j);
    hp_failure_open(&j->failure, j->mapping->ranks.size);
    j->loop = hp_loop_new();
    if (!j->loop || open_signals(j) < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot start the event loop");
    j->limit = hp_xcheck(hp_timer_new(j->loop, time_is_up, j));
    j->patience = hp_xcheck(hp_timer_new(j->loop, lost_patience, j));
    j->deadline = hp_xcheck(hp_timer_new(j->loop, deadline_passed, j));
    j->deliberation = hp_xcheck(hp_timer_new(j->loop, deliberated, j));
    if (!j->options->stdin_used)
        j->input = hp_stdin_new(j->loop, STDIN_FILENO, &input);
    j->output = hp_output_new(j->loop, &output, error);
    if (!j->output)
        return error->code;
    if (hp_job_server_open(&j->server, j->options, j->mapping, error) != HOOP_SUCCESS)
        return error->code;
    j->server.winsize = window_of_ranks(j);
    return HOOP_SUCCESS;
}

static void
close_job(hp_run *j)
{
    int i;
    for (i = 0; i < j->hosts; i++)
        if (j->host[i].conn)
            hp_agent_conn_free(j->host[i].conn);
    hp_failure_close(&j->failure);
    hp_job_server_close(&j->server);
    if (j->output)
        hp_output_free(j->output);
    hp_stdin_free(j->input);
    hp_timer_free(j->limit);
    hp_timer_free(j->patience);
    hp_timer_free(j->deadline);
    hp_timer_free(j->deliberation);
    hp_signals_close(&j->signals);
    if (j->loop)
        hp_loop_free(j->loop);
    free(j->host);
}

int
hp_run_to_end(const hp_options *options, const hp_mapping *mapping, int *by_signal)
{
    hp_run j = {.options = options, .mapping = mapping};
    hoop_error error;
    j.label = wants_labels(&j);
    if (open_job(&j, &error) != HOOP_SUCCESS) {
        fprintf(stderr, "hooprun: %s\n", error.text);
        j.status = 2;
    } else {
        hp_timer_set(j.patience, patience());
        hp_host_start_more(&j);
        while (j.phase != HP_FINISHED)
            hp_loop_run(j.loop, HP_NEVER);
    }
    *by_signal = j.status == 128 + j.by_signal ? j.by_signal : 0;
    close_job(&j);
    return j.status;
}
