/* SPDX-License-Identifier: MIT */
/*
 * join_group: see join_group.h. The owner remembers a failed world for a few seconds, so that ranks of the same start
 * that join late get the cause instead of waiting for ranks that have given up. It remembers a failed split until
 * every rank has joined it, because no rank joins the same split twice.
 */
#include "rendezvous/join_group.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/say.h"
#include "net/tcp.h"
#include "rendezvous/registration.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOSTS_SHOWN = 4,
    HOSTS_BYTES = 60, /* behind so many, no further host is shown */
    SETTING_SHOWN = 60,
    AFTERMATH_MS = 3000,
    MOST_WAIT_MS = 86400000 /* the largest HOOP_BOOTSTRAP_TIMEOUT_MS */
};

static void
mark(hp_join_group *m, int rank)
{
    if (rank >= 0 && rank < m->size)
        hp_rank_set_add(m->has_joined, rank);
}

static void
unmark(hp_join_group *m, int rank)
{
    if (rank >= 0)
        hp_rank_set_remove(m->has_joined, rank);
}

hp_join_group *
hp_join_group_new(const hp_events *events, const char *label, const hp_join *first, uint64_t now)
{
    hp_join_group *m = hp_alloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->events = events;
    snprintf(m->label, sizeof(m->label), "%s", label);
    m->parent = first->parent;
    m->split = first->split;
    m->shrink = first->shrink;
    m->grow = first->grow;
    m->size = first->parent ? first->parent_size : first->size;
    m->op_timeout = first->op_timeout;
    m->peer_timeout = first->peer_timeout ? first->peer_timeout : HP_PEER_TIMEOUT_MS * HP_MS;
    m->warn_after = first->warn_after;
    m->opened = now;
    m->deadline = HP_NEVER;
    hp_err_clear(&m->failure);
    m->has_joined = hp_rank_set_new(m->size);
    m->agree = hp_alloc(first->agree_n + 1, 1);
    if (!m->has_joined || !m->agree) {
        hp_join_group_free(m);
        return NULL;
    }
    if (first->agree_n)
        memcpy(m->agree, first->agree, first->agree_n);
    return m;
}

void
hp_join_group_free(hp_join_group *m)
{
    if (!m)
        return;
    free(m->joined);
    free(m->agree);
    free(m->has_joined);
    free(m);
}

int
hp_join_group_is(const hp_join_group *m, const hp_join *join)
{
    if (join->shrink || m->shrink)
        return m->shrink && join->shrink && m->parent == join->parent && !m->failure.code;
    return m->parent == join->parent && (!m->parent || m->split == join->split);
}

int
hp_join_group_has(const hp_join_group *m, int rank)
{
    return rank >= 0 && rank < m->size && hp_rank_set_has(m->has_joined, rank);
}

static int
rank_of(const hp_join *join)
{
    return join->parent ? join->parent_rank : join->member.rank;
}

void
hp_join_group_fail(hp_join_group *m, const hoop_error *error, uint64_t now)
{
    uint8_t payload[HP_ABORT_BYTES];
    char line[400];
    size_t n = hp_abort_put(payload, error);
    for (int i = 0; i < m->joined_n; i++) {
        if (!m->joined[i].peer) { /* it hears of it when it comes back: until then the failure is remembered */
            unmark(m, m->joined[i].member.rank);
            continue;
        }
        m->events->send(m->events->arg, m->joined[i].peer, HP_REFUSED, payload, n);
        hp_events_disconnect(m->events, m->joined[i].peer);
    }
    m->joined_n = 0;
    m->failure = *error;
    m->deadline = now + AFTERMATH_MS * HP_MS;
    if (m->parent)
        snprintf(line, sizeof(line), "%s: %s failed: %s", m->label, hp_join_group_call(m), error->text);
    else
        snprintf(line, sizeof(line), "%s: %s: %s", m->label, m->grow ? "newcomers are refused" : "failed", error->text);
    hp_events_say(m->events, HP_NOTICE_EVENT, line);
    if (m->parent || !m->grow)
        hp_events_failed(m->events, NULL, error, 0);
}

static const hp_joined *
find_rank(const hp_join_group *m, int rank)
{
    for (int i = 0; i < m->joined_n; i++)
        if (m->joined[i].member.rank == rank)
            return &m->joined[i];
    return NULL;
}

static hoop_result
duplicate(const hp_join_group *m, const hp_join *join, hoop_error *error)
{
    hp_noun who = {"another process"};
    int rank = rank_of(join);
    const hp_joined *before = find_rank(m, rank);
    if (before)
        who = hp_member_process(&before->member);
    hp_err_set(error, HOOP_ERR_RENDEZVOUS,
               "duplicate rank: %s has already joined this job; two processes were started with rank %d, or two jobs "
               "share one job name (HOOP_JOB)",
               who.text, rank);
    error->rank = rank;
    return HOOP_ERR_RENDEZVOUS;
}

/* Returns the length of the next line, and moves *at behind it. */
static int
next_line(const char **at, const char *end, const char **line)
{
    *line = *at;
    const char *stop = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
    *at = stop ? stop + 1 : end;
    return (int)((stop ? stop : end) - *line);
}

/* Compares the settings line by line, so that the error can name the first key that differs, with both values. */
static hoop_result
same_settings(const hp_join_group *m, const hp_join *join, hoop_error *error)
{
    const char *a = m->agree, *a_end = a + strlen(a), *b = join->agree, *b_end = b + join->agree_n;
    while (a < a_end || b < b_end) {
        const char *mine, *theirs;
        int n_mine = next_line(&a, a_end, &mine), n_theirs = next_line(&b, b_end, &theirs);
        if (n_mine == n_theirs && memcmp(mine, theirs, (size_t)n_mine) == 0)
            continue;
        char has[SETTING_SHOWN], had[SETTING_SHOWN];
        snprintf(has, sizeof(has), "%.*s", n_theirs ? n_theirs : 7, n_theirs ? theirs : "nothing");
        snprintf(had, sizeof(had), "%.*s", n_mine ? n_mine : 7, n_mine ? mine : "nothing");
        int release = strncmp(has, "hoop=", 5) == 0 || strncmp(had, "hoop=", 5) == 0;
        hp_err_set(error, HOOP_ERR_MISMATCH, "%s differ: %s has \"%s\", the first to join has \"%s\"; %s",
                   release ? "releases of hoop" : "settings", hp_member_process(&join->member).text, has, had,
                   release ? "install the same on all hosts" : "give all ranks the same");
        error->rank = rank_of(join);
        return HOOP_ERR_MISMATCH;
    }
    return HOOP_SUCCESS;
}

static hoop_result
same_size(const hp_join_group *m, const hp_join *join, hoop_error *error)
{
    int size = join->parent ? join->parent_size : join->size;
    if (size == m->size)
        return HOOP_SUCCESS;
    hp_err_set(
        error, HOOP_ERR_MISMATCH,
        "sizes differ: %s was started with size %d, but the first to join with size %d; check HOOP_SIZE, or give "
        "every job a name of its own (HOOP_JOB)",
        hp_member_process(&join->member).text, size, m->size);
    error->rank = rank_of(join);
    return HOOP_ERR_MISMATCH;
}

static hoop_result
make_room(hp_join_group *m, int more, hoop_error *error)
{
    if (m->capacity - m->joined_n >= more)
        return HOOP_SUCCESS;
    int capacity = m->joined_n + more > 8 ? 2 * (m->joined_n + more) : 16;
    hp_joined *joined = realloc(m->joined, (size_t)capacity * sizeof(*joined));
    if (!joined)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "the rendezvous server is out of memory");
    m->joined = joined;
    m->capacity = capacity;
    return HOOP_SUCCESS;
}

static hoop_result
add_member(hp_join_group *m, void *peer, const hp_join *join, uint64_t now, hoop_error *error)
{
    if (make_room(m, 1, error) != HOOP_SUCCESS)
        return error->code;
    hp_joined *member = &m->joined[m->joined_n++];
    *member = (hp_joined){.peer = peer, .number = join->epoch, .member = join->member, .at = now};
    member->member.rank = rank_of(join);
    if (m->parent) {
        member->color = join->color;
        member->key = join->key;
        member->started = join->started;
        member->completed = join->completed;
    }
    mark(m, member->member.rank);
    return HOOP_SUCCESS;
}

static hoop_result
other_call(const hp_join_group *m, const hp_join *join, hoop_error *error)
{
    hp_err_set(error, HOOP_ERR_MISMATCH, "%s has called %s, and another rank %s; all ranks must call the same",
               hp_say_rank(rank_of(join), join->member.host, 0).text, join->grow ? "hoop_comm_grow" : "hoop_comm_split",
               hp_join_group_call(m));
    error->rank = rank_of(join);
    return HOOP_ERR_MISMATCH;
}

/* The place of the rank that sends its JOIN again. */
static hp_joined *
find_same(const hp_join_group *m, const hp_join *join)
{
    for (int i = 0; join->epoch && i < m->joined_n; i++)
        if (m->joined[i].number == join->epoch && hp_member_same(&m->joined[i].member, &join->member))
            return &m->joined[i];
    return NULL;
}

hoop_result
hp_join_group_join(hp_join_group *m, void *peer, const hp_join *join, uint64_t now, hoop_error *error)
{
    int rank = rank_of(join);
    if (m->failure.code) {
        mark(m, rank);
        *error = m->failure;
        return error->code;
    }
    hoop_result result = m->grow == join->grow ? same_size(m, join, error) : other_call(m, join, error);
    if (!result)
        result = same_settings(m, join, error);
    error->phase = HOOP_PHASE_BRINGUP;
    if (result) {
        mark(m, rank);
        hp_join_group_fail(m, error, now);
        return result;
    }
    hp_joined *before = find_same(m, join);
    if (before) {
        if (before->peer)
            hp_events_disconnect(m->events, before->peer);
        before->peer = peer;
        before->away = before->alive = before->silence = 0;
        return HOOP_SUCCESS;
    }
    if (m->shrink ? find_rank(m, rank) != NULL : hp_join_group_has(m, rank)) {
        duplicate(m, join, error);
        error->phase = HOOP_PHASE_BRINGUP;
        return error->code;
    }
    uint64_t until = now + (join->patience < MOST_WAIT_MS ? join->patience : MOST_WAIT_MS) * HP_MS;
    if (until < m->deadline)
        m->deadline = until;
    return add_member(m, peer, join, now, error);
}

static void
vanished(hp_join_group *m, const hp_member *gone, uint64_t now)
{
    hoop_error error;
    hp_err_set(&error, HOOP_ERR_PEER_LOST, "%s vanished while the communicator was being %s",
               hp_member_process(gone).text, m->grow ? "grown" : "split");
    error.rank = gone->rank;
    error.phase = HOOP_PHASE_BRINGUP;
    hp_join_group_fail(m, &error, now);
}

hp_joined *
hp_join_group_entry(const hp_join_group *m, const void *peer)
{
    for (int i = 0; i < m->joined_n; i++)
        if (m->joined[i].peer == peer)
            return &m->joined[i];
    return NULL;
}

hp_join
hp_join_group_joined(const hp_join_group *m, int joined)
{
    const hp_joined *entry = &m->joined[joined];
    return (hp_join){.member = entry->member,
                     .epoch = entry->number,
                     .color = entry->color,
                     .completed = entry->completed,
                     .shrink = m->shrink,
                     .grow = m->grow,
                     .parent = m->parent,
                     .split = m->split};
}

void
hp_join_group_withdraw(hp_join_group *m, int joined)
{
    hp_joined *entry = &m->joined[joined];
    unmark(m, entry->member.rank);
    m->joined_n--; /* the others keep the order in which they came */
    memmove(entry, entry + 1, (size_t)(m->joined_n - joined) * sizeof(*entry));
}

void
hp_join_group_lost(hp_join_group *m, const void *peer, uint64_t now)
{
    const hp_joined *entry = hp_join_group_entry(m, peer);
    if (!entry)
        return;
    hp_member gone = entry->member;
    hp_join_group_withdraw(m, (int)(entry - m->joined));
    if (m->parent && !m->shrink)
        vanished(m, &gone, now);
}

void
hp_join_group_broke(hp_join_group *m, const void *peer, uint64_t now)
{
    hp_joined *entry = hp_join_group_entry(m, peer);
    if (!m->parent || m->shrink || !entry || !entry->number) {
        hp_join_group_lost(m, peer, now);
        return;
    }
    entry->peer = NULL;
    entry->away = now;
    entry->alive = 0;
}

int
hp_join_group_probed(hp_join_group *m, const hp_member *who, int ended, uint64_t now)
{
    int i = 0;
    while (i < m->joined_n && !(m->joined[i].away && hp_member_same(&m->joined[i].member, who)))
        i++;
    if (i == m->joined_n)
        return 0;
    m->joined[i].alive = now;
    m->joined[i].silence = 0;
    if (ended)
        vanished(m, &m->joined[i].member, now);
    return 1;
}

void
hp_join_group_fail_missing(hp_join_group *m, const hp_ended *ended, uint64_t now)
{
    hoop_error error;
    if (m->parent || m->failure.code || m->size != ended->size || m->joined_n == 0 || m->joined_n == m->size)
        return;
    for (int i = 0; i < m->joined_n; i++)
        if (m->joined[i].member.rank < 0)
            return;
    hp_err_set(&error, HOOP_ERR_RENDEZVOUS,
               "%s ended before all ranks had joined; does the program call hoop_comm_create on "
               "every rank?",
               hp_say_rank(ended->rank, ended->host, 0).text);
    error.rank = ended->rank;
    error.phase = HOOP_PHASE_BRINGUP;
    hp_join_group_fail(m, &error, now);
}

int
hp_join_group_take(hp_join_group *m, hp_join_group *from, hoop_error *error)
{
    hp_join first = {.agree = from->agree, .agree_n = strlen(from->agree), .parent_rank = -1};
    if (!from->joined_n)
        return 0;
    first.member = from->joined[0].member;
    if (same_settings(m, &first, error) || make_room(m, from->joined_n, error)) {
        error->phase = HOOP_PHASE_BRINGUP;
        return -1;
    }
    for (int i = 0; i < from->joined_n; i++) {
        m->joined[m->joined_n] = from->joined[i];
        m->joined[m->joined_n].member.rank = m->joined_n;
        m->joined_n++;
    }
    int taken = from->joined_n;
    from->joined_n = 0;
    return taken;
}

void
hp_join_group_excuse(hp_join_group *m, int rank)
{
    mark(m, rank);
}

void
hp_join_group_refuse(hp_join_group *m, int rank, const hoop_error *cause, uint64_t now)
{
    if (!m->failure.code)
        hp_join_group_fail(m, cause, now);
    mark(m, rank);
}

int
hp_join_group_is_known(const hp_join_group *m)
{
    int known = 1;
    for (int rank = 0; rank < m->size; rank++)
        known &= hp_rank_set_has(m->has_joined, rank);
    return known;
}

/* "node1, node2 and 3 more hosts": the hosts of the waiting ranks. */
static void
list_hosts(const hp_join_group *m, char *out, size_t size)
{
    int shown = 0;
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < m->joined_n && at < size; i++) {
        int seen = 0;
        for (int j = 0; j < i && !seen; j++)
            seen = strcmp(m->joined[j].member.host, m->joined[i].member.host) == 0;
        if (seen)
            continue;
        if (++shown > HOSTS_SHOWN || at > HOSTS_BYTES) {
            snprintf(out + at, size - at, " and other hosts");
            return;
        }
        at += (size_t)snprintf(out + at, size - at, "%s%.40s", at ? ", " : "",
                               hp_say_host(m->joined[i].member.host).text);
    }
}

void
hp_join_group_mistrust(hp_join_group *m, const char *address)
{
    snprintf(m->mistrusted, sizeof(m->mistrusted), "; a process at %.60s has another secret", address);
}

void
hp_join_group_missing(const hp_join_group *m, hoop_error *error)
{
    char hosts[136], missing[HP_NOUN + 16];
    int given = 0, left = m->size - m->joined_n;
    double seconds = (double)(m->deadline - m->opened) / 1e9;
    for (int i = 0; i < m->joined_n; i++)
        given += m->joined[i].member.rank >= 0;
    if (given < m->joined_n)
        snprintf(missing, sizeof(missing), "%d of %d ranks", left, m->size);
    else
        snprintf(missing, sizeof(missing), "%s of %d", hp_say_ranks(m->has_joined, m->size, 0).text, m->size);
    list_hosts(m, hosts, sizeof(hosts));
    hp_err_set(error, HOOP_ERR_RENDEZVOUS, "%s did not %s%s within %.1f s; %s on %s %s waiting%s", missing,
               m->parent ? "call " : "join", m->parent ? hp_join_group_call(m) : "", seconds,
               hp_say_count((uint64_t)m->joined_n, "rank").text, hosts, m->joined_n == 1 ? "is" : "are", m->mistrusted);
    for (int i = 0; left == 1 && given == m->joined_n && i < m->size; i++)
        if (!hp_rank_set_has(m->has_joined, i))
            error->rank = i;
    error->phase = HOOP_PHASE_BRINGUP;
}

/* A rank that is away has time to come back, which counts from the last proof that it is alive. */
static void
await_away(hp_join_group *m, uint64_t now)
{
    for (int i = 0; i < m->joined_n; i++) {
        const hp_joined *entry = &m->joined[i];
        uint64_t since = entry->alive ? entry->alive : entry->away;
        /* a proxy may close and refuse for as long as it takes to start it again */
        uint64_t patience =
            entry->member.proxied ? m->peer_timeout : hp_return_ms(entry->silence, m->peer_timeout) * HP_MS;
        if (entry->away && now - since >= patience)
            vanished(m, &entry->member, now);
    }
}

int
hp_join_group_tick(hp_join_group *m, uint64_t now)
{
    await_away(m, now);
    return !m->failure.code && now >= m->deadline && m->joined_n > 0 && m->joined_n < m->size;
}

static int
by_place(const void *a, const void *b)
{
    const hp_joined *x = a, *y = b;
    if (x->color != y->color)
        return x->color < y->color ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->member.rank - y->member.rank;
}

void
hp_join_group_sort(hp_join_group *m)
{
    int free_rank = 0;
    for (int i = 0; i < m->joined_n; i++) {
        if (m->joined[i].member.rank >= 0)
            continue;
        while (hp_rank_set_has(m->has_joined, free_rank))
            free_rank++;
        m->joined[i].member.rank = free_rank++;
    }
    for (int i = 0; m->shrink && i < m->joined_n; i++) {
        uint64_t completed = m->joined[i].completed;
        m->least = i == 0 || completed < m->least ? completed : m->least;
        m->most = completed > m->most ? completed : m->most;
    }
    qsort(m->joined, (size_t)m->joined_n, sizeof(*m->joined), by_place);
}

int
hp_join_group_group(hp_join_group *m, int first)
{
    int n = 0;
    while (first + n < m->joined_n && m->joined[first + n].color == m->joined[first].color) {
        if (m->joined[first].color >= 0)
            m->joined[first + n].member.rank = n;
        n++;
    }
    return n;
}

/* --- the order in the ring --- */

typedef struct place {
    uint64_t host;
    int first, rank; /* the lowest rank of this host, and this rank */
} place;

static int
by_host(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    return x->rank - y->rank;
}

static int
by_first(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : x->rank - y->rank;
}

int
hp_ring_arrange(hp_ring *ring)
{
    place *places = hp_alloc((size_t)ring->size, sizeof(*places));
    if (!places)
        return 0;
    for (int i = 0; i < ring->size; i++)
        places[i] = (place){ring->members[i].host_id, i, i};
    qsort(places, (size_t)ring->size, sizeof(*places), by_host);
    for (int i = 1; i < ring->size; i++)
        if (places[i].host == places[i - 1].host)
            places[i].first = places[i - 1].first;
    qsort(places, (size_t)ring->size, sizeof(*places), by_first);
    for (int i = 0; i < ring->size; i++)
        ring->order[i] = places[i].rank;
    free(places);
    return 1;
}

int
hp_ring_hosts(const hp_ring *ring)
{
    int hosts = 0;
    for (int i = 0; i < ring->size; i++)
        hosts += i == 0 || ring->members[ring->order[i]].host_id != ring->members[ring->order[i - 1]].host_id;
    return hosts;
}
