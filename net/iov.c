/* SPDX-License-Identifier: MIT */
/* iov: see iov.h. */
#include "net/iov.h"

#include "base/wire.h"

#include <string.h>

static uint8_t *
address(const hp_iov *p, const hp_segment *segment)
{
    return p->side == HP_SIDE_SEND ? (uint8_t *)(uintptr_t)segment->send : segment->recv;
}

static uint32_t
smaller(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

int
hp_iov_list(const hp_iov *p, uint32_t from, uint32_t to, struct iovec *places, int room)
{
    const hp_segment *next = p->rest;
    uint8_t *data = p->data;
    uint64_t run = p->run;
    int n = 0;
    while (from < to && n < room) {
        uint32_t here = run > from ? smaller(run - from, to - from) : 0;
        if (here > 0)
            places[n++] = (struct iovec){data + from, here};
        if (here == to - from)
            break;
        /* on to the next segment; `from` and `to` count from its beginning */
        from = here > 0 ? 0 : from - (uint32_t)run;
        to -= (uint32_t)run;
        data = address(p, next);
        run = next->count * p->elem;
        next++;
    }
    return n;
}

void
hp_iov_copy(const hp_iov *p, uint32_t n, uint8_t *out)
{
    struct iovec place;
    for (uint32_t at = 0; at < n; at += (uint32_t)place.iov_len) {
        hp_iov_list(p, at, n, &place, 1);
        memcpy(out + at, place.iov_base, place.iov_len);
    }
}

uint32_t
hp_iov_crc(const hp_iov *p, uint32_t n)
{
    struct iovec places[64];
    uint32_t crc = 0;
    for (uint32_t at = 0; at < n;) {
        int count = hp_iov_list(p, at, n, places, 64);
        for (int i = 0; i < count; i++) {
            crc = hp_crc32c_more(crc, places[i].iov_base, places[i].iov_len);
            at += (uint32_t)places[i].iov_len;
        }
    }
    return crc;
}
