/* SPDX-License-Identifier: MIT */
/* addr: a host and port, IPv4 or IPv6, as text, on the wire and resolved; and the route there. */
#ifndef HP_ADDR_H
#define HP_ADDR_H

#include "hoop.h"
#include "net/loop.h"

#include <netinet/in.h>
#include <sys/socket.h>

typedef struct hp_addr {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } u;
    socklen_t length; /* 0: no address */
} hp_addr;

enum { HP_ADDR_TEXT = 72, HP_ADDR_BYTES = 19 };

/* "host:port", "10.0.0.1:4000", "[fe80::1]:4000". Resolves names, without a time limit. Errors name what is wrong. */
hoop_result hp_addr_parse(hp_addr *addr, const char *text, hoop_error *error);
/*
 * The same for all addresses of the host, HP_ADDRS_MOST at most; resolving ends with HOOP_ERR_RENDEZVOUS when hp_loop_now()
 * reaches the deadline.
 */
enum { HP_ADDRS_MOST = 4 };
typedef struct hp_addr_list {
    int n; /* 1 at least */
    hp_addr addr[HP_ADDRS_MOST];
} hp_addr_list;
hoop_result hp_addr_find_all(hp_addr_list *list, const char *text, hp_loop *loop, uint64_t deadline, hoop_error *error);
/*
 * The same for the first address, and for a text that may lack the port, or be an IPv6 address without brackets: then
 * `port` holds.
 */
hoop_result hp_addr_find_host(hp_addr *addr, const char *text, uint16_t port, hp_loop *loop, uint64_t deadline,
                              hoop_error *error);
const char *hp_addr_print(const hp_addr *addr, char out[HP_ADDR_TEXT]); /* "10.0.0.1:4000"; returns out */
const char *hp_addr_host(const hp_addr *addr, char out[HP_ADDR_TEXT]);  /* without the port */
uint16_t hp_addr_port(const hp_addr *addr);
void hp_addr_set_port(hp_addr *addr, uint16_t port);
int hp_addr_is_loopback(const hp_addr *addr);
void hp_addr_unmap(hp_addr *addr); /* ::ffff:10.0.0.1, as a socket for both families has it, becomes 10.0.0.1 */
int hp_addr_is_link_local(const hp_addr *addr);
int hp_addr_is_any(const hp_addr *addr); /* 0.0.0.0 or :: */
/* A link-local address without a scope, as on the wire, gets that of `like`, another address on the same network. */
void hp_addr_scope_as(hp_addr *addr, const hp_addr *like);
int hp_addr_same_host(const hp_addr *a, const hp_addr *b); /* same IP, any port */
int hp_addr_same(const hp_addr *a, const hp_addr *b);      /* and the same port */

/* On the wire: family 1 (4 or 6) | port 2 | 16 bytes (IPv4: the first four). Get returns 0 for an unknown family. */
void hp_addr_put(uint8_t out[HP_ADDR_BYTES], const hp_addr *addr);
int hp_addr_get(hp_addr *addr, const uint8_t in[HP_ADDR_BYTES]);

/* The local address (port 0) from which packets to `to` would leave. Returns 0 without a route. Sends nothing. */
int hp_addr_route(hp_addr *addr, const hp_addr *to);

#endif
