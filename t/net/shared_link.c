/* SPDX-License-Identifier: MIT */
/*
 * Two links that share one connection, a direction each, as exchanges use them: every cut at every byte, who may send
 * first, a connection that is replaced before it has carried a byte, and ends and faults, which both links learn of.
 */
#include "base/clock.h"
#include "base/err.h"
#include "t/net/rig.h"
#include "t/tap/tap.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAMES = 3, BYTES = 23, LONG = 200000, QUIET_TURNS = 30 };

/* Rank 0 has dialled rank 1; bare: the test reads and writes in rank 0's place. */
typedef struct ends {
    hp_loop *loop;
    hp_link *out[2], *in[2]; /* of each rank */
    int bare;                /* -1: none */
    hp_shm *bare_shm;        /* beside it; NULL: none */
    int kicks;
} ends;

static void
kicked(void *arg)
{
    ((ends *)arg)->kicks++;
}

static void
attach(ends *e, int rank, int fd)
{
    hoop_error error;
    if (hp_link_attach(rank == 0 ? e->out[0] : e->in[1], 0, fd, e->loop, kicked, e, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
}

static void
connect_ends(ends *e, int bare)
{
    int fd[2];
    rig_connect(fd);
    if (bare)
        e->bare = fd[0];
    else
        attach(e, 0, fd[0]);
    attach(e, 1, fd[1]);
    rig_share(bare ? NULL : e->out[0], e->in[1], 0, &e->bare_shm);
}

static void
begin(ends *e, int bare)
{
    *e = (ends){.loop = hp_loop_new(), .bare = -1};
    rig_unlimited();
    for (int rank = 0; rank < 2; rank++) {
        e->out[rank] = hp_link_new(1, rank, !rank, 1, 1, RIG_CAPACITY);
        e->in[rank] = hp_link_new(0, rank, !rank, 1, 1, RIG_CAPACITY);
        hp_link_pair(e->out[rank], e->in[rank], rank == 0);
    }
    connect_ends(e, bare);
}

/* Which of a pair is freed first must not matter. */
static void
end(ends *e, int turn)
{
    for (int rank = 0; rank < 2; rank++) {
        hp_link_free(turn ? e->out[rank] : e->in[rank]);
        hp_link_free(turn ? e->in[rank] : e->out[rank]);
    }
    if (e->bare >= 0)
        close(e->bare);
    hp_shm_free(e->bare_shm);
    hp_loop_free(e->loop);
    rig_unlimited();
}

static int
turn(ends *e)
{
    int moved = 0;
    for (int rank = 0; rank < 2; rank++)
        moved |= hp_link_move(e->out[rank]) | hp_link_move(e->in[rank]);
    for (int rank = 0; rank < 2; rank++) {
        hp_link_arm(e->out[rank]);
        hp_link_arm(e->in[rank]);
    }
    hp_loop_run(e->loop, 0);
    return moved;
}

static void
settle(ends *e)
{
    for (int quiet = 0; quiet < QUIET_TURNS; quiet++)
        if (turn(e))
            quiet = 0;
}

/* Sleeps as a driver does, between two turns in which nothing moved: a wake-up that is missing shows here. */
static int
until_done(ends *e, const hp_link *link, uint64_t done)
{
    for (tap_wait w = {0}; link->done < done && tap_waits(&w);)
        if (!turn(e))
            hp_loop_run(e->loop, 100 * HP_MS);
    return link->done >= done;
}

static uint8_t
byte_of(int rank, int frame, size_t at)
{
    return (uint8_t)((at + 7U * (unsigned)frame + 101U * (unsigned)rank) * 2654435761U >> 13);
}

static uint8_t from[2][FRAMES][LONG], to[2][FRAMES][LONG];

static void
post(ends *e, int rank, uint32_t bytes, int sends, int receives)
{
    for (int i = 0; i < FRAMES; i++) {
        hp_frame frame = rig_frame(1, (uint32_t)i, (uint16_t)(i == 0 ? HP_FRAME_CALL : 0));
        for (size_t at = 0; at < bytes; at++)
            from[rank][i][at] = byte_of(rank, i, at);
        memset(to[rank][i], 0xa5, bytes);
        if (receives)
            hp_link_post(e->in[rank], &frame, to[rank][i], bytes);
        if (sends)
            hp_link_post(e->out[rank], &frame, from[rank][i], bytes);
    }
}

static int
came_whole(ends *e, uint32_t bytes)
{
    int right = 1;
    for (int rank = 0; rank < 2; rank++) {
        right &= case_ok(until_done(e, e->in[rank], FRAMES) && until_done(e, e->out[rank], FRAMES),
                         "rank %d: %ju came, %ju went, states %d and %d", rank, (uintmax_t)e->in[rank]->done,
                         (uintmax_t)e->out[rank]->done, (int)e->in[rank]->state, (int)e->out[rank]->state);
        for (int i = 0; i < FRAMES && right; i++)
            right = case_ok(memcmp(to[rank][i], from[!rank][i], bytes) == 0, "rank %d: frame %d is right", rank, i);
    }
    return right;
}

/* --- both directions at once --- */

static void
test_cuts(void)
{
    int right = 1;
    for (size_t cut = 0; cut <= FRAMES * (HP_DATA_HEAD_CALL + BYTES) && right; cut++)
        for (int reads = 0; reads < 2 && right; reads++) {
            ends e;
            begin(&e, 0);
            (reads ? &rig_receiving : &rig_sending)->first = cut;
            (reads ? &rig_receiving : &rig_sending)->others = 1 + cut % 50;
            post(&e, 0, BYTES, 1, 1);
            post(&e, 1, BYTES, 1, 1);
            right = came_whole(&e, BYTES);
            end(&e, reads);
        }
    ok(right, "frames pass each other, cut at every byte");
}

static void
test_long(void)
{
    ends e;
    begin(&e, 0);
    post(&e, 0, LONG, 1, 1);
    post(&e, 1, LONG, 1, 1);
    ok(came_whole(&e, LONG), "and long ones that fill the connection");
    end(&e, 0);
}

/* --- the beginning --- */

static void
test_who_begins(void)
{
    ends e;
    begin(&e, 0);
    post(&e, 1, BYTES, 1, 1);
    post(&e, 0, BYTES, 0, 1);
    settle(&e);
    ok(e.in[0]->done == 0 && e.out[1]->done == 0, "the rank that was dialled does not send first");
    ok(hp_link_is_fresh(e.in[1], 0) && hp_link_is_fresh(e.out[1], 0), "as long as it has heard nothing");
    ok(!hp_link_is_fresh(e.in[0], 0) && !hp_link_is_fresh(e.out[0], 0), "the rank that dials knows the connection");
    post(&e, 0, BYTES, 1, 0);
    ok(came_whole(&e, BYTES), "then it does");
    ok(!hp_link_is_fresh(e.in[1], 0), "and the connection is not replaced any more");
    end(&e, 1);
}

static void
test_replaced(void)
{
    ends e;
    begin(&e, 1);
    post(&e, 1, BYTES, 1, 1);
    post(&e, 0, BYTES, 1, 1);
    settle(&e);
    close(e.bare); /* the other rank has not learned that the handshake was good */
    e.bare = -1;
    settle(&e);
    ok(e.in[1]->state == HP_LINK_LOST && e.out[1]->state == HP_LINK_LOST,
       "a connection ends before it has carried a byte");
    ok(hp_link_is_fresh(e.in[1], 0) && hp_link_is_fresh(e.out[1], 0), "it may be replaced");
    connect_ends(&e, 0);
    ok(e.in[1]->state == HP_LINK_OPEN && e.out[1]->state == HP_LINK_OPEN, "both links are open again");
    ok(came_whole(&e, BYTES), "and nothing is lost");
    end(&e, 0);
}

/* --- the end --- */

static void
test_ends(void)
{
    ends e;
    hoop_error cause;
    begin(&e, 0);
    hp_err_set(&cause, HOOP_ERR_TIMEOUT, "the first cause");
    cause.rank = 1;
    cause.reporter = 0;
    hp_link_stop(e.out[0], &cause);
    hp_link_stop(e.in[0], &cause);
    settle(&e);
    ok(e.in[1]->state == HP_LINK_ABORT && e.out[1]->state == HP_LINK_ABORT, "both links learn of a cause");
    is_string("the first cause", e.in[1]->error.text, "the one that receives");
    is_string("the first cause", e.out[1]->error.text, "and the one that sends");
    end(&e, 0);
    begin(&e, 0);
    hp_link_leave(e.out[0]);
    hp_link_leave(e.in[0]);
    settle(&e);
    ok(e.in[1]->state == HP_LINK_LEFT && e.out[1]->state == HP_LINK_LEFT, "of a rank that leaves");
    hp_link_leave(e.out[1]);
    settle(&e);
    ok(hp_link_closed(e.out[0]) && hp_link_closed(e.in[0]), "which goes when all is read");
    end(&e, 1);
    begin(&e, 1);
    close(e.bare);
    e.bare = -1;
    settle(&e);
    ok(e.in[1]->state == HP_LINK_LOST && e.out[1]->state == HP_LINK_LOST, "and of a connection that ends");
    end(&e, 0);
}

/* What other connections carry in a direction without data has no place here. */
static void
test_control(void)
{
    static const struct {
        hp_frame_type type;
        size_t n;
    } frames[] = {
        {HP_ACK, 8}, {HP_TICK, HP_HEARTBEAT_BYTES}, {HP_CREDIT, HP_CREDIT_BYTES}, {HP_RESUME, 0}, {HP_TAKEN, 0}};
    for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
        uint8_t payload[HP_HEARTBEAT_BYTES] = {0}, wire[200];
        ends e;
        begin(&e, 1);
        size_t n = hp_frame_put_control(wire, frames[i].type, payload, frames[i].n);
        is_int((intmax_t)n, sendto(e.bare, wire, n, MSG_NOSIGNAL, NULL, 0), "type %d is sent", (int)frames[i].type);
        settle(&e);
        ok(e.in[1]->state == HP_LINK_FAULT && e.in[1]->error.code == HOOP_ERR_PROTOCOL, "and refused: %s",
           e.in[1]->error.text);
        end(&e, 0);
    }
}

/* --- what nobody awaits --- */

static void
test_unposted(void)
{
    ends e;
    begin(&e, 0);
    ok(!hp_link_unposted(e.in[1]), "no head has come");
    post(&e, 0, BYTES, 1, 1);
    settle(&e);
    const hp_frame *head = hp_link_unposted(e.in[1]);
    ok(head && head->sequence == 1 && head->call.kind == HP_ALLREDUCE && head->call.count == 100,
       "the head of a frame that is not awaited shows its call");
    ok(!hp_link_unposted(e.out[1]) && !hp_link_unposted(e.in[0]), "on that link only");
    post(&e, 1, BYTES, 1, 1);
    ok(!hp_link_unposted(e.in[1]), "not once it is awaited");
    ok(came_whole(&e, BYTES), "then it is taken");
    end(&e, 0);
}

int
main(void)
{
    enum { MEDIA = 3 };
    static const uint32_t media[MEDIA] = {0, HP_SHM_LEAST, 4096};
    tap_limit(240);
    plan_lazy();
    for (int medium = 0; medium < MEDIA; medium++) {
        rig_shares = media[medium];
        diag(rig_shares ? "over memory, in rings of %u bytes" : "over TCP", rig_shares);
        test_cuts();
        test_long();
        test_who_begins();
        test_replaced();
        test_ends();
        test_control();
        test_unposted();
    }
    return 0;
}
