/* SPDX-License-Identifier: MIT */
/*
 * What a link makes of everything that can go wrong on the way: other frames than the one awaited, changed bytes,
 * ABORT and LEAVE on either direction at any moment, ends and resets at every byte. A post is never done by a frame
 * that is not whole and right, and whoever is blamed is blamed by name.
 */
#include "base/err.h"
#include "t/net/rig.h"
#include "t/tap/tap.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SMALL = 23, WIRE_ROOM = 600 };

static const uint8_t data[SMALL] = "twenty-three bytes here";

/* One awaited frame against the bytes that came. */
typedef struct trial {
    hp_frame frame;
    uint8_t wire[WIRE_ROOM];
    size_t n;
    uint8_t to[SMALL];
    rig_scatter pieces;
} trial;

static int in_pieces; /* everything is awaited in several places */

static void
await(rig *r, trial *t, const hp_frame *want, uint32_t bytes)
{
    memset(t->to, 0, sizeof(t->to));
    rig_scatter_make(&t->pieces, NULL, bytes);
    if (in_pieces)
        hp_link_post_iov(r->in, want, &t->pieces.pieces, bytes);
    else
        hp_link_post(r->in, want, t->to, bytes);
}

static trial
trial_of(uint16_t flags)
{
    trial t = {.frame = rig_frame(5, 3, flags)};
    t.n = rig_record(&t.frame, data, SMALL, t.wire, sizeof(t.wire));
    return t;
}

/* Feeds the bytes to a fresh link that awaits `want`; the link is the caller's to look at and close. */
static void
feed(rig *r, trial *t, const hp_frame *want, uint32_t bytes)
{
    rig_open_in(r);
    await(r, t, want, bytes);
    rig_write(r, t->wire, t->n);
    rig_settle(r);
}

/* --- other frames than the one awaited --- */

static void
expect(const char *what, const hp_frame *sent, const hp_frame *awaited, uint32_t bytes, hoop_result code)
{
    trial t = {.frame = *sent};
    rig r;
    t.n = rig_record(sent, data, SMALL, t.wire, sizeof(t.wire));
    feed(&r, &t, awaited, bytes);
    is_int(code, r.in->error.code, "%s: %s", what, r.in->error.text);
    ok(r.in->state == HP_LINK_FAULT && r.in->done == 0 && r.in->error.rank == 0 && r.in->error.reporter == 1,
       "%s: nothing is done, rank 0 is named by rank 1", what);
    rig_close(&r);
}

static void
test_other_frames(void)
{
    for (int k = 0; k < 2; k++) {
        hp_frame sent = rig_frame(5, 3, (uint16_t)(k ? HP_FRAME_CALL : 0)), want = sent;
        want.step++;
        expect("another step", &sent, &want, SMALL, HOOP_ERR_PROTOCOL);
        want = sent;
        want.sequence++;
        expect("another operation", &sent, &want, SMALL, k ? HOOP_ERR_MISMATCH : HOOP_ERR_PROTOCOL);
        want = sent;
        want.channel++;
        expect("another channel", &sent, &want, SMALL, HOOP_ERR_PROTOCOL);
        want = sent;
        want.epoch++;
        expect("an old epoch", &sent, &want, SMALL, HOOP_ERR_STALE_EPOCH);
        want = sent;
        want.epoch--;
        expect("an epoch to come", &sent, &want, SMALL, HOOP_ERR_PROTOCOL);
        expect("more bytes", &sent, &sent, SMALL - 1, HOOP_ERR_PROTOCOL);
        expect("an empty slice awaited", &sent, &sent, 0, HOOP_ERR_PROTOCOL);
        want = sent;
        want.flags ^= HP_FRAME_CALL;
        expect(k ? "a call that comes too late" : "a call that is missing", &sent, &want, SMALL, HOOP_ERR_PROTOCOL);
        want = sent;
        want.call.count = 101;
        want.signature = hp_call_signature(&want.call);
        expect("another call", &sent, &want, SMALL, HOOP_ERR_MISMATCH);
    }
}

/* Both calls, in words, whatever was to be read into: longer and shorter slices, and none. */
static void
test_mismatch_sentence(void)
{
    static const uint32_t sizes[] = {0, 1, SMALL - 1, SMALL};
    int right = 1;
    for (int i = 0; i < 4; i++)
        for (size_t cut = 1; cut < HP_DATA_HEAD_CALL + SMALL; cut++) {
            trial t = trial_of(HP_FRAME_CALL);
            hp_frame want = t.frame;
            rig r;
            want.call.op = HOOP_MAX;
            want.signature = hp_call_signature(&want.call);
            rig_open_in(&r);
            rig_receiving.first = cut;
            await(&r, &t, &want, sizes[i]);
            rig_write(&r, t.wire, t.n);
            rig_settle(&r);
            right &=
                r.in->error.code == HOOP_ERR_MISMATCH && r.in->error.sequence == 5 &&
                strcmp(r.in->error.text, "rank 0 called allreduce of 100 x float32, sum as operation 5, but rank 1 "
                                         "called allreduce of 100 x float32, max") == 0;
            if (!right)
                diag("%u bytes awaited, first read %zu: %s", sizes[i], cut, r.in->error.text);
            rig_close(&r);
            if (!right)
                break;
        }
    ok(right, "a mismatch shows both calls, whatever size was awaited and wherever the read was cut");
}

/* --- changed bytes --- */

static int
flip_is_seen(const trial *good, size_t bit, hoop_result *code)
{
    trial t = *good;
    rig r;
    t.wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
    feed(&r, &t, &good->frame, SMALL);
    rig_shut_bare(&r); /* what waits for bytes that a changed length promised gets its end of file */
    rig_settle(&r);
    int seen = r.in->done == 0 && r.in->state != HP_LINK_OPEN;
    *code = r.in->error.code;
    rig_close(&r);
    return seen;
}

static void
test_flips(uint16_t flags, const char *what)
{
    trial t = trial_of(flags);
    size_t head = t.n - SMALL, checked = flags & HP_FRAME_PAYLOAD_CRC ? t.n : head;
    int seen = 1, corrupt = 1;
    hoop_result code;
    for (size_t bit = 0; bit < checked * 8 && seen; bit++) {
        seen = flip_is_seen(&t, bit, &code);
        corrupt &= code == HOOP_ERR_CORRUPT;
        if (!seen || !corrupt)
            diag("bit %zu of %zu: code %d", bit, checked * 8, (int)code);
        if (!corrupt)
            break;
    }
    ok(seen, "%s: every flipped bit is noticed", what);
    ok(corrupt, "%s: and called HOOP_ERR_CORRUPT, never blamed on the sender", what);
}

static void
test_unchecked_payload(void)
{
    trial t = trial_of(HP_FRAME_CALL);
    rig r;
    t.wire[t.n - 1] ^= 1;
    feed(&r, &t, &t.frame, SMALL);
    ok(r.in->done == 1 && r.in->state == HP_LINK_OPEN,
       "without payload checksums a changed payload passes, as documented");
    rig_close(&r);
}

static void
test_garbage(void)
{
    int right = 1;
    for (int k = 0; k < 300 && right; k++) {
        trial t = trial_of(HP_FRAME_CALL);
        rig r;
        t.n = 16 + tap_random() % (WIRE_ROOM - 16);
        for (size_t i = 0; i < t.n; i++)
            t.wire[i] = (uint8_t)tap_random();
        feed(&r, &t, &t.frame, SMALL);
        right = case_ok(r.in->done == 0 && r.in->state == HP_LINK_FAULT && r.in->error.code == HOOP_ERR_CORRUPT,
                        "garbage %d of %zu bytes: state %d, error %d: %s", k, t.n, (int)r.in->state,
                        (int)r.in->error.code, r.in->error.text);
        rig_close(&r);
    }
    ok(right, "garbage is corruption");
}

/* Whole and correct, but not what belongs on a ring's data direction. */
static void
test_foreign_control(void)
{
    static const hp_frame_type types[] = {HP_JOIN, HP_ROSTER, HP_IN_OP, HP_PING, HP_ACK, HP_RESUME, HP_TAKEN, HP_ABORT};
    int right = 1;
    for (size_t k = 0; k < sizeof(types) / sizeof(*types); k++) {
        trial t = trial_of(0);
        rig r;
        t.n = hp_frame_put_control(t.wire, types[k], "x", 1);
        feed(&r, &t, &t.frame, SMALL);
        right &= r.in->state == HP_LINK_FAULT && r.in->error.code == HOOP_ERR_PROTOCOL && r.in->error.rank == 0;
        if (!right)
            diag("type %d: state %d, %s", (int)types[k], (int)r.in->state, r.in->error.text);
        rig_close(&r);
    }
    ok(right, "control frames that do not belong here, and an ABORT without content, are protocol errors");
}

/* --- the end, at every byte --- */

static void
test_ends(void)
{
    trial t = trial_of(HP_FRAME_CALL | HP_FRAME_PAYLOAD_CRC);
    int fin = 1, rst = 1;
    for (size_t at = 0; at <= t.n; at++)
        for (int reset = 0; reset < 2; reset++) {
            rig r;
            rig_open_in(&r);
            await(&r, &t, &t.frame, SMALL);
            rig_write(&r, t.wire, at);
            rig_settle(&r);
            reset ? rig_reset_bare(&r) : rig_shut_bare(&r);
            int lost = rig_until_state(&r, r.in, HP_LINK_LOST) && r.in->error.code == HOOP_ERR_PEER_LOST &&
                       r.in->error.rank == 0 && (r.in->error.sys_errno != 0) == reset;
            lost &= r.in->done == (at == t.n);
            *(reset ? &rst : &fin) &= lost;
            rig_close(&r);
        }
    ok(fin, "an end of file at any byte: the peer is lost, a part of a slice is never done");
    ok(rst, "a reset at any byte likewise, with its errno");
}

static void
test_sender_sees_end(void)
{
    static uint8_t much[1 << 22];
    hp_frame frame = rig_frame(1, 0, HP_FRAME_CALL);
    rig r;
    rig_open_out(&r);
    rig_shut_bare(&r);
    ok(rig_until_state(&r, r.out, HP_LINK_LOST), "a sender with nothing to send sees the end of file");
    rig_close(&r);
    rig_open_out(&r);
    hp_link_post(r.out, &frame, much, sizeof(much));
    rig_settle(&r);
    rig_reset_bare(&r);
    ok(rig_until_state(&r, r.out, HP_LINK_LOST) && r.out->done == 0 && r.out->error.rank == 1,
       "a sender in the middle of a slice sees the reset: %s", r.out->error.text);
    rig_close(&r);
}

/* --- ABORT and LEAVE --- */

static hoop_error
cause_of_rank_6(void)
{
    hoop_error cause;
    hp_err_set(&cause, HOOP_ERR_TIMEOUT, "rank 6 has not entered operation 5");
    cause.rank = 6;
    cause.reporter = 2;
    cause.sequence = 5;
    return cause;
}

static int
is_that_cause(const hp_link *link)
{
    const hoop_error *e = &link->error;
    return link->state == HP_LINK_ABORT && e->code == HOOP_ERR_TIMEOUT && e->rank == 6 && e->reporter == 2 &&
           e->sequence == 5 && strcmp(e->text, "rank 6 has not entered operation 5") == 0;
}

/* Told by one side, heard by the other, with and without posts, with reads cut anywhere. */
static void
test_abort(void)
{
    hoop_error cause = cause_of_rank_6();
    int forward = 1, backward = 1, unposted = 1;
    for (size_t cut = 1; cut < 120; cut++) {
        hp_frame frame = rig_frame(5, 3, HP_FRAME_CALL);
        uint8_t to[SMALL] = {0};
        trial t;
        rig r;
        rig_open(&r, 1);
        rig_receiving = (rig_limit){cut, cut % 7 + 1, 0};
        await(&r, &t, &frame, SMALL);
        hp_link_stop(r.out, &cause);
        forward &= rig_until_state(&r, r.in, HP_LINK_ABORT) && is_that_cause(r.in) && r.in->done == 0;
        rig_close(&r);
        rig_open(&r, 1);
        rig_receiving = (rig_limit){cut, cut % 7 + 1, 0};
        hp_link_stop(r.out, &cause);
        unposted &= rig_until_state(&r, r.in, HP_LINK_ABORT) && is_that_cause(r.in);
        rig_close(&r);
        rig_open(&r, 2);
        hp_link_post(r.out, &frame, to, SMALL);
        rig_settle(&r);
        hp_link_stop(r.in, &cause);
        backward &= rig_until_state(&r, r.out, HP_LINK_ABORT) && is_that_cause(r.out);
        rig_close(&r);
    }
    ok(forward, "ABORT instead of the awaited frame: the cause arrives word for word");
    ok(unposted, "ABORT when nothing is awaited");
    ok(backward, "ABORT against the direction of the data");
}

/* A rank of which the ring knows nothing is none: programs look things up by it. */
static void
test_abort_of_strangers(void)
{
    hoop_error cause = cause_of_rank_6();
    int right = 1;
    for (int size = 2; size <= 8; size++) {
        rig r;
        rig_open(&r, 1);
        r.in->size = size;
        hp_link_stop(r.out, &cause);
        right &= case_ok(rig_until_state(&r, r.in, HP_LINK_ABORT), "a ring of %d: state %d", size, (int)r.in->state) &&
                 case_int(size > 6 ? 6 : -1, r.in->error.rank, "a ring of %d: the rank", size) &&
                 case_int(size > 2 ? 2 : -1, r.in->error.reporter, "a ring of %d: the reporter", size);
        rig_close(&r);
    }
    ok(right, "an ABORT that names ranks beyond the ring's names nobody");
}

/* The receiver tells its cause; the sender's write fails before it has read; the cause counts, not the symptom. */
static void
test_abort_before_reset(void)
{
    static uint8_t much[1 << 22];
    hoop_error cause = cause_of_rank_6();
    hp_frame frame = rig_frame(5, 3, HP_FRAME_CALL);
    rig r;
    rig_open(&r, 1);
    hp_link_post(r.out, &frame, much, sizeof(much));
    for (int i = 0; i < 20; i++)
        hp_link_move(r.out);
    hp_link_stop(r.in, &cause);
    rig_settle(&r);
    ok(is_that_cause(r.out), "a sender with a full socket hears the cause");
    ok(!hp_link_move(r.out) && r.out->done == 0, "and moves nothing more");
    rig_close(&r);
}

/* In the middle of a frame nothing can be put in between: the peer sees an end, and learns the cause elsewhere. */
static void
test_abort_within_a_frame(void)
{
    hoop_error cause = cause_of_rank_6();
    for (int taken = 0; taken < 2; taken++) {
        static uint8_t much[1 << 22], to[1 << 22];
        hp_frame frame = rig_frame(5, 3, HP_FRAME_CALL);
        rig r;
        rig_open(&r, 1);
        hp_link_post(r.in, &frame, to, sizeof(to));
        hp_link_post(r.out, &frame, much, sizeof(much));
        rig_sending = (rig_limit){taken ? 1000 : 40, 0, 0};
        rig_settle(&r);
        hp_link_stop(r.out, &cause);
        ok(rig_until_state(&r, r.in, HP_LINK_LOST) && r.in->done == 0, "stopped within a %s: the peer sees an end",
           taken ? "payload" : "head");
        rig_close(&r);
    }
}

static void
test_leave(void)
{
    int forward = 1, backward = 1;
    for (size_t cut = 1; cut < 30; cut++) {
        hp_frame frame = rig_frame(5, 3, HP_FRAME_CALL);
        uint8_t to[SMALL];
        rig r;
        rig_open(&r, 2);
        rig_receiving = (rig_limit){cut, cut % 5 + 1, 0};
        hp_link_post(r.in, &frame, to, SMALL);
        hp_link_leave(r.out);
        forward &= rig_until_state(&r, r.in, HP_LINK_LEFT) && r.in->error.code == HOOP_ERR_PEER_LOST &&
                   strstr(r.in->error.text, "has left") && r.in->done == 0;
        rig_close(&r);
        rig_open(&r, 2);
        hp_link_leave(r.in);
        backward &= rig_until_state(&r, r.out, HP_LINK_LEFT) && r.out->error.rank == 1;
        rig_close(&r);
    }
    ok(forward, "LEAVE along the data: left, not lost");
    ok(backward, "LEAVE against the data");
}

/* Data that was sent before the LEAVE still counts. */
static void
test_leave_after_data(void)
{
    uint8_t to[SMALL] = {0};
    hp_frame frame = rig_frame(5, 3, HP_FRAME_CALL);
    rig r;
    rig_open(&r, 1);
    hp_link_post(r.out, &frame, (void *)(uintptr_t)data, SMALL);
    rig_settle(&r);
    hp_link_leave(r.out);
    rig_settle(&r);
    ok(r.in->state == HP_LINK_OPEN, "the sender has left with a slice on its way");
    hp_link_post(r.in, &frame, to, SMALL);
    ok(rig_until_done(&r, r.in, 1), "the slice arrives all the same");
    is_blob(data, to, SMALL, "with its bytes");
    ok(rig_until_state(&r, r.in, HP_LINK_LEFT), "then the LEAVE");
    rig_close(&r);
}

static void
test_closed(void)
{
    rig r;
    rig_open(&r, 3);
    ok(hp_link_closed(r.out), "nothing was written, so nothing is on its way");
    hp_link_leave(r.out);
    hp_link_leave(r.in);
    rig_settle(&r);
    ok(hp_link_closed(r.out) && hp_link_closed(r.in), "both left: what both wrote has arrived");
    rig_close(&r);
}

/* A post that can never be done any more, and one whose bytes were all here before the end. */
static void
test_stuck(void)
{
    trial t = trial_of(HP_FRAME_CALL);
    rig r;
    rig_open_in(&r);
    ok(!hp_link_is_stuck(r.in), "nothing is awaited, nothing is stuck");
    rig_write(&r, t.wire, t.n);
    rig_shut_bare(&r);
    rig_settle(&r);
    ok(!hp_link_is_stuck(r.in), "nor after the end");
    hp_link_post(r.in, &t.frame, t.to, SMALL);
    rig_settle(&r);
    is_uint(1, r.in->done, "what came before the end is done");
    ok(!hp_link_is_stuck(r.in), "and not stuck");
    hp_link_post(r.in, &t.frame, t.to, SMALL);
    rig_settle(&r);
    ok(hp_link_is_stuck(r.in), "what did not come is");
    rig_close(&r);
}

static void
test_fresh(void)
{
    trial t = trial_of(HP_FRAME_CALL);
    rig r;
    hp_link *link = hp_link_new(0, 1, 0, 1, 2, RIG_CAPACITY);
    ok(hp_link_is_fresh(link, 0) && hp_link_is_fresh(link, 1), "stripes to come are fresh");
    hp_link_free(link);
    rig_open_in(&r);
    rig_settle(&r);
    ok(hp_link_is_fresh(r.in, 0), "one that carried nothing is");
    hp_link_post(r.in, &t.frame, t.to, SMALL);
    rig_write(&r, t.wire, 1);
    rig_settle(&r);
    ok(!hp_link_is_fresh(r.in, 0), "one byte, and it is not");
    rig_write(&r, t.wire + 1, t.n - 1);
    rig_settle(&r);
    ok(!hp_link_is_fresh(r.in, 0), "nor after a whole frame");
    rig_close(&r);
}

static void
nothing(void *arg)
{
}

/* The peer's handshake failed at the last moment, on its side only: it dials again, and the link is as good as new. */
static void
test_dialled_again(void)
{
    trial t = trial_of(HP_FRAME_CALL);
    hoop_error error;
    int ends[2];
    rig r;
    rig_open_in(&r);
    hp_link_post(r.in, &t.frame, t.to, SMALL);
    rig_shut_bare(&r);
    rig_settle(&r);
    ok(r.in->state == HP_LINK_LOST && hp_link_is_stuck(r.in) && hp_link_is_fresh(r.in, 0), "lost before a byte came");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        bail("no socket pair");
    is_int(HOOP_SUCCESS, hp_link_attach(r.in, 0, ends[0], r.loop, nothing, NULL, &error), "another takes its place");
    ok(r.in->state == HP_LINK_OPEN && !hp_link_is_stuck(r.in) && r.in->error.code == HOOP_SUCCESS, "the link is open");
    close(r.bare);
    r.bare = ends[1];
    rig_write(&r, t.wire, t.n);
    ok(rig_until_done(&r, r.in, 1), "and carries what was posted before");
    rig_close(&r);
}

/* --- SIGPIPE --- */

static volatile sig_atomic_t pipes;

static void
count_pipe(int number)
{
    pipes++;
}

/* The peer's end of file is not noticed, the head is answered with a reset, and the payload then meets EPIPE. */
static void
test_sigpipe(void)
{
    static uint8_t much[1 << 20];
    hp_frame frame = rig_frame(5, 3, HP_FRAME_CALL);
    rig r;
    pipes = 0;
    rig_open_out(&r);
    hp_link_post(r.out, &frame, much, sizeof(much));
    rig_sending = (rig_limit){HP_DATA_HEAD_CALL, SIZE_MAX, 0};
    rig_shut_bare(&r);
    while (hp_link_move(r.out))
        ;
    is_int(HP_LINK_LOST, r.out->state, "an end while sending: %s", r.out->error.text);
    is_int(0, pipes, "raises no SIGPIPE");
    rig_close(&r);
}

int
main(void)
{
    enum { MEDIA = 3 };
    static const uint32_t media[MEDIA] = {0, HP_SHM_LEAST, 4096};
    plan_lazy();
    tap_limit(240);
    tap_seed();
    signal(SIGPIPE, count_pipe);
    for (int medium = 0; medium < MEDIA; medium++) {
        rig_shares = media[medium];
        diag(rig_shares ? "over memory, in rings of %u bytes" : "over TCP", rig_shares);
        for (in_pieces = 0; in_pieces < 2; in_pieces++) {
            diag(in_pieces ? "what is awaited lies in pieces" : "what is awaited lies in one place");
            test_other_frames();
            test_mismatch_sentence();
            test_flips(HP_FRAME_CALL | HP_FRAME_PAYLOAD_CRC, "head, call and payload");
            test_flips(HP_FRAME_PAYLOAD_CRC, "head and payload");
            test_flips(HP_FRAME_CALL, "head and call");
            test_unchecked_payload();
            test_garbage();
            test_foreign_control();
            test_ends();
            test_abort();
            test_abort_of_strangers();
        }
        test_sender_sees_end();
        test_abort_before_reset();
        test_abort_within_a_frame();
        test_leave();
        test_leave_after_data();
        test_closed();
        test_stuck();
    }
    rig_shares = 0;
    test_fresh();
    test_dialled_again();
    test_sigpipe();
    return tap_failures() != 0;
}
