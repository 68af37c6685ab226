/* SPDX-License-Identifier: MIT */
/*
 * Links whose connections break and are made again: at every byte, in both directions, with several stripes, many times,
 * with what was on its way lost. All frames come once, in order and whole. A post is not done while its memory may be
 * needed again: the test overwrites it then.
 */
#include "base/err.h"
#include "net/link.h"
#include "t/net/rig.h"
#include "t/tap/tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CAPACITY = 32,
    STRIPES = 3,
    LONGEST = 200000,
    FRAMES = 40,
    STEPS = 100000,
    STEPS_FULL = 1000000,
    TURNS_MOST = 20000
};

/* One direction: what rank 0 sends to rank 1, or 1 to 0. */
typedef struct direction {
    hp_link *out, *in;
    uint64_t made, sent, came; /* frames posted at `out`, done there, done at `in` and right */
    uint64_t awaited;          /* posted at `in` */
    uint64_t total;            /* bytes of all frames posted at `out` */
    uint32_t bytes[CAPACITY];
    uint8_t *from[CAPACITY], *to[CAPACITY];
} direction;

typedef struct pair {
    hp_loop *loop;
    int stripes, twins; /* twins: both directions share their connections */
    direction way[2];
    uint16_t generation[2][STRIPES];
} pair;

static void
kicked(void *arg)
{
}

static uint8_t
byte_of(uint64_t frame, size_t at)
{
    return (uint8_t)((at + 7 * frame) * UINT64_C(2654435761) >> 13);
}

/* --- connections --- */

static hp_link *
dials(const pair *p, int way)
{
    return p->way[way].out;
}

/* The end of the same connections that accepts: rank 0 dials those that both directions share. */
static hp_link *
accepts(const pair *p, int way)
{
    return p->way[way].in;
}

static void
connect_stripe(pair *p, int way, int k)
{
    hp_link *ends[] = {dials(p, way), accepts(p, way)};
    int fd[2];
    hoop_error error;
    rig_connect(fd);
    for (int i = 0; i < 2; i++)
        if (hp_link_attach(ends[i], k, fd[i], p->loop, kicked, NULL, &error) != HOOP_SUCCESS ||
            hp_link_repair(ends[i], k, &error) != HOOP_SUCCESS)
            bail("%s", error.text);
}

static void
begin(pair *p, int stripes, int twins)
{
    *p = (pair){.loop = hp_loop_new(), .stripes = stripes, .twins = twins};
    rig_unlimited();
    for (int w = 0; w < 2; w++) {
        p->way[w].out = hp_link_new(1, w, !w, 1, stripes, CAPACITY);
        p->way[w].in = hp_link_new(0, !w, w, 1, stripes, CAPACITY);
        for (int i = 0; i < CAPACITY; i++) {
            p->way[w].from[i] = malloc(LONGEST);
            p->way[w].to[i] = malloc(LONGEST);
        }
    }
    if (twins) {
        hp_link_pair(p->way[0].out, p->way[1].in, 1);
        hp_link_pair(p->way[1].out, p->way[0].in, 0);
    }
    for (int w = 0; w < 2 - twins; w++)
        for (int k = 0; k < stripes; k++)
            connect_stripe(p, w, k);
}

static void
end(pair *p)
{
    for (int w = 0; w < 2; w++) {
        hp_link_free(p->way[w].out);
        hp_link_free(p->way[w].in);
        for (int i = 0; i < CAPACITY; i++) {
            free(p->way[w].from[i]);
            free(p->way[w].to[i]);
        }
    }
    hp_loop_free(p->loop);
    rig_unlimited();
}

/* Resets the connection at one end: what lies in both of its queues is lost. */
static void
cut(hp_link *end, int k)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    if (end->stripe[k] && !end->stripe[k]->medium.eof)
        connect(end->stripe[k]->medium.fd, &none, sizeof(none));
}

/* A rank that has seen the loss has it connected again; the other one may not know of it. */
static int
mend(pair *p, int way, int k)
{
    hp_link *ends[] = {dials(p, way), accepts(p, way)};
    int fd[2];
    uint16_t generation = ++p->generation[way][k];
    hoop_error error;
    rig_connect(fd);
    for (int i = 0; i < 2; i++)
        if (!hp_link_resumes(ends[i], k, generation) ||
            hp_link_resume(ends[i], k, fd[i], generation, &error) != HOOP_SUCCESS)
            return 0;
    return 1;
}

static int
mend_all(pair *p)
{
    int right = 1;
    for (int w = 0; w < 2 - p->twins; w++)
        for (int k = 0; k < p->stripes; k++)
            if (hp_link_is_broken(dials(p, w), k) || hp_link_is_broken(accepts(p, w), k))
                right &= mend(p, w, k);
    return right;
}

/* --- frames --- */

static hp_frame
frame_of(uint64_t i)
{
    return rig_frame(i + 1, (uint32_t)i,
                     (uint16_t)((i % 5 == 0 ? HP_FRAME_CALL : 0) | (i % 3 ? HP_FRAME_PAYLOAD_CRC : 0)));
}

static void
post_out(direction *d, uint32_t bytes)
{
    hp_frame frame = frame_of(d->made);
    int i = (int)(d->made % CAPACITY);
    d->bytes[i] = bytes;
    d->total += bytes;
    for (size_t at = 0; at < bytes; at++)
        d->from[i][at] = byte_of(d->made, at);
    d->made++;
    hp_link_post(d->out, &frame, d->from[i], bytes);
}

static void
post_in(direction *d)
{
    hp_frame frame = frame_of(d->awaited);
    int i = (int)(d->awaited % CAPACITY);
    memset(d->to[i], 0xa5, d->bytes[i]);
    d->awaited++;
    hp_link_post(d->in, &frame, d->to[i], d->bytes[i]);
}

/* What is done at the sender is overwritten; what is done at the receiver is looked at. Returns 0 if it is wrong. */
static int
settle_done(direction *d)
{
    for (; d->sent < d->out->done; d->sent++)
        memset(d->from[d->sent % CAPACITY], 0x5a, d->bytes[d->sent % CAPACITY]);
    for (; d->came < d->in->done; d->came++)
        for (size_t at = 0; at < d->bytes[d->came % CAPACITY]; at++)
            if (d->to[d->came % CAPACITY][at] != byte_of(d->came, at))
                return 0;
    return 1;
}

static void
turn(pair *p)
{
    for (int w = 0; w < 2; w++) {
        hp_link_move(p->way[w].out);
        hp_link_move(p->way[w].in);
    }
    for (int w = 0; w < 2; w++) {
        hp_link_arm(p->way[w].out);
        hp_link_arm(p->way[w].in);
    }
    hp_loop_run(p->loop, 0);
}

static int
failed(const pair *p)
{
    for (int w = 0; w < 2; w++)
        if (p->way[w].out->state >= HP_LINK_FAULT || p->way[w].in->state >= HP_LINK_FAULT)
            return 1;
    return 0;
}

/* --- by seed --- */

static uint32_t
any_size(int twins)
{
    static const uint32_t sizes[] = {0, 1, 23, HP_SMALL_BYTES, HP_SMALL_BYTES + 1, 20000, HP_UNACKED_LARGE, LONGEST};
    uint32_t i = (uint32_t)(tap_random() % (twins ? 7 : 8));
    return i == 7 && tap_random() % 2 ? HP_UNACKED_LARGE + 1 : sizes[i];
}

static void
limit_calls(void)
{
    int short_ones = tap_random() % 3 == 0;
    rig_unlimited();
    if (!short_ones)
        return;
    rig_sending = (rig_limit){(size_t)(tap_random() % 100), 1 + (size_t)(tap_random() % 70000), 0};
    rig_receiving = (rig_limit){(size_t)(tap_random() % 100), 1 + (size_t)(tap_random() % 70000), 0};
}

/* A whole life of two links. Returns what was wrong; NULL: nothing. */
static const char *
live(int stripes, int twins, int *cuts, long *steps)
{
    pair p;
    const char *wrong = NULL;
    unsigned often = 4 + (unsigned)(tap_random() % 40);
    int turns = 0;
    begin(&p, stripes, twins);
    for (int done = 0; !done && !wrong; turns++) {
        for (int w = 0; w < 2; w++) {
            direction *d = &p.way[w];
            if (d->made < FRAMES && d->made - d->out->done < CAPACITY && d->made - d->came < CAPACITY &&
                tap_random() % 2)
                post_out(d, any_size(twins));
            if (d->awaited < d->made && tap_random() % 2)
                post_in(d);
        }
        limit_calls();
        turn(&p);
        done = 1;
        for (int w = 0; w < 2; w++) {
            if (!settle_done(&p.way[w]))
                wrong = "a frame has other bytes";
            done &= p.way[w].sent == FRAMES && p.way[w].came == FRAMES;
        }
        if (turns < TURNS_MOST / 2 && tap_random() % often == 0) {
            int w = (int)(tap_random() % (unsigned)(2 - twins)), k = (int)(tap_random() % (unsigned)stripes);
            cut(tap_random() % 2 ? dials(&p, w) : accepts(&p, w), k);
            *cuts += 1;
        }
        if (tap_random() % 3 == 0 && !mend_all(&p))
            wrong = "a connection is not made again";
        if (failed(&p))
            wrong = "a link has failed";
        if (turns > TURNS_MOST)
            wrong = "it never ended";
    }
    *steps += turns;
    for (int w = 0; w < 2 && !wrong; w++) {
        if (p.way[w].out->bytes != p.way[w].total || p.way[w].in->bytes != p.way[w].total)
            wrong = "bytes that were sent again count as progress";
    }
    if (wrong && failed(&p))
        for (int w = 0; w < 2; w++)
            diag("%s; %s", p.way[w].out->error.text, p.way[w].in->error.text);
    end(&p);
    return wrong;
}

/* HOOP_TEST_STEPS: so many in all, at least; a step moves each end once. */
static void
test_lives(void)
{
    uint64_t seed = tap_seed();
    const char *full = getenv("HOOP_TEST_FULL"), *wish = getenv("HOOP_TEST_STEPS"), *wrong = NULL;
    long steps = 0, most = wish ? atol(wish) : full && *full == '1' ? STEPS_FULL : STEPS;
    int cuts = 0, life = 0;
    for (; steps < most && !wrong; life++)
        wrong = live(1 + life % STRIPES, life / STRIPES % 2, &cuts, &steps);
    ok(!wrong, "%d lives of two links, %ld steps, %d cuts (seed %llu)%s%s", life, steps, cuts, (unsigned long long)seed,
       wrong ? ": " : "", wrong ? wrong : "");
    ok(cuts > life, "there were cuts");
}

/* --- at every byte --- */

static int
run_until_done(pair *p)
{
    int right = 1;
    for (tap_wait w = {0}; right && tap_waits(&w);) {
        turn(p);
        right = mend_all(p) && !failed(p);
        for (int i = 0; i < 2; i++)
            right &= settle_done(&p->way[i]);
        if (p->way[0].sent == p->way[0].made && p->way[0].came == p->way[0].made && p->way[1].sent == p->way[1].made &&
            p->way[1].came == p->way[1].made)
            break;
    }
    return right;
}

/* Two frames there and two back; after so many bytes the connection breaks at one end. */
static int
breaks_at(size_t at, int twins, int end_that_breaks)
{
    pair p;
    begin(&p, 1, twins);
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < 2; i++) {
            post_out(&p.way[w], 23);
            post_in(&p.way[w]);
        }
    rig_sending = (rig_limit){at, 0, 0};
    turn(&p);
    turn(&p);
    cut(end_that_breaks ? accepts(&p, 0) : dials(&p, 0), 0);
    rig_unlimited();
    int right = run_until_done(&p);
    end(&p);
    return right;
}

static void
test_every_byte(int twins)
{
    for (int side = 0; side < 2; side++) {
        size_t at = 0;
        while (at < 2 * (HP_DATA_HEAD_CALL + 23) && breaks_at(at, twins, side))
            at++;
        ok(at == 2 * (HP_DATA_HEAD_CALL + 23), "%s: the %s end breaks after %zu bytes",
           twins ? "shared" : "one direction", side ? "accepting" : "dialling", at);
    }
}

/* --- when a post is done --- */

static void
turns(pair *p, int n)
{
    for (int i = 0; i < n; i++)
        turn(p);
}

static void
test_done(void)
{
    pair p;
    begin(&p, 1, 0);
    direction *d = &p.way[0];
    post_out(d, HP_UNACKED_LARGE);
    turns(&p, 20);
    is_int(1, (int)d->out->done, "a small frame is done when it is written");
    post_out(d, HP_UNACKED_LARGE + 1);
    turns(&p, 20);
    is_int(1, (int)d->out->done, "a large one is not");
    post_in(d);
    post_in(d);
    turns(&p, 50);
    is_int(2, (int)d->out->done, "but when the peer has taken it");
    end(&p);
    begin(&p, 1, 0);
    d = &p.way[0];
    for (int i = 0; i < 20; i++)
        post_out(d, HP_UNACKED_LARGE);
    turns(&p, 50);
    ok(d->out->done < 6 && d->out->done > 2, "without a word from the peer small frames fill the unacked: %llu of 20",
       (unsigned long long)d->out->done);
    for (int i = 0; i < 20; i++)
        post_in(d);
    ok(run_until_done(&p), "and go on when it takes them");
    end(&p);
}

/* --- peers that lie, and connections that may come --- */

static void
test_lies(void)
{
    uint8_t count[HP_TAKEN_BYTES] = {9}, wire[HP_COMMON_BYTES + HP_TAKEN_BYTES + 4];
    hoop_error error;
    int fd[2];
    rig r;
    rig_open_out(&r);
    hp_link_repair(r.out, 0, &error);
    rig_write(&r, wire, hp_frame_put_control(wire, HP_ACK, count, sizeof(count)));
    ok(rig_until_state(&r, r.out, HP_LINK_FAULT) && r.out->error.code == HOOP_ERR_PROTOCOL,
       "an ACK of frames that were never sent is refused: %s", r.out->error.text);
    rig_close(&r);
    for (int type = HP_ACK; type <= HP_RESUME; type += HP_RESUME - HP_ACK) {
        rig_open_out(&r);
        hp_link_repair(r.out, 0, &error);
        rig_connect(fd);
        hp_link_resume(r.out, 0, fd[0], 1, &error);
        close(r.bare);
        r.bare = fd[1];
        rig_write(&r, wire, hp_frame_put_control(wire, type, count, sizeof(count)));
        ok(rig_until_state(&r, r.out, HP_LINK_FAULT) && r.out->error.code == HOOP_ERR_PROTOCOL, "%s: %s",
           type == HP_ACK ? "so is another frame in place of RESUME" : "and a RESUME", r.out->error.text);
        rig_close(&r);
    }
}

static void
test_generations(void)
{
    hoop_error error;
    pair p;
    begin(&p, 1, 0);
    hp_link *in = accepts(&p, 0);
    ok(!hp_link_resumes(in, 0, 0), "a first connection resumes nothing");
    ok(hp_link_resumes(in, 0, 1), "a later one does, though this end has seen no loss");
    mend(&p, 0, 0);
    ok(hp_link_resumes(in, 0, 1), "the same one again, as long as nothing has come over it");
    turns(&p, 10);
    ok(!hp_link_resumes(in, 0, 1) && hp_link_resumes(in, 0, 2), "then only a later one");
    in->stripe[0]->generation = dials(&p, 0)->stripe[0]->generation = UINT16_MAX;
    is_int(1, hp_link_next_generation(in, 0), "generations begin again");
    ok(hp_link_resumes(in, 0, 1) && !hp_link_resumes(in, 0, UINT16_MAX - 1), "and later ones still win");
    hp_link_give_up(in, 0);
    ok(!hp_link_resumes(in, 0, 2), "none after this end has given up");
    end(&p);
    begin(&p, 1, 0);
    hp_err_clear(&error);
    error.code = HOOP_ERR_ABORTED;
    hp_link_stop(dials(&p, 0), &error);
    turns(&p, 10);
    ok(!hp_link_is_broken(accepts(&p, 0), 0), "a link that was aborted is not made again");
    end(&p);
}

int
main(void)
{
    plan_lazy();
    tap_limit(300);
    test_every_byte(0);
    test_every_byte(1);
    test_done();
    test_lies();
    test_generations();
    test_lives();
    return tap_failures() != 0;
}
