/* SPDX-License-Identifier: MIT */
/* message: every payload there and back, cut at every byte, and out of random bytes; which frame is allowed where. */
#include "rendezvous/message.h"

#include "base/err.h"
#include "base/wire.h"
#include "net/handshake.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200000 };

static hp_addr
address(const char *text)
{
    hp_addr addr;
    if (hp_addr_parse(&addr, text, NULL))
        bail("cannot parse %s", text);
    return addr;
}

static hp_join
example(void)
{
    static const char agree[] = "slice=262144\nchannels=1\n";
    hp_join join = {.member = {.rank = 3,
                               .host = "node2",
                               .host_id = UINT64_C(0xfedcba9876543210),
                               .processors = 0x89abcdef,
                               .pid = 811,
                               .pid_space = 0x11223344},
                    .size = 8,
                    .patience = 4999,
                    .op_timeout = UINT64_C(600000000000),
                    .warn_after = UINT64_C(30000000000),
                    .peer_timeout = UINT64_C(45000000000),
                    .parent_rank = -1,
                    .agree = agree,
                    .agree_n = sizeof(agree) - 1};
    join.member.proxied = 1, join.member.addr = address("10.1.2.3:40000");
    join.member.other[0] = address("10.2.2.3:40000");
    return join;
}

static void
test_join(void)
{
    uint8_t bytes[HP_CONTROL_MAX];
    hp_join in = example(), out;
    size_t n = hp_join_put(bytes, &in);
    ok(n > 130 && hp_join_get(&out, bytes, n), "JOIN is read back");
    is_int(3, out.member.rank, "rank");
    is_int(8, out.size, "size");
    is_uint(4999, out.patience, "patience");
    is_uint(UINT64_C(600000000000), out.op_timeout, "op time-out");
    ok(out.warn_after == in.warn_after && out.peer_timeout == in.peer_timeout, "warn after, peer time-out");
    is_uint(UINT64_C(0xfedcba9876543210), out.member.host_id, "host id");
    is_uint(0x89abcdef, out.member.processors, "processors");
    is_uint(0x11223344, out.member.pid_space, "pid space");
    is_uint(811, out.member.pid, "pid");
    is_string("node2", out.member.host, "host");
    char text[HP_ADDR_TEXT];
    is_string("10.1.2.3:40000", hp_addr_print(&out.member.addr, text), "address");
    is_string("10.2.2.3:40000", hp_addr_print(&out.member.other[0], text), "another address");
    is_uint(0, out.member.other[1].length, "and no more");
    ok(out.agree_n == in.agree_n && memcmp(out.agree, in.agree, in.agree_n) == 0, "settings");
    int cut = 0;
    for (size_t k = 0; k < n; k++) {
        uint8_t *exact = malloc(k ? k : 1); /* a read past the end is seen by the sanitizer */
        memcpy(exact, bytes, k);
        cut += hp_join_get(&out, exact, k);
        free(exact);
    }
    is_int(0, cut, "no truncated JOIN is accepted");
    bytes[n] = 0;
    ok(!hp_join_get(&out, bytes, n + 1), "a byte too many is not accepted");
}

static void
test_join_ranges(void)
{
    uint8_t bytes[HP_CONTROL_MAX];
    static char much[HP_AGREE_MAX + 1];
    hp_join out, in = example();
    in.member.rank = 8;
    ok(!hp_join_get(&out, bytes, hp_join_put(bytes, &in)), "rank 8 of 8 is refused");
    in.member.rank = -1;
    ok(hp_join_get(&out, bytes, hp_join_put(bytes, &in)) && out.member.rank == -1, "rank -1 asks for one");
    in.size = 0;
    ok(!hp_join_get(&out, bytes, hp_join_put(bytes, &in)), "size 0 is refused");
    in.size = HP_WORLD_MAX + 1;
    ok(!hp_join_get(&out, bytes, hp_join_put(bytes, &in)), "size 65537 is refused");
    in = example();
    in.parent = 77;
    in.parent_rank = 4;
    in.parent_size = 4;
    ok(!hp_join_get(&out, bytes, hp_join_put(bytes, &in)), "parent rank 4 of 4 is refused");
    in.parent_rank = 3;
    in.color = -5;
    in.key = INT32_MIN;
    in.split = 9;
    ok(hp_join_get(&out, bytes, hp_join_put(bytes, &in)) && out.color == -5 && out.key == INT32_MIN && out.split == 9 &&
           out.parent == 77,
       "a split's colour and key, negative ones too");
    memset(much, 'x', sizeof(much));
    in.agree = much;
    in.agree_n = HP_AGREE_MAX;
    memset(in.member.host, 'h', HP_HOST_TEXT - 1);
    ok(hp_join_get(&out, bytes, hp_join_put(bytes, &in)) && out.agree_n == HP_AGREE_MAX, "2 KiB of settings fit");
    in.agree_n++;
    is_uint(0, hp_join_put(bytes, &in), "more do not");
    in = example();
    in.agree = "slice=\033[31m";
    in.agree_n = strlen(in.agree);
    ok(!hp_join_get(&out, bytes, hp_join_put(bytes, &in)), "settings of control characters are refused");
    in = example();
    memcpy(in.member.host, "a\033[31m b", 9);
    ok(hp_join_get(&out, bytes, hp_join_put(bytes, &in)), "a host name of control characters is read");
    is_string("a?[31m?b", out.member.host, "and made harmless");
}

static hp_ring
make_ring(int size)
{
    hp_ring ring = {.comm = 5, .epoch = 2, .rank = -1, .size = size};
    ring.members = calloc((size_t)size + 1, sizeof(hp_member));
    ring.order = calloc((size_t)size + 1, sizeof(int));
    for (int i = 0; i < size; i++) {
        ring.members[i] = (hp_member){.rank = i,
                                      .host_id = (uint64_t)i * 7,
                                      .processors = (uint32_t)i * 5,
                                      .pid_space = (uint32_t)i * 3,
                                      .pid = (uint32_t)i + 1};
        snprintf(ring.members[i].host, HP_HOST_TEXT, "host-%d", i);
        ring.members[i].addr = address(i % 2 ? "[fe80::1]:77" : "10.0.0.9:66");
        for (int k = 0; k < i % (HP_OTHERS + 1); k++)
            ring.members[i].other[k] = address("[fd00::1]:77");
        ring.order[(i * 7 + 3) % size] = i; /* a permutation, as size is prime to 7 */
    }
    return ring;
}

static void
free_ring(hp_ring *ring)
{
    free(ring->members);
    free(ring->order);
}

static void
test_roster(int size)
{
    uint8_t bytes[HP_CONTROL_MAX];
    hp_ring ring = make_ring(size), seen = make_ring(size);
    hp_part part;
    int frames = 0, good = 1, cut = 0;
    memset(seen.members, 0, (size_t)size * sizeof(hp_member));
    memset(seen.order, 0, (size_t)size * sizeof(int));
    for (int next = 0; next < size; frames++) {
        size_t n = hp_part_put(bytes, &ring, size - 1, next, &next);
        for (size_t k = 0; k < n; k++)
            cut += hp_part_get(&part, bytes, k) && hp_part_members(&part, seen.members, seen.order);
        good &= case_ok(n <= HP_CONTROL_MAX && hp_part_get(&part, bytes, n) &&
                            hp_part_members(&part, seen.members, seen.order),
                        "part %d of %d ranks, %zu bytes, cannot be read", frames, size, n);
        good &= case_ok(part.rank == size - 1 && part.size == size && part.comm == 5 && part.epoch == 2,
                        "part %d of %d ranks says rank %d of %d, communicator %ju, epoch %ju", frames, size, part.rank,
                        part.size, (uintmax_t)part.comm, (uintmax_t)part.epoch);
    }
    ok(good && cut == 0, "%d ranks travel in %d parts, and no part can be cut", size, frames);
    ok(hp_ring_close(&seen), "the parts make a ring");
    is_blob(ring.order, seen.order, (size_t)size * sizeof(int), "of the same order");
    for (int i = 0; i < size; i++)
        good &= case_ok(seen.members[i].rank == i && strcmp(seen.members[i].host, ring.members[i].host) == 0 &&
                            seen.members[i].host_id == ring.members[i].host_id &&
                            seen.members[i].processors == ring.members[i].processors &&
                            seen.members[i].pid_space == ring.members[i].pid_space &&
                            seen.members[i].pid == ring.members[i].pid &&
                            hp_addr_port(&seen.members[i].addr) == hp_addr_port(&ring.members[i].addr) &&
                            memcmp(seen.members[i].other, ring.members[i].other, sizeof(ring.members[i].other)) == 0,
                        "member %d of %d came as rank %d on %s, pid %u", i, size, seen.members[i].rank,
                        seen.members[i].host, seen.members[i].pid);
    ok(good, "and the same members");
    for (int i = 0; i < size; i++)
        seen.members[i].rank = -1;
    if (size > 1) {
        seen.order[0] = seen.order[1];
        ok(!hp_ring_close(&seen), "an order that names a rank twice is refused");
    }
    free_ring(&ring);
    free_ring(&seen);
}

static void
test_empty_roster(void)
{
    uint8_t bytes[HP_CONTROL_MAX];
    hp_ring none = {.comm = 9, .rank = -1};
    hp_part part;
    int next = -1;
    size_t n = hp_part_put(bytes, &none, -1, 0, &next);
    ok(hp_part_get(&part, bytes, n) && part.size == 0 && part.rank == -1 && next == 0, "an empty roster");
    hp_put32(bytes + 12, 0); /* rank */
    ok(!hp_part_get(&part, bytes, n), "rank 0 of none is refused");
    hp_put64(bytes, 0);
    ok(!hp_part_get(&part, bytes, n), "communicator 0 is refused");
}

static const hp_call a_call = {.kind = HP_BROADCAST, .dtype = HOOP_INT8, .op = HOOP_SUM, .root = 2, .count = 7};

static void
test_report(void)
{
    uint8_t bytes[HP_REPORT_BYTES + 1] = {0};
    hp_report in = {.sequence = 17,
                    .step = UINT64_C(1) << 40,
                    .bytes = UINT64_MAX,
                    .since = 5,
                    .limit = 6,
                    .overdue = 7,
                    .awaited = {HP_WAIT_LINK, 8}};
    hp_report out;
    int cut = 0;
    in.call = a_call;
    hp_report_put(bytes, &in);
    ok(hp_report_get(&out, bytes, HP_REPORT_BYTES) && out.sequence == 17 && out.step == in.step &&
           out.bytes == UINT64_MAX && out.since == 5 && out.limit == 6 && out.overdue == 7 && out.awaited.rank == 8 &&
           out.awaited.what == HP_WAIT_LINK && hp_call_equal(&out.call, &in.call),
       "a report is read back");
    in.awaited = (hp_awaited){HP_WAIT_DEVICE, -1};
    hp_report_put(bytes, &in);
    ok(hp_report_get(&out, bytes, HP_REPORT_BYTES) && out.awaited.rank == -1 && out.awaited.what == HP_WAIT_DEVICE,
       "one that waits for no rank waits for its device");
    for (size_t k = 0; k < HP_REPORT_BYTES; k++)
        cut += hp_report_get(&out, bytes, k);
    is_int(0, cut, "no truncated report is accepted");
    ok(!hp_report_get(&out, bytes, sizeof(bytes)), "nor a longer one");
    in.sequence = 0;
    hp_report_put(bytes, &in);
    ok(!hp_report_get(&out, bytes, HP_REPORT_BYTES), "operation 0 does not exist");
}

static void
test_refusal(void)
{
    uint8_t bytes[HP_REFUSAL_BYTES];
    hoop_error cause, out;
    uint32_t split = 0;
    int cut = 0;
    hp_err_set(&cause, HOOP_ERR_ABORTED, "no memory");
    cause.rank = 3;
    size_t n = hp_refusal_put(bytes, 0x80000001, &cause), fixed = n - strlen("no memory");
    ok(hp_refusal_get(&split, &out, bytes, n) && split == 0x80000001 && out.rank == 3 && out.code == HOOP_ERR_ABORTED &&
           strcmp(out.text, "no memory") == 0,
       "a refusal is read back");
    for (size_t k = 0; k < fixed; k++)
        cut += hp_refusal_get(&split, &out, bytes, k);
    is_int(0, cut, "no truncated refusal is accepted");
}

/* What a member says to come back: where it stands, by the same frame as in the beginning. */
static void
test_return(void)
{
    uint8_t bytes[HP_CONTROL_MAX];
    hp_join out, in = example();
    in.ring = 77;
    in.epoch = 2;
    in.digest = 78;
    in.started = 12;
    in.completed = 11;
    ok(hp_join_get(&out, bytes, hp_join_put(bytes, &in)) && out.ring == 77 && out.epoch == 2 && out.digest == 78 &&
           out.started == 12 && out.completed == 11,
       "a member that comes back says of which ring it is, and how far it has come");
    in.completed = 13;
    ok(!hp_join_get(&out, bytes, hp_join_put(bytes, &in)), "it cannot have completed more than it has started");
    in.completed = 12;
    in.member.rank = -1;
    ok(!hp_join_get(&out, bytes, hp_join_put(bytes, &in)), "it has a rank");
    in.member.rank = 3;
    in.parent = 5;
    in.parent_rank = 3;
    in.parent_size = 8;
    ok(!hp_join_get(&out, bytes, hp_join_put(bytes, &in)), "and does not split at the same time");
}

static void
test_digest(void)
{
    hp_ring a = make_ring(8), b = make_ring(8);
    int changed = 0;
    ok(hp_ring_digest(&a) == hp_ring_digest(&b), "the same ring has the same digest");
    b.rank = 5;
    ok(hp_ring_digest(&a) == hp_ring_digest(&b), "whoever asks");
    for (int i = 0; i < 8; i++) {
        b.members[i].pid++;
        changed += hp_ring_digest(&a) != hp_ring_digest(&b);
        b.members[i].pid--;
    }
    b.comm++;
    changed += hp_ring_digest(&a) != hp_ring_digest(&b);
    is_int(9, changed, "another process, or another communicator, has another");
    free_ring(&a);
    free_ring(&b);
}

static void
test_loss(void)
{
    static const uint8_t golden[HP_LOSS_BYTES] = {[0] = 3, [4] = 104, [8] = 17, [16] = 1};
    uint8_t bytes[HP_LOSS_BYTES + 1] = {0};
    hp_loss in = {.peer = 3, .number = 104, .sequence = 17, .repaired = 1}, out;
    int cut = 0;
    hp_loss_put(bytes, &in);
    is_blob(golden, bytes, HP_LOSS_BYTES, "LOST, byte for byte");
    ok(hp_loss_get(&out, bytes, HP_LOSS_BYTES) && out.peer == 3 && out.number == 104 && out.sequence == 17 &&
           out.repaired == 1,
       "is read back");
    for (size_t k = 0; k < HP_LOSS_BYTES; k++)
        cut += hp_loss_get(&out, bytes, k);
    ok(cut == 0 && !hp_loss_get(&out, bytes, sizeof(bytes)), "no shorter and no longer one");
    hp_put32(bytes, UINT32_MAX);
    ok(!hp_loss_get(&out, bytes, HP_LOSS_BYTES), "it was somebody's connection");
}

static void
test_vitals(void)
{
    static const uint8_t golden[HP_VITALS_BYTES] = {
        0x01, 0, 0, 0, 0, 0, 0, 0x11, 0x02, 0, 0, 0, 0,    0, 0, 0x12, /* at, operations */
        0x03, 0, 0, 0, 0, 0, 0, 0x13, 0x04, 0, 0, 0, 0,    0, 0, 0x14, /* messages, over levels */
        0x05, 0, 0, 0, 0, 0, 0, 0x15, 0x06, 0, 0, 0, 0,    0, 0, 0x16, /* sent, received */
        0x07, 0, 0, 0, 0, 0, 0, 0x17, 0x08, 0, 0, 0, 0,    0, 0, 0x18, /* over TCP, waited: for a peer */
        0x09, 0, 0, 0, 0, 0, 0, 0x19, 0x0a, 0, 0, 0, 0,    0, 0, 0x1a, /* a link, the stream */
        0x0b, 0, 0, 0, 0, 0, 0, 0x1b, 0x0c, 0, 0, 0, 0,    0, 0, 0x1c, /* the device, sent again */
        0x0d, 0, 0, 0, 0, 0, 0, 0x1d, 0x0e, 0, 0, 0, 0,    0, 0, 0x1e, /* ... to one rank, delivery rate */
        0x0f, 0, 0, 0, 0, 0, 0, 0x1f, 0x10, 0, 0, 0, 0,    0, 0, 0x20, /* entries, entered */
        0x11, 0, 0, 0, 0, 0, 0, 0x21, 0x31, 0, 0, 0, 0x07, 0, 0, 0,    /* its error; rtt, most goes to */
    };
    hp_vitals in = {.rtt = 0x31, .most_to = 7}, out;
    uint64_t *const field[] = {&in.at,        &in.operations,   &in.messages,    &in.levels,        &in.sent,
                               &in.received,  &in.wire_sent,    &in.waited[1],   &in.waited[2],     &in.waited[3],
                               &in.waited[4], &in.retransmits,  &in.most_resent, &in.delivery_rate, &in.entries,
                               &in.entered,   &in.entered_error};
    uint8_t bytes[HP_VITALS_BYTES + 1] = {0};
    int cut = 0;
    for (uint64_t i = 0; i < sizeof(field) / sizeof(field[0]); i++)
        *field[i] = (i + 1) | (i + 0x11) << 56;
    hp_vitals_put(bytes, &in);
    is_blob(golden, bytes, HP_VITALS_BYTES, "STATS, byte for byte");
    memset(&out, 0xaa, sizeof(out));
    ok(hp_vitals_get(&out, bytes, HP_VITALS_BYTES), "is read back");
    hp_vitals_put(bytes, &out);
    is_blob(golden, bytes, HP_VITALS_BYTES, "every field of it");
    for (size_t k = 0; k < HP_VITALS_BYTES; k++)
        cut += hp_vitals_get(&out, bytes, k);
    ok(cut == 0 && !hp_vitals_get(&out, bytes, sizeof(bytes)), "no shorter and no longer one");
    ok(hp_message_fits(HP_STATS, 0, HP_AT_RUNNING, HP_VITALS_BYTES) &&
           !hp_message_fits(HP_STATS, 0, HP_AT_LINKING, HP_VITALS_BYTES) &&
           !hp_message_fits(HP_STATS, 1, HP_AT_RUNNING, HP_VITALS_BYTES),
       "members say it, the server does not");
}

static void
test_waiting(void)
{
    static const uint8_t golden[HP_WAITING_BYTES] = {
        0x00, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0x12, /* a message, since */
        0x05, 0, 0, 0, 1, 0, 0, 0,                               /* peer, for it to receive */
        0x40, 4, 0, 6, 9, 0, 0, 0, 0x07, 0, 0, 0, 0, 0, 0, 0,    /* send, int64, name 3; tag, count */
    };
    hp_waiting in = {.since = 2 | UINT64_C(0x12) << 56, .awaited = {HP_WAIT_LINK, 5}, .call_name = 3}, out;
    uint8_t bytes[HP_WAITING_BYTES + 1] = {0};
    int cut = 0;
    in.call = (hp_call){.kind = HP_SEND, .dtype = HOOP_INT64, .root = 9, .count = 7};
    hp_waiting_put(bytes, &in);
    is_blob(golden, bytes, HP_WAITING_BYTES, "WAITING, byte for byte");
    ok(hp_waiting_get(&out, bytes, HP_WAITING_BYTES) && out.sequence == 0 && out.since == in.since &&
           out.awaited.rank == 5 && out.awaited.what == HP_WAIT_LINK && out.call_name == 3 &&
           hp_call_equal(&out.call, &in.call),
       "is read back");
    for (size_t k = 0; k < HP_WAITING_BYTES; k++)
        cut += hp_waiting_get(&out, bytes, k);
    ok(cut == 0 && !hp_waiting_get(&out, bytes, sizeof(bytes)), "no shorter and no longer one");
    in.awaited.rank = -1;
    hp_waiting_put(bytes, &in);
    ok(!hp_waiting_get(&out, bytes, HP_WAITING_BYTES), "who must receive has a number");
    in.awaited.what = HP_WAIT_DEVICE;
    hp_waiting_put(bytes, &in);
    ok(hp_waiting_get(&out, bytes, HP_WAITING_BYTES), "the own device has none");
    in.sequence = 17;
    hp_waiting_put(bytes, &in);
    ok(!hp_waiting_get(&out, bytes, HP_WAITING_BYTES), "an operation that waits for it is reported by IN_OP");
    in.awaited.what = HP_WAIT_STREAM;
    hp_waiting_put(bytes, &in);
    ok(hp_waiting_get(&out, bytes, HP_WAITING_BYTES) && out.sequence == 17, "one that waits for the stream is not");
    memset(bytes, 0, sizeof(bytes));
    ok(hp_waiting_get(&out, bytes, HP_WAITING_BYTES) && !out.call.kind, "zeros: no wait");
    ok(hp_message_fits(HP_WAITING, 0, HP_AT_RUNNING, HP_WAITING_BYTES) &&
           !hp_message_fits(HP_WAITING, 0, HP_AT_LINKING, HP_WAITING_BYTES) &&
           !hp_message_fits(HP_WAITING, 1, HP_AT_RUNNING, HP_WAITING_BYTES),
       "members say it, the server does not");
}

static void
test_unstarted(void)
{
    uint8_t bytes[HP_UNSTARTED_BYTES];
    hp_unstarted in = {.sequence = 7, .call = a_call}, out;
    int cut = 0;
    hp_err_set(&in.cause, HOOP_ERR_INVALID_ARGUMENT, "its buffers overlap");
    size_t n = hp_unstarted_put(bytes, &in);
    ok(hp_unstarted_get(&out, bytes, n) && out.sequence == 7 && hp_call_equal(&out.call, &in.call) &&
           out.cause.code == HOOP_ERR_ABORTED && strcmp(out.cause.text, "its buffers overlap") == 0,
       "a refused call is read back; a mistake of one rank's own is the others' HOOP_ERR_ABORTED");
    for (size_t k = 0; k < n - strlen("its buffers overlap"); k++)
        cut += hp_unstarted_get(&out, bytes, k);
    is_int(0, cut, "no truncated one is accepted");
    ok(n >= HP_UNSTARTED_BYTES - HP_ABORT_BYTES && hp_message_fits(HP_UNSTARTED, 0, HP_AT_RUNNING, n),
       "members say it");
    in.sequence = 0;
    ok(!hp_unstarted_get(&out, bytes, hp_unstarted_put(bytes, &in)), "operation 0 does not exist");
}

static void
test_name(void)
{
    static const uint8_t golden[] = {'d', 'p', ' ', 0xc3, 0xa9};
    char long_name[HP_NAME_TEXT], name[HP_NAME_TEXT] = "before";
    uint8_t bytes[HP_NAME_TEXT];
    memset(long_name, 'n', HP_NAME_TEXT - 1);
    long_name[HP_NAME_TEXT - 1] = '\0';
    is_uint(sizeof(golden), hp_name_put(bytes, "dp \xc3\xa9"), "NAME is its text");
    is_blob(golden, bytes, sizeof(golden), "byte for byte");
    ok(hp_name_get(name, bytes, sizeof(golden)) && strcmp(name, "dp \xc3\xa9") == 0, "and is read back");
    ok(hp_name_get(name, bytes, hp_name_put(bytes, long_name)) && strcmp(name, long_name) == 0, "63 bytes");
    ok(hp_name_get(name, bytes, 0) && name[0] == '\0', "none any more");
    ok(!hp_name_get(name, (const uint8_t *)"a\x1b", 2) && !hp_name_get(name, (const uint8_t *)"a\0b", 3) &&
           !hp_name_get(name, (const uint8_t *)"\xff", 1) && name[0] == '\0',
       "control characters, zeros and what is not UTF-8 are refused, and change nothing");
    ok(!hp_message_fits(HP_NAME, 0, HP_AT_RUNNING, HP_NAME_TEXT) && hp_message_fits(HP_NAME, 0, HP_AT_RUNNING, 63) &&
           !hp_message_fits(HP_NAME, 0, HP_AT_LINKING, 2) && !hp_message_fits(HP_NAME, 1, HP_AT_RUNNING, 2),
       "at most 63 bytes, from a member after GO");
}

static void
test_clock(void)
{
    static const uint8_t golden[] = {1, 2, 3, 4, 5, 6, 7, 8, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};
    uint8_t question[HP_QUESTION_BYTES], bytes[HP_ANSWER_BYTES];
    uint64_t asked = 0, clock = 0;
    hp_question_put(question, 0x0807060504030201);
    hp_answer_put(bytes, question, 0x1112131415161718);
    is_blob(golden, question, sizeof(question), "a question");
    is_blob(golden, bytes, sizeof(bytes), "... and its answer");
    hp_answer_get(golden, &asked, &clock);
    ok(asked == 0x0807060504030201 && clock == 0x1112131415161718, "an answer is read back");
    ok(hp_message_fits(HP_CLOCK, 0, HP_AT_RUNNING, HP_QUESTION_BYTES) &&
           hp_message_fits(HP_CLOCK, 1, HP_AT_RUNNING, HP_ANSWER_BYTES),
       "members ask, and the server answers");
    ok(!hp_message_fits(HP_CLOCK, 0, HP_AT_RUNNING, HP_ANSWER_BYTES) &&
           !hp_message_fits(HP_CLOCK, 1, HP_AT_RUNNING, HP_QUESTION_BYTES) &&
           !hp_message_fits(HP_CLOCK, 0, HP_JOINING, HP_QUESTION_BYTES),
       "... and not the other way round, or earlier");
}

static void
test_places(void)
{
    ok(hp_message_fits(HP_REFUSED, 0, HP_AT_RUNNING, 40), "a member may refuse a split");
    ok(!hp_message_fits(HP_REFUSED, 0, HP_AT_LINKING, 40), "but not before GO");
    ok(hp_message_fits(HP_JOIN, 0, HP_BEFORE_JOIN, 140), "JOIN at the acceptor");
    ok(!hp_message_fits(HP_JOIN, 0, HP_JOINING, 140), "but not twice");
    ok(!hp_message_fits(HP_JOIN, 1, HP_BEFORE_JOIN, 140), "and never from the server");
    ok(!hp_message_fits(HP_READY, 0, HP_JOINING, 0), "no READY before the roster");
    ok(!hp_message_fits(HP_READY, 0, HP_AT_LINKING, 1), "no READY with a payload");
    ok(!hp_message_fits(HP_IN_OP, 0, HP_AT_LINKING, HP_REPORT_BYTES), "no operation before GO");
    ok(hp_message_fits(HP_ABORT, 0, HP_AT_END, 60), "a late ABORT is no breach");
    int data = 0;
    for (int type = 0; type < 256; type++)
        for (int from = 0; from < 2; from++)
            data += (type < HP_JOIN || type >= HP_DATA) && hp_message_fits(type, from, 31, 64);
    is_int(0, data, "handshake and data frames have no place on a control connection");
}

/* Values that come out of garbage are in range, or they do not come out. */
static void
test_garbage(void)
{
    int accepted = 0, wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        hp_join in = example(), join;
        hp_part part;
        uint8_t bytes[HP_CONTROL_MAX];
        size_t n = hp_join_put(bytes, &in);
        for (int flips = 1 + (int)(tap_random() % 4); flips > 0; flips--)
            bytes[tap_random() % n] = (uint8_t)tap_random();
        if (hp_join_get(&join, bytes, n)) {
            accepted++;
            wrong += !case_ok(join.member.rank >= -1 && join.member.rank < HP_WORLD_MAX && join.size <= HP_WORLD_MAX &&
                                  join.agree_n <= HP_AGREE_MAX && strlen(join.member.host) < HP_HOST_TEXT &&
                                  (const uint8_t *)join.agree + join.agree_n == bytes + n,
                              "damaged JOIN %d: rank %d of %d, %zu bytes of settings", i, join.member.rank, join.size,
                              join.agree_n);
        }
        n = tap_random() % 200;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)(tap_random() & tap_random() & tap_random());
        if (hp_part_get(&part, bytes, n))
            wrong += !case_ok(part.first >= 0 && part.count >= 0 && part.first + part.count <= part.size &&
                                  part.rank < part.size,
                              "garbage %d: part of %d members from %d on, rank %d of %d", i, part.count, part.first,
                              part.rank, part.size);
    }
    ok(accepted > 0 && wrong == 0, "%d damaged JOINs: %d still read, none out of range", ROUNDS, accepted);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_join();
    test_join_ranges();
    test_roster(1);
    test_roster(8);
    test_roster(1000);
    test_empty_roster();
    test_report();
    test_refusal();
    test_return();
    test_digest();
    test_loss();
    test_vitals();
    test_waiting();
    test_unstarted();
    test_name();
    test_clock();
    test_places();
    test_garbage();
    return 0;
}
