/* SPDX-License-Identifier: MIT */
/* wait_chain: see wait_chain.h. */
#include "rendezvous/wait_chain.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "rendezvous/rings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_TEXT = 2 * HP_NOUN + 4, DEED_TEXT = 64 };

/* The rank of this process in the ring; -1: none. */
static int
rank_of(const hp_roster *r, const hp_member *who)
{
    for (int i = 0; i < r->ring.size; i++)
        if (hp_member_same(&r->ring.members[i], who))
            return i;
    return -1;
}

static int
is_operation(const hp_wait_place *p)
{
    return !p->split && p->rank < 0;
}

static const hp_waiting *
message_of(const hp_wait_place *p)
{
    return &p->ring->witnesses[p->rank].waiting;
}

/* --- the walk --- */

hp_wait_chain
hp_wait_chain_find(const hp_whereabouts *where, const hp_wait_place *from)
{
    hp_wait_chain c = {.from = *from, .last = *from, .first = hp_wait_place_blame(from)};
    hp_wait_finding found = hp_whereabouts_follow(where, from, &c.first);
    c.blame = c.first;
    if (found.waiter < 0)
        return c;
    const hp_stay *last = where->waits[found.waiter].at;
    c.last = last->place;
    c.waiter = last->who;
    c.blame = hp_wait_place_blame(&c.last);
    c.hops = found.hops;
    c.circle = found.circle;
    if (c.circle)
        c.second = ((const hp_stay *)where->waits[found.culprit].at)->place;
    return c;
}

int
hp_wait_chain_guilty(const hp_wait_chain *c)
{
    if (!c->hops || c->circle)
        return c->first.rank;
    return c->blame.rank < 0 ? -1 : rank_of(c->from.ring, &c->last.ring->ring.members[c->blame.rank]);
}

/* --- sentences --- */

/* "operation 7 (barrier) of the whole job", "hoop_comm_split 2 of "tp"", "recv of 5 x int8 (tag 3) of the whole job" */
static const char *
print_place(const hp_wait_place *p, const hp_blame *blame, char out[PLACE_TEXT])
{
    hp_noun what;
    if (is_operation(p))
        what = hp_say_operation(blame->sequence, &blame->call);
    else if (p->split)
        snprintf(what.text, HP_NOUN, "hoop_comm_split %u", p->split->split);
    else
        hp_call_print(&message_of(p)->call, what.text, HP_NOUN);
    snprintf(out, PLACE_TEXT, "%s of %s", what.text, hp_say_ring(p->ring->label, p->ring->name).text);
    return out;
}

/* Ranks are named by their numbers in the oldest place's ring. */
static void
print_circle(const hp_wait_chain *c, uint64_t stalled, char *out, size_t size)
{
    char mine[PLACE_TEXT], theirs[PLACE_TEXT], more[48] = "";
    hp_blame next = hp_wait_place_blame(&c->second);
    const hp_member *members = c->last.ring->ring.members;
    if (c->circle > 2)
        snprintf(more, sizeof(more), ", in a circle of %d calls", c->circle);
    snprintf(out, size, "%s waits in %s, and %s in %s%s: call them in the same order; waited %.1f s",
             hp_member_process(&members[c->blame.rank]).text, print_place(&c->second, &next, theirs),
             hp_member_process(&members[rank_of(c->last.ring, c->waiter)]).text, print_place(&c->last, &c->blame, mine),
             more, (double)stalled / 1e9);
}

/* What the awaited rank has not done. */
static const char *
missed(const hp_wait_place *p)
{
    if (p->split)
        return "called";
    if (p->rank < 0)
        return "entered";
    return message_of(p)->awaited.what == HP_WAIT_LINK ? "received" : "sent";
}

/* What is said of the rank at the end. */
static const char *
deed(const hp_whereabouts *where, const hp_wait_chain *c, uint64_t stalled, char out[DEED_TEXT])
{
    static const char *const process[] = {
        [HP_PROCESS_UNKNOWN] = ", or was stopped",
        [HP_PROCESS_RUNS] = ", and its process runs",
        [HP_PROCESS_STOPPED] = ": its process is stopped",
    };
    const hp_roster *r = c->last.ring;
    hp_process state = hp_whereabouts_process(where, &r->ring.members[c->blame.rank], stalled);
    if (c->blame.guilt == HP_GUILT_ABSENT)
        snprintf(out, DEED_TEXT, "has not %s it%s", missed(&c->last), process[state]);
    else if (c->blame.guilt == HP_GUILT_LEFT)
        snprintf(out, DEED_TEXT, "left that communicator before it");
    else
        snprintf(out, DEED_TEXT, "is stopped%s",
                 state == HP_PROCESS_STOPPED ? ", by a signal or a debugger" : " or unreachable");
    return out;
}

/* Whether one rank can be named at the end, beside the one that waits for it. */
static int
has_end(const hp_wait_chain *c, const hp_member *waits)
{
    const hp_witness *w = &c->last.ring->witnesses[c->blame.rank];
    if (!is_operation(&c->last))
        return c->blame.guilt != HP_GUILT_SELF;
    if (c->blame.rank == rank_of(c->last.ring, waits))
        return 0;
    return c->blame.guilt == HP_GUILT_LEFT || c->blame.guilt == HP_GUILT_SILENT ||
           (c->blame.guilt == HP_GUILT_ABSENT && w->completed < c->blame.sequence && !hp_blame_awaits_stream(w));
}

/* Whom the others wait for in the place of which the chain is. */
static void
print_first(const hp_wait_chain *c, uint64_t stalled, char *out, size_t size)
{
    hp_noun waited = hp_say_waited(c->first.waiting, stalled);
    if (c->from.split)
        snprintf(out, size, "; %s in hoop_comm_split %u", waited.text, c->from.split->split);
    else if (c->from.rank >= 0)
        snprintf(out, size, "; rank %d has waited %.1f s for rank %d", c->from.rank, (double)stalled / 1e9,
                 c->first.rank);
    else
        snprintf(out, size, "; %s in operation %llu", waited.text, (unsigned long long)c->first.sequence);
}

/* How long the others have waited is left out where the sentence has no room for it. */
static void
add_first(const char *first, char *out, size_t size)
{
    size_t n = strlen(out);
    if (n + strlen(first) < size)
        snprintf(out + n, size - n, "%s", first);
}

/* No rank is named at the end, but what the last place says itself. */
static void
print_last(const hp_wait_chain *c, const hp_member *waits, const char *over, uint64_t stalled, char *out, size_t size)
{
    char text[200], place[PLACE_TEXT], first[200];
    const hp_roster *r = c->last.ring;
    if (is_operation(&c->last)) {
        hp_blame_print(&c->blame, r->witnesses, r->ring.members, stalled, text, sizeof(text));
        snprintf(out, size, "%s waits%s in %s, where %s", hp_member_process(waits).text, over,
                 hp_say_ring(r->label, r->name).text, text);
        return;
    }
    print_first(c, stalled, first, sizeof(first));
    snprintf(out, size, "%s waits%s in %s for its own %s", hp_member_process(waits).text, over,
             print_place(&c->last, &c->blame, place),
             message_of(&c->last)->awaited.what == HP_WAIT_STREAM ? "stream" : "device");
    add_first(first, out, size);
}

/* Ranks have their numbers in the first ring; one that is not in it has that of the last one, as "its rank". */
static void
print_end(const hp_whereabouts *where, const hp_wait_chain *c, uint64_t stalled, char *out, size_t size)
{
    char place[PLACE_TEXT], over[40] = "", what[DEED_TEXT], first[200];
    const hp_member *waits = &c->from.ring->ring.members[c->first.rank];
    const hp_member *end = &c->last.ring->ring.members[c->blame.rank];
    int guilty = hp_wait_chain_guilty(c);
    if (c->hops > 1)
        snprintf(over, sizeof(over), ", over %d calls,", c->hops);
    if (!has_end(c, waits)) {
        print_last(c, waits, over, stalled, out, size);
        return;
    }
    print_first(c, stalled, first, sizeof(first));
    snprintf(out, size, "%s waits%s in %s for %s%s, which %s", hp_member_process(waits).text, over,
             print_place(&c->last, &c->blame, place), guilty < 0 ? "its " : "",
             hp_say_rank(guilty < 0 ? c->blame.rank : guilty, end->host, end->pid).text, deed(where, c, stalled, what));
    add_first(first, out, size);
}

void
hp_wait_chain_say(const hp_whereabouts *where, const hp_wait_chain *c, uint64_t stalled, char *out, size_t size)
{
    if (c->circle)
        print_circle(c, stalled, out, size);
    else
        print_end(where, c, stalled, out, size);
}

int
hp_wait_chain_print(const hp_whereabouts *where, const hp_wait_place *from, uint64_t stalled, int *guilty, char *out,
                    size_t size)
{
    hp_wait_place place = *from;
    if (place.split)
        place.ring = hp_rings_find(where->job->rosters, place.split->parent);
    if (!place.ring || (place.split && place.ring->ring.size != place.split->size))
        return 0;
    hp_wait_chain c = hp_wait_chain_find(where, &place);
    if (!c.hops)
        return 0;
    *guilty = hp_wait_chain_guilty(&c);
    hp_wait_chain_say(where, &c, stalled, out, size);
    return 1;
}

/* --- messages --- */

/* The words of the rank's own warning, and whether the other one's process is stopped. */
static void
print_message(const hp_whereabouts *where, const hp_wait_chain *c, uint64_t stalled, char *out, size_t size)
{
    const hp_roster *r = c->from.ring;
    const hp_member *waits = &r->ring.members[c->from.rank], *peer = &r->ring.members[c->first.rank];
    const hp_waiting *message = message_of(&c->from);
    char call[HP_NOUN], whom[200];
    int stopped = hp_whereabouts_known(where, peer).process == HP_PROCESS_STOPPED;
    if (message->awaited.rank < 0)
        snprintf(whom, sizeof(whom), "for its own %s", message->awaited.what == HP_WAIT_STREAM ? "stream" : "device");
    else
        snprintf(whom, sizeof(whom), "%s %.60s, which has not %s it%s",
                 message->awaited.what == HP_WAIT_LINK ? "to" : "from", hp_member_name(peer).text, missed(&c->from),
                 stopped ? ": its process is stopped, by a signal or a debugger" : "");
    snprintf(out, size, "%s waits in %s %s; %.1f s so far", hp_member_name(waits).text,
             hp_call_print(&message->call, call, sizeof(call)), whom, (double)stalled / 1e9);
}

/* The rank of the ring that has waited longest in a message; NULL: none does. */
static const hp_stay *
oldest_message(const hp_whereabouts *where, const hp_roster *ring)
{
    const hp_stay *oldest = NULL;
    for (size_t i = 0; i < where->n; i++) {
        const hp_stay *stay = &where->stays[i];
        if (stay->place.ring == ring && stay->place.rank >= 0 && (!oldest || stay->since < oldest->since))
            oldest = stay;
    }
    return oldest;
}

uint64_t
hp_wait_chain_message(const hp_whereabouts *where, const hp_roster *ring, uint64_t now, char *out, size_t size)
{
    const hp_stay *stay = oldest_message(where, ring);
    if (!stay || now <= stay->since)
        return 0;
    hp_wait_chain c = hp_wait_chain_find(where, &stay->place);
    if (c.hops)
        hp_wait_chain_say(where, &c, now - stay->since, out, size);
    else
        print_message(where, &c, now - stay->since, out, size);
    return now - stay->since;
}

/* --- time-outs --- */

static int
is_due(const hp_roster *r, uint64_t now)
{
    uint64_t limit = hp_limit_shortest(r->witnesses, r->ring.size, r->op_timeout);
    return limit != HP_NEVER && now - r->moved + 2 * r->heartbeat >= limit;
}

/* All rings of a circle have the sentence of the one that was first. */
static void
fail_with(const hp_whereabouts *where, hp_roster *r, const hp_wait_chain *c, uint64_t now)
{
    hoop_error error = where->failed->cause;
    if (!c->circle) {
        char text[sizeof(error.text)];
        hp_wait_chain_say(where, c, now - r->moved, text, sizeof(text));
        hp_err_set(&error, HOOP_ERR_TIMEOUT, "%s", text);
    }
    error.rank = hp_wait_chain_guilty(c);
    error.sequence = c->first.sequence;
    hp_roster_fail(r, &error);
}

/* All chains are found before the first ring fails: a ring that has failed is followed no more. */
void
hp_wait_chain_fail_others(const hp_job *job, const hp_wait_place *failed, uint64_t now)
{
    hp_whereabouts where = hp_whereabouts_take(job, failed->ring, now);
    hp_wait_chain end = hp_wait_chain_find(&where, failed), *chains;
    size_t n = 0, i = 0;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        n++;
    chains = hp_alloc(n, sizeof(*chains));
    for (const hp_roster *r = job->rosters; r && chains; r = r->next, i++) {
        const hp_wait_place place = {.ring = r, .rank = -1};
        if (r->state == HP_ROSTER_RUNNING && r->in_op_n && is_due(r, now))
            chains[i] = hp_wait_chain_find(&where, &place);
    }
    i = 0;
    for (hp_roster *r = job->rosters; r && chains; r = r->next, i++)
        if (chains[i].hops && hp_wait_place_same(&chains[i].last, &end.last) && chains[i].circle == end.circle)
            fail_with(&where, r, &chains[i], now);
    free(chains);
    hp_whereabouts_free(&where);
}
