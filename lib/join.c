/* SPDX-License-Identifier: MIT */
/* join: see join.h. Runs on the caller's thread, before any other thread knows the communicator. */
#include "lib/join.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/say.h"
#include "base/thread.h"
#include "lib/comm.h"
#include "lib/devices.h"
#include "lib/environment.h"
#include "lib/links.h"
#include "lib/progress.h"
#include "lib/server_search.h"
#include "lib/server_thread.h"
#include "lib/spin.h"
#include "lib/stats.h"
#include "lib/visit.h"
#include "lib/works.h"
#include "net/interface.h"
#include "net/unacked.h"
#include "rendezvous/stall_warning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPORT_MS = 300, UNANSWERED_MS = 5000, CHORDS_MOST = 8 };
enum { OWN_FDS = 6 };    /* a communicator's descriptors besides its links: the loop's, and the way to the server */
enum { SPARE_FDS = 16 }; /* what it leaves to the next one, besides its ranks' ways to a server in this process */

/* --- the ring, once it is known --- */

static void
count_locals(hoop_comm *comm)
{
    const hp_member *me = &comm->ring->members[comm->rank];
    int sharing = 0;
    comm->local_rank = comm->local_size = 0;
    for (int r = 0; r < comm->size; r++) {
        const hp_member *other = &comm->ring->members[r];
        int here = other->host_id == me->host_id;
        comm->local_size += here;
        comm->local_rank += here && r < comm->rank;
        sharing += here && other->processors == me->processors;
    }
    if (comm->colocated < sharing)
        comm->colocated = sharing;
    if (comm->host_ranks < comm->local_size)
        comm->host_ranks = comm->local_size;
}

/* Where the ring's ranks are, by the roster that all of them have. */
static hoop_result
map_hosts(hoop_comm *comm, hoop_error *error)
{
    size_t n = (size_t)comm->size;
    uint64_t *host = hp_alloc(n, sizeof(*host));
    comm->hosts.first = hp_alloc(n + 1, sizeof(int));
    if (!host || !comm->hosts.first) {
        free(host);
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for a ring of %zu ranks", n);
    }
    for (int position = 0; position < comm->size; position++)
        host[position] = comm->ring->members[comm->order[position]].host_id;
    hp_host_map_fill(&comm->hosts, host, comm->order, comm->size);
    free(host);
    return HOOP_SUCCESS;
}

static hoop_result
make_channels(hoop_comm *comm, hoop_error *error)
{
    static const hp_levels levels[] = {HP_LEVELS_LONG, HP_LEVELS_ALL, HP_LEVELS_NONE}; /* auto, 1, 0 */
    uint32_t channels = (uint32_t)hp_config_number(&comm->config, HP_SET_channels);
    int one_host = comm->local_size == comm->size;
    hp_channel_options o = {.epoch = comm->epoch, .size = comm->size, .position = comm->position, .order = comm->order};
    o.window = (uint32_t)hp_config_number(&comm->config, HP_SET_window);
    comm->plan.slices = (uint32_t)hp_config_number(&comm->config, HP_SET_slices);
    comm->plan.spread_bytes =
        hp_plan_spread(hp_config_number(&comm->config, HP_SET_spread_bytes), one_host, comm->size);
    comm->plan.hosts = &comm->hosts;
    comm->plan.levels = levels[hp_config_number(&comm->config, HP_SET_levels)];
    comm->plan.in_memory = one_host && hp_config_number(&comm->config, HP_SET_shm) != 0;
    comm->plan.exchange_bytes = hp_links_are_repaired(comm, one_host) ? HP_UNACKED_LARGE : 0;
    hp_plan_depth(&comm->plan, &o.window, one_host);
    o.slice_bytes = comm->plan.slice_bytes;
    o.stage_bytes = comm->plan.stage_bytes;
    o.stripes = (int)hp_config_number(&comm->config, HP_SET_stripes);
    o.payload_crc = hp_config_number(&comm->config, HP_SET_checksum) == 1;
    o.bytes = comm->counters.bytes;
    o.device[0] = comm->device[0];
    o.room_bytes = o.slice_bytes > HP_EAGER_MOST ? o.slice_bytes : HP_EAGER_MOST; /* the longest piece of a message */
    for (uint32_t c = 0; c < channels; c++) {
        o.index = (int)c;
        o.rooms = c == 0 ? 2 * HP_ROOMS : 0;
        comm->channel[c] = hp_channel_new(&o, error);
        if (!comm->channel[c])
            return error->code;
    }
    comm->channels = channels;
    return HOOP_SUCCESS;
}

static hoop_result
take_ring(hoop_comm *comm, const hp_ring *ring, hoop_error *error)
{
    size_t n = (size_t)ring->size;
    comm->rank = ring->rank;
    comm->size = ring->size;
    comm->id = ring->comm;
    comm->epoch = ring->epoch;
    comm->least = ring->least;
    comm->most = ring->most;
    comm->order = hp_alloc(n, sizeof(int));
    comm->position_of = hp_alloc(n, sizeof(int));
    comm->counters.waited_for = hp_alloc(n, sizeof(*comm->counters.waited_for));
    comm->counters.ranks = comm->counters.waited_for ? ring->size : 0;
    if (!comm->order || !comm->position_of || !comm->counters.waited_for)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for a ring of %zu ranks", n);
    for (int position = 0; position < comm->size; position++) {
        comm->order[position] = ring->order ? ring->order[position] : position;
        comm->position_of[comm->order[position]] = position;
    }
    comm->position = comm->position_of[comm->rank];
    if (comm->size > 1)
        comm->reports.heartbeats = hp_heartbeats_new(comm->size, comm->position, comm->order);
    if (comm->size > 1 && !comm->reports.heartbeats)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for a ring of %zu ranks", n);
    comm->local_rank = 0;
    comm->local_size = 1;
    comm->colocated = comm->colocated > 1 ? comm->colocated : 1;
    if (ring->members) {
        comm->ring = ring;
        count_locals(comm);
    }
    if (ring->members && map_hosts(comm, error) != HOOP_SUCCESS)
        return error->code;
    int64_t spin = hp_config_number(&comm->config, HP_SET_spin);
    comm->driver.spins = comm->driver.most_spins = hp_spin_most(spin, comm->colocated, hp_processors_count());
    hoop_result result = make_channels(comm, error);
    if (result == HOOP_SUCCESS)
        hp_listener_name(&comm->entry, comm->id, comm->rank, comm->epoch, comm->size);
    return result;
}

static int
are_links_open(const hoop_comm *comm)
{
    for (uint32_t c = 0; c < comm->channels; c++)
        for (int i = 0; i < comm->channel[c]->links; i++)
            if (comm->channel[c]->link[i]->state != HP_LINK_OPEN)
                return 0;
    return 1;
}

typedef struct unanswered {
    uint64_t since; /* when the server last answered, or was first asked */
    int told;       /* this rank has warned */
    hp_stall_warning warning;
} unanswered;

/* Of each host one rank speaks of what all of them meet, as far as that can be known. */
static int
is_speaker(const hoop_comm *comm)
{
    int local = hp_environment_local_rank();
    return local >= 0 ? local == 0 : hp_config_number(&comm->config, HP_SET_rank) <= 0;
}

/* Returns whether this rank has said so. What looks like a wrong secret may be this rank's alone. */
static int
tell_unanswered(const hoop_comm *comm, const hp_dial *dial, int silent, double seconds)
{
    const hp_addr *server = &hp_client_membership(comm->client)->options.server;
    char text[HP_ADDR_TEXT];
    hoop_error error;
    int met = dial && hp_dial_explain(dial, &error), may_be_secret = met && error.code == HOOP_ERR_AUTH;
    if (!is_speaker(comm) && (hp_environment_local_rank() >= 0 || !may_be_secret))
        return 0;
    if (may_be_secret)
        hp_environment_name_secret(&error, &comm->config);
    if (silent)
        hp_log(
            HP_LOG_WARN,
            "this rank awaits the rendezvous server at %s, whose host has not answered for %.1f s: is it down, or cut "
            "off by a cable, a switch or a firewall?",
            hp_addr_print(server, text), seconds);
    else if (met)
        hp_log(HP_LOG_WARN, "no connection to the rendezvous server (tried for %.1f s): %s", seconds, error.text);
    else
        hp_log(HP_LOG_WARN, "no server answers at %s (tried for %.1f s): %s", hp_addr_print(server, text), seconds,
               dial ? hp_dial_answer(dial) : "it has ended the connection");
    return 1;
}

/* Warns while no server answers, and once more when one does. Where one answers, the server itself warns of ranks. */
static void
warn_unanswered(const hoop_comm *comm, unanswered *s, uint64_t now)
{
    const hp_dial *dial;
    int awaits = hp_client_awaits(comm->client, &dial) != NULL;
    uint64_t silent = hp_client_membership(comm->client)->silent_since;
    int64_t after = hp_config_number(&comm->config, HP_SET_warn_after_ms);
    if (!after || hp_client_status(comm->client) == HP_CLIENT_FAILED) /* it awaits no server either */
        return;
    if (!awaits || !s->since)
        s->since = now;
    uint64_t patience = (silent ? (uint64_t)after : UNANSWERED_MS) * HP_MS;
    hp_stall_word word = hp_stall_warning_due(&s->warning, patience, awaits || silent, silent ? silent : s->since, now);
    double seconds = (double)s->warning.lasted / 1e9;
    if (word == HP_STALL_WARN)
        s->told = tell_unanswered(comm, dial, silent != 0, seconds);
    else if (word == HP_STALL_OVER && s->told)
        hp_log(HP_LOG_WARN, "the rendezvous server answers after %.1f s", seconds);
}

/* The failure that ends this bring-up, with the error filled; HOOP_SUCCESS: there is none yet. */
static hoop_result
find_failure(const hoop_comm *comm, hp_client_state reached, uint64_t now, hoop_error *error)
{
    const hp_dial *dial;
    int ruled = hp_membership_verdict(hp_client_membership(comm->client), error);
    if (!ruled && reached == HP_CLIENT_FAILED)
        *error = *hp_client_error(comm->client);
    if (!ruled && reached == HP_CLIENT_FAILED && error->code == HOOP_ERR_AUTH)
        hp_environment_name_secret(error, &comm->config);
    if (ruled || reached == HP_CLIENT_FAILED)
        return error->code;
    if (comm->fault.grace && now >= comm->fault.grace) {
        *error = comm->fault.suspicion;
        return error->code;
    }
    if (hp_client_awaits(comm->client, &dial))
        return HOOP_SUCCESS; /* a rank that is not known to the server could not tell the others why it fails */
    return hp_listener_rival(&comm->entry, hp_config_text(&comm->config, HP_SET_job), error);
}

/*
 * Runs the loop until the client has reached `state` (or, with `links`, the links are open). After GO every rank has
 * its communicator, so a failure that arrives later belongs to the first operation: otherwise hoop_comm_create would
 * fail on some ranks only.
 */
static hoop_result
run_until(hoop_comm *comm, hp_client_state state, int links, hoop_error *error)
{
    unanswered wait = {0};
    uint64_t visit = 0;
    for (;;) {
        uint64_t now = hp_loop_now(comm->loop);
        warn_unanswered(comm, &wait, now);
        if (links && hp_config_number(&comm->config, HP_SET_warn_after_ms))
            hp_links_warn(comm, UNANSWERED_MS * HP_MS, now);
        hp_client_state reached = hp_client_status(comm->client);
        if (atomic_load(&comm->fault.failed)) {
            *error = comm->fault.error;
            return error->code;
        }
        if (!links && state == HP_CLIENT_GO && (reached == HP_CLIENT_GO || reached == HP_CLIENT_GONE))
            return HOOP_SUCCESS; /* a server that has ended since then is the first operation's business, too */
        hoop_result failure = find_failure(comm, reached, now, error);
        if (failure != HOOP_SUCCESS)
            return failure;
        if (links ? are_links_open(comm) : reached >= state)
            return HOOP_SUCCESS;
        if (hp_interrupt_asks())
            return hp_err_set(error, HOOP_ERR_ABORTED, "the program interrupted this call");
        hp_loop_run(comm->loop, HP_INTERRUPT_MS * HP_MS);
        hp_visit_others(comm, &visit);
        if (hp_listener_has_events(&comm->entry))
            hp_links_receive(comm);
    }
}

/*
 * The links to the neighbours, and for a few ranks of one host the chords of small operations (schedule.c), so that the first
 * one waits for no connection: exchanges if there are two, four or eight, else one for each direction.
 */
static int
make_links(const hoop_comm *comm, hp_channel *channel)
{
    int n = comm->size, made = hp_channel_in(channel, 1) && hp_channel_out(channel, 1);
    if (comm->local_size < n || n > CHORDS_MOST || channel != comm->channel[0])
        return made;
    for (int d = 1; made && d < n; d *= 2)
        made = (n & (n - 1)) == 0 ? hp_channel_to(channel, comm->position & d ? n - d : d) != NULL
                                  : hp_channel_in(channel, d) && hp_channel_out(channel, d);
    return made;
}

/*
 * A rank without descriptors could tell nobody why its next communicator fails, and the others would wait for it. So this one
 * fails, on all ranks, unless it leaves enough for the next one to get as far as here.
 */
static hoop_result
check_descriptors(const hoop_comm *comm, hoop_error *error)
{
    int links = 0;
    for (uint32_t c = 0; c < comm->channels; c++)
        for (int i = 0; i < comm->channel[c]->links; i++) {
            const hp_link *link = comm->channel[c]->link[i];
            links += link->twin && !link->sending ? 0 : link->stripes; /* the two of an exchange share a connection */
        }
    int wanted = links + SPARE_FDS + (hp_server_thread_is_here() ? comm->size : 0);
    if (hp_limits_left(wanted) == wanted)
        return HOOP_SUCCESS;
    hp_err_set(
        error, HOOP_ERR_SYSTEM,
        "too few descriptors are left: the limit (RLIMIT_NOFILE) is %d, a communicator takes %d, and %d more where "
        "its server runs; raise \"ulimit -n\"",
        hp_limits_descriptors(), OWN_FDS + links, comm->size);
    error->sys_errno = EMFILE;
    error->rank = comm->rank;
    return error->code;
}

static hoop_result
open_links(hoop_comm *comm, hoop_error *error)
{
    for (uint32_t c = 0; c < comm->channels; c++)
        if (!make_links(comm, comm->channel[c]))
            return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for links");
    hoop_result result = check_descriptors(comm, error);
    if (result != HOOP_SUCCESS)
        return result;
    for (uint32_t c = 0; c < comm->channels; c++)
        hp_links_dial(comm, comm->channel[c]);
    result = run_until(comm, HP_CLIENT_ROSTER, 1, error);
    if (result != HOOP_SUCCESS)
        return result;
    hp_membership_ready(hp_client_membership(comm->client));
    return run_until(comm, HP_CLIENT_GO, 0, error);
}

/* --- joining --- */

/* The address that others shall use instead of this one's; length 0: none. A parent's is known, where names may not be. */
static hoop_result
find_proxy(hp_addr *proxy, const hoop_comm *comm, const hp_client_options *options, hoop_error *error)
{
    if (!options->parent)
        return hp_outward_advertised(proxy, &comm->config, error);
    *proxy = options->proxied ? options->listen : (hp_addr){.length = 0};
    if (proxy->length && hp_addr_port(proxy) == hp_addr_port(&options->own))
        hp_addr_set_port(proxy, 0); /* that of its own listener */
    return HOOP_SUCCESS;
}

static hoop_result
open_listener(hoop_comm *comm, hp_client_options *options, hoop_error *error)
{
    int64_t channels = hp_config_number(&comm->config, HP_SET_channels);
    int64_t stripes = hp_config_number(&comm->config, HP_SET_stripes);
    /* twice what a rank can dial: stripes and an exchange for each channel, and messages */
    hp_listener_options o = {.sock = comm->sock,
                             .per_rank = 2 * (int)(channels * (stripes + 1) + 1),
                             .server = options->server,
                             .rank = options->rank,
                             .job = hp_config_text(&comm->config, HP_SET_job)};
    const char *wanted = hp_config_text(&comm->config, HP_SET_socket_ifname);
    hp_addr proxy = {.length = 0};
    char name[32] = "", why[512] = "", text[HP_ADDR_TEXT];
    hoop_result result = hp_ports_parse(&o.ports, hp_config_text(&comm->config, HP_SET_port_range), error);
    if (result == HOOP_SUCCESS)
        result = hp_interface_choose(&o.local, wanted, &options->server, name, why, sizeof(why), error);
    if (result == HOOP_SUCCESS && comm->keys->mode == HP_MODE_NONE && !hp_addr_is_loopback(&o.local))
        /* on a network, a process that has read an unauthenticated connection could speak for a rank */
        result = hp_err_set(error, HOOP_ERR_AUTH,
                            "HOOP_SECURITY=none is allowed on loopback only, and this rank would listen on %s (%s): "
                            "use HOOP_SECURITY=auth and a secret file, or unset HOOP_SOCKET_IFNAME",
                            hp_addr_host(&o.local, text), name);
    if (result == HOOP_SUCCESS)
        result = find_proxy(&proxy, comm, options, error);
    /* one that proves nothing, or stays on this host, does not share a listener that others can reach */
    o.automatic = !*wanted && !proxy.length && comm->keys->mode != HP_MODE_NONE && !hp_addr_is_loopback(&o.local);
    if (result == HOOP_SUCCESS && !*wanted && !proxy.length)
        o.all = hp_interface_others(options->other, &o.local) > 0;
    if (result == HOOP_SUCCESS)
        result = hp_listener_join(&comm->entry, &o, comm->loop, comm->keys, comm->size, error);
    if (result != HOOP_SUCCESS)
        return result;
    options->own = options->listen = comm->entry.addr;
    if (!hp_listener_is_everywhere(&comm->entry)) /* perhaps an older one: interfaces come and go */
        memset(options->other, 0, sizeof(options->other));
    hp_log(HP_LOG_INFO, "interface %s, listening on %s%s%s", name, hp_addr_print(&options->listen, text),
           *why ? "; not used: " : "", why);
    for (int i = 0; i < HP_OTHERS && options->other[i].length; i++)
        hp_addr_set_port(&options->other[i], hp_addr_port(&options->own));
    options->proxied = proxy.length != 0;
    if (options->proxied)
        options->listen = proxy;
    if (options->proxied && !hp_addr_port(&proxy))
        hp_addr_set_port(&options->listen, hp_addr_port(&options->own));
    return result;
}

static void
log_ring(const hoop_comm *comm)
{
    char text[512];
    size_t used = 0;
    if (!hp_log_enabled(HP_LOG_INFO))
        return;
    for (int i = 0; i < comm->size && used < sizeof(text) - 96; i++) {
        int rank = comm->order[i];
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d (%.40s)", i ? " -> " : "", rank,
                                 hp_say_host(comm->ring->members[rank].host).text);
    }
    hp_log(HP_LOG_INFO, "ring of %d rank%s, %u channel%s: %s%s; slices %u, window %u, spread_bytes %u, spin %lld",
           comm->size, comm->size == 1 ? "" : "s", comm->channels, comm->channels > 1 ? "s" : "", text,
           used >= sizeof(text) - 96 ? " ..." : " -> back", comm->plan.slices, comm->channel[0]->o.window,
           comm->plan.spread_bytes, (long long)comm->driver.most_spins);
}

uint64_t
hp_join_limit(const hoop_comm *comm)
{
    return (uint64_t)hp_config_number(&comm->config, HP_SET_bootstrap_timeout_ms) * HP_MS;
}

uint64_t
hp_join_deadline(const hoop_comm *comm)
{
    return hp_loop_now(comm->loop) + hp_join_limit(comm);
}

/* The address of the server, of those that HOOP_RENDEZVOUS stands for. */
static hoop_result
find_server(const hoop_comm *comm, hp_client_options *options, const hp_addr_list *servers, hoop_error *error)
{
    char text[HP_ADDR_TEXT];
    uint64_t now = hp_loop_now(comm->loop);
    int quiet = !is_speaker(comm) || !hp_config_number(&comm->config, HP_SET_warn_after_ms);
    hp_bounded_wait wait = hp_bounded_wait_of(options->deadline > now ? options->deadline - now : 0, quiet);
    hp_server_search_options search = {.what = "the rendezvous server",
                                       .host = hp_config_text(&comm->config, HP_SET_rendezvous),
                                       .hello = hp_registration_hello(options, NULL),
                                       .keys = comm->keys};
    hoop_result result = hp_server_search_addresses(&options->server, servers, &search, comm->loop, &wait, error);
    if (result == HOOP_SUCCESS && !options->parent)
        hp_log(HP_LOG_INFO, "rank %d of %d, rendezvous at %s", options->rank, options->size,
               hp_addr_print(&options->server, text));
    else if (result == HOOP_ERR_AUTH)
        hp_environment_name_secret(error, &comm->config);
    return result;
}

/* Everything from the filled-in client options to a ring that is up. servers: the addresses at which the server may be. */
static hoop_result
join_ring(hoop_comm *comm, hp_client_options *options, const hp_addr_list *servers, hoop_error *error)
{
    char agree[HP_AGREE_TEXT];
    hoop_result result = find_server(comm, options, servers, error);
    if (result == HOOP_SUCCESS)
        result = open_listener(comm, options, error);
    if (result != HOOP_SUCCESS)
        return result;
    hp_config_agreement(&comm->config, agree);
    options->agree = agree;
    options->attempt = (uint32_t)hp_config_number(&comm->config, HP_SET_attempt);
    options->keys = comm->keys;
    options->sock = comm->sock;
    options->pid = (uint32_t)getpid();
    options->pid_space = hp_pid_space();
    options->processors = hp_processors_id();
    options->host_id = hp_environment_host(&comm->config, options->host);
    options->op_timeout = (uint64_t)hp_config_number(&comm->config, HP_SET_op_timeout_ms) * HP_MS;
    options->warn_after = (uint64_t)hp_config_number(&comm->config, HP_SET_warn_after_ms) * HP_MS;
    uint64_t timeout = hp_join_limit(comm);
    comm->bringup_until = options->deadline - (timeout / 4 < REPORT_MS * HP_MS ? timeout / 4 : REPORT_MS * HP_MS);
    comm->client = hp_client_new(comm->loop, options);
    if (!comm->client)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the connection to the rendezvous server");
    result = run_until(comm, HP_CLIENT_ROSTER, 0, error);
    if (result != HOOP_SUCCESS)
        return result;
    if (options->grow && !options->parent) /* only now the others make links */
        comm->bringup_until = hp_join_deadline(comm);
    if (hp_client_ring(comm->client)->size == 0) {
        comm->size = 0;
        return HOOP_SUCCESS;
    }
    result = take_ring(comm, hp_client_ring(comm->client), error);
    if (result == HOOP_SUCCESS && comm->size > 1)
        result = open_links(comm, error);
    else if (result == HOOP_SUCCESS) {
        hp_membership_ready(hp_client_membership(comm->client));
        result = run_until(comm, HP_CLIENT_GO, 0, error);
    }
    if (result == HOOP_SUCCESS)
        log_ring(comm);
    return result;
}

static hoop_result
alone(hoop_comm *comm, hoop_error *error)
{
    hp_ring ring = {.size = 1};
    return take_ring(comm, &ring, error);
}

static void
become_ready(hoop_comm *comm)
{
    comm->state = HP_COMM_READY;
    hp_name_report(comm);
    hp_vitals_send(comm); /* the server knows from now on when this rank was inside hoop */
}

static int
are_loopback(const hp_addr_list *list)
{
    int n = 0;
    while (n < list->n && hp_addr_is_loopback(&list->addr[n]))
        n++;
    return n == list->n;
}

hoop_result
hp_join_world(hoop_comm *comm, uint64_t deadline, hoop_error *error)
{
    hp_client_options options = {.deadline = deadline, .parent_rank = -1};
    hp_environment environment;
    hoop_result result = hp_environment_find(&environment, &comm->config, comm->loop, options.deadline, error);
    if (result != HOOP_SUCCESS)
        return result;
    if (environment.alone) {
        hp_log(HP_LOG_INFO, "launcher: %s, so a ring of one (no HOOP_RENDEZVOUS)", environment.by);
        result = alone(comm, error);
    } else {
        options.rank = environment.rank;
        options.size = comm->size = environment.size;
        options.grow = hp_config_number(&comm->config, HP_SET_join) != 0;
        hp_environment_sock(&comm->sock, &comm->config);
        comm->keys = hp_environment_keys(&comm->config, are_loopback(&environment.servers), error);
        result = comm->keys ? join_ring(comm, &options, &environment.servers, error) : error->code;
    }
    if (result == HOOP_SUCCESS)
        become_ready(comm);
    return result;
}

hoop_result
hp_join_derived(hoop_comm *comm, hoop_comm *parent, const hp_derivation *how, hoop_error *error)
{
    hp_client_options options = {.rank = -1,
                                 .size = parent->size,
                                 .shrink = how->shrink,
                                 .grow = how->grow,
                                 .color = how->color,
                                 .key = how->key};
    hp_addr_list servers;
    hoop_result result;
    if (parent->size == 1 && !(how->grow && parent->client)) {
        hp_ring ring = {.size = 1, .epoch = parent->epoch + (how->shrink != 0)};
        if (how->shrink)
            ring.least = ring.most = atomic_load(&parent->completed);
        return how->color < 0 || how->grow ? HOOP_SUCCESS : take_ring(comm, &ring, error);
    }
    options.deadline = hp_loop_now(comm->loop) + how->within;
    result = hp_environment_server(&servers, &comm->config,
                                   parent->client ? &hp_client_membership(parent->client)->options.server : NULL,
                                   comm->loop, options.deadline, error);
    if (result != HOOP_SUCCESS)
        return result;
    options.parent = parent->id;
    options.parent_rank = parent->rank;
    options.parent_size = comm->size = parent->size;
    options.split = how->shrink ? 0 : parent->splits;
    options.parent_digest = hp_ring_digest(parent->ring);
    const hp_membership *member = hp_client_membership(parent->client);
    options.parent_ring = parent->ring;
    options.parent_origin = hp_registration_origin(&member->options, parent->ring);
    options.parent_placed = member->placed;
    options.comes_back = member->comes_back;
    options.proxied = member->options.proxied;
    options.listen = member->options.listen;
    options.own = member->options.own;
    options.started = hp_inbox_started(parent);
    options.completed = atomic_load(&parent->completed);
    comm->keys = hp_keys_hold(parent->keys);
    comm->sock = parent->sock;
    result = join_ring(comm, &options, &servers, error);
    if (result == HOOP_SUCCESS)
        become_ready(comm);
    return result;
}
