/* SPDX-License-Identifier: MIT */
/*
 * wait_chain and flight/chain: of the same random jobs the server, from reports, and the recorders, from files, say the
 * same: which process is at the end of the chain, over how many calls; or that ranks wait for each other in a circle, of
 * which the recorders tell first, wherever it is.
 */
#include "flight/chain.h"
#include "rendezvous/wait_chain.h"
#include "t/flight/scene.h"
#include "t/rendezvous/wait_rings.h"
#include "t/tap/tap.h"

#include <string.h>

enum { STORIES = 2000, PROCESSES = 6, PLACES = 4 /* rings */, NOWHERE = -1 };

typedef struct story {
    char members[PLACES][PROCESSES + 1]; /* the first one is the whole job */
    int place[PROCESSES];                /* the ring in which the process waits, or NOWHERE */
} story;

typedef struct verdict {
    char end; /* the process; of a circle 0 */
    int hops; /* of a circle 0 */
    int circle;
} verdict;

static int
waits_in(const story *s, char process, int ring)
{
    return s->place[process - 'A'] == ring;
}

/* The first member that has not entered the ring's operation; 0: all have. */
static char
late_in(const story *s, int ring)
{
    for (const char *at = s->members[ring]; *at; at++)
        if (!waits_in(s, *at, ring))
            return *at;
    return 0;
}

/* In no ring all members wait, and at least one waits in the whole job. */
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
        waiting += s->place[p] == 0;
    }
    for (int r = 0; r < PLACES; r++)
        sound &= strlen(s->members[r]) >= 2 && late_in(s, r) != 0;
    return waiting > 0 && sound;
}

static verdict
from_reports(const story *s)
{
    rings_ring *ring[PLACES];
    rings_begin();
    for (int r = 0; r < PLACES; r++)
        ring[r] = rings_add(s->members[r]);
    for (int p = 0; p < PROCESSES; p++)
        if (s->place[p] != NOWHERE)
            rings_wait(ring[s->place[p]], (char[]){(char)('A' + p), ':', late_in(s, s->place[p]), '\0'});
    hp_wait_place from = rings_operation(ring[0]);
    hp_whereabouts where = hp_whereabouts_take(&rings_job, NULL, RINGS_AT * HP_SEC);
    hp_wait_chain c = hp_wait_chain_find(&where, &from);
    hp_whereabouts_free(&where);
    if (c.circle)
        return (verdict){.circle = 1};
    return (verdict){(char)(c.last.ring->ring.members[c.blame.rank].pid - 800), c.hops, 0};
}

static verdict
from_files(const story *s)
{
    hp_flight_rings all;
    scene_begin();
    for (int r = 0; r < PLACES; r++)
        for (int i = 0, n = (int)strlen(s->members[r]); i < n; i++) {
            char process = s->members[r][i];
            hp_flight *f = scene_process(process - 'A', i, n, WORLD + (uint64_t)r);
            f->head.realtime += (uint64_t)r; /* the whole job is the oldest */
            if (waits_in(s, process, r))
                scene_call(f, scene_barrier, 30, 1);
        }
    if (!hp_flight_rings_make(&all, &scene_all))
        bail("out of memory");
    const hp_flight_member *late = hp_flight_first(&all.ring[0], hp_flight_is_behind, 1);
    hp_flight_chain c = hp_flight_follow(&all, &all.ring[0], late);
    verdict v = {(char)('A' + c.end->entry->flight->head.pid - 1000), c.hops, c.circle};
    hp_flight_rings_free(&all);
    return v;
}

static int
is_same(const verdict *live, const verdict *dead)
{
    if (!live->circle)
        return live->end == dead->end && live->hops == dead->hops && !dead->circle;
    scene_tell();
    return scene_story.plot == HP_FLIGHT_CROSSED;
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
        good += case_ok(is_same(&live, &dead),
                        "%s %s %s: %c over %d calls, circle %d; from files %c over %d calls, circle %d", s.members[1],
                        s.members[2], s.members[3], live.end ? live.end : '-', live.hops, live.circle,
                        dead.end ? dead.end : '-', dead.hops, dead.circle);
        circles += live.circle;
        longest = live.hops > longest ? live.hops : longest;
        told++;
    }
    scene_begin();
    is_int(STORIES, good, "of the same jobs the server and the recorders say the same");
    ok(circles > 0 && longest > 1, "among them are %d circles, and chains of up to %d calls", circles, longest);
    return tap_failures() != 0;
}
