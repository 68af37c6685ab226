/* SPDX-License-Identifier: MIT */
/* outward: see outward.h. */
#include "lib/outward.h"

#include "base/clock.h"
#include "net/interface.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOKUP_TIME (5 * HP_SEC)

static const char *
join_host(const hoop_config *config)
{
    const char *set = hp_config_text(config, HP_SET_join_host), *variable = getenv("MASTER_ADDR");
    return *set || !variable ? set : variable;
}

int
hp_outward_join_host(hp_addr *addr, const hoop_config *config)
{
    const char *host = join_host(config);
    hp_loop *loop = *host ? hp_loop_new() : NULL;
    if (!loop)
        return 0;
    uint64_t deadline = hp_loop_now(loop) + LOOKUP_TIME;
    int found = hp_addr_find_host(addr, host, 0, loop, deadline, NULL) == HOOP_SUCCESS;
    hp_loop_free(loop);
    return found;
}

/* A name that means 127.0.1.1 here may mean this host's real address elsewhere, so loopback tells nothing. */
static int
leads_to(hp_addr *addr, const hp_addr *to)
{
    return hp_addr_route(addr, to) && !hp_addr_is_loopback(addr);
}

static int
leads_out(hp_addr *addr)
{
    static const char *const world[] = {"192.0.2.1:9", "[2001:db8::1]:9"}; /* of documentation: no host has them */
    hp_addr to;
    for (size_t i = 0; i < sizeof(world) / sizeof(*world); i++)
        if (hp_addr_parse(&to, world[i], NULL) == HOOP_SUCCESS && leads_to(addr, &to))
            return 1;
    return 0;
}

hoop_result
hp_outward_find(hp_addr *addr, const hoop_config *config, char why[HP_OUTWARD_WHY], hoop_error *error)
{
    const char *wanted = hp_config_text(config, HP_SET_socket_ifname);
    char name[32] = "";
    hp_addr to;
    hoop_result result = HOOP_SUCCESS;
    if (*wanted) {
        result = hp_interface_choose(addr, wanted, NULL, name, NULL, 0, error);
        snprintf(why, HP_OUTWARD_WHY, "on %s, because of HOOP_SOCKET_IFNAME=%s", name, wanted);
    } else if (hp_outward_join_host(&to, config) && leads_to(addr, &to)) {
        snprintf(why, HP_OUTWARD_WHY, "from which this host reaches %s, where the ranks join", join_host(config));
    } else if (leads_out(addr)) {
        snprintf(why, HP_OUTWARD_WHY, "that of the default route");
    } else if (hp_interface_choose(addr, "^=lo", NULL, name, NULL, 0, NULL) == HOOP_SUCCESS) {
        snprintf(why, HP_OUTWARD_WHY, "on %s, the best interface, since there is no default route", name);
    } else {
        result = hp_interface_choose(addr, NULL, NULL, NULL, NULL, 0, error);
        snprintf(why, HP_OUTWARD_WHY, "since no interface leads to other hosts");
    }
    return result;
}
