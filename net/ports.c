/* SPDX-License-Identifier: MIT */
/* ports: see ports.h. It tries to listen port by port; two processes that try at the same time get different ports. */
#include "net/ports.h"

#include "base/err.h"
#include "net/sock.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

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

static void
explain_used_up(const hp_ports *ports, const hp_addr *addr, int number, hoop_error *error)
{
    char host[HP_ADDR_TEXT];
    int count = ports->last - ports->first + 1;
    if (number == EACCES)
        hp_err_set(error, HOOP_ERR_SYSTEM,
                   "this user is not allowed to listen on any port of HOOP_PORT_RANGE=%u-%u: use ports above 1023",
                   ports->first, ports->last);
    else
        hp_err_set(
            error, HOOP_ERR_SYSTEM,
            "%s of HOOP_PORT_RANGE=%u-%u %s in use on %s; every process of a host takes one port, and so does the "
            "rendezvous server: give a larger range",
            count > 1 ? "all ports" : "the one port", ports->first, ports->last, count > 1 ? "are" : "is",
            hp_addr_host(addr, host));
    if (error)
        error->sys_errno = number;
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
    explain_used_up(ports, addr, number, error);
    return -1;
}
