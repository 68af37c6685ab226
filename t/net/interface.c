/* SPDX-License-Identifier: MIT */
/* interface: at which other addresses a machine may be reached, of made-up lists. */
#include "net/interface.h"

#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 8 };

/* "docker0 172.17.0.1 bridge": a name, an address, and perhaps one word. */
static hp_interface_fact
fact(const char *text)
{
    hp_interface_fact f = {.down = 0};
    char host[64], whole[80], word[16] = "";
    sscanf(text, "%31s %63s %15s", f.name, host, word);
    snprintf(whole, sizeof(whole), strchr(host, ':') ? "[%s]:0" : "%s:0", host);
    if (hp_addr_parse(&f.addr, whole, NULL) != HOOP_SUCCESS)
        bail("%s is no address", whole);
    f.down = strcmp(word, "down") == 0;
    f.wireless = strcmp(word, "radio") == 0;
    f.tunnel = strcmp(word, "tunnel") == 0;
    f.bridge = strcmp(word, "bridge") == 0;
    return f;
}

/* The first of the list is chosen. */
static void
gives(const char *wanted, const char *const list[MOST], const char *text)
{
    hp_interface_fact facts[MOST];
    hp_addr other[HP_OTHERS];
    char got[256] = "", host[HP_ADDR_TEXT];
    int n = 0;
    for (; n < MOST && list[n]; n++)
        facts[n] = fact(list[n]);
    int count = hp_interface_order(other, &facts[0].addr, facts, n);
    for (int i = 0; i < count; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", i ? " " : "", hp_addr_host(&other[i], host));
    is_string(wanted, got, "%s", text);
}

int
main(void)
{
    plan(9);
    gives("", (const char *const[MOST]){"eth0 10.0.0.2", "lo 127.0.0.1"}, "a machine with one cable has no others");
    gives("10.2.0.2", (const char *const[MOST]){"eth0 10.1.0.2", "lo 127.0.0.1", "eth1 10.2.0.2"},
          "the other one of two cables");
    gives("10.5.0.2 10.4.0.2 10.8.0.2",
          (const char *const[MOST]){"eth0 10.1.0.2", "docker0 172.17.0.1 bridge", "tun0 10.8.0.2 tunnel",
                                    "wlan0 10.4.0.2 radio", "eth1 10.5.0.2"},
          "cables before radio before tunnels before bridges");
    gives("10.2.0.2 172.17.0.1", (const char *const[MOST]){"eth0 fd00::2", "br-lan 172.17.0.1 bridge", "eth1 10.2.0.2"},
          "a bridge comes last");
    gives("10.3.0.2", (const char *const[MOST]){"eth0 10.1.0.2", "eth1 10.2.0.2 down", "eth2 10.3.0.2"},
          "one that is down is none");
    gives("10.2.0.2", (const char *const[MOST]){"eth0 10.1.0.2", "eth1 fe80::5", "eth1 169.254.3.4", "eth1 10.2.0.2"},
          "a link-local address means nothing elsewhere");
    gives("fd00::2 10.2.0.2",
          (const char *const[MOST]){"eth0 10.1.0.2", "eth0 10.1.0.3", "eth0 fd00::2", "eth0 fd00::3", "eth1 10.2.0.2",
                                    "eth1 10.2.0.3"},
          "one address of each interface and family");
    gives(
        "10.2.0.2 10.3.0.2 10.4.0.2",
        (const char *const[MOST]){"eth0 10.1.0.2", "eth1 10.2.0.2", "eth2 10.3.0.2", "eth3 10.4.0.2", "eth4 10.5.0.2"},
        "at most three");
    gives("", (const char *const[MOST]){"lo 127.0.0.1", "eth0 10.1.0.2"}, "loopback has no others");
    return 0;
}
