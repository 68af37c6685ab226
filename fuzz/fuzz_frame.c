/* SPDX-License-Identifier: MIT */
/*
 * fuzz_frame: bytes of a proven member that breaks the protocol, into every decoder of net/frame.c. Byte 0 of the
 * input chooses the decoder, and whether the checksums are corrected first, so that the checks before and behind them
 * are reached. Byte 1 chooses how the stream is cut. What was decoded must encode to the same bytes again.
 */
#include "base/text.h"
#include "base/wire.h"
#include "fuzz/fuzz.h"
#include "net/frame.h"

#include <string.h>

const char fuzz_name[] = "frame";

enum { INPUT_MAX = 3 * (HP_COMMON_BYTES + HP_CONTROL_MAX + 4) };
enum { CONTROL, DATA, ABORT, DECODERS };

static void
mend(uint8_t *bytes, size_t n)
{
    hp_put32(bytes + n, hp_crc32c(bytes, n));
}

static void
mend_common(uint8_t *head)
{
    memcpy(head, "HOOP", 4);
    head[4] = HP_FRAME_VERSION;
    mend(head, 12);
}

/* Makes the checksums of a stream of control frames right, as far as their lengths are possible. */
static void
mend_stream(uint8_t *bytes, size_t n)
{
    size_t at = 0;
    while (n - at >= HP_COMMON_BYTES) {
        uint8_t *head = bytes + at;
        mend_common(head);
        uint32_t length = hp_get32(head + 8);
        if (length < 4 || length > n - at - HP_COMMON_BYTES)
            return;
        mend(head + HP_COMMON_BYTES, length - 4);
        at += HP_COMMON_BYTES + length;
    }
}

/* A frame that was read could have been written. */
static void
check_control(const hp_frame_reader *reader, const hp_control_frame *frame)
{
    uint8_t again[HP_COMMON_BYTES + HP_CONTROL_MAX + 4];
    fuzz_check(frame->n <= HP_CONTROL_MAX);
    size_t whole = hp_frame_put_control(again, (hp_frame_type)frame->type, frame->payload, frame->n);
    fuzz_check(whole == reader->have && memcmp(again, reader->bytes, whole) == 0);
}

static void
read_control(const uint8_t *in, size_t n, size_t step)
{
    static hp_frame_reader reader;
    hp_control_frame frame;
    int whole = 0;
    hoop_error error;
    reader.have = 0;
    while (n > 0 && whole != -1) {
        size_t part = step < n ? step : n, left = part;
        while ((whole = hp_frame_read(&reader, &in, &left, &frame, &error)) == 1)
            check_control(&reader, &frame);
        fuzz_check(whole == -1 || left == 0);
        fuzz_check(whole == 0 || error.code == HOOP_ERR_PROTOCOL || error.code == HOOP_ERR_CORRUPT);
        n -= part;
    }
}

static void
read_data(uint8_t *in, size_t n, int mended)
{
    hp_frame frame = {0};
    uint8_t again[HP_DATA_HEAD_CALL];
    hoop_error error;
    if (n < HP_DATA_HEAD_CALL)
        return;
    if (mended) {
        mend_common(in);
        mend(in + HP_COMMON_BYTES, HP_DATA_BYTES - 4);
        mend(in + HP_DATA_HEAD, HP_CALL_BYTES);
    }
    if (hp_frame_get_common(&frame, in, &error) != HOOP_SUCCESS || frame.type != HP_DATA ||
        hp_frame_get_data(&frame, in + HP_COMMON_BYTES, &error) != HOOP_SUCCESS)
        return;
    fuzz_check(hp_frame_payload(&frame) <= HP_SLICE_MAX);
    uint32_t head = hp_frame_put_data(again, &frame, hp_frame_payload(&frame));
    fuzz_check(memcmp(again, in, head) == 0);
}

static void
read_abort(const uint8_t *in, size_t n)
{
    hoop_error error;
    uint8_t again[HP_ABORT_BYTES];
    if (!hp_abort_get(&error, in, n))
        return;
    fuzz_check(error.code > HOOP_SUCCESS && error.code <= HOOP_ERR_NO_QUORUM && error.rank >= -1 &&
               error.reporter >= -1);
    /* no peer may send the codes that hoop_wait_all uses for an unfinished work */
    fuzz_check(error.code != HOOP_IN_PROGRESS && error.code != HOOP_ERR_BUSY && error.code != HOOP_ERR_INVALID_USAGE &&
               error.code != HOOP_ERR_FORKED && error.code != HOOP_ERR_INVALID_ARGUMENT);
    size_t fixed = hp_abort_put(again, &(hoop_error){.code = error.code});
    fuzz_check(hp_text_is_tame(error.text, strlen(error.text), 0) && error.text[0] != '\0');
    if (n == fixed)
        return; /* it gives no reason, which the receiver says in its place */
    fuzz_check(strnlen(error.text, sizeof(error.text)) == n - fixed);
    size_t same_from = error.code == HOOP_ERR_PROTOCOL ? 4 : 0;
    fuzz_check(hp_abort_put(again, &error) == n && memcmp(again + same_from, in + same_from, fixed - same_from) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[INPUT_MAX];
    if (size < 2 || size - 2 > sizeof(bytes))
        return 0;
    int decoder = data[0] % DECODERS, mended = data[0] >> 7;
    size_t n = size - 2;
    memcpy(bytes, data + 2, n);
    if (decoder == DATA)
        read_data(bytes, n, mended);
    if (decoder == ABORT)
        read_abort(data + 2, n); /* in place, so that a read too far is seen */
    if (decoder == CONTROL) {
        if (mended)
            mend_stream(bytes, n);
        read_control(bytes, n, data[1] + 1u);
    }
    return 0;
}
