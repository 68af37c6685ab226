/* SPDX-License-Identifier: MIT */
/* outward: see outward.h. */
#include "lib/outward.h"

#include "base/clock.h"
#include "base/err.h"
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

static hoop_result
look_up(hp_addr *addr, const char *host, uint16_t port, hoop_error *error)
{
    hp_loop *loop = hp_loop_new();
    if (!loop)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while looking up %.100s", host);
    hoop_result result = hp_addr_find_host(addr, host, port, loop, hp_loop_now(loop) + LOOKUP_TIME, error);
    hp_loop_free(loop);
    return result;
}

int
hp_outward_join_host(hp_addr *addr, const hoop_config *config)
{
    const char *host = join_host(config);
    return *host && look_up(addr, host, 0, NULL) == HOOP_SUCCESS;
}

hoop_result
hp_outward_advertised(hp_addr *addr, const hoop_config *config, uint16_t port, hoop_error *error)
{
    const char *host = hp_config_text(config, HP_SET_advertise);
    hoop_error why;
    addr->length = 0;
    if (!*host || look_up(addr, host, port, &why) == HOOP_SUCCESS)
        return HOOP_SUCCESS;
    return hp_err_set(error, why.code, "HOOP_ADVERTISE: %.230s", why.text);
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
