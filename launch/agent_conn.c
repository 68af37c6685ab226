/* SPDX-License-Identifier: MIT */
/*
 * agent_conn: see agent_conn.h. The secret is sent only after the greeting, so that a shell that asks a question never
 * reads it. A connection is over when its process is reaped and its standard output has ended. Another process may
 * keep that pipe open (a remote shell's master process), so a second after the reaping is enough.
 */
#include "launch/agent_conn.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/say.h"
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

enum { PIECE = 64 * 1024, BANNER_MAX = 64 * 1024, STDERR_MAX = 4096 };

static void
close_end(int *fd, hp_watch **watch)
{
    hp_watch_free(*watch);
    *watch = NULL;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* --- standard error --- */

static int
read_err(hp_agent_conn *c)
{
    if (c->err_fd < 0)
        return 0;
    ssize_t n = read(c->err_fd, hp_xbuffer_room(&c->err, STDERR_MAX), STDERR_MAX);
    if (n > 0) {
        hp_buffer_grown(&c->err, (size_t)n);
        size_t size = hp_buffer_size(&c->err);
        hp_buffer_drop(&c->err, size > STDERR_MAX ? size - STDERR_MAX : 0);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_end(&c->err_fd, &c->err_watch);
    }
    return n > 0;
}

static void
err_readable(void *arg, int ready)
{
    (void)ready;
    read_err(arg);
}

/* --- greeting and messages --- */

/*
 * Takes "8 0.1.0 192.0.2.7": the version of the messages, which must be ours, that of hoop, and our address as the remote
 * shell knows it. 0: not that.
 */
static int
take_greeting(hp_agent_conn *c, const char *line, size_t n)
{
    char text[96], version[32], from[64];
    int end = 0;
    snprintf(text, sizeof(text), "%.*s", (int)(n < sizeof(text) ? n : sizeof(text) - 1), line);
    if (sscanf(text, "%*d %31[0-9.] %63s%n", version, from, &end) != 2 || (size_t)end != n)
        return 0;
    if (strcmp(from, "-") != 0)
        snprintf(c->seen_from, sizeof(c->seen_from), "%s", from);
    if (strncmp(line, HP_AGENT_GREETING + strlen(HP_AGENT_MARK), strlen(HP_AGENT_GREETING) - strlen(HP_AGENT_MARK)) !=
        0)
        snprintf(c->protocol_error, sizeof(c->protocol_error),
                 "its hoop-launch (%s) sends other messages than this hooprun understands", version);
    return 1;
}

/* Looks for the greeting, which is a line of its own. 1: found and taken. */
static int
find_greeting(hp_agent_conn *c)
{
    static const char mark[] = "\n" HP_AGENT_MARK;
    const char *first = (const char *)hp_buffer_first(&c->in), *end = first + hp_buffer_size(&c->in);
    for (const char *at = first, *newline; (at = memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1));
         at = newline) {
        const char *line = at + sizeof(mark) - 1;
        newline = memchr(line, '\n', (size_t)(end - line));
        if (!newline)
            break;
        if (!take_greeting(c, line, (size_t)(newline - line)))
            continue;
        hp_xbuffer_add(&c->banner, first, (size_t)(at - first));
        hp_buffer_drop(&c->in, (size_t)(newline + 1 - first));
        return 1;
    }
    if (end - first > BANNER_MAX)
        hp_buffer_drop(&c->in, (size_t)(end - first) - BANNER_MAX);
    return 0;
}

/* It is no agent, or one of another version. */
static void
refuse(hp_agent_conn *c)
{
    hp_agent_conn_hang_up(c);
    hp_agent_conn_kill(c);
    close_end(&c->out_fd, &c->out_watch);
}

/* Reads once; 1: there may be more. */
static int
read_out(hp_agent_conn *c)
{
    if (c->out_fd < 0)
        return 0;
    ssize_t n = read(c->out_fd, hp_xbuffer_room(&c->in, PIECE), PIECE);
    if (n > 0) {
        hp_buffer_grown(&c->in, (size_t)n);
        c->greeted |= c->state == HP_AGENT_CONN_STARTING && find_greeting(c) && !c->protocol_error[0];
        if (c->protocol_error[0])
            refuse(c);
        else if (c->greeted)
            c->state = HP_AGENT_CONN_GREETED;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_end(&c->out_fd, &c->out_watch);
    }
    return n > 0;
}

static int start(hp_agent_conn *c, hp_spawn_step *step);

/* Whether the agent's program is missing: shells exit with 126 or 127 for that; other programs print its path. */
static int
program_missing(const hp_agent_conn *c)
{
    const char *path = NULL;
    for (int i = 0; c->argv[i]; i++)
        if (strstr(c->argv[i], "hoop-launch"))
            path = c->argv[i];
    if (c->greeted || c->pid != 0 || !WIFEXITED(c->wait_status))
        return 0;
    if (WEXITSTATUS(c->wait_status) == 126 || WEXITSTATUS(c->wait_status) == 127)
        return 1;
    size_t n = hp_buffer_size(&c->err);
    return path && n > 0 && WEXITSTATUS(c->wait_status) != 0 && memmem(hp_buffer_first(&c->err), n, path, strlen(path));
}

static void
check_over(hp_agent_conn *c)
{
    if (c->out_fd >= 0 || c->pid != 0 || c->state == HP_AGENT_CONN_OVER)
        return;
    hp_timer_set(c->timer, HP_NEVER);
    while (read_err(c))
        continue;
    if (c->call.other && c->argv != c->call.other && c->state == HP_AGENT_CONN_STARTING && c->in_fd >= 0 &&
        program_missing(c)) {
        hp_spawn_step step;
        close_end(&c->err_fd, &c->err_watch);
        hp_agent_conn_hang_up(c);
        hp_buffer_free(&c->in);
        hp_buffer_free(&c->err);
        c->argv = c->call.other;
        if (start(c, &step) == 0)
            return;
    }
    c->state = HP_AGENT_CONN_OVER;
    c->lacks_agent = program_missing(c);
}

hp_agent_conn_news
hp_agent_conn_next(hp_agent_conn *c, hp_agent_msg *msg)
{
    hoop_error error;
    int got = 0;
    hp_buffer_drop(&c->in, c->taken);
    c->taken = 0;
    if (c->greeted && c->told == HP_AGENT_CONN_NOTHING)
        return c->told = HP_AGENT_CONN_GREETING;
    if (c->greeted && !c->protocol_error[0] && (got = hp_agent_msg_get(&c->in, HP_TO_LAUNCHER, msg, &error)) > 0) {
        c->taken = HP_AGENT_MSG_HEAD + msg->size;
        return HP_AGENT_CONN_MESSAGE;
    }
    if (got < 0) {
        snprintf(c->protocol_error, sizeof(c->protocol_error), "%s", error.text);
        refuse(c);
        check_over(c);
    }
    if (c->state != HP_AGENT_CONN_OVER || c->told == HP_AGENT_CONN_END)
        return HP_AGENT_CONN_NOTHING;
    return c->told = HP_AGENT_CONN_END;
}

static void
out_readable(void *arg, int ready)
{
    (void)ready;
    read_out(arg);
    check_over(arg);
}

static void
reaped_long_ago(void *arg)
{
    hp_agent_conn *c = arg;
    while (read_out(c))
        continue;
    close_end(&c->out_fd, &c->out_watch);
    check_over(c);
}

/* --- starting --- */

static int
watch(hp_agent_conn *c)
{
    if (fcntl(c->out_fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(c->err_fd, F_SETFL, O_NONBLOCK) < 0)
        return -1;
    c->out_watch = hp_watch_new(c->loop, c->out_fd, out_readable, c);
    c->err_watch = hp_watch_new(c->loop, c->err_fd, err_readable, c);
    if (!c->out_watch || !c->err_watch || hp_write_queue_open(&c->out, c->loop, c->in_fd) < 0)
        return -1;
    return hp_watch_set(c->out_watch, HP_READ) | hp_watch_set(c->err_watch, HP_READ);
}

static int
start(hp_agent_conn *c, hp_spawn_step *step)
{
    int local = c->call.local;
    hp_spawn spawn = {.argv = c->argv, .fd = {-1, -1, -1, -1}, .session = local, .shielded = !local};
    hp_spawn_pipes p;
    free(c->command);
    c->command = hp_strings_join(c->argv, SIZE_MAX);
    *step = HP_SPAWN_FORK;
    if (hp_spawn_pipes_open(&p, 1) < 0)
        return -1;
    spawn.fd[0] = p.in[0];
    spawn.fd[1] = p.out[1];
    spawn.fd[2] = p.err[1];
    spawn.death_signal = local ? 0 : SIGKILL; /* it ignores SIGTERM, which hooprun's process group may get */
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

hp_agent_conn *
hp_agent_conn_new(hp_loop *loop, const hp_agent_call *call, hoop_error *error)
{
    hp_agent_conn *c = hp_xcalloc(1, sizeof(*c));
    hp_spawn_step step;
    *c = (hp_agent_conn){.loop = loop, .call = *call, .argv = call->argv};
    c->in_fd = c->out_fd = c->err_fd = -1;
    c->timer = hp_xcheck(hp_timer_new(loop, reaped_long_ago, c));
    if (start(c, &step) == 0)
        return c;
    if (step == HP_SPAWN_EXEC && errno == ENOENT)
        hp_err_set(error, HOOP_ERR_SYSTEM,
                   "there is no program %s to reach %s with; install it, or name another with --rsh", call->argv[0],
                   call->host);
    else
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot start %s for %s", call->argv[0], call->host);
    hp_agent_conn_free(c);
    return NULL;
}

void
hp_agent_conn_free(hp_agent_conn *c)
{
    hp_agent_conn_hang_up(c);
    close_end(&c->out_fd, &c->out_watch);
    close_end(&c->err_fd, &c->err_watch);
    hp_timer_free(c->timer);
    hp_buffer_free(&c->in);
    hp_buffer_free(&c->err);
    hp_buffer_free(&c->banner);
    free(c->command);
    free(c);
}

/* --- the owner's side --- */

void
hp_agent_conn_push(hp_agent_conn *c)
{
    if (c->in_fd >= 0)
        hp_write_queue_push(&c->out);
}

void
hp_agent_conn_hang_up(hp_agent_conn *c)
{
    if (c->in_fd < 0)
        return;
    hp_write_queue_close(&c->out);
    close(c->in_fd);
    c->in_fd = -1;
}

void
hp_agent_conn_kill(hp_agent_conn *c)
{
    if (c->pid != 0)
        hp_proctree_end(c->pid);
}

int
hp_agent_conn_reaped(hp_agent_conn *c, pid_t pid, int status)
{
    if (c->pid != pid)
        return 0;
    c->pid = 0;
    c->wait_status = status;
    if (c->out_fd >= 0)
        hp_timer_set(c->timer, HP_SEC);
    check_over(c);
    return 1;
}

/* --- to the user --- */

/* The command with `true` in place of the agent's two words, to be tried by hand; free() it. */
static char *
by_hand(const hp_agent_conn *c)
{
    size_t count = 0;
    while (c->call.argv[count])
        count++;
    char *words = hp_strings_join(c->call.argv, count - 2), *line = hp_xasprintf("%s true", words);
    free(words);
    return line;
}

void
hp_agent_conn_quote(const hp_agent_conn *c, hp_output *output)
{
    hp_diag_quote(output, c->call.host, c->greeted || c->protocol_error[0] ? &c->banner : &c->in);
    hp_diag_quote(output, c->call.host, &c->err);
}

void
hp_agent_conn_report_end(const hp_agent_conn *c, hp_output *output, int running, int go_on)
{
    const char *host = c->call.host;
    int status = c->wait_status, killed = WIFSIGNALED(status);
    char *hand = by_hand(c);
    char how[64];
    snprintf(how, sizeof(how), killed ? "was killed by signal %d" : "ended with status %d",
             killed ? WTERMSIG(status) : WEXITSTATUS(status));
    if (c->protocol_error[0] != '\0')
        hp_diag(output, "%s: %s; is it the same version of hoop?", host, c->protocol_error);
    else if (c->lacks_agent)
        hp_diag(output, "%s: hoop-launch not found (`%s` %s); install hoop there, or name its folder with --prefix DIR",
                host, c->command, how);
    else if (running >= 0)
        hp_diag(output, "%s is lost: `%s` %s%s", host, c->command, how, hp_say_others(running, go_on).text);
    else
        hp_diag(output, "cannot start on %s: `%s` %s; to find the cause, run `%s` yourself", host, c->command, how,
                hand);
    hp_agent_conn_quote(c, output);
    free(hand);
}

void
hp_agent_conn_report_silence(const hp_agent_conn *c, hp_output *output, double seconds)
{
    char *hand = by_hand(c);
    hp_diag(output, "%s has not answered within %g s: `%s`; to find the cause, run `%s` yourself", c->call.host,
            seconds, c->command, hand);
    hp_agent_conn_quote(c, output);
    free(hand);
}
