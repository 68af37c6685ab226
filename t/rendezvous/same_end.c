/* SPDX-License-Identifier: MIT */
/*
 * wait_graph: of the same random jobs the server, from reports, and the recorders, from files, find the same: which process
 * is at the end, over how many calls, in which call of which ring it is awaited; or in a circle of how many calls ranks wait
 * for each other, and which is the oldest. Processes wait in operations, in splits and in messages.
 */
#include "flight/ring.h"
#include "rendezvous/hold_up.h"
#include "t/flight/scene.h"
#include "t/rendezvous/wait_rings.h"
#include "t/tap/tap.h"

#include <string.h>

enum { STORIES = 2000, PROCESSES = 6, PLACES = 4 /* rings */, NOWHERE = -1 };

typedef struct story {
    char members[PLACES][PROCESSES + 1]; /* the first one is the whole job */
    int place[PROCESSES];                /* the ring in which the process waits, or NOWHERE */
    hp_wait_call call[PROCESSES];        /* in what */
    char sender[PROCESSES];              /* of its message */
} story;

typedef struct verdict {
    char end; /* the process that is awaited; of a circle in its oldest call */
    int hops; /* of a circle 0 */
    int circle;
    int ring; /* in which it is awaited; -1: in the operation from which they started */
    hp_wait_call call;
} verdict;

static int
waits_in(const story *s, char process, int ring, hp_wait_call call)
{
    return s->place[process - 'A'] == ring && s->call[process - 'A'] == call;
}

/* The first member that has not entered the ring's operation, or its split; 0: all have. */
static char
late_in(const story *s, int ring, hp_wait_call call)
{
    for (const char *at = s->members[ring]; *at; at++)
        if (!waits_in(s, *at, ring, call))
            return *at;
    return 0;
}

/* In no ring all members wait in one call, and at least one waits in the operation of the whole job. */
static int
make(story *s)
{
    *s = (story){.members = {"ABCDEF"}};
    for (int r = 1; r < PLACES; r++)
        for (int p = 0, n = 0; p < PROCESSES; p++)
            if (tap_random() % 2)
                s->members[r][n++] = (char)('A' + p);
    int waiting = 0, sound = 1;
    for (int p = 0; p < PROCESSES; p++) {
        int r = (int)(tap_random() % (PLACES + 1)) - 1;
        s->place[p] = r >= 0 && strchr(s->members[r], 'A' + p) ? r : NOWHERE;
        s->call[p] = (hp_wait_call)(tap_random() % 3);
        s->sender[p] = r >= 0 ? s->members[r][tap_random() % (strlen(s->members[r]) + 1)] : 0;
        sound &= s->place[p] < 0 || s->call[p] != HP_IN_MESSAGE || (s->sender[p] && s->sender[p] != 'A' + p);
        waiting += waits_in(s, (char)('A' + p), 0, HP_IN_OPERATION);
    }
    for (int r = 0; r < PLACES; r++)
        sound &= strlen(s->members[r]) >= 2 && late_in(s, r, HP_IN_OPERATION) && late_in(s, r, HP_IN_SPLIT);
    return waiting > 0 && sound;
}

static void
report(const story *s, rings_ring *ring, int r)
{
    char split[PROCESSES + 1] = "";
    for (int p = 0; p < PROCESSES; p++) {
        char process = (char)('A' + p), late = late_in(s, r, HP_IN_OPERATION);
        if (waits_in(s, process, r, HP_IN_OPERATION))
            rings_wait(ring, (char[]){process, ':', late, '\0'});
        else if (waits_in(s, process, r, HP_IN_MESSAGE))
            rings_receive(ring, (char[]){process, ':', s->sender[p], '\0'});
        else if (waits_in(s, process, r, HP_IN_SPLIT))
            split[strlen(split)] = process;
    }
    if (split[0])
        rings_split(ring, split);
}

static verdict
from_reports(const story *s)
{
    rings_ring *ring[PLACES];
    rings_begin();
    for (int r = 0; r < PLACES; r++)
        ring[r] = rings_add(s->members[r]);
    for (int r = 0; r < PLACES; r++)
        report(s, ring[r], r);
    hp_wait_place from = rings_operation(ring[0]);
    hp_whereabouts where = hp_whereabouts_take(&rings_job, NULL, RINGS_AT * HP_SEC);
    hp_wait_chain c = hp_wait_chain_find(&where, &from);
    hp_whereabouts_free(&where);
    verdict v = {(char)(c.last.ring->ring.members[c.blame.rank].pid - 800), c.circle ? 0 : c.hops, c.circle, NOWHERE,
                 HP_IN_OPERATION};
    for (int r = 0; r < PLACES && c.hops; r++)
        v.ring = c.last.ring == &ring[r]->roster ? r : v.ring;
    v.call = c.last.split ? HP_IN_SPLIT : c.last.rank >= 0 ? HP_IN_MESSAGE : HP_IN_OPERATION;
    return v;
}

static void
record(const story *s, int r)
{
    for (int i = 0, n = (int)strlen(s->members[r]); i < n; i++) {
        char process = s->members[r][i];
        hp_flight *f = scene_process(process - 'A', i, n, WORLD + (uint64_t)r);
        f->head.realtime += (uint64_t)r; /* the whole job is the oldest */
        if (waits_in(s, process, r, HP_IN_OPERATION)) {
            scene_call(f, scene_barrier, 30, 1);
        } else if (waits_in(s, process, r, HP_IN_SPLIT)) {
            f->head.split = 1;
            f->head.split_at = SCENE_NOW - 20 * HP_SEC;
        } else if (waits_in(s, process, r, HP_IN_MESSAGE)) {
            hp_flight_record *m =
                scene_call(f, (hp_call){.kind = HP_RECV, .dtype = HOOP_INT8, .root = 3, .count = 5}, 20, 1);
            m->sequence = 0;
            m->messages = 1;
            m->peer = (int)(strchr(s->members[r], s->sender[process - 'A']) - s->members[r]);
        }
    }
}

static verdict
from_files(const story *s)
{
    hp_flight_rings all;
    scene_begin();
    for (int r = 0; r < PLACES; r++)
        record(s, r);
    if (!hp_flight_rings_make(&all, &scene_all))
        bail("out of memory");
    const hp_flight_member *late = hp_flight_first(&all.ring[0], hp_flight_is_behind, 1);
    hp_flight_chain c = hp_flight_follow(&all, &all.ring[0], late);
    hp_wait_finding f = hp_wait_graph_follow(all.wait, late->process);
    verdict v = {(char)('A' + c.end->entry->flight->head.pid - 1000), c.hops, f.circle, NOWHERE, HP_IN_OPERATION};
    if (f.waiter >= 0) {
        v.end = (char)('A' + all.place[f.waiter].awaited->entry->flight->head.pid - 1000);
        v.ring = all.wait[f.waiter].ring;
        v.call = all.wait[f.waiter].kind;
    }
    hp_flight_rings_free(&all);
    return v;
}

static int
is_same(const verdict *live, const verdict *dead)
{
    return live->end == dead->end && live->hops == dead->hops && live->circle == dead->circle &&
           live->ring == dead->ring && live->call == dead->call;
}

int
main(void)
{
    int good = 0, circles = 0, longest = 0, told = 0;
    tap_limit(240);
    plan_lazy();
    while (told < STORIES) {
        story s;
        if (!make(&s))
            continue;
        verdict live = from_reports(&s), dead = from_files(&s);
        good +=
            case_ok(is_same(&live, &dead),
                    "%s %s %s: %c in %d/%d over %d calls, circle %d; from files %c in %d/%d over %d calls, circle %d",
                    s.members[1], s.members[2], s.members[3], live.end, live.ring, live.call, live.hops, live.circle,
                    dead.end, dead.ring, dead.call, dead.hops, dead.circle);
        circles += live.circle > 0;
        longest = live.hops > longest ? live.hops : longest;
        told++;
    }
    scene_begin();
    is_int(STORIES, good, "of the same jobs the server and the recorders find the same");
    ok(circles > 0 && longest > 1, "among them are %d circles, and chains of up to %d calls", circles, longest);
    return tap_failures() != 0;
}
