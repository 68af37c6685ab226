/* SPDX-License-Identifier: MIT */
/*
 * frame_check: the frame that came against the one awaited. Two calls of different counts that have one CRC32C, which is a
 * linear function of the bytes, so that such a pair can be computed.
 */
#include "net/frame.h"

#include "base/err.h"
#include "t/tap/tap.h"

#include <string.h>

static const hp_call base = {
    .kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = UINT64_C(1) << 40};

/* Bits of the count that together leave the checksum as it is: Gauss over 33 vectors of 32 bits. */
static uint64_t
colliding_bits(void)
{
    uint32_t change[33], row[32] = {0};
    uint64_t bits[33], kept[32] = {0};
    for (int k = 0; k < 33; k++) {
        hp_call other = base;
        bits[k] = UINT64_C(1) << k;
        other.count ^= bits[k];
        change[k] = hp_call_signature(&other) ^ hp_call_signature(&base);
        for (int top = 31; top >= 0 && change[k]; top--) {
            if (!(change[k] >> top & 1))
                continue;
            if (!row[top]) {
                row[top] = change[k];
                kept[top] = bits[k];
                break;
            }
            change[k] ^= row[top];
            bits[k] ^= kept[top];
        }
        if (!change[k])
            return bits[k];
    }
    return 0;
}

static hp_frame
frame_of(const hp_call *call, uint16_t flags)
{
    return (hp_frame){.flags = flags,
                      .length = hp_frame_head(flags) - HP_COMMON_BYTES,
                      .sequence = 7,
                      .call = *call,
                      .signature = hp_call_signature(call)};
}

static hoop_result
match(const hp_call *theirs, const hp_call *ours, uint16_t flags, hoop_error *error)
{
    hp_frame got = frame_of(theirs, flags), want = frame_of(ours, flags);
    hp_err_clear(error);
    return hp_frame_check(&got, &want, 0, 0, 1, error);
}

int
main(void)
{
    hoop_error error;
    hp_call other = base;
    tap_limit(240);
    plan_lazy();
    is_int(HOOP_SUCCESS, match(&base, &base, HP_FRAME_CALL, &error), "one call");
    other.count++;
    is_int(HOOP_ERR_MISMATCH, match(&other, &base, 0, &error), "another checksum, where the call is not in the frame");
    other.count = base.count ^ colliding_bits();
    ok(other.count != base.count && hp_call_signature(&other) == hp_call_signature(&base),
       "counts %llu and %llu have one checksum", (unsigned long long)base.count, (unsigned long long)other.count);
    is_int(HOOP_ERR_MISMATCH, match(&other, &base, HP_FRAME_CALL, &error), "and are two calls all the same");
    ok(strstr(error.text, "rank 1 called allreduce of ") && strstr(error.text, "but rank 0 called allreduce of "), "%s",
       error.text);
    is_uint(7, error.sequence, "with the operation");
    other = (hp_call){.kind = HP_ALLGATHERV, .dtype = HOOP_INT8, .root = 1, .count = 12};
    hp_call counts = other;
    counts.root = 2;
    is_int(HOOP_ERR_MISMATCH, match(&other, &counts, HP_FRAME_CALL, &error), "other counts with the same total");
    is_string(
        "rank 1 called allgatherv of 12 x int8 as operation 7, but rank 0 called allgatherv of 12 x int8, with other "
        "recvcounts",
        error.text, "are said to be so");
    counts.count = 13;
    match(&other, &counts, HP_FRAME_CALL, &error);
    ok(!strstr(error.text, "recvcounts"), "%s", error.text);
    return 0;
}
