/* SPDX-License-Identifier: MIT */
/*
 * The byte queue: bytes come out in the order in which they went in, are wiped when they leave, and running out of
 * memory loses nothing.
 */
#include "base/buffer.h"

#include "t/tap/tap.h"

#include <stdint.h>
#include <string.h>

/* Random adds and drops against a counter: the k-th byte added is the k-th byte taken. */
static void
check_random(void)
{
    hp_buffer b = {0};
    uint8_t piece[5000];
    uint64_t in = 0, out = 0;
    int wrong = 0;
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)(tap_random() % sizeof(piece));
        if (tap_random() % 2) {
            for (size_t i = 0; i < n; i++)
                piece[i] = (uint8_t)((in + i) * 31 >> 3);
            wrong |= hp_buffer_add(&b, piece, n) != 0;
            in += n;
        } else {
            n = n < hp_buffer_size(&b) ? n : hp_buffer_size(&b);
            for (size_t i = 0; i < n; i++)
                wrong |= hp_buffer_first(&b)[i] != (uint8_t)((out + i) * 31 >> 3);
            hp_buffer_drop(&b, n);
            out += n;
        }
        wrong |= hp_buffer_size(&b) != in - out;
    }
    ok(!wrong, "%llu bytes went in, %llu came out, in order", (unsigned long long)in, (unsigned long long)out);
    hp_buffer_free(&b);
    is_uint(0, hp_buffer_size(&b), "a freed queue is empty");
}

static void
check_wiped(void)
{
    static const uint8_t zeroes[6];
    hp_buffer b = {0};
    ok(hp_buffer_add(&b, "secret and more", 15) == 0, "bytes are added");
    const uint8_t *first = hp_buffer_first(&b);
    hp_buffer_drop(&b, 6);
    is_blob(zeroes, first, 6, "what was taken is wiped");
    is_blob(" and more", hp_buffer_first(&b), 9, "the rest is next");
    hp_buffer_free(&b);
}

static void
check_big(void)
{
    enum { LARGE = 3 << 20 };
    hp_buffer b = {0};
    ok(hp_buffer_size(&b) == 0 && !hp_buffer_first(&b), "zeroed memory is an empty queue without a first byte");
    memset(hp_buffer_room(&b, LARGE), 1, LARGE);
    hp_buffer_grown(&b, LARGE);
    is_uint(LARGE, hp_buffer_size(&b), "room may be filled from outside");
    hp_buffer_drop(&b, LARGE);
    ok(b.room == 0, "big memory is given back when the queue runs empty");
    hp_buffer_free(&b);
}

static void
check_out_of_memory(void)
{
    hp_buffer b = {0};
    ok(hp_buffer_add(&b, "kept", 4) == 0 && !hp_buffer_room(&b, SIZE_MAX / 2), "too much room is refused");
    is_int(-1, hp_buffer_add(&b, "x", SIZE_MAX / 2), "so are too many bytes");
    is_blob("kept", hp_buffer_first(&b), 4, "what was held still is");
    hp_buffer_free(&b);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_random();
    check_wiped();
    check_big();
    check_out_of_memory();
    return 0;
}
