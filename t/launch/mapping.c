/* SPDX-License-Identifier: MIT */
/* Placement: which ranks go where, for every way of asking; and how many slots there are when they do not fit. */
#include "launch/mapping.h"

#include "base/err.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

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
    {"a[1-9]:65536", {0}, "589824 ranks are more than hoop's limit of 65536"},
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

int
main(void)
{
    tap_limit(60);
    plan(sizeof(rows) / sizeof(rows[0]));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i]);
    return 0;
}
