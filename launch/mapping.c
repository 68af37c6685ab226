/* SPDX-License-Identifier: MIT */
/*
 * layout: hosts, placement and commands brought together. The agent's command is made of words that mean the same to a
 * remote shell, which joins and splits them again (ssh), and to a program that takes them one by one (ip netns exec).
 */
#include "launch/mapping.h"

#include "base/err.h"
#include "base/processors.h"
#include "launch/local_addr.h"
#include "launch/xalloc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* A word as a shell must see it: most need no quotes, and then get none. */
static char *
quoted(const char *word)
{
    hp_bytes out = {0};
    const char *c;
    char *text;
    if (word[0] != '\0' && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                             "_@%+=:,./-")] == '\0')
        return hp_must(strdup(word));
    hp_bytes_add(&out, "'", 1);
    for (c = word; *c != '\0'; c++)
        hp_bytes_add(&out, *c == '\'' ? "'\\''" : c, *c == '\'' ? 4 : 1);
    hp_bytes_add(&out, "'", 1);
    text = hp_must(strndup((const char *)hp_bytes_first(&out), hp_bytes_size(&out)));
    hp_bytes_free(&out);
    return text;
}

static void
own_path(char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
}

static void
add_remote(hp_words *words, const hp_options *options, const char *host, const char *program)
{
    size_t i;
    for (i = 0; i < options->rsh.count; i++)
        hp_words_add(words, hp_must(strdup(options->rsh.word[i])));
    if (options->ssh_port > 0) {
        hp_words_add(words, hp_must(strdup("-p")));
        hp_words_add(words, hp_must_print("%d", options->ssh_port));
    }
    hp_words_add(words, hp_must(strdup(host)));
    hp_words_add(words, quoted(program));
    hp_words_add(words, hp_must(strdup("--agent")));
}

static void
make_site(hp_site *site, const hp_options *options, const char *host)
{
    char self[PATH_MAX];
    char *there;
    own_path(self);
    if (site->here) {
        hp_words_add(&site->call, hp_must(strdup(self)));
        hp_words_add(&site->call, hp_must(strdup("--agent")));
        return;
    }
    there = options->prefix ? hp_must_print("%s/bin/hoop-launch", options->prefix) : hp_must(strdup(self));
    add_remote(&site->call, options, host, there);
    if (!options->prefix)
        add_remote(&site->other, options, host, "hoop-launch");
    free(there);
}

/* --- one machine under several names --- */

/* What tells that two hosts are one machine: all that are here, one address, or one name with different users. */
static const char *
machine_of(const hp_layout *layout, int host)
{
    const hp_host *h = &layout->hosts->host[host];
    if (layout->site[host].here)
        return "";
    return h->addr[0] != '\0' ? h->addr : hp_meet_bare_name(h->name);
}

typedef struct entry {
    const char *machine;
    int host;
} entry;

static int
compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int order = strcasecmp(x->machine, y->machine);
    return order ? order : (x->host > y->host) - (x->host < y->host);
}

/* Ranks of one machine have different local ranks, by which programs choose their GPUs. */
static void
count_local(hp_layout *layout)
{
    int count = layout->hosts->count, i, j, size;
    entry *all = hp_must_alloc((size_t)count, sizeof(*all));
    for (i = 0; i < count; i++)
        all[i] = (entry){machine_of(layout, i), i};
    qsort(all, (size_t)count, sizeof(*all), compare);
    for (i = 0; i < count; i = j) {
        for (j = i, size = 0; j < count && strcasecmp(all[j].machine, all[i].machine) == 0; j++) {
            layout->site[all[j].host].local_first = size;
            size += layout->place.count[all[j].host];
        }
        while (i < j)
            layout->site[all[i++].host].local_size = size;
    }
    free(all);
}

hoop_result
hp_layout_make(hp_layout *layout, const hp_options *options, hoop_error *error)
{
    hp_place_wish wish = {.ranks = options->ranks, .per_host = options->per_host, .local = 1};
    int i;
    wish.cores = hp_processors_count();
    *layout = (hp_layout){.options = options, .hosts = &options->hosts};
    if (options->hosts.count == 0) {
        layout->hosts = &layout->alone;
        if (hp_hosts_parse(&layout->alone, "this machine", 0, "localhost", 9, error) != HOOP_SUCCESS)
            return HOOP_ERR_INVALID_ARGUMENT;
    }
    layout->site = hp_must_alloc((size_t)layout->hosts->count, sizeof(*layout->site));
    for (i = 0; i < layout->hosts->count; i++) {
        layout->site[i].here = hp_meet_is_here(layout->hosts->host[i].name);
        wish.local &= layout->site[i].here;
    }
    if (hp_place_ranks(&layout->place, layout->hosts, &wish, error) != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_ARGUMENT;
    count_local(layout);
    layout->all_here = 1;
    for (i = 0; i < layout->hosts->count; i++) {
        if (layout->place.count[i] == 0)
            continue;
        layout->all_here &= layout->site[i].here;
        make_site(&layout->site[i], options, layout->hosts->host[i].name);
    }
    return HOOP_SUCCESS;
}

/* --- printing --- */

static void
print_words(char *const *word)
{
    for (; *word != NULL; word++) {
        char *text = quoted(*word);
        printf(" %s", text);
        free(text);
    }
}

static void
print_host(const hp_layout *layout, int i)
{
    const hp_host *host = &layout->hosts->host[i];
    int first = layout->place.first[i], count = layout->place.count[i];
    if (count == 0) {
        printf("  %-20s no ranks\n", host->name);
        return;
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
    printf(layout->site[i].here ? ", here:" : ", by:");
    print_words(layout->site[i].call.word);
    printf("\n");
}

void
hp_layout_print(const hp_layout *layout)
{
    int i, used = 0;
    for (i = 0; i < layout->hosts->count; i++)
        used += layout->place.count[i] > 0;
    printf("%d rank%s on %d host%s\n", layout->place.size, layout->place.size == 1 ? "" : "s", used,
           used == 1 ? "" : "s");
    for (i = 0; i < layout->hosts->count; i++)
        print_host(layout, i);
    if (layout->options->agent.bind)
        printf("each rank keeps to its share of its host's processors\n");
    printf("each rank:");
    print_words(layout->options->argv);
    printf("\n");
    fflush(stdout);
}

void
hp_layout_free(hp_layout *layout)
{
    int i;
    for (i = 0; layout->site && i < layout->hosts->count; i++) {
        hp_words_free(&layout->site[i].call);
        hp_words_free(&layout->site[i].other);
    }
    free(layout->site);
    hp_place_free(&layout->place);
    hp_hosts_free(&layout->alone);
}
