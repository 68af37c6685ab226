/* SPDX-License-Identifier: MIT */
/* pending: places are given free ones first, then the oldest of the address that has its share, then the oldest of all. */
#include "net/incoming.h"

#include "t/tap/tap.h"

#include <arpa/inet.h>

static hp_pending_pool pool;
static uint64_t clock_now;

static hp_addr
address(uint32_t host)
{
    hp_addr addr = {.length = sizeof(addr.u.v4)};
    addr.u.v4.sin_family = AF_INET;
    addr.u.v4.sin_addr.s_addr = htonl(host);
    addr.u.v4.sin_port = htons((uint16_t)clock_now);
    return addr;
}

/* Takes a place as the acceptor does; returns the deadline of whoever had to go, or 0. */
static uint64_t
take(uint32_t host)
{
    hp_addr peer = address(host);
    hp_pending *place = hp_pending_pool_place(&pool, &peer);
    uint64_t gone = place->incoming.fd >= 0 ? place->incoming.deadline : 0;
    place->incoming = (hp_incoming){.fd = 1000, .deadline = ++clock_now, .peer = peer};
    return gone;
}

static int
taken(void)
{
    int n = 0;
    for (int i = 0; i < HP_PENDING_MAX; i++)
        n += pool.places[i].incoming.fd >= 0;
    return n;
}

static void
begin(int world)
{
    hp_pending_pool_init(&pool, world);
    clock_now = 0;
}

static void
test_shares(int world, int share)
{
    uint64_t gone = 0;
    begin(world);
    for (int i = 0; i < share; i++)
        gone += take(0x0a000001);
    is_uint(0, gone, "an address has %d places", share);
    take(0x0a000002);
    is_uint(1, take(0x0a000001), "the next one costs its oldest");
    is_uint(2, take(0x0a000001), "and the next its next");
    is_int(share + 1, taken(), "nobody else lost a place");
}

/* Host `host` of network `network`. */
static uint64_t
take_v6(uint8_t network, uint8_t host)
{
    hp_addr peer = {.length = sizeof(peer.u.v6)};
    peer.u.v6.sin6_family = AF_INET6;
    peer.u.v6.sin6_addr.s6_addr[0] = 0xfd;
    peer.u.v6.sin6_addr.s6_addr[7] = network;
    peer.u.v6.sin6_addr.s6_addr[15] = host;
    hp_pending *place = hp_pending_pool_place(&pool, &peer);
    uint64_t gone = place->incoming.fd >= 0 ? place->incoming.deadline : 0;
    place->incoming = (hp_incoming){.fd = 1000, .deadline = ++clock_now, .peer = peer};
    return gone;
}

static void
test_networks(void)
{
    uint64_t gone = 0;
    begin(0);
    for (int i = 0; i < HP_PER_ADDRESS; i++)
        gone += take_v6(1, (uint8_t)i);
    is_uint(0, gone, "an IPv6 network of 64 bits has %d places", HP_PER_ADDRESS);
    is_uint(1, take_v6(1, 200), "one more address of it costs its oldest");
    is_uint(0, take_v6(2, 200), "the same host of another network costs nobody");
}

static void
test_few(void)
{
    uint64_t gone = 0;
    begin(0);
    hp_pending_pool_limit(&pool, 20);
    for (int i = 0; i < 20; i++)
        gone += take(0x7f000001);
    is_uint(0, gone, "a pool of 20 places");
    is_uint(1, take(0x7f000001), "then the oldest goes");
    is_int(20, taken(), "and 20 are taken");
    hp_pending_pool_limit(&pool, 0);
    is_int(HP_PLACES_LEAST, pool.most, "some are left, however few there should be");
    hp_pending_pool_limit(&pool, 100000);
    is_int(HP_PENDING_MAX, pool.most, "and never more than all");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    test_shares(0, HP_PER_ADDRESS);
    test_shares(100, 100);
    test_networks();
    test_few();
    begin(0);
    ok(!hp_pending_pool_oldest(&pool), "an empty pool has no oldest");
    uint64_t gone = 0;
    for (int i = 0; i < HP_PENDING_MAX; i++)
        gone += take(0x7f000001);
    is_uint(0, gone, "loopback may take all %d places", HP_PENDING_MAX);
    is_uint(1, take(0x0a000001), "then the oldest of all goes");
    is_uint(2, hp_pending_pool_oldest(&pool)->incoming.deadline, "the oldest is the one with the first deadline");
    hp_pending_pool_oldest(&pool)->incoming.fd = -1;
    is_uint(0, take(0x0a000002), "a free place is taken first");
    is_int(HP_PENDING_MAX, taken(), "full again");
    begin(0);
    for (uint32_t i = 0; i < 100000; i++)
        take((uint32_t)(tap_random() % 50) + 0x0a000000);
    is_uint(100000, clock_now, "a flood from 50 addresses");
    int worst = 0;
    for (uint32_t host = 0; host < 50; host++) {
        hp_addr addr = address(0x0a000000 + host);
        int n = 0;
        for (int i = 0; i < HP_PENDING_MAX; i++)
            n += pool.places[i].incoming.fd >= 0 && hp_addr_same_host(&pool.places[i].incoming.peer, &addr);
        worst = n > worst ? n : worst;
    }
    ok(worst <= HP_PER_ADDRESS, "no address has more than its share (%d)", worst);
    is_int(HP_PENDING_MAX, taken(), "and every place is taken");
    return 0;
}
