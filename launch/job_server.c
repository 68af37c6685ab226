/* SPDX-License-Identifier: MIT */
/*
 * task: see task.h. The secret is this job's own key, so that the server refuses all others; it takes a copy, and ours
 * is wiped when the orders are out. OMPI_*, PMI_* and their like are not set.
 */
#include "launch/job_server.h"

#include "base/mem.h"
#include "base/secmem.h"
#include "launch/local_addr.h"
#include "launch/rank_env.h"
#include "launch/xalloc.h"
#include "lib/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_PORT = 20000, PORTS = 12000 }; /* below the ephemeral ports */

hoop_result
hp_task_open(hp_task *task, const hp_options *options, const hp_layout *layout, hoop_error *error)
{
    uint8_t id[8];
    size_t i;
    *task = (hp_task){.options = options, .layout = layout};
    task->secret = hp_must(hp_secmem_new(sizeof(*task->secret)));
    if (hp_random(task->secret->key, sizeof(task->secret->key), error) != HOOP_SUCCESS ||
        hp_random(id, sizeof(id), error) != HOOP_SUCCESS ||
        hp_random(&task->port, sizeof(task->port), error) != HOOP_SUCCESS)
        return error->code;
    for (i = 0; i < sizeof(id); i++)
        snprintf(task->id + 2 * i, 3, "%02x", id[i]);
    task->secret->of_job = 1;
    return hp_job_id(task->secret->job_id, task->id, error);
}

/* --- the server --- */

/* The launcher's own entry in the hostfile; NULL when it has none. */
static const hp_host *
own_host(const hp_layout *layout)
{
    int i;
    for (i = 0; i < layout->hosts->count; i++)
        if (layout->site[i].here)
            return &layout->hosts->host[i];
    return NULL;
}

static hoop_result
find_address(hp_task *task, int host, const char *seen_from, hoop_error *error)
{
    const hp_layout *layout = task->layout;
    if (layout->all_here)
        return hp_meet_loopback(&task->address, error);
    return hp_meet_address(&task->address, own_host(layout), &layout->hosts->host[host], seen_from, error);
}

/* As the ranks will have it: -x, then what this program itself was given. */
static hoop_result
find_ports(const hp_task *task, hp_ports *ports, hoop_error *error)
{
    static const char name[] = "HOOP_PORT_RANGE=";
    const hp_words *wishes = &task->options->variables;
    char range[HP_VALUE_TEXT];
    size_t i;
    hp_config_glance(HP_SET_port_range, range);
    for (i = 0; i < wishes->count; i++)
        if (strncmp(wishes->word[i], name, sizeof(name) - 1) == 0)
            snprintf(range, sizeof(range), "%s", wishes->word[i] + sizeof(name) - 1);
    return hp_ports_parse(ports, range, error);
}

hoop_result
hp_task_meet(hp_task *task, hp_loop *loop, int host, const char *seen_from, const hp_task_owner *owner,
             hoop_error *error)
{
    hp_server_options options = {.mode = HP_MODE_AUTH,
                                 .say = owner->say,
                                 .warn = owner->warn,
                                 .failed = owner->failed,
                                 .host_of = owner->host_of,
                                 .arg = owner->arg};
    if (task->server || (!task->layout->all_here && task->layout->site[host].here))
        return HOOP_SUCCESS;
    if (find_address(task, host, seen_from, error) != HOOP_SUCCESS ||
        find_ports(task, &options.ports, error) != HOOP_SUCCESS)
        return error->code;
    options.listen = task->address;
    options.secret = task->secret;
    task->server = hp_server_new(loop, &options, error);
    if (!task->server)
        return error->code;
    task->address = *hp_server_addr(task->server);
    return HOOP_SUCCESS;
}

/* --- orders --- */

/* Where rank 0 lives, for programs that make their own meeting there. */
static const char *
master_address(const hp_task *task, char out[HP_ADDR_TEXT])
{
    const hp_layout *layout = task->layout;
    int i = 0;
    while (layout->place.count[i] == 0)
        i++;
    if (layout->hosts->host[i].addr[0] != '\0')
        return layout->hosts->host[i].addr;
    if (layout->site[i].here)
        return hp_addr_host(&task->address, out);
    return hp_meet_bare_name(layout->hosts->host[i].name);
}

static void
add_variables(const hp_task *task, int host, hp_words *variables)
{
    char text[HP_ADDR_TEXT], ifname[HP_HOST_ADDR + 8];
    size_t i;
    hp_variables_settings(variables);
    for (i = 0; i < task->options->variables.count; i++)
        hp_words_add(variables, hp_must(strdup(task->options->variables.word[i])));
    hp_words_add(variables, hp_must_print("HOOP_RENDEZVOUS=%s", hp_addr_print(&task->address, text)));
    hp_words_add(variables, hp_must_print("HOOP_JOB=%s", task->id));
    hp_words_add(variables, hp_must_print("MASTER_ADDR=%s", master_address(task, text)));
    hp_words_add(variables, hp_must_print("MASTER_PORT=%d", FIRST_PORT + task->port % PORTS));
    if (hp_meet_ifname(&task->layout->hosts->host[host], ifname, sizeof(ifname)))
        hp_words_add(variables, hp_must_print("HOOP_SOCKET_IFNAME=%s", ifname));
}

static void
fill_orders(const hp_task *task, int host, hp_orders *orders)
{
    const hp_options *options = task->options;
    const char *home = getenv("HOME");
    char **word;
    int i;
    for (word = options->argv; *word != NULL; word++)
        hp_words_add(&orders->argv, hp_must(strdup(*word)));
    add_variables(task, host, &orders->variables);
    orders->wish = options->agent;
    orders->window = task->window;
    orders->dir_must = options->wdir != NULL;
    orders->dir = hp_must(strdup(options->wdir ? options->wdir : options->here));
    orders->home = home && home[0] ? hp_must(strdup(home)) : NULL;
    orders->prefix = options->prefix ? hp_must(strdup(options->prefix)) : NULL;
    orders->world = task->layout->place.size;
    orders->ranks = task->layout->place.count[host];
    orders->local_first = task->layout->site[host].local_first;
    orders->local_size = task->layout->site[host].local_size;
    orders->rank = hp_must_alloc((size_t)orders->ranks, sizeof(*orders->rank));
    for (i = 0; i < orders->ranks; i++)
        orders->rank[i] = task->layout->place.first[host] + i;
}

void
hp_task_put(const hp_task *task, int host, hp_bytes *out)
{
    char secret[HP_SECRET_TEXT];
    hp_orders orders = {0};
    hp_secret_format(secret, task->secret);
    hp_bytes_add(out, secret, sizeof(secret) - 1);
    hp_wipe(secret, sizeof(secret));
    fill_orders(task, host, &orders);
    hp_orders_put(out, &orders);
    hp_orders_free(&orders);
}

void
hp_task_forget(hp_task *task)
{
    hp_secmem_free(task->secret);
    task->secret = NULL;
}

void
hp_task_rank_ended(hp_task *task, int rank, const char *host)
{
    uint8_t job[HP_JOB_ID];
    if (task->server && hp_job_id(job, task->id, NULL) == HOOP_SUCCESS)
        hp_server_rank_ended(task->server, job, rank, task->layout->place.size, host);
}

void
hp_task_close(hp_task *task)
{
    if (task->server)
        hp_server_free(task->server);
    task->server = NULL;
    hp_task_forget(task);
}
