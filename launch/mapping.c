/* SPDX-License-Identifier: MIT */
/*
 * mapping: ranks to hosts, by slots or by a number per host; then the command that starts each host's agent. A host
 * whose slots were not written offers one per mention, as in MPI's hostfiles; only a run on this machine alone takes
 * more ranks than that unasked. The command is made of words that mean the same to a remote shell that joins and
 * splits them again (ssh) and to a program that takes them one by one (ip netns exec).
 */
#include "launch/mapping.h"

#include "base/buffer.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/number.h"
#include "base/say.h"
#include "launch/agent_msg.h"
#include "launch/hostfile.h"
#include "launch/spawn.h"
#include "launch/xalloc.h"

#include <arpa/inet.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { RANKS_MAX = 65536 };

/* --- which rank runs on which host --- */

static int
slots_of(const hp_host_entry *host)
{
    return host->slots + host->mentions;
}

static long
slots_in_all(const hp_host_list *hosts)
{
    long sum = 0;
    for (int i = 0; i < hosts->count; i++)
        sum += slots_of(&hosts->entry[i]);
    return sum;
}

static int
slots_written(const hp_host_list *hosts)
{
    int written = 0;
    for (int i = 0; i < hosts->count; i++)
        written |= hosts->entry[i].slots > 0;
    return written;
}

static hoop_result
too_many(const hp_host_list *hosts, const hp_rank_map_request *request, long ranks, hoop_error *error)
{
    hp_noun number = hp_say_count((uint64_t)hosts->count, "host");
    hp_noun slots = hp_say_count((uint64_t)slots_in_all(hosts), "slot");
    if (request->per_host > 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%ld ranks do not fit on %s with %d on each; list more hosts or write a larger -N", ranks,
                          number.text, request->per_host);
    if (request->allocation)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%ld ranks do not fit: %s has %s on %s; ask it for more tasks, or write where more ranks may "
                          "run: -H %.80s:N",
                          ranks, request->allocation, slots.text, number.text, hosts->entry[0].name);
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "%ld ranks do not fit: %s offer%s %s; write slots=N (host:N) where more ranks may run, or -n %ld",
                      ranks, number.text, hosts->count == 1 ? "s" : "", slots.text, slots_in_all(hosts));
}

hoop_result
hp_rank_map_fill(hp_rank_map *map, const hp_host_list *hosts, const hp_rank_map_request *request, hoop_error *error)
{
    int alone = request->local && !slots_written(hosts) && hosts->mentions == 1;
    long ranks = request->ranks > 0      ? request->ranks
                 : request->per_host > 0 ? (long)request->per_host * hosts->count
                 : alone                 ? request->cores
                                         : slots_in_all(hosts);
    if (request->ranks == 0 && request->most > 0 && ranks > request->most)
        ranks = request->most;
    int even = request->per_host == 0 && request->local && !slots_written(hosts); /* whatever a host's slots */
    int next = 0;
    if (ranks > RANKS_MAX)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%ld ranks are more than hoop's limit of %d", ranks,
                          RANKS_MAX);
    *map = (hp_rank_map){.size = (int)ranks};
    map->first = hp_xcalloc((size_t)hosts->count, sizeof(*map->first));
    map->count = hp_xcalloc((size_t)hosts->count, sizeof(*map->count));
    map->room = hp_xcalloc((size_t)hosts->count, sizeof(*map->room));
    for (int i = 0; i < hosts->count; i++) {
        int left = (int)ranks - next, room = request->per_host > 0 ? request->per_host : slots_of(&hosts->entry[i]);
        if (even)
            room = left / (hosts->count - i) + (left % (hosts->count - i) != 0);
        map->first[i] = next;
        map->count[i] = room < left ? room : left;
        map->room[i] = map->count[i] > slots_of(&hosts->entry[i]) ? map->count[i] : slots_of(&hosts->entry[i]);
        next += map->count[i];
    }
    if (next < ranks)
        return too_many(hosts, request, ranks, error);
    for (int i = 0; i < hosts->count; i++)
        if (map->count[i] > HP_SPEC_RANKS)
            return hp_err_set(
                error, HOOP_ERR_INVALID_ARGUMENT,
                "%.80s would have %d ranks, and a host can have %d; list more hosts, or start fewer ranks",
                hosts->entry[i].name, map->count[i], HP_SPEC_RANKS);
    /* With -N a host that has slots takes no more than these; a host without slots takes any number. */
    for (int i = 0; request->per_host > 0 && i < hosts->count; i++) {
        const hp_host_entry *host = &hosts->entry[i];
        if (host->slots > 0 && map->count[i] > slots_of(host))
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                              "-N %d puts %d ranks on %.80s, which has %s; write a smaller -N or slots=%d",
                              request->per_host, map->count[i], host->name,
                              hp_say_count((uint64_t)slots_of(host), "slot").text, map->count[i]);
    }
    return HOOP_SUCCESS;
}

void
hp_rank_map_free(hp_rank_map *map)
{
    free(map->first);
    free(map->count);
    free(map->room);
    *map = (hp_rank_map){0};
}

/* --- how each host is reached --- */

/* A word as a shell must read it; without quotes if it needs none. */
static char *
quoted(const char *word)
{
    hp_buffer out = {0};
    if (word[0] != '\0' && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                             "_@%+=:,./-")] == '\0')
        return hp_xstrdup(word);
    hp_xbuffer_add(&out, "'", 1);
    for (const char *c = word; *c != '\0'; c++)
        hp_xbuffer_add(&out, *c == '\'' ? "'\\''" : c, *c == '\'' ? 4 : 1);
    hp_xbuffer_add(&out, "'", 1);
    char *text = hp_xstrndup((const char *)hp_buffer_first(&out), hp_buffer_size(&out));
    hp_buffer_free(&out);
    return text;
}

static void
add_remote(hp_strings *words, const hp_options *options, const char *host, const char *program)
{
    for (size_t i = 0; i < options->rsh.count; i++)
        hp_strings_add(words, hp_xstrdup(options->rsh.item[i]));
    if (options->ssh_port > 0) {
        hp_strings_add(words, hp_xstrdup("-p"));
        hp_strings_add(words, hp_xasprintf("%d", options->ssh_port));
    }
    hp_strings_add(words, hp_xstrdup(host));
    hp_strings_add(words, quoted(program));
    hp_strings_add(words, hp_xstrdup("--agent"));
}

/* --- one machine under several names --- */

typedef struct placed_host {
    const char *machine;
    int host;
} placed_host;

/* By name up to the first dot, then by all of it: a name without a domain comes just before those that it matches. */
static int
compare(const void *a, const void *b)
{
    const placed_host *x = a, *y = b;
    size_t nx = strcspn(x->machine, "."), ny = strcspn(y->machine, ".");
    int order = strncasecmp(x->machine, y->machine, nx < ny ? nx : ny);
    if (order == 0)
        order = nx == ny ? strcasecmp(x->machine, y->machine) : nx > ny ? 1 : -1;
    return order ? order : (x->host > y->host) - (x->host < y->host);
}

/*
 * The ranks of one machine have different local ranks, by which programs choose their GPUs. One machine are those hosts
 * that are here, that have one address, or one name with different users. So are n1 and n1.cluster, but not n1.east and
 * n1.west.
 */
static void
count_local(hp_mapping *mapping)
{
    int count = mapping->list->count;
    placed_host *all = hp_xcalloc((size_t)count, sizeof(*all));
    for (int i = 0; i < count; i++) {
        const hp_host_entry *h = &mapping->list->entry[i];
        const char *there = h->addr[0] != '\0' ? h->addr : hp_local_bare_name(h->name);
        all[i] = (placed_host){mapping->host[i].here ? "" : there, i};
    }
    qsort(all, (size_t)count, sizeof(*all), compare);
    for (int i = 0, j; i < count; i = j) {
        int size = 0;
        for (j = i; j < count && hp_local_same_name(all[j].machine, all[i].machine); j++) {
            mapping->host[all[j].host].local_first = size;
            size += mapping->ranks.count[all[j].host];
        }
        while (i < j)
            mapping->host[all[i++].host].local_size = size;
    }
    free(all);
}

/* A link-local address is one host only behind one interface of this machine (RFC 4007). */
static hoop_result
check_scope(const char *name, hoop_error *error)
{
    const char *host = hp_local_bare_name(name);
    char address[INET6_ADDRSTRLEN];
    struct in6_addr bytes;
    size_t n = strcspn(host, "%");
    const char *interface = host + n + (host[n] == '%');
    char name_of[IF_NAMESIZE];
    int64_t number;
    snprintf(address, sizeof(address), "%.*s", (int)n, host);
    if (inet_pton(AF_INET6, address, &bytes) != 1 || !IN6_IS_ADDR_LINKLOCAL(&bytes) || if_nametoindex(interface) ||
        (hp_number_parse(interface, 1, UINT32_MAX, &number) && if_indextoname((unsigned)number, name_of)))
        return HOOP_SUCCESS;
    if (interface[0] == '\0')
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "host %s: a link-local address needs the interface of this machine behind which it is; write "
                          "%s%%eth0 if that is eth0, or another address of the host",
                          name, name);
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "host %s: this machine has no interface %s; \"ip link\" lists those that it has", name,
                      interface);
}

/* Whether that many ranks are within --elastic. */
static hoop_result
check_elastic(const hp_options *options, int ranks, hoop_error *error)
{
    hp_option_range elastic = options->elastic;
    if (elastic.least > ranks)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "--elastic %d lets a job go on with %d ranks, and this one has %d; start more ranks (-n), or "
                          "write a smaller number",
                          elastic.least, elastic.least, ranks);
    if (elastic.most > 0 && ranks > elastic.most)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "--elastic %d:%d lets no more than %d ranks run, and -n starts %d; write --elastic %d:%d, or "
                          "-n %d",
                          elastic.least, elastic.most, elastic.most, ranks, elastic.least, ranks, elastic.most);
    return HOOP_SUCCESS;
}

hoop_result
hp_mapping_make(hp_mapping *mapping, const hp_options *options, hoop_error *error)
{
    hp_rank_map_request request = {
        .ranks = options->ranks, .most = options->elastic.most, .per_host = options->per_host, .local = 1};
    char self[PATH_MAX];
    request.cores = hp_processors_count();
    request.allocation = options->whole_allocation ? options->allocation.name : NULL;
    *mapping = (hp_mapping){.options = options, .list = &options->hosts};
    if (options->hosts.count == 0) {
        mapping->list = &mapping->alone;
        if (hp_hostfile_parse(&mapping->alone, "this machine", 0, "localhost", 9, error) != HOOP_SUCCESS)
            return HOOP_ERR_INVALID_ARGUMENT;
    }
    mapping->host = hp_xcalloc((size_t)mapping->list->count, sizeof(*mapping->host));
    for (int i = 0; i < mapping->list->count; i++) {
        if (check_scope(mapping->list->entry[i].name, error) != HOOP_SUCCESS)
            return HOOP_ERR_INVALID_ARGUMENT;
        mapping->host[i].here = hp_local_is_host(mapping->list->entry[i].name);
        request.local &= mapping->host[i].here;
    }
    request.local &= !options->whole_allocation;
    if (hp_rank_map_fill(&mapping->ranks, mapping->list, &request, error) != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_ARGUMENT;
    if (check_elastic(options, mapping->ranks.size, error) != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_ARGUMENT;
    count_local(mapping);
    mapping->all_here = 1;
    hp_spawn_own_path(self);
    char *there = options->prefix ? hp_xasprintf("%s/bin/hoop-launch", options->prefix) : hp_xstrdup(self);
    for (int i = 0; i < mapping->list->count; i++) {
        hp_mapped_host *host = &mapping->host[i];
        const char *name = mapping->list->entry[i].name;
        host->used = mapping->ranks.count[i] > 0 || options->agent.max_restarts > 0;
        if (!host->used)
            continue;
        mapping->all_here &= host->here;
        if (host->here) {
            hp_strings_add(&host->call, hp_xstrdup(self));
            hp_strings_add(&host->call, hp_xstrdup("--agent"));
            continue;
        }
        add_remote(&host->call, options, name, there);
        if (!options->prefix)
            add_remote(&host->other, options, name, "hoop-launch");
    }
    free(there);
    return HOOP_SUCCESS;
}

const char *
hp_mapping_name(const hp_mapping *mapping, int host)
{
    return mapping->alone.count > 0 ? hp_local_name() : mapping->list->entry[host].name;
}

/* --- printing --- */

static void
print_words(char *const *word)
{
    for (; *word; word++) {
        char *text = quoted(*word);
        printf(" %s", text);
        free(text);
    }
}

static int
hosts_used(const hp_mapping *mapping)
{
    int used = 0;
    for (int i = 0; i < mapping->list->count; i++)
        used += mapping->ranks.count[i] > 0;
    return used;
}

/* What a remote shell is called: srun, also of "env -u NAME srun". */
static const char *
program_of(char *const *word)
{
    if (strcmp(*word, "env") != 0)
        return *word;
    for (word++; *word && (**word == '-' || strchr(*word, '=')); word++)
        word += strcmp(*word, "-u") == 0 && word[1];
    return *word ? *word : "env";
}

void
hp_mapping_announce(const hp_mapping *mapping)
{
    enum { NAMES = 4 };
    const hp_allocation *allocation = &mapping->options->allocation;
    int used = hosts_used(mapping), shown = 0;
    /* A job of several hosts would run here only, and nobody would notice. */
    if (allocation->lacks && mapping->alone.count > 0)
        fprintf(stderr,
                "hooprun: this is %s, but %s is not set, so all ranks run on this machine; write the hosts: "
                "-H node1:4,node2:4, or --hostfile FILE; -H localhost means this machine only\n",
                allocation->name, allocation->lacks);
    if (!mapping->options->whole_allocation)
        return;
    fprintf(stderr, "hooprun: %s on %s of %s (", hp_say_count((uint64_t)mapping->ranks.size, "rank").text,
            hp_say_count((uint64_t)used, "host").text, allocation->name);
    for (int i = 0; i < mapping->list->count && shown < NAMES; i++)
        if (mapping->ranks.count[i] > 0)
            fprintf(stderr, "%s%s", shown++ > 0 ? ", " : "", mapping->list->entry[i].name);
    fprintf(stderr, "%s), by %s; -n and -H choose fewer\n", shown < used ? " ..." : "",
            program_of(mapping->options->rsh.item));
}

void
hp_mapping_print(const hp_mapping *mapping)
{
    printf("%s on %s\n", hp_say_count((uint64_t)mapping->ranks.size, "rank").text,
           hp_say_count((uint64_t)hosts_used(mapping), "host").text);
    for (int i = 0; i < mapping->list->count; i++) {
        const hp_host_entry *host = &mapping->list->entry[i];
        int first = mapping->ranks.first[i], count = mapping->ranks.count[i];
        if (count == 0) {
            printf("  %-20s no ranks%s\n", host->name,
                   mapping->host[i].used ? ", but room for those that are started again" : "");
            continue;
        }
        printf(count == 1 ? "  %-20s rank %d" : "  %-20s ranks %d", host->name, first);
        if (count > 1)
            printf("-%d", first + count - 1);
        if (host->slots > 0)
            printf(", slots %d", host->slots + host->mentions);
        if (host->addr[0] != '\0')
            printf(", addr %s", host->addr);
        if (host->iface[0] != '\0')
            printf(", iface %s", host->iface);
        printf(mapping->host[i].here ? ", here:" : ", by:");
        print_words(mapping->host[i].call.item);
        printf("\n");
    }
    if (mapping->options->agent.bind)
        printf("each rank is bound to its share of its host's processors\n");
    printf("each rank:");
    print_words(mapping->options->argv);
    printf("\n");
    fflush(stdout);
}

void
hp_mapping_free(hp_mapping *mapping)
{
    for (int i = 0; mapping->host && i < mapping->list->count; i++) {
        hp_strings_free(&mapping->host[i].call);
        hp_strings_free(&mapping->host[i].other);
    }
    free(mapping->host);
    hp_rank_map_free(&mapping->ranks);
    hp_hostfile_free(&mapping->alone);
}
