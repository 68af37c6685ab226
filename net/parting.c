/* SPDX-License-Identifier: MIT */
/* parting: see parting.h. */
#include "net/parting.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    DRAIN_BYTES = 1 << 20, /* read at most so much in one call: a peer may send faster than this reads */
    WORD_MS = 1000,
    PROXIED_MS = 5000
};

void
hp_parting_ask(hp_stripe *s)
{
    if (s->unacked && !s->asks)
        s->asks = HP_ASK_DUE;
}

/* The peer's system has acknowledged all that was written. */
static int
is_acknowledged(const hp_stripe *s)
{
    int unacknowledged = 1;
    return ioctl(s->medium.fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0;
}

int
hp_parting_is_free(const hp_stripe *s, uint64_t waited, uint64_t peer_timeout, int proxied)
{
    if (!s->unacked || s->left || s->asks == HP_ASK_ANSWERED)
        return 1;
    if (s->medium.eof && s->accepted) /* the peer is to make it again, if it needs anything */
        return (!s->heard && !s->generation) || (s->asked && waited >= WORD_MS * HP_MS) ||
               (!s->out && waited >= peer_timeout);
    if (s->medium.eof)
        return 0;
    return waited >= (uint64_t)(proxied ? PROXIED_MS : WORD_MS) * HP_MS && s->asks == HP_ASK_SENT && !s->owes_answer &&
           !hp_control_waits(&s->control) && is_acknowledged(s);
}

void
hp_parting_shut(hp_stripe *s)
{
    if (!s->medium.shut)
        shutdown(s->medium.fd, SHUT_WR);
    s->medium.shut = 1;
    if (s->watch)
        hp_watch_set(s->watch, 0);
}

/*
 * Reads and drops what the peer still sends: closing with unread bytes would reset the connection and destroy what
 * was sent last. A peer that sends without end is cut off by the caller's time-out.
 */
int
hp_parting_closed(hp_stripe *s)
{
    uint8_t bytes[4096];
    ssize_t n = 1;
    for (size_t reads = 0; !s->medium.eof && n > 0 && reads < DRAIN_BYTES / sizeof(bytes); reads++)
        n = recv(s->medium.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        s->medium.eof = 1;
    return s->medium.eof || is_acknowledged(s);
}
