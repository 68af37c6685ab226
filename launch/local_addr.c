/* SPDX-License-Identifier: MIT */
/*
 * local_addr: asks the kernel (bind, a UDP connect that sends nothing). A name is resolved only if nothing else tells,
 * because a resolver may take long.
 */
#include "launch/local_addr.h"

#include "base/clock.h"
#include "base/err.h"
#include "net/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Reads a numeric address without a port; 0: it is none. */
static int
numeric(hp_addr *addr, const char *text)
{
    hp_addr a = {0};
    if (inet_pton(AF_INET, text, &a.u.v4.sin_addr) == 1) {
        a.u.v4.sin_family = AF_INET;
        a.length = sizeof(a.u.v4);
    } else if (inet_pton(AF_INET6, text, &a.u.v6.sin6_addr) == 1) {
        a.u.v6.sin6_family = AF_INET6;
        a.length = sizeof(a.u.v6);
    }
    *addr = a;
    return a.length != 0;
}

/* Whether an address is this machine's: only then bind succeeds. */
static int
is_own(const hp_addr *addr)
{
    int fd = socket(addr->u.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int own = fd >= 0 && bind(fd, &addr->u.any, addr->length) == 0;
    if (fd >= 0)
        close(fd);
    return own;
}

const char *
hp_local_name(void)
{
    static char name[256];
    if (name[0] == '\0' && gethostname(name, sizeof(name) - 1) < 0)
        snprintf(name, sizeof(name), "localhost");
    return name;
}

const char *
hp_local_bare_name(const char *name)
{
    const char *at = strchr(name, '@');
    return at ? at + 1 : name;
}

int
hp_local_same_name(const char *a, const char *b)
{
    size_t na = strcspn(a, "."), nb = strcspn(b, ".");
    if (strcasecmp(a, b) == 0)
        return 1;
    return na == nb && strncasecmp(a, b, na) == 0 && (a[na] == '\0' || b[nb] == '\0');
}

int
hp_local_is_host(const char *name)
{
    hp_addr addr;
    if (strchr(name, '@'))
        return 0;
    if (numeric(&addr, name))
        return is_own(&addr);
    return strcasecmp(name, "localhost") == 0 || hp_local_same_name(name, hp_local_name());
}

int
hp_local_ifname(const hp_host_entry *host, char *out, size_t size)
{
    if (host->addr[0] != '\0')
        snprintf(out, size, "%s/%d", host->addr, strchr(host->addr, ':') ? 128 : 32);
    else if (host->iface[0] != '\0')
        snprintf(out, size, "%s", host->iface);
    return host->addr[0] != '\0' || host->iface[0] != '\0';
}

hoop_result
hp_local_loopback(hp_addr *addr, hoop_error *error)
{
    if (numeric(addr, "127.0.0.1") && is_own(addr))
        return HOOP_SUCCESS;
    if (numeric(addr, "::1") && is_own(addr))
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_SYSTEM,
                      "this machine has neither 127.0.0.1 nor ::1; bring its loopback interface up: ip link set lo up");
}

/* Whether an interface may lead to other machines; *addr: its address. */
static int
leads_out(const struct ifaddrs *entry, hp_addr *addr)
{
    unsigned wanted = IFF_UP | IFF_RUNNING;
    int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    if ((family != AF_INET && family != AF_INET6) || (entry->ifa_flags & (wanted | IFF_LOOPBACK)) != wanted)
        return 0;
    addr->length = family == AF_INET ? sizeof(addr->u.v4) : sizeof(addr->u.v6);
    memcpy(&addr->u, entry->ifa_addr, addr->length);
    return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&addr->u.v6.sin6_addr);
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
        if (strcmp(entry->ifa_name, name) == 0 || !leads_out(entry, &found))
            continue;
        *addr = found;
        snprintf(name, IF_NAMESIZE, "%s", entry->ifa_name);
        count++;
    }
    freeifaddrs(all);
    if (count > 0)
        return count == 1;
    snprintf(name, IF_NAMESIZE, "lo");
    return hp_local_loopback(addr, NULL) == HOOP_SUCCESS;
}

hoop_result
hp_local_address(hp_addr *addr, const hp_host_entry *own, const hp_host_entry *remote, const char *seen_from,
                 char guess[IF_NAMESIZE], hoop_error *error)
{
    static const char *const world[] = {"192.0.2.1", "2001:db8::1"}; /* addresses of documentation: no host has them */
    const char *wanted = getenv("HOOP_SOCKET_IFNAME");
    const char *name = remote->addr[0] != '\0' ? remote->addr : hp_local_bare_name(remote->name);
    char ifname[HP_HOST_ADDR + 8];
    hp_addr to;
    guess[0] = '\0';
    if (own && hp_local_ifname(own, ifname, sizeof(ifname)))
        wanted = ifname;
    if (wanted && wanted[0] != '\0')
        return hp_interface_choose(addr, wanted, NULL, NULL, NULL, 0, error);
    if (remote->addr[0] == '\0' && numeric(addr, seen_from) && is_own(addr))
        return HOOP_SUCCESS;
    if (hp_addr_find_host(&to, name, 0, NULL, HP_NEVER, NULL) == HOOP_SUCCESS && hp_addr_route(addr, &to))
        return HOOP_SUCCESS;
    for (size_t i = 0; i < sizeof(world) / sizeof(world[0]); i++)
        if (numeric(&to, world[i]) && hp_addr_route(addr, &to))
            return HOOP_SUCCESS;
    if (only_interface(addr, guess))
        return HOOP_SUCCESS;
    return hp_err_set(
        error, HOOP_ERR_SYSTEM,
        "found no address of this machine that %.60s can reach; set HOOP_SOCKET_IFNAME to the network that "
        "the hosts share, such as 10.1.0.0/16, or give %.60s an addr= in a hostfile",
        remote->name, remote->name);
}
