/* SPDX-License-Identifier: MIT */
/*
 * addr: see addr.h. Names are resolved while a communicator is made only. This file opens no connection; it learns a route
 * by connecting a datagram socket, which sends nothing.
 */
#include "net/addr.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/wire.h"
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names of hosts --- */

/*
 * getaddrinfo may take half a minute if the name service is dead, and it cannot be cancelled; so it runs in a thread of its
 * own, which is abandoned when the time is up. Not getaddrinfo_a: it cannot be cancelled either, and after a fork its
 * threads are gone while its bookkeeping is not. Not libevent's resolver: it asks DNS only, and ignores nsswitch.conf. The
 * waiting thread owns the lookup until it gives up; then the resolving thread does.
 */
enum { LOOKUP_LATE = 1 }; /* next to getaddrinfo's own codes, which are negative */

typedef struct lookup {
    pthread_mutex_t mutex;
    pthread_cond_t over;
    char *host;
    int done, abandoned;
    int reason, number; /* number: errno */
    struct addrinfo *found;
} lookup;

static int
resolve(const char *host, int flags, struct addrinfo **found)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    *found = NULL;
    return getaddrinfo(host, NULL, &hints, found);
}

static void
discard(lookup *l)
{
    if (l->found)
        freeaddrinfo(l->found);
    pthread_mutex_destroy(&l->mutex);
    pthread_cond_destroy(&l->over);
    free(l->host);
    free(l);
}

static void *
run(void *arg)
{
    lookup *l = arg;
    struct addrinfo *found;
    int reason = resolve(l->host, 0, &found), number = errno;
    pthread_mutex_lock(&l->mutex);
    l->found = found;
    l->reason = reason;
    l->number = number;
    l->done = 1;
    int abandoned = l->abandoned;
    pthread_cond_signal(&l->over);
    pthread_mutex_unlock(&l->mutex);
    if (abandoned)
        discard(l);
    return NULL;
}

/* 1: the answer is there; 0: the time is up, or the call is off, and the resolving thread owns the lookup. */
static int
await(lookup *l, hp_loop *loop, uint64_t deadline)
{
    int off = 0;
    pthread_mutex_lock(&l->mutex);
    while (!l->done && !off && hp_loop_now(loop) < deadline) {
        hp_thread_wait(&l->over, &l->mutex, hp_now() + HP_INTERRUPT_MS * HP_MS);
        pthread_mutex_unlock(&l->mutex);
        off = hp_interrupt_asks();
        pthread_mutex_lock(&l->mutex);
    }
    int done = l->done;
    l->abandoned = !done;
    pthread_mutex_unlock(&l->mutex);
    return done;
}

/*
 * Returns 0, and the caller frees the result; or EAI_* (EAI_SYSTEM: errno); or LOOKUP_LATE: hp_loop_now() has reached the
 * deadline. A numeric address needs no thread, nor does a lookup without a loop, which has no deadline.
 */
static int
look_up(const char *host, hp_loop *loop, uint64_t deadline, struct addrinfo **found)
{
    pthread_t thread;
    hp_socket_lock(); /* for the interface of an address it opens a socket */
    int numeric = resolve(host, AI_NUMERICHOST, found);
    hp_socket_unlock();
    if (numeric != EAI_NONAME)
        return numeric; /* an address; or, as for want of memory, not even known to be a name */
    if (!loop)
        return resolve(host, 0, found);
    lookup *l = hp_alloc(1, sizeof(*l));
    if (!l)
        return EAI_MEMORY;
    pthread_mutex_init(&l->mutex, NULL);
    hp_thread_cond_init(&l->over);
    l->host = strdup(host);
    if (!l->host) {
        discard(l);
        return EAI_MEMORY;
    }
    int number = hp_thread_start(&thread, run, l) ? 0 : errno;
    if (number == 0 && !await(l, loop, deadline)) {
        pthread_detach(thread);
        hp_thread_pin();
        return LOOKUP_LATE;
    }
    if (number == 0)
        pthread_join(thread, NULL);
    int reason = number ? EAI_SYSTEM : l->reason;
    int kept = number ? number : l->number;
    *found = l->found;
    l->found = NULL;
    discard(l);
    errno = kept;
    return reason;
}

/* --- text --- */

enum { HOST_TEXT = 256, PORT_MAX = 65535, DISCARD_PORT = 9 };

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
    case LOOKUP_LATE:
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
    *addr = (hp_addr){.length = length};
    memcpy(&addr->u, any, length);
}

/* Those that are of loopback, or are not, and of this family if it is given. */
static void
add_addresses(hp_addr_list *list, const struct addrinfo *found, int loopback, int family)
{
    for (const struct addrinfo *one = found; one && list->n < HP_ADDRS_MOST; one = one->ai_next) {
        hp_addr *next = &list->addr[list->n];
        from_sockaddr(next, one->ai_addr, one->ai_addrlen);
        list->n += hp_addr_is_loopback(next) == loopback && (family == AF_UNSPEC || family == one->ai_family);
    }
}

hoop_result
hp_addr_find_all(hp_addr_list *list, const char *text, hp_loop *loop, uint64_t deadline, hoop_error *error)
{
    char host[HOST_TEXT];
    unsigned long port;
    struct addrinfo *found = NULL;
    *list = (hp_addr_list){.n = 0};
    const char *wrong = split(text, host, &port);
    if (wrong)
        return bad_text(text, wrong, error);
    int reason = look_up(host, loop, deadline, &found);
    if (reason != 0)
        return bad_host(host, reason, error);
    /*
     * Those that lead elsewhere, if there are any: many hosts have their own name for a loopback address as well. Of loopback
     * addresses the one of IPv4 first: at that servers listen if nobody says where.
     */
    add_addresses(list, found, 0, AF_UNSPEC);
    if (list->n == 0) {
        add_addresses(list, found, 1, AF_INET);
        add_addresses(list, found, 1, AF_INET6);
    }
    freeaddrinfo(found);
    for (int i = 0; i < list->n; i++)
        hp_addr_set_port(&list->addr[i], (uint16_t)port);
    return HOOP_SUCCESS;
}

static hoop_result
find_first(hp_addr *addr, const char *text, hp_loop *loop, uint64_t deadline, hoop_error *error)
{
    hp_addr_list list;
    hoop_result result = hp_addr_find_all(&list, text, loop, deadline, error);
    *addr = list.addr[0];
    return result;
}

hoop_result
hp_addr_parse(hp_addr *addr, const char *text, hoop_error *error)
{
    return find_first(addr, text, NULL, HP_NEVER, error);
}

hoop_result
hp_addr_find_host(hp_addr *addr, const char *text, uint16_t port, hp_loop *loop, uint64_t deadline, hoop_error *error)
{
    char whole[HOST_TEXT + 16];
    const char *first = strchr(text, ':');
    int bracket = text[0] == '[', bare = first && strchr(first + 1, ':') && !bracket;
    if (bracket ? strstr(text, "]:") != NULL : first && !bare)
        return find_first(addr, text, loop, deadline, error);
    if (strlen(text) >= HOST_TEXT)
        return bad_text(text, "the host name is too long", error);
    snprintf(whole, sizeof(whole), bare ? "[%s]:%u" : "%s:%u", text, port);
    return find_first(addr, whole, loop, deadline, error);
}

const char *
hp_addr_host(const hp_addr *addr, char out[HP_ADDR_TEXT])
{
    snprintf(out, HP_ADDR_TEXT, "no address");
    if (addr->length && addr->u.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &addr->u.v4.sin_addr, out, HP_ADDR_TEXT);
    } else if (addr->length && addr->u.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &addr->u.v6.sin6_addr, out, HP_ADDR_TEXT);
        char interface[IF_NAMESIZE];
        size_t n = strlen(out);
        if (!addr->u.v6.sin6_scope_id)
            return out;
        hp_socket_lock();
        const char *name = if_indextoname(addr->u.v6.sin6_scope_id, interface);
        hp_socket_unlock();
        if (name)
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

void
hp_addr_unmap(hp_addr *addr)
{
    if (addr->u.any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&addr->u.v6.sin6_addr))
        return;
    hp_addr v4 = {.u.v4 = {.sin_family = AF_INET, .sin_port = addr->u.v6.sin6_port}, .length = sizeof(v4.u.v4)};
    memcpy(&v4.u.v4.sin_addr, addr->u.v6.sin6_addr.s6_addr + 12, sizeof(v4.u.v4.sin_addr));
    *addr = v4;
}

int
hp_addr_is_any(const hp_addr *addr)
{
    if (addr->u.any.sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&addr->u.v6.sin6_addr);
    return addr->u.v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

int
hp_addr_is_link_local(const hp_addr *addr)
{
    return addr->u.any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->u.v6.sin6_addr);
}

void
hp_addr_scope_as(hp_addr *addr, const hp_addr *like)
{
    if (hp_addr_is_link_local(addr) && !addr->u.v6.sin6_scope_id && like->u.any.sa_family == AF_INET6)
        addr->u.v6.sin6_scope_id = like->u.v6.sin6_scope_id;
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

int
hp_addr_same(const hp_addr *a, const hp_addr *b)
{
    return hp_addr_same_host(a, b) && hp_addr_port(a) == hp_addr_port(b);
}

/* --- routes --- */

int
hp_addr_route(hp_addr *addr, const hp_addr *to)
{
    memset(addr, 0, sizeof(*addr));
    hp_addr target = *to, source = {.length = sizeof(source.u)};
    if (hp_addr_port(&target) == 0)
        hp_addr_set_port(&target, DISCARD_PORT);
    int fd = hp_socket_new(target.u.any.sa_family, SOCK_DGRAM, 0);
    if (fd < 0)
        return 0;
    if (connect(fd, &target.u.any, target.length) == 0 && getsockname(fd, &source.u.any, &source.length) == 0)
        *addr = source;
    hp_socket_close(fd);
    hp_addr_set_port(addr, 0);
    return addr->length != 0;
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
