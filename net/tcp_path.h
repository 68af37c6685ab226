/* SPDX-License-Identifier: MIT */
/* tcp_path: what the kernel has measured of a TCP connection (TCP_INFO). One system call. */
#ifndef HP_TCP_PATH_H
#define HP_TCP_PATH_H

#include <stdint.h>

typedef struct hp_tcp_path {
    uint64_t retransmits; /* segments sent again, since the connection was made */
    uint64_t
        delivery_rate; /* bytes/s that the peer has last taken; 0: not measured, or the kernel (before 4.9) cannot */
    uint32_t rtt_us;   /* smoothed round-trip time; 0: not measured */
} hp_tcp_path;

/* All 0 if the descriptor is no TCP connection. */
hp_tcp_path hp_tcp_path_of(int fd);

/* Of connections that carry one stream together: the longest round trip, and the sums of the others. */
void hp_tcp_path_join(hp_tcp_path *all, const hp_tcp_path *one);

#endif
