/* SPDX-License-Identifier: MIT */
/*
 * many_rings: the table of a job of 255 rings, each of the same 512 processes. It is counted what the table asks: as much as
 * there are processes, not as many times more as there are rings. A ring's own question would search all the others.
 */
#include "base/clock.h"
#include "rendezvous/table.h"
#include "rendezvous/whereabouts.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 255, RANKS = 512, LATE = 100, AT = 100, ROWS = 3, TEXT = 400 };

static hp_roster rosters[MANY];
static hp_member members[RANKS];
static hp_witness witnesses[RANKS];
static hp_loss losses[RANKS]; /* none */
static void *peers[RANKS];
static int order[RANKS];
static hp_job job;
static char newest[TEXT], oldest[TEXT];
static int owner_asked, lines_n;

static hp_process
process_of(void *arg, int rank, uint32_t pid)
{
    owner_asked++;
    return HP_PROCESS_RUNS;
}

static int
reached(void *arg, const void *peer)
{
    return 1;
}

static const hp_events owner = {.starter.process = process_of};
static const hp_events events = {.reached = reached};

/* All rings have the same processes, and in each all but one of them wait; the whole job comes last in the list. */
static void
fill(void)
{
    for (int i = 0; i < RANKS; i++) {
        members[i] = (hp_member){.rank = i, .pid = 800 + (uint32_t)i, .host_id = 7 + (uint64_t)i / 8};
        snprintf(members[i].host, HP_HOST_TEXT, "node%d", i / 8);
        peers[i] = &members[i];
        order[i] = i;
        losses[i].peer = -1;
        witnesses[i] =
            (hp_witness){.in_op = i != LATE,
                         .last_seen = AT * HP_SEC,
                         .heard = AT * HP_SEC,
                         .report = {.sequence = 7, .awaited = {HP_WAIT_PEER, LATE}, .call = {.kind = HP_BARRIER}}};
    }
    for (int k = 0; k < MANY; k++) {
        rosters[k] = (hp_roster){.next = k + 1 < MANY ? &rosters[k + 1] : NULL,
                                 .events = &events,
                                 .state = HP_ROSTER_RUNNING,
                                 .world = k + 1 == MANY,
                                 .ring = {.comm = 100 + (uint64_t)k, .size = RANKS, .members = members, .order = order},
                                 .witnesses = witnesses,
                                 .losses.loss = losses,
                                 .peers = peers,
                                 .in_op_n = RANKS - 1,
                                 .heartbeat = 250 * HP_MS,
                                 .moved = (90 + (uint64_t)k % 5) * HP_SEC};
        snprintf(rosters[k].label, sizeof(rosters[k].label), "job 4f21c0de split %d colour 0", MANY - k);
    }
    job = (hp_job){.owner = &owner, .rosters = rosters};
}

static void
take_line(void *arg, const char *line)
{
    if (lines_n++ == 0)
        snprintf(newest, sizeof(newest), "%s", line);
    if (strstr(line, "ring of"))
        snprintf(oldest, sizeof(oldest), "%s", line);
}

static void
test_table(void)
{
    const hp_table_options options = {.most = ROWS, .to.line = take_line};
    owner_asked = lines_n = 0;
    hp_table_print(&job, &options, AT * HP_SEC);
    is_int(MANY * (ROWS + 3), lines_n, "%d rings of %d ranks: a sentence, titles, %d rows, and the rest", MANY, RANKS,
           ROWS);
    is_string(
        "job 4f21c0de split 255 colour 0, split of 512 ranks: rank 100 (node12, pid 900) has not entered operation "
        "7 (barrier), and its process runs; 511 ranks have waited 10.0 s",
        newest, "of the newest ring");
    ok(strstr(oldest, "rank 100 (node12, pid 900) has not entered"), "and of the whole job: %s", oldest);
    is_int(RANKS, owner_asked, "of each process it is asked once whether it runs");
}

static int
count_bytes(void *arg, const char *bytes, size_t n)
{
    *(size_t *)arg += n;
    return 0;
}

static void
test_json(void)
{
    size_t bytes = 0;
    hp_json json;
    owner_asked = 0;
    hp_json_begin(&json, count_bytes, &bytes);
    hp_json_list(&json, NULL);
    hp_table_json(&job, &json, AT * HP_SEC);
    hp_json_close(&json);
    is_int(0, hp_json_end(&json), "as JSON, %zu bytes", bytes);
    is_int(RANKS, owner_asked, "each process is asked for once");
}

/* A question that searched the rings would find nobody. */
static void
test_questions(void)
{
    hp_whereabouts where = hp_whereabouts_take(&job, NULL, AT * HP_SEC);
    int good = 0;
    job.rosters = NULL;
    for (int k = 0; k < MANY; k++) {
        const hp_wait_place here = {.ring = &rosters[k], .rank = -1};
        const hp_stay *stay = hp_whereabouts_find(&where, &members[0], &here);
        hp_stay late = hp_whereabouts_known(&where, &members[LATE]);
        good +=
            case_ok(stay && stay->place.ring == (k == 0 ? &rosters[5] : &rosters[0]) && stay->since == 90 * HP_SEC &&
                        !hp_whereabouts_find(&where, &members[LATE], &here) && late.heard == AT * HP_SEC,
                    "ring %d", k);
    }
    is_int(MANY, good, "the list alone tells where each one waits besides");
    job.rosters = rosters;
    hp_whereabouts_free(&where);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    fill();
    test_table();
    test_json();
    test_questions();
    return tap_failures() != 0;
}
