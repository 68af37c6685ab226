/* SPDX-License-Identifier: MIT */
/*
 * model: how long one operation takes, by discrete events. Every rank runs the belt of lib/channel.c (admit, receive,
 * work, send, retire; window W) over the real plan, schedule and places of lib/; sockets, memory and processors are
 * replaced by times:
 *
 *   link        a frame of b bytes leaves in b * beta, arrives alpha later and is taken in b * beta; each rank sends
 * one frame at a time and takes one at a time, whatever the number of neighbours socket      holds `buffer` bytes that
 * the receiver has not asked for; 0: a frame leaves when its receive is posted processor   one a rank: overhead for
 * each frame that comes or goes, gamma for each byte that is reduced or copied; a job's result is there `delay` later
 * (a device's latency; the next job need not wait for it) jitter      every transfer, latency and job takes 1 - jitter
 * to 1 + jitter times its length, by its own draw
 *
 * All times are seconds. What the model leaves out: loss, congestion, ranks that share a processor, caches.
 */
#ifndef MODEL_H
#define MODEL_H

#include "lib/plan.h"

typedef struct model_options {
    int ranks;
    hp_kind kind;         /* of float32 in place: allreduce, reduce_scatter, allgather or barrier */
    uint64_t count;       /* the public call's count: of a block where the collective has blocks */
    hp_plan_options plan; /* as the library's settings would make it */
    int algorithm;        /* -1: what the plan chooses; ring, spread, doubling or halves: that one at any size */
    int host_ranks;       /* ranks of a host: they share its wire, and memory among them; 0: one */
    double memory_alpha, memory_beta;
    uint32_t window;
    double alpha, beta, gamma, overhead, delay;
    double jitter; /* 0 ... 1 */
    int straggler; /* this rank is `slowness` times slower in everything; -1: none */
    double slowness;
    int late; /* this rank begins `lateness` after the others; -1: none */
    double lateness;
    uint64_t buffer;
    uint32_t header; /* bytes in front of every frame */
    int taken;       /* a slot is free when the receiver has said that it took the frame (sending without a copy) */
    uint64_t seed;
} model_options;

typedef struct model_result {
    int locked;      /* nothing can move and not everybody is done: the window is too small */
    double time;     /* until the last rank is done */
    uint64_t sent;   /* bytes of the rank that sends most, without headers */
    uint64_t frames; /* of that rank */
    hp_algorithm algorithm;
    uint64_t loops;
    uint32_t slices, channels;
} model_result;

/* What the library starts from: settings of lib/config.def, no jitter, no straggler, and an ideal link. */
void model_defaults(model_options *options);

/* 0; or -1 when memory runs out or the schedule broke a law (`why` says which). */
int model_run(const model_options *options, model_result *result, const char **why);

#endif
