/* SPDX-License-Identifier: MIT */
/* large_packets: see large_packets.h. */
#include "lib/large_packets.h"

#include "base/clock.h"
#include "base/log.h"
#include "lib/ways.h"

static void
tell(const hoop_comm *comm, const hp_link *link, uint32_t size)
{
    const hp_member *me = &comm->ring->members[comm->rank], *peer = &comm->ring->members[link->peer];
    hp_log(HP_LOG_WARN,
           "%s has heard no acknowledgement of what it sends to %s for 10 s and more, although that host answers small "
           "packets: do packets of %u bytes get lost between these two hosts? Compare the MTU "
           "of their interfaces (\"ip link\") with that of switches, tunnels and virtual private networks on the way",
           hp_member_name(me).text, hp_member_name(peer).text, size);
}

void
hp_large_packets_check(hoop_comm *comm, const hp_link *link, uint64_t now)
{
    hp_large_packets *p = &comm->fault.large_packets;
    uint32_t size = link ? hp_link_lost_size(link, now) : 0;
    if (!size || p->told || !hp_config_number(&comm->config, HP_SET_warn_after_ms)) {
        p->told = size && p->told;
        hp_probe_stop(&p->probe);
        return;
    }
    hp_probe_state state = hp_probe_poll(&p->probe);
    if (state == HP_PROBE_ALIVE && p->peer == link->peer) {
        tell(comm, link, size);
        p->told = 1;
    }
    if (state == HP_PROBE_ASKED && p->peer == link->peer)
        return;
    hp_probe_stop(&p->probe);
    p->peer = link->peer;
    if (!p->told)
        hp_probe_start(&p->probe, hp_ways_best(&comm->ring->members[link->peer]), &comm->sock);
}
