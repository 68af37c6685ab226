/* SPDX-License-Identifier: MIT */
/* say: see say.h. */
#include "base/say.h"

#include <stdio.h>
#include <string.h>

enum { RANGES_SHOWN = 6, HOST_SHOWN = 40 };

hp_noun
hp_say_host(const char *host)
{
    hp_noun noun;
    if (snprintf(noun.text, HOST_SHOWN + 1, "%s", host) > HOST_SHOWN)
        memcpy(noun.text + HOST_SHOWN - 3, "...", 3);
    return noun;
}

hp_noun
hp_say_rank(int rank, const char *host, unsigned pid)
{
    hp_noun noun, name = hp_say_host(host);
    if (rank < 0)
        snprintf(noun.text, HP_NOUN, "a rank on %.40s (pid %u)", name.text, pid);
    else if (pid)
        snprintf(noun.text, HP_NOUN, "rank %d (%.40s, pid %u)", rank, name.text, pid);
    else
        snprintf(noun.text, HP_NOUN, "rank %d (%.40s)", rank, name.text);
    return noun;
}

hp_noun
hp_say_ranks(const uint64_t *set, int n, int value)
{
    hp_noun noun;
    int left = 0, shown = 0;
    for (int i = 0; i < n; i++)
        left += hp_rank_set_has(set, i) == value;
    size_t at = (size_t)snprintf(noun.text, HP_NOUN, "rank%s", left == 1 ? "" : "s");
    for (int i = 0, end; left && i < n; i = end) {
        end = i + 1;
        if (hp_rank_set_has(set, i) != value)
            continue;
        if (shown == RANGES_SHOWN) {
            snprintf(noun.text + at, HP_NOUN - at, " and %d more", left);
            break;
        }
        while (end < n && hp_rank_set_has(set, end) == value)
            end++;
        left -= end - i;
        at += (size_t)snprintf(noun.text + at, HP_NOUN - at, "%s %d", !shown ? "" : left ? "," : " and", i);
        if (end - i > 1)
            at += (size_t)snprintf(noun.text + at, HP_NOUN - at, "-%d", end - 1);
        shown++;
    }
    return noun;
}

hp_noun
hp_say_count(uint64_t n, const char *one)
{
    hp_noun noun;
    snprintf(noun.text, HP_NOUN, "%llu %s%s", (unsigned long long)n, one, n == 1 ? "" : "s");
    return noun;
}

hp_noun
hp_say_waited(int ranks, uint64_t ns)
{
    hp_noun noun;
    snprintf(noun.text, HP_NOUN, "%d rank%s waited %.1f s", ranks, ranks == 1 ? " has" : "s have", (double)ns / 1e9);
    return noun;
}

hp_noun
hp_say_operation(uint64_t sequence, const hp_call *call)
{
    hp_noun noun;
    hp_call_print_operation(call, sequence, noun.text, HP_NOUN);
    return noun;
}

hp_noun
hp_say_others(int others, int go_on)
{
    hp_noun then = {""};
    if (others > 0 && go_on)
        snprintf(then.text, HP_NOUN, "; %d other%s", others, others == 1 ? " goes on" : "s go on");
    else if (others > 0)
        snprintf(then.text, HP_NOUN, "; stopping %d other%s", others, others == 1 ? "" : "s");
    return then;
}

hp_noun
hp_say_title(const char *label, const char *name)
{
    hp_noun noun;
    const char *quote = name[0] ? "\"" : "";
    snprintf(noun.text, HP_NOUN, "%s%s%s%s%s", label, name[0] ? " " : "", quote, name, quote);
    return noun;
}

const char *
hp_say_split(const char *label)
{
    const char *split = strstr(label, "split ");
    return split ? split : strstr(label, "epoch ");
}

hp_noun
hp_say_ring(const char *label, const char *name)
{
    hp_noun noun;
    const char *split = hp_say_split(label);
    snprintf(noun.text, HP_NOUN, name[0] ? "\"%s\"" : "%s", name[0] ? name : split ? split : "the whole job");
    return noun;
}
