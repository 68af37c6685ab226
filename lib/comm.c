/* SPDX-License-Identifier: MIT */
/* comm: see comm.h. */
#include "lib/comm.h"

#include "base/clock.h"

#include <stdio.h>

const char *
hp_comm_name(const hoop_comm *comm, int rank, char out[96])
{
    if (comm->ring && rank >= 0 && rank < comm->size)
        snprintf(out, 96, "%.95s", hp_member_name(&comm->ring->members[rank]).text);
    else if (rank == HOOP_ANY_RANK)
        snprintf(out, 96, "any rank");
    else
        snprintf(out, 96, "rank %d", rank);
    return out;
}

uint64_t
hp_comm_limit(hoop_comm *comm)
{
    return atomic_load_explicit(&comm->driver.op_timeout, memory_order_relaxed);
}

uint64_t
hp_comm_heartbeat(const hoop_comm *comm)
{
    return hp_heartbeat((uint64_t)hp_config_number(&comm->config, HP_SET_op_timeout_ms) * HP_MS);
}

uint64_t
hp_comm_own_heartbeat(hoop_comm *comm)
{
    uint64_t agreed = hp_comm_heartbeat(comm), own = hp_heartbeat(hp_comm_limit(comm));
    return own < agreed ? own : agreed;
}
