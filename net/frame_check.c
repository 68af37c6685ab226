/* SPDX-License-Identifier: MIT */
/* frame_check: see frame_check.h. */
#include "net/frame_check.h"

#include "base/err.h"

#include <stdio.h>

static hoop_result
other_call(const hp_frame *got, const hp_frame *want, int self, int peer, hoop_error *error)
{
    char theirs[112], ours[112], as[40] = "";
    unsigned long long sequence = got->sequence, awaited = want->sequence;
    if (!(got->flags & want->flags & HP_FRAME_CALL))
        return hp_err_set(error, HOOP_ERR_MISMATCH,
                          "rank %d is in operation %llu and rank %d in operation %llu: their calls or groups differ",
                          peer, sequence, self, awaited);
    hp_call_print(&got->call, theirs, sizeof(theirs));
    hp_call_print(&want->call, ours, sizeof(ours));
    if (sequence != awaited)
        snprintf(as, sizeof(as), " as operation %llu", awaited);
    return hp_err_set(error, HOOP_ERR_MISMATCH, "rank %d called %s as operation %llu, but rank %d called %s%s%s", peer,
                      theirs, sequence, self, ours, as, hp_call_other_counts(&got->call, &want->call));
}

static hoop_result
other_frame(const hp_frame *got, const hp_frame *want, uint32_t payload, int self, int peer, hoop_error *error)
{
    return hp_err_set(
        error, got->epoch < want->epoch ? HOOP_ERR_STALE_EPOCH : HOOP_ERR_PROTOCOL,
        "rank %d sent rank %d operation %llu step %u (%u bytes, epoch %u) instead of operation %llu step %u "
        "(%u bytes, epoch %u)",
        peer, self, (unsigned long long)got->sequence, got->step, hp_frame_payload(got), got->epoch,
        (unsigned long long)want->sequence, want->step, payload, want->epoch);
}

/*
 * Every frame has the checksum of its call. If both frames have the call itself, two different calls cannot pass by
 * chance.
 */
static int
same_call(const hp_frame *got, const hp_frame *want)
{
    return got->signature == want->signature &&
           (!(got->flags & want->flags & HP_FRAME_CALL) || hp_call_equal(&got->call, &want->call));
}

hoop_result
hp_frame_check(const hp_frame *got, const hp_frame *want, uint32_t payload, int self, int peer, hoop_error *error)
{
    int same_ring = got->epoch == want->epoch && got->channel == want->channel;
    int opens = (got->flags | want->flags) & HP_FRAME_CALL;
    hoop_result result;
    if (same_ring && (!same_call(got, want) || (opens && got->sequence != want->sequence)))
        result = other_call(got, want, self, peer, error);
    else if (same_ring && got->sequence == want->sequence && got->step == want->step &&
             hp_frame_payload(got) == payload && (got->flags & HP_FRAME_CALL) == (want->flags & HP_FRAME_CALL))
        return HOOP_SUCCESS;
    else
        result = other_frame(got, want, payload, self, peer, error);
    error->sequence = hp_frame_operation(want);
    return result;
}
