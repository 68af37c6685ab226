/* SPDX-License-Identifier: MIT */
/* say: ranks, lists of ranks and numbers in words. */
#include "base/say.h"

#include "t/tap/tap.h"

#include <stdlib.h>

static void
test_ranks(void)
{
    uint64_t *set = hp_rank_set_new(200);
    if (!set) {
        ok(0, "there is memory");
        return;
    }
    is_string("ranks", hp_say_ranks(set, 200, 1).text, "none");
    hp_rank_set_add(set, 9);
    is_string("rank 9", hp_say_ranks(set, 200, 1).text, "one");
    is_string("ranks 0-8 and 10", hp_say_ranks(set, 11, 0).text, "those that are not in the set");
    for (int i = 4; i < 7; i++)
        hp_rank_set_add(set, i);
    is_string("ranks 4-6 and 9", hp_say_ranks(set, 200, 1).text, "a range");
    for (int i = 63; i < 66; i++)
        hp_rank_set_add(set, i);
    is_string("ranks 4-6, 9 and 63-65", hp_say_ranks(set, 200, 1).text, "over two words");
    hp_rank_set_remove(set, 64);
    is_string("ranks 4-6, 9, 63 and 65", hp_say_ranks(set, 200, 1).text, "one is taken out");
    for (int i = 0; i < 64; i += 2)
        hp_rank_set_add(set, i);
    is_string("ranks 0, 2, 4-6, 8-10, 12, 14 and 26 more", hp_say_ranks(set, 200, 1).text, "a long list is cut");
    free(set);
}

int
main(void)
{
    const hp_call barrier = {.kind = HP_BARRIER, .root = -1}, unknown = {0};
    tap_limit(240);
    plan_lazy();
    is_string("rank 3 (node2, pid 811)", hp_say_rank(3, "node2", 811).text, "a rank");
    is_string("rank 3 (node2)", hp_say_rank(3, "node2", 0).text, "without its process");
    is_string("a rank on node2 (pid 811)", hp_say_rank(-1, "node2", 811).text, "before it has a number");
    is_string("rank 3 (n123456789012345678901234567890123456...)",
              hp_say_rank(3, "n123456789012345678901234567890123456789.example", 0).text, "a host's name ends in time");
    is_string("n12345678901234567890123456789012345678a", hp_say_host("n12345678901234567890123456789012345678a").text,
              "one that fits is whole");
    is_string("1 operation", hp_say_count(1, "operation").text, "one");
    is_string("0 operations", hp_say_count(0, "operation").text, "none");
    is_string("1 rank has waited 0.5 s", hp_say_waited(1, 500000000).text, "one waits");
    is_string("7 ranks have waited 2.0 s", hp_say_waited(7, 2000000000).text, "some wait");
    is_string("operation 17 (barrier)", hp_say_operation(17, &barrier).text, "an operation");
    is_string("operation 17", hp_say_operation(17, &unknown).text, "of which nothing is known");
    is_string("job 4f21c0de split 0 colour 1 \"dp\"", hp_say_title("job 4f21c0de split 0 colour 1", "dp").text,
              "a ring's line");
    is_string("job 4f21c0de", hp_say_title("job 4f21c0de", "").text, "of one without a name");
    is_string("split 0 colour 1", hp_say_ring("job 4f21c0de split 0 colour 1", "").text, "a ring");
    is_string("\"dp\"", hp_say_ring("job 4f21c0de split 0 colour 1", "dp").text, "by its name");
    is_string("the whole job", hp_say_ring("job 4f21c0de", "").text, "the first one");
    test_ranks();
    return tap_failures() != 0;
}
