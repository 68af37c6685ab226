/* SPDX-License-Identifier: MIT */
/* Rates in words, interfaces' speeds out of a folder made like the kernel's, and the share of a line. */
#include "perf/linkspeed.h"

#include "t/tap/tap.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

static void
rates(void)
{
    static const struct {
        const char *text;
        double bits;
    } known[] = {{"10G", 10e9},    {"2.5gbit", 2.5e9}, {"950mbit", 950e6}, {"1000000", 1e6},
                 {"64kbit", 64e3}, {"1Tbit/s", 1e12},  {"100bit", 100},    {"100 G", 0},
                 {"10Gb", 0},      {"10GB", 0},        {"1gigabit", 0},    {"", 0},
                 {"fast", 0},      {"0", 0},           {"-1G", 0},         {"nan", 0},
                 {"inf", 0},       {"1e30", 0},        {"G", 0},           {"10Gbit/sec", 0}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        ok(perf_linkspeed_parse(known[i].text) == known[i].bits, "\"%s\" is %g bits a second", known[i].text,
           known[i].bits);
}

static void
printed(void)
{
    char text[PERF_RATE_TEXT];
    is_string("10 Gbit/s", perf_linkspeed_print(10e9, text), "a rate in words");
    is_string("2.5 Gbit/s", perf_linkspeed_print(2.5e9, text), "with decimals where it has some");
    is_string("950 Mbit/s", perf_linkspeed_print(950e6, text), "a slower one");
    is_string("0.1 kbit/s", perf_linkspeed_print(100, text), "the slowest");
}

static void
shares(void)
{
    ok(perf_linkspeed_share(1.25, 10e9) == 100, "1.25 GB/s fill 10 Gbit/s");
    ok(perf_linkspeed_share(0.125, 10e9) == 10, "0.125 GB/s are a tenth of it");
    ok(perf_linkspeed_share(2.5, 10e9) == 200, "more than the line is more than 100 %%");
    ok(perf_linkspeed_share(1, 0) == 0, "an unknown line has no share");
}

/* An interface of our own: what stands beside its speed, and the speed's text (NULL: no such file). */
static void
interface(const char *name, const char *beside, const char *speed)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", tap_tmpdir(), name);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/%s", tap_tmpdir(), name, beside);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/speed", tap_tmpdir(), name);
    FILE *file = speed ? fopen(path, "w") : NULL;
    if (file) {
        fputs(speed, file);
        fclose(file);
    }
}

static void
speeds(void)
{
    const char *folder = tap_tmpdir();
    interface("eth0", "device", "1000\n");
    interface("bond0", "lower_eth0", "50000\n");
    interface("veth7", "queues", "10000\n");
    interface("eth1", "device", "-1\n");
    interface("eth2", "device", "4294967295\n");
    interface("wlan0", "device", NULL);
    interface("eth3", "device", "");
    ok(perf_linkspeed_speed(folder, "eth0") == 1e9, "hardware's speed");
    ok(perf_linkspeed_speed(folder, "bond0") == 50e9, "the speed of a bond of hardware");
    ok(perf_linkspeed_speed(folder, "veth7") == 0, "a virtual cable's is made up");
    ok(perf_linkspeed_speed(folder, "eth1") == 0, "-1 is unknown");
    ok(perf_linkspeed_speed(folder, "eth2") == 0, "and so is -1 without a sign");
    ok(perf_linkspeed_speed(folder, "wlan0") == 0, "no file, no speed");
    ok(perf_linkspeed_speed(folder, "eth3") == 0, "an empty one, neither");
    ok(perf_linkspeed_speed(folder, "eth9") == 0, "no such interface");
    ok(perf_linkspeed_speed(folder, "") == 0, "no interface");
}

static void
alone(void)
{
    hoop_comm *comm;
    char name[PERF_INTERFACE] = "stale";
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        bail("no ring of one");
    perf_linkspeed_interface(comm, name);
    is_string("", name, "a ring of one listens nowhere");
    hoop_comm_destroy(comm);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    rates();
    printed();
    shares();
    speeds();
    alone();
    return 0;
}
