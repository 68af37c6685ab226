/* SPDX-License-Identifier: MIT */
/* job_server: see job_server.h. The secret is this job's own key, so the server refuses all others. */
#include "launch/job_server.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/wire.h"
#include "flight/sweep.h"
#include "launch/server_process.h"
#include "launch/spawn.h"
#include "lib/config.h"
#include "net/interface.h"
#include "net/socket.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PIECE = 64 * 1024,
    ANSWER_MS = 2000,  /* for an answer */
    END_MS = 2000,     /* for the end of the process, before it is killed */
    ROW = 30,          /* deaths in a row after which it is not started again */
    BEHIND = 64 * 1024 /* bytes that the process has not read: what is told each second anyway can wait */
};

#define SHORT_LIFE (10 * HP_SEC) /* after which a death belongs to the row of those before */
#define START (100 * HP_MS) /* who dies within it has not come to serve; then the next one is started after a pause */
#define PAUSE (250 * HP_MS)

static void start_again(void *arg);

hoop_result
hp_job_server_open(hp_job_server *s, hp_loop *loop, const hp_options *options, const hp_mapping *mapping,
                   hoop_error *error)
{
    uint8_t id[4];
    *s = (hp_job_server){.loop = loop, .options = options, .mapping = mapping, .listener = -1, .fd = -1};
    s->again = hp_xcheck(hp_timer_new(loop, start_again, s));
    s->rank = hp_xcalloc((size_t)mapping->ranks.size, sizeof(*s->rank));
    for (int i = 0; i < mapping->list->count; i++)
        for (int k = 0; k < mapping->ranks.count[i]; k++)
            s->rank[mapping->ranks.first[i] + k].host = hp_mapping_name(mapping, i);
    s->secret = hp_xcheck(hp_secmem_new(sizeof(*s->secret)));
    if (hp_random(s->secret->key, sizeof(s->secret->key), error) != HOOP_SUCCESS ||
        hp_random(id, sizeof(id), error) != HOOP_SUCCESS || hp_random(&s->port, sizeof(s->port), error) != HOOP_SUCCESS)
        return error->code;
    for (size_t i = 0; i < sizeof(id); i++)
        snprintf(s->id + 2 * i, 3, "%02x", id[i]);
    s->secret->of_job = 1;
    return hp_job_id(s->secret->job_id, s->id, error);
}

/* --- its address --- */

static hoop_result
find_loopback(hp_addr *addr, hoop_error *error)
{
    if (hp_local_address(addr, "127.0.0.1") || hp_local_address(addr, "::1"))
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_SYSTEM,
                      "this machine has neither 127.0.0.1 nor ::1; bring its loopback interface up: ip link set lo up");
}

/*
 * The first address of the only interface that may lead to other machines, or of loopback: without any such interface,
 * only this machine itself can be behind the remote shell. 0: there are several.
 */
static int
only_interface(hp_addr *addr, char name[IF_NAMESIZE])
{
    struct ifaddrs *all = NULL;
    int count = 0;
    hp_addr found;
    name[0] = '\0';
    if (getifaddrs(&all) < 0)
        return 0;
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
        unsigned wanted = IFF_UP | IFF_RUNNING;
        if ((entry->ifa_flags & (wanted | IFF_LOOPBACK)) != wanted || strcmp(entry->ifa_name, name) == 0 ||
            !hp_interface_addr(&found, entry) || hp_addr_is_link_local(&found))
            continue;
        *addr = found;
        snprintf(name, IF_NAMESIZE, "%s", entry->ifa_name);
        count++;
    }
    freeifaddrs(all);
    if (count > 0)
        return count == 1;
    snprintf(name, IF_NAMESIZE, "lo");
    return find_loopback(addr, NULL) == HOOP_SUCCESS;
}

/*
 * The address to listen on for ranks on `host`. In this order: the interface or address given for this machine (in its
 * hostfile entry, else HOOP_SOCKET_IFNAME), the address that the remote shell says it was called from (seen_from), the one
 * that routes to `host`, the one that routes to the world, that of the only interface (loopback, if there is no other). The
 * last one is a guess, and named. A name is resolved only if nothing else tells, because a resolver may take long.
 */
static hoop_result
find_address(hp_job_server *s, int host, const char *seen_from, char **note, hoop_error *error)
{
    static const char *const world[] = {"192.0.2.1", "2001:db8::1"}; /* addresses of documentation: no host has them */
    const hp_mapping *mapping = s->mapping;
    const hp_host_entry *remote = &mapping->list->entry[host], *own = NULL;
    const char *wanted = getenv("HOOP_SOCKET_IFNAME");
    const char *name = remote->addr[0] != '\0' ? remote->addr : hp_local_bare_name(remote->name);
    char ifname[HP_HOST_ADDR + 8], guess[IF_NAMESIZE], text[HP_ADDR_TEXT];
    hp_addr to, *addr = &s->address;
    if (mapping->all_here)
        return find_loopback(addr, error);
    for (int i = 0; i < mapping->list->count && !own; i++)
        own = mapping->host[i].here ? &mapping->list->entry[i] : NULL;
    if (own && hp_local_ifname(own, ifname, sizeof(ifname)))
        wanted = ifname;
    if (wanted && wanted[0] != '\0')
        return hp_interface_choose(addr, wanted, NULL, NULL, NULL, 0, error);
    if (remote->addr[0] == '\0' && hp_local_address(addr, seen_from))
        return HOOP_SUCCESS;
    if (hp_addr_find_host(&to, name, 0, NULL, HP_NEVER, NULL) == HOOP_SUCCESS && hp_addr_route(addr, &to))
        return HOOP_SUCCESS;
    for (size_t i = 0; i < sizeof(world) / sizeof(world[0]); i++)
        if (hp_addr_find_host(&to, world[i], 0, NULL, HP_NEVER, NULL) == HOOP_SUCCESS && hp_addr_route(addr, &to))
            return HOOP_SUCCESS;
    if (!only_interface(addr, guess))
        return hp_err_set(
            error, HOOP_ERR_SYSTEM,
            "found no address of this machine that %.60s can reach; set HOOP_SOCKET_IFNAME to the network that "
            "the hosts share, such as 10.1.0.0/16, or give %.60s an addr= in a hostfile",
            remote->name, remote->name);
    *note = hp_xasprintf("there is no route to %s; the rendezvous server listens on the only interface, %s (%s)",
                         hp_mapping_name(mapping, host), guess, hp_addr_host(addr, text));
    return HOOP_SUCCESS;
}

/* --- to its process --- */

static void
tell_rank(hp_job_server *s, int rank)
{
    if (s->fd < 0)
        return;
    hp_job_rank_put(&s->out.buffer, rank, &s->rank[rank]);
    hp_write_queue_push(&s->out);
}

void
hp_job_server_rank(hp_job_server *s, int rank, const char *host, uint32_t pid, hp_process state)
{
    hp_job_rank *r = &s->rank[rank];
    int again = host == r->host && pid == r->pid && hp_buffer_size(&s->out.buffer) > BEHIND;
    r->host = host;
    r->ended = r->ended && pid == r->pid;
    r->pid = pid;
    r->state = state;
    if (!again)
        tell_rank(s, rank);
}

void
hp_job_server_rank_over(hp_job_server *s, int rank)
{
    s->rank[rank].ended = 1;
    tell_rank(s, rank);
}

/* What has come from it. 0: nothing more for now, or for ever. */
static int
read_some(hp_job_server *s)
{
    ssize_t n = s->fd >= 0 ? read(s->fd, hp_xbuffer_room(&s->in, PIECE), PIECE) : 0;
    if (n > 0)
        hp_buffer_grown(&s->in, (size_t)n);
    if (n == 0 && s->watch)
        hp_watch_set(s->watch, 0); /* it has ended, and will be reaped */
    return n > 0;
}

static void
readable(void *arg, int ready)
{
    (void)ready;
    read_some(arg);
}

static void
hang_up(hp_job_server *s)
{
    hp_watch_free(s->watch);
    hp_write_queue_close(&s->out);
    hp_buffer_free(&s->in);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->watch = NULL;
    s->taken = 0;
}

/* How it serves, and what is known of the ranks; whether one is stopped their agents will tell. */
static void
tell_all(hp_job_server *s)
{
    hp_serving serving = {.secret = *s->secret,
                          .size = s->mapping->ranks.size,
                          .logs = s->options->verbose,
                          .summary = s->options->summary || s->options->verbose};
    memcpy(serving.job, s->id, sizeof(serving.job));
    hp_agent_msg_put(&s->out.buffer, HP_MSG_SERVE, &serving, sizeof(serving), NULL, 0);
    hp_wipe(&serving, sizeof(serving));
    for (int rank = 0; rank < s->mapping->ranks.size; rank++) {
        s->rank[rank].state = HP_PROCESS_UNKNOWN;
        tell_rank(s, rank);
    }
}

/* Of its own file, which may have been replaced meanwhile. */
static hoop_result
start_process(hp_job_server *s, hoop_error *error)
{
    char path[PATH_MAX];
    char *const argv[] = {path, "--serve", NULL};
    hp_spawn_step step;
    int pair[2];
    hang_up(s);
    hp_spawn_own_path(path);
    s->since = hp_loop_now(s->loop);
    s->died = s->stranded = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot make a socket to its process");
    const hp_spawn spawn = {.argv = argv,
                            .file = access("/proc/self/exe", X_OK) == 0 ? "/proc/self/exe" : NULL,
                            .fd = {pair[1], -1, STDERR_FILENO, s->listener},
                            .shielded = 1,
                            .death_signal = SIGKILL};
    pid_t pid = hp_spawn_start(&spawn, &step);
    int number = errno;
    close(pair[1]);
    s->fd = pair[0];
    s->pid = pid > 0 ? pid : 0;
    if (pid > 0) {
        s->watch = hp_watch_new(s->loop, s->fd, readable, s);
        if (s->watch && hp_watch_set(s->watch, HP_READ) == 0 && hp_write_queue_open(&s->out, s->loop, s->fd) == 0) {
            tell_all(s);
            return HOOP_SUCCESS;
        }
        number = errno;
    }
    hang_up(s); /* which ends the process, if there is one */
    return hp_err_sys(error, HOOP_ERR_SYSTEM, number, "cannot start its process, %.100s --serve", path);
}

hoop_result
hp_job_server_start(hp_job_server *s, int host, const char *seen_from, char **note, hoop_error *error)
{
    static const char name[] = "HOOP_PORT_RANGE=";
    const hp_strings *env = &s->options->variables;
    char range[HP_VALUE_TEXT];
    hp_ports ports;
    *note = NULL;
    if (s->listener >= 0 || (!s->mapping->all_here && s->mapping->host[host].here))
        return HOOP_SUCCESS;
    hp_config_glance(HP_SET_port_range, range); /* as the ranks will have it: from -x, else from our environment */
    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->item[i], name, sizeof(name) - 1) == 0)
            snprintf(range, sizeof(range), "%s", env->item[i] + sizeof(name) - 1);
    if (find_address(s, host, seen_from, note, error) != HOOP_SUCCESS ||
        hp_ports_parse(&ports, range, error) != HOOP_SUCCESS)
        return error->code;
    s->listener = hp_ports_listen(&ports, &s->address, HP_BACKLOG, error);
    if (s->listener < 0 || hp_sock_name(s->listener, &s->address, error) != HOOP_SUCCESS)
        return error->code;
    hp_flight_sweep(); /* agents sweep their hosts, of which this machine may be none */
    return start_process(s, error);
}

/* --- its death --- */

static void
start_again(void *arg)
{
    hp_job_server *s = arg;
    hoop_error error;
    if (start_process(s, &error) == HOOP_SUCCESS || s->pid > 0)
        return;
    s->died = 1; /* as one that ends at once */
    snprintf(s->how, sizeof(s->how), "was not started: %.160s", error.text);
}

int
hp_job_server_reaped(hp_job_server *s, pid_t pid, int status)
{
    if (pid != s->pid)
        return 0;
    s->pid = 0;
    s->died = 1;
    if (WIFSIGNALED(status))
        snprintf(s->how, sizeof(s->how), "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(s->how, sizeof(s->how), "has ended with status %d", WEXITSTATUS(status));
    return 1;
}

/* It has died, and all that it said is heard. Of a row of processes that die at their start only the first is told. */
static int
bury(hp_job_server *s, hp_server_event *event)
{
    uint64_t life = hp_loop_now(s->loop) - s->since;
    int fell = life < START, told = !(fell && s->fell);
    s->died = 0;
    s->deaths++;
    s->row = life < SHORT_LIFE ? s->row + 1 : 1;
    s->fell = fell;
    event->what = HP_SERVER_LINE;
    event->text = s->text;
    if (s->ending)
        return 0;
    if (s->row < ROW) {
        snprintf(s->text, sizeof(s->text), "the process of the rendezvous server %s; it is started again", s->how);
        hp_timer_set(s->again, fell ? PAUSE : 0);
        return told;
    }
    snprintf(s->text, sizeof(s->text),
             "the process of the rendezvous server %s, %d times in a row; it is not started again, and the ranks go on "
             "without it",
             s->how, s->row);
    hp_socket_close(s->listener);
    s->listener = -1;
    return 1;
}

/* --- what it says --- */

/* Texts end with a zero byte. 1: the owner hears of it. */
static int
take_message(hp_job_server *s, const hp_agent_msg *msg, hp_server_event *event)
{
    const uint8_t *more = msg->payload + sizeof(event->cause);
    switch (msg->type) {
    case HP_MSG_LINE:
        s->summaries += msg->payload[0] == HP_NOTICE_SUMMARY;
        event->what = HP_SERVER_LINE;
        event->text = (const char *)msg->payload + 1;
        return 1;
    case HP_MSG_RING_FAILED:
        memcpy(&event->cause, msg->payload, sizeof(event->cause));
        event->what = HP_SERVER_RING_FAILED;
        event->pid = hp_get32(more);
        event->split = more[4] ? (const char *)more + 5 : NULL;
        return 1;
    case HP_MSG_KNOCKED:
        event->what = HP_SERVER_KNOCKED;
        event->host = (int)hp_get32(msg->payload);
        return 1;
    case HP_MSG_PEER_TIMEOUT:
        event->what = HP_SERVER_PEER_TIMEOUT;
        event->ms = hp_get32(msg->payload);
        return 1;
    case HP_MSG_STRANDED: s->stranded = (int)hp_get32(msg->payload); return 0;
    default: s->answered = hp_get32(msg->payload); return 0;
    }
}

int
hp_job_server_hear(hp_job_server *s, hp_server_event *event)
{
    hp_agent_msg msg;
    hoop_error error;
    int got;
    while (s->died && read_some(s))
        continue;
    for (;;) {
        hp_buffer_drop(&s->in, s->taken);
        s->taken = 0;
        *event = (hp_server_event){0};
        got = hp_agent_msg_get(&s->in, HP_FROM_SERVER, &msg, &error);
        if (got <= 0)
            break;
        s->taken = HP_AGENT_MSG_HEAD + msg.size;
        if (take_message(s, &msg, event))
            return 1;
    }
    if (got < 0)
        hp_job_server_signal(s, SIGKILL);
    return s->died && bury(s, event);
}

/* --- questions --- */

/* The first word is the question's number. */
static void
ask(hp_job_server *s, hp_agent_msg_type type, const uint32_t *words, size_t n)
{
    s->asked_at = hp_now();
    if (s->fd < 0)
        return;
    hp_agent_msg_put_words(&s->out.buffer, type, words, n);
    hp_write_queue_push(&s->out);
}

void
hp_job_server_table(hp_job_server *s, int most, int width, int if_stalled)
{
    ask(s, HP_MSG_TABLE, (uint32_t[]){++s->asked, (uint32_t)most, (uint32_t)width, (uint32_t)if_stalled}, 4);
}

void
hp_job_server_sum_up(hp_job_server *s)
{
    ask(s, HP_MSG_SUM_UP, (uint32_t[]){++s->asked}, 1);
}

int
hp_job_server_answers(hp_job_server *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    uint64_t waited = (hp_now() - s->asked_at) / HP_MS;
    return s->fd >= 0 && hp_job_server_missed(s) && waited < ANSWER_MS && poll(&p, 1, ANSWER_MS - (int)waited) > 0 &&
           read_some(s);
}

int
hp_job_server_missed(const hp_job_server *s)
{
    return s->answered != s->asked;
}

void
hp_job_server_signal(const hp_job_server *s, int number)
{
    if (s->pid > 0)
        kill(s->pid, number);
}

void
hp_job_server_close(hp_job_server *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    if (!s->again)
        return;
    if (s->pid > 0 && shutdown(s->fd, SHUT_WR) == 0)
        while (poll(&p, 1, END_MS) > 0 && read_some(s))
            continue;
    hp_job_server_signal(s, SIGKILL); /* it has ended, unless it is stopped */
    if (s->pid > 0)
        waitpid(s->pid, NULL, 0);
    hang_up(s);
    if (s->listener >= 0)
        hp_socket_close(s->listener);
    hp_timer_free(s->again);
    free(s->rank);
    hp_secmem_free(s->secret);
    *s = (hp_job_server){.fd = -1, .listener = -1};
}
