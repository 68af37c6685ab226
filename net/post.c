/* SPDX-License-Identifier: MIT */
/* post: see post.h. */
#include "net/post.h"

#include "base/wire.h"

#include <string.h>

int
hp_iov_list(const hp_iov *p, uint32_t from, uint32_t to, struct iovec *places, int room)
{
    const hp_segment *next = p->rest;
    uint8_t *data = p->data;
    uint64_t run = p->run;
    int n = 0;
    while (from < to && n < room) {
        uint32_t here = run <= from ? 0 : run < to ? (uint32_t)run - from : to - from;
        if (here > 0)
            places[n++] = (struct iovec){data + from, here};
        if (here == to - from)
            break;
        /* on to the next segment; `from` and `to` count from its beginning */
        from = here > 0 ? 0 : from - (uint32_t)run;
        to -= (uint32_t)run;
        data = p->side == HP_SIDE_SEND ? (uint8_t *)(uintptr_t)next->send : next->recv;
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
