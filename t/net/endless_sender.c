/* SPDX-License-Identifier: MIT */
/*
 * A peer that sends faster than this side reads, and never stops: what is drained at one go has an end, so that whoever
 * leaves or fails does not stay for it.
 */
#include "t/net/rig.h"
#include "t/tap/tap.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONG = 1 << 20, SLOW = 4, MOST_READS = 3000, FDS = 64 };

static uint8_t bytes[LONG];
static atomic_int enough;

static void *
flood(void *arg)
{
    const rig *r = arg;
    while (!atomic_load(&enough))
        if (send(r->bare, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            sched_yield();
    return NULL;
}

static pthread_t
start_flood(rig *r)
{
    pthread_t thread;
    atomic_store(&enough, 0);
    pthread_create(&thread, NULL, flood, r);
    usleep(50000);                                     /* its bytes lie ready */
    rig_receiving.first = rig_receiving.others = SLOW; /* much slower than the peer */
    return thread;
}

static void
end_flood(pthread_t thread)
{
    atomic_store(&enough, 1);
    pthread_join(thread, NULL);
    rig_unlimited();
}

static void
test_leave(void)
{
    rig r;
    rig_open_in(&r);
    pthread_t thread = start_flood(&r);
    hp_link_leave(r.in);
    rig_receiving.calls = 0;
    hp_link_closed(r.in);
    ok(rig_receiving.calls < MOST_READS, "a look whether a flooded link has closed ends (%d reads)",
       rig_receiving.calls);
    end_flood(thread);
    rig_close(&r);
}

/* The link's own end of the connection. */
static int
end_of(const rig *r)
{
    struct sockaddr_storage want, have;
    socklen_t length = sizeof(want);
    getpeername(r->bare, (struct sockaddr *)&want, &length);
    for (int fd = 3; fd < FDS; fd++) {
        socklen_t n = sizeof(have);
        if (getsockname(fd, (struct sockaddr *)&have, &n) == 0 && n == length && memcmp(&want, &have, n) == 0 &&
            getpeername(fd, (struct sockaddr *)&have, &n) == 0)
            return fd;
    }
    return -1;
}

/* Whoever cannot send any more looks for the cause among what has come. */
static void
test_broken(void)
{
    hp_frame frame = rig_frame(1, 0, HP_FRAME_CALL);
    rig r;
    rig_open_out(&r);
    shutdown(end_of(&r), SHUT_WR);
    hp_link_post(r.out, &frame, bytes, LONG);
    /* only what is no frame at all ends the looking; these are good ones: LEAVE again and again */
    uint8_t leave[64];
    size_t n = hp_frame_put_control(leave, HP_LEAVE, NULL, 0);
    for (size_t at = 0; at < LONG; at++)
        bytes[at] = leave[at % n];
    pthread_t thread = start_flood(&r);
    rig_receiving.calls = 0;
    hp_link_move(r.out);
    ok(rig_receiving.calls < MOST_READS, "a send that fails looks for the cause, not for ever (%d reads)",
       rig_receiving.calls);
    ok(r.out->state == HP_LINK_LOST || r.out->state == HP_LINK_LEFT || r.out->state == HP_LINK_FAULT,
       "and ends the link");
    end_flood(thread);
    rig_close(&r);
}

int
main(void)
{
    tap_limit(240);
    plan(3);
    test_leave();
    test_broken();
    return 0;
}
