/* SPDX-License-Identifier: MIT */
/*
 * race: see race.h. A race owns one dial for each address that has begun, and looks every 50 ms whether the next one
 * begins. A dial that has failed for good is freed at once, and its sentence is kept for the end.
 */
#include "net/race.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_START (250 * HP_MS)
#define GREETING_TIME (2 * HP_SEC)
#define LOOK (50 * HP_MS)

typedef struct runner {
    hp_race *race;
    hp_addr to;
    hp_dial *dial;         /* NULL: not begun, or failed */
    hp_dial_result result; /* once failed */
} runner;

struct hp_race {
    hp_loop *loop;
    hp_timer *timer;
    runner runner[HP_ADDRS_MOST];
    int n, begun;
    uint64_t latest;   /* when the latest one began */
    hp_dial_options o; /* what: points to this: */
    char what[96];
    hp_keys *keys;
    int closed_most;
};

uint64_t
hp_race_next(uint64_t began, hp_dial_standing standing)
{
    switch (standing) {
    case HP_DIAL_ASKING: return began + HEAD_START;
    case HP_DIAL_GREETING: return began + GREETING_TIME;
    case HP_DIAL_MET: return HP_NEVER;
    case HP_DIAL_FAILED: break;
    }
    return began;
}

/* "10.1.0.2:4000: no answer to the connection request; 10.2.0.2:4000: ..." of the first `end` runners, without one. */
static void
list_answers(const hp_race *race, int end, const runner *without, char *text, size_t size)
{
    char where[HP_ADDR_TEXT];
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < end && used < size; i++) {
        const runner *r = &race->runner[i];
        if (r == without)
            continue;
        const char *answer = r->dial           ? hp_dial_answer(r->dial)
                             : i < race->begun ? r->result.error.text
                                               : "not tried yet";
        used += (size_t)snprintf(text + used, size - used, "%s%s: %.90s", used ? "; " : "",
                                 hp_addr_print(&r->to, where), answer);
    }
}

/* --- the end --- */

static void
stop(hp_race *race)
{
    hp_timer_set(race->timer, HP_NEVER);
    for (int i = 0; i < race->n; i++) {
        hp_dial_free(race->runner[i].dial);
        race->runner[i].dial = NULL;
    }
}

static void
win(runner *winner, const hp_dial_result *result)
{
    hp_race *race = winner->race;
    char where[HP_ADDR_TEXT], others[200];
    int number = (int)(winner - race->runner);
    if (number > 0) {
        list_answers(race, number, NULL, others, sizeof(others));
        hp_log(HP_LOG_INFO, "%s is reached at %s; %s", race->what, hp_addr_print(&winner->to, where), others);
    }
    stop(race);
    race->o.fn(race->o.arg, result);
}

/* The sentence of this address, and the answers of the others. */
static void
lose(hp_race *race, const runner *head)
{
    hp_dial_result result = head->result;
    char others[200];
    size_t used = strlen(result.error.text);
    list_answers(race, race->n, head, others, sizeof(others));
    if (race->n > 1)
        snprintf(result.error.text + used, sizeof(result.error.text) - used, "; and at %s", others);
    stop(race);
    race->o.fn(race->o.arg, &result);
}

/* Who has answered in place of the server, and does not know the job's key. NULL: nobody. */
static const runner *
impostor(const hp_race *race)
{
    int i = 0;
    while (i < race->begun && (race->runner[i].dial || race->runner[i].result.error.code != HOOP_ERR_AUTH))
        i++;
    return race->o.hello.your_rank == HP_RANK_SERVER && i < race->begun ? &race->runner[i] : NULL;
}

/*
 * The peer is proven, and refuses: another address leads to the same answer. What else refuses may not be the peer; and a
 * rank has one connection for each link, so it refuses the second one of a race.
 */
static int
is_final(const hp_race *race, const hp_dial_result *result)
{
    if (race->o.hello.your_rank == HP_RANK_SERVER)
        return result->status != 0;
    return result->status && result->status != HP_BAD_RANK && result->status != HP_BAD_COMM &&
           result->status != HP_DUPLICATE;
}

/* --- the way there --- */

static void look(void *arg);

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    runner *r = arg;
    hp_race *race = r->race;
    if (result->fd >= 0) {
        win(r, result);
        return;
    }
    r->result = *result;
    hp_dial_free(r->dial);
    r->dial = NULL;
    if (is_final(race, result))
        lose(race, r);
    else
        look(race);
}

static void
begin(hp_race *race, uint64_t now)
{
    runner *r = &race->runner[race->begun++];
    hp_dial_options options = race->o;
    options.fn = on_dialled;
    options.arg = r;
    r->dial = hp_dial_new(race->loop, &r->to, &options);
    race->latest = now;
    if (r->dial && race->closed_most)
        hp_dial_limit_closed(r->dial, race->closed_most);
    if (!r->dial)
        hp_err_set(&r->result.error, HOOP_ERR_NO_MEMORY, "out of memory while dialling %s", race->what);
}

/*
 * Begins what is due; ends the race when all have failed. What failed at the first address is the reason, since that should
 * have worked. But an impostor where the server is looked for means a wrong secret, if nothing listens at the others.
 */
static void
look(void *arg)
{
    hp_race *race = arg;
    uint64_t now = hp_loop_now(race->loop);
    int running = 0, heard = 0;
    while (race->begun < race->n) {
        const hp_dial *last = race->runner[race->begun - 1].dial;
        if (now < hp_race_next(race->latest, last ? hp_dial_stands(last) : HP_DIAL_FAILED))
            break;
        begin(race, now);
    }
    for (int i = 0; i < race->begun; i++) {
        running += race->runner[i].dial != NULL;
        heard += race->runner[i].dial && hp_dial_stands(race->runner[i].dial) != HP_DIAL_FAILED;
    }
    const runner *other = impostor(race);
    if (race->begun < race->n)
        hp_timer_set(race->timer, LOOK);
    else if (running == 0 || (other && !heard))
        lose(race, other ? other : &race->runner[0]);
}

hp_race *
hp_race_new(hp_loop *loop, const hp_addr_list *to, const hp_dial_options *options)
{
    hp_race *race = hp_alloc(1, sizeof(*race));
    if (!race)
        return NULL;
    *race = (hp_race){.loop = loop, .n = to->n, .o = *options, .keys = hp_keys_hold(options->keys)};
    race->o.what = race->what;
    snprintf(race->what, sizeof(race->what), "%s", options->what);
    for (int i = 0; i < to->n; i++)
        race->runner[i] = (runner){.race = race, .to = to->addr[i], .result = {.fd = -1}};
    race->timer = hp_timer_new(loop, look, race);
    if (race->timer)
        begin(race, hp_loop_now(loop));
    if (!race->timer || !race->runner[0].dial) {
        hp_race_free(race);
        return NULL;
    }
    if (to->n > 1)
        hp_timer_set(race->timer, LOOK);
    return race;
}

void
hp_race_limit_closed(hp_race *race, int most)
{
    race->closed_most = most;
    for (int i = 0; i < race->begun; i++)
        if (race->runner[i].dial)
            hp_dial_limit_closed(race->runner[i].dial, most);
}

int
hp_race_explain(const hp_race *race, hoop_error *error)
{
    char answers[230];
    if (race->n == 1)
        return race->runner[0].dial && hp_dial_explain(race->runner[0].dial, error);
    for (int i = 0; i < race->begun; i++)
        if (race->runner[i].dial && hp_dial_stands(race->runner[i].dial) == HP_DIAL_MET)
            return hp_dial_explain(race->runner[i].dial, error); /* the peer is found, and waits */
    list_answers(race, race->n, NULL, answers, sizeof(answers));
    hp_err_set(error, HOOP_ERR_RENDEZVOUS, "%s", answers);
    return 1;
}

uint64_t
hp_race_absent_since(const hp_race *race)
{
    uint64_t latest = 0;
    for (int i = 0; i < race->begun; i++) {
        const hp_dial *dial = race->runner[i].dial;
        uint64_t absent = dial ? hp_dial_absent_since(dial) : 0;
        if (dial && !absent && !hp_dial_silent_since(dial))
            return 0;
        latest = absent > latest ? absent : latest;
    }
    return latest;
}

uint64_t
hp_race_silent_since(const hp_race *race)
{
    uint64_t latest = 0;
    for (int i = 0; i < race->begun; i++) {
        const hp_dial *dial = race->runner[i].dial;
        uint64_t silent = dial ? hp_dial_silent_since(dial) : 0;
        if (dial && !silent)
            return 0;
        latest = silent > latest ? silent : latest;
    }
    return latest;
}

void
hp_race_free(hp_race *race)
{
    if (!race)
        return;
    if (race->timer)
        stop(race);
    hp_timer_free(race->timer);
    hp_keys_drop(race->keys);
    free(race);
}
