/* SPDX-License-Identifier: MIT */
/* distance: known distances, that they are the same in both directions, and which name is taken for a mistyped one. */
#include "base/option.h"

#include "t/tap/tap.h"

#include <stdint.h>
#include <string.h>

static void
distances(void)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } pairs[] = {{"", "", 0},
                 {"", "abc", 3},
                 {"slices", "SLICES", 0},
                 {"slice", "slices", 1},
                 {"slcies", "slices", 2},
                 {"kitten", "sitting", 3},
                 {"flaw", "lawn", 2},
                 {"a", "b", 1},
                 {"abcdef", "azced", 3}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        ok(hp_distance(pairs[i].a, pairs[i].b) == pairs[i].distance &&
               hp_distance(pairs[i].b, pairs[i].a) == pairs[i].distance,
           "\"%s\" and \"%s\": %zu", pairs[i].a, pairs[i].b, hp_distance(pairs[i].a, pairs[i].b));
}

static void
long_names(void)
{
    char longest[HP_DISTANCE_MAX + 1], longer[HP_DISTANCE_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    memset(longer, 'a', sizeof(longer));
    longest[sizeof(longest) - 1] = longer[sizeof(longer) - 1] = 0;
    ok(hp_distance(longest, longest) == 0 && hp_distance("", longest) == HP_DISTANCE_MAX, "the longest name");
    ok(hp_distance(longer, "a") == SIZE_MAX && hp_distance("a", longer) == SIZE_MAX, "a longer one is far from all");
}

/* The name of the list that is taken for the word; "" for none. */
static const char *
nearest(const char *word)
{
    static const char *const names[] = {
        "slices", "window", "slots", "windows", "n", "window_bytes", "bootstrap_timeout_ms"};
    const char *best = "";
    hp_nearest search = hp_nearest_of(word);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (hp_nearest_try(&search, names[i]))
            best = names[i];
    return best;
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    distances();
    long_names();
    is_string("slices", nearest("slice"), "a letter is missing");
    is_string("window", nearest("Windwo"), "two letters are exchanged");
    is_string("window", nearest("windowz"), "of two names at the same distance the first is taken");
    is_string("slots", nearest("slut"), "half of the word is guessed");
    is_string("", nearest("abcdefgh"), "a name that shares less than half is none");
    is_string("bootstrap_timeout_ms", nearest("bootstrap_timeout"), "of a long word five letters may be guessed");
    is_string("", nearest("copied_bytes"), "but not six, though the end is the same");
    is_string("", nearest("x"), "one letter alone is not replaced");
    is_string("n", nearest("N"), "the other case is the nearest");
    return 0;
}
