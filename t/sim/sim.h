/* SPDX-License-Identifier: MIT */
/*
 * sim: n ranks' belts in one process, without sockets, devices, threads or time. t/sim/link.c takes the place of
 * net/link.c and net/stripe.c by being linked instead; t/sim/device.c is a device whose commands finish when the test
 * says so; t/sim/ring.c runs operations over them, moving whatever its seed picks.
 */
#ifndef T_SIM_SIM_H
#define T_SIM_SIM_H

#include "lib/channel.h"

/* --- link.c: all links of the process; ends find each other by their ranks and distance --- */

typedef struct sim_net_options {
    uint64_t seed;
    uint32_t held; /* bytes a stripe holds between its ends; 0: a byte moves only when both sides are ready for it */
    int on_ask;    /* hp_link_move moves bytes too, as the real one does; else only sim_net_move does */
    /* Called with memory just posted for receiving: may be spoiled, because no step may read what lies there. */
    void (*spoil)(void *data, uint32_t bytes);
    void (*ask)(const hp_link *link); /* called when a belt asks a link what has arrived */
} sim_net_options;

void sim_net_begin(const sim_net_options *options);
void sim_net_end(void);          /* all links must have been freed */
int sim_net_move(void);          /* some bytes of some stripe; 1 if any moved */
int sim_net_flush(void);         /* all that can move */
const char *sim_net_fault(void); /* the first rule a sender broke: a frame other than the one awaited; or NULL */
uint64_t sim_net_bytes(void);    /* payload delivered */

/* --- device.c --- */

typedef struct sim_device_options {
    int addressable; /* the host may send from and receive into user memory */
    int early;       /* a command's work is done at submission and only reported later; else done when reported */
    int on_ask;      /* commands also end when the belt asks how many have */
    uint64_t refuse; /* this command's submission fails, counted from 1; 0: none does */
    uint64_t stick;  /* this command never finishes; 0: none sticks */
} sim_device_options;

hp_device *sim_device_new(const sim_device_options *options);
void sim_device_free(hp_device *device);
int sim_device_finish(hp_queue *queue, uint64_t commands); /* up to so many, in order; 1 if any */
void sim_device_hold(hp_device *device, int held);         /* its queues answer what they answered last */

/* --- ring.c --- */

enum { SIM_RANKS_MAX = 64, SIM_OPS_MAX = 8 };

typedef struct sim_ring {
    int size;
    uint32_t window, slices, slice_bytes, stage_bytes, spread_bytes, halves_bytes;
    const hp_host_map *hosts; /* NULL: no levels; else levels wherever they can be, with these limits */
    uint32_t one_bytes, whole_bytes, block_bytes;
    int stripes;
    sim_device_options device;
    int faulty;      /* rank whose device refuses or sticks as `device` says; -1: none */
    int absent_from; /* operation that rank `absent` never starts; -1: none is absent */
    int absent;
    sim_net_options net;
    uint64_t seed;
    int ops;
    hp_call call[SIM_OPS_MAX];
    int in_place[SIM_OPS_MAX];
} sim_ring;

typedef enum sim_end {
    SIM_RIGHT,  /* all finished, all results as the reference says and bit-identical */
    SIM_LOCKED, /* nothing can move; what had finished was right */
    SIM_WRONG   /* a wrong result, a broken rule: `why` says which */
} sim_end;

/* The state of a rank's belt at the end, for tests that look at what it waits for. */
typedef struct sim_rank_end {
    hoop_result command_error;
    hp_oldest_step oldest;
    int finished; /* operations */
} sim_rank_end;

sim_end sim_ring_run(const sim_ring *ring, sim_rank_end ends[SIM_RANKS_MAX], char *why, size_t why_size);

/* --- answer.c: the independent reference --- */

/* Elements of sendbuf and recvbuf on this rank. Counts and gaps are those of t/sim/blocks.h. */
uint64_t sim_send_count(const hp_call *call, int rank, int size);
uint64_t sim_recv_count(const hp_call *call, int rank, int size);

/* Fills a rank's sendbuf, but no gap. 16- and 8-bit floats are what their means could go wrong at, if it is a mean. */
void sim_fill(const hp_call *call, uint64_t seed, int rank, int size, void *send);

/* Whether element i of recvbuf lies in a gap between blocks, where nothing may be written. */
int sim_is_gap(const hp_call *call, int rank, int size, uint64_t i);

/*
 * From now on rank r is on host host_of[r] (kept), so that sums in the order of hosts are known; NULL: none is known, and
 * these are in rank order.
 */
void sim_answer_hosts(const int *host_of);

/* Whether recvbuf is what the collective promises; floats' sums, products and means within rounding. */
int sim_answer_is_right(const hp_call *call, uint64_t seed, int rank, int size, const void *recv, char *why,
                        size_t why_size);

#endif
