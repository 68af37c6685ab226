/* SPDX-License-Identifier: MIT */
/* Which ranks are started again, when and where: restarts that run out, pauses, hosts that are lost, free slots. */
#include "launch/places.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hp_options options;
static hp_mapping mapping;
static hp_places places;
static uint64_t now;
static int others = 1; /* that run when a rank fails */

static void
begin(const char *list, int ranks, int restarts)
{
    static char *program[] = {"./train", NULL};
    hoop_error error;
    options = (hp_options){.argv = program, .ranks = ranks, .agent.max_restarts = restarts};
    hp_strings_add(&options.rsh, strdup("ssh"));
    if (hp_hostfile_parse(&options.hosts, "-H", 0, list, strlen(list), &error) != HOOP_SUCCESS ||
        hp_mapping_make(&mapping, &options, &error) != HOOP_SUCCESS)
        bail("no mapping: %s", error.text);
    hp_places_open(&places, &mapping);
    now = 1000 * HP_SEC;
}

static void
end(void)
{
    hp_places_close(&places);
    hp_mapping_free(&mapping);
    hp_options_free(&options);
}

/* A rank's process fails after so many seconds; what follows. */
static const char *
fails(int rank, unsigned seconds)
{
    static hp_rank_exit ended;
    ended = (hp_rank_exit){.rank = rank};
    hp_places_failed(&places, rank, others, seconds * HP_SEC, now);
    hp_places_note(&places, others, &ended);
    return ended.note;
}

/* Seconds until the rank is started; it is started then. -1: it is not due. */
static int
starts(int rank)
{
    if (places.rank[rank].state != HP_PLACE_DUE)
        return -1;
    uint64_t wait = hp_places_wait(&places, now, 60 * HP_SEC);
    if (wait > 0 && hp_places_next(&places, now + wait - 1) >= 0)
        return -1;
    now += wait;
    return hp_places_next(&places, now) == rank ? (int)(wait / HP_SEC) : -1;
}

static void
check_one(void)
{
    begin("a:2", 2, 3);
    is_int(-1, hp_places_next(&places, now), "at first no start is due");
    ok(hp_places_wait(&places, now, 7) == 7, "nor will one be");
    is_string("; it is started again (restart 1 of 3)", fails(1, 1), "a rank fails");
    is_int(0, starts(1), "and is started at once");
    is_int(-1, hp_places_next(&places, now), "once");
    is_string("; it is started again in 1 s (restart 2 of 3)", fails(1, 1), "it fails again at once");
    is_int(1, starts(1), "and is started a second later");
    is_string("; it is started again (restart 3 of 3)", fails(0, 1), "the other fails");
    is_int(0, starts(0), "that is the first time");
    others = 0;
    is_string("; nobody is left to take it in", fails(1, 1), "one that is the last to run is not started");
    others = 1;
    is_string("; no restart is left", fails(1, 1), "all ranks share the restarts");
    is_int(-1, starts(1), "it is not started");
    end();
    begin("a:2", 2, 0);
    is_string("", fails(1, 1), "without --max-restarts nothing is said");
    end();
}

static void
check_pauses(void)
{
    static const int pauses[] = {0, 1, 2, 4, 8, 16, 30, 30};
    begin("a:1", 1, 99);
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        fails(0, 9);
        is_int(pauses[i], starts(0), "pause %zu", i);
    }
    fails(0, 10);
    is_int(0, starts(0), "none after a longer life");
    fails(0, 9);
    is_int(1, starts(0), "then from the beginning");
    end();
}

static void
check_hosts(void)
{
    begin("a:3,b:2,c:1", 5, 9);
    is_int(1, hp_places_lost(&places, 1, now), "a host is lost with two ranks: one has no other place");
    ok(places.rank[3].next == 2 && places.rank[4].state == HP_PLACE_EMPTY, "the other has one on a host without ranks");
    is_int(1, places.rank[3].host, "until it is started it belongs to the lost host");
    is_int(0, starts(3), "it is started at once");
    is_int(2, places.rank[3].host, "there");
    is_int(1, places.rank[3].moved, "which is another host");
    is_string("; it is started again (restart 2 of 9)", fails(3, 10), "it fails there");
    ok(starts(3) == 0 && !places.rank[3].moved, "and is started again on that host");
    is_string("; it is started again (restart 3 of 9)", fails(0, 1), "a rank fails on a host that is not lost");
    is_int(0, places.rank[0].next, "its place is its own");
    is_int(1, hp_places_lost(&places, 2, now), "another host is lost: its rank has no place");
    is_int(3, hp_places_lost(&places, 0, now), "the last one: nor have two that ran there, and one that was due");
    end();
    begin("a:2,b:2", 3, 1);
    hp_places_ended(&places, 0);
    is_int(0, hp_places_lost(&places, 1, now), "a rank that has ended leaves its slot");
    is_int(0, places.rank[2].next, "to one of a lost host");
    is_int(1, places.used, "which is a restart");
    is_int(2, hp_places_lost(&places, 0, now), "if that host is lost, too, nobody is left");
    is_int(1, places.used, "and no restart was used for it");
    end();
}

/* A host is lost after its agent was told to start a rank, and before that has happened. */
static void
check_start_lost(void)
{
    begin("a:1,b:1,c:1,d:1", 1, 1);
    is_int(0, hp_places_lost(&places, 0, now), "a host is lost whose rank is started on the next one");
    is_int(0, starts(0), "at once");
    is_int(0, hp_places_lost(&places, 1, now), "that is lost before the rank has started there");
    is_int(0, starts(0), "so it is started on one more");
    is_int(2, places.rank[0].host, "the next one");
    is_int(1, places.used, "with the same restart");
    hp_places_started(&places, 0);
    is_int(1, hp_places_lost(&places, 2, now), "where it did start no restart is left for it");
    end();
}

int
main(void)
{
    plan_lazy();
    check_one();
    check_pauses();
    check_hosts();
    check_start_lost();
    return 0;
}
