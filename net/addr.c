/* SPDX-License-Identifier: MIT */
/*
 * addr: see addr.h. lookup.c resolves names, while a communicator is made only. This file opens no connection; it
 * learns the route to the server by connecting a datagram socket, which sends nothing.
 */
#include "net/addr.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/wire.h"
#include "net/lookup.h"
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_TEXT = 256, PORT_MAX = 65535, DISCARD_PORT = 9 };

/* --- text --- */

static hoop_result
bad_text(const char *text, const char *what, hoop_error *error)
{
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "\"%.80s\" is not an address: %s. Write host:port, 10.0.0.1:4000 or [fd00::1]:4000", text, what);
}

/* Splits the text into host and port. Returns what is wrong with it, or NULL. */
static const char *
split(const char *text, char host[HOST_TEXT], unsigned long *port)
{
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    if (text[0] == '[') {
        begin = text + 1;
        end = strchr(text, ']');
        if (!end)
            return "the ] is missing";
        if (end[1] != ':')
            return "the port is missing";
        colon = end + 1;
    } else if (!colon) {
        return "the port is missing";
    } else if (strchr(text, ':') != colon) {
        return "an IPv6 address needs brackets around it and a port";
    }
    size_t length = (size_t)(end - begin), digits = strspn(colon + 1, "0123456789");
    if (length == 0)
        return "the host is missing";
    if (length >= HOST_TEXT)
        return "the host name is too long";
    if (digits == 0 || digits > 5 || colon[1 + digits] != '\0')
        return "the port is not a number";
    *port = strtoul(colon + 1, NULL, 10);
    if (*port > PORT_MAX)
        return "the port is above 65535";
    memcpy(host, begin, length);
    host[length] = '\0';
    return NULL;
}

static hoop_result
bad_host(const char *host, int reason, hoop_error *error)
{
    hoop_result code = HOOP_ERR_INVALID_ARGUMENT;
    switch (reason) {
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY: return hp_err_set(error, code, "%s: no such host (check the name and DNS)", host);
    case EAI_AGAIN:
        return hp_err_set(error, code, "%s: the name service does not answer (try again, or write the numeric address)",
                          host);
    case HP_LOOKUP_LATE:
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "%.100s: looking up the host took too long (does \"getent hosts %.60s\" answer here? check "
                          "/etc/resolv.conf, or write the numeric address)",
                          host, host);
    case EAI_MEMORY: return hp_err_set(error, HOOP_ERR_NO_MEMORY, "%s: out of memory while looking up the host", host);
    case EAI_SYSTEM: return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "%s: looking up the host failed", host);
    default: return hp_err_set(error, code, "%s: %s (check the name and DNS)", host, gai_strerror(reason));
    }
}

static void
from_sockaddr(hp_addr *addr, const struct sockaddr *any, socklen_t length)
{
    memset(addr, 0, sizeof(*addr));
    memcpy(&addr->u, any, length);
    addr->length = length;
}

hoop_result
hp_addr_find(hp_addr *addr, const char *text, hp_loop *loop, uint64_t deadline, hoop_error *error)
{
    char host[HOST_TEXT];
    unsigned long port;
    struct addrinfo *found = NULL;
    memset(addr, 0, sizeof(*addr));
    const char *wrong = split(text, host, &port);
    if (wrong)
        return bad_text(text, wrong, error);
    int reason = hp_lookup(host, loop, deadline, &found);
    if (reason != 0)
        return bad_host(host, reason, error);
    from_sockaddr(addr, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    hp_addr_set_port(addr, (uint16_t)port);
    return HOOP_SUCCESS;
}

hoop_result
hp_addr_parse(hp_addr *addr, const char *text, hoop_error *error)
{
    return hp_addr_find(addr, text, NULL, HP_NEVER, error);
}

/* The name of an interface, or "". */
static void
name_of(unsigned interface, char name[IF_NAMESIZE])
{
    name[0] = '\0';
    hp_socket_lock();
    if_indextoname(interface, name);
    hp_socket_unlock();
}

const char *
hp_addr_host(const hp_addr *addr, char out[HP_ADDR_TEXT])
{
    char name[IF_NAMESIZE] = "";
    snprintf(out, HP_ADDR_TEXT, "no address");
    if (addr->length && addr->u.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &addr->u.v4.sin_addr, out, HP_ADDR_TEXT);
    } else if (addr->length && addr->u.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &addr->u.v6.sin6_addr, out, HP_ADDR_TEXT);
        size_t n = strlen(out);
        if (addr->u.v6.sin6_scope_id)
            name_of(addr->u.v6.sin6_scope_id, name);
        if (*name)
            snprintf(out + n, HP_ADDR_TEXT - n, "%%%s", name);
    }
    return out;
}

const char *
hp_addr_print(const hp_addr *addr, char out[HP_ADDR_TEXT])
{
    char host[HP_ADDR_TEXT];
    hp_addr_host(addr, host);
    if (addr->length == 0)
        snprintf(out, HP_ADDR_TEXT, "%s", host);
    else if (addr->u.any.sa_family == AF_INET6)
        snprintf(out, HP_ADDR_TEXT, "[%.62s]:%u", host, hp_addr_port(addr));
    else
        snprintf(out, HP_ADDR_TEXT, "%.62s:%u", host, hp_addr_port(addr));
    return out;
}

/* --- parts --- */

uint16_t
hp_addr_port(const hp_addr *addr)
{
    if (addr->length == 0)
        return 0;
    return ntohs(addr->u.any.sa_family == AF_INET6 ? addr->u.v6.sin6_port : addr->u.v4.sin_port);
}

void
hp_addr_set_port(hp_addr *addr, uint16_t port)
{
    if (addr->u.any.sa_family == AF_INET6)
        addr->u.v6.sin6_port = htons(port);
    else
        addr->u.v4.sin_port = htons(port);
}

int
hp_addr_is_loopback(const hp_addr *addr)
{
    if (addr->length == 0)
        return 0;
    if (addr->u.any.sa_family == AF_INET)
        return ntohl(addr->u.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    const struct in6_addr *v6 = &addr->u.v6.sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET);
}

int
hp_addr_same_host(const hp_addr *a, const hp_addr *b)
{
    if (a->length == 0 || b->length == 0 || a->u.any.sa_family != b->u.any.sa_family)
        return 0;
    if (a->u.any.sa_family == AF_INET)
        return a->u.v4.sin_addr.s_addr == b->u.v4.sin_addr.s_addr;
    if (a->u.any.sa_family != AF_INET6)
        return 0;
    uint32_t sa = a->u.v6.sin6_scope_id, sb = b->u.v6.sin6_scope_id;
    return IN6_ARE_ADDR_EQUAL(&a->u.v6.sin6_addr, &b->u.v6.sin6_addr) && (sa == sb || !sa || !sb);
}

/* --- wire format --- */

void
hp_addr_put(uint8_t out[HP_ADDR_BYTES], const hp_addr *addr)
{
    memset(out, 0, HP_ADDR_BYTES);
    if (addr->length == 0)
        return;
    int v6 = addr->u.any.sa_family == AF_INET6;
    out[0] = v6 ? 6 : 4;
    hp_put16(out + 1, hp_addr_port(addr));
    if (v6)
        memcpy(out + 3, &addr->u.v6.sin6_addr, 16);
    else
        memcpy(out + 3, &addr->u.v4.sin_addr, 4);
}

int
hp_addr_get(hp_addr *addr, const uint8_t in[HP_ADDR_BYTES])
{
    memset(addr, 0, sizeof(*addr));
    if (in[0] == 4) {
        addr->u.v4.sin_family = AF_INET;
        memcpy(&addr->u.v4.sin_addr, in + 3, 4);
        addr->length = sizeof(addr->u.v4);
    } else if (in[0] == 6) {
        addr->u.v6.sin6_family = AF_INET6;
        memcpy(&addr->u.v6.sin6_addr, in + 3, 16);
        addr->length = sizeof(addr->u.v6);
    } else {
        return 0;
    }
    hp_addr_set_port(addr, hp_get16(in + 1));
    return 1;
}

/* --- choice of the interface --- */

/* From the best to the worst. */
enum kind { ORDINARY, LINK_LOCAL, BRIDGE, LOOPBACK, DOWN };

/* HOOP_SOCKET_IFNAME, parsed as far as needed. */
struct wish {
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

__attribute__((format(printf, 3, 4))) static void
append(char *out, size_t size, const char *format, ...)
{
    size_t n = out && size ? strnlen(out, size) : 0;
    if (n + 1 >= size)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + n, size - n, format, arguments);
    va_end(arguments);
}

static int
usable(const struct ifaddrs *entry, hp_addr *addr)
{
    if (!entry->ifa_addr)
        return 0;
    int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6)
        return 0;
    from_sockaddr(addr, entry->ifa_addr, family == AF_INET ? sizeof(addr->u.v4) : sizeof(addr->u.v6));
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
    if (addr->u.any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->u.v6.sin6_addr))
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

static int
item_fits(const struct ifaddrs *entry, const hp_addr *addr, const char *item, size_t length, int exact)
{
    int subnet = in_subnet(addr, item, length);
    if (subnet >= 0)
        return subnet;
    if (strncmp(entry->ifa_name, item, length) != 0)
        return 0;
    return !exact || entry->ifa_name[length] == '\0';
}

/* The index of the first item of the list that fits, or NO_MATCH. */
static int
list_fits(const struct wish *wish, const struct ifaddrs *entry, const hp_addr *addr)
{
    int place = 0;
    for (const char *item = wish->list; *item; place++) {
        size_t length = strcspn(item, ",");
        if (length && item_fits(entry, addr, item, length, wish->exact))
            return place;
        item += length + (item[length] == ',');
    }
    return NO_MATCH;
}

static hoop_result
read_wish(struct wish *wish, const char *wanted, hoop_error *error)
{
    *wish = (struct wish){.given = wanted && *wanted, .list = wanted ? wanted : ""};
    wish->exclude = *wish->list == '^';
    wish->list += wish->exclude;
    wish->exact = *wish->list == '=';
    wish->list += wish->exact;
    for (const char *item = wish->list; *item;) {
        size_t length = strcspn(item, ",");
        int wrong = memchr(item, '/', length) && in_subnet(NULL, item, length) < 0;
        if (wrong || *item == '^' || *item == '=')
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                              "HOOP_SOCKET_IFNAME=%.80s: \"%.*s\" is neither an interface name nor a network. Write "
                              "eth,ib or =eth0 or ^docker,lo or 10.0.0.0/8; write ^ and = once, in front",
                              wanted, (int)(length < 40 ? length : 40), item);
        item += length + (item[length] == ',');
    }
    return HOOP_SUCCESS;
}

static void
ask_route(const hp_addr *server, hp_addr *route)
{
    memset(route, 0, sizeof(*route));
    hp_addr to = *server;
    if (hp_addr_port(&to) == 0)
        hp_addr_set_port(&to, DISCARD_PORT);
    int fd = hp_socket_new(to.u.any.sa_family, SOCK_DGRAM, 0);
    if (fd < 0)
        return;
    socklen_t length = sizeof(route->u);
    if (connect(fd, &to.u.any, to.length) == 0 && getsockname(fd, &route->u.any, &length) == 0)
        route->length = length;
    hp_socket_close(fd);
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

static void
explain(const struct search *s, const struct ifaddrs *all, char *why, size_t size)
{
    hp_addr addr;
    char host[HP_ADDR_TEXT];
    if (!why || size == 0)
        return;
    why[0] = '\0';
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next)
        if (entry != s->best && usable(entry, &addr))
            append(why, size, "%s%s (%s): %s", why[0] ? "; " : "", entry->ifa_name, hp_addr_host(&addr, host),
                   objection(s, entry, &addr));
}

static hoop_result
nothing_fits(const struct search *s, const struct ifaddrs *all, const char *wanted, hoop_error *error)
{
    hp_addr addr;
    char host[HP_ADDR_TEXT], list[160] = "";
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next)
        if (usable(entry, &addr))
            append(list, sizeof(list), "%s%s (%s)%s", list[0] ? ", " : "", entry->ifa_name, hp_addr_host(&addr, host),
                   kind_of(entry, &addr) == DOWN ? " down" : "");
    if (s->wish.given)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "HOOP_SOCKET_IFNAME=%.60s leaves no interface; this machine has %s", wanted,
                          list[0] ? list : "none");
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "no interface leads to the server; this machine has %s. HOOP_SOCKET_IFNAME names one",
                      list[0] ? list : "none");
}

static void
choose(struct search *s, const struct ifaddrs *all)
{
    hp_addr addr;
    s->best_score = UNFIT;
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
        uint32_t its = usable(entry, &addr) ? score(s, entry, &addr) : UNFIT;
        if (its < s->best_score) {
            s->best = entry;
            s->best_score = its;
        }
    }
}

hoop_result
hp_addr_local(hp_addr *addr, const char *wanted, const hp_addr *server, char name[32], char *why, size_t why_size,
              hoop_error *error)
{
    struct search s = {.best = NULL};
    hp_addr home = {.u.v4 = {.sin_family = AF_INET}, .length = sizeof(home.u.v4)};
    home.u.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(addr, 0, sizeof(*addr));
    hoop_result result = read_wish(&s.wish, wanted, error);
    if (result != HOOP_SUCCESS)
        return result;
    const hp_addr *to = server ? server : s.wish.given ? NULL : &home;
    if (to) {
        s.family = to->u.any.sa_family;
        s.near = hp_addr_is_loopback(to);
        ask_route(to, &s.route);
    }
    struct ifaddrs *all = NULL;
    hp_socket_lock();
    int failed = getifaddrs(&all);
    hp_socket_unlock();
    if (failed)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot list this machine's network interfaces");
    choose(&s, all);
    explain(&s, all, why, why_size);
    if (s.best) {
        usable(s.best, addr);
        if (name)
            snprintf(name, 32, "%s", s.best->ifa_name);
    } else {
        result = nothing_fits(&s, all, wanted, error);
    }
    freeifaddrs(all);
    return result;
}
