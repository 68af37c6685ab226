/* SPDX-License-Identifier: MIT */
/*
 * tcp: what the kernel has measured of a TCP connection (TCP_INFO), how long the host at its other end has acknowledged
 * nothing, and what TCP must be told so that it does not give up before. The judgements are pure. The other kernel
 * acknowledges without its process, so a process that is stopped is not silent; and a connection that carries nothing is
 * silent only once a keepalive probe is lost.
 */
#ifndef HP_TCP_H
#define HP_TCP_H

#include <stdint.h>

enum {
    HP_PEER_TIMEOUT_MS = 30000, /* where nobody has said how long a host may be away */
    HP_TCP_ANSWER_MS = 2000     /* within which a host that is not cut off answers a new connection */
};

/* What the kernel says of a connection at one moment (TCP_INFO). All 0: nothing. */
typedef struct hp_tcp_look {
    uint32_t unacked, resent; /* segments on their way; how often in a row the oldest was sent again */
    uint32_t probes;          /* unanswered, of keepalive or of a window that is shut */
    uint32_t acked_ms;        /* since the last segment with an acknowledgement, even one of nothing new */
    uint64_t acked;           /* bytes, in all */
    uint32_t mss;             /* the largest segment that this end sends, in bytes of data */
    int closed;               /* TCP has given up, or the connection has ended: nothing is known any more */
} hp_tcp_look;

typedef struct hp_tcp_silence {
    uint64_t since;  /* nothing was acknowledged since then, though TCP asks again and again; 0: it is not silent */
    uint64_t acked;  /* at the last look */
    uint32_t resent; /* hp_tcp_look's, when the host first answered a small packet during the silence; 0: it has not */
} hp_tcp_silence;

/* A look at the connection, about one a second. now: by the loop. */
void hp_tcp_silence_note(hp_tcp_silence *silence, const hp_tcp_look *look, uint64_t now);

/* For how many ns it lasts; 0: it is not silent. */
uint64_t hp_tcp_silence_lasts(const hp_tcp_silence *silence, uint64_t now);

/*
 * A small packet to the other host, a new connection for instance (hp_probe_start), was answered in time, or was not. The
 * caller asks about once a second during the silence.
 */
void hp_tcp_silence_answer(hp_tcp_silence *silence, const hp_tcp_look *look, int answered);

/*
 * Whether the path may drop large packets alone: nothing was acknowledged for 10 s, and since the host answers small packets
 * TCP has sent the data twice in vain. A host that is just back answers those at once, while TCP waits with the data for as
 * long as the outage was.
 */
int hp_tcp_silence_may_be_size(const hp_tcp_silence *silence, const hp_tcp_look *look, uint64_t now);

/* Keepalive of a connection. 0 in a wish: not set by the user. */
typedef struct hp_keepalive {
    int idle, interval, count; /* seconds, seconds, probes */
} hp_keepalive;

/*
 * A host may be away for peer_timeout ns. If all probes from the first moment on are lost, TCP ends the connection between 5 and
 * 13 seconds after that (above ten minutes, a little later): the server, which judges at peer_timeout, comes first.
 */
hp_keepalive hp_tcp_silence_keepalive(uint64_t peer_timeout, const hp_keepalive *wish);

/*
 * The longest time between two retransmissions, ms: so that a connection gets on soon after an outage, and TCP's 15
 * retransmissions still last longer than peer_timeout.
 */
int hp_tcp_silence_rto_max(uint64_t peer_timeout);

/* How long ranks leave the verdict on a silent host to the server. */
uint64_t hp_tcp_silence_deference(uint64_t peer_timeout);

/* --- of a descriptor; all 0 if that is no TCP connection --- */

typedef struct hp_tcp_path {
    uint64_t retransmits;   /* segments sent again, since the connection was made */
    uint64_t delivery_rate; /* bytes/s that the peer has last taken; 0: not measured, or by no kernel before 4.9 */
    uint32_t rtt_us;        /* round-trip time, smoothed or the least; 0: not measured */
} hp_tcp_path;

/* delayed: the peer acknowledges late, so the least round trip is taken; the smoothed one would show how late. */
hp_tcp_path hp_tcp_path_of(int fd, int delayed);
hp_tcp_look hp_tcp_look_at(int fd); /* whether the other kernel acknowledges, */
/* and has in the last `within` ns. A host that hears nothing may still send: it has not where data was sent again in vain. */
int hp_tcp_is_heard(int fd, uint64_t within);

#endif
