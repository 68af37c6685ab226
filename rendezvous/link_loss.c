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

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOLD_MS = 100,
    ENDED_MS = 500, /* instead of that, if the peer may be a process that has ended */
    RETURN_MS = 500,
    HEARD_MS = 1000 /* a rank that was heard so lately is alive */
};

int
hp_link_loss_open(hp_link_loss *b, int size)
{
    *b = (hp_link_loss){.size = size, .first = -1};
    b->loss = hp_alloc((size_t)size, sizeof(hp_loss));
    b->away = hp_alloc((size_t)size, sizeof(uint64_t));
    for (int i = 0; b->loss && i < size; i++)
        b->loss[i].peer = -1;
    return b->loss && b->away;
}

void
hp_link_loss_close(hp_link_loss *b)
{
    free(b->loss);
    free(b->away);
}

void
hp_link_loss_lost(hp_link_loss *b, int rank, const hp_loss *loss, uint64_t now)
{
    if (b->loss[rank].peer >= 0)
        return;
    b->loss[rank] = *loss;
    if (b->first >= 0)
        return;
    b->first = rank;
    b->since = now;
}

void
hp_link_loss_away(hp_link_loss *b, int rank, uint64_t now)
{
    b->away_n += !b->away[rank];
    b->away[rank] = now;
}

void
hp_link_loss_back(hp_link_loss *b, int rank)
{
    b->away_n -= b->away[rank] != 0;
    b->away[rank] = 0;
}

int
hp_link_loss_waits(const hp_link_loss *b)
{
    return b->first >= 0 || b->away_n > 0;
}

int
hp_link_loss_returning(const hp_link_loss *b, uint64_t now)
{
    for (int i = 0; b->away_n && i < b->size; i++)
        if (b->away[i] && now - b->away[i] < RETURN_MS * HP_MS)
            return 1;
    return 0;
}

/*
 * A rank in an operation drives its connections, so it would have come back by now. A rank in none may be computing,
 * and notices the loss at its next operation.
 */
static int
stayed_away(const hp_link_loss *b, const hp_witness *w, uint64_t now)
{
    for (int i = 0; b->away_n && i < b->size; i++)
        if (b->away[i] && w[i].in_op && now - b->away[i] >= RETURN_MS * HP_MS)
            return i;
    return -1;
}

static uint64_t
older(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* A reset or an end was sent by the peer's kernel, perhaps for a process that has ended. A time-out was not. */
static int
was_answered(int number)
{
    return number == 0 || number == ECONNRESET || number == EPIPE;
}

/* A frame that arrives well after the reset was not on its way when the process ended. */
static int
is_alive(const hp_link_loss *b, const hp_loss *loss, const hp_witness *peer, uint64_t now)
{
    if (peer->left)
        return 0;
    return was_answered(loss->number) ? peer->heard > b->since + HOLD_MS * HP_MS : peer->heard + HEARD_MS * HP_MS > now;
}

static hp_link_loss_cause
between(const hp_link_loss *b, const hp_witness *w, int rank, uint64_t now)
{
    const hp_loss *mine = &b->loss[rank];
    int peer = mine->peer, both = b->loss[peer].peer == rank;
    hp_link_loss_cause cause = {
        HP_LINK_LOSS_LINK, rank < peer ? rank : peer, rank < peer ? peer : rank, mine->number, 0, mine->sequence};
    if (both && !cause.number)
        cause.number = b->loss[peer].number;
    if (both)
        cause.sequence = older(cause.sequence, b->loss[peer].sequence);
    cause.alive = both || is_alive(b, mine, &w[peer], now);
    return cause;
}

/* Whether no other report needs to be awaited before the first loss is judged. */
static int
is_ripe(const hp_link_loss *b, const hp_witness *w, uint64_t now)
{
    const hp_loss *first = &b->loss[b->first];
    int may_have_ended = was_answered(first->number) && !w[first->peer].left && b->loss[first->peer].peer < 0;
    return now - b->since >= (may_have_ended ? ENDED_MS : HOLD_MS) * HP_MS;
}

/*
 * An orderly end comes from a process that has ended, and its control connection may have been reset because of
 * unread bytes; a reset may hit all connections of a process.
 */
static int
has_ended(const hp_link_loss *b, const hp_loss *loss, uint64_t now)
{
    return loss->number == 0 || now - b->away[loss->peer] >= RETURN_MS * HP_MS;
}

hp_link_loss_cause
hp_link_loss_judge(const hp_link_loss *b, const hp_witness *w, int hasty, uint64_t now)
{
    hp_link_loss_cause none = {.finding = HP_LINK_LOSS_NONE, .rank = -1, .other = -1};
    int returning = 0, gone = stayed_away(b, w, now);
    if (gone >= 0)
        return (hp_link_loss_cause){.finding = HP_LINK_LOSS_GONE, .rank = gone, .other = -1};
    for (int i = 0; b->first >= 0 && i < b->size; i++) {
        const hp_loss *loss = &b->loss[i];
        if (loss->peer < 0)
            continue;
        if (b->away[loss->peer] && has_ended(b, loss, now))
            return (hp_link_loss_cause){HP_LINK_LOSS_GONE, loss->peer, i, loss->number, 0, loss->sequence};
        if (b->loss[loss->peer].peer == i)
            return between(b, w, i, now);
        returning |= b->away[loss->peer] != 0;
    }
    if (b->first < 0 || (!hasty && (returning || !is_ripe(b, w, now))))
        return none;
    const hp_loss *first = &b->loss[b->first];
    if (w[first->peer].left && w[first->peer].completed < first->sequence)
        return (hp_link_loss_cause){HP_LINK_LOSS_LEFT, first->peer, b->first, first->number, 0, first->sequence};
    return between(b, w, b->first, now);
}

void
hp_link_loss_print(const hp_link_loss_cause *cause, const hp_member *members, char *out, size_t size)
{
    const hp_member *a = &members[cause->rank], *b = &members[cause->other];
    char during[48] = "", why[64] = "";
    if (cause->sequence)
        snprintf(during, sizeof(during), " during operation %llu", (unsigned long long)cause->sequence);
    if (cause->number)
        snprintf(why, sizeof(why), ": %.60s", strerror(cause->number));
    snprintf(out, size, "the connection between rank %d (%.40s) and rank %d (%.40s) broke%s%s; %s", a->rank, a->host,
             b->rank, b->host, during, why,
             cause->alive ? "both processes are alive, so look at the network between them"
                          : "look at the network between them");
}

void
hp_link_loss_error(const hp_link_loss_cause *cause, const hp_member *members, int reporter, hoop_error *error)
{
    char text[sizeof(error->text)];
    hp_link_loss_print(cause, members, text, sizeof(text));
    hp_err_set(error, HOOP_ERR_PEER_LOST, "%s", text);
    error->rank = cause->rank;
    error->reporter = reporter;
    error->sequence = cause->sequence;
    error->sys_errno = cause->number;
}
