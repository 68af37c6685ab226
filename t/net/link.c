/* SPDX-License-Identifier: MIT */
/*
 * net/link and net/stripe moving bytes: every cut of a call at every byte, one to four stripes, posts that come before
 * and after their frames. What goes wrong on the way is link_fault.c's.
 */
#include "t/net/rig.h"
#include "t/tap/tap.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SMALL = 23, LONG = 300000 };

static void
fill(uint8_t *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)((seed + i) * 2654435761U >> 13);
}

/* --- every byte --- */

/* Which side has its payload in pieces. */
enum { NOBODY, SENDER, RECEIVER, BOTH, WAYS };

/* Two frames, the first with the call; both must arrive whatever is cut where. */
static int
two_frames_arrive(rig *r, uint16_t more, int in_pieces)
{
    uint8_t bytes[2][SMALL], to[2][SMALL] = {{0}};
    rig_scatter from_pieces[2], to_pieces[2];
    int right = 1;
    for (uint32_t i = 0; i < 2; i++) {
        hp_frame frame = rig_frame(1, i, (uint16_t)((i == 0 ? HP_FRAME_CALL : 0) | more));
        fill(bytes[i], SMALL, 1 + i);
        rig_scatter_make(&from_pieces[i], bytes[i], SMALL);
        rig_scatter_make(&to_pieces[i], NULL, SMALL);
        if (in_pieces & RECEIVER)
            hp_link_post_iov(r->in, &frame, &to_pieces[i].pieces, SMALL);
        else
            hp_link_post(r->in, &frame, to[i], SMALL);
        if (in_pieces & SENDER)
            hp_link_post_iov(r->out, &frame, &from_pieces[i].pieces, SMALL);
        else
            hp_link_post(r->out, &frame, bytes[i], SMALL);
    }
    right = rig_until_done(r, r->in, 2) && rig_until_done(r, r->out, 2) && r->in->bytes == 2 * SMALL;
    for (int i = 0; i < 2 && right; i++)
        right = in_pieces & RECEIVER ? rig_scatter_holds(&to_pieces[i], bytes[i]) : memcmp(bytes[i], to[i], SMALL) == 0;
    return right;
}

static void
test_cuts(int in_pieces, const char *who)
{
    int writes = 1, reads = 1, crumbs = 1;
    for (size_t cut = 0; cut <= HP_DATA_HEAD_CALL + SMALL && writes && reads; cut++) {
        rig r;
        rig_open(&r, 1);
        rig_sending.first = cut;
        writes = two_frames_arrive(&r, HP_FRAME_PAYLOAD_CRC, in_pieces);
        rig_close(&r);
        rig_open(&r, 1);
        rig_receiving.first = cut;
        reads = two_frames_arrive(&r, HP_FRAME_PAYLOAD_CRC, in_pieces);
        rig_close(&r);
    }
    for (size_t crumb = 1; crumb <= HP_DATA_HEAD_CALL + SMALL && crumbs; crumb++) {
        rig r;
        rig_open(&r, 1);
        rig_sending.first = rig_sending.others = crumb % 2 ? crumb : SIZE_MAX;
        rig_receiving.first = rig_receiving.others = crumb % 3 ? crumb : SIZE_MAX;
        crumbs = two_frames_arrive(&r, 0, in_pieces);
        rig_close(&r);
    }
    ok(writes, "%s in pieces: a first write cut at any byte", who);
    ok(reads, "%s in pieces: a first read cut at any byte", who);
    ok(crumbs, "%s in pieces: crumbs of one byte, two bytes and more", who);
}

/* More pieces than one system call gets, and more than the kernel would take. */
static void
test_many_pieces(void)
{
    enum { PIECES = 5000, EACH = 60 };
    static uint8_t data[PIECES * EACH], to[PIECES * EACH];
    static hp_segment from_list[PIECES], to_list[PIECES];
    hp_frame frame = rig_frame(1, 0, HP_FRAME_CALL | HP_FRAME_PAYLOAD_CRC);
    int right = 1;
    rig r;
    rig_open(&r, 1);
    fill(data, sizeof(data), 77);
    for (size_t i = 0; i < PIECES; i++) {
        size_t at = i * 7 % PIECES * EACH;
        from_list[i] = (hp_segment){i * EACH, EACH, data + at, NULL};
        to_list[i] = (hp_segment){i * EACH, EACH, NULL, to + at};
    }
    hp_iov from = {.data = data, .run = EACH, .elem = 1, .rest = from_list + 1, .side = HP_SIDE_SEND};
    hp_iov into = {.data = to, .run = EACH, .elem = 1, .rest = to_list + 1, .side = HP_SIDE_RECV};
    hp_link_post_iov(r.in, &frame, &into, sizeof(data));
    hp_link_post_iov(r.out, &frame, &from, sizeof(data));
    right = rig_until_done(&r, r.in, 1) && rig_until_done(&r, r.out, 1) && memcmp(data, to, sizeof(data)) == 0;
    ok(right, "%d pieces of %d bytes arrive, each at its place", PIECES, EACH);
    rig_close(&r);
}

/* The first `early` bytes are here, and everything has settled, before the receive is posted. */
static int
late_post_is_served(const uint8_t *wire, size_t n, size_t early, const uint8_t *data)
{
    uint8_t to[SMALL] = {0};
    hp_frame frame = rig_frame(1, 0, HP_FRAME_CALL);
    rig r;
    int right;
    rig_open_in(&r);
    rig_write(&r, wire, early);
    rig_settle(&r);
    right = case_ok(r.in->state == HP_LINK_OPEN && r.in->done == 0, "%zu of %zu bytes before the post: state %d", early,
                    n, (int)r.in->state);
    hp_link_post(r.in, &frame, to, SMALL);
    rig_settle(&r);
    right &= case_int(early == n, (intmax_t)r.in->done, "%zu of %zu bytes before the post: done", early, n);
    rig_write(&r, wire + early, n - early);
    right &= case_ok(rig_until_done(&r, r.in, 1) && memcmp(to, data, SMALL) == 0,
                     "%zu of %zu bytes before the post: the payload", early, n);
    rig_close(&r);
    return right;
}

static void
test_late_post(void)
{
    uint8_t data[SMALL], wire[200];
    hp_frame frame = rig_frame(1, 0, HP_FRAME_CALL);
    int right = 1;
    fill(data, SMALL, 5);
    size_t n = rig_record(&frame, data, SMALL, wire, sizeof(wire));
    is_uint(HP_DATA_HEAD_CALL + SMALL, n, "a frame with its call is 68 bytes and the payload");
    for (size_t early = 0; early <= n && right; early++)
        right = late_post_is_served(wire, n, early, data);
    ok(right, "a frame of which any part came before its post");
}

/* --- with nothing posted TCP holds the sender --- */

static void
test_read_ahead(void)
{
    static uint8_t data[LONG], to[LONG];
    hp_frame frame = rig_frame(1, 0, HP_FRAME_CALL);
    rig r;
    rig_open(&r, 1);
    fill(data, LONG, 9);
    hp_link_post(r.out, &frame, data, LONG);
    rig_settle(&r);
    r.kicks = 0;
    for (int i = 0; i < 50; i++) {
        hp_link_arm(r.in);
        hp_loop_run(r.loop, 0);
    }
    ok(r.kicks <= 1, "one head is read ahead, then nobody is woken (%d times)", r.kicks);
    is_uint(0, r.in->bytes, "and no payload is taken");
    hp_link_post(r.in, &frame, to, LONG);
    ok(rig_until_done(&r, r.in, 1), "until it is posted");
    ok(rig_until_done(&r, r.out, 1), "and the sender is done");
    is_blob(data, to, LONG, "the payload is right");
    rig_close(&r);
}

/* --- stripes --- */

enum { POSTS = 60 };

static uint32_t
size_of(int i)
{
    static const uint32_t sizes[] = {0, 1, 1000, 65536, 7, 0, 130001, 4096};
    return sizes[i % 8];
}

static void
post_both(rig *r, int i, uint8_t *data, uint8_t *to)
{
    hp_frame frame = rig_frame(1, (uint32_t)i, (uint16_t)(i == 0 ? HP_FRAME_CALL : 0));
    hp_link_post(r->in, &frame, to, size_of(i));
    hp_link_post(r->out, &frame, data, size_of(i));
}

static void
test_stripes(int stripes)
{
    uint8_t *data[POSTS], *to[POSTS];
    uint64_t bytes = 0;
    int arrived = 1, right = 1;
    rig r;
    rig_open(&r, stripes);
    for (int i = 0; i < POSTS; i++) {
        data[i] = malloc(size_of(i) + 1);
        to[i] = calloc(1, size_of(i) + 1);
        fill(data[i], size_of(i), (unsigned)i);
        bytes += size_of(i);
        if (i >= RIG_CAPACITY) /* the oldest place must be free on both sides */
            arrived &= rig_until_done(&r, r.in, (uint64_t)i - RIG_CAPACITY + 1) &&
                       rig_until_done(&r, r.out, (uint64_t)i - RIG_CAPACITY + 1);
        post_both(&r, i, data[i], to[i]);
    }
    arrived &= rig_until_done(&r, r.in, POSTS) && rig_until_done(&r, r.out, POSTS);
    for (int i = 0; i < POSTS; i++) {
        right &= case_ok(memcmp(data[i], to[i], size_of(i)) == 0, "post %d of %zu bytes over %d stripes", i,
                         (size_t)size_of(i), stripes);
        free(data[i]);
        free(to[i]);
    }
    ok(arrived && right, "%d posts over %d stripes", POSTS, stripes);
    ok(r.in->bytes == bytes && r.out->bytes == bytes, "both sides count the payload");
    rig_close(&r);
}

/* A connection that is still missing holds its own posts only, and `done` never counts past a hole. */
static void
test_missing_stripe(void)
{
    uint8_t a[SMALL] = {1}, b[SMALL] = {2};
    hp_frame first = rig_frame(1, 0, HP_FRAME_CALL), second = rig_frame(1, 1, 0);
    hp_link *link = hp_link_new(0, 1, 0, 1, 2, RIG_CAPACITY);
    is_int(HP_LINK_WANTED, link->state, "a link begins without connections");
    is_uint(1, hp_link_post(link, &first, a, SMALL), "posts wait");
    is_uint(2, hp_link_post(link, &second, b, SMALL), "and are numbered");
    is_int(0, hp_link_move(link), "nothing moves");
    is_uint(0, link->done, "nothing is done");
    ok(hp_link_closed(link), "a link without connections has nothing on its way");
    hp_link_free(link);
}

/* --- the kernel's own acknowledgements --- */

enum { PAUSE_US = 60000, BEFORE = 17, FRAMES = 64, MOST = FRAMES * 3 / 4 };

/* 0: the kernel does not count them. */
static uint32_t
segments_from(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_segs_out : 0;
}

static void
pass_one(rig *r, uint32_t step)
{
    static const uint8_t bytes[SMALL];
    uint8_t to[SMALL];
    hp_frame frame = rig_frame(1, step, (uint16_t)(step == 0 ? HP_FRAME_CALL : 0));
    hp_link_post(r->in, &frame, to, SMALL);
    hp_link_post(r->out, &frame, (void *)(uintptr_t)bytes, SMALL);
    if (!rig_until_done(r, r->in, step + 1))
        bail("a frame did not arrive");
}

/*
 * One frame after the other, until the link has asked for late acknowledgements and one is due: the pause ends it by
 * the kernel's timer. From there on the kernel acknowledges each frame, until the link asks again.
 */
static uint32_t
acknowledgements(rig *r)
{
    for (uint32_t i = 0; i < BEFORE; i++)
        pass_one(r, i);
    usleep(PAUSE_US);
    uint32_t before = segments_from(r->in_fd);
    for (uint32_t i = 0; i < FRAMES; i++)
        pass_one(r, BEFORE + i);
    return before ? segments_from(r->in_fd) - before : 0;
}

/* On a busy machine the kernel's timer may acknowledge some more: the best of many tries counts. */
static void
test_delayed_acks(void)
{
    uint32_t segments = UINT32_MAX;
    for (tap_wait w = {0}; segments > MOST && tap_waits(&w);) {
        rig r;
        rig_open(&r, 1);
        segments = acknowledgements(&r);
        rig_close(&r);
    }
    if (segments == 0)
        skip(1, "this kernel does not count the segments of a connection");
    else
        ok(segments <= MOST, "after a pause %d small frames are acknowledged by %u segments", FRAMES, segments);
}

/* Every second frame waits for its acknowledgement until the next one has come. The best of many tries counts here too. */
static void
test_round_trip(void)
{
    enum { PACE_US = 5000, LATE = 2 * BEFORE };
    uint32_t rtt_us = PACE_US;
    for (tap_wait w = {0}; rtt_us >= PACE_US / 2 && tap_waits(&w);) {
        rig r;
        rig_open(&r, 1);
        for (uint32_t i = 0; i < BEFORE + LATE; i++) {
            pass_one(&r, i);
            usleep(i < BEFORE ? 0 : PACE_US);
        }
        rtt_us = hp_link_path(r.out).rtt_us;
        rig_close(&r);
    }
    ok(rtt_us < PACE_US / 2, "the round trip, %u us, does not show that acknowledgements are late", rtt_us);
}

/* --- a sender whose socket was full --- */

/* A driver that looks, and does not sleep, hears nothing of its loop: the link finds out by itself that there is room. */
static void
test_full_socket(void)
{
    static uint8_t payload[512], sink[1024];
    int moves = 0;
    rig r;
    rig_open_out(&r);
    rig_sending.first = 0;
    rig_sending.calls = 0;
    hp_frame frame = rig_frame(1, 0, HP_FRAME_CALL);
    hp_link_post(r.out, &frame, payload, sizeof(payload));
    hp_link_move(r.out);
    is_uint(0, r.out->done, "a full socket takes nothing");
    rig_unlimited();
    while (r.out->done == 0 && moves < 100) {
        hp_link_move(r.out);
        moves++;
    }
    ok(r.out->done == 1 && moves > 1, "and is tried again after %d moves, without a word of the loop", moves);
    rig_read(&r, sink, sizeof(sink));
    rig_close(&r);
}

/* --- ticks, against the data --- */

static void
test_ticks(void)
{
    uint8_t ticks[HP_HEARTBEATS_BYTES], *from = calloc(4, 65536), *to = calloc(4, 65536);
    rig r;
    rig_open(&r, 1);
    fill(ticks, sizeof(ticks), 4);
    hp_link_send_heartbeats(r.out, ticks, sizeof(ticks)); /* they do not travel with the data */
    for (uint32_t i = 0; i < 4; i++) {
        hp_frame frame = rig_frame(1, i, (uint16_t)(i == 0 ? HP_FRAME_CALL : 0));
        hp_link_post(r.out, &frame, from + i * 65536, 65536);
        hp_link_post(r.in, &frame, to + i * 65536, 65536);
        hp_link_send_heartbeats(r.in, ticks + i * HP_HEARTBEAT_BYTES, HP_HEARTBEAT_BYTES);
        rig_turn(&r);
    }
    ok(rig_until_done(&r, r.in, 4) && rig_until_done(&r, r.out, 4), "slices go on");
    rig_settle(&r);
    is_uint(4 * HP_HEARTBEAT_BYTES, r.out->heartbeats_n, "all have come");
    is_blob(ticks, r.out->heartbeats, 4 * HP_HEARTBEAT_BYTES, "as they were");
    for (int i = 0; i < 20; i++) {
        hp_link_send_heartbeats(r.in, ticks, sizeof(ticks));
        rig_settle(&r);
    }
    ok(r.out->heartbeats_n > 0 && r.out->heartbeats_n <= HP_HEARTBEATS_ROOM,
       "where nobody looks, room is made for newer ones");
    is_int(HP_LINK_OPEN, r.out->state, "and the link is well");
    rig_close(&r);
    free(from);
    free(to);
}

/* A peer that stands still reads nothing: most of what is told to it is dropped, and no frame is cut. */
static void
test_ticks_unread(void)
{
    enum { TOLD = 100000, WHOLE = HP_COMMON_BYTES + HP_HEARTBEATS_BYTES + 4 };
    static uint8_t sink[1 << 20];
    uint8_t ticks[HP_HEARTBEATS_BYTES] = {0};
    size_t n = 0, got = 1, taken = 0;
    rig r;
    rig_open_in(&r);
    for (int i = 0; i < TOLD; i++)
        taken += (size_t)hp_link_send_heartbeats(r.in, ticks, sizeof(ticks));
    is_int(HP_LINK_OPEN, r.in->state, "ticks that nobody reads harm nobody");
    for (int quiet = 0; quiet < 50; quiet = got ? 0 : quiet + 1) {
        rig_turn(&r);
        got = rig_read(&r, sink, sizeof(sink));
        n += got;
    }
    ok(n > 0 && n % WHOLE == 0 && n / WHOLE < TOLD, "of %d, %zu come, and no part of one", TOLD, n / WHOLE);
    is_uint(taken, n / WHOLE, "as many as were taken");
    hp_link_send_heartbeats(r.in, ticks, sizeof(ticks));
    rig_turn(&r);
    is_uint(WHOLE, rig_read(&r, sink, sizeof(sink)), "once they are read, the next one comes");
    rig_close(&r);
}

/* Those that cannot be: empty, longer than a frame of ticks, or with the data. */
static void
test_ticks_refused(void)
{
    static const size_t sizes[] = {0, HP_HEARTBEATS_BYTES + 1, HP_HEARTBEAT_BYTES};
    uint8_t payload[HP_HEARTBEATS_BYTES + 1] = {0}, wire[HP_COMMON_BYTES + sizeof(payload) + 4];
    for (size_t i = 0; i < 3; i++) {
        rig r;
        if (i == 2)
            rig_open_in(&r);
        else
            rig_open_out(&r);
        const hp_link *link = i == 2 ? r.in : r.out;
        rig_write(&r, wire, hp_frame_put_control(wire, HP_TICK, payload, sizes[i]));
        ok(rig_until_state(&r, link, HP_LINK_FAULT) && link->error.code == HOOP_ERR_PROTOCOL,
           "a TICK of %zu bytes %s the data: %s", sizes[i], i == 2 ? "with" : "against", link->error.text);
        rig_close(&r);
    }
}

static void
test_ack_refused(void)
{
    uint8_t count[8] = {0}, wire[HP_COMMON_BYTES + sizeof(count) + 4];
    rig r;
    rig_open_out(&r);
    rig_write(&r, wire, hp_frame_put_control(wire, HP_ACK, count, sizeof(count)));
    ok(rig_until_state(&r, r.out, HP_LINK_FAULT) && r.out->error.code == HOOP_ERR_PROTOCOL,
       "an ACK is refused where nothing is repaired: %s", r.out->error.text);
    rig_close(&r);
}

/* The host of a rank that is dialled does not answer for long. If it does after all, nothing is lost. */
static void
test_unanswered(void)
{
    hp_frame frame = {0};
    hoop_error error;
    int ends[2];
    rig r;
    hp_link *link = hp_link_new(1, 0, 3, 2, 1, 4);
    rig_open_in(&r);
    if (!link || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        bail("no link");
    link->state = HP_LINK_DIALING;
    hp_link_post(link, &frame, NULL, 0);
    hp_link_cut(link);
    ok(link->error.sys_errno && hp_link_is_stuck(link), "a link that is dialled and cut is stuck");
    is_int(HOOP_SUCCESS, hp_link_attach(link, 0, ends[0], r.loop, NULL, NULL, &error), "but the host answers");
    ok(link->state == HP_LINK_OPEN && !hp_link_is_stuck(link) && !link->error.sys_errno, "and it opens");
    hp_link_free(link);
    close(ends[1]);
    rig_close(&r);
}

/* One of two connections is there, and bytes on it. Nothing moves before the other one is, so nothing wakes the driver. */
static void
test_half_open(void)
{
    rig r = {.loop = hp_loop_new(), .bare = -1};
    hoop_error error;
    int ends[2];
    hp_link *link = hp_link_new(0, 1, 0, 1, 2, RIG_CAPACITY);
    rig_connect(ends);
    ok(!hp_link_stands(link, 0), "a connection that is not there");
    if (hp_link_attach(link, 0, ends[1], r.loop, NULL, NULL, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    ok(hp_link_stands(link, 0), "one that has carried nothing stands");
    is_int(3, (int)send(ends[0], "abc", 3, 0), "bytes come");
    ok(hp_link_stands(link, 0), "and it stands");
    hp_link_arm(link);
    uint64_t began = hp_now();
    hp_loop_run(r.loop, 200 * HP_MS);
    ok(hp_now() - began >= 150 * HP_MS, "they do not wake the driver of a link that is not open yet");
    close(ends[0]);
    for (tap_wait w = {0}; hp_link_stands(link, 0) && tap_waits(&w);)
        recv(ends[1], (char[3]){0}, 3, MSG_DONTWAIT);
    ok(!hp_link_stands(link, 0), "one that the other end has closed does not");
    hp_link_free(link);
    hp_loop_free(r.loop);
}

int
main(void)
{
    enum { MEDIA = 3 };
    static const uint32_t media[MEDIA] = {0, HP_SHM_LEAST, 4096};
    static const char *const ways[WAYS] = {"nobody", "the sender", "the receiver", "both"};
    plan_lazy();
    tap_limit(240);
    for (int medium = 0; medium < MEDIA; medium++) {
        rig_shares = media[medium];
        diag(rig_shares ? "over memory, in rings of %u bytes" : "over TCP", rig_shares);
        for (int way = NOBODY; way < WAYS; way++)
            test_cuts(way, ways[way]);
        test_many_pieces();
        test_late_post();
        test_read_ahead();
        for (int stripes = 1; stripes <= 4; stripes++)
            test_stripes(stripes);
        test_missing_stripe();
        test_ticks();
        test_ack_refused();
    }
    rig_shares = 0;
    test_half_open();
    test_delayed_acks();
    test_round_trip();
    test_full_socket();
    test_ticks_unread();
    test_ticks_refused();
    test_unanswered();
    return tap_failures() != 0;
}
