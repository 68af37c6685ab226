/* SPDX-License-Identifier: MIT */
/* blame: small stories with one culprit, told by all the others; who is named, and in which words. */
#include "base/clock.h"
#include "rendezvous/blame.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { N_MAX = 64, STORIES = 3000 };
#define SILENCE (750 * HP_MS)

static hp_witness witnesses[N_MAX];
static hp_member members[N_MAX];

/* Everybody is in operation 17 and waits for the rank before. */
static void
everyone_waits(int n)
{
    for (int i = 0; i < n; i++) {
        witnesses[i] = (hp_witness){.report = {.sequence = 17, .step = 100, .awaited = {HP_WAIT_PEER, (i + n - 1) % n}},
                                    .last_seen = 100 * HP_SEC + tap_random() % (250 * HP_MS),
                                    .in_op = 1};
        members[i] = (hp_member){.rank = i, .pid = (uint32_t)i + 800};
        snprintf(members[i].host, HP_HOST_TEXT, "node%d", i / 4 + 1);
    }
}

static const char *
sentence(const hp_blame *blame)
{
    static char text[256];
    hp_blame_print(blame, witnesses, members, 2 * HP_SEC, text, sizeof(text));
    return text;
}

static void
test_culprits(void)
{
    int good[3] = {0};
    for (int k = 0; k < STORIES; k++) {
        int n = 2 + (int)(tap_random() % (N_MAX - 2)), guilty = (int)(tap_random() % (uint64_t)n);
        hp_witness *w = &witnesses[guilty];
        everyone_waits(n);
        if (k % 3 == 0)
            w->in_op = 0;
        if (k % 3 == 1)
            w->last_seen -= 2 * HP_SEC;
        if (k % 3 == 2) {
            w->report.step = 90;
            for (int i = 0; i < n; i++)
                witnesses[i].report.step += (uint64_t)((i + n - guilty) % n);
        }
        hp_blame blame = hp_blame_find(witnesses, n, SILENCE);
        const hp_guilt expected[3] = {HP_GUILT_ABSENT, HP_GUILT_SILENT, HP_GUILT_LINK};
        good[k % 3] += case_ok(
            blame.rank == guilty && blame.guilt == expected[k % 3] && blame.sequence == 17 && blame.waiting == n - 1,
            "story %d of %d ranks: wanted rank %d, guilt %d, operation 17, %d waiting; saw %d, %d, %ju, %d", k, n,
            guilty, expected[k % 3], n - 1, blame.rank, blame.guilt, (uintmax_t)blame.sequence, blame.waiting);
    }
    is_int(STORIES / 3, good[0], "who has not come is named");
    is_int(STORIES / 3, good[1], "who has fallen silent is named");
    is_int(STORIES / 3, good[2], "a circle of the living: who is furthest behind is named");
}

/* A rank may be out of the operation because it is through with it: the chain leads past it to the true culprit. */
static void
test_chains(void)
{
    everyone_waits(6);
    witnesses[2].in_op = 0;
    witnesses[3].report.sequence = 18; /* ahead: not where the walk begins */
    hp_blame blame = hp_blame_find(witnesses, 6, SILENCE);
    is_int(2, blame.rank, "waits 5 -> 4 -> 3 -> 2: rank 2");
    is_string("rank 2 (node1, pid 802) has not entered operation 17, or was stopped; 5 ranks have waited 2.0 s",
              sentence(&blame), "in words");
    witnesses[3].report.call = (hp_call){.kind = HP_BARRIER}; /* of another operation */
    witnesses[4].report.call =
        (hp_call){.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = 262144};
    blame = hp_blame_find(witnesses, 6, SILENCE);
    is_string("rank 2 (node1, pid 802) has not entered operation 17 (allreduce of 262144 x float32, sum), or was "
              "stopped; 5 ranks have waited 2.0 s",
              sentence(&blame), "with the call, where one who waits has said it");
    everyone_waits(6);
    witnesses[1].report.awaited.rank = -1;
    witnesses[4].last_seen -= 2 * HP_SEC;
    blame = hp_blame_find(witnesses, 6, SILENCE);
    is_int(4, blame.rank, "who knows nobody to wait for is not blamed while another is silent");
    witnesses[4].last_seen += 2 * HP_SEC;
    witnesses[1].report.step = 1;
    blame = hp_blame_find(witnesses, 6, SILENCE);
    ok(blame.rank == 1 && blame.guilt == HP_GUILT_SELF, "with nothing else to see, it is");
    is_string("rank 1 (node1, pid 801) is alive, but does not progress in operation 17; 5 ranks have waited 2.0 s",
              sentence(&blame), "in words");
}

static void
test_special(void)
{
    everyone_waits(5);
    witnesses[3].in_op = 0;
    witnesses[3].left = 1;
    witnesses[3].completed = 16;
    hp_blame blame = hp_blame_find(witnesses, 5, SILENCE);
    ok(blame.rank == 3 && blame.guilt == HP_GUILT_LEFT, "who left before the operation");
    is_string(
        "rank 3 (node1) left the communicator after 16 operations, before operation 17; 4 ranks have waited 2.0 s",
        sentence(&blame), "in words");
    witnesses[3].left = 0;
    witnesses[3].completed = 17;
    for (int i = 0; i < 5; i++)
        witnesses[i].in_op = i == 4;
    blame = hp_blame_find(witnesses, 5, SILENCE);
    ok(blame.rank == 3 && blame.other == 4, "who has finished it, but its data did not arrive");
    is_string(
        "rank 3 (node1) has finished operation 17, but rank 4 (node2) still waits for it; 1 rank has waited 2.0 s",
        sentence(&blame), "in words");
    everyone_waits(2);
    witnesses[1].report.step = 5;
    blame = hp_blame_find(witnesses, 2, SILENCE);
    is_string(
        "operation 17 does not progress: rank 1 (node1) waits for rank 0 (node1), and both are alive, so look at the "
        "network between them; 1 rank has waited 2.0 s",
        sentence(&blame), "a dead link in words");
    everyone_waits(4);
    for (int i = 0; i < 4; i++)
        witnesses[i].last_seen -= 60 * HP_SEC;
    witnesses[2].report.step = 3;
    blame = hp_blame_find(witnesses, 4, SILENCE);
    ok(blame.rank == 2 && blame.guilt == HP_GUILT_LINK, "a server that slept itself calls nobody silent");
    for (int i = 0; i < 4; i++)
        witnesses[i].in_op = 0;
    blame = hp_blame_find(witnesses, 4, SILENCE);
    ok(blame.rank == -1 && blame.guilt == HP_GUILT_NONE, "nobody in an operation, nobody to blame");
}

/* Whatever the reports say, the walk ends and names a rank. */
static void
test_nonsense(void)
{
    int good = 0;
    for (int k = 0; k < STORIES; k++) {
        int n = 1 + (int)(tap_random() % 9), busy = 0;
        char text[256];
        everyone_waits(n);
        for (int i = 0; i < n; i++) {
            hp_witness *w = &witnesses[i];
            w->in_op = tap_random() % 4 > 0;
            w->left = tap_random() % 5 == 0;
            w->completed = tap_random() % 3 + 15;
            w->report = (hp_report){.sequence = tap_random() % 3 + 16,
                                    .step = tap_random() % 4,
                                    .awaited = {HP_WAIT_PEER, (int)(tap_random() % 12) - 1}};
            w->last_seen = (tap_random() % 5 + 90) * HP_SEC;
            busy |= w->in_op;
        }
        hp_blame blame = hp_blame_find(witnesses, n, SILENCE);
        good += case_ok(busy ? blame.rank >= 0 && blame.rank < n && blame.other < n : blame.rank == -1,
                        "story %d: of %d ranks%s it names %d, and %d beside it", k, n,
                        busy ? "" : ", none in an operation,", blame.rank, blame.other);
        if (busy)
            hp_blame_print(&blame, witnesses, members, HP_SEC, text, sizeof(text));
    }
    is_int(STORIES, good, "%d random witnesses: always one rank is named", STORIES);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_culprits();
    test_chains();
    test_special();
    test_nonsense();
    return 0;
}
