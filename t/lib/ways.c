/* SPDX-License-Identifier: MIT */
/* ways: which addresses of a rank are dialled, and what a race teaches. Loopback is the network of this test. */
#include "lib/ways.h"

#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

static hp_addr
address(const char *text)
{
    hp_addr addr;
    if (hp_addr_parse(&addr, text, NULL))
        bail("cannot parse %s", text);
    return addr;
}

static void
lists(const char *wanted, const hp_member *member, const hp_member *me, const char *text)
{
    char got[256] = "", one[HP_ADDR_TEXT];
    hp_addr_list to = hp_ways_list(member, me);
    for (int i = 0; i < to.n; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", i ? " " : "", hp_addr_print(&to.addr[i], one));
    is_string(wanted, got, "%s", text);
}

int
main(void)
{
    const hp_member me = {.host_id = 1};
    hp_member near = {.host_id = 1, .addr = address("127.0.0.1:5")},
              far = {.host_id = 2, .addr = address("127.0.0.1:6")};
    hp_member peer = {.host_id = 3, .addr = address("127.0.0.8:7")}, twin = {.host_id = 3};
    char text[HP_ADDR_TEXT];
    plan(10);
    lists("127.0.0.1:6", &far, &me, "the only address is dialled in any case");
    near.other[0] = address("127.0.0.5:5");
    far.other[0] = address("127.0.0.5:6");
    far.other[1] = address("[fe80::1]:6");
    lists("127.0.0.1:5 127.0.0.5:5", &near, &me, "all addresses of a rank on this host");
    lists("127.0.0.5:6", &far, &me, "of another host not those that this host has, too, and none without a route");
    far.other[0] = far.addr;
    lists("127.0.0.1:6", &far, &me, "where nothing is left, the first");
    peer.other[0] = address("127.0.0.9:7");
    twin.addr = address("127.0.0.8:9");
    twin.other[0] = address("127.0.0.9:9");
    hp_ways_note(&peer, &peer.addr);
    lists("127.0.0.8:7 127.0.0.9:7", &peer, &me, "the first one has won");
    hp_ways_note(&peer, &peer.other[0]);
    lists("127.0.0.9:7 127.0.0.8:7", &peer, &me, "the other one has won, and is dialled first");
    is_string("127.0.0.9:9", hp_addr_print(hp_ways_best(&twin), text), "that holds for all ranks of the host");
    lists("127.0.0.1:5 127.0.0.5:5", &near, &me, "and for no other host");
    hp_ways_note(&twin, &twin.addr);
    lists("127.0.0.8:7 127.0.0.9:7", &peer, &me, "until another one wins");
    for (uint64_t host = 10; host < 1000; host++) {
        twin.host_id = host;
        hp_ways_note(&twin, &twin.other[0]);
    }
    is_string("127.0.0.9:9", hp_addr_print(hp_ways_best(&twin), text), "a thousand hosts are no trouble");
    return 0;
}
