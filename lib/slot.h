/* SPDX-License-Identifier: MIT */
/*
 * slot: one step in a channel's window: where its bytes lie, now as addresses, and the commands that its place asks
 * for. The belt decides when (channel.c). The structures of both are here.
 */
#ifndef HP_SLOT_H
#define HP_SLOT_H

#include "lib/work.h"
#include "net/link.h"

enum { HP_WINDOW_MAX = 64, HP_DEVICES = 2, HP_STAGES = 4 };

typedef struct hp_slot {
    hp_step step;
    hp_placement place;
    hoop_work *work;
    uint64_t step_in_work;
    uint8_t *memory; /* a slice, or a part of the all-pairs, from the first use to the end of the step; else NULL */
    uint64_t room;   /* all-pairs: the bit of this memory in work->rooms */
    hp_link *recv_link, *send_link;
    uint64_t recv_mark, send_mark, command_mark; /* counters to be reached; 0: nothing awaited */
    int failed;
} hp_slot;

typedef struct hp_channel_options {
    int index;
    uint32_t epoch;
    int size, position;
    const int *order; /* position -> rank; outlives the channel */
    uint32_t window;  /* W; > slices */
    uint32_t slice_bytes, stage_bytes;
    uint32_t rooms, room_bytes; /* for messages; devices.c's */
    int stripes;
    int payload_crc;
    hp_count *bytes;               /* where its links count payload received, and sent; NULL: nowhere */
    hp_device *device[HP_DEVICES]; /* [0] the host, [1] CUDA or NULL; the channel opens queues on them */
} hp_channel_options;

typedef struct hp_channel {
    hp_channel_options o;
    uint8_t *memory; /* slots, then stages, then rooms: ordinary pages */
    uint8_t *rooms;
    size_t memory_bytes;
    hp_slot slot[HP_WINDOW_MAX];
    uint8_t *free_piece[HP_WINDOW_MAX]; /* pieces of slot memory that no step holds: a stack */
    uint32_t free_pieces;
    hp_queue *queue[HP_DEVICES];
    hp_queue *ready[HP_DEVICES];    /* opened ahead of the first use; the belt does not look here */
    uint64_t seen_done[HP_DEVICES]; /* the last command that each queue has reported as done */
    uint64_t calls;                 /* of hp_channel_progress */
    int more_done;                  /* a queue has reported more during the last hp_channel_progress */
    hp_link **in, **out;            /* by distance 1 ... n-1; NULL until first used */
    hp_link **from, **to;           /* the same for exchanges: to[d] and from[n - d] share connections */
    hp_link **link;                 /* all these links one after the other: room for 4n */
    int links;
    uint64_t admitted, received, worked, sent, retired; /* steps that have passed each station */
    uint64_t posted;                                    /* steps whose receive is posted, or that have none */
    uint8_t *free_stage[HP_STAGES];                     /* stages that no operation holds: a stack */
    uint32_t free_stages;
    hoop_work *admitting, *last; /* works not yet fully admitted: head and tail of the list */
    uint64_t next_step;          /* of `admitting` */
    uint64_t now;                /* for the records of works; round.c sets it */
    int links_wanted;            /* links that were made, and that links.c has not dialled yet */
    hoop_result command_error;   /* a device command failed (see the queue's status), or no memory for a link */
} hp_channel;

/* --- one step --- */

/*
 * The address of a spot; lowers *run to the elements from there that are contiguous, in the user's arrays. A slot's
 * memory is taken at the first use. NULL: nowhere.
 */
uint8_t *hp_slot_address(hp_channel *channel, hp_slot *slot, hp_spot spot, uint64_t *run);

/* Its memory is free for others. */
void hp_slot_free(hp_channel *channel, hp_slot *slot);

/* The queue of the device that its operation is for. */
hp_queue *hp_slot_queue(const hp_channel *channel, const hp_slot *slot);

/*
 * Submits the step's commands; slot->command_mark is the last one. One that is refused fails the slot, and is the
 * channel's command_error.
 */
void hp_slot_work(hp_channel *channel, hp_slot *slot);

#endif
