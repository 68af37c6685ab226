/* SPDX-License-Identifier: MIT */
/*
 * channel: the belt. One ring order of the ranks and this rank's share of the work on it:
 *
 *        prev link            device queue            next link
 *     (FIFO, recv done)     (FIFO, commands done)       (FIFO, send done)
 *            |                     |                      |
 *   admit --> recv ------> work ----------> send ------> retire        steps 0, 1, 2 ... without end
 *
 * Every step passes the stations in order; a step that does not need a station passes it at once. Operations are
 * consecutive stretches of the belt. Between admit and recv a step's receive is posted. A step that needs a slot's
 * memory takes the piece that was freed last, and only once it can receive: so a belt that is not held up uses a few
 * pieces that stay in the cache, whatever W is. A channel knows nothing of communicators, threads or faults: it
 * moves what can be moved, and its links keep their errors.
 */
#ifndef HP_CHANNEL_H
#define HP_CHANNEL_H

#include "lib/slot.h"

/* Memory for W slots and the stages, queues; links are made on first use. NULL with the error filled. */
hp_channel *hp_channel_new(const hp_channel_options *options, hoop_error *error);
void hp_channel_free(hp_channel *channel);

/*
 * A channel's memory and its queue on a device can be made before the belt uses them: attach registers the memory with the
 * device and opens a queue, while the belt may run; detach takes both back; pin attaches if need be, and makes the queue
 * the belt's queue[index].
 */
hoop_result hp_channel_attach(hp_channel *channel, int index, hp_device *device, hoop_error *error);
void hp_channel_detach(hp_channel *channel, int index);
hoop_result hp_channel_pin(hp_channel *channel, int index, hp_device *device, hoop_error *error);

/* Appends an operation; its plan for this channel is work->plan[channel->o.index]. */
void hp_channel_append(hp_channel *channel, hoop_work *work);

/*
 * Sends what new steps have to send, asks each link once, and passes on what has come. 1 if anything moved: then call it
 * again, for more may have come, and slots and posts may be free. Afterwards `more_done` is set if a device has reported
 * commands as done which a station may not have used yet. A work's channels_left drops when its last step here has
 * retired.
 */
int hp_channel_progress(hp_channel *channel);

/*
 * Whether a device's queue has completed the command with this ticket; 0: there is none. Others than the belt may submit
 * commands to its queues, and ask for them here.
 */
int hp_channel_done(hp_channel *channel, int device, uint64_t ticket);

/* Stations that steps have passed, in all: it grows when a step gets on, and not with each few bytes that arrive. */
uint64_t hp_channel_passed(const hp_channel *channel);

/*
 * 1 if the belt waits for a caller's stream to reach an operation. No descriptor announces that: the driver polls again
 * soon.
 */
int hp_channel_awaits_stream(const hp_channel *channel);

/* The link at a distance, made if need be; NULL when memory runs out. */
hp_link *hp_channel_in(hp_channel *channel, int distance);
hp_link *hp_channel_out(hp_channel *channel, int distance);

/*
 * The same for exchanges. The links to a rank and from it share one connection: what goes back acknowledges what came.
 * The rank that has fewer steps to the other one dials it; if both have as many, the one with the lower position does.
 */
hp_link *hp_channel_from(hp_channel *channel, int distance);
hp_link *hp_channel_to(hp_channel *channel, int distance);
int hp_channel_dials(const hp_channel *channel, int to); /* whether this rank dials the one at that distance */

/* The first frame of an operation, as it is compared with another rank's: everything but the step. */
hp_frame hp_channel_frame(const hp_channel *channel, const hoop_work *work);

/*
 * Moves every link, also those from which nothing is awaited: they read one header ahead, and see ends and aborts. 1 if
 * one moved: the belt must move again before the driver sleeps.
 */
int hp_channel_move_links(hp_channel *channel);

/* Before the driver sleeps: every link watches what it awaits, every queue is asked to wake us. */
void hp_channel_arm(hp_channel *channel);

/*
 * After a fault: stop informs the neighbours, and moves nothing more; settled returns whether one work's commands have
 * ended; drain waits for all commands.
 */
void hp_channel_stop(hp_channel *channel, const hoop_error *cause);
int hp_channel_settled(const hp_channel *channel, const hoop_work *work);
void hp_channel_drain(const hp_channel *channel);

/* The oldest step on the belt, for reports: what it waits for. */
typedef struct hp_oldest_step {
    const hoop_work *work; /* NULL: the belt is empty */
    uint64_t step, steps;
    hp_awaited awaited;
} hp_oldest_step;
hp_oldest_step hp_channel_oldest(const hp_channel *channel);

#endif
