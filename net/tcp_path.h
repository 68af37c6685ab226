/* SPDX-License-Identifier: MIT */
/* tcp_path: what the kernel has measured of a TCP connection (TCP_INFO). One system call. */
#ifndef HP_TCP_PATH_H
#define HP_TCP_PATH_H

#include "net/tcp_silence.h"

#include <stdint.h>

typedef struct hp_tcp_path {
    uint64_t retransmits; /* segments sent again, since the connection was made */
    uint64_t
        delivery_rate; /* bytes/s that the peer has last taken; 0: not measured, or the kernel (before 4.9) cannot */
    uint32_t rtt_us;   /* round-trip time, smoothed or the least; 0: not measured */
} hp_tcp_path;

/*
 * All 0 if the descriptor is no TCP connection. delayed: the peer acknowledges late, so the least round trip is taken;
 * the smoothed one would show how late.
 */
hp_tcp_path hp_tcp_path_of(int fd, int delayed);

/* Of connections that carry one stream together: the longest round trip, and the sums of the others. */
void hp_tcp_path_join(hp_tcp_path *all, const hp_tcp_path *one);

/* Whether the other kernel acknowledges. All 0 if the descriptor is no TCP connection. */
hp_tcp_look hp_tcp_look_at(int fd);

/* Whether it has acknowledged anything in the last `within` ns. */
int hp_tcp_is_heard(int fd, uint64_t within);

#endif
