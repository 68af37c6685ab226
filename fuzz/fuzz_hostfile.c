/* SPDX-License-Identifier: MIT */
/*
 * fuzz_hostfile: any bytes as a hostfile. What is accepted has names that are safe as a remote shell's argument, no
 * name twice, slots in range; what is refused has a sentence. Placement on the hosts accepted puts every rank once.
 */
#include "fuzz/fuzz.h"
#include "launch/mapping.h"

#include <ctype.h>
#include <string.h>

const char fuzz_name[] = "hostfile";

static void
check_host(const hp_host_entry *host)
{
    fuzz_check(host->name[0] != '\0' && host->name[0] != '-' && host->name[0] != '@');
    for (const char *c = host->name; *c != '\0'; c++)
        fuzz_check(isalnum((unsigned char)*c) || strchr("._-:%@", *c));
    fuzz_check(!strchr(host->name, '@') || strchr(host->name, '@')[1] != '-');
    fuzz_check(host->slots >= 0 && host->mentions >= 0 && host->slots + host->mentions >= 1);
    fuzz_check(host->slots + host->mentions <= HP_SLOTS_MAX);
}

static void
check_map(const hp_host_list *hosts, const hp_rank_map_request *request)
{
    hp_rank_map map = {0};
    hoop_error error;
    int next = 0;
    if (hp_rank_map_fill(&map, hosts, request, &error) == HOOP_SUCCESS) {
        for (int i = 0; i < hosts->count; i++) {
            fuzz_check(map.count[i] >= 0 && map.first[i] == next);
            next += map.count[i];
        }
        fuzz_check(next == map.size && next > 0 && (request->ranks == 0 || next == request->ranks));
    }
    hp_rank_map_free(&map);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const hp_rank_map_request requests[] = {
        {0}, {.ranks = 5}, {.per_host = 3}, {.ranks = 7, .local = 1, .cores = 2}};
    hp_host_list hosts = {0};
    hoop_error error;
    if (size == 0)
        return 0;
    error.text[0] = '\0';
    if (hp_hostfile_parse(&hosts, "hosts", data[0] & 1, (const char *)data + 1, size - 1, &error) != HOOP_SUCCESS) {
        fuzz_check(strncmp(error.text, "hosts:", 6) == 0 && strstr(error.text, "word \""));
    } else {
        for (size_t i = 0; i < (size_t)hosts.count; i++)
            check_host(&hosts.entry[i]);
        for (size_t i = 0; hosts.count > 0 && i < sizeof(requests) / sizeof(requests[0]); i++)
            check_map(&hosts, &requests[i]);
    }
    hp_hostfile_free(&hosts);
    return 0;
}
