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

enum { PIECE = 64 * 1024, ANSWER_MS = 1000, END_MS = 2000, FAILURES = 20 };

#define PAUSE (250 * HP_MS) /* before a start after one that has failed */

static void start_again(void *arg);

hoop_result
hp_job_server_open(hp_job_server *s, hp_loop *loop, const hp_options *options, const hp_mapping *mapping,
                   hoop_error *error)
{
    uint8_t id[4];
    *s = (hp_job_server){.loop = loop, .options = options, .mapping = mapping, .fd = -1};
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
    hp_addr found = {0};
    name[0] = '\0';
    if (getifaddrs(&all) < 0)
        return 0;
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
        unsigned wanted = IFF_UP | IFF_RUNNING;
        int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
        if ((family != AF_INET && family != AF_INET6) || (entry->ifa_flags & (wanted | IFF_LOOPBACK)) != wanted ||
            strcmp(entry->ifa_name, name) == 0)
            continue;
        found.length = family == AF_INET ? sizeof(found.u.v4) : sizeof(found.u.v6);
        memcpy(&found.u, entry->ifa_addr, found.length);
        if (hp_addr_is_link_local(&found))
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
    r->host = host;
    r->pid = pid;
    r->state = state;
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
    if (n == 0 && s->fd >= 0)
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

/* Starts the process, and tells it how to serve, and of all ranks. */
static hoop_result
start_process(hp_job_server *s, hoop_error *error)
{
    char path[PATH_MAX];
    char *const argv[] = {path, "--serve", NULL};
    hp_serving serving = {.listen = s->address,
                          .ports = s->ports,
                          .secret = *s->secret,
                          .size = s->mapping->ranks.size,
                          .logs = s->options->verbose,
                          .summary = s->options->summary || s->options->verbose};
    hp_spawn_step step;
    int pair[2];
    hang_up(s);
    hp_spawn_own_path(path);
    memcpy(serving.job, s->id, sizeof(serving.job));
    s->since = hp_loop_now(s->loop);
    s->died = s->stranded = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot open a socket to its process");
    const hp_spawn spawn = {.argv = argv, .fd = {-1, -1, STDERR_FILENO, pair[1]}, .shielded = 1};
    s->pid = hp_spawn_start(&spawn, &step);
    int number = errno;
    close(pair[1]);
    s->fd = pair[0];
    if (s->pid < 0) {
        s->pid = 0;
        return hp_err_sys(error, HOOP_ERR_SYSTEM, number, "cannot start its process, %s --serve", path);
    }
    s->watch = hp_watch_new(s->loop, s->fd, readable, s);
    if (hp_write_queue_open(&s->out, s->loop, s->fd) < 0 || !s->watch || hp_watch_set(s->watch, HP_READ) < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot watch its process");
    hp_agent_msg_put(&s->out.buffer, HP_MSG_SERVE, &serving, sizeof(serving), NULL, 0);
    hp_wipe(&serving, sizeof(serving));
    for (int rank = 0; rank < s->mapping->ranks.size; rank++)
        tell_rank(s, rank);
    return HOOP_SUCCESS;
}

hoop_result
hp_job_server_start(hp_job_server *s, int host, const char *seen_from, char **note, hoop_error *error)
{
    static const char name[] = "HOOP_PORT_RANGE=";
    const hp_strings *env = &s->options->variables;
    char range[HP_VALUE_TEXT];
    *note = NULL;
    if (s->since || (!s->mapping->all_here && s->mapping->host[host].here))
        return HOOP_SUCCESS;
    hp_config_glance(HP_SET_port_range, range); /* as the ranks will have it: from -x, else from our environment */
    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->item[i], name, sizeof(name) - 1) == 0)
            snprintf(range, sizeof(range), "%s", env->item[i] + sizeof(name) - 1);
    if (find_address(s, host, seen_from, note, error) != HOOP_SUCCESS ||
        hp_ports_parse(&s->ports, range, error) != HOOP_SUCCESS)
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
    if (start_process(s, &error) != HOOP_SUCCESS && s->pid == 0)
        s->died = 1; /* as one that has ended at once */
}

int
hp_job_server_reaped(hp_job_server *s, pid_t pid, int status)
{
    if (pid != s->pid)
        return 0;
    s->pid = 0;
    s->died = 1;
    s->wait_status = status;
    return 1;
}

/* It has died, and all that it said is heard. */
static void
bury(hp_job_server *s, hp_server_event *event)
{
    int quick = hp_loop_now(s->loop) - s->since < HP_SEC;
    char how[80];
    s->died = 0;
    s->failures = quick ? s->failures + 1 : 0;
    event->text = s->text;
    if (WIFSIGNALED(s->wait_status))
        snprintf(how, sizeof(how), "was killed by signal %d (%s)", WTERMSIG(s->wait_status),
                 strsignal(WTERMSIG(s->wait_status)));
    else
        snprintf(how, sizeof(how), "has ended with status %d", WEXITSTATUS(s->wait_status));
    if (s->open && s->failures < FAILURES) {
        snprintf(s->text, sizeof(s->text),
                 "the process of the rendezvous server %s; it is started again, and the ranks go on", how);
        event->what = HP_SERVER_LINE;
        hp_timer_set(s->again, s->failures ? PAUSE : 0);
        return;
    }
    event->what = HP_SERVER_LOST;
    event->status = s->open ? 1 : 2;
    snprintf(s->text, sizeof(s->text), "the process of the rendezvous server %s%s; stopping the ranks", how,
             s->open ? ", and so have those before" : "");
}

/* --- what it says --- */

/* Texts end with a zero byte. 1: the owner hears of it. */
static int
take_message(hp_job_server *s, const hp_agent_msg *msg, hp_server_event *event)
{
    const uint8_t *more = msg->payload + sizeof(event->cause);
    event->text = (const char *)msg->payload;
    switch (msg->type) {
    case HP_MSG_SERVES:
        event->what = HP_SERVER_OPEN;
        return !s->open && (s->open = hp_addr_parse(&s->address, event->text, NULL) == HOOP_SUCCESS);
    case HP_MSG_NO_SERVER:
        memcpy(&event->cause, msg->payload, sizeof(event->cause));
        snprintf(s->text, sizeof(s->text), "cannot open the rendezvous server: %s", event->cause.text);
        event->what = HP_SERVER_LOST;
        event->status = 2;
        event->text = s->text;
        return !s->open; /* later its port may be taken for a while: it is tried again */
    case HP_MSG_LINE: event->what = HP_SERVER_LINE; return 1;
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
    case HP_MSG_STRANDED: s->stranded = (int)hp_get32(msg->payload); return 0;
    default: s->said = 1; return 0;
    }
}

int
hp_job_server_hear(hp_job_server *s, hp_server_event *event)
{
    hp_agent_msg msg;
    hoop_error error;
    while (s->died && read_some(s))
        continue;
    for (;;) {
        hp_buffer_drop(&s->in, s->taken);
        s->taken = 0;
        *event = (hp_server_event){.text = ""};
        if (hp_agent_msg_get(&s->in, HP_FROM_SERVER, &msg, &error) <= 0)
            break;
        s->taken = HP_AGENT_MSG_HEAD + msg.size;
        if (take_message(s, &msg, event))
            return 1;
    }
    if (!s->died)
        return 0;
    bury(s, event);
    return 1;
}

/* --- questions --- */

static void
ask(hp_job_server *s, hp_agent_msg_type type, const uint32_t *words, size_t n)
{
    s->said = s->fd < 0;
    s->asked = hp_now();
    if (s->fd < 0)
        return;
    hp_agent_msg_put_words(&s->out.buffer, type, words, n);
    hp_write_queue_push(&s->out);
}

void
hp_job_server_table(hp_job_server *s, int most, int width, int if_stalled)
{
    ask(s, HP_MSG_TABLE, (const uint32_t[]){(uint32_t)most, (uint32_t)width, (uint32_t)if_stalled}, 3);
}

void
hp_job_server_sum_up(hp_job_server *s, int or_not)
{
    ask(s, HP_MSG_SUM_UP, (const uint32_t[]){(uint32_t)or_not}, 1);
}

int
hp_job_server_answers(hp_job_server *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    uint64_t waited = (hp_now() - s->asked) / HP_MS;
    return !s->said && waited < ANSWER_MS && poll(&p, 1, ANSWER_MS - (int)waited) > 0 && read_some(s);
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
    if (s->pid > 0 && s->fd >= 0 && shutdown(s->fd, SHUT_WR) == 0)
        while (poll(&p, 1, END_MS) > 0 && read_some(s))
            continue;
    hp_job_server_signal(s, SIGKILL); /* it has ended, unless it is stopped */
    if (s->pid > 0)
        waitpid(s->pid, NULL, 0);
    if (s->again)
        hang_up(s);
    hp_timer_free(s->again);
    free(s->rank);
    hp_secmem_free(s->secret);
    *s = (hp_job_server){.fd = -1};
}
