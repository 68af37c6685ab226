/* SPDX-License-Identifier: MIT */
/* tcp: see tcp.h. A kernel fills as much of tcp_info as it knows; the rest stays 0. */
#include "net/tcp.h"

#include "base/clock.h"

#include <linux/tcp.h> /* glibc's netinet/tcp.h has a shorter one, and excludes this */
#include <netinet/in.h>
#include <sys/socket.h>

enum {
    LATER = 5,         /* seconds that keepalive and ranks leave to the server, */
    SOONER = 3,        /* ranks at least */
    SHORTEST = 1,      /* seconds between two probes, */
    LONGEST = 5,       /* and where the number of probes is no limit */
    PROBES_MOST = 127, /* by the kernel, */
    INTERVAL_MOST = 32767,
    RTO_SPARE_MS = 15000,
    RTO_PART = 7, /* with so many retransmissions at the longest interval, and those before, 15 are enough */
    RTO_LEAST_MS = 1000,
    RTO_MOST_MS = 120000,
    SIZE_TIME = 10,   /* seconds; a network that heals takes less, most often */
    RESENT_LEAST = 2, /* in vain */
    SMALL_MSS = 536   /* segments that every path must pass (RFC 9293 3.7.1) */
};

void
hp_tcp_silence_note(hp_tcp_silence *s, const hp_tcp_look *look, uint64_t now)
{
    uint64_t ago = look->acked_ms * HP_MS, acked = ago < now ? now - ago : 0;
    int resends = look->unacked && look->resent;
    if (look->closed)
        return;
    if (!resends || look->acked != s->acked)
        s->resent = 0;
    if (!resends && !look->probes)
        s->since = 0;
    else if (!s->since || (resends && look->acked != s->acked))
        s->since = now; /* before, the connection may have been idle */
    else if (!resends && acked > s->since)
        s->since = acked;
    s->acked = look->acked;
}

uint64_t
hp_tcp_silence_lasts(const hp_tcp_silence *s, uint64_t now)
{
    return s->since && now > s->since ? now - s->since : 0;
}

void
hp_tcp_silence_answer(hp_tcp_silence *s, const hp_tcp_look *look, int answered)
{
    if (!answered || !s->resent)
        s->resent = answered && look->unacked ? look->resent : 0;
}

int
hp_tcp_silence_may_be_size(const hp_tcp_silence *s, const hp_tcp_look *look, uint64_t now)
{
    return !look->closed && look->unacked && s->resent && look->resent >= s->resent + RESENT_LEAST &&
           look->mss > SMALL_MSS && hp_tcp_silence_lasts(s, now) >= SIZE_TIME * HP_SEC;
}

static int64_t
clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static int
part(int64_t all, int64_t by)
{
    return (int)((all + by - 1) / by);
}

hp_keepalive
hp_tcp_silence_keepalive(uint64_t peer_timeout, const hp_keepalive *wish)
{
    int64_t seconds = part((int64_t)peer_timeout, HP_SEC), lasts = seconds + LATER;
    hp_keepalive k = *wish;
    if (!k.interval && k.count)
        k.interval = (int)clamp(part(lasts, k.count), SHORTEST, INTERVAL_MOST);
    if (!k.interval)
        k.interval = (int)clamp(seconds / 6, SHORTEST, LONGEST);
    if (!k.count && part(lasts, k.interval) > PROBES_MOST && !wish->interval)
        k.interval = part(lasts, PROBES_MOST);
    if (!k.count)
        k.count = (int)clamp(part(lasts, k.interval), 1, PROBES_MOST);
    if (!k.idle)
        k.idle = (int)clamp(seconds / 6, SHORTEST, LONGEST - 1);
    return k;
}

int
hp_tcp_silence_rto_max(uint64_t peer_timeout)
{
    return (int)clamp(((int64_t)(peer_timeout / HP_MS) + RTO_SPARE_MS) / RTO_PART, RTO_LEAST_MS, RTO_MOST_MS);
}

uint64_t
hp_tcp_silence_deference(uint64_t peer_timeout)
{
    return (uint64_t)clamp((int64_t)peer_timeout / 6, SOONER * (int64_t)HP_SEC, LATER * (int64_t)HP_SEC);
}

/* --- what the kernel says --- */

enum { TCP_CLOSED = 7 }; /* TCP_CLOSE of netinet/tcp.h */

hp_tcp_path
hp_tcp_path_of(int fd, int delayed)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return (hp_tcp_path){0};
    uint32_t least = info.tcpi_min_rtt != UINT32_MAX ? info.tcpi_min_rtt : 0;
    return (hp_tcp_path){.retransmits = info.tcpi_total_retrans,
                         .delivery_rate = info.tcpi_delivery_rate,
                         .rtt_us = delayed ? least : info.tcpi_rtt};
}

hp_tcp_look
hp_tcp_look_at(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return (hp_tcp_look){0};
    return (hp_tcp_look){.unacked = info.tcpi_unacked,
                         .resent = info.tcpi_retransmits,
                         .probes = info.tcpi_probes,
                         .acked_ms = info.tcpi_last_ack_recv,
                         .acked = info.tcpi_bytes_acked,
                         .mss = info.tcpi_snd_mss,
                         .closed = info.tcpi_state == TCP_CLOSED};
}

int
hp_tcp_is_heard(int fd, uint64_t within)
{
    hp_tcp_look look = hp_tcp_look_at(fd);
    return !look.closed && look.acked_ms * HP_MS < within && !(look.unacked && look.resent >= RESENT_LEAST);
}
