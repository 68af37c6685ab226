/* SPDX-License-Identifier: MIT */
/* interface: on which of this machine's interfaces, and at which of its addresses, a process listens. */
#ifndef HP_INTERFACE_H
#define HP_INTERFACE_H

#include "net/addr.h"

struct ifaddrs;
/* The address (port 0) of an entry of getifaddrs; 0: it has none of the internet. */
int hp_interface_addr(hp_addr *addr, const struct ifaddrs *entry);

/*
 * The local address (port 0) on which a rank listens. `wanted` is HOOP_SOCKET_IFNAME: NCCL's grammar (a comma list of
 * prefixes, '^' excludes, '=' exact) or CIDR ("10.0.0.0/8,fd00::/8"). NULL or "": the interface that routes to
 * `server` (NULL: loopback); docker*, virbr* and lo are the last choice. `name` receives the interface's name, `why`
 * the rejected interfaces with reasons (for INFO); both may be NULL. If none fits: HOOP_ERR_INVALID_ARGUMENT, which
 * lists the interfaces.
 */
hoop_result hp_interface_choose(hp_addr *addr, const char *wanted, const hp_addr *server, char name[32], char *why,
                                size_t why_size, hoop_error *error);
/* The same for an option of the same grammar. option: what errors have in front of `wanted`, as "--interface ". */
hoop_result hp_interface_choose_as(const char *option, hp_addr *addr, const char *wanted, hoop_error *error);

enum { HP_OTHERS = 3 };

/* An address of this machine, and what the system says of its interface. */
typedef struct hp_interface_fact {
    char name[32];
    hp_addr addr;
    int down, wireless, tunnel;
    int bridge; /* of this machine's guests, most likely: other machines may have the same address */
} hp_interface_fact;

/*
 * At which other addresses (port 0) this machine may be reached by those that do not reach `chosen`: the best HP_OTHERS
 * at most, one of each interface and family, cables before radio before tunnels before bridges. None are link-local,
 * which mean nothing without the interface, and none if `chosen` is loopback. Returns how many. Pure.
 */
int hp_interface_order(hp_addr other[HP_OTHERS], const hp_addr *chosen, const hp_interface_fact *fact, int n);
/* The same of this machine as it is now; 0 if it cannot be asked. */
int hp_interface_others(hp_addr other[HP_OTHERS], const hp_addr *chosen);

#endif
