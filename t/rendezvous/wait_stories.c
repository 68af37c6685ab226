/* SPDX-License-Identifier: MIT */
/* wait_chain: random stories of ranks that wait in rings, splits and messages, against a plain walk by names. */
#include "base/clock.h"
#include "rendezvous/hold_up.h"
#include "t/rendezvous/wait_rings.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 256, STORIES = 20000 };
enum { PLACES = 2 * RINGS + RINGS_SIZE }; /* operations by ring, splits by ring, messages by process */

/* Where each process waits, -1: nowhere; in each ring one that never is in its operation, and one never in its split. */
typedef struct story {
    int waits[RINGS_SIZE], peer[RINGS_SIZE];
    char working[RINGS], apart[RINGS];
} story;

static void
make_rings(story *t, int processes)
{
    int order[RINGS_SIZE];
    rings_begin();
    for (int r = 0, n = 2 + (int)(tap_random() % (RINGS - 1)); r < n; r++) {
        char names[RINGS_SIZE + 1] = "";
        int size = 2 + (int)(tap_random() % (uint64_t)(processes - 1));
        tap_shuffle(order, processes);
        for (int i = 0; i < size; i++)
            names[i] = (char)('A' + order[i]);
        rings_ring *g = rings_add(names);
        g->roster.moved = 90 * HP_SEC;
        t->working[r] = names[0];
        t->apart[r] = names[tap_random() % (uint64_t)size];
    }
}

/* Each process waits in one place at most. Returns it, or -1. */
static int
choose_place(story *t, int p)
{
    int r = (int)(tap_random() % (uint64_t)(rings_n + 2)), kind = (int)(tap_random() % 3);
    char name = (char)('A' + p), words[4] = {name, ':'}, alone[2] = {name};
    if (r >= rings_n || rings_rank_in(&rings[r], name) < 0)
        return -1;
    if (kind == 0 && t->working[r] != name) {
        words[2] = t->working[r];
        rings_wait(&rings[r], words);
        return r;
    }
    if (kind == 1 && t->apart[r] != name) {
        rings_split(&rings[r], alone);
        return RINGS + r;
    }
    words[2] = rings[r].processes[tap_random() % strlen(rings[r].processes)];
    if (kind != 2 || words[2] == name)
        return -1;
    rings_receive(&rings[r], words);
    t->peer[p] = words[2] - 'A';
    return 2 * RINGS + p;
}

static void
make_story(story *t)
{
    int processes = 3 + (int)(tap_random() % (RINGS_SIZE - 2));
    make_rings(t, processes);
    for (int p = 0; p < RINGS_SIZE; p++)
        t->waits[p] = p < processes ? choose_place(t, p) : -1;
}

/* The process that a place awaits. */
static int
awaited(const story *t, int place)
{
    if (place < RINGS)
        return t->working[place] - 'A';
    if (place >= 2 * RINGS)
        return t->peer[place - 2 * RINGS];
    const char *at = rings[place - RINGS].processes;
    while (t->waits[*at - 'A'] == place)
        at++;
    return *at - 'A';
}

/* Who is awaited at the end of the chain from this place; -1: it leads into a circle, of so many places. */
static int
end_of(const story *t, int place, int *hops, int *circle)
{
    int seen[PLACES] = {0};
    *circle = 0;
    for (*hops = 0;; ++*hops) {
        int name = awaited(t, place);
        seen[place] = *hops + 1;
        if (t->waits[name] < 0)
            return name;
        place = t->waits[name];
        if (seen[place]) {
            *circle = *hops + 2 - seen[place];
            return -1;
        }
    }
}

/* The place's ring, and the place as the file names it; 0: nobody waits there. */
static int
find_place(const story *t, int place, const rings_ring **g, hp_wait_place *at)
{
    int waits = 0;
    for (int p = 0; p < RINGS_SIZE; p++)
        waits += t->waits[p] == place;
    if (!waits)
        return 0;
    if (place < 2 * RINGS) {
        *g = &rings[place % RINGS];
        *at = place < RINGS ? rings_operation(*g) : rings_split_of(*g);
        return 1;
    }
    for (int r = 0; r < rings_n; r++) {
        int rank = rings_rank_in(&rings[r], (char)('A' + place - 2 * RINGS));
        if (rank < 0 || !rings[r].witnesses[rank].waiting.call.kind)
            continue;
        *g = &rings[r];
        *at = rings_message_of(*g, (char)('A' + place - 2 * RINGS));
    }
    return 1;
}

/* Whether the chain from this place is right; counts it. */
static int
check(const hp_whereabouts *where, const story *t, int k, int place, int *chains, int *circles, int *all)
{
    int hops, circle, guilty = -2;
    char text[TEXT] = "", pid[32];
    const rings_ring *g = NULL;
    hp_wait_place at;
    if (!find_place(t, place, &g, &at))
        return 0;
    int end = end_of(t, place, &hops, &circle),
        said = hp_wait_chain_print(where, &at, HP_SEC, &guilty, text, sizeof(text));
    at.ring = &g->roster;
    hp_wait_chain c = hp_wait_chain_find(where, &at);
    int wanted = rings_rank_in(g, (char)('A' + (end < 0 ? awaited(t, place) : end)));
    snprintf(pid, sizeof(pid), "pid %d), which", 800 + 'A' + end);
    ++*all;
    *chains += end >= 0 && hops;
    *circles += end < 0;
    return case_ok(end >= 0 && !hops ? !said && !c.hops && !c.circle && hp_wait_chain_guilty(&c) == wanted
                   : end >= 0        ? said && c.hops == hops && !c.circle && guilty == wanted && strstr(text, pid)
                              : said && c.circle == circle && guilty == wanted && strstr(text, "in the same order"),
                   "story %d, place %d, ring %s: wanted %c after %d, circle %d; saw %d hops, circle %d, rank %d: %s", k,
                   place, g->processes, end < 0 ? '-' : 'A' + end, hops, circle, c.hops, c.circle, guilty, text);
}

static void
test_random(void)
{
    int chains = 0, circles = 0, good = 0, all = 0;
    for (int k = 0; k < STORIES; k++) {
        story t;
        make_story(&t);
        hp_whereabouts where = hp_whereabouts_take(&rings_job, NULL, RINGS_AT * HP_SEC);
        for (int place = 0; place < PLACES; place++)
            good += check(&where, &t, k, place, &chains, &circles, &all);
        hp_whereabouts_free(&where);
    }
    is_int(all, good, "%d random places: %d chains and %d circles have the right end", all, chains, circles);
    ok(chains > STORIES / 10 && circles > STORIES / 100, "of all kinds there are some");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_random();
    return tap_failures() != 0;
}
