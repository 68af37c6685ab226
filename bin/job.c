/* SPDX-License-Identifier: MIT */
/*
 * job: the launcher's life. CALLING: agents are started, until all have greeted; then the server listens and all get
 * their orders at once. RUNNING: until every rank has ended. STOPPING: a rank failed, a host was lost, the time is up
 * or the user said so: TERM, a grace, KILL. It is over when every agent's process is reaped and the output is written.
 * The first cause decides the exit status; what follows from it is not reported.
 */
#include "bin/job.h"

#include "bin/contact.h"
#include "bin/input.h"
#include "bin/jury.h"
#include "bin/meet.h"
#include "bin/must.h"
#include "bin/notice.h"
#include "bin/output.h"
#include "bin/signals.h"
#include "bin/task.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/wire.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CALLS_AT_ONCE = 64,         /* remote shells that have not answered yet */
    BACKLOG_HIGH = 1024 * 1024, /* output that waits for a slow reader before the agents wait too */
    BACKLOG_LOW = 256 * 1024,
    BACKLOG_STOPPING = 16 << 20, /* when stopping nobody waits; more than this is thrown away */
};

#define GREETING_LIMIT (60 * HP_SEC)
#define GRACE (5 * HP_SEC)        /* between TERM and KILL */
#define LAST_RESORT (2 * HP_SEC)  /* after KILL the agents should be gone */
#define DELIBERATION (50 * HP_MS) /* failures that come together are judged together */

typedef enum phase { CALLING, RUNNING, STOPPING, FINISHED } phase;

typedef struct job job;

typedef struct party {
    job *job;
    int host;            /* index */
    hp_contact *contact; /* NULL: not called yet, or not used */
    int done;            /* it has said that everything there has ended */
    int ordered;
} party;

struct job {
    const hp_options *options;
    const hp_layout *layout;
    phase phase;
    hp_loop *loop;
    hp_task task;
    hp_output *output;
    hp_input *input; /* NULL: standard input was the hostfile */
    hp_jury jury;
    party *party;                    /* by host */
    int hosts;                       /* in party */
    int first;                       /* where rank 0 is */
    int used, called, greeted, over; /* of them */
    int paused;
    hp_signals signals;
    hp_timer *limit, *patience, *deadline, *deliberation;
    int status, by_signal;
    int hurry;       /* told to stop twice */
    int last_resort; /* agents have been killed */
    int flushing;    /* a moment for the reader of the output, then it is over */
};

static void stop(job *j, int status, uint64_t grace);
static void call_more(job *j);

static const char *
host_name(const job *j, int host)
{
    return j->layout->alone.count > 0 ? hp_meet_own_name() : j->layout->hosts->host[host].name;
}

static const char *
plural(int n)
{
    return n == 1 ? "" : "s";
}

/* --- stopping --- */

/* All agents are gone; what is left is output that a slow reader has not taken. Who said stop does not wait for him. */
static void
finish(job *j)
{
    if (j->over != j->called)
        return;
    if (hp_output_backlog(j->output) == 0 || j->hurry) {
        j->phase = FINISHED;
    } else if ((j->by_signal || j->last_resort) && !j->flushing) {
        j->flushing = 1;
        hp_timer_set(j->deadline, HP_SEC);
    }
}

static void
stop_party(party *p, uint64_t grace)
{
    if (p->contact == NULL || hp_contact_status(p->contact) == HP_CONTACT_OVER)
        return;
    if (!p->ordered) {
        hp_contact_hang_up(p->contact);
        if (hp_contact_status(p->contact) == HP_CONTACT_CALLING)
            hp_contact_kill(p->contact, SIGTERM);
        return;
    }
    hp_contact_pause(p->contact, 0);
    hp_packet_put32(hp_contact_out(p->contact), HP_PK_STOP, (uint32_t)(grace / HP_MS));
    hp_contact_push(p->contact);
}

/* The first cause counts. Later calls only shorten the grace. */
static void
stop(job *j, int status, uint64_t grace)
{
    int i;

    if (j->phase == FINISHED)
        return;
    if (j->phase != STOPPING)
        j->status = status;
    j->phase = STOPPING;
    hp_timer_set(j->limit, HP_NEVER);
    hp_timer_set(j->patience, HP_NEVER);
    hp_timer_set(j->deadline, grace + LAST_RESORT);
    for (i = 0; i < j->hosts; i++)
        stop_party(&j->party[i], grace);
    finish(j);
}

/* Agents or remote shells that do not end: they are killed with all they have started here, and then left. */
static void
deadline_passed(void *arg)
{
    job *j = arg;
    int i;

    if (j->last_resort || j->flushing)
        j->phase = FINISHED;
    if (j->over == j->called)
        return;
    j->last_resort = 1;
    for (i = 0; i < j->hosts; i++)
        if (j->party[i].contact != NULL && hp_contact_status(j->party[i].contact) != HP_CONTACT_OVER)
            hp_contact_kill(j->party[i].contact, SIGKILL);
    hp_timer_set(j->deadline, HP_SEC);
}

static void
time_is_up(void *arg)
{
    job *j = arg;

    hp_notice(j->output, "the time limit of %g s is reached; stopping %d rank%s",
              (double)j->options->timeout / (double)HP_SEC, j->jury.running, plural(j->jury.running));
    stop(j, 124, GRACE);
}

/* --- verdicts --- */

static void
pronounce(void *arg)
{
    job *j = arg;

    if (j->jury.spoken || j->phase == STOPPING)
        return;
    hp_jury_speak(&j->jury, j->output, j->options->output_dir != NULL);
    stop(j, hp_verdict_status(j->jury.verdict.status), GRACE);
}

static void
rank_ended(party *p, int rank, const uint8_t *bytes)
{
    job *j = p->job;
    hp_ending ending = {.rank = rank,
                        .pid = (int)hp_get32(bytes + 4),
                        .host = host_name(j, p->host),
                        .program = j->options->argv[0],
                        .status = (int)hp_get32(bytes + 8),
                        .ms = hp_get64(bytes + 12)};

    if (hp_jury_ended(&j->jury, &ending) && j->phase != STOPPING)
        hp_timer_set(j->deliberation, j->jury.running > 0 ? DELIBERATION : 0);
}

/* --- input --- */

static void
give_input(void *arg, const uint8_t *bytes, size_t n)
{
    job *j = arg;
    hp_contact *contact = j->party[j->first].contact;

    hp_packet_put(hp_contact_out(contact), HP_PK_STDIN, bytes, n, NULL, 0);
    hp_contact_push(contact);
}

static void
end_input(void *arg)
{
    job *j = arg;
    hp_contact *contact = j->party[j->first].contact;

    hp_packet_put(hp_contact_out(contact), HP_PK_STDIN_END, NULL, 0, NULL, 0);
    hp_contact_push(contact);
}

/* --- orders --- */

static void
send_orders(party *p)
{
    hp_task_put(&p->job->task, p->host, hp_contact_out(p->contact));
    p->ordered = 1;
    hp_contact_push(p->contact);
}

static void
start_ranks(job *j)
{
    int i;

    hp_timer_set(j->patience, HP_NEVER);
    j->phase = RUNNING;
    j->jury.running = j->layout->place.size;
    for (i = 0; i < j->hosts; i++)
        if (j->party[i].contact != NULL)
            send_orders(&j->party[i]);
    hp_task_forget(&j->task);
    if (j->options->timeout > 0)
        hp_timer_set(j->limit, j->options->timeout);
    if (j->input != NULL)
        hp_input_go(j->input);
    else
        end_input(j);
}

static void
server_says(void *arg, const char *line)
{
    job *j = arg;

    if (j->options->verbose)
        hp_notice(j->output, "%s", line);
}

static void
meet(party *p)
{
    job *j = p->job;
    int met = j->task.server != NULL;
    char text[HP_ADDR_TEXT];
    hoop_error error;

    if (hp_task_meet(&j->task, j->loop, p->host, hp_contact_seen_from(p->contact), server_says, j, &error)) {
        hp_notice(j->output, "cannot open the rendezvous server: %s", error.text);
        stop(j, 2, GRACE);
    } else if (j->options->verbose && !met && j->task.server != NULL) {
        hp_notice(j->output, "the rendezvous server listens on %s", hp_addr_print(&j->task.address, text));
    }
}

/* --- agents --- */

static void
greeted(void *arg, hp_contact *contact)
{
    party *p = arg;
    job *j = p->job;

    if (j->options->verbose) {
        hp_notice(j->output, "%s has answered", host_name(j, p->host));
        hp_notice_quote(j->output, host_name(j, p->host), hp_contact_noise(contact));
        hp_notice_quote(j->output, host_name(j, p->host), hp_contact_words(contact));
    }
    if (j->phase != CALLING) {
        hp_contact_hang_up(contact);
        return;
    }
    j->greeted++;
    meet(p);
    if (j->phase == CALLING)
        call_more(j);
    if (j->greeted == j->used && j->phase == CALLING)
        start_ranks(j);
}

static int
rank_of(const job *j, int host, uint32_t rank)
{
    int first = j->layout->place.first[host];

    return rank >= (uint32_t)first && rank < (uint32_t)(first + j->layout->place.count[host]) ? (int)rank : -1;
}

static void
take_output(job *j, int rank, int stream, const uint8_t *bytes, size_t n)
{
    if (j->phase == STOPPING && hp_output_backlog(j->output) > BACKLOG_STOPPING)
        return;
    hp_output_rank(j->output, rank, stream, bytes, n);
    if (stream == 2)
        hp_jury_heard(&j->jury, rank, bytes, n, hp_output_shown(j->output));
}

/* A reader that is slower than the ranks holds them back through the agents; while stopping nobody is held. */
static void
balance(job *j)
{
    size_t backlog = hp_output_backlog(j->output);
    int pause = j->phase != STOPPING && (backlog > BACKLOG_HIGH || (j->paused && backlog > BACKLOG_LOW));
    int i;

    if (pause == j->paused)
        return;
    j->paused = pause;
    for (i = 0; i < j->hosts; i++)
        if (j->party[i].contact != NULL)
            hp_contact_pause(j->party[i].contact, pause);
}

static void
check_output(job *j)
{
    int number = hp_output_broken(j->output);

    if (number == 0 || j->phase != RUNNING)
        return;
    if (number != EPIPE)
        hp_notice(j->output, "cannot write the ranks' output: %s; stopping %d ranks", strerror(number),
                  j->jury.running);
    stop(j, number == EPIPE ? 128 + SIGPIPE : 1, GRACE);
}

static void
output_moved(void *arg)
{
    job *j = arg;

    balance(j);
    check_output(j);
    if (j->over == j->called && j->phase != CALLING)
        finish(j);
}

static void
host_failed(party *p, const hp_packet *packet)
{
    job *j = p->job;

    if (j->phase != STOPPING)
        hp_notice(j->output, "%s: %.*s", host_name(j, p->host), (int)(packet->size - 4),
                  (const char *)packet->payload + 4);
    p->done = 1;
    j->jury.running -= j->layout->place.count[p->host];
    stop(j, (int)(hp_get32(packet->payload) & 255), GRACE);
}

/* What concerns one rank; a rank that is not on that host is none of its business. */
static void
take_rank_packet(party *p, const hp_packet *packet)
{
    job *j = p->job;
    const uint8_t *bytes = packet->payload;
    int rank = rank_of(j, p->host, hp_get32(bytes));

    if (rank < 0)
        return;
    if (packet->type == HP_PK_STARTED) {
        hp_jury_started(&j->jury, rank);
        if (j->options->verbose)
            hp_notice(j->output, "rank %d runs on %s, pid %u", rank, host_name(j, p->host), hp_get32(bytes + 4));
    } else if (packet->type == HP_PK_OUTPUT && (bytes[4] == 1 || bytes[4] == 2)) {
        take_output(j, rank, bytes[4], bytes + 5, packet->size - 5);
        balance(j);
        check_output(j);
    } else if (packet->type == HP_PK_EXIT) {
        rank_ended(p, rank, bytes);
    }
}

static void
take_packet(void *arg, hp_contact *contact, const hp_packet *packet)
{
    party *p = arg;

    (void)contact;
    if (!p->ordered && packet->type != HP_PK_FAIL)
        return;
    switch (packet->type) {
    case HP_PK_TAKEN:
        if (p->job->input != NULL)
            hp_input_taken(p->job->input, hp_get32(packet->payload));
        break;
    case HP_PK_FAIL: host_failed(p, packet); break;
    case HP_PK_DONE: p->done = 1; break;
    default: take_rank_packet(p, packet);
    }
}

/* --- agents that end --- */

static void
contact_over(void *arg, hp_contact *contact)
{
    party *p = arg;
    job *j = p->job;

    j->over++;
    if (!p->done && j->jury.verdict.rank >= 0)
        pronounce(j);
    if (!p->done && j->phase != STOPPING && j->phase != FINISHED) {
        hp_notice_ended(j->output, host_name(j, p->host), contact, &j->layout->site[p->host].call,
                        p->ordered ? j->jury.running : -1);
        stop(j, 1, GRACE);
    }
    if (j->phase == CALLING)
        call_more(j);
    if (j->over == j->called && j->jury.verdict.rank >= 0)
        pronounce(j);
    finish(j);
}

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
    job *j = arg;
    int i;

    for (i = 0; i < j->hosts; i++)
        if (j->party[i].contact != NULL && hp_contact_status(j->party[i].contact) == HP_CONTACT_CALLING)
            hp_notice_silent(j->output, host_name(j, i), j->party[i].contact, &j->layout->site[i].call,
                             (double)patience() / (double)HP_SEC);
    stop(j, 1, GRACE);
}

static void
call_host(party *p)
{
    const hp_contact_owner owner = {p, greeted, take_packet, contact_over};
    const hp_site *site = &p->job->layout->site[p->host];
    job *j = p->job;
    hoop_error error;

    p->contact =
        hp_contact_new(j->loop, host_name(j, p->host), site->call.word, site->other.word, site->here, &owner, &error);
    if (p->contact == NULL) {
        hp_notice(j->output, "%s", error.text);
        stop(j, 1, GRACE);
        return;
    }
    j->called++;
    if (j->options->verbose)
        hp_notice(j->output, "calling %s: %s", host_name(j, p->host), hp_contact_command(p->contact));
}

/* Starts agents while not too many are being waited for. */
static void
call_more(job *j)
{
    int i;

    for (i = 0; i < j->hosts; i++) {
        if (j->called - j->greeted - j->over >= CALLS_AT_ONCE || j->phase != CALLING)
            return;
        if (j->layout->place.count[i] > 0 && j->party[i].contact == NULL)
            call_host(&j->party[i]);
    }
}

/* --- signals --- */

static void
reap(job *j)
{
    int status, i;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (i = 0; i < j->hosts; i++)
            if (j->party[i].contact != NULL && hp_contact_reaped(j->party[i].contact, pid, status))
                break;
}

static void
interrupted(job *j, int number)
{
    const char *name = number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "SIGHUP";

    if (j->by_signal != 0) {
        hp_notice(j->output, "%s again; killing what is left", name);
        j->hurry = 1;
        stop(j, j->status, 0);
        return;
    }
    j->by_signal = number;
    if (j->phase != STOPPING)
        hp_notice(j->output, "%s; stopping %d rank%s (once more: kill at once)", name, j->jury.running,
                  plural(j->jury.running));
    stop(j, 128 + number, GRACE);
}

static void
pass_on(job *j, int number)
{
    int i;

    for (i = 0; i < j->hosts; i++)
        if (j->party[i].ordered) {
            hp_packet_put32(hp_contact_out(j->party[i].contact), HP_PK_SIGNAL, (uint32_t)number);
            hp_contact_push(j->party[i].contact);
        }
}

static void
signalled(void *arg, int number)
{
    job *j = arg;

    switch (number) {
    case SIGCHLD: reap(j); break;
    case SIGUSR1:
    case SIGUSR2: pass_on(j, number); break;
    case SIGCONT:
        if (j->input != NULL && j->phase == RUNNING)
            hp_input_go(j->input);
        break;
    default: interrupted(j, number);
    }
}

static int
open_signals(job *j)
{
    static const int all[] = {SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGHUP, 0};
    static const int no_hangup[] = {SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, 0};
    struct sigaction old;
    int nohup = sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == SIG_IGN;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    return hp_signals_open(&j->signals, j->loop, nohup ? no_hangup : all, signalled, j);
}

/* --- life --- */

static void
fill_party(job *j)
{
    int i;

    j->hosts = j->layout->hosts->count;
    j->party = hp_must_alloc((size_t)j->hosts, sizeof *j->party);
    for (i = j->hosts - 1; i >= 0; i--) {
        j->party[i] = (party){.job = j, .host = i};
        j->used += j->layout->place.count[i] > 0;
        j->first = j->layout->place.count[i] > 0 ? i : j->first;
    }
}

static hoop_result
open_job(job *j, hoop_error *error)
{
    const hp_output_options output = {.size = j->layout->place.size,
                                      .label =
                                          j->layout->place.size > 1 && (j->options->label || isatty(STDOUT_FILENO)),
                                      .dir = j->options->output_dir,
                                      .moved = output_moved,
                                      .arg = j};
    const hp_input_owner input = {j, give_input, end_input};

    fill_party(j);
    hp_jury_open(&j->jury, j->layout->place.size);
    j->loop = hp_loop_new();
    if (j->loop == NULL || open_signals(j) < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot start the event loop");
    j->limit = hp_must(hp_timer_new(j->loop, time_is_up, j));
    j->patience = hp_must(hp_timer_new(j->loop, lost_patience, j));
    j->deadline = hp_must(hp_timer_new(j->loop, deadline_passed, j));
    j->deliberation = hp_must(hp_timer_new(j->loop, pronounce, j));
    if (!j->options->stdin_used)
        j->input = hp_input_new(j->loop, STDIN_FILENO, &input);
    j->output = hp_output_new(j->loop, &output, error);
    if (j->output == NULL)
        return error->code;
    return hp_task_open(&j->task, j->options, j->layout, error);
}

static void
close_job(job *j)
{
    int i;

    for (i = 0; i < j->hosts; i++)
        if (j->party[i].contact != NULL)
            hp_contact_free(j->party[i].contact);
    hp_jury_close(&j->jury);
    hp_task_close(&j->task);
    if (j->output != NULL)
        hp_output_free(j->output);
    hp_input_free(j->input);
    hp_timer_free(j->limit);
    hp_timer_free(j->patience);
    hp_timer_free(j->deadline);
    hp_timer_free(j->deliberation);
    hp_signals_close(&j->signals);
    if (j->loop != NULL)
        hp_loop_free(j->loop);
    free(j->party);
}

int
hp_job_run(const hp_options *options, const hp_layout *layout, int *by_signal)
{
    job j = {.options = options, .layout = layout};
    hoop_error error;

    if (open_job(&j, &error) != HOOP_SUCCESS) {
        fprintf(stderr, "hooprun: %s\n", error.text);
        j.status = 2;
    } else {
        hp_timer_set(j.patience, patience());
        call_more(&j);
        while (j.phase != FINISHED)
            hp_loop_run(j.loop, HP_NEVER);
    }
    *by_signal = j.status == 128 + j.by_signal ? j.by_signal : 0;
    close_job(&j);
    return j.status;
}
