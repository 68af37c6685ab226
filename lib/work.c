/* SPDX-License-Identifier: MIT */
/* work: see work.h. Finds bytes by element; the life of a work is comm.c's and progress.c's. */
#include "lib/work.h"

#include "lib/base/dtype.h"

void
hp_work_single(hoop_work *work, const void *send, void *recv)
{
    work->one = (hp_segment){.begin = 0, .count = UINT64_MAX, .send = send, .recv = recv};
    work->segments = &work->one;
    work->segment_count = 1;
}

static const hp_segment *
segment_at(const hoop_work *work, uint64_t at)
{
    size_t low = 0, high = work->segment_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (work->segments[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    return &work->segments[low];
}

const uint8_t *
hp_work_send(const hoop_work *work, uint64_t at, uint64_t *run)
{
    const hp_segment *segment = segment_at(work, at);
    *run = segment->count - (at - segment->begin);
    return segment->send + (at - segment->begin) * hp_dtype_size((hoop_dtype)work->call.dtype);
}

uint8_t *
hp_work_recv(const hoop_work *work, uint64_t at, uint64_t *run)
{
    const hp_segment *segment = segment_at(work, at);
    *run = segment->count - (at - segment->begin);
    return segment->recv + (at - segment->begin) * hp_dtype_size((hoop_dtype)work->call.dtype);
}
