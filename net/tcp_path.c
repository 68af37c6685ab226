/* SPDX-License-Identifier: MIT */
/* tcp_path: see tcp_path.h. A kernel fills as much of the structure as it knows; the rest stays 0. */
#include "net/tcp_path.h"

#include "base/clock.h"

#include <linux/tcp.h> /* glibc's netinet/tcp.h has a shorter one, and excludes this */
#include <netinet/in.h>
#include <sys/socket.h>

enum { TCP_CLOSED = 7 }; /* TCP_CLOSE of netinet/tcp.h */

hp_tcp_path
hp_tcp_path_of(int fd, int delayed)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    hp_tcp_path path = {0};
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return path;
    path.retransmits = info.tcpi_total_retrans;
    path.delivery_rate = info.tcpi_delivery_rate;
    path.rtt_us = !delayed ? info.tcpi_rtt : info.tcpi_min_rtt != UINT32_MAX ? info.tcpi_min_rtt : 0;
    return path;
}

void
hp_tcp_path_join(hp_tcp_path *all, const hp_tcp_path *one)
{
    all->retransmits += one->retransmits;
    all->delivery_rate += one->delivery_rate;
    if (one->rtt_us > all->rtt_us)
        all->rtt_us = one->rtt_us;
}

hp_tcp_look
hp_tcp_look_at(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    hp_tcp_look none = {0};
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return none;
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
    return !look.closed && look.acked_ms * HP_MS < within;
}
