/* SPDX-License-Identifier: MIT */
/*
 * local_addr: whether a host is this machine, and the address of this machine at which the ranks can reach the
 * rendezvous server.
 */
#ifndef HP_LAUNCH_LOCAL_ADDR_H
#define HP_LAUNCH_LOCAL_ADDR_H

#include "launch/hostfile.h"
#include "net/addr.h"

#include <net/if.h>

/* Whether `name` is this machine: its usual names and its own addresses. Resolves nothing. user@ means elsewhere. */
int hp_local_is_host(const char *name);

const char *hp_local_name(void);
const char *hp_local_bare_name(const char *name); /* without user@ */

/* Whether two names mean the same machine: "node1" and "node1.cluster" do. */
int hp_local_same_name(const char *a, const char *b);

/* What a host's ranks get as HOOP_SOCKET_IFNAME for its iface= or addr=; 0: neither was given. */
int hp_local_ifname(const hp_host_entry *host, char *out, size_t size);

/*
 * The address to listen on for ranks on `remote`. In this order: the interface or address given for this machine
 * (`own`, its hostfile entry or NULL, else HOOP_SOCKET_IFNAME), the address the remote shell says it was called from
 * (seen_from, "": unknown), the address that routes to `remote`, the one that routes to the world, that of the only
 * interface (loopback, if there is no other). The last one is a guess: `guess` receives its interface's name, else "".
 */
hoop_result hp_local_address(hp_addr *addr, const hp_host_entry *own, const hp_host_entry *remote,
                             const char *seen_from, char guess[IF_NAMESIZE], hoop_error *error);
hoop_result hp_local_loopback(hp_addr *addr, hoop_error *error);

#endif
