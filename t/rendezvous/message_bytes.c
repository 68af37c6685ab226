/* SPDX-License-Identifier: MIT */
/*
 * message_bytes: the layout of JOIN and ROSTER, byte by byte. Where one of these fails, ranks of this build and of released
 * ones misread each other: see HACKING, 6, "a wire format".
 */
#include "net/handshake.h"
#include "rendezvous/message.h"
#include "t/tap/tap.h"

#include <string.h>

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
                    .peer_timeout = UINT64_C(45000000000)};
    join.member.proxied = 1, join.member.addr = address("10.1.2.3:40000");
    join.member.other[0] = address("10.2.2.3:40000");
    return join;
}

static void
test_join_bytes(void)
{
    static const uint8_t golden[] = {
        0x03, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x87, 0x13, 0x00, 0x00, /* rank, size, patience */
        0x2b, 0x03, 0x00, 0x00, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, /* pid, host id */
        0xef, 0xcd, 0xab, 0x89, 0x44, 0x33, 0x22, 0x11,                         /* processors, pid space */
        0x00, 0x70, 0xc9, 0xb2, 0x8b, 0x00, 0x00, 0x00,                         /* operation time-out */
        0x00, 0xac, 0x23, 0xfc, 0x06, 0x00, 0x00, 0x00, 0x00, 0x82, 0x35, 0x7a, /* warn after, */
        0x0a, 0x00, 0x00, 0x00, 0x04, 0x40, 0x9c, 0x0a, 0x01, 0x02, 0x03, 0x00, /* peer time-out, 10.1.2.3:40000 */
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,       /* rest of the 19 */
        0x01, 0x04, 0x40, 0x9c, 0x0a, 0x02, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, /* one other, 10.2.2.3:40000 */
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,                   /* rest of the 19, proxied */
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* ring, epoch */
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,                         /* digest */
        0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,                         /* started */
        0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,                         /* completed */
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x09, 0x00, 0x00, 0x00, /* parent, split */
        0x05, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0xfe, 0xff, 0xff, 0xff, /* parent rank and size, colour */
        0x07, 0x00, 0x00, 0x00, 0x05, 'n',  'o',  'd',  'e',  '2',              /* key, host */
        0x09, 0x00, 's',  'l',  'i',  'c',  'e',  's',  '=',  '4',  '\n',       /* settings */
    };
    uint8_t bytes[HP_CONTROL_MAX];
    hp_join join = example();
    join.digest = UINT64_C(0x1112131415161718);
    join.started = 11;
    join.completed = 10;
    join.parent = UINT64_C(0x0102030405060708);
    join.split = 9;
    join.parent_rank = 5;
    join.parent_size = 8;
    join.color = -2;
    join.key = 7;
    join.agree = "slices=4\n";
    join.agree_n = strlen(join.agree);
    is_uint(sizeof(golden), hp_join_put(bytes, &join), "JOIN is as long as version %d of the protocol has it",
            HP_WIRE_MAX);
    is_blob(golden, bytes, sizeof(golden), "and byte for byte the same");
}

static void
test_roster_bytes(void)
{
    static const uint8_t golden[] = {
        0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* comm, epoch */
        0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,                         /* rank, size */
        0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,                         /* first, count */
        0x01, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,                         /* rank at position 0, pid of rank 0 */
        0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, /* host id, processors */
        0x09, 0x00, 0x00, 0xf0,                                                 /* pid space */
        0x04, 0x40, 0x9c, 0x0a, 0x01, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, /* 10.1.2.3:40000 */
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,                               /* rest of the 19 */
        0x00, 0x05, 'n',  'o',  'd',  'e',  '1',                                /* no others, host */
        0x00, 0x00, 0x00, 0x00, 0x2b, 0x03, 0x00, 0x00,                         /* rank at position 1, pid of rank 1 */
        0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0xef, 0xcd, 0xab, 0x89, /* host id, processors */
        0x44, 0x33, 0x22, 0x11,                                                 /* pid space */
        0x06, 0x4d, 0x00, 0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* [fe80::1]:77 */
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,                               /* rest of the 19 */
        0x01, 0x04, 0x42, 0x00, 0x0a, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, /* one other, 10.0.0.9:66 */
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,                         /* rest of the 19 */
        0x02, 'n',  '2',                                                        /* host */
    };
    uint8_t bytes[HP_CONTROL_MAX];
    int order[] = {1, 0}, next = -1;
    hp_member members[] = {
        {.rank = 0, .host = "node1", .host_id = 1, .processors = 2, .pid = 3, .pid_space = 0xf0000009},
        {.rank = 1,
         .host = "n2",
         .host_id = UINT64_C(0xfedcba9876543210),
         .processors = 0x89abcdef,
         .pid = 811,
         .pid_space = 0x11223344}};
    hp_ring ring = {.comm = 5, .rank = -1, .size = 2, .order = order, .members = members};
    members[0].addr = address("10.1.2.3:40000");
    members[1].addr = address("[fe80::1]:77");
    members[1].other[0] = address("10.0.0.9:66");
    is_uint(sizeof(golden), hp_part_put(bytes, &ring, 1, 0, &next),
            "a ROSTER part is as long as version %d of the protocol has it", HP_WIRE_MAX);
    is_blob(golden, bytes, sizeof(golden), "and byte for byte the same");
    ring.epoch = 1;
    ring.least = 0x0102;
    ring.most = 0x0103;
    static const uint8_t history[] = {0x02, 0x01, 0, 0, 0, 0, 0, 0, 0x03, 0x01, 0, 0, 0, 0, 0, 0};
    enum { HEAD = 28 };
    is_uint(sizeof(golden) + sizeof(history), hp_part_put(bytes, &ring, 1, 0, &next),
            "one of a later epoch has a history");
    ok(bytes[8] == 1 && memcmp(bytes + HEAD, history, sizeof(history)) == 0 &&
           memcmp(bytes + HEAD + sizeof(history), golden + HEAD, sizeof(golden) - HEAD) == 0,
       "... behind its head");
}

int
main(void)
{
    plan(6);
    test_join_bytes();
    test_roster_bytes();
    return 0;
}
