/* SPDX-License-Identifier: MIT */
/* addr: a host and port, numeric or resolved; IPv4 and IPv6; which interface to use. */
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

/* "host:port", "10.0.0.1:4000", "[fe80::1]:4000". Names are looked up, for as long as that takes. Errors say what was
 * wrong. */
hoop_result hp_addr_parse(hp_addr *addr, const char *text, hoop_error *error);
/* Likewise, but a lookup ends with HOOP_ERR_RENDEZVOUS when hp_loop_now() comes to the deadline. */
hoop_result hp_addr_find(hp_addr *addr, const char *text, hp_loop *loop, uint64_t deadline, hoop_error *error);
const char *hp_addr_print(const hp_addr *addr, char out[HP_ADDR_TEXT]); /* "10.0.0.1:4000"; returns out */
const char *hp_addr_host(const hp_addr *addr, char out[HP_ADDR_TEXT]);  /* without the port */
uint16_t hp_addr_port(const hp_addr *addr);
void hp_addr_set_port(hp_addr *addr, uint16_t port);
int hp_addr_is_loopback(const hp_addr *addr);
int hp_addr_same_host(const hp_addr *a, const hp_addr *b); /* same IP, any port */

/* Wire form: family 1 (4 or 6) | port 2 | 16 bytes (v4: first four). Get returns 0 on an unknown family. */
void hp_addr_put(uint8_t out[HP_ADDR_BYTES], const hp_addr *addr);
int hp_addr_get(hp_addr *addr, const uint8_t in[HP_ADDR_BYTES]);

/*
 * The local address (port 0) for the data listener. `wanted` is HOOP_SOCKET_IFNAME's grammar (NCCL's: comma list of
 * prefixes, '^' excludes, '=' exact) or CIDR ("10.0.0.0/8,fd00::/8"); NULL or "": the interface that routes to `server`
 * (NULL: loopback). docker*, virbr*, lo only as a last resort. `name` gets the interface's name; `why` (for INFO) says
 * which interfaces were rejected and why; both may be NULL. No match: HOOP_ERR_INVALID_ARGUMENT naming what exists.
 */
hoop_result hp_addr_local(hp_addr *addr, const char *wanted, const hp_addr *server, char name[32], char *why,
                          size_t why_size, hoop_error *error);

#endif
