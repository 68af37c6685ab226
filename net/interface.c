/* SPDX-License-Identifier: MIT */
/* interface: see interface.h. */
#include "net/interface.h"

#include "base/err.h"
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the best to the worst. */
enum kind { ORDINARY, LINK_LOCAL, BRIDGE, LOOPBACK, DOWN };

/* HOOP_SOCKET_IFNAME, parsed as far as needed. */
struct wish {
    const char *option; /* in front of it in errors */
    int given, exclude, exact;
    const char *list; /* what follows ^ and = */
};

struct search {
    struct wish wish;
    int family;    /* the server's; 0: there is no server */
    int near;      /* the server is on loopback, so loopback is allowed */
    hp_addr route; /* the source address of the route to the server; length 0: unknown */
    const struct ifaddrs *best;
    uint32_t best_score;
};

enum { NO_MATCH = -1 };
static const uint32_t UNFIT = UINT32_MAX;

/* Adds to a list what it has room for, and one "..." for all the rest. */
__attribute__((format(printf, 4, 5))) static void
append(char *list, size_t size, const char *separator, const char *format, ...)
{
    char item[160];
    size_t n = strlen(list), gap = n ? strlen(separator) : 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(item, sizeof(item), format, arguments);
    va_end(arguments);
    if (n >= 3 && strcmp(list + n - 3, "...") == 0)
        return;
    int fits = n + gap + strlen(item) + strlen(separator) + sizeof("...") <= size;
    snprintf(list + n, size - n, "%.*s%s", (int)gap, separator, fits ? item : "...");
}

int
hp_interface_addr(hp_addr *addr, const struct ifaddrs *entry)
{
    if (!entry->ifa_addr)
        return 0;
    int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6)
        return 0;
    *addr = (hp_addr){.length = family == AF_INET ? sizeof(addr->u.v4) : sizeof(addr->u.v6)};
    memcpy(&addr->u, entry->ifa_addr, addr->length);
    hp_addr_set_port(addr, 0);
    return 1;
}

static int
starts(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static enum kind
kind_of(const struct ifaddrs *entry, const hp_addr *addr)
{
    const char *name = entry->ifa_name;
    if (!(entry->ifa_flags & IFF_UP) || !(entry->ifa_flags & IFF_RUNNING))
        return DOWN;
    if (hp_addr_is_loopback(addr))
        return LOOPBACK;
    if (starts(name, "docker") || starts(name, "br-") || starts(name, "virbr") || starts(name, "veth"))
        return BRIDGE;
    if (hp_addr_is_link_local(addr))
        return LINK_LOCAL;
    return ORDINARY;
}

/* Whether the address is in "10.0.0.0/8", "fd00::/8" or is the item itself: 1 or 0; -1: the item is none of these. */
static int
in_subnet(const hp_addr *addr, const char *item, size_t length)
{
    char text[INET6_ADDRSTRLEN + 4];
    uint8_t net[16];
    if (length >= sizeof(text))
        return -1;
    memcpy(text, item, length);
    text[length] = '\0';
    char *slash = strchr(text, '/'), *end = text;
    if (slash)
        *slash = '\0';
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;
    unsigned long bits = family == AF_INET6 ? 128 : 32, most = bits;
    if (inet_pton(family, text, net) != 1)
        return -1;
    if (slash)
        bits = strtoul(slash + 1, &end, 10);
    if (slash && (slash[1] < '0' || slash[1] > '9' || *end != '\0' || bits > most))
        return -1;
    if (!addr || addr->u.any.sa_family != family)
        return 0;
    const uint8_t *host = family == AF_INET6 ? addr->u.v6.sin6_addr.s6_addr : (const uint8_t *)&addr->u.v4.sin_addr;
    unsigned whole = (unsigned)bits / 8, rest = (unsigned)bits % 8;
    uint8_t mask = (uint8_t)(0xFF00U >> rest);
    return memcmp(net, host, whole) == 0 && (rest == 0 || ((net[whole] ^ host[whole]) & mask) == 0);
}

/* The index of the first item of the list that fits, or NO_MATCH. */
static int
list_fits(const struct wish *wish, const struct ifaddrs *entry, const hp_addr *addr)
{
    int place = 0;
    for (const char *item = wish->list; *item; place++) {
        size_t length = strcspn(item, ",");
        int fits = length ? in_subnet(addr, item, length) : 0;
        if (fits < 0)
            fits = strncmp(entry->ifa_name, item, length) == 0 && (!wish->exact || entry->ifa_name[length] == '\0');
        if (fits)
            return place;
        item += length + (item[length] == ',');
    }
    return NO_MATCH;
}

static hoop_result
read_wish(struct wish *wish, const char *option, const char *wanted, hoop_error *error)
{
    *wish = (struct wish){.option = option, .given = wanted && *wanted, .list = wanted ? wanted : ""};
    wish->exclude = *wish->list == '^';
    wish->list += wish->exclude;
    wish->exact = *wish->list == '=';
    wish->list += wish->exact;
    for (const char *item = wish->list; *item;) {
        size_t length = strcspn(item, ",");
        int wrong = memchr(item, '/', length) && in_subnet(NULL, item, length) < 0;
        if (wrong || *item == '^' || *item == '=')
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                              "%s%.80s: \"%.*s\" is neither an interface name nor a network. Write "
                              "eth,ib or =eth0 or ^docker,lo or 10.0.0.0/8; write ^ and = once, in front",
                              option, wanted, (int)(length < 40 ? length : 40), item);
        item += length + (item[length] == ',');
    }
    return HOOP_SUCCESS;
}

/* A lower score is better: first the list's order, then the server's family, the route to it, the kind of interface. */
static uint32_t
score(const struct search *s, const struct ifaddrs *entry, const hp_addr *addr)
{
    int place = s->wish.given ? list_fits(&s->wish, entry, addr) : 0;
    int routed = hp_addr_same_host(addr, &s->route);
    enum kind kind = kind_of(entry, addr);
    if (s->wish.exclude)
        place = place == NO_MATCH ? 0 : NO_MATCH;
    int asked_for = s->wish.given && !s->wish.exclude;
    if (kind == DOWN || place == NO_MATCH || (kind == LOOPBACK && !s->near && !asked_for))
        return UNFIT;
    uint32_t foreign = s->family && addr->u.any.sa_family != s->family;
    return (uint32_t)place << 8 | foreign << 5 | (uint32_t)!routed << 4 | kind;
}

static const char *
objection(const struct search *s, const struct ifaddrs *entry, const hp_addr *addr)
{
    enum kind kind = kind_of(entry, addr);
    int listed = s->wish.given && list_fits(&s->wish, entry, addr) != NO_MATCH;
    if (s->wish.exclude && listed)
        return "excluded by HOOP_SOCKET_IFNAME";
    if (s->wish.given && !s->wish.exclude && !listed)
        return "not in HOOP_SOCKET_IFNAME";
    switch (kind) {
    case DOWN: return "down";
    case LOOPBACK: return "loopback";
    case BRIDGE:
        return starts(entry->ifa_name, "veth")    ? "virtual cable"
               : starts(entry->ifa_name, "virbr") ? "virtual bridge"
                                                  : "docker bridge";
    case LINK_LOCAL: return "link-local";
    case ORDINARY: break;
    }
    return s->route.length ? "not on the route to the server" : "second choice";
}

/* The interfaces but for the chosen one, each with what speaks against it, or only with its state; the best first. */
static void
describe(const struct search *s, const struct ifaddrs *all, int with_objections, char *out, size_t size)
{
    hp_addr addr;
    char host[HP_ADDR_TEXT];
    out[0] = '\0';
    for (enum kind kind = ORDINARY; kind <= DOWN; kind++)
        for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
            if (entry == s->best || !hp_interface_addr(&addr, entry) || kind_of(entry, &addr) != kind)
                continue;
            if (with_objections)
                append(out, size, "; ", "%s (%s): %s", entry->ifa_name, hp_addr_host(&addr, host),
                       objection(s, entry, &addr));
            else
                append(out, size, ", ", "%s (%s)%s", entry->ifa_name, hp_addr_host(&addr, host),
                       kind == DOWN ? " down" : "");
        }
}

static hoop_result
nothing_fits(const struct search *s, const struct ifaddrs *all, const char *wanted, hoop_error *error)
{
    char list[140]; /* a sentence has room for it */
    describe(s, all, 0, list, sizeof(list));
    if (s->wish.given)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s%.50s leaves no interface; this machine has %s",
                          s->wish.option, wanted, list[0] ? list : "none");
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "no interface leads to the server; this machine has %s. HOOP_SOCKET_IFNAME names one",
                      list[0] ? list : "none");
}

/* Returns 0, or -1 with errno. The C library opens a socket for this. */
static int
list_all(struct ifaddrs **all)
{
    *all = NULL;
    hp_socket_lock();
    int failed = getifaddrs(all);
    hp_socket_unlock();
    return failed;
}

static hoop_result
choose_interface(const char *option, hp_addr *addr, const char *wanted, const hp_addr *server, char name[32], char *why,
                 size_t why_size, hoop_error *error)
{
    struct search s = {.best_score = UNFIT};
    hp_addr home = {.u.v4 = {.sin_family = AF_INET}, .length = sizeof(home.u.v4)};
    home.u.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(addr, 0, sizeof(*addr));
    hoop_result result = read_wish(&s.wish, option, wanted, error);
    if (result != HOOP_SUCCESS)
        return result;
    const hp_addr *to = server ? server : s.wish.given ? NULL : &home;
    if (to) {
        s.family = to->u.any.sa_family;
        s.near = hp_addr_is_loopback(to);
        hp_addr_route(&s.route, to);
    }
    struct ifaddrs *all;
    if (list_all(&all) != 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot list this machine's network interfaces");
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
        hp_addr one;
        uint32_t its = hp_interface_addr(&one, entry) ? score(&s, entry, &one) : UNFIT;
        if (its < s.best_score) {
            s.best = entry;
            s.best_score = its;
        }
    }
    if (why && why_size > 0)
        describe(&s, all, 1, why, why_size);
    if (s.best) {
        hp_interface_addr(addr, s.best);
        if (name)
            snprintf(name, 32, "%s", s.best->ifa_name);
    } else {
        result = nothing_fits(&s, all, wanted, error);
    }
    freeifaddrs(all);
    return result;
}

hoop_result
hp_interface_choose(hp_addr *addr, const char *wanted, const hp_addr *server, char name[32], char *why, size_t why_size,
                    hoop_error *error)
{
    return choose_interface("HOOP_SOCKET_IFNAME=", addr, wanted, server, name, why, why_size, error);
}

hoop_result
hp_interface_choose_as(const char *option, hp_addr *addr, const char *wanted, hoop_error *error)
{
    return choose_interface(option, addr, wanted, NULL, NULL, NULL, 0, error);
}

/* --- other addresses --- */

enum { FACTS = 128 };

/* The lower, the better; UNFIT: for no other machine. */
static uint32_t
distance(const hp_interface_fact *fact)
{
    const hp_addr *a = &fact->addr;
    int local4 = a->u.any.sa_family == AF_INET && ntohl(a->u.v4.sin_addr.s_addr) >> 16 == 0xA9FE; /* 169.254.0.0/16 */
    if (fact->down || local4 || hp_addr_is_loopback(a) || hp_addr_is_link_local(a))
        return UNFIT;
    return fact->bridge ? 3 : fact->tunnel ? 2 : fact->wireless ? 1 : 0;
}

/* Whether an earlier one of its interface and family, or the chosen address, stands for it. */
static int
is_covered(const hp_addr *chosen, const hp_interface_fact *fact, int n, int i)
{
    for (int k = 0; k < n; k++)
        if (((k < i && distance(&fact[k]) != UNFIT) || hp_addr_same_host(&fact[k].addr, chosen)) &&
            fact[k].addr.u.any.sa_family == fact[i].addr.u.any.sa_family && strcmp(fact[k].name, fact[i].name) == 0)
            return 1;
    return 0;
}

int
hp_interface_order(hp_addr other[HP_OTHERS], const hp_addr *chosen, const hp_interface_fact *fact, int n)
{
    int count = 0;
    if (hp_addr_is_loopback(chosen))
        return 0;
    for (uint32_t wanted = 0; wanted <= 3; wanted++)
        for (int i = 0; i < n && count < HP_OTHERS; i++)
            if (distance(&fact[i]) == wanted && !is_covered(chosen, fact, n, i))
                other[count++] = fact[i].addr;
    return count;
}

static int
has_part(const char *name, const char *part)
{
    char path[96];
    snprintf(path, sizeof(path), "/sys/class/net/%.31s/%s", name, part);
    return access(path, F_OK) == 0;
}

int
hp_interface_others(hp_addr other[HP_OTHERS], const hp_addr *chosen)
{
    hp_interface_fact fact[FACTS];
    struct ifaddrs *all;
    int n = 0;
    if (hp_addr_is_loopback(chosen) || list_all(&all) != 0) /* hp_interface_order would leave none */
        return 0;
    for (const struct ifaddrs *entry = all; entry && n < FACTS; entry = entry->ifa_next) {
        hp_interface_fact *f = &fact[n];
        if (!hp_interface_addr(&f->addr, entry))
            continue;
        enum kind kind = kind_of(entry, &f->addr);
        snprintf(f->name, sizeof(f->name), "%s", entry->ifa_name);
        f->down = kind == DOWN;
        f->bridge = kind == BRIDGE || has_part(f->name, "bridge");
        f->wireless = has_part(f->name, "wireless") || has_part(f->name, "phy80211");
        f->tunnel = (entry->ifa_flags & IFF_POINTOPOINT) != 0;
        n++;
    }
    freeifaddrs(all);
    return hp_interface_order(other, chosen, fact, n);
}
