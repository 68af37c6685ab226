/* SPDX-License-Identifier: MIT */
/*
 * control: credits for a peer that takes one byte at a time: each finds room, each arrives, in order. And the room is what
 * medium.h says it is.
 */
#include "net/medium.h"

#include "base/wire.h"
#include "t/tap/tap.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAITING = 12, CREDITS = 1000, CREDIT_FRAME = HP_COMMON_BYTES + HP_CREDIT_BYTES + 4 };

static hp_control control;
static int ends[2];

/* What a socket that takes no more than one byte would leave behind; the byte is written all the same. */
static void
write_one_byte(void)
{
    if (control.out_at < control.out_n && send(ends[0], control.out + control.out_at, 1, 0) == 1)
        control.out_at++;
    if (control.out_at == control.out_n)
        control.out_at = control.out_n = 0;
}

static int
give_credit(uint64_t count)
{
    uint8_t payload[HP_CREDIT_BYTES] = {0};
    hp_put64(payload, count);
    return hp_control_add(&control, ends[0], HP_CREDIT, payload, sizeof(payload));
}

/* The number of frames that came whole, each with the count that follows the last one's. */
static uint64_t
read_all(hp_frame_reader *reader, uint64_t next)
{
    uint8_t bytes[4096];
    const uint8_t *in = bytes;
    ssize_t got = recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT);
    hoop_error error;
    hp_control_frame frame;
    for (size_t n = got > 0 ? (size_t)got : 0; hp_frame_read(reader, &in, &n, &frame, &error) > 0;)
        next += frame.type == HP_CREDIT && frame.n == HP_CREDIT_BYTES && hp_get64(frame.payload) == next;
    return next;
}

/* As many bytes leave as come in, but the queue is never empty: its written part must not count. */
static void
one_byte_at_a_time(void)
{
    static hp_frame_reader reader;
    uint64_t lost = 0, came = 1, said = 0;
    while (said < WAITING)
        lost += !give_credit(++said);
    while (said < CREDITS) {
        for (int k = 0; k < CREDIT_FRAME; k++)
            write_one_byte();
        lost += !give_credit(++said);
        came = read_all(&reader, came);
    }
    is_uint(0, lost, "%d credits, %d waiting at any time, a byte at a time: all find room", CREDITS, WAITING);
    while (hp_control_waits(&control)) {
        write_one_byte();
        came = read_all(&reader, came);
    }
    is_uint(CREDITS + 1, came, "and arrive whole and in order");
}

static int
ends_fit(void)
{
    uint8_t cause[HP_ABORT_BYTES] = {0};
    return hp_control_add(&control, ends[0], HP_ABORT, cause, sizeof(cause)) &&
           hp_control_add(&control, ends[0], HP_LEAVE, NULL, 0);
}

/* The middle of a frame is out when the next ones come. */
static void
room_for_all(void)
{
    uint8_t ticks[HP_HEARTBEATS_BYTES] = {0};
    int taken = 0;
    ok(hp_control_add(&control, ends[0], HP_TICK, ticks, sizeof(ticks)), "a TICK finds room");
    ok(!give_credit(1), "a credit does not, behind it");
    ok(ends_fit(), "but an ABORT and a LEAVE do");
    ok(!hp_control_write(&control, ends[0]) && !hp_control_waits(&control), "all of it is written");
    while (taken < CREDITS && give_credit(1))
        taken++;
    ok(taken > WAITING && taken < CREDITS, "%d credits find room", taken);
    for (int k = 0; k < CREDIT_FRAME + 3; k++)
        write_one_byte();
    ok(give_credit(2) && !give_credit(3), "and one that follows the first one out");
    ok(ends_fit(), "an ABORT and a LEAVE always do");
    ok(!hp_control_add(&control, ends[0], HP_TICK, ticks, sizeof(ticks)), "no TICK behind what is not read");
    ok(!hp_control_write(&control, ends[0]) && !hp_control_waits(&control), "all of it is written");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        bail("no sockets");
    one_byte_at_a_time();
    room_for_all();
    close(ends[0]);
    close(ends[1]);
    return 0;
}
