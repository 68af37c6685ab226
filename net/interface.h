/* SPDX-License-Identifier: MIT */
/* interface: on which of this machine's interfaces, and at which of its addresses, a process listens. */
#ifndef HP_INTERFACE_H
#define HP_INTERFACE_H

#include "net/addr.h"

/*
 * The local address (port 0) on which a rank listens. `wanted` is HOOP_SOCKET_IFNAME: NCCL's grammar (a comma list of
 * prefixes, '^' excludes, '=' exact) or CIDR ("10.0.0.0/8,fd00::/8"). NULL or "": the interface that routes to
 * `server` (NULL: loopback); docker*, virbr* and lo are the last choice. `name` receives the interface's name, `why`
 * the rejected interfaces with reasons (for INFO); both may be NULL. If none fits: HOOP_ERR_INVALID_ARGUMENT, which
 * lists the interfaces.
 */
hoop_result hp_interface_choose(hp_addr *addr, const char *wanted, const hp_addr *server, char name[32], char *why,
                                size_t why_size, hoop_error *error);

#endif
