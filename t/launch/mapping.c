/* SPDX-License-Identifier: MIT */
/* Placement: which ranks go where, for every way of asking; and how many slots there are when they do not fit. */
#include "launch/mapping.h"

#include "base/err.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct row {
    const char *hosts;
    hp_rank_map_request request;
    const char *placed; /* "first+count " by host, or the error */
} row;

static const row rows[] = {
    {"a", {.ranks = 4, .local = 1, .cores = 2}, "0+4 "},
    {"a", {.local = 1, .cores = 2}, "0+2 "},
    {"a:3", {.local = 1, .cores = 2}, "0+3 "},
    {"a,b", {.ranks = 5, .local = 1, .cores = 2}, "0+3 3+2 "},
    {"a,a,a", {.local = 1, .cores = 2}, "0+3 "},
    {"a,b,c", {.local = 1, .cores = 2}, "0+1 1+1 2+1 "},
    {"a:2,b:2", {.ranks = 3}, "0+2 2+1 "},
    {"a:2,b:2", {.ranks = 4}, "0+2 2+2 "},
    {"a:2,b:2", {0}, "0+2 2+2 "},
    {"a:2,b:2", {.ranks = 1}, "0+1 1+0 "},
    {"a,b,c", {0}, "0+1 1+1 2+1 "},
    {"a,a,b", {.ranks = 3}, "0+2 2+1 "},
    {"a:4,b:4", {.ranks = 4, .per_host = 2}, "0+2 2+2 "},
    {"a:4,b:4", {.per_host = 3}, "0+3 3+3 "},
    {"a,b", {.ranks = 3, .per_host = 2}, "0+2 2+1 "},
    {"a,b", {.per_host = 8}, "0+8 8+8 "},
    {"a:2",
     {.ranks = 3, .local = 1, .cores = 8},
     "3 ranks do not fit: 1 host offers 2 slots; write slots=N (host:N) where more ranks may run, or -n 2"},
    {"a:2,b",
     {.ranks = 8},
     "8 ranks do not fit: 2 hosts offer 3 slots; write slots=N (host:N) where more ranks may run, or -n 3"},
    {"a,b",
     {.ranks = 8},
     "8 ranks do not fit: 2 hosts offer 2 slots; write slots=N (host:N) where more ranks may run, or -n 2"},
    {"a,b",
     {.ranks = 5, .per_host = 2},
     "5 ranks do not fit on 2 hosts with 2 on each; list more hosts or write a larger -N"},
    {"a:2,b:4", {.per_host = 4}, "-N 4 puts 4 ranks on a, which has 2 slots; write a smaller -N or slots=4"},
    {"a:2,b:2", {.most = 3}, "0+2 2+1 "},
    {"a:2,b:2", {.most = 9}, "0+2 2+2 "},
    {"a:2,b:2", {.most = 3, .per_host = 2}, "0+2 2+1 "},
    {"a", {.most = 3, .local = 1, .cores = 8}, "0+3 "},
    {"a[1-9]:65536", {.most = 3}, "0+3 3+0 3+0 3+0 3+0 3+0 3+0 3+0 3+0 "},
    {"a[1-9]:65536", {0}, "589824 ranks are more than hoop's limit of 65536"},
    {"a:20000,b", {0}, "a would have 20000 ranks, and a host can have 16384; list more hosts, or start fewer ranks"},
};

static void
check(const row *r)
{
    hp_host_list hosts = {0};
    hp_rank_map map = {0};
    hoop_error error;
    char seen[512] = "";
    hp_hostfile_parse(&hosts, "-H", 0, r->hosts, strlen(r->hosts), &error);
    if (hp_rank_map_fill(&map, &hosts, &r->request, &error) != HOOP_SUCCESS)
        snprintf(seen, sizeof(seen), "%s", error.text);
    else
        for (int i = 0; i < hosts.count; i++)
            snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%d+%d ", map.first[i], map.count[i]);
    is_string(r->placed, seen, "%s, -n %d, -N %d", r->hosts, r->request.ranks, r->request.per_host);
    hp_rank_map_free(&map);
    hp_hostfile_free(&hosts);
}

/* --- how hosts are reached --- */

/* A mapping of these options and hosts; the options stay the caller's. */
static void
make(hp_mapping *mapping, hp_options *options, const char *list)
{
    static char *program[] = {"./train", "two words", "it's", NULL};
    hoop_error error;
    options->argv = program;
    hp_strings_add(&options->rsh, strdup("ssh"));
    if (hp_hostfile_parse(&options->hosts, "-H", 0, list, strlen(list), &error) != HOOP_SUCCESS ||
        hp_mapping_make(mapping, options, &error) != HOOP_SUCCESS)
        bail("no mapping: %s", error.text);
}

/* What --map prints; no check may run while standard output is a file. */
static const char *
printed(const hp_mapping *mapping)
{
    static char text[4096];
    char path[512];
    snprintf(path, sizeof(path), "%s/stdout", tap_tmpdir());
    int old = dup(STDOUT_FILENO), file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    dup2(file, STDOUT_FILENO);
    hp_mapping_print(mapping);
    dup2(old, STDOUT_FILENO);
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(old);
    close(file);
    return text;
}

static void
check_print(void)
{
    hp_options options = {.prefix = strdup("/opt/hoop 1"), .ssh_port = 2222, .agent.bind = 1};
    hp_mapping mapping;
    make(&mapping, &options, "n1:2,u@n2 addr=10.0.0.2");
    is_string(
        "3 ranks on 2 hosts\n"
        "  n1                   ranks 0-1, slots 2, by: ssh -p 2222 n1 ''\\''/opt/hoop 1/bin/hoop-launch'\\''' "
        "--agent\n"
        "  u@n2                 rank 2, addr 10.0.0.2, by: ssh -p 2222 u@n2 ''\\''/opt/hoop 1/bin/hoop-launch'\\''' "
        "--agent\n"
        "each rank is bound to its share of its host's processors\n"
        "each rank: ./train 'two words' 'it'\\''s'\n",
        printed(&mapping), "what --map prints");
    hp_mapping_free(&mapping);
    hp_options_free(&options);
}

/* Entries of the hostfile that are one machine: their ranks have different local ranks. */
static void
check_local(void)
{
    static const int first[] = {0, 0, 2, 0, 1, 0, 1}, size[] = {3, 1, 3, 3, 3, 3, 3};
    hp_options options = {0};
    hp_mapping mapping;
    make(&mapping, &options, "n1:2,n2:1,u@n1:1,n3:1 addr=10.0.0.3,n4:2 addr=10.0.0.3,localhost:1,127.0.0.1:2");
    for (int i = 0; i < 7; i++)
        ok(mapping.host[i].local_first == first[i] && mapping.host[i].local_size == size[i], "%s: local rank %d of %d",
           hp_mapping_name(&mapping, i), mapping.host[i].local_first, mapping.host[i].local_size);
    ok(!mapping.host[0].here && mapping.host[5].here && mapping.host[6].here && !mapping.all_here,
       "this machine is known by its names and addresses");
    is_uint(2, mapping.host[5].call.count, "an agent here needs no remote shell");
    ok(mapping.host[0].other.count > 0 && mapping.host[5].other.count == 0,
       "elsewhere PATH is the second place to look");
    hp_mapping_free(&mapping);
    hp_options_free(&options);
}

/* A short and a long name of one remote machine, whatever stands between them in the list. */
static void
check_domains(void)
{
    static const int first[] = {0, 0, 2, 0, 0, 0, 0}, size[] = {3, 1, 3, 1, 1, 1, 1};
    hp_options options = {0};
    hp_mapping mapping;
    make(&mapping, &options, "n1:2,n1-x:1,N1.cluster:1,n2.east:1,n2.west:1,10.0.0.1:1,10.0.0.2:1");
    for (int i = 0; i < 7; i++)
        ok(mapping.host[i].local_first == first[i] && mapping.host[i].local_size == size[i], "%s: local rank %d of %d",
           hp_mapping_name(&mapping, i), mapping.host[i].local_first, mapping.host[i].local_size);
    hp_mapping_free(&mapping);
    hp_options_free(&options);
}

static void
check_elastic(void)
{
    static const struct {
        int ranks;
        hp_option_range elastic;
        const char *sentence;
    } wrong[] = {
        {4,
         {5, 0},
         "--elastic 5 lets a job go on with 5 ranks, and this one has 4; start more ranks (-n), or write a "
         "smaller number"},
        {4,
         {5, 9},
         "--elastic 5 lets a job go on with 5 ranks, and this one has 4; start more ranks (-n), or write a "
         "smaller number"},
        {4, {2, 3}, "--elastic 2:3 lets no more than 3 ranks run, and -n starts 4; write --elastic 2:4, or -n 3"},
    };
    static char *program[] = {"x", NULL};
    hp_mapping mapping;
    hoop_error error;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        hp_options options = {.argv = program, .ranks = wrong[i].ranks, .elastic = wrong[i].elastic};
        is_int(HOOP_ERR_INVALID_ARGUMENT, hp_mapping_make(&mapping, &options, &error), "too few ranks, or too many");
        is_string(wrong[i].sentence, error.text, "in words");
        hp_mapping_free(&mapping);
    }
    hp_options options = {.argv = program, .ranks = 4, .elastic = {2, 9}};
    is_int(HOOP_SUCCESS, hp_mapping_make(&mapping, &options, &error), "more than are started may be allowed");
    is_int(4, mapping.ranks.size, "and so many are started");
    hp_mapping_free(&mapping);
}

/* A host without ranks gets an agent if ranks may be started again there. */
static void
check_room(void)
{
    hp_options options = {.ranks = 3}, again = {.ranks = 3, .agent.max_restarts = 1};
    hp_mapping mapping;
    make(&mapping, &options, "n1:2,n2:2,n3");
    ok(mapping.ranks.room[0] == 2 && mapping.ranks.room[1] == 2 && mapping.ranks.room[2] == 1, "slots are room");
    ok(mapping.host[1].used && !mapping.host[2].used && mapping.host[2].call.count == 0, "a host without ranks rests");
    ok(strstr(printed(&mapping), "n3                   no ranks\n") != NULL, "says --map");
    hp_mapping_free(&mapping);
    hp_options_free(&options);
    make(&mapping, &again, "n1:2,n2:2,n3");
    ok(mapping.host[2].used && mapping.host[2].call.count > 0, "but not if ranks may be started again there");
    ok(strstr(printed(&mapping), "n3                   no ranks, but room for those that are started again\n") != NULL,
       "says --map");
    hp_mapping_free(&mapping);
    hp_options_free(&again);
}

static void
check_alone(void)
{
    static char *program[] = {"x", NULL};
    hp_options options = {.argv = program, .ranks = 3};
    hp_mapping mapping;
    hoop_error error;
    is_int(HOOP_SUCCESS, hp_mapping_make(&mapping, &options, &error), "without hosts this machine is taken");
    ok(mapping.all_here && mapping.ranks.count[0] == 3, "for as many ranks as are asked for");
    hp_mapping_free(&mapping);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i]);
    check_print();
    check_local();
    check_domains();
    check_elastic();
    check_room();
    check_alone();
    return 0;
}
