/* SPDX-License-Identifier: MIT */
/*
 * link_loss: see link_loss.h. The server weighs for less time than the ranks wait for its verdict, so that all of
 * them get one cause. When a process ends, its control connection ends with the others, at most half a second later
 * if a packet is lost: the server learns of it in time.
 */
#include "rendezvous/link_loss.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "rendezvous/registration.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOLD_MS = 100,
    ENDED_MS = 500, /* instead of that, if the peer may be a process that has ended */
    AWAY_MS = 500,
    DOUBT_MS = 600,  /* by then, as a rule, a probe has told whether another process ended before */
    DEAF_MS = 5000,  /* of a host, if a connection to it ended: what a host that hears nothing sends still arrives */
    SEEN_MS = 1000,  /* a rank that sent a frame so lately is alive */
    LEFT_MS = 10000, /* a rank that has left has nothing more for who dials it for so long */
    CUT_MS = 60000   /* a rank that is cut off is expected for so long */
};

int
hp_link_loss_open(hp_link_losses *losses, int size, uint64_t peer_timeout)
{
    *losses = (hp_link_losses){.size = size, .peer_timeout = peer_timeout, .first = -1, .gone = -1};
    losses->loss = hp_alloc((size_t)size, sizeof(hp_loss));
    losses->away = hp_alloc((size_t)size, sizeof(uint64_t));
    losses->alive = hp_alloc((size_t)size, sizeof(uint64_t));
    losses->doubted = hp_alloc((size_t)size, sizeof(uint64_t));
    losses->since = hp_alloc((size_t)size, sizeof(uint64_t));
    for (int i = 0; losses->loss && i < size; i++)
        losses->loss[i].peer = -1;
    return losses->loss && losses->away && losses->alive && losses->doubted && losses->since;
}

void
hp_link_loss_close(hp_link_losses *losses)
{
    free(losses->loss);
    free(losses->away);
    free(losses->alive);
    free(losses->doubted);
    free(losses->since);
}

void
hp_link_loss_lost(hp_link_losses *losses, int rank, const hp_loss *loss, uint64_t now)
{
    if (losses->loss[rank].peer >= 0)
        return;
    losses->loss[rank] = *loss;
    losses->since[rank] = now;
    if (losses->first < 0)
        losses->first = rank;
}

void
hp_link_loss_found(hp_link_losses *losses, int rank)
{
    losses->loss[rank].peer = -1;
    if (losses->first != rank)
        return;
    losses->first = -1;
    for (int i = 0; i < losses->size; i++)
        if (losses->loss[i].peer >= 0 && (losses->first < 0 || losses->since[i] < losses->since[losses->first]))
            losses->first = i;
}

void
hp_link_loss_left(hp_link_losses *losses, int rank)
{
    if (losses->loss[rank].peer >= 0 && losses->loss[rank].repaired)
        hp_link_loss_found(losses, rank);
}

void
hp_link_loss_away(hp_link_losses *losses, int rank, uint64_t now)
{
    losses->away_n += !losses->away[rank];
    losses->away[rank] = now;
    losses->alive[rank] = 0;
}

void
hp_link_loss_cut(hp_link_losses *losses, int rank, uint64_t now)
{
    hp_link_loss_away(losses, rank, now);
    losses->cut = now;
}

void
hp_link_loss_alive(hp_link_losses *losses, int rank, uint64_t now)
{
    losses->doubted[rank] = 0;
    if (losses->away[rank])
        losses->alive[rank] = now;
}

int
hp_link_loss_is_idle(const hp_link_losses *losses, int rank, uint64_t now)
{
    return losses->away[rank] && losses->alive[rank] && now - losses->away[rank] >= AWAY_MS * HP_MS;
}

void
hp_link_loss_doubt(hp_link_losses *losses, int rank, uint64_t now)
{
    if (!losses->doubted[rank])
        losses->doubted[rank] = now;
}

int
hp_link_loss_doubts(const hp_link_losses *losses, const hp_witness *w, uint64_t now)
{
    for (int i = 0; i < losses->size; i++) {
        uint64_t since = losses->doubted[i] || losses->alive[i] ? losses->doubted[i] : losses->away[i];
        if (since && !w[i].left && now - since < DOUBT_MS * HP_MS)
            return 1;
    }
    return 0;
}

void
hp_link_loss_back(hp_link_losses *losses, int rank)
{
    losses->away_n -= losses->away[rank] != 0;
    losses->away[rank] = losses->alive[rank] = losses->doubted[rank] = 0;
}

/*
 * Whether rank a has ended, or may have, before rank b, which the server knows of since `since`. What is proven elsewhere comes
 * first: a connection may have broken for another reason, and has if the process was alive afterwards. Of two that broke, the
 * first is that of the process which a probe has proven to have ended first.
 */
static int
is_earlier(const hp_link_losses *losses, int a, int b, uint64_t since)
{
    if (losses->doubted[a] || losses->doubted[b])
        return losses->doubted[a] && losses->doubted[a] < (losses->doubted[b] ? losses->doubted[b] : since);
    return losses->away[a] && !losses->alive[a] && losses->away[a] <= since && !losses->away[b];
}

void
hp_link_loss_ended(hp_link_losses *losses, int rank, uint64_t now)
{
    if (losses->gone == rank || (losses->gone >= 0 && !is_earlier(losses, rank, losses->gone, losses->gone_at)))
        return;
    losses->gone_at = losses->gone >= 0 ? losses->gone_at : now;
    losses->gone = rank;
}

int
hp_link_loss_named(hp_link_losses *losses, const hp_witness *w, uint64_t now)
{
    int gone = losses->gone, waits = gone >= 0 && now - losses->gone_at < DOUBT_MS * HP_MS;
    for (int i = 0; waits && i < losses->size; i++)
        if (i != gone && !w[i].left && is_earlier(losses, i, gone, losses->gone_at))
            return -1;
    losses->gone = -1;
    return gone;
}

int
hp_link_loss_waits(const hp_link_losses *losses)
{
    return losses->first >= 0 || losses->away_n > 0;
}

int
hp_link_loss_returning(const hp_link_losses *losses, const hp_witness *w, uint64_t now)
{
    uint64_t last = 0;
    for (int i = 0; losses->away_n && i < losses->size; i++) {
        last = losses->away[i] > last ? losses->away[i] : last;
        last = w[i].last_seen > last ? w[i].last_seen : last;
        last = losses->alive[i] > last ? losses->alive[i] : last;
    }
    return losses->away_n && now - last < (losses->cut ? CUT_MS : HP_RETURN_MS) * HP_MS;
}

int
hp_link_loss_is_deaf(hp_link_losses *losses, const hp_witness *w, uint64_t now)
{
    int heard = 0, silent = 0;
    for (int i = 0; i < losses->size; i++)
        if (!w[i].left && !losses->away[i])
            *(w[i].silence >= losses->peer_timeout / 2 ? &silent : &heard) += 1;
    if (!heard && (silent || losses->deaf))
        losses->deaf = now;
    return losses->deaf && now - losses->deaf < HP_RELISTEN_MS * HP_MS;
}

/* Whether a rank has been away for `ms`; one that is proven to be alive may still dial. */
static int
is_away(const hp_link_losses *losses, int rank, uint64_t ms, uint64_t now)
{
    uint64_t since = losses->alive[rank] ? losses->alive[rank] : losses->away[rank];
    return losses->away[rank] && now - since >= (losses->alive[rank] ? HP_RETURN_MS : ms) * HP_MS;
}

/*
 * If a host was silent before a connection to it broke, a probe has to tell whether the process has ended or is cut off. There
 * is no time for one if ranks have lost a link for good: they wait for a verdict for less than a second.
 */
static uint64_t
patience(const hp_link_losses *losses, const hp_witness *w)
{
    int probes = w->silence >= HP_SILENT && !hp_link_loss_has_final(losses);
    return probes ? hp_return_ms(w->silence, losses->peer_timeout) : AWAY_MS;
}

/*
 * A rank in an operation drives its connections, so it would have dialled again by now. A rank in none may be
 * computing, and notices the loss at its next operation.
 */
static int
stayed_away(const hp_link_losses *losses, const hp_witness *w, uint64_t now)
{
    for (int i = 0; losses->away_n && i < losses->size; i++)
        if (w[i].in_op && is_away(losses, i, patience(losses, &w[i]), now))
            return i;
    return -1;
}

int
hp_link_loss_stayed_away(const hp_link_losses *losses, const hp_witness *w, uint64_t now)
{
    for (int i = 0; losses->away_n && i < losses->size; i++)
        if (is_away(losses, i, hp_return_ms(w[i].silence, losses->peer_timeout), now))
            return i;
    return -1;
}

static uint64_t
older(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

uint64_t
hp_link_loss_oldest(const hp_link_losses *losses)
{
    uint64_t oldest = 0;
    for (int i = 0; losses->first >= 0 && i < losses->size; i++)
        if (losses->loss[i].peer >= 0 && losses->loss[i].sequence != HP_NO_OPERATION)
            oldest = older(oldest, losses->loss[i].sequence);
    return oldest;
}

/* A reset or an end was sent by the peer's kernel, perhaps for a process that has ended. A time-out was not. */
static int
was_answered(int number)
{
    return number == 0 || number == ECONNRESET || number == EPIPE;
}

/* A frame that arrives well after the reset was not on its way when the process ended. */
static int
is_alive(const hp_link_losses *losses, const hp_loss *loss, const hp_witness *peer, uint64_t now)
{
    if (peer->left)
        return 0;
    return was_answered(loss->number) ? peer->last_seen > losses->since[losses->first] + HOLD_MS * HP_MS
                                      : peer->last_seen + SEEN_MS * HP_MS > now;
}

/* Of the ends of a connection that whose host does not acknowledge the server either; -1: none, or both. */
static int
cut_off_end(const hp_witness *w, int a, int b, int number)
{
    uint64_t least = was_answered(number) ? DEAF_MS * HP_MS : HP_SILENT;
    int first = w[a].silence >= least, second = w[b].silence >= least;
    return first == second ? -1 : first ? a : b;
}

static hp_link_loss_cause
between(const hp_link_losses *losses, const hp_witness *w, int rank, uint64_t now)
{
    const hp_loss *mine = &losses->loss[rank];
    int peer = mine->peer, both = losses->loss[peer].peer == rank;
    hp_link_loss_cause cause = {
        HP_LINK_LOSS_LINK, rank < peer ? rank : peer, rank < peer ? peer : rank, mine->number, 0, mine->sequence};
    if (both && !cause.number)
        cause.number = losses->loss[peer].number;
    if (both)
        cause.sequence = older(cause.sequence, losses->loss[peer].sequence);
    cause.alive = both || is_alive(losses, mine, &w[peer], now);
    int cut = cut_off_end(w, rank, peer, mine->number);
    if (cut >= 0)
        return (hp_link_loss_cause){HP_LINK_LOSS_CUT, cut, -1, mine->number, 0, cause.sequence};
    return cause;
}

/* Whether no other report needs to be awaited before the first loss is judged. */
static int
is_ripe(const hp_link_losses *losses, const hp_witness *w, uint64_t now)
{
    const hp_loss *first = &losses->loss[losses->first];
    int may_have_ended = was_answered(first->number) && !w[first->peer].left && losses->loss[first->peer].peer < 0;
    return now - losses->since[losses->first] >= (may_have_ended ? ENDED_MS : HOLD_MS) * HP_MS;
}

/*
 * An orderly close is that of a process that has ended, and its control connection may have been reset because of
 * unread bytes; a reset may hit all connections of a process. One that is made again proves nothing of a rank that has been
 * away since before: behind a proxy no probe shows that it computes.
 */
static int
has_ended(const hp_link_losses *losses, const hp_witness *w, int reporter, uint64_t now)
{
    const hp_loss *loss = &losses->loss[reporter];
    int before = losses->away[loss->peer] + HOLD_MS * HP_MS < losses->since[reporter];
    uint64_t least = loss->repaired && before ? HP_RETURN_MS * HP_MS : 0;
    return (loss->number == 0 && !loss->repaired && !losses->alive[loss->peer]) ||
           (is_away(losses, loss->peer, patience(losses, &w[loss->peer]), now) &&
            now - losses->since[reporter] >= least);
}

/*
 * A rank leaves when its peers have everything. After an outage it may have been gone for seconds when they report that
 * they have lost, and found, their connections to it.
 */
static int
is_repaired(const hp_link_losses *losses, int rank, const hp_witness *w, uint64_t now)
{
    const hp_loss *loss = &losses->loss[rank];
    const hp_witness *peer = &w[loss->peer];
    uint64_t since = peer->last_seen > losses->since[rank] ? peer->last_seen : losses->since[rank];
    return loss->repaired && !(peer->left && now - since >= LEFT_MS * HP_MS);
}

int
hp_link_loss_mends(const hp_link_losses *losses, const hp_witness *w, int rank)
{
    const hp_loss *loss = &losses->loss[rank];
    return loss->peer >= 0 && loss->repaired && !w[rank].left ? loss->peer : -1;
}

int
hp_link_loss_has_final(const hp_link_losses *losses)
{
    for (int i = 0; losses->first >= 0 && i < losses->size; i++)
        if (losses->loss[i].peer >= 0 && !losses->loss[i].repaired)
            return 1;
    return 0;
}

hp_link_loss_cause
hp_link_loss_judge(const hp_link_losses *losses, const hp_witness *w, int hasty, uint64_t now)
{
    hp_link_loss_cause none = {.finding = HP_LINK_LOSS_NONE, .rank = -1, .other = -1};
    int returning = 0, gone = stayed_away(losses, w, now);
    if (gone >= 0)
        return (hp_link_loss_cause){.finding = HP_LINK_LOSS_GONE, .rank = gone, .other = -1};
    for (int i = 0; losses->first >= 0 && i < losses->size; i++) {
        const hp_loss *loss = &losses->loss[i];
        if (loss->peer < 0)
            continue;
        if (losses->away[loss->peer] && has_ended(losses, w, i, now))
            return (hp_link_loss_cause){HP_LINK_LOSS_GONE, loss->peer, i, loss->number, 0, loss->sequence};
        if (losses->loss[loss->peer].peer == i && !is_repaired(losses, i, w, now))
            return between(losses, w, i, now);
        returning |= losses->away[loss->peer] || losses->away[i]; /* that rank may take back what it has reported */
    }
    if (losses->first < 0 || (!hasty && (returning || !is_ripe(losses, w, now))))
        return none;
    const hp_loss *first = &losses->loss[losses->first];
    int repaired = is_repaired(losses, losses->first, w, now), message = first->sequence == HP_NO_OPERATION;
    if (w[first->peer].left && w[first->peer].completed < first->sequence && !(message && repaired))
        return (hp_link_loss_cause){HP_LINK_LOSS_LEFT, first->peer, losses->first, first->number, 0, first->sequence};
    return repaired ? none : between(losses, w, losses->first, now);
}

void
hp_link_loss_error(const hp_link_loss_cause *cause, const hp_member *members, int reporter, hoop_error *error)
{
    char during[48] = "", why[64] = "";
    if (cause->sequence && cause->sequence != HP_NO_OPERATION)
        snprintf(during, sizeof(during), " during operation %llu", (unsigned long long)cause->sequence);
    if (cause->number)
        snprintf(why, sizeof(why), ": %.60s", strerror(cause->number));
    hp_err_set(error, HOOP_ERR_PEER_LOST, "the connection between %s and %s broke%s%s; %s",
               hp_member_name(&members[cause->rank]).text, hp_member_name(&members[cause->other]).text, during, why,
               cause->alive ? "both processes are alive, so look at the network between them"
                            : "look at the network between them");
    error->rank = cause->rank;
    error->reporter = reporter;
    error->sequence = cause->sequence;
    error->sys_errno = cause->number;
}
