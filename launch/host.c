/* SPDX-License-Identifier: MIT */
/* host: see host.h. The fields of every report are checked here, before run.c hears of it. */
#include "launch/host.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/wire.h"
#include "launch/rank_env.h"
#include "launch/xalloc.h"
#include "lib/config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    STARTS_AT_ONCE = 64,   /* remote shells that have not answered yet */
    RECORDERS_A_RANK = 256 /* one of each communicator, of which a rank can be in so many at a time */
};

/* --- to an agent --- */

static void
tell(hp_host *host, hp_agent_msg_type type, const void *bytes, size_t n)
{
    hp_agent_msg_put(&host->conn->out.buffer, type, bytes, n, NULL, 0);
    hp_agent_conn_push(host->conn);
}

static void
tell_number(hp_host *host, hp_agent_msg_type type, uint32_t number)
{
    uint8_t value[4];
    hp_put32(value, number);
    tell(host, type, value, sizeof(value));
}

/* --- what an agent reports --- */

/* Of a rank; 1: run.c hears of it. */
static int
take_rank_message(hp_host *host, const hp_agent_msg *msg, hp_host_event *e)
{
    hp_hosts *all = host->all;
    const uint8_t *bytes = msg->payload;
    uint32_t rank = hp_get32(bytes), cause;
    if (rank >= (uint32_t)all->places.size || !hp_host_has(host, (int)rank))
        return 0;
    e->rank = (int)rank;
    switch (msg->type) {
    case HP_MSG_STARTED:
        hp_places_started(&all->places, e->rank);
        e->what = HP_HOST_STARTED;
        e->pid = hp_get32(bytes + 4);
        return 1;
    case HP_MSG_STOPPED:
        e->what = HP_HOST_PROCESS;
        e->pid = hp_get32(bytes + 4);
        e->number = hp_get32(bytes + 8) != 0;
        return 1;
    case HP_MSG_OUTPUT:
        e->what = HP_HOST_OUTPUT;
        e->number = bytes[4];
        e->bytes = bytes + 5;
        e->n = msg->size - 5;
        return e->number == 1 || e->number == 2;
    case HP_MSG_EXIT:
        cause = hp_get32(bytes + 20);
        e->what = HP_HOST_EXITED;
        e->ended = (hp_rank_exit){.rank = e->rank,
                                  .pid = (int)hp_get32(bytes + 4),
                                  .host = host->name,
                                  .status = (int)hp_get32(bytes + 8),
                                  .ms = hp_get64(bytes + 12),
                                  .cause = cause <= HP_EXIT_PERHAPS_MEMORY ? cause : HP_EXIT_UNKNOWN};
        all->ended[rank] = 1;
        return 1;
    default: return 0;
    }
}

/* Whether its agent is behind a network, which may fail unnoticed; a pipe to this machine's own agent does not. */
static int
is_remote(const hp_host *host)
{
    return !host->all->mapping->host[host->index].here;
}

/* The longer one of what the host's variables say and what the program has set counts. */
static void
let(hp_host *host)
{
    hp_hosts *all = host->all;
    uint32_t ms = host->own > all->relet ? host->own : all->relet;
    host->lease = hp_lease_of(ms * HP_MS);
    if (all->relet)
        tell_number(host, HP_MSG_RELET, ms);
    if (host->lease.ping >= all->pace || !is_remote(host))
        return;
    all->pace = host->lease.ping;
    hp_timer_set(all->ping, all->pace);
}

/* 1: run.c hears of it. */
static int
take_message(hp_host *host, const hp_agent_msg *msg, hp_host_event *e)
{
    hp_hosts *all = host->all;
    hp_flight_reading reading;
    uint64_t sent;
    hoop_error error;
    host->heard = hp_loop_now(all->loop);
    if (!host->has_spec && msg->type != HP_MSG_FAIL)
        return 0;
    switch (msg->type) {
    case HP_MSG_TAKEN:
        e->what = HP_HOST_TAKEN;
        e->n = hp_get32(msg->payload);
        return 1;
    case HP_MSG_FAIL:
        host->done = 1;
        e->what = HP_HOST_FAILED;
        e->number = (int)(hp_get32(msg->payload) & 255);
        e->bytes = msg->payload + 4;
        e->n = msg->size - 4;
        return 1;
    case HP_MSG_DONE: host->done = 1; return 0;
    case HP_MSG_FLIGHT: /* bytes that are no recorder are dropped, and what are too many */
        if (all->recorders.count >= RECORDERS_A_RANK * (size_t)all->places.size)
            return 0;
        reading =
            (hp_flight_reading){.bytes = msg->payload + 12, .n = msg->size - 12, .looked = hp_get64(msg->payload + 4)};
        if (hp_get32(msg->payload) <= HP_FLIGHT_MOVES)
            reading.state = (hp_flight_state)hp_get32(msg->payload);
        hp_flight_add(&all->recorders, &reading, &error);
        return 0;
    case HP_MSG_LOOKED: host->asked = 0; return 0;
    case HP_MSG_PONG:
        /* Of what it says alone, nothing counts: TCP sends it again and again, also if no acknowledgement comes back. */
        sent = hp_get64(msg->payload);
        if (sent > host->answered && sent <= host->heard)
            host->answered = sent;
        return 0;
    case HP_MSG_LEASE:
        host->own = hp_get32(msg->payload) ? hp_get32(msg->payload) : 1;
        let(host);
        return 0;
    default: return take_rank_message(host, msg, e);
    }
}

int
hp_hosts_hear(hp_hosts *hosts, hp_host_event *e)
{
    for (int i = 0; i < hosts->count; i++, hosts->heard = (hosts->heard + 1) % hosts->count) {
        hp_host *host = &hosts->host[hosts->heard];
        hp_agent_conn_news news;
        hp_agent_msg msg;
        while (host->conn && (news = hp_agent_conn_next(host->conn, &msg)) != HP_AGENT_CONN_NOTHING) {
            *e = (hp_host_event){.what = HP_HOST_GREETED, .host = host};
            if (news == HP_AGENT_CONN_MESSAGE && !take_message(host, &msg, e))
                continue;
            hosts->greeted += news == HP_AGENT_CONN_GREETING;
            if (news != HP_AGENT_CONN_END)
                return 1;
            e->what = HP_HOST_OVER;
            hosts->over++;
            host->asked = 0;
            return 1;
        }
    }
    return 0;
}

static void
ping_one(hp_host *host)
{
    uint8_t now[8];
    hp_put64(now, hp_loop_now(host->all->loop));
    tell(host, HP_MSG_PING, now, sizeof(now));
}

/* What still waits to be sent tells the agent the same. */
static void
ping(void *arg)
{
    hp_hosts *hosts = arg;
    for (int i = 0; i < hosts->count; i++) {
        hp_host *host = &hosts->host[i];
        if (!host->has_spec || !is_remote(host) || host->conn->state == HP_AGENT_CONN_OVER ||
            hp_buffer_size(&host->conn->out.buffer) > 0)
            continue;
        ping_one(host);
    }
    hp_timer_set(hosts->ping, hosts->pace);
}

/* --- its spec --- */

enum { FIRST_PORT = 20000, PORTS = 12000 }; /* for MASTER_PORT: below the ephemeral ports */

/* Rank 0's host, for programs that open a server of their own there. */
static const char *
master_address(const hp_job_server *s, char out[HP_ADDR_TEXT])
{
    const hp_mapping *mapping = s->mapping;
    int i = 0;
    while (mapping->ranks.count[i] == 0)
        i++;
    if (mapping->list->entry[i].addr[0] != '\0')
        return mapping->list->entry[i].addr;
    return mapping->host[i].here ? hp_addr_host(&s->address, out) : hp_local_bare_name(mapping->list->entry[i].name);
}

/* The job's, of which all but the ranks and the interface is alike on all hosts. */
static void
fill_spec(const hp_job_server *s, int host, hp_spec *spec)
{
    const hp_options *options = s->options;
    const hp_mapping *mapping = s->mapping;
    hp_strings *variables = &spec->variables;
    const char *home = getenv("HOME");
    char text[HP_ADDR_TEXT], ifname[HP_HOST_ADDR + 8];
    for (char **word = options->argv; *word; word++)
        hp_strings_add(&spec->argv, hp_xstrdup(*word));
    hp_strings_add(variables, hp_xasprintf("MASTER_ADDR=%s", master_address(s, text)));
    hp_strings_add(variables, hp_xasprintf("MASTER_PORT=%d", FIRST_PORT + s->port % PORTS));
    hp_rank_env_settings(variables, &options->variables);
    hp_strings_add(variables, hp_xasprintf("HOOP_RENDEZVOUS=%s", hp_addr_print(&s->address, text)));
    hp_strings_add(variables, hp_xasprintf("HOOP_JOB=%s", s->id));
    if (hp_local_ifname(&mapping->list->entry[host], ifname, sizeof(ifname)))
        hp_strings_add(variables, hp_xasprintf("HOOP_SOCKET_IFNAME=%s", ifname));
    spec->options = options->agent;
    spec->dir_required = !!options->wdir;
    spec->dir = hp_xstrdup(options->wdir ? options->wdir : options->here);
    spec->home = home && home[0] ? hp_xstrdup(home) : NULL;
    spec->prefix = options->prefix ? hp_xstrdup(options->prefix) : NULL;
    spec->world = mapping->ranks.size;
    spec->ranks = mapping->ranks.count[host];
    spec->local_first = mapping->host[host].local_first;
    spec->local_size = mapping->host[host].local_size;
    spec->host = host;
    spec->rank = hp_xcalloc((size_t)spec->ranks, sizeof(*spec->rank));
    for (int i = 0; i < spec->ranks; i++)
        spec->rank[i] = mapping->ranks.first[host] + i;
}

void
hp_host_send_spec(hp_host *host, const hp_job_server *server, hp_winsize winsize)
{
    hp_buffer *out = &host->conn->out.buffer;
    char secret[HP_SECRET_TEXT];
    hp_spec spec = {.winsize = winsize};
    hp_secret_format(secret, server->secret);
    hp_xbuffer_add(out, secret, sizeof(secret) - 1);
    hp_wipe(secret, sizeof(secret));
    fill_spec(server, host->index, &spec);
    hp_spec_put(out, &spec);
    hp_spec_free(&spec);
    host->has_spec = 1;
    host->heard = host->answered = hp_loop_now(host->all->loop);
    if (is_remote(host)) {
        ping_one(host); /* right behind it: from the start its agent knows that the network may be cut */
        hp_timer_set(host->all->ping, 0);
    }
    hp_agent_conn_push(host->conn);
}

/* --- one host --- */

hoop_result
hp_host_start(hp_host *host, hoop_error *error)
{
    const hp_mapped_host *mapped = &host->all->mapping->host[host->index];
    const hp_agent_call call = {
        .host = host->name, .argv = mapped->call.item, .other = mapped->other.item, .local = mapped->here};
    host->conn = hp_agent_conn_new(host->all->loop, &call, error);
    if (!host->conn)
        return error->code;
    host->called = hp_loop_now(host->all->loop);
    host->all->started++;
    return HOOP_SUCCESS;
}

int
hp_host_is_silent(const hp_host *host)
{
    return host->conn && host->conn->state == HP_AGENT_CONN_STARTING;
}

int
hp_host_is_watched(const hp_host *host)
{
    return host->has_spec && !host->given_up && is_remote(host) && host->conn->state != HP_AGENT_CONN_OVER;
}

uint64_t
hp_host_alive(const hp_host *host)
{
    return host->knocked > host->answered ? host->knocked : host->answered;
}

uint64_t
hp_host_silence(const hp_host *host)
{
    return hp_host_is_watched(host) ? hp_loop_now(host->all->loop) - hp_host_alive(host) : 0;
}

int
hp_host_has(const hp_host *host, int rank)
{
    return host->all->places.rank[rank].host == host->index;
}

int
hp_host_lost(hp_host *host, hp_failure *failure)
{
    hp_hosts *all = host->all;
    for (int rank = 0; rank < all->places.size; rank++)
        if (hp_host_has(host, rank))
            hp_failure_lost(failure, rank);
    return hp_places_lost(&all->places, host->index, hp_loop_now(all->loop));
}

void
hp_host_give_up(hp_host *host)
{
    host->given_up = 1;
    hp_agent_conn_kill(host->conn);
}

/* Without its spec the agent has nothing to stop: closing its standard input ends it. */
static void
stop(hp_host *host, uint64_t grace_ns)
{
    if (!host->conn || host->given_up || host->conn->state == HP_AGENT_CONN_OVER)
        return;
    if (!host->has_spec) {
        hp_agent_conn_hang_up(host->conn);
        if (hp_host_is_silent(host))
            hp_agent_conn_kill(host->conn);
        return;
    }
    tell_number(host, HP_MSG_STOP, (uint32_t)(grace_ns / HP_MS));
}

/* --- all of them --- */

void
hp_hosts_open(hp_hosts *hosts, hp_loop *loop, const hp_mapping *mapping)
{
    *hosts = (hp_hosts){.loop = loop, .mapping = mapping, .count = mapping->list->count};
    hosts->host = hp_xcalloc((size_t)hosts->count, sizeof(*hosts->host));
    hosts->ended = hp_xcalloc((size_t)mapping->ranks.size, sizeof(*hosts->ended));
    hosts->ping = hp_xcheck(hp_timer_new(loop, ping, hosts));
    hp_lease lease = hp_lease_of((uint64_t)hp_config_glance_number(HP_SET_peer_timeout_ms) * HP_MS);
    hosts->pace = lease.ping;
    for (int i = 0; i < hosts->count; i++) {
        hosts->host[i] = (hp_host){.all = hosts,
                                   .index = i,
                                   .name = hp_mapping_name(mapping, i),
                                   .lease = lease,
                                   .count = mapping->ranks.count[i]};
        hosts->used += mapping->host[i].used;
        if (hosts->host[i].count > 0 && !hosts->first)
            hosts->first = &hosts->host[i];
    }
    hp_places_open(&hosts->places, mapping);
}

void
hp_hosts_close(hp_hosts *hosts)
{
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].conn)
            hp_agent_conn_free(hosts->host[i].conn);
    free(hosts->host);
    free(hosts->ended);
    hp_places_close(&hosts->places);
    hp_timer_free(hosts->ping);
    hp_flight_collection_free(&hosts->recorders);
    *hosts = (hp_hosts){0};
}

hp_host *
hp_hosts_next(hp_hosts *hosts)
{
    if (hosts->started - hosts->greeted - hosts->over >= STARTS_AT_ONCE)
        return NULL;
    for (int i = 0; i < hosts->count; i++)
        if (hosts->mapping->host[i].used && !hosts->host[i].conn)
            return &hosts->host[i];
    return NULL;
}

hp_host *
hp_hosts_of(const hp_hosts *hosts, int rank)
{
    return rank >= 0 && rank < hosts->places.size ? &hosts->host[hosts->places.rank[rank].host] : NULL;
}

void
hp_hosts_again(hp_hosts *hosts, int rank)
{
    hosts->ended[rank] = 0;
    tell_number(hp_hosts_of(hosts, rank), HP_MSG_AGAIN, (uint32_t)rank);
}

void
hp_hosts_relet(hp_hosts *hosts, uint32_t ms)
{
    hosts->relet = ms;
    for (int i = 0; i < hosts->count; i++) {
        hp_host *host = &hosts->host[i];
        if (host->own && !host->done && !host->given_up && host->conn->state != HP_AGENT_CONN_OVER)
            let(host);
    }
}

void
hp_hosts_knocked(hp_hosts *hosts, int host)
{
    if (host < hosts->count)
        hosts->host[host].knocked = hp_loop_now(hosts->loop);
}

void
hp_hosts_stdin(hp_hosts *hosts, const uint8_t *bytes, size_t n)
{
    tell(hosts->first, HP_MSG_STDIN, bytes, n);
}

void
hp_hosts_stdin_end(hp_hosts *hosts)
{
    tell(hosts->first, HP_MSG_STDIN_END, NULL, 0);
}

void
hp_hosts_signal(hp_hosts *hosts, int number)
{
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].has_spec)
            tell_number(&hosts->host[i], HP_MSG_SIGNAL, (uint32_t)number);
}

void
hp_hosts_look(hp_hosts *hosts)
{
    for (int i = 0; i < hosts->count; i++) {
        hp_host *host = &hosts->host[i];
        if (!host->has_spec || host->done || host->conn->state == HP_AGENT_CONN_OVER)
            continue;
        host->asked = 1;
        tell(host, HP_MSG_LOOK, NULL, 0);
    }
}

const char *
hp_hosts_asked(const hp_hosts *hosts)
{
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].asked)
            return hosts->host[i].name;
    return NULL;
}

void
hp_hosts_resize(hp_hosts *hosts, hp_winsize size)
{
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].has_spec) {
            hp_winsize_put(&hosts->host[i].conn->out.buffer, size);
            hp_agent_conn_push(hosts->host[i].conn);
        }
}

void
hp_hosts_pause(hp_hosts *hosts, int pause)
{
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].has_spec)
            tell_number(&hosts->host[i], HP_MSG_PAUSE, (uint32_t)pause);
}

void
hp_hosts_stop(hp_hosts *hosts, uint64_t grace_ns)
{
    for (int i = 0; i < hosts->count; i++)
        stop(&hosts->host[i], grace_ns);
}

void
hp_hosts_kill(hp_hosts *hosts)
{
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].conn && hosts->host[i].conn->state != HP_AGENT_CONN_OVER)
            hp_agent_conn_kill(hosts->host[i].conn);
}

void
hp_hosts_reaped(hp_hosts *hosts, pid_t pid, int status)
{
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].conn && hp_agent_conn_reaped(hosts->host[i].conn, pid, status))
            break;
}
