/* SPDX-License-Identifier: MIT */
/*
 * linkspeed: the speed of the network links under a ring, in bits a second each way, and the share of it that a bus
 * bandwidth is. A speed comes from the command line or from the driver of the interface, never from a measurement.
 */
#ifndef PERF_LINKSPEED_H
#define PERF_LINKSPEED_H

#include "hoop.h"

enum { PERF_INTERFACE = 16, PERF_RATE_TEXT = 32 };

/* "10G", "2.5gbit", "950mbit", "1000000": bits a second, with decimal prefixes as tc and ethtool have them; 0: no rate. */
double perf_linkspeed_parse(const char *text);

/*
 * Bits a second that the driver states for an interface; 0 where it states none, and for interfaces that end in no
 * hardware (a container's veth says 10 Gbit/s, whatever carries it). folder: /sys/class/net, but for tests.
 */
double perf_linkspeed_speed(const char *folder, const char *interface);

/* The interface on which this rank listens for its neighbour; "" for a ring of one. */
void perf_linkspeed_interface(const hoop_comm *comm, char name[PERF_INTERFACE]);

/* Per cent of a line of `bits` a second that a bus bandwidth of `busbw` GB/s is; 0 where the line is unknown. */
double perf_linkspeed_share(double busbw, double bits);

const char *perf_linkspeed_print(double bits, char out[PERF_RATE_TEXT]); /* "2.5 Gbit/s"; returns out */

#endif
