/* SPDX-License-Identifier: MIT */
/*
 * hold_up: see hold_up.h. If the awaited rank waits in another communicator, the sentence has both. A rank that computes
 * reports nothing, so silence counts only if a report is due, or if the host does not take the bytes sent to it.
 */
#include "rendezvous/hold_up.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_TEXT = 2 * HP_NOUN + 4, DEED_TEXT = 64 };

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
    return c->blame.rank < 0 ? -1 : hp_ring_rank_of(&c->from.ring->ring, &c->last.ring->ring.members[c->blame.rank]);
}

/* --- sentences --- */

/* How many connections are made again, and one of them. Both ends may have reported it. */
static int
count_mends(const hp_roster *r, int *one, int *other)
{
    int n = 0;
    *one = *other = -1;
    for (int i = r->ring.size - 1; i >= 0; i--) {
        int peer = hp_link_loss_mends(&r->losses, r->witnesses, i);
        if (peer < 0 || (peer < i && hp_link_loss_mends(&r->losses, r->witnesses, peer) == i))
            continue;
        *one = i < peer ? i : peer;
        *other = i < peer ? peer : i;
        n++;
    }
    return n;
}

/* "operation 7 (barrier) of the whole job", "hoop_comm_split 2 of "tp"", "recv of 5 x int8 (tag 3) of the whole job" */
static const char *
print_place(const hp_wait_place *p, const hp_blame *blame, char out[PLACE_TEXT])
{
    hp_noun what;
    if (hp_wait_place_is_operation(p))
        what = hp_say_operation(blame->sequence, &blame->call);
    else if (p->split)
        snprintf(what.text, HP_NOUN, "%s %u", hp_join_group_call(p->split), p->split->split);
    else
        hp_call_print(&hp_wait_place_message(p)->call, what.text, HP_NOUN);
    snprintf(out, PLACE_TEXT, "%s of %s", what.text, hp_say_ring(p->ring->label, p->ring->name).text);
    return out;
}

/* Ranks are named by their numbers in the oldest place's ring. The order of calls is not to blame for a connection. */
static void
print_circle(const hp_wait_chain *c, uint64_t stalled, char *out, size_t size)
{
    char mine[PLACE_TEXT], theirs[PLACE_TEXT], more[48] = "";
    int one, other, mends = count_mends(c->last.ring, &one, &other);
    hp_blame next = hp_wait_place_blame(&c->second);
    const hp_member *members = c->last.ring->ring.members;
    if (c->circle > 2)
        snprintf(more, sizeof(more), ", in a circle of %d calls", c->circle);
    snprintf(out, size, "%s waits in %s, and %s in %s%s%s; waited %.1f s",
             hp_member_process(&members[c->blame.rank]).text, print_place(&c->second, &next, theirs),
             hp_member_process(&members[hp_ring_rank_of(&c->last.ring->ring, c->waiter)]).text,
             print_place(&c->last, &c->blame, mine), more, mends ? "" : ": call them in the same order",
             (double)stalled / 1e9);
}

/* What the awaited rank has not done. */
static const char *
missed(const hp_wait_place *p)
{
    if (p->split)
        return "called";
    if (p->rank < 0)
        return "entered";
    return hp_wait_place_message(p)->awaited.what == HP_WAIT_LINK ? "received" : "sent";
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
    if (!hp_wait_place_is_operation(&c->last))
        return c->blame.guilt != HP_GUILT_SELF;
    if (c->blame.rank == hp_ring_rank_of(&c->last.ring->ring, waits))
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
        snprintf(out, size, "; %s in %s %u", waited.text, hp_join_group_call(c->from.split), c->from.split->split);
    else if (c->from.rank >= 0)
        snprintf(out, size, "; rank %d has waited %.1f s for rank %d", c->from.rank, (double)stalled / 1e9,
                 c->first.rank);
    else
        snprintf(out, size, "; %s in operation %llu", waited.text, (unsigned long long)c->first.sequence);
}

/* What a sentence has no room for is left out, not cut. */
static void
add(const char *part, char *out, size_t size)
{
    size_t n = strlen(out);
    if (n + strlen(part) < size)
        snprintf(out + n, size - n, "%s", part);
}

/* No rank is named at the end, but what the last place says itself. */
static void
print_last(const hp_wait_chain *c, const hp_member *waits, const char *over, uint64_t stalled, char *out, size_t size)
{
    char text[200], place[PLACE_TEXT], first[200];
    const hp_roster *r = c->last.ring;
    if (hp_wait_place_is_operation(&c->last)) {
        hp_blame_print(&c->blame, r->witnesses, r->ring.members, stalled, text, sizeof(text));
        snprintf(out, size, "%s waits%s in %s, where %s", hp_member_process(waits).text, over,
                 hp_say_ring(r->label, r->name).text, text);
        return;
    }
    print_first(c, stalled, first, sizeof(first));
    snprintf(out, size, "%s waits%s in %s for its own %s", hp_member_process(waits).text, over,
             print_place(&c->last, &c->blame, place),
             hp_wait_place_message(&c->last)->awaited.what == HP_WAIT_STREAM ? "stream" : "device");
    add(first, out, size);
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
    add(first, out, size);
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
        place.ring = hp_job_ring(where->job->rosters, place.split->parent);
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
    const hp_waiting *message = hp_wait_place_message(&c->from);
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

enum { AWAY_MS = 1500 }; /* without an acknowledgement: two looks of the server */

/* --- silent ranks --- */

typedef struct silence {
    uint64_t *ranks;  /* a set */
    int first, count; /* first: the lowest of them, or -1 */
    int waiting;      /* ranks in an operation that are not among them */
    int hosts;        /* 1: they are on several hosts */
    uint64_t spoke;   /* when anything of a rank on one of their hosts arrived last */
} silence;

/*
 * Whether the server has received nothing from a rank that must report, or the rank's host has not taken the
 * PING that was sent half a time-out ago.
 */
static int
is_silent(const hp_roster *r, int rank, uint64_t sequence, uint64_t seen_since)
{
    const hp_witness *w = &r->witnesses[rank];
    if (w->left || (!w->in_op && w->completed >= sequence))
        return 0;
    if (w->in_op)
        return w->last_seen < seen_since;
    return !r->peers[rank] || !r->events->reached(r->events->arg, r->peers[rank]);
}

static void
note_silent(silence *s, const hp_roster *r, int rank)
{
    const hp_member *members = r->ring.members;
    hp_rank_set_add(s->ranks, rank);
    s->count++;
    s->first = s->first < 0 ? rank : s->first;
    for (int i = 0; i < r->ring.size; i++)
        if (members[i].host_id == members[rank].host_id && r->witnesses[i].heard > s->spoke)
            s->spoke = r->witnesses[i].heard;
    s->hosts |= members[rank].host_id != members[s->first].host_id;
}

/* Those that wait in an operation or have not completed `sequence`, and have sent nothing. Without memory there are none. */
static silence
find_silent(const hp_roster *r, uint64_t sequence)
{
    silence s = {.ranks = hp_rank_set_new(r->ring.size), .first = -1};
    uint64_t seen_since = hp_blame_silent_before(r->witnesses, r->ring.size, HP_SILENT_HEARTBEATS * r->heartbeat);
    for (int i = 0; s.ranks && i < r->ring.size; i++)
        if (is_silent(r, i, sequence, seen_since))
            note_silent(&s, r, i);
        else
            s.waiting += r->witnesses[i].in_op;
    return s;
}

static void
print_silent(const hp_roster *r, const silence *s, const hp_blame *blame, uint64_t now, char *out, size_t size)
{
    const hp_member *who = &r->ring.members[s->first];
    double ago = s->spoke < now ? (double)(now - s->spoke) / 1e9 : 0;
    hp_noun since = hp_say_waited(s->waiting, now - r->moved);
    hp_noun operation = hp_say_operation(blame->sequence, &blame->call);
    if (s->count == 1)
        snprintf(out, size, "%s is unreachable or stopped; its host last spoke %.1f s ago; %s in %s",
                 hp_member_process(who).text, ago, since.text, operation.text);
    else
        snprintf(out, size, "%s (%s%.40s) are unreachable or stopped; their host%s last spoke %.1f s ago; %s in %s",
                 hp_say_ranks(s->ranks, r->ring.size, 1).text, s->hosts ? "the first on " : "",
                 hp_say_host(who->host).text, s->hosts ? "s" : "", ago, since.text, operation.text);
}

/* If the blamed rank is silent, and not known to be stopped, the text names all silent ranks; else it stays. */
static void
name_silent_ranks(const hp_roster *r, hp_blame *blame, uint64_t now, char *text, size_t size)
{
    silence s = find_silent(r, blame->sequence);
    if (s.count && blame->rank >= 0 && hp_rank_set_has(s.ranks, blame->rank) && blame->process != HP_PROCESS_STOPPED) {
        print_silent(r, &s, blame, now, text, size);
        blame->rank = s.first;
    }
    free(s.ranks);
}

void
hp_hold_up_add_away(const hp_roster *r, int named, char *text, size_t size)
{
    uint64_t *away = hp_rank_set_new(r->ring.size);
    size_t used = strlen(text);
    int n = 0;
    for (int i = 0; away && i < r->ring.size; i++)
        if (!r->witnesses[i].left && r->witnesses[i].silence >= AWAY_MS * HP_MS) {
            hp_rank_set_add(away, i);
            n++;
        }
    if (n && (named < 0 || !hp_rank_set_has(away, named)) && used < size)
        snprintf(text + used, size - used, "; %s %s unreachable", hp_say_ranks(away, r->ring.size, 1).text,
                 n > 1 ? "are" : "is");
    free(away);
}

void
hp_hold_up_add_mends(const hp_roster *r, char *text, size_t size)
{
    char mends[120];
    int one, other, n = count_mends(r, &one, &other);
    snprintf(mends, sizeof(mends), "; the connection between rank %d and rank %d is being made again", one, other);
    if (n > 1)
        snprintf(mends, sizeof(mends), "; %d connections are being made again, one of them between rank %d and rank %d",
                 n, one, other);
    if (n)
        add(mends, text, size);
}

/* --- the rank for which the others wait --- */

static hp_blame
blame_of(const hp_roster *r)
{
    return hp_blame_find(r->witnesses, r->ring.size, HP_SILENT_HEARTBEATS * r->heartbeat);
}

static void
print(const hp_whereabouts *where, const hp_roster *r, hp_blame *blame, uint64_t stalled, uint64_t now, char *out,
      size_t size)
{
    if (blame->guilt == HP_GUILT_ABSENT || blame->guilt == HP_GUILT_SILENT)
        blame->process = hp_whereabouts_process(where, &r->ring.members[blame->rank], stalled);
    hp_blame_print(blame, r->witnesses, r->ring.members, stalled, out, size);
    if (blame->guilt == HP_GUILT_ABSENT && now >= r->moved + 2 * HP_ASK_AFTER)
        name_silent_ranks(r, blame, now, out, size);
}

static hp_blame
find(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, uint64_t now, char *out, size_t size)
{
    hp_blame blame = blame_of(r);
    const hp_wait_place here = {.ring = r, .rank = -1};
    if (blame.guilt != HP_GUILT_ABSENT || !hp_wait_chain_print(where, &here, stalled, &blame.rank, out, size))
        print(where, r, &blame, stalled, now, out, size);
    return blame;
}

hp_blame
hp_hold_up_find(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, char *out, size_t size)
{
    hp_blame blame = find(where, r, stalled, r->moved + stalled, out, size);
    hp_hold_up_add_away(r, blame.rank, out, size);
    hp_hold_up_add_mends(r, out, size);
    return blame;
}

void
hp_hold_up_here(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, char *out, size_t size)
{
    hp_blame blame = blame_of(r);
    print(where, r, &blame, stalled, r->moved + stalled, out, size);
}

/* --- errors --- */

static hp_blame
end_stall(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error)
{
    char text[256];
    hp_blame blame = hp_hold_up_find(where, r, now - r->moved, text, sizeof(text));
    name_silent_ranks(r, &blame, now, text, sizeof(text));
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    return blame;
}

static hp_blame
end_overrun(const hp_whereabouts *where, const hp_roster *r, int rank, uint64_t now, hoop_error *error)
{
    const hp_witness *w = &r->witnesses[rank];
    uint64_t waited = w->report.overdue + (now - w->last_seen);
    char text[256];
    hp_blame blame = find(where, r, waited, now, text, sizeof(text));
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    if (blame.guilt == HP_GUILT_LINK || blame.guilt == HP_GUILT_SELF) {
        blame.rank = rank;
        hp_err_set(error, HOOP_ERR_TIMEOUT, "%s has waited %.1f s for %s, which was the limit of that wait",
                   hp_member_name(&r->ring.members[rank]).text, (double)waited / 1e9,
                   hp_say_operation(blame.sequence, &blame.call).text);
    }
    error->reporter = rank;
    return blame;
}

void
hp_hold_up_timeout(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error)
{
    int stalled = now - r->moved >= hp_limit_shortest(r->witnesses, r->ring.size, r->op_timeout);
    hp_blame blame = stalled ? end_stall(where, r, now, error)
                             : end_overrun(where, r, hp_limit_overdue(r->witnesses, r->ring.size), now, error);
    error->rank = blame.rank;
    error->sequence = blame.sequence;
}

void
hp_hold_up_message(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error)
{
    const hp_wait_place here = {.ring = r, .rank = error->reporter};
    const hp_witness *w = &r->witnesses[error->reporter];
    char text[256];
    if (hp_blame_awaits_message(w) &&
        hp_wait_chain_print(where, &here, w->waiting.since + (now - w->waiting_at), &error->rank, text, sizeof(text)))
        snprintf(error->text, sizeof(error->text), "%s", text);
}
