/* SPDX-License-Identifier: MIT */
/* wait_rings: see wait_rings.h. */
#include "t/rendezvous/wait_rings.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

rings_ring rings[RINGS];
int rings_n;
hp_job rings_job;
char rings_stopped;

static hp_process
process_of(void *arg, int rank, uint32_t pid)
{
    (void)arg, (void)rank;
    return rings_stopped == '?'                   ? HP_PROCESS_UNKNOWN
           : pid == 800u + (uint8_t)rings_stopped ? HP_PROCESS_STOPPED
                                                  : HP_PROCESS_RUNS;
}

static int
reached(void *arg, const void *peer)
{
    (void)arg;
    (void)peer;
    return 1;
}

static const hp_events events = {.starter.process = process_of, .reached = reached};

void
rings_begin(void)
{
    rings_n = 0;
    rings_stopped = 0;
    memset(rings, 0, sizeof(rings));
    rings_job = (hp_job){.owner = &events};
}

rings_ring *
rings_add(const char *processes)
{
    rings_ring *g = &rings[rings_n];
    int n = (int)strlen(processes);
    snprintf(g->processes, sizeof(g->processes), "%s", processes);
    g->roster = (hp_roster){.next = rings_n ? &rings[rings_n - 1].roster : NULL,
                            .events = &events,
                            .state = HP_ROSTER_RUNNING,
                            .world = rings_n == 0,
                            .ring = {.comm = 100 + (uint64_t)rings_n, .size = n, .members = g->members},
                            .witnesses = g->witnesses,
                            .losses.loss = g->losses,
                            .peers = g->peers,
                            .heartbeat = 250 * HP_MS,
                            .moved = 90 * HP_SEC + (uint64_t)rings_n * 100 * HP_MS};
    snprintf(g->roster.label, sizeof(g->roster.label), rings_n ? "job 4f21c0de split %d colour 0" : "job 4f21c0de",
             rings_n);
    for (int i = 0; i < n; i++) {
        g->members[i] = (hp_member){.rank = i, .pid = 800u + (uint8_t)processes[i], .host_id = 7};
        snprintf(g->members[i].host, HP_HOST_TEXT, "node%c", processes[i]);
        g->peers[i] = g;
        g->losses[i].peer = -1;
    }
    rings_n++;
    rings_job.rosters = &g->roster;
    return g;
}

int
rings_rank_in(const rings_ring *g, char process)
{
    const char *at = process ? strchr(g->processes, process) : NULL;
    return at ? (int)(at - g->processes) : -1;
}

void
rings_wait(rings_ring *g, const char *story)
{
    for (const char *at = story; *at; at += at[3] ? 4 : 3) {
        hp_witness *w = &g->witnesses[rings_rank_in(g, at[0])];
        w->in_op = 1;
        w->last_seen = RINGS_AT * HP_SEC;
        w->report = (hp_report){.sequence = g->roster.world ? 7 : g->roster.ring.comm - 100,
                                .awaited = {HP_WAIT_PEER, rings_rank_in(g, at[2])},
                                .call = {.kind = HP_BARRIER, .root = -1}};
        g->roster.in_op_n++;
    }
}

void
rings_split(rings_ring *g, const char *processes)
{
    hp_join_group *m = &g->split;
    if (!m->joined_n) {
        *m = (hp_join_group){.next = rings_job.join_groups,
                             .events = &events,
                             .parent = g->roster.ring.comm,
                             .split = 1,
                             .size = g->roster.ring.size,
                             .joined = g->joined,
                             .has_joined = &g->has_joined};
        rings_job.join_groups = m;
    }
    for (; *processes; processes++) {
        int rank = rings_rank_in(g, *processes);
        m->joined[m->joined_n] =
            (hp_joined){.member = g->members[rank], .at = 95 * HP_SEC + (uint64_t)m->joined_n * 100 * HP_MS};
        m->joined_n++;
        g->has_joined |= UINT64_C(1) << rank;
    }
}

void
rings_receive(rings_ring *g, const char *story)
{
    hp_witness *w = &g->witnesses[rings_rank_in(g, story[0])];
    w->waiting = (hp_waiting){.since = 4 * HP_SEC,
                              .awaited = {story[2] == '-' ? HP_WAIT_DEVICE : HP_WAIT_PEER, rings_rank_in(g, story[2])},
                              .call = {.kind = HP_RECV, .dtype = HOOP_FLOAT32, .root = 3, .count = 5}};
    w->waiting_at = RINGS_AT * HP_SEC;
}

hp_wait_place
rings_operation(const rings_ring *g)
{
    return (hp_wait_place){.ring = &g->roster, .rank = -1};
}

hp_wait_place
rings_split_of(const rings_ring *g)
{
    return (hp_wait_place){.split = &g->split, .rank = -1};
}

hp_wait_place
rings_message_of(const rings_ring *g, char process)
{
    return (hp_wait_place){.ring = &g->roster, .rank = rings_rank_in(g, process)};
}
