/* SPDX-License-Identifier: MIT */
/* ports: the range in which a process may listen (HOOP_PORT_RANGE): its text, and its first free port. */
#ifndef HP_PORTS_H
#define HP_PORTS_H

#include "net/addr.h"

typedef struct hp_ports {
    uint16_t first, last; /* 0: any port; the system chooses */
} hp_ports;

/* "5800-5900"; "5800" for that port alone; "" for any. */
hoop_result hp_ports_parse(hp_ports *ports, const char *text, hoop_error *error);

/*
 * Returns a listener on `addr`: on its own port if it has one, else on the first free one of the range. -1 with the
 * error filled, which names the range if all its ports are in use.
 */
int hp_ports_listen(const hp_ports *ports, const hp_addr *addr, int backlog, hoop_error *error);

#endif
