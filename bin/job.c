/* SPDX-License-Identifier: MIT */
/*
 * job: the launcher's life. CALLING: agents are started, until all have greeted; then the server listens and all get their
 * orders at once. RUNNING: until every rank has ended. STOPPING: a rank failed, a host was lost, the time is up or the
 * user said so: TERM, a grace, KILL. It is over when every agent's process is reaped and the output is written. The first
 * cause decides the exit status; what follows from it is not reported.
 */
#include "bin/job.h"

#include "bin/contact.h"
#include "bin/input.h"
#include "bin/meet.h"
#include "bin/must.h"
#include "bin/output.h"
#include "bin/variables.h"
#include "bin/verdict.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/wire.h"
#include "net/secure.h"
#include "rendezvous/server.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CALLS_AT_ONCE = 64,          /* remote shells that have not answered yet */
    BACKLOG_HIGH = 1024 * 1024,  /* output that waits for a slow reader before the agents wait too */
    BACKLOG_LOW = 256 * 1024,
    BACKLOG_STOPPING = 16 << 20, /* when stopping nobody waits; more than this is thrown away */
    SHOWN_LATELY = 10,           /* last words are repeated when more than so many outputs came after them */
    FIRST_PORT = 20000, PORTS = 12000 /* MASTER_PORT: below the ephemeral ports */
};

#define GREETING_LIMIT (60 * HP_SEC)
#define GRACE (5 * HP_SEC)      /* between TERM and KILL */
#define LAST_RESORT (2 * HP_SEC) /* after KILL the agents should be gone */
#define JURY (50 * HP_MS)       /* failures that come together are judged together */

typedef enum phase { CALLING, RUNNING, STOPPING, FINISHED } phase;

typedef struct seat {
    int host; /* index */
    int pid;
    int running;
    uint64_t shown; /* hp_output_shown after its last error output */
    hp_bytes last_words;
} seat;

typedef struct party {
    hp_contact *contact; /* NULL: not called yet, or not used */
    int done;            /* it has said that everything there has ended */
    int ordered;
} party;

typedef struct job {
    const hp_options *options;
    const hp_layout *layout;
    phase phase;
    hp_loop *loop;
    hp_output *output;
    hp_input *input;
    hp_server *server;
    hp_addr address;
    uint8_t secret[HP_SECRET];
    char id[17];
    uint16_t port; /* chosen at random */
    seat *seat;   /* by rank */
    party *party; /* by host */
    int used, called, greeted, over; /* hosts */
    int running;                     /* ranks */
    int paused;
    int signal_fd;
    hp_watch *signal_watch;
    hp_timer *limit, *patience, *deadline, *jury;
    hp_ending verdict; /* of the rank that failed first; rank -1: none */
    int judged;
    int status, by_signal, hurry;
} job;

static void stop(job *j, int status, uint64_t grace);

/* --- words --- */

__attribute__((format(printf, 2, 3))) static void
say(job *j, const char *format, ...)
{
    char *text = NULL, *line;
    va_list ap;

    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        text = NULL;
    va_end(ap);
    line = hp_must_print("hooprun: %s", (const char *)hp_must(text));
    hp_output_say(j->output, line);
    free(line);
    free(text);
}

static const char *
host_name(const job *j, int host)
{
    return j->layout->alone.count > 0 ? hp_meet_own_name() : j->layout->hosts->host[host].name;
}

static int
host_of(const job *j, const hp_contact *contact)
{
    int i;

    for (i = 0; i < j->layout->hosts->count; i++)
        if (j->party[i].contact == contact)
            return i;
    return -1;
}

/* Somebody's own words, a line each, so that they can be told from ours. */
static void
quote(job *j, const char *who, const char *words)
{
    while (*words != '\0') {
        size_t n = strcspn(words, "\r\n");
        char *line = hp_must_print("%s| %.*s", who, (int)n, words);

        if (n > 0)
            hp_output_say(j->output, line);
        free(line);
        words += n + strspn(words + n, "\r\n");
    }
}

static void
server_says(void *arg, const char *line)
{
    job *j = arg;

    if (j->options->verbose)
        say(j, "%s", line);
}

/* --- stopping --- */

static void
finish(job *j)
{
    if (j->over == j->called && (hp_output_backlog(j->output) == 0 || j->hurry > 1))
        j->phase = FINISHED;
}

static void
stop_party(job *j, int host, uint64_t grace)
{
    party *p = &j->party[host];

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
    for (i = 0; i < j->layout->hosts->count; i++)
        stop_party(j, i, grace);
    finish(j);
}

/* Agents or remote shells that do not end: they are killed with all they have started here, and then left. */
static void
deadline_passed(void *arg)
{
    job *j = arg;
    int i;

    if (++j->hurry > 2) {
        j->phase = FINISHED;
        return;
    }
    for (i = 0; i < j->layout->hosts->count; i++)
        if (j->party[i].contact != NULL && hp_contact_status(j->party[i].contact) != HP_CONTACT_OVER)
            hp_contact_kill(j->party[i].contact, SIGKILL);
    hp_timer_set(j->deadline, HP_SEC);
    finish(j);
}

static void
time_is_up(void *arg)
{
    job *j = arg;

    say(j, "the time limit of %g s is reached; stopping %d rank%s", (double)j->options->timeout / (double)HP_SEC,
        j->running, j->running == 1 ? "" : "s");
    stop(j, 124, GRACE);
}

/* --- verdicts --- */

static void
repeat_words(void *arg, const char *line)
{
    job *j = arg;
    char *text = hp_must_print("[%d] %s", j->verdict.rank, line);

    hp_output_say(j->output, text);
    free(text);
}

static void
pronounce(void *arg)
{
    job *j = arg;
    seat *s = &j->seat[j->verdict.rank];
    char *sentence;

    if (j->judged || j->phase == STOPPING)
        return;
    j->judged = 1;
    sentence = hp_verdict_sentence(&j->verdict, j->running);
    say(j, "%s", sentence);
    free(sentence);
    if (j->options->output_dir != NULL || hp_output_shown(j->output) - s->shown > SHOWN_LATELY)
        hp_last_words_each(&s->last_words, repeat_words, j);
    stop(j, hp_verdict_status(j->verdict.status), GRACE);
}

static void
rank_ended(job *j, int rank, int pid, int status, uint64_t ms)
{
    seat *s = &j->seat[rank];

    s->running = 0;
    j->running--;
    if (status == 0 || j->phase == STOPPING)
        return;
    if (j->verdict.rank >= 0 && !hp_verdict_worse(status, j->verdict.status))
        return;
    if (j->verdict.rank < 0)
        hp_timer_set(j->jury, j->running > 0 ? JURY : 0);
    j->verdict = (hp_ending){.rank = rank,
                             .pid = pid,
                             .host = host_name(j, s->host),
                             .program = j->options->argv[0],
                             .status = status,
                             .ms = ms};
}

/* --- input --- */

static void
give_input(void *arg, const uint8_t *bytes, size_t n)
{
    job *j = arg;
    hp_contact *contact = j->party[j->seat[0].host].contact;

    hp_packet_put(hp_contact_out(contact), HP_PK_STDIN, bytes, n, NULL, 0);
    hp_contact_push(contact);
}

static void
end_input(void *arg)
{
    job *j = arg;
    hp_contact *contact = j->party[j->seat[0].host].contact;

    hp_packet_put(hp_contact_out(contact), HP_PK_STDIN_END, NULL, 0, NULL, 0);
    hp_contact_push(contact);
}

/* --- orders --- */

/* Where rank 0 lives, for programs that make their own meeting there. */
static const char *
master_address(const job *j, char out[HP_ADDR_TEXT])
{
    const hp_host *host = &j->layout->hosts->host[j->seat[0].host];

    if (host->addr[0] != '\0')
        return host->addr;
    if (j->layout->site[j->seat[0].host].here)
        return hp_addr_host(&j->address, out);
    return hp_meet_bare_name(host->name);
}

static void
add_variables(const job *j, int host, hp_words *variables)
{
    char text[HP_ADDR_TEXT], ifname[HP_HOST_ADDR + 8];
    size_t i;

    hp_variables_settings(variables);
    for (i = 0; i < j->options->variables.count; i++)
        hp_words_add(variables, hp_must(strdup(j->options->variables.word[i])));
    hp_words_add(variables, hp_must_print("HOOP_RENDEZVOUS=%s", hp_addr_print(&j->address, text)));
    hp_words_add(variables, hp_must_print("HOOP_JOB=%s", j->id));
    hp_words_add(variables, hp_must_print("MASTER_ADDR=%s", master_address(j, text)));
    hp_words_add(variables, hp_must_print("MASTER_PORT=%d", FIRST_PORT + j->port % PORTS));
    if (hp_meet_ifname(&j->layout->hosts->host[host], ifname, sizeof ifname))
        hp_words_add(variables, hp_must_print("HOOP_SOCKET_IFNAME=%s", ifname));
}

static void
fill_orders(const job *j, int host, hp_orders *orders)
{
    const char *home = getenv("HOME");
    char **word;
    int i;

    for (word = j->options->argv; *word != NULL; word++)
        hp_words_add(&orders->argv, hp_must(strdup(*word)));
    add_variables(j, host, &orders->variables);
    orders->dir_must = j->options->wdir != NULL;
    orders->dir = hp_must(strdup(j->options->wdir ? j->options->wdir : j->options->here));
    orders->home = home && home[0] ? hp_must(strdup(home)) : NULL;
    orders->world = j->layout->place.size;
    orders->ranks = j->layout->place.count[host];
    orders->rank = hp_must_alloc((size_t)orders->ranks, sizeof *orders->rank);
    for (i = 0; i < orders->ranks; i++)
        orders->rank[i] = j->layout->place.first[host] + i;
}

static void
send_orders(job *j, int host)
{
    hp_bytes *out = hp_contact_out(j->party[host].contact);
    char secret[2 * HP_SECRET + 2];
    hp_orders orders = {0};

    hp_secret_format(secret, j->secret);
    hp_bytes_add(out, secret, sizeof secret - 1);
    hp_wipe(secret, sizeof secret);
    fill_orders(j, host, &orders);
    hp_orders_put(out, &orders);
    hp_orders_free(&orders);
    j->party[host].ordered = 1;
    hp_contact_push(j->party[host].contact);
}

static void
start_ranks(job *j)
{
    int i;

    hp_timer_set(j->patience, HP_NEVER);
    j->phase = RUNNING;
    j->running = j->layout->place.size;
    for (i = 0; i < j->layout->hosts->count; i++)
        if (j->party[i].contact != NULL)
            send_orders(j, i);
    hp_wipe(j->secret, sizeof j->secret);
    if (j->options->timeout > 0)
        hp_timer_set(j->limit, j->options->timeout);
    if (j->input != NULL)
        hp_input_go(j->input);
    else
        end_input(j);
}

/* --- the server --- */

/* The launcher's own entry in the hostfile; NULL when it has none. */
static const hp_host *
own_host(const job *j)
{
    int i;

    for (i = 0; i < j->layout->hosts->count; i++)
        if (j->layout->site[i].here)
            return &j->layout->hosts->host[i];
    return NULL;
}

static hoop_result
find_address(job *j, int host, hoop_error *error)
{
    if (j->layout->all_here)
        return hp_meet_loopback(&j->address, error);
    return hp_meet_address(&j->address, own_host(j), &j->layout->hosts->host[host],
                           hp_contact_seen_from(j->party[host].contact), error);
}

/* Opens the server once a host has answered that can tell where it sees us. */
static void
open_server(job *j, int host)
{
    hp_server_options options = {.mode = HP_MODE_AUTH, .say = server_says, .arg = j};
    char text[HP_ADDR_TEXT];
    hoop_error error;

    if (j->server != NULL || (!j->layout->all_here && j->layout->site[host].here))
        return;
    if (find_address(j, host, &error) == HOOP_SUCCESS) {
        options.listen = j->address;
        memcpy(options.secret, j->secret, sizeof options.secret);
        j->server = hp_server_new(j->loop, &options, &error);
        hp_wipe(options.secret, sizeof options.secret);
    }
    if (j->server == NULL) {
        say(j, "cannot open the rendezvous server: %s", error.text);
        stop(j, 2, GRACE);
        return;
    }
    j->address = *hp_server_addr(j->server);
    if (j->options->verbose)
        say(j, "the rendezvous server listens on %s", hp_addr_print(&j->address, text));
}

/* --- agents --- */

static void
greeted(void *arg, hp_contact *contact)
{
    job *j = arg;
    int host = host_of(j, contact);

    if (j->options->verbose) {
        say(j, "%s has answered", host_name(j, host));
        quote(j, host_name(j, host), hp_contact_noise(contact));
        quote(j, host_name(j, host), hp_contact_words(contact));
    }
    if (j->phase != CALLING) {
        hp_contact_hang_up(contact);
        return;
    }
    j->greeted++;
    open_server(j, host);
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
    if (stream == 2) {
        hp_last_words_add(&j->seat[rank].last_words, bytes, n);
        j->seat[rank].shown = hp_output_shown(j->output);
    }
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
    for (i = 0; i < j->layout->hosts->count; i++)
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
        say(j, "cannot write the ranks' output: %s; stopping %d ranks", strerror(number), j->running);
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
host_failed(job *j, int host, const hp_packet *packet)
{
    if (j->phase != STOPPING)
        say(j, "%s: %.*s", host_name(j, host), (int)(packet->size - 4), (const char *)packet->payload + 4);
    j->party[host].done = 1;
    j->running -= j->layout->place.count[host];
    stop(j, (int)(hp_get32(packet->payload) & 255), GRACE);
}

static void
take_packet(void *arg, hp_contact *contact, const hp_packet *packet)
{
    job *j = arg;
    const uint8_t *p = packet->payload;
    int host = host_of(j, contact);
    int about_rank = packet->type == HP_PK_STARTED || packet->type == HP_PK_OUTPUT || packet->type == HP_PK_EXIT;
    int rank = about_rank ? rank_of(j, host, hp_get32(p)) : -1;

    if (!j->party[host].ordered || (about_rank && rank < 0))
        return;
    switch (packet->type) {
    case HP_PK_STARTED:
        j->seat[rank].pid = (int)hp_get32(p + 4);
        j->seat[rank].running = 1;
        break;
    case HP_PK_OUTPUT:
        if (p[4] == 1 || p[4] == 2)
            take_output(j, rank, p[4], p + 5, packet->size - 5);
        balance(j);
        check_output(j);
        break;
    case HP_PK_EXIT:
        if (j->seat[rank].running)
            rank_ended(j, rank, (int)hp_get32(p + 4), (int)hp_get32(p + 8), hp_get64(p + 12));
        break;
    case HP_PK_TAKEN:
        if (j->input != NULL)
            hp_input_taken(j->input, hp_get32(p));
        break;
    case HP_PK_FAIL: host_failed(j, host, packet); break;
    default: j->party[host].done = 1;
    }
}

/* --- agents that end --- */

/* How long hosts may take to answer: as long as ranks may take to meet. */
static uint64_t
patience(void)
{
    const char *ms = getenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
    long value = ms ? strtol(ms, NULL, 10) : 0;

    return value > 0 ? (uint64_t)value * HP_MS : GREETING_LIMIT;
}

/* What a user can type to see for himself whether the host can be reached; free() it. */
static char *
by_hand(const job *j, int host)
{
    const hp_words *call = &j->layout->site[host].call;
    char *line = hp_must(strdup("true"));
    size_t i;

    for (i = call->count - 2; i-- > 0;) {
        char *longer = hp_must_print("%s %s", call->word[i], line);

        free(line);
        line = longer;
    }
    return line;
}

static void
say_how_it_ended(job *j, int host)
{
    const hp_contact *contact = j->party[host].contact;
    const char *words = hp_contact_words(contact), *broken = hp_contact_broken(contact);
    const char *name = host_name(j, host);
    int status = hp_contact_ending(contact), ordered = j->party[host].ordered;
    char how[64], *hand = by_hand(j, host);

    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    if (broken[0] != '\0')
        say(j, "%s: %s; is it the same version of hoop?", name, broken);
    else if (hp_contact_lacks_agent(contact))
        say(j, "%s has no hoop-launch where it was looked for (`%s` %s); install hoop there, or say where it is with "
               "--prefix DIR", name, hp_contact_command(contact), how);
    else if (ordered)
        say(j, "%s is lost: `%s` %s; stopping %d ranks", name, hp_contact_command(contact), how, j->running);
    else
        say(j, "cannot start on %s: `%s` %s; try by hand what `%s` says", name, hp_contact_command(contact), how, hand);
    quote(j, name, hp_contact_noise(contact));
    quote(j, name, words);
    free(hand);
}

static void
call_more(job *j);

static void
contact_over(void *arg, hp_contact *contact)
{
    job *j = arg;
    int host = host_of(j, contact);

    j->over++;
    if (!j->party[host].done && j->phase != STOPPING && j->phase != FINISHED) {
        if (j->judged || j->verdict.rank < 0)
            say_how_it_ended(j, host);
        stop(j, 1, GRACE);
    }
    if (j->phase == CALLING)
        call_more(j);
    if (j->over == j->called && j->verdict.rank >= 0)
        pronounce(j);
    if (j->over == j->called)
        finish(j);
}

static void
say_silence(job *j, int host)
{
    const hp_contact *contact = j->party[host].contact;
    char *hand = by_hand(j, host);

    say(j, "%s has not answered within %d s: `%s`; try by hand what `%s` says", host_name(j, host),
        (int)(patience() / HP_SEC), hp_contact_command(contact), hand);
    quote(j, host_name(j, host), hp_contact_noise(contact));
    quote(j, host_name(j, host), hp_contact_words(contact));
    free(hand);
}

static void
lost_patience(void *arg)
{
    job *j = arg;
    int i;

    for (i = 0; i < j->layout->hosts->count; i++)
        if (j->party[i].contact != NULL && hp_contact_status(j->party[i].contact) == HP_CONTACT_CALLING)
            say_silence(j, i);
    stop(j, 1, GRACE);
}

static void
call_host(job *j, int host)
{
    const hp_contact_owner owner = {j, greeted, take_packet, contact_over};
    const hp_site *site = &j->layout->site[host];
    hoop_error error;

    j->party[host].contact = hp_contact_new(j->loop, host_name(j, host), site->call.word, site->other.word, site->here,
                                            &owner, &error);
    if (j->party[host].contact == NULL) {
        say(j, "%s", error.text);
        stop(j, 1, GRACE);
        return;
    }
    j->called++;
    if (j->options->verbose)
        say(j, "calling %s: %s", host_name(j, host), hp_contact_command(j->party[host].contact));
}

/* Starts agents while not too many are being waited for. */
static void
call_more(job *j)
{
    int i;

    for (i = 0; i < j->layout->hosts->count; i++) {
        if (j->called - j->greeted - j->over >= CALLS_AT_ONCE || j->phase != CALLING)
            return;
        if (j->layout->place.count[i] > 0 && j->party[i].contact == NULL)
            call_host(j, i);
    }
}

/* --- signals --- */

static void
reap(job *j)
{
    int status, i;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (i = 0; i < j->layout->hosts->count; i++)
            if (j->party[i].contact != NULL && hp_contact_reaped(j->party[i].contact, pid, status))
                break;
}

static void
interrupted(job *j, int number)
{
    const char *name = number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "SIGHUP";

    if (j->by_signal != 0) {
        say(j, "%s again; killing what is left", name);
        j->hurry = 1;
        stop(j, j->status, 0);
        return;
    }
    j->by_signal = number;
    if (j->phase != STOPPING)
        say(j, "%s; stopping %d rank%s (once more: kill at once)", name, j->running, j->running == 1 ? "" : "s");
    stop(j, 128 + number, GRACE);
}

static void
pass_on(job *j, int number)
{
    int i;

    for (i = 0; i < j->layout->hosts->count; i++)
        if (j->party[i].ordered) {
            hp_packet_put32(hp_contact_out(j->party[i].contact), HP_PK_SIGNAL, (uint32_t)number);
            hp_contact_push(j->party[i].contact);
        }
}

static void
signalled(void *arg, int ready)
{
    job *j = arg;
    struct signalfd_siginfo info;

    (void)ready;
    while (read(j->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        switch (info.ssi_signo) {
        case SIGCHLD: reap(j); break;
        case SIGUSR1:
        case SIGUSR2: pass_on(j, (int)info.ssi_signo); break;
        case SIGCONT:
            if (j->input != NULL && j->phase == RUNNING)
                hp_input_go(j->input);
            break;
        default: interrupted(j, (int)info.ssi_signo);
        }
    }
}

static int
open_signals(job *j)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT};
    struct sigaction old;
    sigset_t set;
    size_t i;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    sigemptyset(&set);
    for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i] == SIGHUP && sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            continue; /* nohup means it */
        signal(numbers[i], SIG_DFL);
        sigaddset(&set, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    j->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (j->signal_fd < 0)
        return -1;
    j->signal_watch = hp_watch_new(j->loop, j->signal_fd, signalled, j);
    return j->signal_watch == NULL ? -1 : hp_watch_set(j->signal_watch, HP_READ);
}

/* --- life --- */

static void
fill_seats(job *j)
{
    int i, k;

    j->seat = hp_must_alloc((size_t)j->layout->place.size, sizeof *j->seat);
    j->party = hp_must_alloc((size_t)j->layout->hosts->count, sizeof *j->party);
    for (i = 0; i < j->layout->hosts->count; i++) {
        j->used += j->layout->place.count[i] > 0;
        for (k = 0; k < j->layout->place.count[i]; k++)
            j->seat[j->layout->place.first[i] + k].host = i;
    }
}

static hoop_result
make_secret(job *j, hoop_error *error)
{
    uint8_t id[8];
    hoop_result result = hp_random(j->secret, sizeof j->secret, error);
    int i;

    if (result == HOOP_SUCCESS)
        result = hp_random(id, sizeof id, error);
    if (result == HOOP_SUCCESS)
        result = hp_random(&j->port, sizeof j->port, error);
    for (i = 0; result == HOOP_SUCCESS && i < (int)sizeof id; i++)
        snprintf(j->id + 2 * i, 3, "%02x", id[i]);
    return result;
}

static hoop_result
open_job(job *j, hoop_error *error)
{
    const hp_output_options output = {.size = j->layout->place.size,
                                      .label = j->layout->place.size > 1 && (j->options->label || isatty(STDOUT_FILENO)),
                                      .dir = j->options->output_dir,
                                      .moved = output_moved,
                                      .arg = j};
    const hp_input_owner input = {j, give_input, end_input};

    fill_seats(j);
    j->loop = hp_loop_new();
    if (j->loop == NULL || open_signals(j) < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot start the event loop");
    j->limit = hp_must(hp_timer_new(j->loop, time_is_up, j));
    j->patience = hp_must(hp_timer_new(j->loop, lost_patience, j));
    j->deadline = hp_must(hp_timer_new(j->loop, deadline_passed, j));
    j->jury = hp_must(hp_timer_new(j->loop, pronounce, j));
    if (!j->options->stdin_used)
        j->input = hp_input_new(j->loop, STDIN_FILENO, &input);
    j->output = hp_output_new(j->loop, &output, error);
    return j->output == NULL ? HOOP_ERR_INVALID_ARGUMENT : make_secret(j, error);
}

static void
close_job(job *j)
{
    int i;

    for (i = 0; i < j->layout->hosts->count; i++)
        if (j->party[i].contact != NULL)
            hp_contact_free(j->party[i].contact);
    for (i = 0; i < j->layout->place.size; i++)
        hp_bytes_free(&j->seat[i].last_words);
    if (j->server != NULL)
        hp_server_free(j->server);
    if (j->output != NULL)
        hp_output_free(j->output);
    hp_input_free(j->input);
    hp_timer_free(j->limit);
    hp_timer_free(j->patience);
    hp_timer_free(j->deadline);
    hp_timer_free(j->jury);
    hp_watch_free(j->signal_watch);
    if (j->loop != NULL)
        hp_loop_free(j->loop);
    free(j->seat);
    free(j->party);
    hp_wipe(j->secret, sizeof j->secret);
}

int
hp_job_run(const hp_options *options, const hp_layout *layout, int *by_signal)
{
    job j = {.options = options, .layout = layout, .signal_fd = -1, .verdict.rank = -1};
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
