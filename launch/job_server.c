/* SPDX-License-Identifier: MIT */
/*
 * job_server: see job_server.h. The secret is this job's own key, so the server refuses all others. The server takes a
 * copy; ours is wiped when every agent has its spec.
 */
#include "launch/job_server.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "flight/sweep.h"
#include "launch/rank_env.h"
#include "launch/xalloc.h"
#include "lib/config.h"
#include "net/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

hoop_result
hp_job_server_open(hp_job_server *s, const hp_options *options, const hp_mapping *mapping, hoop_error *error)
{
    uint8_t id[4];
    *s = (hp_job_server){.options = options, .mapping = mapping};
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
find_address(hp_job_server *s, int host, const char *seen_from, const hp_server_options *owner, hoop_error *error)
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
    char *line = hp_xasprintf("there is no route to %s; the rendezvous server listens on the only interface, %s (%s)",
                              hp_mapping_name(mapping, host), guess, hp_addr_host(addr, text));
    owner->warn(owner->arg, line);
    free(line);
    return HOOP_SUCCESS;
}

/* --- the server --- */

hoop_result
hp_job_server_start(hp_job_server *s, hp_loop *loop, int host, const char *seen_from, const hp_server_options *owner,
                    hoop_error *error)
{
    static const char name[] = "HOOP_PORT_RANGE=";
    const hp_strings *env = &s->options->variables;
    hp_server_options *options = &s->serving;
    char range[HP_VALUE_TEXT];
    if (s->server || (!s->mapping->all_here && s->mapping->host[host].here))
        return HOOP_SUCCESS;
    *options = *owner;
    hp_config_glance(HP_SET_port_range, range); /* as the ranks will have it: from -x, else from our environment */
    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->item[i], name, sizeof(name) - 1) == 0)
            snprintf(range, sizeof(range), "%s", env->item[i] + sizeof(name) - 1);
    if (find_address(s, host, seen_from, owner, error) != HOOP_SUCCESS ||
        hp_ports_parse(&options->ports, range, error) != HOOP_SUCCESS)
        return error->code;
    options->mode = HP_MODE_AUTH;
    options->asked = 1;
    options->job = s->id;
    options->listen = s->address;
    options->secret = s->secret;
    hp_flight_sweep(); /* agents sweep their hosts, of which this machine may be none */
    s->server = hp_server_new(loop, options, error);
    if (!s->server)
        return error->code;
    s->address = *hp_server_addr(s->server);
    return HOOP_SUCCESS;
}

/* --- the table --- */

typedef struct printer {
    hp_output *output;
    int left;
} printer;

static void
print_line(void *arg, const char *line)
{
    printer *p = arg;
    if (p->left-- > 0)
        hp_diag(p->output, "%s", line);
}

void
hp_job_server_table(const hp_job_server *s, hp_output *output, int most)
{
    enum { PREFIX = 9 /* "hooprun: " */ };
    printer p = {output, most};
    int width = hp_terminal_size(STDERR_FILENO).columns - PREFIX;
    const hp_table_options options = {
        .most = most, .lines = most, .width = width > 0 ? width : 0, .line = print_line, .arg = &p};
    if (s->server)
        hp_server_print(s->server, &options);
    if (p.left == most)
        hp_diag(output, "no rank is in a ring of hoop now");
}

/* --- the end --- */

void
hp_job_server_forget_secret(hp_job_server *s)
{
    hp_secmem_free(s->secret);
    s->secret = NULL;
}

void
hp_job_server_rank_exited(hp_job_server *s, int rank, const char *host)
{
    uint8_t job[HP_JOB_ID_BYTES];
    if (s->server && hp_job_id(job, s->id, NULL) == HOOP_SUCCESS)
        hp_server_rank_ended(s->server, job, rank, s->mapping->ranks.size, host);
}

int
hp_job_server_stranded(const hp_job_server *s)
{
    return s->server ? hp_server_stranded(s->server) : 0;
}

void
hp_job_server_summarize(hp_job_server *s, int ended_well)
{
    if (!s->server || s->summarized)
        return;
    s->summarized = 1;
    hp_server_summarize(s->server);
    if (s->options->summary && ended_well && !s->summed_up)
        s->serving.warn(s->serving.arg,
                        "no summary: no rank has told the server what it did; does the program create a "
                        "communicator?");
}

void
hp_job_server_close(hp_job_server *s)
{
    if (s->server)
        hp_server_free(s->server);
    s->server = NULL;
    hp_job_server_forget_secret(s);
}
