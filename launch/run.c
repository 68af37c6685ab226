/* SPDX-License-Identifier: MIT */
/*
 * run: the launcher's life. STARTING: agents are started, until all have greeted; the server listens as soon as one has told
 * how it reaches this machine. Then every agent gets its spec. RUNNING: until every rank has exited. STOPPING: a rank failed,
 * a host was lost, the time limit is reached or the user stopped it: TERM, a grace, KILL. So ends a job whose ranks may be
 * started again, too. FINISHED: the agents are reaped. The first cause decides the exit status, the others are not reported.
 */
#include "launch/run.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/say.h"
#include "launch/rank_env.h"
#include "launch/recorders.h"
#include "launch/silence.h"
#include "launch/streams.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BACKLOG_HIGH = 1024 * 1024, /* output that waits for a slow reader: above this the ranks are held back, */
    BACKLOG_LOW = 256 * 1024,   /* until it is below this */
    BACKLOG_STOPPING = 16 << 20 /* stopping ranks are not held back: what they write beyond this is thrown away */
};

#define GRACE (5 * HP_SEC)         /* between TERM and KILL */
#define LAST_RESORT (2 * HP_SEC)   /* after KILL the agents should be gone */
#define FAILURE_DELAY (50 * HP_MS) /* failures that come together are judged together */
#define ONE_SIGNAL (500 * HP_MS)   /* signals that come together are one: timeout(1) sends it to us, and to our group */

typedef enum phase { STARTING, RUNNING, STOPPING, FINISHED } phase;

typedef struct hp_run {
    const hp_options *options;
    const hp_mapping *mapping;
    phase phase;
    hp_loop *loop;
    hp_hosts hosts;
    hp_job_server server;
    hp_output *output;
    hp_stdin *in; /* NULL: standard input was the hostfile */
    hp_failure failure;
    hp_signals signals;
    hp_recorders recorders;
    hp_silence silence;
    hp_timer *time_limit, *kill_limit, *failure_delay, *restarts;
    int label;  /* lines have their rank's label */
    int paused; /* agents are held back because the output has a slow reader */
    int status, by_signal;
    uint64_t signalled_at; /* by_signal */
    int stop_now;          /* the user stopped it twice */
    int killed;            /* the agents have been killed */
    int flushing;          /* the reader of the output has a last second */
    int summed_up;
} hp_run;

/* --- the server --- */

static void
hear_server(hp_run *run)
{
    hp_server_event e;
    while (hp_job_server_hear(&run->server, &e))
        switch (e.what) {
        case HP_SERVER_LINE: hp_diag(run->output, "%s", e.text); break;
        case HP_SERVER_RING_FAILED:
            hp_failure_ring_failed(&run->failure, e.split, &e.cause, e.pid);
            if (!e.split)
                hp_silence_ring_failed(&run->silence, e.cause.rank);
            break;
        case HP_SERVER_KNOCKED: hp_hosts_knocked(&run->hosts, e.host); break;
        case HP_SERVER_PEER_TIMEOUT: hp_hosts_relet(&run->hosts, e.ms); break;
        }
}

/* The answer to a question, as far as it comes. */
static void
hear_answer(hp_run *run)
{
    while (hp_job_server_answers(&run->server))
        hear_server(run);
    if (hp_job_server_missed(&run->server))
        hp_diag(run->output, run->server.pid ? "the process of the rendezvous server does not answer; is it stopped?"
                                             : "no rendezvous server runs now");
}

static void
show_table(hp_run *run, int most, int if_stalled)
{
    enum { PREFIX = 9 /* "hooprun: " */ };
    int width = hp_terminal_size(STDERR_FILENO).columns - PREFIX;
    if (if_stalled && !run->server.pid)
        return;
    hp_job_server_table(&run->server, most, width > 0 ? width : 0, if_stalled);
    hear_answer(run);
}

/* What the rings have done, once. */
static void
sum_up(hp_run *run)
{
    hp_job_server *server = &run->server;
    if (run->summed_up || !(run->options->summary || run->options->verbose))
        return;
    run->summed_up = 1;
    hp_job_server_sum_up(server);
    hear_answer(run);
    if (run->status != 0 || server->summaries > 0 || !run->options->summary)
        return;
    hp_diag(run->output, "no summary: %s",
            server->deaths > 0 ? "the process of the rendezvous server has died, and lost what the ranks did"
                               : "no rank has told the server what it did; does the program create a communicator?");
}

/* --- stopping --- */

/* All agents are gone; the rest is output that a slow reader has not taken. A user who stopped the run need not wait. */
static void
finish(hp_run *run)
{
    hp_output_all_ended(run->output);
    sum_up(run);
    if (run->status != 0 && !(run->by_signal && run->status == 128 + run->by_signal)) /* not what the user wanted */
        hp_recorders_report(&run->recorders);
    hp_silence_report(&run->silence);
    if (hp_output_backlog(run->output) == 0 || run->stop_now) {
        run->phase = FINISHED;
    } else if ((run->by_signal || run->killed) && !run->flushing) {
        run->flushing = 1;
        hp_timer_set(run->kill_limit, HP_SEC);
    }
}

/* The first status counts; a later call may only shorten the grace. */
static void
stop(hp_run *run, int status, uint64_t grace)
{
    if (run->phase == FINISHED)
        return;
    if (run->phase != STOPPING)
        run->status = status;
    run->phase = STOPPING;
    run->server.ending = 1;
    hp_recorders_cancel(&run->recorders);
    hp_timer_set(run->time_limit, HP_NEVER);
    hp_silence_end(&run->silence);
    hp_timer_set(run->kill_limit, grace + LAST_RESORT);
    hp_hosts_stop(&run->hosts, grace);
}

/* Agents or remote shells that do not end are killed, with all they have started here, and then abandoned. */
static void
kill_limit_reached(void *arg)
{
    hp_run *run = arg;
    if (run->killed || run->flushing) {
        hp_silence_report(&run->silence);
        run->phase = FINISHED;
    }
    if (run->hosts.over == run->hosts.started)
        return;
    run->killed = 1;
    hp_hosts_kill(&run->hosts);
    hp_timer_set(run->kill_limit, HP_SEC);
}

static void
time_limit_reached(void *arg)
{
    hp_run *run = arg;
    if (run->failure.running == 0) /* only their output, or a remote shell, is left */
        return;
    hp_diag(run->output, "the time limit of %g s is reached; stopping %s",
            (double)run->options->timeout / (double)HP_SEC, hp_say_count((uint64_t)run->failure.running, "rank").text);
    show_table(run, HP_TABLE_ALL, 0);
    stop(run, 124, GRACE);
}

/* --- ranks that fail --- */

static void
report_failure(void *arg)
{
    hp_run *run = arg;
    if (run->failure.first.rank < 0 || run->failure.reported || run->phase == STOPPING)
        return;
    hp_failure_report(&run->failure, run->output, run->options->output_dir && !run->options->tee);
    stop(run, hp_exit_status(run->failure.first.status), GRACE);
}

/*
 * Once a second: starts the ranks that are due. The job ends when no rank runs, or all that run wait for a place and nobody
 * is left who could take them in. Then it has come to its end, if any rank has ended well.
 */
static void
look_after_ranks(void *arg)
{
    hp_run *run = arg;
    hp_failure *failure = &run->failure;
    hp_places *places = &run->hosts.places;
    uint64_t now = hp_loop_now(run->loop);
    if (run->phase != RUNNING || failure->first.rank >= 0)
        return;
    if (failure->running == 0 || (run->server.stranded > 0 && run->server.stranded >= failure->running)) {
        if (failure->running > 0 || failure->well == 0)
            hp_diag(run->output, "nobody is left to take in processes that wait for a place%s",
                    hp_say_others(failure->running, 0).text);
        stop(run, failure->well > 0 ? 0 : failure->last, GRACE);
        return;
    }
    for (int rank; (rank = hp_places_next(places, now)) >= 0;) {
        hp_failure_again(failure, rank);
        hp_hosts_again(&run->hosts, rank);
        hp_job_server_rank(&run->server, rank, hp_hosts_of(&run->hosts, rank)->name, 0, HP_PROCESS_UNKNOWN);
        if (places->rank[rank].moved)
            hp_diag(run->output, "rank %d is started again on %s (restart %d of %d)", rank,
                    hp_hosts_of(&run->hosts, rank)->name, places->rank[rank].restart, places->most);
    }
    hp_timer_set(run->restarts, hp_places_wait(places, now, HP_SEC));
}

/* Decides whether this rank is started again. */
static int
will_return(hp_run *run, hp_rank_exit *ended)
{
    hp_places *places = &run->hosts.places;
    int others = run->failure.running - 1;
    hp_places_ended(places, ended->rank);
    if (places->most == 0 || run->phase != RUNNING)
        return 0;
    hp_timer_set(run->restarts, 0);
    if (ended->status == 0 || run->failure.first.rank >= 0)
        return 0;
    int again = hp_places_failed(places, ended->rank, others, ended->ms * HP_MS, hp_loop_now(run->loop));
    hp_places_note(places, others, ended);
    return again;
}

static void
rank_exited(hp_run *run, const hp_host_event *e)
{
    hp_rank_exit ended = e->ended;
    ended.program = run->options->argv[0];
    hp_output_ended(run->output, ended.rank);
    hp_failure_word word = hp_failure_exited(&run->failure, &ended, will_return(run, &ended));
    int goes_on = word == HP_FAILURE_SPARED && run->phase != STOPPING;
    if (goes_on) {
        char *sentence = hp_rank_exit_sentence(&ended, run->failure.running, 1);
        hp_diag(run->output, "%s", sentence);
        free(sentence);
    }
    /* If the run is stopped after it, what the other ranks say about it would only hide the cause. */
    if (ended.status == 0 || goes_on)
        hp_job_server_rank_over(&run->server, ended.rank);
    if (word == HP_FAILURE_FIRST && run->phase != STOPPING)
        hp_timer_set(run->failure_delay, run->failure.running > 0 ? FAILURE_DELAY : 0);
}

/* --- output --- */

/* A reader that is slower than the ranks holds them back through the agents; while stopping no rank is held back. */
static void
check_output(hp_run *run)
{
    int number = hp_output_broken(run->output);
    size_t backlog = hp_output_backlog(run->output);
    int pause = run->phase != STOPPING && (backlog > BACKLOG_HIGH || (run->paused && backlog > BACKLOG_LOW));
    if (pause != run->paused) {
        run->paused = pause;
        hp_hosts_pause(&run->hosts, pause);
    }
    if (number == 0 || run->phase != RUNNING)
        return;
    if (number != EPIPE)
        hp_diag(run->output, "cannot write the ranks' output: %s; stopping %d ranks", strerror(number),
                run->failure.running);
    stop(run, number == EPIPE ? 128 + SIGPIPE : 1, GRACE);
}

static void
take_output(hp_run *run, const hp_host_event *e)
{
    if (run->phase == STOPPING && hp_output_backlog(run->output) > BACKLOG_STOPPING)
        return;
    hp_output_rank(run->output, e->rank, e->number, e->bytes, e->n);
    if (e->number == 2)
        hp_failure_stderr(&run->failure, e->rank, e->bytes, e->n, hp_output_shown(run->output));
}

/* How large a rank's lines may be: labels take their part of ours. */
static hp_winsize
size_for_ranks(const hp_run *run)
{
    hp_winsize size = hp_terminal_size(STDOUT_FILENO);
    int label = run->label ? snprintf(NULL, 0, "[%d] ", run->mapping->ranks.size - 1) : 0;
    if (size.columns > label)
        size.columns = (uint16_t)(size.columns - label);
    return size;
}

/* --- starting agents, then ranks --- */

static void
start_agents(hp_run *run)
{
    hp_host *host;
    while (run->phase == STARTING && (host = hp_hosts_next(&run->hosts))) {
        hoop_error error;
        if (hp_host_start(host, &error) != HOOP_SUCCESS) {
            hp_diag(run->output, "%s", error.text);
            stop(run, 1, GRACE);
        } else if (run->options->verbose) {
            hp_diag(run->output, "calling %s: %s", host->name, host->conn->command);
        }
    }
}

/* A host that has answered tells at which address it sees this machine; the server may start then. */
static void
start_server(hp_run *run, const hp_host *host)
{
    hoop_error error;
    char *note = NULL, text[HP_ADDR_TEXT];
    int had_started = run->server.listener >= 0;
    if (hp_job_server_start(&run->server, host->index, host->conn->seen_from, &note, &error)) {
        hp_diag(run->output, "cannot open the rendezvous server: %s", error.text);
        stop(run, 2, GRACE);
    } else if (run->options->verbose && !had_started && run->server.listener >= 0) {
        hp_diag(run->output, "the rendezvous server listens on %s", hp_addr_print(&run->server.address, text));
    }
    if (note)
        hp_diag(run->output, "%s", note);
    free(note);
}

static void
agent_greeted(hp_run *run, const hp_host *host)
{
    if (run->options->verbose) {
        hp_diag(run->output, "%s has answered", host->name);
        hp_agent_conn_quote(host->conn, run->output);
    }
    if (run->phase != STARTING) {
        hp_agent_conn_hang_up(host->conn);
        return;
    }
    start_server(run, host);
    start_agents(run);
    hp_hosts *hosts = &run->hosts;
    if (hosts->greeted != hosts->used || run->phase != STARTING)
        return;
    /* All have answered: the ranks start. */
    hp_silence_watch(&run->silence);
    run->phase = RUNNING;
    run->failure.running = run->mapping->ranks.size;
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].conn)
            hp_host_send_spec(&hosts->host[i], &run->server, size_for_ranks(run));
    if (run->options->timeout > 0)
        hp_timer_set(run->time_limit, run->options->timeout);
    if (hosts->places.most > 0)
        hp_timer_set(run->restarts, HP_SEC);
    if (run->in)
        hp_stdin_go(run->in);
    else
        hp_hosts_stdin_end(hosts);
}

/*
 * An agent that ends before it has reported that all is done, or could have to start ranks again: its host is lost, unless
 * a rank failed just before.
 */
static void
agent_over(hp_run *run, hp_host *host)
{
    int lost = host->done ? run->hosts.places.most > 0 : !host->given_up;
    if (!host->done)
        report_failure(run);
    if (lost && run->phase != STOPPING && run->phase != FINISHED) {
        int go_on = host->has_spec && hp_failure_spare(&run->failure, hp_host_lost(host, &run->failure));
        hp_agent_conn_report_end(host->conn, run->output, host->has_spec ? run->failure.running : -1, go_on);
        if (!go_on)
            stop(run, 1, GRACE);
    }
    for (int rank = 0; rank < run->mapping->ranks.size; rank++) {
        if (!hp_host_has(host, rank))
            continue;
        hp_job_server_rank(&run->server, rank, host->name, run->server.rank[rank].pid, HP_PROCESS_UNKNOWN);
        if (!host->done && run->phase == RUNNING && !run->hosts.ended[rank])
            hp_job_server_rank_over(&run->server, rank);
    }
    start_agents(run);
    if (run->hosts.over == run->hosts.started)
        report_failure(run);
}

static void
hear(hp_run *run, const hp_host_event *e)
{
    switch (e->what) {
    case HP_HOST_GREETED: agent_greeted(run, e->host); break;
    case HP_HOST_STARTED:
        hp_failure_started(&run->failure, e->rank, (int)e->pid);
        hp_output_keep(run->output);
        if (run->options->verbose)
            hp_diag(run->output, "rank %d runs on %s, pid %u", e->rank, e->host->name, e->pid);
        break;
    case HP_HOST_PROCESS:
        hp_job_server_rank(&run->server, e->rank, e->host->name, e->pid,
                           e->number ? HP_PROCESS_STOPPED : HP_PROCESS_RUNS);
        break;
    case HP_HOST_OUTPUT: take_output(run, e); break;
    case HP_HOST_EXITED: rank_exited(run, e); break;
    case HP_HOST_TAKEN:
        if (run->in)
            hp_stdin_taken(run->in, e->n);
        break;
    case HP_HOST_FAILED:
        if (run->phase != STOPPING)
            hp_diag(run->output, "%s: %.*s", e->host->name, (int)e->n, (const char *)e->bytes);
        run->failure.running -= e->host->count;
        stop(run, e->number, GRACE);
        break;
    case HP_HOST_OVER: agent_over(run, e->host); break;
    }
}

/* --- signals --- */

static void
interrupted(hp_run *run, int number)
{
    const char *name = number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "SIGHUP";
    if (run->by_signal != 0 && hp_loop_now(run->loop) < run->signalled_at + ONE_SIGNAL)
        return; /* whoever ends a program may send two different ones at once */
    if (run->by_signal != 0) {
        hp_diag(run->output, "%s%s; killing the remaining processes", name, run->by_signal == number ? " again" : "");
        run->stop_now = 1;
        stop(run, run->status, 0);
        return;
    }
    run->by_signal = number;
    if (run->phase != STOPPING) {
        hp_diag(run->output, "%s; stopping %s (once more: kill at once)", name,
                hp_say_count((uint64_t)run->failure.running, "rank").text);
        show_table(run, HP_TABLE_SHORT, 1);
    }
    run->signalled_at = hp_loop_now(run->loop); /* the table may have taken long, and another signal may wait */
    stop(run, 128 + number, GRACE);
}

static void
reap(hp_run *run)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (!hp_job_server_reaped(&run->server, pid, status))
            hp_hosts_reaped(&run->hosts, pid, status);
}

static void
signalled(hp_run *run, int number)
{
    switch (number) {
    case SIGCHLD: reap(run); break;
    case SIGUSR1:
    case SIGUSR2:
        if (run->options->forward_signals)
            hp_hosts_signal(&run->hosts, number);
        else
            hp_diag(run->output, "%s is passed on to the ranks with --forward-signals only",
                    number == SIGUSR1 ? "SIGUSR1" : "SIGUSR2");
        break;
    case SIGQUIT:
        show_table(run, HP_TABLE_ALL, 0);
        hp_recorders_ask(&run->recorders);
        break;
    /*
     * Ctrl-Z: the ranks are stopped, then the launcher, until the shell's fg or bg. A SIGTSTP would not stop the ranks,
     * whose sessions have no shell. Time does not count meanwhile.
     */
    case SIGTSTP:
        if (run->phase == RUNNING)
            hp_hosts_signal(&run->hosts, SIGSTOP);
        hp_job_server_signal(&run->server, SIGSTOP);
        (void)hp_loop_now(run->loop); /* the loop does not count the time from here */
        hp_signals_stop(&run->signals);
        (void)hp_loop_now(run->loop); /* to here */
        hp_job_server_signal(&run->server, SIGCONT);
        if (run->phase == RUNNING)
            hp_hosts_signal(&run->hosts, SIGCONT);
        break;
    case SIGWINCH: hp_hosts_resize(&run->hosts, size_for_ranks(run)); break;
    case SIGCONT: break; /* standard input may be ours again */
    default: interrupted(run, number);
    }
}

/* --- life --- */

static hoop_result
open_run(hp_run *run, hoop_error *error)
{
    static const int ours[] = {SIGCHLD, SIGINT,   SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
                               SIGCONT, SIGWINCH, SIGHUP,  SIGTSTP, 0};
    run->label = run->mapping->ranks.size > 1 && (run->options->label || isatty(STDOUT_FILENO));
    const hp_output_options output = {.size = run->mapping->ranks.size,
                                      .label = run->label,
                                      .lazy_labels = !run->options->label,
                                      .dir = run->options->output_dir,
                                      .force = run->options->force,
                                      .tee = run->options->tee};
    hp_failure_open(&run->failure, run->mapping->ranks.size);
    if (run->options->elastic.least)
        run->failure.spare = run->mapping->ranks.size - run->options->elastic.least;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    run->loop = hp_loop_new();
    if (!run->loop || hp_signals_open(&run->signals, run->loop, ours) < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot start the event loop");
    hp_hosts_open(&run->hosts, run->loop, run->mapping);
    run->time_limit = hp_xcheck(hp_timer_new(run->loop, time_limit_reached, run));
    run->kill_limit = hp_xcheck(hp_timer_new(run->loop, kill_limit_reached, run));
    run->failure_delay = hp_xcheck(hp_timer_new(run->loop, report_failure, run));
    run->restarts = hp_xcheck(hp_timer_new(run->loop, look_after_ranks, run));
    if (!run->options->stdin_used)
        run->in = hp_stdin_new(run->loop, STDIN_FILENO);
    run->output = hp_output_new(run->loop, &output, error);
    hp_recorders_open(&run->recorders, &run->hosts, &run->server, run->output);
    hp_silence_open(&run->silence, &run->hosts, &run->failure, run->output);
    return run->output ? hp_job_server_open(&run->server, run->loop, run->options, run->mapping, error) : error->code;
}

/* After each turn of the loop: takes what has come. */
static void
take_all(hp_run *run)
{
    const uint8_t *bytes;
    hp_host_event event;
    ssize_t n = 0;
    for (int number; (number = hp_signals_next(&run->signals)) != 0;)
        signalled(run, number);
    while (hp_hosts_hear(&run->hosts, &event))
        hear(run, &event);
    hear_server(run);
    hp_recorders_look(&run->recorders);
    while (run->in && (n = hp_stdin_read(run->in, &bytes)) > 0)
        hp_hosts_stdin(&run->hosts, bytes, (size_t)n);
    if (n < 0 && hp_stdin_error(run->in))
        hp_diag(run->output, "cannot read standard input: %s; for rank 0 it ends here",
                strerror(hp_stdin_error(run->in)));
    if (n < 0)
        hp_hosts_stdin_end(&run->hosts);
    if (run->silence.gave_up && run->phase != STOPPING)
        stop(run, 1, GRACE);
    check_output(run);
    if (run->hosts.over == run->hosts.started && run->phase != STARTING)
        finish(run);
}

int
hp_run_to_end(const hp_options *options, const hp_mapping *mapping, int *by_signal)
{
    hp_run run = {.options = options, .mapping = mapping};
    hoop_error error;
    if (open_run(&run, &error) != HOOP_SUCCESS) {
        fprintf(stderr, "hooprun: %s\n", error.text);
        run.status = 2;
    } else {
        hp_silence_begin(&run.silence);
        start_agents(&run);
        for (take_all(&run); run.phase != FINISHED; take_all(&run))
            hp_loop_run(run.loop, HP_NEVER);
    }
    *by_signal = run.status == 128 + run.by_signal ? run.by_signal : 0;
    hp_recorders_close(&run.recorders);
    hp_silence_close(&run.silence);
    hp_hosts_close(&run.hosts);
    hp_failure_close(&run.failure);
    hp_job_server_close(&run.server);
    if (run.output)
        hp_output_free(run.output);
    hp_stdin_free(run.in);
    hp_timer_free(run.time_limit);
    hp_timer_free(run.kill_limit);
    hp_timer_free(run.failure_delay);
    hp_timer_free(run.restarts);
    hp_signals_close(&run.signals);
    if (run.loop)
        hp_loop_free(run.loop);
    return run.status;
}
