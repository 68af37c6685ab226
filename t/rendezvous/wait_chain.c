/* SPDX-License-Identifier: MIT */
/*
 * wait_chain: rings of one job whose ranks wait for each other across them. A ring is written as its processes, "ABCD"; a
 * process that waits in it is told as "B:D", B waits for D. Who waits for nobody is to blame.
 */
#include "rendezvous/wait_chain.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { RINGS = 6, SIZE = 8, TEXT = 256, STORIES = 20000, AT = 100 };

typedef struct ring {
    hp_roster roster;
    hp_member members[SIZE];
    hp_witness witnesses[SIZE];
    char processes[SIZE + 1];
} ring;

static ring rings[RINGS];
static int ring_n;
static char stopped; /* the process that is known to be stopped; 0: none is, '?': nothing is known of any */

static hp_process
process_of(void *arg, const hp_member *who)
{
    (void)arg;
    return stopped == '?'                        ? HP_PROCESS_UNKNOWN
           : who->pid == 800u + (uint8_t)stopped ? HP_PROCESS_STOPPED
                                                 : HP_PROCESS_RUNS;
}

static const hp_events events = {.process = process_of};

static void
begin(void)
{
    ring_n = 0;
    stopped = 0;
    memset(rings, 0, sizeof(rings));
}

/* The first one is the whole job. It has stood still since second 90, each later one for a tenth of a second less. */
static ring *
add(const char *processes)
{
    ring *g = &rings[ring_n];
    int n = (int)strlen(processes);
    snprintf(g->processes, sizeof(g->processes), "%s", processes);
    g->roster = (hp_roster){.next = ring_n ? &rings[ring_n - 1].roster : NULL,
                            .events = &events,
                            .state = HP_ROSTER_RUNNING,
                            .world = ring_n == 0,
                            .ring = {.comm = 100 + (uint64_t)ring_n, .size = n, .members = g->members},
                            .witnesses = g->witnesses,
                            .heartbeat = 250 * HP_MS,
                            .moved = 90 * HP_SEC + (uint64_t)ring_n * 100 * HP_MS};
    snprintf(g->roster.label, sizeof(g->roster.label), ring_n ? "job 4f21c0de split %d colour 0" : "job 4f21c0de",
             ring_n);
    for (int i = 0; i < n; i++) {
        g->members[i] = (hp_member){.rank = i, .pid = 800u + (uint8_t)processes[i], .host_id = 7};
        snprintf(g->members[i].host, HP_HOST_TEXT, "node%c", processes[i]);
    }
    ring_n++;
    return g;
}

static int
rank_in(const ring *g, char process)
{
    const char *at = process ? strchr(g->processes, process) : NULL;
    return at ? (int)(at - g->processes) : -1;
}

/* "B:D C:D": in operation 7 of the whole job, in 1 of the first split, and so on. */
static void
wait_in(ring *g, const char *story)
{
    for (const char *at = story; *at; at += at[3] ? 4 : 3) {
        hp_witness *w = &g->witnesses[rank_in(g, at[0])];
        w->in_op = 1;
        w->last_seen = AT * HP_SEC;
        w->report = (hp_report){.sequence = g->roster.world ? 7 : g->roster.ring.comm - 100,
                                .waits_for = rank_in(g, at[2]),
                                .call = {.kind = HP_BARRIER, .root = -1}};
        g->roster.in_op_n++;
    }
}

static const hp_roster *
newest(void)
{
    return &rings[ring_n - 1].roster;
}

/* Wanted "": the ring's own sentence is enough. */
static void
says(const ring *g, int guilty, const char *wanted, const char *what)
{
    char text[TEXT] = "";
    int saw = -2, followed = hp_wait_chain_print(newest(), g->roster.ring.comm, 2 * HP_SEC, &saw, text, sizeof(text));
    is_string(wanted, followed ? text : "", "%s", what);
    if (wanted[0])
        is_int(guilty, saw, "... and rank %d is to blame", guilty);
}

/* A, B and C wait for D in the whole job, and D waits for E in a split of those two. */
static ring *
two_rings(const char *world)
{
    begin();
    ring *all = add(world);
    wait_in(all, "A:D B:A C:B");
    wait_in(add("DE"), "D:E");
    return all;
}

static void
test_one(void)
{
    ring *all = two_rings("ABCD");
    says(all, -1,
         "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for its rank 1 (nodeE, pid 869), "
         "which "
         "has not entered it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
         "the awaited rank waits in another ring, for one that is not in the first");
    says(&rings[1], 0, "", "the other ring says it itself");
    all = two_rings("ABCDE");
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "has not entered it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
        "for one that is in both");
    stopped = '?';
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "has not entered it, or was stopped; 3 ranks have waited 2.0 s in operation 7",
        "nothing is known of its process");
    stopped = 'E';
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "has not entered it: its process is stopped; 3 ranks have waited 2.0 s in operation 7",
        "it is stopped");
    stopped = 0;
    rings[1].witnesses[1].left = 1;
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "left that communicator before it; 3 ranks have waited 2.0 s in operation 7",
        "it has left");
    all = two_rings("ABCDE");
    wait_in(&rings[1], "E:D");
    rings[1].witnesses[1].last_seen -= 2 * HP_SEC;
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "is stopped or unreachable; 3 ranks have waited 2.0 s in operation 7",
        "it is silent");
    rings[1].witnesses[1].last_seen += 2 * HP_SEC;
    says(all, 3,
         "rank 3 (nodeD, pid 868) waits in split 1 colour 0, where operation 1 (barrier) does not progress: rank 0 "
         "(nodeD) "
         "waits for rank 1 (nodeE), and both are alive, so look at the network between them; 1 rank has waited 2.0 s",
         "there the connection is to blame");
    rings[1].witnesses[1] = (hp_witness){.completed = 1};
    says(all, 4,
         "rank 3 (nodeD, pid 868) waits in split 1 colour 0, where rank 1 (nodeE) has finished operation 1 (barrier), "
         "but "
         "rank 0 (nodeD) still waits for it; 1 rank has waited 2.0 s",
         "there one has finished");
}

/* Where the awaited rank does not wait, it is late by itself. */
static void
test_not_followed(void)
{
    ring *all = two_rings("ABCDE");
    stopped = 'D';
    says(all, 0, "", "the awaited rank is stopped in the other ring");
    stopped = 0;
    rings[1].witnesses[0].last_seen -= 2 * HP_SEC;
    says(all, 0, "", "or silent there");
    all = two_rings("ABCDE");
    rings[1].roster.moved = AT * HP_SEC - 500 * HP_MS;
    says(all, 0, "", "the other ring moves");
    rings[1].roster.moved = AT * HP_SEC + 1;
    says(all, 0, "", "since its last report");
    all = two_rings("ABCDE");
    rings[1].members[0].host_id = 8;
    says(all, 0, "", "the same process number on another host");
    all = two_rings("ABCDE");
    rings[1].roster.state = HP_ROSTER_FAILED;
    says(all, 0, "", "the other ring has failed");
    all = two_rings("ABCDE");
    wait_in(all, "D:C");
    all->witnesses[3].last_seen -= 2 * HP_SEC;
    says(all, 0, "", "the awaited rank is in the operation, and silent");
    all = two_rings("ABCDE");
    all->witnesses[3].completed = 7;
    says(all, 0, "", "the awaited rank has finished the operation");
}

static void
test_many(void)
{
    begin();
    ring *all = add("ABCDEF");
    wait_in(all, "A:D B:A C:B");
    wait_in(add("DE"), "D:E");
    wait_in(add("EF"), "E:F");
    says(all, 5,
         "rank 3 (nodeD, pid 868) waits, over 2 communicators, in operation 2 (barrier) of split 2 colour 0 for rank 5 "
         "(nodeF, pid 870), which has not entered it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
         "over two rings");
    says(&rings[1], -1,
         "rank 1 (nodeE, pid 869) waits in operation 2 (barrier) of split 2 colour 0 for its rank 1 (nodeF, pid 870), "
         "which "
         "has not entered it, and its process runs; 1 rank has waited 2.0 s in operation 1",
         "the ring between them");
    wait_in(add("DF"), "D:F");
    says(all, 5,
         "rank 3 (nodeD, pid 868) waits, over 2 communicators, in operation 2 (barrier) of split 2 colour 0 for rank 5 "
         "(nodeF, pid 870), which has not entered it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
         "a rank that waits in two rings: the one that has stood still for longer is followed");
    rings[3].roster.moved = 80 * HP_SEC;
    says(all, 5,
         "rank 3 (nodeD, pid 868) waits in operation 3 (barrier) of split 3 colour 0 for rank 5 (nodeF, pid 870), "
         "which has "
         "not entered it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
         "the other one is");
}

static void
test_circles(void)
{
    static const char three[] =
        "rank 1 (nodeB, pid 866) waits in operation 1 (barrier) of split 1 colour 0, and rank 0 (nodeA, pid 865) in "
        "operation "
        "7 (barrier) of the whole job, in a circle of 3 communicators: call them in the same order; waited 2.0 s";
    begin();
    ring *all = add("ABC");
    wait_in(all, "A:B");
    wait_in(add("BC"), "B:C");
    wait_in(add("AC"), "C:A");
    wait_in(add("DA"), "D:A");
    says(all, 1, three, "three rings wait for each other");
    says(&rings[1], 1, three, "the second one says the same");
    says(&rings[2], 0, three, "and the third one");
    says(&rings[3], 1, three, "and one that waits for these");
}

/* --- random stories --- */

/* Each process waits in one ring at most, and in each ring the waiting ones wait for one that does not. */
static void
make_story(char waits[SIZE], char awaited[RINGS])
{
    int processes = 3 + (int)(tap_random() % (SIZE - 2)), order[SIZE];
    begin();
    memset(waits, -1, SIZE);
    for (int r = 0, n = 2 + (int)(tap_random() % (RINGS - 1)); r < n; r++) {
        char names[SIZE + 1] = "";
        tap_shuffle(order, processes);
        for (int i = 0, size = 2 + (int)(tap_random() % (uint64_t)(processes - 1)); i < size; i++)
            names[i] = (char)('A' + order[i]);
        ring *g = add(names);
        awaited[r] = names[0];
        g->roster.moved = 90 * HP_SEC;
    }
    for (int p = 0; p < processes; p++) {
        int r = (int)(tap_random() % (uint64_t)(ring_n + 2));
        char name = (char)('A' + p), story[4] = {name, ':'};
        if (r >= ring_n || rank_in(&rings[r], name) < 0 || awaited[r] == name)
            continue;
        waits[p] = (char)r;
        story[2] = awaited[r];
        wait_in(&rings[r], story);
    }
}

/* Who is awaited at the end of the chain from this ring; 0: it leads into a circle. */
static char
end_of(int r, const char waits[SIZE], const char awaited[RINGS], int *hops)
{
    for (*hops = 0; *hops <= ring_n; ++*hops) {
        char name = awaited[r];
        if (waits[name - 'A'] < 0)
            return name;
        r = waits[name - 'A'];
    }
    return 0;
}

static void
test_random(void)
{
    char waits[SIZE], awaited[RINGS], text[TEXT], pid[32];
    int chains = 0, circles = 0, good = 0, all = 0;
    for (int k = 0; k < STORIES; k++) {
        make_story(waits, awaited);
        for (int r = 0; r < ring_n; r++) {
            int hops, guilty = -2, wanted;
            if (!rings[r].roster.in_op_n)
                continue;
            char end = end_of(r, waits, awaited, &hops);
            int said = hp_wait_chain_print(newest(), rings[r].roster.ring.comm, HP_SEC, &guilty, text, sizeof(text));
            hp_wait_chain c = hp_wait_chain_find(newest(), &rings[r].roster);
            snprintf(pid, sizeof(pid), "pid %d), which", 800 + end);
            wanted = rank_in(&rings[r], end ? end : awaited[r]);
            all++;
            chains += end && hops;
            circles += !end;
            good += case_ok(end && !hops ? !said && !c.hops && hp_wait_chain_guilty(&c) == wanted
                            : end        ? said && c.hops == hops && !c.circle && guilty == wanted && strstr(text, pid)
                                  : said && c.circle >= 2 && guilty == wanted && strstr(text, "in the same order"),
                            "story %d, ring %d (%s): wanted %c after %d, saw %d hops, circle %d, rank %d: %s", k, r,
                            rings[r].processes, end ? end : '-', hops, c.hops, c.circle, guilty, said ? text : "-");
        }
    }
    is_int(all, good, "%d random rings: %d chains and %d circles have the right end", all, chains, circles);
    ok(chains > STORIES / 10 && circles > STORIES / 100, "of all kinds there are some");
}

int
main(void)
{
    plan_lazy();
    tap_limit(60);
    test_one();
    test_not_followed();
    test_many();
    test_circles();
    test_random();
    return 0;
}
