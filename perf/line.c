/* SPDX-License-Identifier: MIT */
/* line: rates in words and figures, and what the kernel's files say of an interface. */
#include "perf/line.h"

#include "lib/comm.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double KILO = 1e3, MEGA = 1e6, GIGA = 1e9, TERA = 1e12;

double
perf_line_parse(const char *text)
{
    char *end;
    double value = strtod(text, &end), unit = 1;
    switch (*end) {
    case 'k':
    case 'K': unit = KILO; break;
    case 'm':
    case 'M': unit = MEGA; break;
    case 'g':
    case 'G': unit = GIGA; break;
    case 't':
    case 'T': unit = TERA; break;
    default: break;
    }
    const char *rest = unit > 1 ? end + 1 : end;
    int named = *rest == '\0' || strcasecmp(rest, "bit") == 0 || strcasecmp(rest, "bit/s") == 0;
    return end != text && named && value * unit >= 1 && value * unit <= 1000 * TERA ? value * unit : 0;
}

/* Hardware has a device behind it; bonds, VLANs and their like stand on interfaces that have. */
static int
has_hardware(const char *path)
{
    DIR *folder = opendir(path);
    int found = 0;
    if (!folder)
        return 0;
    for (const struct dirent *entry = readdir(folder); entry && !found; entry = readdir(folder))
        found = strcmp(entry->d_name, "device") == 0 || strncmp(entry->d_name, "lower_", 6) == 0;
    closedir(folder);
    return found;
}

double
perf_line_speed(const char *folder, const char *interface)
{
    char path[PATH_MAX], text[32] = "";
    snprintf(path, sizeof(path), "%s/%s", folder, interface);
    if (interface[0] == '\0' || !has_hardware(path))
        return 0;
    snprintf(path, sizeof(path), "%s/%s/speed", folder, interface);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    /* Reading fails where there is nothing to be said, and -1 or 4294967295 stands for unknown. */
    const char *got = fgets(text, sizeof(text), file);
    fclose(file);
    double megabits = !got ? 0 : strtod(text, NULL);
    return megabits > 0 && megabits < 1e8 ? megabits * MEGA : 0;
}

void
perf_line_interface(const hoop_comm *comm, char name[PERF_INTERFACE])
{
    struct ifaddrs *all, *one;
    name[0] = '\0';
    if (!comm->entry.listener || getifaddrs(&all) != 0)
        return;
    for (one = all; one && name[0] == '\0'; one = one->ifa_next) {
        hp_addr addr = {.length = 0};
        if (!one->ifa_addr)
            continue;
        if (one->ifa_addr->sa_family == AF_INET)
            addr.length = sizeof(addr.u.v4);
        else if (one->ifa_addr->sa_family == AF_INET6)
            addr.length = sizeof(addr.u.v6);
        memcpy(&addr.u, one->ifa_addr, addr.length);
        if (addr.length > 0 && hp_addr_same_host(&addr, &comm->entry.addr))
            snprintf(name, PERF_INTERFACE, "%.15s", one->ifa_name);
    }
    freeifaddrs(all);
}

double
perf_line_share(double busbw, double bits)
{
    return bits > 0 ? 100 * busbw * GIGA * CHAR_BIT / bits : 0;
}

const char *
perf_line_print(double bits, char out[PERF_RATE_TEXT])
{
    if (bits >= GIGA)
        snprintf(out, PERF_RATE_TEXT, "%g Gbit/s", bits / GIGA);
    else if (bits >= MEGA)
        snprintf(out, PERF_RATE_TEXT, "%g Mbit/s", bits / MEGA);
    else
        snprintf(out, PERF_RATE_TEXT, "%g kbit/s", bits / KILO);
    return out;
}
