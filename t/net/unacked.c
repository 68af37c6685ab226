/* SPDX-License-Identifier: MIT */
/* net/unacked beside a list that keeps everything: frames of all sizes come and go, and none is written over. */
#include "net/unacked.h"
#include "t/tap/tap.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200000, HEAD = 68 };

static uint32_t
any_size(void)
{
    switch (tap_random() % 4) {
    case 0: return HEAD;
    case 1: return HEAD + HP_UNACKED_LARGE;
    case 2: return HEAD + (uint32_t)(tap_random() % HP_UNACKED_LARGE);
    default: return HEAD + (uint32_t)(tap_random() % 500);
    }
}

/* Its first and last bytes tell the frame's number. */
static int
is_whole(const hp_unacked *h, const hp_sent_frame *f, uint64_t number)
{
    uint64_t first, last;
    if (!f || f->number != number || f->at + f->bytes > h->size)
        return 0;
    memcpy(&first, h->memory + f->at, sizeof(first));
    memcpy(&last, h->memory + f->at + f->bytes - sizeof(last), sizeof(last));
    return first == number && last == ~number;
}

static void
test_random(void)
{
    hp_unacked *h = hp_unacked_new(HP_UNACKED_SHARED);
    uint64_t next = 0, taken = 0, kept = 0;
    int whole = 1;
    for (int i = 0; i < ROUNDS && whole; i++) {
        uint32_t bytes = any_size();
        if (tap_random() % 3) {
            uint8_t *to = hp_unacked_add(h, next, bytes);
            uint64_t inverse = ~next;
            if (to) {
                memcpy(to, &next, sizeof(next));
                memcpy(to + bytes - sizeof(inverse), &inverse, sizeof(inverse));
                kept++;
                next += 1 + tap_random() % 2; /* a large frame in between is not kept */
            }
        } else {
            taken += tap_random() % (next - taken + 1);
            hp_unacked_drop(h, taken);
        }
        for (uint64_t k = h->first; k < h->next && whole; k += 1 + (h->next - h->first) / 8)
            whole = is_whole(h, hp_unacked_find(h, h->frames[k % HP_UNACKED_FRAMES].number),
                             h->frames[k % HP_UNACKED_FRAMES].number);
        whole &= !hp_unacked_find(h, next) && (h->first == h->next || !taken || !hp_unacked_find(h, taken - 1));
    }
    ok(whole && kept > ROUNDS / 20, "%llu frames came and went whole (seed %llu)", (unsigned long long)kept,
       (unsigned long long)tap_seed());
    free(h);
}

/* Whatever lies where: when all frames were taken, and the peer owes no word yet, a frame of any size has room. */
static void
test_room(void)
{
    hp_unacked *h = hp_unacked_new(HP_UNACKED_ONE_WAY);
    uint64_t next = 0, bytes = 0, frames = 0;
    int room = 1, full = 0;
    for (int i = 0; i < 200000 && room; i++) {
        uint32_t n = any_size();
        if (hp_unacked_is_due(frames, bytes)) { /* the peer tells at once */
            hp_unacked_drop(h, next);
            frames = bytes = 0;
        }
        room = hp_unacked_add(h, next, n) != NULL;
        next++;
        frames++;
        bytes += n;
    }
    ok(room, "while the peer owes no word there is room for a frame of any size");
    while (hp_unacked_add(h, next, HEAD))
        next++;
    hp_unacked_drop(h, next - 1);
    full = !hp_unacked_add(h, next, HP_UNACKED_ONE_WAY + 1);
    ok(full && hp_unacked_add(h, next, HEAD), "a frame that is larger than all the memory has none");
    free(h);
    h = hp_unacked_new(HP_UNACKED_SHARED);
    room = 1;
    for (int i = 0; i < 1000 && room; i++) {
        int some = 1 + (int)tap_pick(16);
        for (int k = 0; k < 16 && room; k++) /* what 16 frames before was untold is told */
            room = hp_unacked_add(h, next + (uint64_t)k, k < some ? any_size() : HEAD + HP_UNACKED_LARGE) != NULL;
        next += 16;
        hp_unacked_drop(h, next);
    }
    ok(room, "sixteen frames of any size have room where both directions share a stripe");
    free(h);
}

int
main(void)
{
    plan_lazy();
    tap_limit(120);
    test_random();
    test_room();
    return tap_failures() != 0;
}
