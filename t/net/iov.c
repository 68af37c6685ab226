/* SPDX-License-Identifier: MIT */
/*
 * net/pieces: the places of every stretch of a payload, whatever the sizes of its pieces and however many places are
 * asked for at once, against the same bytes written out one after the other.
 */
#include "net/post.h"

#include "base/wire.h"
#include "t/tap/tap.h"

#include <string.h>

enum { PIECES = 20, MOST = 400 };

typedef struct payload {
    uint8_t memory[2][MOST], plain[MOST];
    hp_segment segment[PIECES];
    hp_iov pieces;
    uint32_t bytes;
} payload;

/* Pieces of 0 to 4 elements, backwards in memory. The payload begins in the middle of the first one. */
static void
make(payload *p, hp_side side, uint32_t elem)
{
    uint32_t place = MOST, skip = elem;
    uint64_t begin = 0;
    *p = (payload){0};
    for (int i = 0; i < MOST; i++)
        p->memory[side][i] = (uint8_t)tap_random();
    for (int k = 0; k < PIECES; k++) {
        uint64_t count = k == 0 ? 2 + tap_random() % 3 : tap_random() % 5;
        place -= (uint32_t)count * elem;
        p->segment[k] = (hp_segment){begin, count, p->memory[HP_SIDE_SEND] + place, p->memory[HP_SIDE_RECV] + place};
        for (uint32_t i = k == 0 ? skip : 0; i < count * elem; i++)
            p->plain[p->bytes++] = p->memory[side][place + i];
        begin += count;
    }
    uint8_t *first = p->memory[side] + (p->segment[0].send - p->memory[HP_SIDE_SEND]);
    p->pieces = (hp_iov){.data = first + skip, .elem = elem, .rest = p->segment + 1, .side = side};
    p->pieces.run = (uint32_t)p->segment[0].count * elem - skip;
}

/* The places of a stretch hold its bytes, none is empty, and there are fewer than asked for only at its end. */
static int
stretch_is_right(const payload *p, uint32_t from, uint32_t to, int room)
{
    struct iovec places[2 * PIECES + 1] = {{0}};
    int n = hp_iov_list(&p->pieces, from, to, places, room);
    uint32_t at = from;
    if (n > room || places[n].iov_base)
        return 0;
    for (int i = 0; i < n; i++) {
        size_t here = places[i].iov_len;
        if (here == 0 || at + here > to || memcmp(places[i].iov_base, p->plain + at, here) != 0)
            return 0;
        at += (uint32_t)here;
    }
    return n == room || at == to;
}

static int
all_stretches_are_right(const payload *p, uint32_t k)
{
    for (uint32_t from = 0; from <= p->bytes; from++)
        for (uint32_t to = from; to <= p->bytes; to++)
            for (int room = 0; room <= 2 * PIECES; room += 1 + room)
                if (!case_ok(stretch_is_right(p, from, to, room),
                             "payload %u of %u bytes: the places of bytes %u to %u, %d at a time", k, p->bytes, from,
                             to, room))
                    return 0;
    return 1;
}

static int
wholes_are_right(const payload *p, uint32_t k)
{
    uint8_t copy[MOST];
    for (uint32_t n = 0; n <= p->bytes; n++) {
        hp_iov_copy(&p->pieces, n, copy);
        if (!case_ok(memcmp(copy, p->plain, n) == 0, "payload %u: its first %u bytes", k, n) ||
            !case_int(hp_crc32c(p->plain, n), hp_iov_crc(&p->pieces, n), "payload %u: the checksum of %u bytes", k, n))
            return 0;
    }
    return 1;
}

int
main(void)
{
    int stretches = 1, wholes = 1;
    payload p;
    plan_lazy();
    tap_limit(240);
    tap_seed();
    for (uint32_t k = 0; k < 60; k++) {
        make(&p, k % 2 ? HP_SIDE_SEND : HP_SIDE_RECV, 1 + k % 4);
        stretches &= all_stretches_are_right(&p, k);
        wholes &= wholes_are_right(&p, k);
    }
    ok(stretches, "every stretch of a payload in pieces, with room for one place, for some and for all");
    ok(wholes, "its beginning put together, and its checksum, for every length");
    hp_iov one = {.data = p.plain, .run = 10};
    struct iovec place = {0};
    ok(hp_iov_list(&one, 3, 10, &place, 1) == 1 && place.iov_base == p.plain + 3 && place.iov_len == 7,
       "one array is one place");
    is_int(0, hp_iov_list(&(hp_iov){0}, 0, 0, &place, 1), "an empty payload is none");
    return tap_failures() != 0;
}
