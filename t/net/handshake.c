/* SPDX-License-Identifier: MIT */
/*
 * handshake: the handshake against known answers, every split, every flipped bit, replays, reflections, and every refusal.
 * The literals come from an independent program (Python's hmac and hashlib).
 */
#include "net/handshake.h"

#include "base/wire.h"
#include "net/frame.h"
#include "t/net/pair.h"
#include "t/tap/tap.h"

#include <string.h>

static const char m1_known[] =
    "484f4f5001010000800000002a5bac23a0a1a2a3a4a5a6a7a8a9aaabacadaeaf0500000000000000000000000300000004"
    "00000008000000020000000000050005000000000000000000000000000000111111111111111111111111111111111111"
    "1111111111111111111111111111cfe32f88a4dd5a0596b2d037b4cdf6ad901d218948f7f722d32f76be30ba5f48";
static const char m2_known[] =
    "484f4f50010200006000000021ac8ab5000000000400000005000000000000000000000000000000000000000000000022"
    "222222222222222222222222222222222222222222222222222222222222223136f1f2061753d64cdb4ba6017cb7201038"
    "cb0d7bd787dbbef4971a975f13f1";
static const char m3_known[] =
    "484f4f5001030000200000000edf2f766f8d3869937034e63e9c6d5c5dbd6a08c7c623ebb9ef0911f0003b8dd2e77f34";
static const char m4_known[] =
    "484f4f500104000030000000badeae820000000003000000000000000000000046bad428d38dbc7201fe1f8440dd31e76f"
    "55b05e7accbdf3358a856a9a5d17ae";

static void
known_answers(void)
{
    uint8_t want[HP_M1];
    pair p;
    set_up(&p);
    begin(&p);
    unhex(want, m1_known);
    is_blob(want, p.i.out, HP_M1, "M1 is the known answer");
    is_int(HP_HANDSHAKE_CONFIRM, pass(&p.i, &p.r), "the responder takes M1");
    unhex(want, m2_known);
    is_blob(want, p.r.out, HP_M2, "M2 is the known answer");
    is_int(HP_HANDSHAKE_WELCOME, pass(&p.r, &p.i), "the initiator takes M2");
    unhex(want, m3_known);
    is_blob(want, p.i.out, HP_M3, "M3 is the known answer");
    is_int(HP_HANDSHAKE_JUDGE, pass(&p.i, &p.r), "the responder takes M3");
    ok(p.r.out_n == 0, "and says nothing before it has judged");
    hp_handshake_judge(&p.r, HP_OK, 3);
    is_int(HP_HANDSHAKE_DONE, p.r.state, "the responder is done once it has judged");
    unhex(want, m4_known);
    is_blob(want, p.r.out, HP_M4, "M4 is the known answer");
    is_int(HP_HANDSHAKE_DONE, pass(&p.r, &p.i), "the initiator takes M4");
    is_int(3, p.i.assigned_rank, "it has its rank");
    is_int(HP_WIRE_MAX, p.i.version, "both agreed on one version");
    is_int(HP_WIRE_MAX, p.r.version, "both agreed on one version");
    ok(wiped(&p.i) && wiped(&p.r), "the keys are gone at the end");
    ok(p.i.out_n == 0 && p.r.out_n == 0 && hp_handshake_want(&p.i) == 0 && hp_handshake_want(&p.r) == 0,
       "nothing is left to do");
    hp_handshake_judge(&p.r, HP_FULL, 9);
    ok(p.r.state == HP_HANDSHAKE_DONE && p.r.out_n == 0 && p.r.status == HP_OK,
       "judging a second time changes nothing");
}

/* Feeds one message in two parts; the first part must change nothing. */
static int
split_at(int m, size_t k)
{
    pair p;
    hp_handshake *to;
    set_up(&p);
    hp_handshake *from = reach(&p, m, &to);
    hp_handshake_state before = to->state;
    size_t out = to->out_n;
    int fine = hp_handshake_want(to) == sizes[m] && from->out_n == sizes[m];
    fine &= hp_handshake_feed(to, from->out, k, start) == before && to->out_n == out && to->have == k;
    fine &= hp_handshake_want(to) == sizes[m] - k;
    fine = case_ok(fine, "M%d: its first %zu bytes change something", m + 1, k);
    hp_handshake_feed(to, from->out + k, sizes[m] - k, start);
    return fine && case_ok(to->state != before && to->state != HP_HANDSHAKE_BAD,
                           "M%d in two parts, split at byte %zu: %s", m + 1, k, to->why ? to->why : "not taken");
}

static void
splits(void)
{
    for (int m = 0; m < MESSAGES; m++) {
        size_t right = 0;
        for (size_t k = 0; k < sizes[m]; k++)
            right += (size_t)split_at(m, k);
        is_uint(sizes[m], right, "M%d may come in two parts, split at any byte", m + 1);
    }
}

static void
byte_by_byte(void)
{
    pair p;
    set_up(&p);
    begin(&p);
    for (int rounds = 0; p.i.state != HP_HANDSHAKE_DONE && rounds < 1000; rounds++) {
        hp_handshake *from = p.i.out_n > 0 ? &p.i : &p.r, *to = from == &p.i ? &p.r : &p.i;
        hp_handshake_feed(to, from->out, 1, start);
        hp_handshake_wrote(from, 1);
        if (p.r.state == HP_HANDSHAKE_JUDGE)
            hp_handshake_judge(&p.r, HP_OK, 3);
    }
    ok(p.i.state == HP_HANDSHAKE_DONE && p.r.state == HP_HANDSHAKE_DONE, "the handshake works byte by byte");
}

static void
flipped_bits(void)
{
    uint8_t bytes[HP_M1];
    for (int m = 0; m < MESSAGES; m++) {
        size_t caught = 0;
        for (size_t bit = 0; bit < sizes[m] * 8; bit++) {
            pair p;
            hp_handshake *to;
            set_up(&p);
            memcpy(bytes, reach(&p, m, &to)->out, sizes[m]);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            hp_handshake_feed(to, bytes, sizes[m], start);
            caught += (size_t)is_bad(to);
        }
        is_uint(sizes[m] * 8, caught, "each flipped bit of M%d ends in BAD and in silence", m + 1);
    }
}

static void
replays(void)
{
    pair old, now;
    set_up(&old);
    set_up(&now);
    begin(&old);
    pass(&old.i, &old.r);
    pass(&old.r, &old.i);
    pass(&old.i, &old.r);
    memset(now.nonce_r, 0x23, 32);
    begin(&now);
    is_int(HP_HANDSHAKE_CONFIRM, hp_handshake_feed(&now.r, old.i.m1, HP_M1, start),
           "a replayed M1 earns a CHALLENGE, no more");
    ok(memcmp(now.r.m2, old.r.m2, HP_M2) != 0, "and the CHALLENGE is another one");
    hp_handshake_wrote(&now.r, HP_M2);
    hp_handshake_feed(&now.r, old.i.m3, HP_M3, start);
    ok(is_bad(&now.r), "a replayed M1 and M3 are BAD");
    memset(now.nonce_i, 0x12, 32);
    begin(&now);
    hp_handshake_feed(&now.i, old.r.m2, HP_M2, start);
    ok(is_bad(&now.i), "a replayed M2 is BAD");
}

static void
other_edges(void)
{
    pair a, b;
    set_up(&a);
    set_up(&b);
    b.hello.your_rank = b.policy.my_rank = 5;
    begin(&a);
    begin(&b);
    pass(&b.i, &b.r);
    hp_handshake_feed(&a.i, b.r.out, HP_M2, start);
    ok(is_bad(&a.i), "the M2 of another edge is BAD");
    begin(&a);
    hp_handshake_feed(&a.i, a.i.m1, HP_M2, start);
    ok(is_bad(&a.i), "our own M1, sent back, is BAD");
    begin(&a);
    pass(&a.i, &a.r);
    pass(&a.r, &a.i);
    hp_handshake_feed(&a.r, a.r.m2, HP_M3, start);
    ok(is_bad(&a.r), "our own M2, sent back, is BAD");
}

static void
wrong_keys(void)
{
    hp_keys other_secret, other_job;
    make_keys(&other_secret, 1, 0xa0);
    make_keys(&other_job, 0, 0xa1);
    const hp_keys *wrong[] = {&other_secret, &other_job};
    for (int k = 0; k < 2; k++) {
        pair p;
        set_up(&p);
        begin(&p);
        hp_handshake_accept(&p.r, wrong[k], &p.policy, p.nonce_r, limit);
        pass(&p.i, &p.r);
        ok(is_bad(&p.r), "%s: BAD, no reply (%s)", k ? "another job" : "another secret", p.r.why);
    }
    pair p;
    set_up(&p);
    memcpy(p.hello.job_id, other_job.job_id, HP_JOB_ID_BYTES);
    begin(&p);
    pass(&p.i, &p.r);
    ok(is_bad(&p.r), "the job's name alone, with another job's keys: BAD, no reply");
}

/* The acceptor has found M1's tag right before it makes a handshake: the tag is not looked at again, all else is. */
static void
trusted_hello(void)
{
    uint8_t m1[HP_M1];
    pair p;
    set_up(&p);
    begin(&p);
    p.r.hello_proven = 1;
    is_int(HP_HANDSHAKE_CONFIRM, pass(&p.i, &p.r), "a HELLO whose tag was found right is answered");
    is_int(HP_HANDSHAKE_WELCOME, pass(&p.r, &p.i), "with a CHALLENGE that the initiator believes");
    begin(&p);
    memcpy(m1, p.i.m1, HP_M1);
    m1[HP_M1 - 1] ^= 1;
    hp_handshake_feed(&p.r, m1, HP_M1, start);
    ok(is_bad(&p.r), "a wrong tag is BAD");
    begin(&p);
    p.r.hello_proven = 1;
    is_int(HP_HANDSHAKE_CONFIRM, hp_handshake_feed(&p.r, m1, HP_M1, start),
           "a tag that was found right is not computed again");
    begin(&p);
    p.r.hello_proven = 1;
    m1[16] ^= 1;
    hp_handshake_feed(&p.r, m1, HP_M1, start);
    ok(is_bad(&p.r), "another job is BAD all the same");
    begin(&p);
    is_int(0, p.r.hello_proven, "the next handshake begins without that");
}

/* One field of the hello that does not fit, and what both sides must say. */
static void
refusal(const pair *wanted, int status, const char *what)
{
    pair p = *wanted;
    begin(&p);
    pass(&p.i, &p.r);
    ok(p.r.state == HP_HANDSHAKE_REFUSED && p.r.status == status && p.r.out_n == HP_M2 && wiped(&p.r),
       "%s: the responder refuses inside M2 (%d)", what, p.r.status);
    pass(&p.r, &p.i);
    if (p.hello.your_rank != p.policy.my_rank) {
        ok(is_bad(&p.i) && strstr(p.i.why, "from another rank"), "%s: who was not dialled may not even refuse: %s",
           what, p.i.why);
        return;
    }
    ok(p.i.state == HP_HANDSHAKE_REFUSED && p.i.status == status && p.i.out_n == 0 && wiped(&p.i),
       "%s: the initiator hears why: %s", what, p.i.why);
}

/* Overwrites what is not 0 in d. */
static void
differ(hp_hello *hello, const hp_hello *d)
{
    hello->ver_min = d->ver_min ? d->ver_min : hello->ver_min;
    hello->ver_max = d->ver_max ? d->ver_max : hello->ver_max;
    hello->mode = d->mode;
    hello->role = d->role ? d->role : hello->role;
    hello->comm = d->comm ? d->comm : hello->comm;
    hello->epoch = d->epoch;
    hello->world = d->world ? d->world : hello->world;
    hello->your_rank = d->your_rank ? d->your_rank : hello->your_rank;
    hello->my_rank = d->my_rank ? d->my_rank : hello->my_rank;
}

static void
refusals(void)
{
    static const struct {
        const char *what;
        int status;
        hp_hello hello; /* what differs from the right one */
    } rows[] = {
        {"a newer version", HP_BAD_VERSION, {.ver_min = HP_WIRE_MAX + 1, .ver_max = HP_WIRE_MAX + 2}},
        {"a range of versions the wrong way round", HP_BAD_VERSION, {.ver_min = HP_WIRE_MAX + 1}},
        {"another mode", HP_BAD_MODE, {.mode = HP_MODE_TLS}},
        {"another role", HP_BAD_ROLE, {.role = HP_ROLE_CONTROL}},
        {"an unknown role", HP_BAD_ROLE, {.role = 9}},
        {"another communicator", HP_BAD_COMM, {.comm = 6}},
        {"another epoch", HP_BAD_EPOCH, {.epoch = 1}},
        {"another world", HP_BAD_WORLD, {.world = 9}},
        {"a rank that dialled another", HP_BAD_RANK, {.your_rank = 5}},
        {"a rank that dialled itself", HP_BAD_RANK, {.my_rank = 4}},
        {"a rank out of range", HP_BAD_RANK, {.my_rank = 8}},
        {"a rank not yet given, on a data connection", HP_BAD_RANK, {.my_rank = HP_RANK_UNKNOWN}},
        {"a rank that says it is the server", HP_BAD_RANK, {.my_rank = HP_RANK_SERVER}},
    };
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        pair p;
        set_up(&p);
        differ(&p.hello, &rows[k].hello);
        refusal(&p, rows[k].status, rows[k].what);
    }
}

static void
busy(void)
{
    pair p;
    set_up(&p);
    p.policy.busy = 1;
    refusal(&p, HP_BUSY, "no room now");
    p.policy.epoch = 1;
    refusal(&p, HP_BAD_EPOCH, "no room, and another epoch");
}

static void
old_epoch(void)
{
    pair p;
    set_up(&p);
    p.policy.epoch = 2;
    p.hello.epoch = 1;
    refusal(&p, HP_BAD_EPOCH, "an old epoch");
    p.hello.epoch = 2;
    begin(&p);
    is_int(HP_HANDSHAKE_CONFIRM, pass(&p.i, &p.r), "the right epoch is let in");
    is_int(HP_HANDSHAKE_WELCOME, pass(&p.r, &p.i), "on both sides");
}

static void
versions(void)
{
    enum { V = HP_WIRE_MAX };
    static const struct {
        uint16_t min, max, agreed;
    } rows[] = {{0, 0, 0},     {0, 1, 0},     {1, V - 1, 0},     {1, V, V},        {V, V, V},
                {V, V + 1, V}, {0, 65535, V}, {V + 1, V + 1, 0}, {V + 1, 65535, 0}};
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        pair p;
        set_up(&p);
        p.hello.ver_min = rows[k].min;
        p.hello.ver_max = rows[k].max;
        begin(&p);
        pass(&p.i, &p.r);
        pass(&p.r, &p.i);
        if (rows[k].agreed)
            ok(p.i.state == HP_HANDSHAKE_WELCOME && p.i.version == rows[k].agreed && p.r.version == rows[k].agreed,
               "versions %d to %d agree on %d", rows[k].min, rows[k].max, rows[k].agreed);
        else
            ok(p.i.state == HP_HANDSHAKE_REFUSED && p.i.status == HP_BAD_VERSION && p.i.version == HP_WIRE_MAX &&
                   p.r.version == rows[k].max,
               "versions %d to %d are refused, and each side knows the other's", rows[k].min, rows[k].max);
    }
}

static void
features(void)
{
    pair p;
    set_up(&p);
    p.hello.features = 0xf0f;
    p.policy.features = UINT64_C(0xff00000000000f0f) & ~UINT64_C(1);
    begin(&p);
    pass(&p.i, &p.r);
    pass(&p.r, &p.i);
    ok(p.i.features == 0xf0e && p.r.features == 0xf0e, "features are what both sides have");
}

/* A rank without a number asks the server for one. */
static void
joining(void)
{
    pair p;
    set_up(&p);
    p.hello.my_rank = HP_RANK_UNKNOWN;
    p.hello.your_rank = p.policy.my_rank = HP_RANK_SERVER;
    p.hello.role = p.policy.role = HP_ROLE_CONTROL;
    p.hello.comm = p.policy.comm = 0;
    p.policy.world = 0;
    begin(&p);
    pass(&p.i, &p.r);
    pass(&p.r, &p.i);
    is_int(HP_HANDSHAKE_JUDGE, pass(&p.i, &p.r), "a rank without a number may dial the server");
    hp_handshake_judge(&p.r, HP_OK, 6);
    ok(pass(&p.r, &p.i) == HP_HANDSHAKE_DONE && p.i.assigned_rank == 6 && p.r.assigned_rank == 6, "and gets a number");
}

static void
judged_out(void)
{
    for (int status = HP_OK + 1; status < HP_STATUSES; status++) {
        pair p;
        hp_handshake *to;
        set_up(&p);
        p.hello.ver_max = HP_WIRE_MAX;
        reach(&p, 2, &to);
        pass(&p.i, &p.r);
        hp_handshake_judge(&p.r, (hp_status)status, 3);
        int said = p.r.state == HP_HANDSHAKE_REFUSED && p.r.out_n == HP_M4 && wiped(&p.r);
        ok(said && pass(&p.r, &p.i) == HP_HANDSHAKE_REFUSED && p.i.status == status && wiped(&p.i) &&
               p.i.assigned_rank == HP_RANK_UNKNOWN && strcmp(p.i.why, hp_status_text(status)) == 0,
           "judged out inside M4: %s", hp_status_text(status));
    }
    ok(strstr(hp_status_text(HP_STATUSES), "unknown to this version") != NULL, "an unknown status has a text");
    ok(strstr(hp_status_text(-1), "unknown to this version") != NULL, "and so has a negative one");
}

/* A member that lies: field at `offset` of message m set to value, MAC made right again. */
static int
lie(int m, size_t offset, uint8_t value)
{
    pair p;
    hp_handshake *to;
    uint8_t bytes[HP_M1 + HP_M2 + HP_M3 + HP_M4];
    const uint8_t *message_keys[] = {keys.hello, keys.resp, keys.init, keys.welcome};
    set_up(&p);
    hp_handshake *from = reach(&p, m, &to);
    size_t at = (size_t)(from->out - from->transcript), mac_at = at + sizes[m] - HP_MAC;
    memcpy(bytes, from->transcript, sizeof(bytes));
    bytes[at + offset] = value;
    hp_mac(bytes + mac_at, message_keys[m], bytes, mac_at);
    hp_handshake_feed(to, bytes + at, sizes[m], start);
    return is_bad(to);
}

static void
lies(void)
{
    for (size_t k = 0; k < 6; k++)
        ok(!lie(0, 66 + k, 1), "M1 with memory in byte %zu is fine", 66 + k);
    ok(!lie(0, 72, 1), "M1 with another feature is fine (the test can fail)");
    ok(lie(1, 16, 1), "M2 of another epoch is BAD");
    ok(lie(1, 20, 5), "M2 from another rank than the dialled is BAD");
    ok(lie(1, 24, 1), "M2 with a version that was not offered is BAD");
    ok(lie(1, 28, 1) && lie(1, 31, 1) && lie(1, 40, 1) && lie(1, 47, 1), "M2 with reserved bytes set is BAD");
    ok(lie(3, 18, 1) && lie(3, 19, 1) && lie(3, 24, 1) && lie(3, 31, 1),
       "M4 with reserved bytes set, or memory that was not offered, is BAD");
    for (int m = 0; m < MESSAGES; m++)
        for (size_t k = 0; k < HP_COMMON_BYTES; k++)
            if (!lie(m, k, 0xee))
                ok(0, "M%d with byte %zu of its header changed is BAD", m + 1, k);
}

static void
deadlines(void)
{
    for (int m = 0; m < MESSAGES; m++) {
        pair p;
        hp_handshake *to;
        set_up(&p);
        hp_handshake *from = reach(&p, m, &to);
        hp_handshake_state before = to->state;
        ok(hp_handshake_tick(to, limit - 1) == before && hp_handshake_feed(to, from->out, 3, limit - 1) == before,
           "before the deadline M%d is awaited", m + 1);
        hp_handshake copy = *to;
        hp_handshake_tick(&copy, limit);
        ok(is_bad(&copy), "at the deadline waiting for M%d is BAD", m + 1);
        hp_handshake_feed(to, from->out + 3, sizes[m] - 3, limit);
        ok(is_bad(to), "an M%d that comes too late is BAD", m + 1);
    }
    pair p;
    hp_handshake *to;
    set_up(&p);
    reach(&p, 2, &to);
    pass(&p.i, &p.r);
    ok(hp_handshake_tick(&p.r, limit) == HP_HANDSHAKE_BAD && is_bad(&p.r),
       "an owner that does not judge in time loses the peer");
    set_up(&p);
    reach(&p, 3, &to);
    pass(&p.r, &p.i);
    ok(hp_handshake_tick(&p.i, HP_NEVER) == HP_HANDSHAKE_DONE && hp_handshake_tick(&p.r, HP_NEVER) == HP_HANDSHAKE_DONE,
       "a finished handshake has no deadline");
}

/* Each prefix of a right M1: silence, whatever comes after. */
static void
truncated(void)
{
    size_t silent = 0;
    for (size_t k = 0; k < HP_M1; k++) {
        pair p;
        set_up(&p);
        begin(&p);
        int waits = hp_handshake_feed(&p.r, p.i.out, k, start) == HP_HANDSHAKE_HELLO && p.r.out_n == 0;
        hp_handshake_tick(&p.r, limit);
        silent += case_ok(waits && is_bad(&p.r), "M1 cut at byte %zu: state %d, %zu bytes in answer", k, (int)p.r.state,
                          p.r.out_n);
    }
    is_uint(HP_M1, silent, "M1 cut at any byte earns silence and the deadline");
}

static void
pending(void)
{
    static const char *const lines[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "\x16\x03\x01\x02",
                                        "SSH-2.0-OpenSSH_9.2p1\r\n",
                                        "*1\r\n$4\r\nPING\r\n",
                                        "\xff\x53\x4d\x42r",
                                        "HELO mail\r\n",
                                        "HOOT there",
                                        "HOOPS and more hoops",
                                        "\x42\x49\x42\x49\x42\x49"};
    for (size_t k = 0; k < sizeof(lines) / sizeof(lines[0]); k++) {
        pair p;
        set_up(&p);
        begin(&p);
        hp_handshake_feed(&p.r, (const uint8_t *)lines[k], strlen(lines[k]), start);
        ok(is_bad(&p.r), "the connection of another program (%d) is BAD at once, in silence: %s", (int)k, p.r.why);
    }
    size_t silent = 0;
    const size_t tries = 10000;
    for (size_t k = 0; k < tries; k++) {
        uint8_t noise[HP_M1];
        pair p;
        for (size_t b = 0; b < sizeof(noise); b++)
            noise[b] = (uint8_t)tap_random();
        set_up(&p);
        begin(&p);
        memcpy(noise, p.i.out, (size_t)(tap_random() % (HP_M1 - 16))); /* at least half the tag stays noise */
        hp_handshake_feed(&p.r, noise, sizeof(noise), start);
        silent += case_ok(is_bad(&p.r), "noise %zu: state %d, %zu bytes in answer", k, (int)p.r.state, p.r.out_n);
    }
    is_uint(tries, silent, "noise behind a good beginning is BAD, in silence");
}

static void
contract(void)
{
    uint8_t bytes[HP_M1 + 1] = {0};
    pair p;
    hp_hello got;
    set_up(&p);
    begin(&p);
    memcpy(bytes, p.i.out, HP_M1);
    hp_handshake_feed(&p.r, bytes, sizeof(bytes), start);
    ok(is_bad(&p.r), "more bytes than wanted are BAD");
    is_int(HP_HANDSHAKE_BAD, hp_handshake_feed(&p.r, bytes, 1, start), "BAD is for ever");
    hp_handshake_wrote(&p.i, 100);
    is_uint(HP_M1 - 100, p.i.out_n, "a partial write leaves the rest");
    ok(p.i.out == p.i.m1 + 100, "which begins where the write ended");
    hp_handshake_wrote(&p.i, 1000);
    ok(p.i.out_n == 0 && !p.i.out, "more than there is ends it");
    p.hello = (hp_hello){.comm = 0x0102030405060708,
                         .epoch = 9,
                         .my_rank = 10,
                         .your_rank = 11,
                         .world = 12,
                         .role = 13,
                         .mode = 14,
                         .channel = 0x1516,
                         .stripe = 0x1718,
                         .ver_min = 0x1920,
                         .ver_max = 0x2122,
                         .features = 0x232425262728};
    memset(p.hello.job_id, 0x5a, HP_JOB_ID_BYTES);
    hp_hello_put(bytes, &p.hello, p.nonce_i);
    memset(&got, 0, sizeof(got));
    ok(hp_hello_get(&got, bytes), "a hello that was put can be got");
    ok(memcmp(got.job_id, p.hello.job_id, HP_JOB_ID_BYTES) == 0 && got.comm == p.hello.comm && got.epoch == 9 &&
           got.my_rank == 10 && got.your_rank == 11 && got.world == 12 && got.role == 13 && got.mode == 14 &&
           got.channel == 0x1516 && got.stripe == 0x1718 && got.ver_min == 0x1920 && got.ver_max == 0x2122 &&
           got.features == p.hello.features,
       "and all its fields are the same");
    bytes[79] = 1;
    ok(!hp_hello_get(&got, bytes), "but not with the generation of a data connection");
    bytes[56] = HP_ROLE_DATA;
    ok(hp_hello_get(&got, bytes) && got.generation == 0x100, "which has one");
}

/* The headers in handshake.c are literals; they must be what frame.c would write. */
static void
headers(void)
{
    for (int m = 0; m < MESSAGES; m++) {
        pair p;
        hp_handshake *to;
        hp_frame frame;
        set_up(&p);
        const uint8_t *bytes = reach(&p, m, &to)->out;
        ok(hp_frame_get_common(&frame, bytes, NULL) == HOOP_SUCCESS && frame.type == m + 1 &&
               frame.length == sizes[m] - HP_COMMON_BYTES,
           "M%d's header is a frame's header", m + 1);
    }
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    tap_seed();
    make_keys(&keys, 0, 0xa0);
    known_answers();
    splits();
    byte_by_byte();
    flipped_bits();
    replays();
    other_edges();
    wrong_keys();
    trusted_hello();
    refusals();
    old_epoch();
    busy();
    versions();
    features();
    joining();
    judged_out();
    lies();
    deadlines();
    truncated();
    pending();
    contract();
    headers();
    return 0;
}
