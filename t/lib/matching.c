/* SPDX-License-Identifier: MIT */
/* lib/matching against a model that searches one list from its beginning. */
#include "lib/matching.h"
#include "t/tap/tap.h"

#include <stddef.h>

enum { ENTRIES = 400, KEYS = 200 };

typedef struct entry {
    hp_match match;
    int waits; /* the model's */
} entry;

static entry receives[ENTRIES], messages[ENTRIES];

/* The oldest of the first n that waits under this key; the model's. */
static entry *
oldest(entry *list, int n, uint64_t key)
{
    for (int i = 0; i < n; i++)
        if (list[i].waits && list[i].match.key == key)
            return &list[i];
    return NULL;
}

/* A key among few, or many that share buckets, or with high bits only. */
static uint64_t
some_key(uint64_t keys)
{
    uint64_t key = tap_pick(keys);
    return key | (tap_pick(2) ? (uint64_t)66 << 32 : 0);
}

static int
agrees(const hp_match *found, entry *wanted)
{
    if (found != (wanted ? &wanted->match : NULL))
        return 0;
    if (wanted)
        wanted->waits = 0;
    return 1;
}

static int
post(hp_matching *m, int at, int arrived, uint64_t keys)
{
    uint64_t key = some_key(keys);
    entry *message = oldest(messages, arrived, key);
    receives[at] = (entry){.match = {.key = key}, .waits = !message};
    return agrees(hp_matching_post(m, &receives[at].match), message);
}

static int
arrive(hp_matching *m, int at, int posted, uint64_t keys)
{
    uint64_t key = some_key(keys);
    entry *receive = oldest(receives, posted, key);
    messages[at] = (entry){.match = {.key = key}, .waits = !receive};
    if (!agrees(hp_matching_arrive(m, key), receive))
        return 0;
    if (!receive)
        hp_matching_keep(m, &messages[at].match);
    return 1;
}

static uint64_t
waiting(const entry *list, int n)
{
    uint64_t count = 0;
    for (int i = 0; i < n; i++)
        count += (uint64_t)list[i].waits;
    return count;
}

static int
schedule(uint64_t keys)
{
    hp_matching m = {0};
    int posted = 0, arrived = 0, right = 1;
    uint64_t dropped = 0;
    while (right && posted < ENTRIES && arrived < ENTRIES) {
        if (tap_pick(2)) {
            right = post(&m, posted, arrived, keys);
            posted++;
        } else {
            right = arrive(&m, arrived, posted, keys);
            arrived++;
        }
        right = right && m.posted_n == waiting(receives, posted) && m.unexpected_n == waiting(messages, arrived);
    }
    for (hp_match *left; (left = hp_matching_drop(&m)); dropped++)
        right = right && ((entry *)left)->waits;
    return right && dropped == waiting(messages, arrived) && m.unexpected_n == 0;
}

int
main(void)
{
    int good = 0, n = 300;
    plan(1);
    tap_limit(240);
    for (int i = 0; i < n; i++) {
        uint64_t keys = 1 + tap_pick(i % 3 ? 8 : KEYS);
        good += case_ok(schedule(keys), "schedule %d, %d keys", i, (int)keys);
    }
    is_int(n, good, "every message finds the oldest receive of its key, and every receive the oldest message");
    return 0;
}
