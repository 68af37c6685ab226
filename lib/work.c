/* SPDX-License-Identifier: MIT */
/* work: see work.h. Finds bytes by element; works.c makes works and takes them back. */
#include "lib/work.h"

#include "base/dtype.h"

void
hp_work_single(hoop_work *work, const void *send, void *recv)
{
    work->one = (hp_segment){.begin = 0, .count = UINT64_MAX, .send = send, .recv = recv};
    work->segments = &work->one;
    work->segment_count = 1;
}

int
hp_work_is_reached(hoop_work *work, hp_queue *queue)
{
    if (work->mark && !work->reached)
        work->reached = queue->ops->passed(queue, work->mark);
    return !work->mark || work->reached;
}

static int
lies_in(const hoop_work *work, size_t index, uint64_t at)
{
    return index < work->segment_count && work->segments[index].begin <= at &&
           (index + 1 == work->segment_count || work->segments[index + 1].begin > at);
}

static size_t
search(const hoop_work *work, uint64_t at)
{
    size_t low = 0, high = work->segment_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (work->segments[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static size_t
index_of(hoop_work *work, uint64_t at)
{
    if (work->segment_count == 1 || lies_in(work, work->near, at))
        return work->near;
    work->near = lies_in(work, work->near + 1, at) ? work->near + 1 : search(work, at);
    return work->near;
}

hp_iov
hp_work_iov(hoop_work *work, hp_side side, uint64_t at, uint64_t count)
{
    uint32_t elem = (uint32_t)hp_dtype_size((hoop_dtype)work->call.dtype);
    const hp_segment *segment = &work->segments[index_of(work, at)];
    uint64_t skip = at - segment->begin, run = segment->count - skip;
    uint8_t *data = side == HP_SIDE_SEND ? (uint8_t *)(uintptr_t)segment->send : segment->recv;
    return (hp_iov){.data = data + skip * elem,
                    .run = (uint32_t)((run < count ? run : count) * elem),
                    .elem = elem,
                    .rest = segment + 1,
                    .side = side};
}

uint8_t *
hp_work_at(hoop_work *work, hp_side side, uint64_t at, uint64_t *run)
{
    const hp_segment *segment = &work->segments[index_of(work, at)];
    const uint8_t *data = side == HP_SIDE_SEND ? segment->send : segment->recv;
    *run = segment->count - (at - segment->begin);
    return (uint8_t *)(uintptr_t)data + (at - segment->begin) * hp_dtype_size((hoop_dtype)work->call.dtype);
}

/* Whether so many bytes lie in few enough tensors. */
static int
is_coarse(hoop_work *work, uint64_t at, uint64_t count)
{
    uint64_t bytes = count * hp_dtype_size((hoop_dtype)work->call.dtype);
    return count == 0 || (index_of(work, at + count - 1) - index_of(work, at)) * (uint64_t)work->piece <= bytes;
}

hp_placement
hp_work_place(hoop_work *work, const hp_plan *plan, const hp_step *step)
{
    hp_place_options options = work->place;
    uint64_t at = step->out, count = step->recv_count > step->send_count ? step->recv_count : step->send_count;
    if (step->flags & HP_STEP_STAGED) { /* all its steps choose alike */
        at = plan->begin;
        count = plan->count;
    }
    /* only allreduces are fused: their input and their result have the same tensors */
    if (work->segment_count > 1)
        options.direct = options.direct && is_coarse(work, at, count);
    return hp_place(plan, step, &options);
}
