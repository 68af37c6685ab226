/* SPDX-License-Identifier: MIT */
/*
 * channel: see channel.h. Counters that only grow; slot = counter mod W; one function per station and one that
 * moves everything. No deadlock as long as W >= S + 1: the oldest step anywhere can always move (HACKING has the
 * argument).
 */
#include "lib/channel.h"

#include "base/dtype.h"
#include "base/err.h"
#include "base/mem.h"
#include "lib/slot.h"

#include <stdlib.h>

enum { LINE = 64 /* of the cache: stages begin there */ };

static hp_slot *
slot_of(hp_channel *channel, uint64_t step)
{
    return &channel->slot[step % HP_WINDOW_MAX];
}

/* --- making and freeing --- */

hoop_result
hp_channel_attach(hp_channel *channel, int index, hp_device *device, hoop_error *error)
{
    hoop_result result;
    if (channel->ready[index] || channel->queue[index])
        return HOOP_SUCCESS;
    result = device->ops->pin(device, channel->memory, channel->memory_bytes, error);
    if (result != HOOP_SUCCESS)
        return result;
    channel->o.device[index] = device;
    result = device->ops->queue_open(device, &channel->ready[index], error);
    if (result != HOOP_SUCCESS)
        hp_channel_detach(channel, index);
    return result;
}

void
hp_channel_detach(hp_channel *channel, int index)
{
    hp_device *device = channel->o.device[index];
    if (channel->ready[index])
        device->ops->queue_close(channel->ready[index]);
    if (device && channel->memory)
        device->ops->unpin(device, channel->memory);
    channel->ready[index] = NULL;
    channel->o.device[index] = NULL;
}

hoop_result
hp_channel_pin(hp_channel *channel, int index, hp_device *device, hoop_error *error)
{
    hoop_result result = hp_channel_attach(channel, index, device, error);
    if (channel->ready[index])
        channel->queue[index] = channel->ready[index];
    channel->ready[index] = NULL;
    return result;
}

static size_t
whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

hp_channel *
hp_channel_new(const hp_channel_options *options, hoop_error *error)
{
    hp_channel *channel = hp_alloc(1, sizeof(*channel));
    size_t links = (size_t)options->size, stage = whole_lines(options->stage_bytes),
           slots = whole_lines((size_t)options->window * options->slice_bytes);
    if (!channel)
        goto no_memory;
    channel->o = *options;
    channel->memory_bytes = slots + HP_STAGES * stage + (size_t)options->rooms * options->room_bytes;
    channel->memory = hp_pages(channel->memory_bytes);
    channel->in = hp_alloc(links, sizeof(hp_link *));
    channel->out = hp_alloc(links, sizeof(hp_link *));
    channel->from = hp_alloc(links, sizeof(hp_link *));
    channel->to = hp_alloc(links, sizeof(hp_link *));
    channel->link = hp_alloc(4 * links, sizeof(hp_link *));
    if (!channel->memory || !channel->in || !channel->out || !channel->from || !channel->to || !channel->link)
        goto no_memory;
    uint8_t *stages = channel->memory + slots;
    channel->rooms = stages + HP_STAGES * stage;
    for (uint32_t i = options->window; i-- > 0;) /* the first ones on top */
        channel->free_piece[channel->free_pieces++] = channel->memory + (size_t)i * options->slice_bytes;
    for (uint32_t i = HP_STAGES; i-- > 0;)
        channel->free_stage[channel->free_stages++] = stages + i * stage;
    for (int i = 0; i < HP_DEVICES; i++)
        if (options->device[i] && hp_channel_pin(channel, i, options->device[i], error) != HOOP_SUCCESS) {
            hp_channel_free(channel);
            return NULL;
        }
    return channel;
no_memory:
    hp_channel_free(channel);
    hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for a channel of %u slots of %u bytes", options->window,
               options->slice_bytes);
    return NULL;
}

void
hp_channel_free(hp_channel *channel)
{
    if (!channel)
        return;
    for (int i = 0; channel->link && i < channel->links; i++)
        hp_link_free(channel->link[i]);
    for (int i = 0; i < HP_DEVICES; i++) {
        if (channel->queue[i])
            channel->o.device[i]->ops->queue_close(channel->queue[i]);
        hp_channel_detach(channel, i);
    }
    free(channel->in);
    free(channel->out);
    free(channel->from);
    free(channel->to);
    free(channel->link);
    hp_pages_free(channel->memory, channel->memory_bytes);
    free(channel);
}

static int
rank_at(const hp_channel *channel, int64_t position)
{
    int n = channel->o.size;
    return channel->o.order[(position % n + n) % n];
}

static hp_link *
new_link(const hp_channel *channel, int sending, int distance, int stripes)
{
    int self = rank_at(channel, channel->o.position), step = sending ? distance : -distance;
    int peer = rank_at(channel, (int64_t)channel->o.position + step);
    hp_link *link =
        hp_link_new(sending, self, peer, distance, stripes, HP_WINDOW_MAX); /* a step has one post on it at most */
    if (link) {
        link->size = channel->o.size;
        link->total = channel->o.bytes ? &channel->o.bytes[sending] : NULL;
    }
    return link;
}

static void
add_link(hp_channel *channel, hp_link **place, hp_link *link)
{
    *place = link;
    channel->link[channel->links++] = link;
    channel->links_wanted += link->sending && link->dials;
}

static hp_link *
link_at(hp_channel *channel, hp_link **table, int sending, int distance)
{
    hp_link *link = table[distance] ? NULL : new_link(channel, sending, distance, channel->o.stripes);
    if (link)
        add_link(channel, &table[distance], link);
    return table[distance];
}

hp_link *
hp_channel_in(hp_channel *channel, int distance)
{
    return link_at(channel, channel->in, 0, distance);
}

hp_link *
hp_channel_out(hp_channel *channel, int distance)
{
    return link_at(channel, channel->out, 1, distance);
}

int
hp_channel_dials(const hp_channel *channel, int to)
{
    int from = channel->o.size - to;
    return to < from || (to == from && channel->o.position < to);
}

/* Nothing happens if there is no memory. */
static void
make_exchange(hp_channel *channel, int to)
{
    int n = channel->o.size, from = n - to;
    hp_link *out = new_link(channel, 1, to, 1), *in = new_link(channel, 0, from, 1);
    if (!out || !in) {
        hp_link_free(out);
        hp_link_free(in);
        return;
    }
    hp_link_pair(out, in, hp_channel_dials(channel, to));
    add_link(channel, &channel->to[to], out);
    add_link(channel, &channel->from[from], in);
}

hp_link *
hp_channel_from(hp_channel *channel, int distance)
{
    if (!channel->from[distance])
        make_exchange(channel, channel->o.size - distance);
    return channel->from[distance];
}

hp_link *
hp_channel_to(hp_channel *channel, int distance)
{
    if (!channel->to[distance])
        make_exchange(channel, distance);
    return channel->to[distance];
}

void
hp_channel_append(hp_channel *channel, hoop_work *work)
{
    int c = channel->o.index;
    work->next_in[c] = NULL;
    if (channel->admitting)
        channel->last->next_in[c] = work;
    else
        channel->admitting = work;
    channel->last = work;
}

/* --- stations --- */

hp_frame
hp_channel_frame(const hp_channel *channel, const hoop_work *work)
{
    hp_frame frame = {.type = HP_DATA, .flags = HP_FRAME_CALL, .epoch = channel->o.epoch};
    frame.channel = (uint16_t)channel->o.index;
    frame.last = work->sequence;
    frame.sequence = work->sequence - (uint64_t)work->calls + 1;
    frame.signature = work->signature;
    frame.call = work->call;
    return frame;
}

static hp_frame
frame_of(const hp_channel *channel, const hp_slot *slot, uint64_t step, int first)
{
    hp_frame frame = hp_channel_frame(channel, slot->work);
    frame.flags = (uint16_t)((first ? HP_FRAME_CALL : 0) | (channel->o.payload_crc ? HP_FRAME_PAYLOAD_CRC : 0));
    frame.step = (uint32_t)step;
    return frame;
}

/* Posts `count` elements at a spot: the bytes of a slot or a stage, or of the user's arrays wherever they lie. */
static uint64_t
post_at(hp_channel *channel, hp_slot *slot, hp_link *link, const hp_frame *frame, hp_spot spot, uint64_t count)
{
    const hp_plan *plan = &slot->work->plan[channel->o.index];
    uint32_t bytes = (uint32_t)(hp_is_packed(spot.where) ? hp_plan_wire_bytes(plan, count) : count * plan->elem);
    uint64_t run = UINT64_MAX; /* slots and stages are in one piece */
    if (count > 0 && (spot.where == HP_SENDBUF || spot.where == HP_RECVBUF)) {
        hp_side side = spot.where == HP_SENDBUF ? HP_SIDE_SEND : HP_SIDE_RECV;
        hp_iov pieces = hp_work_iov(slot->work, side, spot.at, count);
        return hp_link_post_iov(link, frame, &pieces, bytes);
    }
    return hp_link_post(link, frame, count > 0 ? hp_slot_address(channel, slot, spot, &run) : NULL, bytes);
}

/* A stage is taken for an operation's whole life. */
static int
take_stage(hp_channel *channel, hoop_work *work)
{
    int c = channel->o.index;
    if (!hp_algorithm_is_staged(work->plan[c].algorithm) || channel->next_step > 0)
        return 1;
    if (channel->free_stages == 0)
        return 0;
    work->stage[c] = channel->free_stage[--channel->free_stages];
    work->rooms[c] = 0;
    return 1;
}

static void
out_of_memory(hp_channel *channel, hp_slot *slot)
{
    slot->failed = 1;
    channel->command_error = HOOP_ERR_NO_MEMORY;
}

static int
admit(hp_channel *channel)
{
    hoop_work *work = channel->admitting;
    int c = channel->o.index;
    hp_slot *slot = slot_of(channel, channel->admitted);
    if (!work)
        return 0;
    uint32_t own = work->plan[c].window; /* with no slots of the channel, or with slots in its stage */
    if (channel->admitted - channel->retired >= (own ? own : channel->o.window) || !take_stage(channel, work))
        return 0;
    *slot = (hp_slot){.work = work, .step_in_work = channel->next_step};
    slot->step = hp_schedule_at(&work->plan[c], channel->o.order, channel->o.position, channel->next_step);
    slot->place = hp_work_place(work, &work->plan[c], &slot->step);
    channel->admitted++;
    if (++channel->next_step == work->plan[c].steps) {
        channel->admitting = work->next_in[c];
        channel->next_step = 0;
    }
    return 1;
}

/*
 * A receive into a slot is posted late, so that the slot is one that was freed a moment ago; but each stripe has one
 * to do, or two where there are several stripes, and so has each link. The step that is received next may always
 * post.
 */
static int
may_post(hp_channel *channel, const hp_slot *slot)
{
    uint64_t ahead = channel->o.stripes > 1 ? 2 * (uint64_t)channel->o.stripes : 1;
    if (slot->place.recv.where != HP_SLOT || channel->posted - channel->received < ahead)
        return 1;
    return slot->step.from != slot_of(channel, channel->posted - 1)->step.from;
}

static int
post(hp_channel *channel)
{
    hp_slot *slot = slot_of(channel, channel->posted);
    if (channel->posted == channel->admitted || !may_post(channel, slot))
        return 0;
    if (slot->step.flags & HP_STEP_RECV) {
        const hp_step *step = &slot->step;
        /* the sender's number of this step: the law of lag */
        hp_frame frame =
            frame_of(channel, slot, slot->step_in_work - slot->work->plan[channel->o.index].slices, step->recv_first);
        slot->recv_link =
            step->flags & HP_STEP_EXCHANGE ? hp_channel_from(channel, step->from) : hp_channel_in(channel, step->from);
        if (!slot->recv_link)
            out_of_memory(channel, slot);
        else
            slot->recv_mark = post_at(channel, slot, slot->recv_link, &frame, slot->place.recv, step->recv_count);
    }
    channel->posted++;
    return 1;
}

static int
receive(hp_channel *channel)
{
    uint64_t before = channel->received;
    while (channel->received < channel->posted) {
        const hp_slot *slot = slot_of(channel, channel->received);
        if (slot->failed || (slot->recv_mark && slot->recv_link->done < slot->recv_mark))
            break;
        if (slot->recv_mark)
            hp_work_moved(slot->work, channel->now);
        channel->received++;
    }
    return channel->received > before;
}

/*
 * The caller's stream must have reached the operation before its first step is worked on and sent. The belt waits for
 * it, not the device: commands queued behind a caller's work could not be waited for when the communicator fails, and a
 * barrier has no command that could wait.
 */
static int
work(hp_channel *channel)
{
    hp_slot *slot = slot_of(channel, channel->worked);
    if (channel->worked == channel->received || slot->failed ||
        !hp_work_is_reached(slot->work, hp_slot_queue(channel, slot)))
        return 0;
    if (slot->place.settled && channel->retired < channel->worked)
        return 0;
    hp_slot_work(channel, slot);
    channel->worked++;
    return 1;
}

/*
 * A queue wakes the driver only for commands that it has not reported as done. Between the questions of two stations, or
 * of a station and of a message, a command may end: then the first one would not learn of it, and no wake-up would
 * follow. So `more_done` keeps the driver awake: the belt moves again.
 */
int
hp_channel_done(hp_channel *channel, int device, uint64_t ticket)
{
    hp_queue *queue = channel->queue[device];
    uint64_t *seen_done = &channel->seen_done[device];
    if (ticket > *seen_done) {
        uint64_t done = queue->ops->done(queue);
        channel->more_done |= done > *seen_done;
        *seen_done = done;
    }
    return ticket <= *seen_done;
}

static int
poll_commands(hp_channel *channel, const hp_slot *slot)
{
    return hp_channel_done(channel, slot->work->device, slot->command_mark);
}

static int
send_on(hp_channel *channel)
{
    hp_slot *slot = slot_of(channel, channel->sent);
    int sends = (slot->step.flags & HP_STEP_SEND) != 0;
    if (channel->sent == channel->worked || slot->failed)
        return 0;
    if (((sends && !slot->place.forward) || slot->place.held) && !poll_commands(channel, slot))
        return 0;
    if (sends) {
        hp_frame frame = frame_of(channel, slot, slot->step_in_work, slot->step.send_first);
        slot->send_link = slot->step.flags & HP_STEP_EXCHANGE ? hp_channel_to(channel, slot->step.to)
                                                              : hp_channel_out(channel, slot->step.to);
        if (!slot->send_link) {
            out_of_memory(channel, slot);
            return 0;
        }
        slot->send_mark = post_at(channel, slot, slot->send_link, &frame, slot->place.send, slot->step.send_count);
        hp_link_move(slot->send_link); /* while the bytes are in the cache */
    }
    channel->sent++;
    return 1;
}

static int
retire(hp_channel *channel)
{
    hp_slot *slot = slot_of(channel, channel->retired);
    if (channel->retired == channel->sent || !poll_commands(channel, slot))
        return 0;
    if (slot->send_mark && slot->send_link->done < slot->send_mark)
        return 0;
    channel->retired++;
    hp_slot_free(channel, slot);
    const hp_plan *plan = &slot->work->plan[channel->o.index];
    if (slot->step_in_work + 1 < plan->steps)
        return 1;
    if (hp_algorithm_is_staged(plan->algorithm))
        channel->free_stage[channel->free_stages++] = slot->work->stage[channel->o.index];
    slot->work->channels_left--;
    return 1;
}

/* Steps share links: each is asked once. */
static int
ask(hp_channel *channel, hp_link *link)
{
    if (link->asked == channel->calls)
        return 0;
    link->asked = channel->calls;
    return hp_link_move(link);
}

static int
move_links(hp_channel *channel)
{
    int moved = 0;
    for (uint64_t i = channel->received; i < channel->posted; i++) {
        const hp_slot *slot = slot_of(channel, i);
        if (slot->recv_mark && slot->recv_link->done < slot->recv_mark)
            moved |= ask(channel, slot->recv_link);
    }
    for (uint64_t i = channel->retired; i < channel->sent; i++) {
        const hp_slot *slot = slot_of(channel, i);
        if (slot->send_mark && slot->send_link->done < slot->send_mark)
            moved |= ask(channel, slot->send_link);
    }
    return moved;
}

/* What has been received goes on: reduced and sent step by step, so that a slice goes out while it is in the cache. */
static int
pass_on(hp_channel *channel)
{
    int moved = receive(channel);
    for (int more = 1; more; moved |= more) {
        more = work(channel);
        more |= send_on(channel);
        more |= retire(channel);
    }
    return moved;
}

/*
 * What a new step has to send goes out before this rank asks what has arrived: the others wait for it. Each link is asked
 * once; the driver's next call asks again.
 */
int
hp_channel_progress(hp_channel *channel)
{
    int moved = channel->more_done = 0;
    channel->calls++;
    while (admit(channel))
        moved = 1;
    while (post(channel))
        moved = 1;
    if (moved)
        pass_on(channel);
    moved |= move_links(channel);
    moved |= pass_on(channel);
    return moved;
}

uint64_t
hp_channel_passed(const hp_channel *channel)
{
    return channel->received + channel->worked + channel->sent + channel->retired;
}

int
hp_channel_move_links(hp_channel *channel)
{
    int moved = 0;
    for (int i = 0; i < channel->links; i++)
        moved |= hp_link_move(channel->link[i]);
    return moved;
}

void
hp_channel_arm(hp_channel *channel)
{
    for (int i = 0; i < channel->links; i++)
        hp_link_arm(channel->link[i]);
    for (int i = 0; i < HP_DEVICES; i++)
        if (channel->queue[i])
            channel->queue[i]->ops->wake_arm(channel->queue[i]);
}

void
hp_channel_stop(hp_channel *channel, const hoop_error *cause)
{
    for (int i = 0; i < channel->links; i++)
        hp_link_stop(channel->link[i], cause);
}

int
hp_channel_settled(const hp_channel *channel, const hoop_work *work)
{
    int settled = 1;
    for (uint64_t i = channel->retired; i < channel->admitted; i++) {
        const hp_slot *slot = &channel->slot[i % HP_WINDOW_MAX];
        hp_queue *queue = hp_slot_queue(channel, slot);
        if (slot->work == work && slot->command_mark && queue->ops->done(queue) < slot->command_mark)
            settled &= queue->ops->status(queue, NULL) != HOOP_SUCCESS;
    }
    return settled;
}

void
hp_channel_drain(const hp_channel *channel)
{
    for (int i = 0; i < HP_DEVICES; i++)
        if (channel->queue[i])
            channel->queue[i]->ops->drain(channel->queue[i]);
}

int
hp_channel_awaits_stream(const hp_channel *channel)
{
    const hp_slot *slot = &channel->slot[channel->worked % HP_WINDOW_MAX];
    return channel->worked < channel->received && slot->work->mark && !slot->work->reached;
}

hp_oldest_step
hp_channel_oldest(const hp_channel *channel)
{
    const hp_slot *slot = &channel->slot[channel->retired % HP_WINDOW_MAX];
    if (channel->retired == channel->admitted)
        return (hp_oldest_step){.awaited = {HP_WAIT_NONE, -1}};
    hp_oldest_step s = {slot->work, slot->step_in_work, slot->work->plan[channel->o.index].steps, {HP_WAIT_DEVICE, -1}};
    if (slot->recv_mark && slot->recv_link->done < slot->recv_mark) {
        s.awaited = (hp_awaited){HP_WAIT_PEER, slot->recv_link->peer};
    } else if (slot->send_mark && slot->send_link->done < slot->send_mark) {
        int fresh = hp_link_is_fresh(slot->send_link, 0); /* that rank is late: it has not connected, or not sent */
        s.awaited = (hp_awaited){fresh ? HP_WAIT_PEER : HP_WAIT_LINK, slot->send_link->peer};
    }
    return s;
}
