/* SPDX-License-Identifier: MIT */
/*
 * addr: text to address and back, the wire form, and the choice of an interface on machines that exist only here: this
 * program has its own getifaddrs, its own route (connect and getsockname) and its own name service.
 */
#include "net/addr.h"

#include "net/interface.h"
#include "t/tap/tap.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The machine: interfaces and the source address towards the server ("": no route). */

enum { MOST = 12, UP = IFF_UP | IFF_RUNNING };

struct row {
    const char *name, *address;
    unsigned flags;
};

static struct ifaddrs entries[MOST];
static hp_addr addresses[MOST];
static const char *route = "";

static void
numeric(hp_addr *addr, const char *text)
{
    memset(addr, 0, sizeof(*addr));
    if (inet_pton(AF_INET, text, &addr->u.v4.sin_addr) == 1) {
        addr->u.v4.sin_family = AF_INET;
        addr->length = sizeof(addr->u.v4);
    } else if (inet_pton(AF_INET6, text, &addr->u.v6.sin6_addr) == 1) {
        addr->u.v6.sin6_family = AF_INET6;
        addr->length = sizeof(addr->u.v6);
    } else {
        bail("%s is no address", text);
    }
}

static void
machine(const struct row *rows, size_t n)
{
    memset(entries, 0, sizeof(entries));
    for (size_t i = 0; i < n; i++) {
        numeric(&addresses[i], rows[i].address);
        entries[i].ifa_name = (char *)(uintptr_t)rows[i].name;
        entries[i].ifa_flags = rows[i].flags;
        entries[i].ifa_addr = &addresses[i].u.any;
        entries[i].ifa_next = i + 1 < n ? &entries[i + 1] : NULL;
    }
}

int
getifaddrs(struct ifaddrs **all)
{
    *all = entries;
    return 0;
}

void
freeifaddrs(struct ifaddrs *all)
{
}

int
connect(int fd, const struct sockaddr *to, socklen_t length)
{
    errno = ENETUNREACH;
    return *route ? 0 : -1;
}

int
getsockname(int fd, struct sockaddr *name, socklen_t *length)
{
    hp_addr source;
    numeric(&source, route);
    memcpy(name, &source.u, source.length);
    *length = source.length;
    return 0;
}

int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo numbers = *hints;
    numbers.ai_flags |= AI_NUMERICHOST;
    if (strcmp(host, "node3") == 0)
        host = "10.1.0.3";
    if (strcmp(host, "node4") == 0) { /* its own name, in its /etc/hosts and in DNS */
        int reason = real("127.0.1.1", service, &numbers, found);
        return reason ? reason : real("10.1.0.4", service, &numbers, &(*found)->ai_next);
    }
    if (strcmp(host, "node5") == 0) { /* as localhost is on many hosts */
        int reason = real("::1", service, &numbers, found);
        return reason ? reason : real("127.0.0.1", service, &numbers, &(*found)->ai_next);
    }
    if (strcmp(host, "node7") == 0)
        return EAI_NONAME;
    if (strcmp(host, "node8") == 0)
        return EAI_AGAIN;
    return real(host, service, &numbers, found);
}

/* Text. */

static void
test_text(void)
{
    static const char *const same[] = {"10.0.0.1:4000",   "127.0.0.1:0", "255.255.255.255:65535",
                                       "[fd00::1]:4000",  "[::1]:1",     "[::ffff:10.0.0.1]:80",
                                       "[2001:db8::]:443"};
    char out[HP_ADDR_TEXT];
    hp_addr addr;
    hoop_error error;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        is_int(HOOP_SUCCESS, hp_addr_parse(&addr, same[i], &error), "%s is read", same[i]);
        is_string(same[i], hp_addr_print(&addr, out), "and printed");
    }
    is_int(HOOP_SUCCESS, hp_addr_parse(&addr, "node3:4000", &error), "a name");
    is_string("10.1.0.3:4000", hp_addr_print(&addr, out), "is looked up");
    is_string("10.1.0.3", hp_addr_host(&addr, out), "its host alone");
    is_uint(4000, hp_addr_port(&addr), "its port alone");
    hp_addr_parse(&addr, "node4:4000", NULL);
    is_string("10.1.0.4:4000", hp_addr_print(&addr, out), "one that means loopback, too");
    hp_addr_list list;
    is_int(HOOP_SUCCESS, hp_addr_find_all(&list, "node5:4000", NULL, 0, &error), "one that means loopback only");
    is_string("127.0.0.1:4000", hp_addr_print(&list.addr[0], out), "that of IPv4 first");
    is_string("[::1]:4000", list.n == 2 ? hp_addr_print(&list.addr[1], out) : "none", "then the other");
    hp_addr_parse(&addr, "node3:4000", NULL);
    hp_addr_set_port(&addr, 17);
    is_string("10.1.0.3:17", hp_addr_print(&addr, out), "another port");
    hp_addr_parse(&addr, "[fd00::2]:5", NULL);
    hp_addr_set_port(&addr, 18);
    is_string("[fd00::2]:18", hp_addr_print(&addr, out), "another port, IPv6");
    memset(&addr, 0, sizeof(addr));
    is_string("no address", hp_addr_print(&addr, out), "nothing there");
    is_uint(0, hp_addr_port(&addr), "and no port");
}

static void
test_host(void)
{
    static const struct {
        const char *text, *means;
    } rows[] = {{"node3", "10.1.0.3:7"},       {"node3:4", "10.1.0.3:4"},  {"10.0.0.1", "10.0.0.1:7"},
                {"10.0.0.1:4", "10.0.0.1:4"},  {"fd00::1", "[fd00::1]:7"}, {"[fd00::1]", "[fd00::1]:7"},
                {"[fd00::1]:4", "[fd00::1]:4"}};
    char out[HP_ADDR_TEXT];
    hp_addr addr;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        is_int(HOOP_SUCCESS, hp_addr_find_host(&addr, rows[i].text, 7, NULL, 0, NULL), "%s is read", rows[i].text);
        is_string(rows[i].means, hp_addr_print(&addr, out), "with port 7 if it has none");
    }
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_addr_find_host(&addr, "node3:x", 7, NULL, 0, NULL), "no port is no number");
}

static void
test_bad_text(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "the port is missing"},
        {"node3", "the port is missing"},
        {"node3:", "the port is not a number"},
        {"node3:http", "the port is not a number"},
        {"node3:-1", "the port is not a number"},
        {"node3:99999", "the port is above 65535"},
        {"node3:4000x", "the port is not a number"},
        {"node3:999999999999999999999", "the port is not a number"},
        {":4000", "the host is missing"},
        {"[]:4000", "the host is missing"},
        {"[fd00::1:4000", "the ] is missing"},
        {"[fd00::1]", "the port is missing"},
        {"[fd00::1]4000", "the port is missing"},
        {"fd00::1", "brackets"},
        {"node7:4000", "node7: no such host (check the name and DNS)"},
        {"node8:4000", "the name service does not answer"},
        {"10.0.0.256:4000", "no such host"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        hp_addr addr;
        hoop_error error;
        is_int(HOOP_ERR_INVALID_ARGUMENT, hp_addr_parse(&addr, bad[i].text, &error), "\"%s\" is refused", bad[i].text);
        ok(strstr(error.text, bad[i].says) != NULL, "%s", error.text);
        is_int(0, (int)addr.length, "and leaves no address");
    }
    char long_name[400];
    hp_addr addr;
    memset(long_name, 'a', sizeof(long_name));
    memcpy(long_name + sizeof(long_name) - 6, ":4000", 6);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_addr_parse(&addr, long_name, NULL), "a name that is too long");
}

static void
test_parts(void)
{
    static const struct {
        const char *text;
        int loopback;
    } rows[] = {{"127.0.0.1", 1}, {"127.255.3.4", 1}, {"128.0.0.1", 0},        {"10.0.0.1", 0},
                {"::1", 1},       {"fd00::1", 0},     {"::ffff:127.0.0.1", 1}, {"::ffff:10.0.0.1", 0}};
    hp_addr a, b;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        numeric(&a, rows[i].text);
        is_int(rows[i].loopback, hp_addr_is_loopback(&a), "%s: loopback or not", rows[i].text);
    }
    hp_addr_parse(&a, "10.0.0.1:1", NULL);
    hp_addr_parse(&b, "10.0.0.1:2", NULL);
    ok(hp_addr_same_host(&a, &b), "one host, two ports");
    hp_addr_parse(&b, "10.0.0.2:1", NULL);
    ok(!hp_addr_same_host(&a, &b), "two hosts");
    hp_addr_parse(&b, "[::ffff:10.0.0.1]:1", NULL);
    ok(!hp_addr_same_host(&a, &b), "two families");
    hp_addr_parse(&a, "[fe80::1]:1", NULL);
    b = a;
    b.u.v6.sin6_scope_id = 3;
    ok(hp_addr_same_host(&a, &b), "a scope on one side only");
    a.u.v6.sin6_scope_id = 2;
    ok(!hp_addr_same_host(&a, &b), "two scopes");
    hp_addr_parse(&b, "[fe80::2]:1", NULL);
    hp_addr_scope_as(&b, &a);
    is_uint(2, b.u.v6.sin6_scope_id, "a link-local address gets a scope");
    hp_addr_parse(&b, "[fd00::2]:1", NULL);
    hp_addr_scope_as(&b, &a);
    is_uint(0, b.u.v6.sin6_scope_id, "another one does not");
    hp_addr_parse(&a, "[::ffff:10.0.0.1]:5", NULL);
    hp_addr_parse(&b, "10.0.0.1:5", NULL);
    hp_addr_unmap(&a);
    ok(hp_addr_same_host(&a, &b) && hp_addr_port(&a) == 5, "the same in both families");
    ok(!hp_addr_is_any(&a), "one address");
    hp_addr_parse(&a, "0.0.0.0:5", NULL);
    hp_addr_parse(&b, "[::]:5", NULL);
    ok(hp_addr_is_any(&a) && hp_addr_is_any(&b), "all addresses");
}

static void
test_wire(void)
{
    static const uint8_t v4[HP_ADDR_BYTES] = {4, 0xa0, 0x0f, 10, 0, 0, 1};
    static const uint8_t v6[HP_ADDR_BYTES] = {6, 0x01, 0x00, 0xfd, [18] = 7};
    static const uint8_t other[HP_ADDR_BYTES] = {5, 1, 2, 3};
    uint8_t out[HP_ADDR_BYTES];
    char text[HP_ADDR_TEXT];
    hp_addr addr;
    hp_addr_parse(&addr, "10.0.0.1:4000", NULL);
    hp_addr_put(out, &addr);
    is_blob(v4, out, sizeof(out), "IPv4 put");
    ok(hp_addr_get(&addr, out), "and got");
    is_string("10.0.0.1:4000", hp_addr_print(&addr, text), "the same");
    hp_addr_parse(&addr, "[fd00::7]:1", NULL);
    hp_addr_put(out, &addr);
    is_blob(v6, out, sizeof(out), "IPv6 put");
    ok(hp_addr_get(&addr, out), "and got");
    is_string("[fd00::7]:1", hp_addr_print(&addr, text), "the same");
    ok(!hp_addr_get(&addr, other) && addr.length == 0, "another family is refused");
}

/* The choice. */

static const struct row node[] = {
    {"lo", "127.0.0.1", UP | IFF_LOOPBACK},
    {"docker0", "172.17.0.1", UP},
    {"eth0", "192.168.1.3", UP},
    {"eth1", "10.1.0.3", UP},
    {"eth2", "10.2.0.3", IFF_UP},
    {"ib0", "10.8.0.3", UP},
    {"lo", "::1", UP | IFF_LOOPBACK},
    {"eth0", "fe80::3", UP},
    {"eth1", "fd00:1::3", UP},
};

static const struct {
    const char *wanted, *server, *route, *name, *address;
} choices[] = {
    {NULL, "10.1.0.9", "10.1.0.3", "eth1", "10.1.0.3"},
    {"", "192.168.1.9", "192.168.1.3", "eth0", "192.168.1.3"},
    {NULL, "fd00:1::9", "fd00:1::3", "eth1", "fd00:1::3"},
    {NULL, "127.0.0.1", "127.0.0.1", "lo", "127.0.0.1"},
    {NULL, "::1", "::1", "lo", "::1"},
    {NULL, NULL, "127.0.0.1", "lo", "127.0.0.1"},
    {NULL, "172.17.0.5", "172.17.0.1", "docker0", "172.17.0.1"}, /* the route says so */
    {NULL, "10.1.0.9", "", "eth0", "192.168.1.3"},               /* no route: the first ordinary one */
    {NULL, "10.9.0.9", "192.168.1.77", "eth0", "192.168.1.3"},   /* a source that is on no interface */
    {"eth", "10.1.0.9", "10.1.0.3", "eth1", "10.1.0.3"},
    {"eth", "10.8.0.9", "10.8.0.3", "eth0", "192.168.1.3"},
    {"ib,eth", "10.1.0.9", "10.1.0.3", "ib0", "10.8.0.3"}, /* the list's order is the user's */
    {"=eth1", "192.168.1.9", "192.168.1.3", "eth1", "10.1.0.3"},
    {"=nic0,ib0", "192.168.1.9", "192.168.1.3", "ib0", "10.8.0.3"},
    {"^eth", "10.1.0.9", "10.1.0.3", "ib0", "10.8.0.3"},
    {"^eth1,docker", "10.1.0.9", "10.1.0.3", "eth0", "192.168.1.3"},
    {"^=eth1", "10.1.0.9", "10.1.0.3", "eth0", "192.168.1.3"},
    {"^eth,ib", "10.1.0.9", "10.1.0.3", "docker0", "172.17.0.1"},
    {"=lo", "10.1.0.9", "10.1.0.3", "lo", "127.0.0.1"}, /* asked for by name */
    {"docker0", "10.1.0.9", "10.1.0.3", "docker0", "172.17.0.1"},
    {"10.0.0.0/8", "192.168.1.9", "192.168.1.3", "eth1", "10.1.0.3"},
    {"10.8.0.0/13", "192.168.1.9", "192.168.1.3", "ib0", "10.8.0.3"},
    {"10.8.0.3", "192.168.1.9", "192.168.1.3", "ib0", "10.8.0.3"},
    {"fd00::/8", "192.168.1.9", "192.168.1.3", "eth1", "fd00:1::3"},
    {"fe80::/10", "192.168.1.9", "192.168.1.3", "eth0", "fe80::3"},
    {"172.16.0.0/12,10.0.0.0/8", "192.168.1.9", "192.168.1.3", "docker0", "172.17.0.1"},
    {"^192.168.0.0/16,10.1.0.0/16", "10.1.0.9", "10.1.0.3", "ib0", "10.8.0.3"},
    {"0.0.0.0/0", "10.8.0.9", "10.8.0.3", "ib0", "10.8.0.3"},
    {"eth1", NULL, "", "eth1", "10.1.0.3"},
};

static void
test_choice(void)
{
    machine(node, sizeof(node) / sizeof(node[0]));
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        hp_addr server, addr;
        hoop_error error;
        char name[32] = "", host[HP_ADDR_TEXT];
        if (choices[i].server)
            numeric(&server, choices[i].server);
        route = choices[i].route;
        hoop_result result =
            hp_interface_choose(&addr, choices[i].wanted, choices[i].server ? &server : NULL, name, NULL, 0, &error);
        const char *wanted = choices[i].wanted ? choices[i].wanted : "nothing";
        is_int(HOOP_SUCCESS, result, "%s asked for, server %s", wanted, choices[i].server ? choices[i].server : "none");
        is_string(choices[i].name, name, "its interface");
        is_string(choices[i].address, hp_addr_host(&addr, host), "its address");
        is_uint(0, hp_addr_port(&addr), "port 0");
    }
}

static void
test_why(void)
{
    hp_addr server, addr;
    char why[512], small[24];
    numeric(&server, "192.168.1.9");
    route = "192.168.1.3";
    machine(node, 6);
    hp_interface_choose(&addr, NULL, &server, NULL, why, sizeof(why), NULL);
    is_string("eth1 (10.1.0.3): not on the route to the server; ib0 (10.8.0.3): not on the route to the server; "
              "docker0 (172.17.0.1): docker bridge; lo (127.0.0.1): loopback; eth2 (10.2.0.3): down",
              why, "why not the others");
    hp_interface_choose(&addr, "^eth1", &server, NULL, why, sizeof(why), NULL);
    ok(strstr(why, "eth1 (10.1.0.3): excluded by HOOP_SOCKET_IFNAME") != NULL, "%s", why);
    hp_interface_choose(&addr, "ib,eth0", &server, NULL, why, sizeof(why), NULL);
    ok(strstr(why, "eth1 (10.1.0.3): not in HOOP_SOCKET_IFNAME") != NULL, "%s", why);
    hp_interface_choose(&addr, NULL, &server, NULL, small, sizeof(small), NULL);
    is_string("...", small, "cut to the room there is");
}

static void
test_no_choice(void)
{
    static const char *const malformed[] = {"10.0.0.0/33", "10.0.0/8", "fd00::/129", "10.0.0.0/",  "10.0.0.0/8x",
                                            "eth,^ib",     "^^eth",    "eth0/1",     "=eth0,=eth1"};
    hp_addr server, addr;
    char why[80];
    hoop_error error;
    numeric(&server, "10.1.0.9");
    route = "10.1.0.3";
    machine(node, 6);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_interface_choose(&addr, "wlan", &server, NULL, NULL, 0, &error),
           "no such name");
    ok(strstr(error.text,
              "HOOP_SOCKET_IFNAME=wlan leaves no interface; this machine has eth0 (192.168.1.3), eth1 "
              "(10.1.0.3), ib0 (10.8.0.3), docker0 (172.17.0.1), lo (127.0.0.1), eth2 (10.2.0.3) down") != NULL,
       "%s", error.text);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_interface_choose(&addr, "eth2", &server, NULL, NULL, 0, &error),
           "one that is down");
    machine(node, sizeof(node) / sizeof(node[0]));
    hp_interface_choose(&addr, "wlan", &server, NULL, NULL, 0, &error);
    ok(strstr(error.text, "eth1 (fd00:1::3), eth0 (fe80::3), docker0 (172.17.0.1), lo (127.0.0.1), lo (::1), ...") !=
           NULL,
       "a list without room ends as one: %s", error.text);
    is_int(HOOP_SUCCESS, hp_interface_choose(&addr, NULL, &server, NULL, why, sizeof(why), &error), "with a choice");
    is_string("eth0 (192.168.1.3): not on the route to the server; ...", why, "... too");
    machine(node, 6);
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        is_int(HOOP_ERR_INVALID_ARGUMENT, hp_interface_choose(&addr, malformed[i], &server, NULL, NULL, 0, &error),
               "\"%s\" is refused", malformed[i]);
        ok(strstr(error.text, "is neither an interface name nor a network") != NULL, "%s", error.text);
    }
    machine(node, 1);
    route = "";
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_interface_choose(&addr, NULL, &server, NULL, NULL, 0, &error),
           "loopback is never taken between hosts");
    ok(strstr(error.text, "no interface leads to the server") != NULL, "%s", error.text);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    test_text();
    test_host();
    test_bad_text();
    test_parts();
    test_wire();
    test_choice();
    test_why();
    test_no_choice();
    return 0;
}
