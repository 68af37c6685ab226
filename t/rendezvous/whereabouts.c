/* SPDX-License-Identifier: MIT */
/*
 * whereabouts: the tables of jobs of several shapes, in which ranks wait across rings, splits and messages. Without memory
 * for the list each ring's sentence is that of a ring alone.
 */
#include "rendezvous/whereabouts.h"

#include "base/clock.h"
#include "rendezvous/table.h"
#include "t/rendezvous/lines.h"
#include "t/rendezvous/wait_rings.h"
#include "t/tap/tap.h"
#include "t/tools/ledger.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 4096 };

/* A ring of the whole job alone; nobody is elsewhere. */
static void
make_world(void)
{
    rings_wait(rings_add("ABCD"), "A:D B:A C:B");
}

/* A waits for B, which waits for C in a split, which waits in the world. D is in none of them. */
static void
make_splits(void)
{
    rings_wait(rings_add("ABCD"), "A:B C:D");
    rings_add("AB");
    rings_wait(rings_add("BC"), "B:C");
}

/* B waits in two rings besides. E is in the second one, and not in the world. */
static void
make_two(void)
{
    rings_wait(rings_add("ABCD"), "A:B");
    rings_wait(rings_add("BC"), "B:C");
    rings_wait(rings_add("BDE"), "B:D D:E");
}

/* C has not joined a split, as it receives from D, which waits for it in a ring. */
static void
make_messages(void)
{
    rings_ring *all = rings_add("ABCD");
    rings_split(all, "AB");
    rings_receive(all, "C:D");
    rings_wait(rings_add("CD"), "D:C");
}

/* The world waits for C, and C for B, which waits in the world. */
static void
make_circle(void)
{
    rings_wait(rings_add("ABC"), "A:C B:A");
    rings_wait(rings_add("BC"), "C:B");
}

typedef struct shape {
    const char *what;
    void (*make)(void);
    const char *table;
} shape;

static const shape shapes[] = {
    {"a ring alone", make_world,
     "job 4f21c0de, ring of 4 ranks: rank 3 (nodeD, pid 868) has not entered operation 7 (barrier), and its process "
     "runs; 3 ranks have waited 11.0 s\n"
     "rank  host   pid  operation  for    waits for\n"
     "0     nodeA  865  7 barrier  1.0 s  data from rank 3\n"
     "1     nodeB  866  7 barrier  1.0 s  data from rank 0\n"
     "2     nodeC  867  7 barrier  1.0 s  data from rank 1\n"
     "3     nodeD  868  not in 7\n"},
    {"a split that waits for the world, and the world for the split; one rank in neither", make_splits,
     "job 4f21c0de split 2 colour 0, split of 2 ranks: rank 1 (nodeB, pid 866) waits in operation 2 (barrier) of split "
     "2 colour 0, and rank 2 (nodeC, pid 867) in operation 7 (barrier) of the whole job: call them in the same order; "
     "waited 10.8 s\n"
     "rank  host   pid  operation                         for     waits for\n"
     "0     nodeB  866  2 barrier                         1.0 s   data from rank 1\n"
     "1     nodeC  867  not in 2, waits in the whole job  11.0 s\n"
     "job 4f21c0de, ring of 4 ranks: rank 1 (nodeB, pid 866) waits in operation 2 (barrier) of split 2 colour 0, and "
     "rank 2 (nodeC, pid 867) in operation 7 (barrier) of the whole job: call them in the same order; waited 11.0 s\n"
     "rank  host   pid  operation                            for     waits for\n"
     "0     nodeA  865  7 barrier                            1.0 s   data from rank 1\n"
     "1     nodeB  866  not in 7, waits in split 2 colour 0  10.8 s\n"
     "2     nodeC  867  7 barrier                            1.0 s   data from rank 3\n"
     "3     nodeD  868  not in 7\n"
     "job 4f21c0de split 1 colour 0, split of 2 ranks: no operation lasts\n"
     "rank  host   pid  operation                  for     waits for\n"
     "0     nodeA  865  waits in the whole job     11.0 s\n"
     "1     nodeB  866  waits in split 2 colour 0  10.8 s\n"},
    {"a rank that waits in one of two rings, for one that waits in the other", make_two,
     "job 4f21c0de split 2 colour 0, split of 3 ranks: rank 2 (nodeE, pid 869) has not entered operation 2 (barrier), "
     "or was stopped; 2 ranks have waited 10.8 s\n"
     "rank  host   pid  operation  for    waits for\n"
     "0     nodeB  866  2 barrier  1.0 s  data from rank 1\n"
     "1     nodeD  868  2 barrier  1.0 s  data from rank 2\n"
     "2     nodeE  869  not in 2\n"
     "job 4f21c0de split 1 colour 0, split of 2 ranks: rank 1 (nodeC, pid 867) has not entered operation 1 (barrier), "
     "and its process runs; 1 rank has waited 10.9 s\n"
     "rank  host   pid  operation  for    waits for\n"
     "0     nodeB  866  1 barrier  1.0 s  data from rank 1\n"
     "1     nodeC  867  not in 1\n"
     "job 4f21c0de, ring of 4 ranks: rank 1 (nodeB, pid 866) waits in operation 1 (barrier) of split 1 colour 0 for "
     "rank 2 (nodeC, pid 867), which has not entered it, and its process runs; 1 rank has waited 11.0 s in operation "
     "7\n"
     "rank  host   pid  operation                            for     waits for\n"
     "0     nodeA  865  7 barrier                            1.0 s   data from rank 1\n"
     "1     nodeB  866  not in 7, waits in split 1 colour 0  10.9 s\n"
     "2     nodeC  867  not in 7\n"
     "3     nodeD  868  not in 7, waits in split 2 colour 0  10.8 s\n"},
    {"ranks in a split, and a message and a ring that wait for each other", make_messages,
     ", split of 4 ranks: rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0, and rank 2 "
     "(nodeC, pid 867) in recv of 5 x float32 (tag 3) of the whole job: call them in the same order; waited 101.0 s\n"
     "job 4f21c0de split 1 colour 0, split of 2 ranks: rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split "
     "1 colour 0, and rank 2 (nodeC, pid 867) in recv of 5 x float32 (tag 3) of the whole job: call them in the same "
     "order; waited 10.9 s\n"
     "rank  host   pid  operation                                               for    waits for\n"
     "0     nodeC  867  not in 1, recv of 5 x float32 (tag 3) of the whole job  5.0 s\n"
     "1     nodeD  868  1 barrier                                               1.0 s  data from rank 0\n"
     "job 4f21c0de, ring of 4 ranks: rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0, and "
     "rank 2 (nodeC, pid 867) in recv of 5 x float32 (tag 3) of the whole job: call them in the same order; waited 5.0 "
     "s\n"
     "rank  host   pid  operation                    for     waits for\n"
     "0     nodeA  865  in hoop_comm_split 1         6.0 s   ranks 2-3\n"
     "1     nodeB  866  in hoop_comm_split 1         5.9 s   ranks 2-3\n"
     "2     nodeC  867  recv of 5 x float32 (tag 3)  5.0 s   data from rank 3\n"
     "3     nodeD  868  waits in split 1 colour 0    10.9 s\n"},
    {"two rings, called in different orders", make_circle,
     "job 4f21c0de split 1 colour 0, split of 2 ranks: rank 2 (nodeC, pid 867) waits in operation 1 (barrier) of split "
     "1 colour 0, and rank 1 (nodeB, pid 866) in operation 7 (barrier) of the whole job: call them in the same order; "
     "waited 10.9 s\n"
     "rank  host   pid  operation                         for     waits for\n"
     "0     nodeB  866  not in 1, waits in the whole job  11.0 s\n"
     "1     nodeC  867  1 barrier                         1.0 s   data from rank 0\n"
     "job 4f21c0de, ring of 3 ranks: rank 2 (nodeC, pid 867) waits in operation 1 (barrier) of split 1 colour 0, and "
     "rank 1 (nodeB, pid 866) in operation 7 (barrier) of the whole job: call them in the same order; waited 11.0 s\n"
     "rank  host   pid  operation                            for     waits for\n"
     "0     nodeA  865  7 barrier                            1.0 s   data from rank 2\n"
     "1     nodeB  866  7 barrier                            1.0 s   data from rank 0\n"
     "2     nodeC  867  not in 7, waits in split 1 colour 0  10.9 s\n"},
};

enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static void
print(const shape *s, char text[TEXT])
{
    const hp_table_options options = {.most = 8, .to.line = keep};
    size_t at = 0;
    rings_begin();
    s->make();
    forget();
    hp_table_print(&rings_job, &options, (RINGS_AT + 1) * HP_SEC);
    text[0] = 0;
    for (int i = 0; i < count && at < TEXT; i++)
        at += (size_t)snprintf(text + at, TEXT - at, "%s\n", lines[i]);
}

static void
test_shapes(void)
{
    char text[TEXT];
    for (int i = 0; i < SHAPES; i++) {
        print(&shapes[i], text);
        is_string(shapes[i].table, text, "%s", shapes[i].what);
    }
}

/* Whether what was printed has a sentence for each ring of the table; it may say less, and rows may be left out. */
static int
has_sentences(const shape *s)
{
    int wanted = 0, seen = 0;
    for (const char *at = s->table; (at = strstr(at, " ranks: ")); at++)
        wanted++;
    for (int i = 0; i < count; i++)
        seen += strstr(lines[i], " ranks: ") != NULL;
    return seen == wanted;
}

static void
test_no_memory(void)
{
    int good = 0, tried = 0;
    char text[TEXT];
    for (int i = 0; i < SHAPES; i++)
        for (int on = 0; on < 2; on++)
            for (unsigned long k = 1, failed = 1; failed; k++) {
                ledger_open(k, on);
                print(&shapes[i], text);
                ledger_sums sums = ledger_close();
                failed = (unsigned long)sums.failed;
                good +=
                    case_ok(has_sentences(&shapes[i]), "shape %d, allocation %lu%s fails", i, k, on ? " and on" : "");
                good -= !case_ok(failed || strcmp(text, shapes[i].table) == 0, "shape %d, none fails", i);
                tried++;
            }
    is_int(tried, good, "without memory each ring has a sentence, %d times", tried);
    ok(tried >= 8 * SHAPES, "of each table several allocations were refused");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_shapes();
    test_no_memory();
    return tap_failures() != 0;
}
