/* SPDX-License-Identifier: MIT */
/*
 * sock: makes sockets, and says in a sentence why one could not be made. The descriptor is the caller's. An option
 * that the kernel refuses is no error: the connection works without it.
 */
#include "net/sock.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/socket.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* since Linux 6.15 */
#endif

enum { NAMES_WARNED = 16 };

static void
set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* Whether this name is refused for the first time in this process. */
static int
first_refusal(const char *name)
{
    static char known[NAMES_WARNED][16];
    static int count;
    hp_socket_lock();
    int first = count < NAMES_WARNED;
    for (int i = 0; i < count; i++)
        if (strncmp(known[i], name, sizeof(known[i])) == 0)
            first = 0;
    if (first)
        snprintf(known[count++], sizeof(known[0]), "%.15s", name);
    hp_socket_unlock();
    return first;
}

int
hp_sock_is_near(uint32_t rtt_us)
{
    return rtt_us <= 5000;
}

/* The least round trip: that of the connection request, at the latest, which no process delays. */
void
hp_sock_set_congestion(int fd, const hp_sock_options *options)
{
    const char *name = options->congestion;
    size_t length = strnlen(name, sizeof(options->congestion));
    if (length == 0 || (options->near_only && !hp_sock_is_near(hp_tcp_path_of(fd, 1).rtt_us)) ||
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)length) == 0)
        return;
    int number = errno;
    if (first_refusal(name))
        hp_log(HP_LOG_WARN,
               "the kernel refuses congestion control \"%.15s\" (%s); going on with its default. "
               "/proc/sys/net/ipv4/tcp_allowed_congestion_control lists what this user may choose",
               name, strerror(number));
}

void
hp_sock_await_peer(int fd, uint64_t peer_timeout, const hp_keepalive *wish)
{
    static const hp_keepalive none;
    uint64_t timeout = peer_timeout ? peer_timeout : HP_PEER_TIMEOUT_MS * HP_MS;
    hp_keepalive k = hp_tcp_silence_keepalive(timeout, wish ? wish : &none);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, k.idle);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, k.interval);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, k.count);
    set(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, hp_tcp_silence_rto_max(timeout));
}

void
hp_sock_tune(int fd, const hp_sock_options *options)
{
    static const hp_sock_options defaults;
    const hp_sock_options *o = options ? options : &defaults;
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    hp_sock_await_peer(fd, o->peer_timeout, &o->keepalive);
    if (o->sndbuf > 0)
        set(fd, SOL_SOCKET, SO_SNDBUF, o->sndbuf);
    if (o->rcvbuf > 0)
        set(fd, SOL_SOCKET, SO_RCVBUF, o->rcvbuf);
}

static void
explain_bind(const hp_addr *addr, int number, hoop_error *error)
{
    char host[HP_ADDR_TEXT];
    hp_addr_host(addr, host);
    unsigned port = hp_addr_port(addr);
    hoop_result code = HOOP_ERR_INVALID_ARGUMENT;
    if (number == EADDRINUSE && port != 0)
        hp_err_set(error, code, "port %u on %s is in use by another program; choose another, or 0 for any", port, host);
    else if (number == EADDRINUSE)
        hp_err_set(error, HOOP_ERR_SYSTEM,
                   "no free port is left on %s; /proc/sys/net/ipv4/ip_local_port_range has the range", host);
    else if (number == EADDRNOTAVAIL)
        hp_err_set(error, code, "%s is not an address of this machine; \"ip addr\" lists those it has", host);
    else if (number == EACCES)
        hp_err_set(error, code, "port %u on %s is not allowed to this user; choose one above 1023, or 0 for any", port,
                   host);
    else
        hp_err_sys(error, HOOP_ERR_SYSTEM, number, "cannot use port %u on %s", port, host);
    if (error)
        error->sys_errno = number;
}

int
hp_sock_listen(const hp_addr *addr, int backlog, hoop_error *error)
{
    int fd = hp_socket_new(addr->u.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0 && errno == EAFNOSUPPORT && addr->u.any.sa_family == AF_INET6 && hp_addr_is_any(addr)) {
        hp_addr any = {.u.v4 = {.sin_family = AF_INET, .sin_port = addr->u.v6.sin6_port}, .length = sizeof(any.u.v4)};
        return hp_sock_listen(&any, backlog, error); /* a kernel without IPv6 */
    }
    if (fd < 0) {
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot make a socket to listen on");
        return -1;
    }
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (addr->u.any.sa_family == AF_INET6)
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, !hp_addr_is_any(addr));
    if (bind(fd, &addr->u.any, addr->length) == 0 && listen(fd, backlog) == 0)
        return fd;
    explain_bind(addr, errno, error);
    hp_socket_close(fd);
    return -1;
}

static const char *
hint(int number)
{
    switch (number) {
    case ECONNREFUSED: return " (nothing listens there: not started yet, already ended, or another port)";
    case ENETUNREACH:
    case EHOSTUNREACH: return " (no route: the address, HOOP_SOCKET_IFNAME or a firewall)";
    case ETIMEDOUT: return " (no answer: the host is down or a firewall drops the packets)";
    case EMFILE: return " (raise \"ulimit -n\")";
    default: return "";
    }
}

static void
explain_connect(int number, hoop_error *error)
{
    hp_err_set(error, HOOP_ERR_SYSTEM, "%s%s", strerror(number), hint(number));
    if (error)
        error->sys_errno = number;
}

int
hp_sock_connect(const hp_addr *addr, const hp_addr *from, const hp_sock_options *options, hoop_error *error)
{
    int fd = hp_socket_new(addr->u.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0) {
        explain_connect(errno, error);
        return -1;
    }
    hp_sock_tune(fd, options);
    hp_addr source = from ? *from : (hp_addr){.length = 0};
    if (source.length) { /* the address only: connect chooses the port, so that many can share the range */
        hp_addr_set_port(&source, 0);
        set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    }
    if (source.length && bind(fd, &source.u.any, source.length) != 0)
        explain_bind(&source, errno, error);
    else if (connect(fd, &addr->u.any, addr->length) == 0 || errno == EINPROGRESS || errno == EINTR)
        return fd;
    else
        explain_connect(errno, error);
    hp_socket_close(fd);
    return -1;
}

static int
get_ends(int fd, hp_addr *local, hp_addr *peer)
{
    *local = *peer = (hp_addr){.length = sizeof(local->u)};
    return getpeername(fd, &peer->u.any, &peer->length) == 0 && getsockname(fd, &local->u.any, &local->length) == 0;
}

int
hp_sock_has_one_address(int fd)
{
    hp_addr local, peer;
    return get_ends(fd, &local, &peer) && hp_addr_same_host(&local, &peer);
}

int
hp_sock_connected(int fd, hoop_error *error)
{
    int number = 0;
    socklen_t length = sizeof(number);
    hp_addr local, peer;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &length) != 0 || (number == 0 && !get_ends(fd, &local, &peer)))
        number = errno;
    else if (number == 0 && hp_addr_same(&local, &peer))
        number =
            ECONNREFUSED; /* where no process listens on a port of the ephemeral range, TCP may connect it to itself */
    if (number == 0)
        return 1;
    explain_connect(number, error);
    return -1;
}

int
hp_sock_accept(int listener, hp_addr *peer)
{
    *peer = (hp_addr){.length = sizeof(peer->u)};
    int fd = hp_socket_accept(listener, &peer->u.any, &peer->length);
    if (fd >= 0)
        hp_addr_unmap(peer);
    return fd;
}

int
hp_sock_spare(int newest)
{
    int limit = hp_limits_descriptors();
    return limit == INT_MAX ? INT_MAX : limit > newest ? limit - newest - 1 : 0;
}

hoop_result
hp_sock_name(int fd, hp_addr *local, hoop_error *error)
{
    *local = (hp_addr){.length = sizeof(local->u)};
    if (getsockname(fd, &local->u.any, &local->length) == 0)
        return HOOP_SUCCESS;
    local->length = 0;
    return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot read a socket's own address");
}

/* --- ports: two processes that try one after the other at the same time get different ones --- */

/* Reads the port at *text and moves *text behind it. Returns 0 if there is none. */
static long
read_port(const char **text)
{
    char *end;
    long port = isdigit((unsigned char)**text) ? strtol(*text, &end, 10) : 0;
    if (port < 1 || port > UINT16_MAX)
        return 0;
    *text = end;
    return port;
}

hoop_result
hp_ports_parse(hp_ports *ports, const char *text, hoop_error *error)
{
    const char *at = text;
    long first, last;
    *ports = (hp_ports){0};
    if (!*text)
        return HOOP_SUCCESS;
    first = last = read_port(&at);
    if (first && *at == '-') {
        at++;
        last = read_port(&at);
    }
    if (!first || last < first || *at)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "HOOP_PORT_RANGE=%.40s: give the first and the last port, each from 1 to 65535, such as "
                          "5800-5900",
                          text);
    *ports = (hp_ports){.first = (uint16_t)first, .last = (uint16_t)last};
    return HOOP_SUCCESS;
}

int
hp_ports_listen(const hp_ports *ports, const hp_addr *addr, int backlog, hoop_error *error)
{
    hp_addr at = *addr;
    hoop_error why;
    int number = EACCES;
    if (hp_addr_port(addr) != 0 || ports->first == 0)
        return hp_sock_listen(addr, backlog, error);
    for (int port = ports->first; port <= ports->last; port++) {
        hp_addr_set_port(&at, (uint16_t)port);
        int fd = hp_sock_listen(&at, backlog, &why);
        if (fd >= 0)
            return fd;
        if (why.sys_errno == EADDRINUSE)
            number = EADDRINUSE;
        else if (why.sys_errno != EACCES) {
            if (error)
                *error = why;
            return -1;
        }
    }
    char host[HP_ADDR_TEXT];
    int several = ports->last > ports->first;
    if (number == EACCES)
        hp_err_set(error, HOOP_ERR_SYSTEM,
                   "this user is not allowed to listen on any port of HOOP_PORT_RANGE=%u-%u: use ports above 1023",
                   ports->first, ports->last);
    else
        hp_err_set(
            error, HOOP_ERR_SYSTEM,
            "%s of HOOP_PORT_RANGE=%u-%u %s in use on %s; every process of a host takes one port, and so does the "
            "rendezvous server: give a larger range",
            several ? "all ports" : "the one port", ports->first, ports->last, several ? "are" : "is",
            hp_addr_host(addr, host));
    if (error)
        error->sys_errno = number;
    return -1;
}

/* --- probes --- */

static hp_probe_state
meaning(const hoop_error *error)
{
    switch (error->sys_errno) {
    case ECONNREFUSED: return HP_PROBE_ENDED;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN: return HP_PROBE_UNREACHED;
    default: return HP_PROBE_NONE;
    }
}

void
hp_probe_start(hp_probe *probe, const hp_addr *addr, const hp_sock_options *options)
{
    hoop_error error;
    hp_probe_stop(probe);
    hp_err_clear(&error);
    probe->fd = hp_sock_connect(addr, NULL, options, &error);
    probe->state = probe->fd < 0 ? meaning(&error) : HP_PROBE_ASKED;
}

static int
is_open(const hp_probe *probe)
{
    return probe->state == HP_PROBE_ASKED || probe->state == HP_PROBE_HELD;
}

static hp_probe_state
answer(const hp_probe *probe)
{
    hoop_error error;
    uint8_t byte;
    if (probe->state == HP_PROBE_HELD)
        return recv(probe->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0 ? HP_PROBE_HELD : HP_PROBE_ENDED;
    hp_err_clear(&error);
    if (hp_sock_connected(probe->fd, &error) <= 0)
        return meaning(&error);
    return probe->proxied ? HP_PROBE_HELD : HP_PROBE_ALIVE;
}

hp_probe_state
hp_probe_poll(hp_probe *probe)
{
    struct pollfd event = {.fd = probe->fd, .events = probe->state == HP_PROBE_HELD ? POLLIN : POLLOUT};
    if (!is_open(probe) || poll(&event, 1, 0) <= 0)
        return probe->state;
    hp_probe_state answered = answer(probe);
    if (answered != HP_PROBE_HELD)
        hp_probe_stop(probe);
    return probe->state = answered;
}

void
hp_probe_stop(hp_probe *probe)
{
    if (is_open(probe))
        hp_socket_close(probe->fd);
    probe->state = HP_PROBE_NONE;
}
