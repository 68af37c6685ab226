/* SPDX-License-Identifier: MIT */
/* probe: see probe.h. */
#include "net/probe.h"

#include "base/err.h"
#include "net/socket.h"

#include <errno.h>
#include <poll.h>

static void
take_answer(hp_probe *probe, hp_probe_state state)
{
    if (probe->state == HP_PROBE_ASKED)
        hp_socket_close(probe->fd);
    probe->state = state;
}

static hp_probe_state
meaning(const hoop_error *error)
{
    switch (error->sys_errno) {
    case ECONNREFUSED: return HP_PROBE_ENDED;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN: return HP_PROBE_UNREACHED;
    default: return HP_PROBE_NONE;
    }
}

void
hp_probe_start(hp_probe *probe, const hp_addr *addr, const hp_sock_options *options)
{
    hoop_error error;
    hp_probe_stop(probe);
    hp_err_clear(&error);
    probe->fd = hp_sock_connect(addr, NULL, options, &error);
    probe->state = probe->fd < 0 ? meaning(&error) : HP_PROBE_ASKED;
}

hp_probe_state
hp_probe_poll(hp_probe *probe)
{
    hoop_error error;
    struct pollfd answer = {.fd = probe->fd, .events = POLLOUT};
    if (probe->state != HP_PROBE_ASKED || poll(&answer, 1, 0) <= 0)
        return probe->state;
    hp_err_clear(&error);
    take_answer(probe, hp_sock_connected(probe->fd, &error) > 0 ? HP_PROBE_ALIVE : meaning(&error));
    return probe->state;
}

void
hp_probe_stop(hp_probe *probe)
{
    take_answer(probe, HP_PROBE_NONE);
}
