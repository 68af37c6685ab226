/* SPDX-License-Identifier: MIT */
/*
 * limit_socket: plain TCP connections between the ranks of a limit. All ranks listen before bench_barrier, and dial after it.
 * Rank r is on port 21000 + r. BENCH_NET is the first three bytes of the ranks' addresses, with a dot behind: rank r is
 * BENCH_NET(r + 1); unset: all are on loopback. LIMIT_CC is the congestion control. What fails ends the program.
 */
#ifndef LIMIT_SOCKET_H
#define LIMIT_SOCKET_H

int limit_listen(int rank);
int limit_dial(int rank); /* small segments go at once */
int limit_accept(int listener);

#endif
