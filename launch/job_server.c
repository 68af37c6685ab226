/* SPDX-License-Identifier: MIT */
/*
 * job_server: see job_server.h. The secret is this job's own key, so the server refuses all others. The server takes a
 * copy; ours is wiped when every agent has its spec. OMPI_*, PMI_* and variables of other launchers are not set.
 */
#include "launch/job_server.h"

#include "base/mem.h"
#include "flight/sweep.h"
#include "launch/local_addr.h"
#include "launch/rank_env.h"
#include "launch/xalloc.h"
#include "lib/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_PORT = 20000, PORTS = 12000 }; /* below the ephemeral ports */

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

/* --- the server --- */

static hoop_result
find_address(hp_job_server *s, int host, const char *seen_from, const hp_server_options *owner, hoop_error *error)
{
    const hp_mapping *mapping = s->mapping;
    char guess[IF_NAMESIZE], text[HP_ADDR_TEXT];
    if (mapping->all_here)
        return hp_local_loopback(&s->address, error);
    const hp_host_entry *remote = &mapping->list->entry[host],
                        *own = NULL; /* own: that of this machine, if it is listed */
    for (int i = 0; i < mapping->list->count && !own; i++)
        own = mapping->host[i].here ? &mapping->list->entry[i] : NULL;
    if (hp_local_address(&s->address, own, remote, seen_from, guess, error) != HOOP_SUCCESS)
        return error->code;
    if (guess[0] == '\0')
        return HOOP_SUCCESS;
    char *line = hp_xasprintf("there is no route to %s; the rendezvous server listens on the only interface, %s (%s)",
                              hp_mapping_name(mapping, host), guess, hp_addr_host(&s->address, text));
    owner->warn(owner->arg, line);
    free(line);
    return HOOP_SUCCESS;
}

/* The setting as the ranks will have it: from -x, else from our environment. */
static hoop_result
find_ports(const hp_job_server *s, hp_ports *ports, hoop_error *error)
{
    static const char name[] = "HOOP_PORT_RANGE=";
    const hp_strings *env = &s->options->variables;
    char range[HP_VALUE_TEXT];
    hp_config_glance(HP_SET_port_range, range);
    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->item[i], name, sizeof(name) - 1) == 0)
            snprintf(range, sizeof(range), "%s", env->item[i] + sizeof(name) - 1);
    return hp_ports_parse(ports, range, error);
}

hoop_result
hp_job_server_start(hp_job_server *s, hp_loop *loop, int host, const char *seen_from, const hp_server_options *owner,
                    hoop_error *error)
{
    hp_server_options *options = &s->serving;
    if (s->server || (!s->mapping->all_here && s->mapping->host[host].here))
        return HOOP_SUCCESS;
    *options = *owner;
    if (find_address(s, host, seen_from, owner, error) != HOOP_SUCCESS ||
        find_ports(s, &options->ports, error) != HOOP_SUCCESS)
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

/* --- spec --- */

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
    if (mapping->host[i].here)
        return hp_addr_host(&s->address, out);
    return hp_local_bare_name(mapping->list->entry[i].name);
}

static void
add_variables(const hp_job_server *s, int host, hp_strings *variables)
{
    char text[HP_ADDR_TEXT], ifname[HP_HOST_ADDR + 8];
    hp_rank_env_settings(variables);
    for (size_t i = 0; i < s->options->variables.count; i++)
        hp_strings_add(variables, hp_xstrdup(s->options->variables.item[i]));
    hp_strings_add(variables, hp_xasprintf("HOOP_RENDEZVOUS=%s", hp_addr_print(&s->address, text)));
    hp_strings_add(variables, hp_xasprintf("HOOP_JOB=%s", s->id));
    hp_strings_add(variables, hp_xasprintf("MASTER_ADDR=%s", master_address(s, text)));
    hp_strings_add(variables, hp_xasprintf("MASTER_PORT=%d", FIRST_PORT + s->port % PORTS));
    if (hp_local_ifname(&s->mapping->list->entry[host], ifname, sizeof(ifname)))
        hp_strings_add(variables, hp_xasprintf("HOOP_SOCKET_IFNAME=%s", ifname));
}

static void
fill_spec(const hp_job_server *s, int host, hp_spec *spec)
{
    const hp_options *options = s->options;
    const char *home = getenv("HOME");
    for (char **word = options->argv; *word; word++)
        hp_strings_add(&spec->argv, hp_xstrdup(*word));
    add_variables(s, host, &spec->variables);
    spec->options = options->agent;
    spec->dir_required = !!options->wdir;
    spec->dir = hp_xstrdup(options->wdir ? options->wdir : options->here);
    spec->home = home && home[0] ? hp_xstrdup(home) : NULL;
    spec->prefix = options->prefix ? hp_xstrdup(options->prefix) : NULL;
    spec->world = s->mapping->ranks.size;
    spec->ranks = s->mapping->ranks.count[host];
    spec->local_first = s->mapping->host[host].local_first;
    spec->local_size = s->mapping->host[host].local_size;
    spec->rank = hp_xcalloc((size_t)spec->ranks, sizeof(*spec->rank));
    for (int i = 0; i < spec->ranks; i++)
        spec->rank[i] = s->mapping->ranks.first[host] + i;
}

void
hp_job_server_put_spec(const hp_job_server *s, int host, hp_winsize winsize, hp_buffer *out)
{
    char secret[HP_SECRET_TEXT];
    hp_spec spec = {0};
    hp_secret_format(secret, s->secret);
    hp_xbuffer_add(out, secret, sizeof(secret) - 1);
    hp_wipe(secret, sizeof(secret));
    fill_spec(s, host, &spec);
    spec.winsize = winsize;
    hp_spec_put(out, &spec);
    hp_spec_free(&spec);
}

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
