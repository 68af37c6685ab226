/* SPDX-License-Identifier: MIT */
/* job_ranks: see job_ranks.h. */
#include "launch/job_ranks.h"

#include "base/clock.h"
#include "base/wire.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 16 };

#define WORD (5 * HP_SEC)

void
hp_job_rank_put(hp_buffer *out, int rank, const hp_job_rank *r)
{
    uint8_t head[HEAD];
    hp_put32(head, (uint32_t)rank);
    hp_put32(head + 4, r->pid);
    hp_put32(head + 8, (uint32_t)r->state);
    hp_put32(head + 12, (uint32_t)r->ended);
    hp_agent_msg_put(out, HP_MSG_SERVED_RANK, head, sizeof(head), r->host, strlen(r->host));
}

int
hp_job_rank_take(hp_job_rank *ranks, int size, const hp_agent_msg *msg, uint64_t now)
{
    const uint8_t *head = msg->payload;
    uint32_t rank = hp_get32(head);
    if (rank >= (uint32_t)size)
        return -1;
    int had_ended = ranks[rank].ended;
    free((void *)(uintptr_t)ranks[rank].host);
    ranks[rank] = (hp_job_rank){.pid = hp_get32(head + 4),
                                .state = (hp_process)hp_get32(head + 8),
                                .ended = hp_get32(head + 12) != 0,
                                .told = now,
                                .host = hp_xstrndup((const char *)head + HEAD, msg->size - HEAD)};
    return ranks[rank].ended && !had_ended ? (int)rank : -1;
}

void
hp_job_ranks_free(hp_job_rank *ranks, int size)
{
    for (int i = 0; i < size; i++)
        free((void *)(uintptr_t)ranks[i].host);
    free(ranks);
}

hp_process
hp_job_rank_process(const hp_job_rank *ranks, int size, int rank, uint32_t pid, uint64_t now)
{
    int found = rank >= 0 && rank < size && ranks[rank].pid == pid ? rank : -1;
    for (int i = 0; found != rank && i < size; i++)
        if (ranks[i].pid == pid)
            found = found < 0 ? i : size; /* of two hosts: it may be either */
    const hp_job_rank *r = found >= 0 && found < size ? &ranks[found] : NULL;
    return r && now < r->told + WORD ? r->state : HP_PROCESS_UNKNOWN;
}
