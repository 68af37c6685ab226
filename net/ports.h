/* SPDX-License-Identifier: MIT */
/* ports: the range in which a process may listen (HOOP_PORT_RANGE): its text, and the first port of it that is free. */
#ifndef HP_PORTS_H
#define HP_PORTS_H

#include "net/addr.h"

typedef struct hp_ports {
    uint16_t first, last; /* 0: any port, the system chooses */
} hp_ports;

/* "5800-5900", "5800" for that one alone, or "" for any. */
hoop_result hp_ports_parse(hp_ports *ports, const char *text, hoop_error *error);

/*
 * A listener on `addr`: on its own port where it has one, otherwise on the first free one of the range. -1 with the error
 * filled, which names the range where all of it is in use.
 */
int hp_ports_listen(const hp_ports *ports, const hp_addr *addr, int backlog, hoop_error *error);

#endif
