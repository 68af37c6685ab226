/* SPDX-License-Identifier: MIT */
/*
 * tcp_silence: when a host counts as silent, and for how long, as the kernel shows it; that TCP itself outlasts peer_timeout, by a
 * model of its timers; and what the user may set.
 */
#include "net/tcp.h"

#include "base/clock.h"
#include "t/tap/tap.h"

static const hp_tcp_look quiet = {0};

/* The silence after looks at seconds first, first + 1, ... last; acked: the second of the last acknowledgement. */
static uint64_t
seconds(hp_tcp_silence *s, hp_tcp_look look, int first, int last, int acked)
{
    for (int at = first; at <= last; at++) {
        look.acked_ms = (uint32_t)(at - acked) * 1000;
        hp_tcp_silence_note(s, &look, (uint64_t)at * HP_SEC);
    }
    return hp_tcp_silence_lasts(s, (uint64_t)last * HP_SEC) / HP_SEC;
}

static void
test_silence(void)
{
    const hp_tcp_look resends = {.unacked = 3, .resent = 2}, probes = {.probes = 1}, sent = {.unacked = 3};
    hp_tcp_silence s = {0};
    is_int(0, (int)seconds(&s, quiet, 100, 200, 1), "a connection that carries nothing is not silent");
    is_int(0, (int)seconds(&s, sent, 200, 300, 1), "nor one whose segments were sent once");
    is_int(30, (int)seconds(&s, resends, 300, 330, 1), "one that was idle is silent since it sends again");
    is_int(0, (int)seconds(&s, quiet, 331, 331, 331), "an acknowledgement ends it");
    is_int(10, (int)seconds(&s, probes, 400, 410, 396), "a lost keepalive probe counts, too, not the time before it");
    is_int(5, (int)seconds(&s, probes, 411, 420, 415), "what was acknowledged meanwhile counts");
    is_int(9, (int)seconds(&s, resends, 421, 424, 424),
           "but not an acknowledgement of nothing new, while data is resent");
    is_int(0, (int)seconds(&s, (hp_tcp_look){.unacked = 3, .resent = 2, .acked = 1}, 425, 425, 1), "one of data does");
    is_int(0, (int)seconds(&s, probes, 500, 500, 500), "the peer's window is shut, and each probe is acknowledged");
    is_int(11, (int)seconds(&s, probes, 500, 511, 500), "silent again");
    is_int(12, (int)seconds(&s, (hp_tcp_look){.closed = 1}, 512, 512, 512), "TCP has given up: it stays so");
    s.since = 0;
    int silent = 0;
    for (int at = 1; at < 2000; at++) {
        hp_tcp_look look = {.probes = at % 2 ? 1 : 0, .acked_ms = at % 2 ? 120000 : 0};
        hp_tcp_silence_note(&s, &look, (uint64_t)at * HP_SEC);
        silent |= hp_tcp_silence_lasts(&s, (uint64_t)at * HP_SEC) > 2 * HP_SEC;
    }
    ok(!silent, "a stopped process whose kernel acknowledges now and then is never silent");
}

/* As Linux does (tcp_model_timeout): 15 retransmissions, the first after 200 ms. */
static uint64_t
retransmissions_last(uint64_t rto_max)
{
    uint64_t all = 0, rto = 200;
    for (int i = 0; i <= 15; i++, rto *= 2)
        all += rto < rto_max ? rto : rto_max;
    return all;
}

static void
test_tcp(void)
{
    const hp_keepalive none = {0};
    int outlasts = 1, in_time = 1, allowed = 1, unacked = 1;
    for (uint64_t s = 1; s <= 86400; s++) {
        hp_keepalive k = hp_tcp_silence_keepalive(s * HP_SEC, &none);
        uint64_t least = (uint64_t)k.interval * (uint64_t)k.count, most = least + (uint64_t)k.idle;
        outlasts &= least >= s + 5;
        in_time &= most <= s + 13 || (s > 600 && most <= s + s / 50 + 13);
        allowed &= k.idle >= 1 && k.interval >= 1 && k.interval < 32767 && k.count >= 1 && k.count <= 127;
        int rto = hp_tcp_silence_rto_max(s * HP_SEC);
        allowed &= rto >= 1000 && rto <= 120000;
        unacked &= s > 840 || retransmissions_last((uint64_t)rto) >= (s + 13) * 1000;
    }
    ok(outlasts, "keepalive outlasts peer_timeout by 5 s at least, whatever probes are lost");
    ok(in_time, "and by 13 s at most");
    ok(allowed, "all values are those that the kernel takes");
    ok(unacked, "retransmissions outlast it, too, up to the 15 minutes that TCP knows");
    hp_keepalive k = hp_tcp_silence_keepalive(30 * HP_SEC, &none);
    ok(k.idle == 4 && k.interval == 5 && k.count == 7, "by default a connection lasts 35 to 39 s");
    ok(hp_tcp_silence_rto_max(30 * HP_SEC) < 7000,
       "... and gets on within 7 s after an outage, where the kernel lets it");
}

static void
test_wishes(void)
{
    hp_keepalive k = hp_tcp_silence_keepalive(30 * HP_SEC, &(hp_keepalive){1, 1, 3});
    ok(k.idle == 1 && k.interval == 1 && k.count == 3, "the user's keepalive counts");
    k = hp_tcp_silence_keepalive(30 * HP_SEC, &(hp_keepalive){.interval = 1});
    ok(k.interval == 1 && k.count == 35, "of an interval follows the number of probes");
    k = hp_tcp_silence_keepalive(30 * HP_SEC, &(hp_keepalive){.count = 2});
    ok(k.interval == 18 && k.count == 2, "and the reverse");
    k = hp_tcp_silence_keepalive(86400 * HP_SEC, &(hp_keepalive){.count = 1});
    ok(k.interval == 32767 && k.count == 1, "up to what the kernel takes");
}

static void
test_margins(void)
{
    ok(hp_tcp_silence_deference(HP_SEC) == 3 * HP_SEC && hp_tcp_silence_deference(30 * HP_SEC) == 5 * HP_SEC,
       "the server has 3 to 5 s for its verdict");
}

/* A look, with so many bytes acknowledged, and an answer to a small packet in each of the seconds first to last. */
static int
may_be_size(hp_tcp_silence *s, hp_tcp_look look, int answered, int first, int last)
{
    int may_be = 0;
    for (int at = first; at <= last; at++) {
        hp_tcp_silence_note(s, &look, (uint64_t)at * HP_SEC);
        hp_tcp_silence_answer(s, &look, answered);
        may_be |= hp_tcp_silence_may_be_size(s, &look, (uint64_t)at * HP_SEC);
    }
    return may_be;
}

static void
test_size(void)
{
    hp_tcp_look look = {.unacked = 9, .resent = 4, .mss = 8948};
    hp_tcp_silence s = {0};
    ok(!may_be_size(&s, look, 1, 100, 120), "small packets are answered, and TCP waits before it sends data again");
    look.resent = 5;
    ok(!may_be_size(&s, look, 1, 121, 121), "one that is sent again may be lost for another reason");
    look.resent = 6;
    ok(may_be_size(&s, look, 1, 122, 122), "two are a reason");
    look.mss = 536;
    ok(!may_be_size(&s, look, 1, 123, 123), "segments that every path passes are not too large");
    look.mss = 8948;
    look.closed = 1;
    ok(!may_be_size(&s, look, 1, 124, 124), "TCP has given up");
    look.closed = 0;
    look.acked = 1000;
    ok(!may_be_size(&s, look, 1, 125, 150), "an acknowledged byte begins the count again");
    look = (hp_tcp_look){.probes = 4, .mss = 8948};
    ok(!may_be_size(&s, look, 1, 151, 180), "a window that is shut is no loss");
    look = (hp_tcp_look){.unacked = 9, .resent = 3, .mss = 8948};
    s = (hp_tcp_silence){0};
    may_be_size(&s, look, 1, 200, 200);
    look.resent = 9;
    ok(!may_be_size(&s, look, 1, 201, 209), "9 s without an acknowledgement are no reason");
    ok(may_be_size(&s, look, 1, 210, 210), "10 s are");
}

/* The cable is pulled for 20 s. The host is back, and TCP sends the data again as late as 25 s after it was lost. */
static void
test_size_after_outage(void)
{
    hp_tcp_look look = {.unacked = 9, .resent = 3, .mss = 8948};
    hp_tcp_silence s = {0};
    int accused = may_be_size(&s, look, 1, 101, 102); /* the last answer was on its way */
    look.resent = 6;
    accused |= may_be_size(&s, look, 0, 103, 119);
    accused |= may_be_size(&s, look, 1, 120, 125);
    ok(!accused, "an outage: the host answers small packets for 6 s before TCP sends data");
    look.resent = 7;
    ok(!may_be_size(&s, look, 1, 126, 150), "nor are packets too large if one is lost then");
    look.resent = 8;
    ok(may_be_size(&s, look, 1, 151, 151), "the next one tells");
}

int
main(void)
{
    plan_lazy();
    tap_limit(30);
    test_silence();
    test_size();
    test_size_after_outage();
    test_tcp();
    test_wishes();
    test_margins();
    return tap_failures() != 0;
}
