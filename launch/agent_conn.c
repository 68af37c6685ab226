/* SPDX-License-Identifier: MIT */
/*
 * contact: see contact.h. The secret goes out only after the greeting, so that a shell that asks a question never reads
 * it. A contact is over when its process is reaped and its standard output has ended; somebody else may go on holding
 * that pipe (a remote shell's master process), so after the reaping a second is enough.
 */
#include "launch/agent_conn.h"

#include "base/clock.h"
#include "base/err.h"
#include "launch/proctree.h"
#include "launch/spawn.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, NOISE_MAX = 64 * 1024, WORDS_MAX = 4096 };

struct hp_contact {
    hp_loop *loop;
    char *command, *noise, *words;
    char *const *argv, *const *other;
    int local;
    hp_contact_owner owner;
    hp_contact_state state;
    int greeted;
    pid_t pid; /* 0: reaped */
    int status;
    int out_fd, err_fd; /* of the agent; -1: at their end */
    hp_watch *out_watch, *err_watch;
    hp_timer *timer;
    int in_fd; /* -1: hung up */
    hp_outbox to;
    hp_bytes from, said; /* said: standard error, for words */
    int paused;
    char seen_from[64];
    char broken[256];
};

static void
finish(hp_contact *c)
{
    if (c->state == HP_CONTACT_OVER)
        return;
    c->state = HP_CONTACT_OVER;
    c->owner.over(c->owner.arg, c);
}

/* --- words --- */

static void
keep_words(hp_contact *c)
{
    size_t size = hp_bytes_size(&c->said);
    if (size > WORDS_MAX)
        hp_bytes_drop(&c->said, size - WORDS_MAX);
    free(c->words);
    size = hp_bytes_size(&c->said);
    c->words = hp_must(size ? strndup((const char *)hp_bytes_first(&c->said), size) : strdup(""));
}

static void
close_err(hp_contact *c)
{
    hp_watch_free(c->err_watch);
    c->err_watch = NULL;
    if (c->err_fd >= 0)
        close(c->err_fd);
    c->err_fd = -1;
}

static int
read_err(hp_contact *c)
{
    ssize_t n;
    if (c->err_fd < 0)
        return 0;
    n = read(c->err_fd, hp_bytes_room(&c->said, WORDS_MAX), WORDS_MAX);
    if (n > 0) {
        hp_bytes_grown(&c->said, (size_t)n);
        keep_words(c);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_err(c);
    }
    return n > 0;
}

static void
err_readable(void *arg, int ready)
{
    (void)ready;
    read_err(arg);
}

/* --- greeting and packets --- */

static void
keep_noise(hp_contact *c, const char *noise, size_t n)
{
    free(c->noise);
    c->noise = hp_must(strndup(n ? noise : "", n));
}

/* "0.1.0 192.0.2.7": the version, which need not be ours, and where the remote shell says we are. 0: it is not that. */
static int
take_greeting(hp_contact *c, const char *line, size_t n)
{
    char text[96], from[64];
    int end = 0;
    snprintf(text, sizeof(text), "%.*s", (int)(n < sizeof(text) ? n : sizeof(text) - 1), line);
    if (sscanf(text, "%*d.%*d.%*d %63s%n", from, &end) != 1 || (size_t)end != n)
        return 0;
    if (strcmp(from, "-") != 0)
        snprintf(c->seen_from, sizeof(c->seen_from), "%s", from);
    return 1;
}

/* Looks for the greeting in a line of its own. 1: it was there and is taken. */
static int
find_greeting(hp_contact *c)
{
    static const char mark[] = "\n" HP_AGENT_GREETING;
    const char *first = (const char *)hp_bytes_first(&c->from), *end = first + hp_bytes_size(&c->from);
    const char *at, *newline;
    for (at = first; (at = memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1)) != NULL; at = newline) {
        const char *line = at + sizeof(mark) - 1;
        newline = memchr(line, '\n', (size_t)(end - line));
        if (!newline)
            break;
        if (!take_greeting(c, line, (size_t)(newline - line)))
            continue;
        keep_noise(c, first, (size_t)(at - first));
        hp_bytes_drop(&c->from, (size_t)(newline + 1 - first));
        return 1;
    }
    if (end - first > NOISE_MAX)
        hp_bytes_drop(&c->from, (size_t)(end - first) - NOISE_MAX);
    keep_noise(c, (const char *)hp_bytes_first(&c->from), hp_bytes_size(&c->from));
    return 0;
}

static void
close_out(hp_contact *c)
{
    hp_watch_free(c->out_watch);
    c->out_watch = NULL;
    if (c->out_fd >= 0)
        close(c->out_fd);
    c->out_fd = -1;
}

static void
take_packets(hp_contact *c)
{
    hp_packet packet;
    hoop_error error;
    int got;
    if (c->state == HP_CONTACT_CALLING) {
        if (!find_greeting(c))
            return;
        c->state = HP_CONTACT_GREETED;
        c->greeted = 1;
        c->owner.greeted(c->owner.arg, c);
    }
    while ((got = hp_packet_get(&c->from, HP_TO_LAUNCHER, &packet, &error)) > 0) {
        c->owner.packet(c->owner.arg, c, &packet);
        hp_packet_done(&c->from, &packet);
    }
    if (got < 0) {
        snprintf(c->broken, sizeof(c->broken), "%s", error.text);
        hp_contact_hang_up(c);
        hp_contact_kill(c, SIGTERM);
        close_out(c);
    }
}

/* Reads once; 1 when there may be more. */
static int
read_out(hp_contact *c)
{
    ssize_t n;
    if (c->out_fd < 0)
        return 0;
    n = read(c->out_fd, hp_bytes_room(&c->from, PIECE), PIECE);
    if (n > 0) {
        hp_bytes_grown(&c->from, (size_t)n);
        take_packets(c);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_out(c);
    }
    return n > 0;
}

static int call(hp_contact *c, hp_spawn_step *step);

/* The agent's program was not where we looked: 126 and 127 are the shells' words for it, others name the path. */
static int
program_missing(const hp_contact *c)
{
    const char *path = NULL;
    int i;
    for (i = 0; c->argv[i] != NULL; i++)
        if (strstr(c->argv[i], "hoop-launch"))
            path = c->argv[i];
    if (c->greeted || c->pid != 0 || !WIFEXITED(c->status))
        return 0;
    if (WEXITSTATUS(c->status) == 126 || WEXITSTATUS(c->status) == 127)
        return 1;
    return path && WEXITSTATUS(c->status) != 0 && strstr(c->words, path) != NULL;
}

/* Tries the other command. 1: it has been started. */
static int
call_again(hp_contact *c)
{
    hp_spawn_step step;
    if (!c->other || c->state != HP_CONTACT_CALLING || c->in_fd < 0 || !program_missing(c))
        return 0;
    close_err(c);
    hp_contact_hang_up(c);
    hp_bytes_free(&c->from);
    hp_bytes_free(&c->said);
    keep_words(c);
    keep_noise(c, "", 0);
    c->argv = c->other;
    c->other = NULL;
    return call(c, &step) == 0;
}

static void
settle(hp_contact *c)
{
    if (c->out_fd >= 0 || c->pid != 0 || c->state == HP_CONTACT_OVER)
        return;
    hp_timer_set(c->timer, HP_NEVER);
    while (read_err(c))
        continue;
    if (!call_again(c))
        finish(c);
}

static void
out_readable(void *arg, int ready)
{
    (void)ready;
    read_out(arg);
    settle(arg);
}

static void
waited_long_enough(void *arg)
{
    hp_contact *c = arg;
    while (!c->paused && read_out(c))
        continue;
    if (c->paused) {
        hp_timer_set(c->timer, HP_SEC);
        return;
    }
    close_out(c);
    settle(c);
}

/* --- starting --- */

static void
join_words(hp_contact *c)
{
    hp_bytes line = {0};
    int i;
    for (i = 0; c->argv[i] != NULL; i++) {
        if (i > 0)
            hp_bytes_add(&line, " ", 1);
        hp_bytes_add(&line, c->argv[i], strlen(c->argv[i]));
    }
    free(c->command);
    c->command = hp_must(strndup((const char *)hp_bytes_first(&line), hp_bytes_size(&line)));
    hp_bytes_free(&line);
}

static int
watch(hp_contact *c)
{
    if (fcntl(c->out_fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(c->err_fd, F_SETFL, O_NONBLOCK) < 0)
        return -1;
    c->out_watch = hp_watch_new(c->loop, c->out_fd, out_readable, c);
    c->err_watch = hp_watch_new(c->loop, c->err_fd, err_readable, c);
    if (!c->out_watch || !c->err_watch || hp_outbox_open(&c->to, c->loop, c->in_fd, NULL, NULL) < 0)
        return -1;
    return hp_watch_set(c->out_watch, c->paused ? 0 : HP_READ) | hp_watch_set(c->err_watch, HP_READ);
}

static int
call(hp_contact *c, hp_spawn_step *step)
{
    hp_spawn spawn = {.argv = c->argv, .fd = {-1, -1, -1, -1}, .session = c->local, .shielded = !c->local};
    hp_spawn_pipes p;
    join_words(c);
    *step = HP_SPAWN_FORK;
    if (hp_spawn_pipes_open(&p, 1) < 0)
        return -1;
    spawn.fd[0] = p.in[0];
    spawn.fd[1] = p.out[1];
    spawn.fd[2] = p.err[1];
    spawn.death_signal = c->local ? 0 : SIGTERM;
    c->pid = hp_spawn_start(&spawn, step);
    close(p.in[0]);
    close(p.out[1]);
    close(p.err[1]);
    c->in_fd = p.in[1];
    c->out_fd = p.out[0];
    c->err_fd = p.err[0];
    if (c->pid < 0)
        c->pid = 0;
    return c->pid == 0 ? -1 : watch(c);
}

hp_contact *
hp_contact_new(hp_loop *loop, const char *host, char *const *argv, char *const *other, int local,
               const hp_contact_owner *owner, hoop_error *error)
{
    hp_contact *c = hp_must_alloc(1, sizeof(*c));
    hp_spawn_step step;
    *c = (hp_contact){.loop = loop, .argv = argv, .other = other, .local = local, .owner = *owner};
    c->in_fd = c->out_fd = c->err_fd = -1;
    c->words = hp_must(strdup(""));
    c->noise = hp_must(strdup(""));
    c->timer = hp_must(hp_timer_new(loop, waited_long_enough, c));
    if (call(c, &step) == 0)
        return c;
    if (step == HP_SPAWN_EXEC && errno == ENOENT)
        hp_err_set(error, HOOP_ERR_SYSTEM,
                   "there is no program %s to reach %s with; install it, or name another with --rsh", argv[0], host);
    else
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot start %s for %s", argv[0], host);
    hp_contact_free(c);
    return NULL;
}

void
hp_contact_free(hp_contact *c)
{
    hp_contact_hang_up(c);
    close_out(c);
    close_err(c);
    hp_timer_free(c->timer);
    hp_bytes_free(&c->from);
    hp_bytes_free(&c->said);
    free(c->command);
    free(c->noise);
    free(c->words);
    free(c);
}

/* --- the owner's side --- */

hp_contact_state
hp_contact_status(const hp_contact *c)
{
    return c->state;
}

const char *
hp_contact_seen_from(const hp_contact *c)
{
    return c->seen_from;
}

const char *
hp_contact_noise(const hp_contact *c)
{
    return c->noise;
}

const char *
hp_contact_words(const hp_contact *c)
{
    return c->words;
}

const char *
hp_contact_command(const hp_contact *c)
{
    return c->command;
}

int
hp_contact_ending(const hp_contact *c)
{
    return c->status;
}

int
hp_contact_lacks_agent(const hp_contact *c)
{
    return c->state == HP_CONTACT_OVER && program_missing(c);
}

const char *
hp_contact_broken(const hp_contact *c)
{
    return c->broken;
}

hp_bytes *
hp_contact_out(hp_contact *c)
{
    return &c->to.bytes;
}

void
hp_contact_push(hp_contact *c)
{
    if (c->in_fd >= 0)
        hp_outbox_push(&c->to);
}

void
hp_contact_pause(hp_contact *c, int pause)
{
    if (c->paused == pause)
        return;
    c->paused = pause;
    if (c->out_watch)
        hp_watch_set(c->out_watch, pause ? 0 : HP_READ);
}

void
hp_contact_hang_up(hp_contact *c)
{
    if (c->in_fd < 0)
        return;
    hp_outbox_close(&c->to);
    close(c->in_fd);
    c->in_fd = -1;
}

void
hp_contact_kill(hp_contact *c, int signal)
{
    if (c->pid == 0)
        return;
    hp_kin_signal(c->pid, signal);
    kill(c->pid, signal);
}

int
hp_contact_reaped(hp_contact *c, pid_t pid, int status)
{
    if (c->pid != pid)
        return 0;
    c->pid = 0;
    c->status = status;
    if (c->out_fd >= 0)
        hp_timer_set(c->timer, HP_SEC);
    settle(c);
    return 1;
}
