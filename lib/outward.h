/* SPDX-License-Identifier: MIT */
/*
 * outward: the address at which ranks on other hosts reach this process, before any of them has connected. In this order:
 * the interface that the user names (socket_ifname); the one that leads to the host at which the ranks join (join_host,
 * else MASTER_ADDR), because the user's own address works there; the default route; the best interface; loopback.
 */
#ifndef HP_OUTWARD_H
#define HP_OUTWARD_H

#include "lib/config.h"
#include "net/addr.h"

enum { HP_OUTWARD_WHY = 320 };

/* The address (port 0), and why it was taken, as the end of a sentence. Waits up to 5 s for a name service. */
hoop_result hp_outward_find(hp_addr *addr, const hoop_config *config, char why[HP_OUTWARD_WHY], hoop_error *error);

/* The address of the host at which the ranks join. Returns 0 if no setting or variable names one, or it has none. */
int hp_outward_join_host(hp_addr *addr, const hoop_config *config);

/*
 * The address that other processes shall use instead of the own one (setting advertise), with this port unless it names
 * one; length 0: none is set. Waits up to 5 s for a name service.
 */
hoop_result hp_outward_advertised(hp_addr *addr, const hoop_config *config, uint16_t port, hoop_error *error);

#endif
