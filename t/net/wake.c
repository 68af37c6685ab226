/* SPDX-License-Identifier: MIT */
/*
 * A receiver asleep in the middle of a payload (SO_RCVLOWAT): it is not woken for every packet, but for the end of the
 * connection, for a reset and for the rest of the payload it is, also where the socket cannot hold as many bytes as it
 * would like to sleep for. Nobody else looks round here: a wake-up that is lost costs the whole patience.
 */
#include "base/clock.h"
#include "t/net/rig.h"
#include "t/tap/tap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LONG = 1 << 20, BEFORE_MS = 50, PIECE = 4096 };

typedef enum deed { REST, CRUMBS, FIN, RST } deed;

typedef struct writer {
    rig *r;
    const uint8_t *bytes;
    size_t n;
    deed deed;
    uint64_t at; /* when it was done */
} writer;

static void
nap(long us)
{
    const struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

/* The other rank: acts when the receiver has slept for a moment. */
static void *
act(void *arg)
{
    writer *w = arg;
    nap(BEFORE_MS * 1000);
    w->at = hp_now();
    switch (w->deed) {
    case FIN: rig_shut_bare(w->r); break;
    case RST: rig_reset_bare(w->r); break;
    case REST: rig_write(w->r, w->bytes, w->n); break;
    case CRUMBS:
        for (size_t at = 0, n; at < w->n; at += n) {
            n = w->n - at < PIECE ? w->n - at : PIECE;
            rig_write(w->r, w->bytes + at, n);
            nap(100);
        }
    }
    return NULL;
}

/* Sleeps as a driver does, until the loop says that something has happened. */
static void
sleep_once(rig *r)
{
    uint64_t end = hp_now() + (uint64_t)(4 * tap_room()) * HP_SEC;
    int kicks = r->kicks;
    hp_link_arm(r->in);
    for (uint64_t now = hp_now(); r->kicks == kicks && now < end; now = hp_now())
        hp_loop_run(r->loop, end - now);
}

/* A receiver that has taken the first `early` bytes, and falls asleep; until the payload or the connection has ended. */
static void
receive(rig *r, writer *w, const uint8_t *wire, size_t n, size_t early, uint8_t *to)
{
    hp_frame frame = rig_frame(1, 0, HP_FRAME_CALL);
    pthread_t thread;
    rig_open_in(r);
    rig_write(r, wire, early);
    hp_link_post(r->in, &frame, to, LONG);
    rig_settle(r);
    w->r = r;
    w->bytes = wire + early;
    w->n = n - early;
    r->kicks = 0;
    pthread_create(&thread, NULL, act, w);
    while (r->in->state == HP_LINK_OPEN && r->in->done == 0 && r->kicks < LONG) {
        if (!hp_link_move(r->in))
            sleep_once(r);
    }
    w->at = hp_now() - w->at;
    pthread_join(thread, NULL);
}

static void
try(deed how, const uint8_t *wire, size_t n, size_t early, const uint8_t *data, const char *what)
{
    static uint8_t to[LONG];
    writer w = {.deed = how};
    rig r;
    memset(to, 0, sizeof(to));
    receive(&r, &w, wire, n, early, to);
    int right = how == REST || how == CRUMBS ? r.in->done == 1 && memcmp(to, data, LONG) == 0
                                             : r.in->done == 0 && r.in->state == HP_LINK_LOST;
    ok(right && (double)w.at / 1e9 < 1 + tap_room(), "asleep after %zu bytes: %s (%.3f s, %d wake-ups)", early, what,
       (double)w.at / 1e9, r.kicks);
    if (how == CRUMBS && !rig_receive_buffer)
        ok(r.kicks < LONG / PIECE / 4, "and not for every one of %d packets", LONG / PIECE);
    rig_close(&r);
}

int
main(void)
{
    static const int buffers[] = {0, 4096, 65536};
    static uint8_t data[LONG], wire[LONG + 200];
    hp_frame frame = rig_frame(1, 0, HP_FRAME_CALL);
    plan_lazy();
    tap_limit(240);
    for (size_t i = 0; i < LONG; i++)
        data[i] = (uint8_t)(i * 2654435761U >> 13);
    size_t n = rig_record(&frame, data, LONG, wire, sizeof(wire));
    is_uint(HP_DATA_HEAD_CALL + LONG, n, "a frame of a megabyte");
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++) {
        rig_receive_buffer = buffers[i];
        diag("SO_RCVBUF %d", buffers[i]);
        for (size_t early = HP_DATA_HEAD_CALL; early < 3000; early += 1000) {
            try(FIN, wire, n, early, data, "the end of the connection wakes it");
            try(RST, wire, n, early, data, "a reset wakes it");
            try(REST, wire, n, early, data, "the rest wakes it until all is there");
            try(CRUMBS, wire, n, early, data, "the rest in crumbs wakes it until all is there");
        }
        /* less than the low-water mark is left */
        if (!buffers[i]) {
            try(REST, wire, n, n - 1000, data, "the last bytes wake it");
            try(FIN, wire, n, n - 1, data, "the end before the last byte wakes it");
        }
    }
    rig_receive_buffer = 0;
    return tap_failures() != 0;
}
