/* SPDX-License-Identifier: MIT */
/* linkspeed: rates in words and figures, and the kernel's files on an interface. */
#include "perf/linkspeed.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double KILO = 1e3, MEGA = 1e6, GIGA = 1e9, TERA = 1e12;

double
perf_linkspeed_parse(const char *text)
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

/* Hardware has a device behind it; bonds and VLANs have interfaces below them that do. */
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
perf_linkspeed_speed(const char *folder, const char *interface)
{
    char path[PATH_MAX], text[32] = "";
    snprintf(path, sizeof(path), "%s/%s", folder, interface);
    if (interface[0] == '\0' || !has_hardware(path))
        return 0;
    snprintf(path, sizeof(path), "%s/%s/speed", folder, interface);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    /* Reading fails for a driver that states no speed; -1 and 4294967295 mean unknown. */
    const char *got = fgets(text, sizeof(text), file);
    fclose(file);
    double megabits = got ? strtod(text, NULL) : 0;
    return megabits > 0 && megabits < 1e8 ? megabits * MEGA : 0;
}

/* Whether an interface's address is the one that `text` has, as hoop_comm_local_address writes it. */
static int
is_address(const struct sockaddr *address, const char *text)
{
    char own[HOOP_ADDRESS_TEXT];
    socklen_t length = 0;
    if (address && address->sa_family == AF_INET)
        length = sizeof(struct sockaddr_in);
    else if (address && address->sa_family == AF_INET6)
        length = sizeof(struct sockaddr_in6);
    return length > 0 && getnameinfo(address, length, own, sizeof(own), NULL, 0, NI_NUMERICHOST) == 0 &&
           strcmp(own, text) == 0;
}

void
perf_linkspeed_interface(const hoop_comm *comm, char name[PERF_INTERFACE])
{
    char own[HOOP_ADDRESS_TEXT];
    struct ifaddrs *all;
    name[0] = '\0';
    if (hoop_comm_local_address(comm, own, sizeof(own)) != HOOP_SUCCESS || own[0] == '\0' || getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *one = all; one && name[0] == '\0'; one = one->ifa_next)
        if (is_address(one->ifa_addr, own))
            snprintf(name, PERF_INTERFACE, "%.15s", one->ifa_name);
    freeifaddrs(all);
}

double
perf_linkspeed_share(double busbw, double bits)
{
    return bits > 0 ? 100 * busbw * GIGA * CHAR_BIT / bits : 0;
}

const char *
perf_linkspeed_print(double bits, char out[PERF_RATE_TEXT])
{
    if (bits >= GIGA)
        snprintf(out, PERF_RATE_TEXT, "%g Gbit/s", bits / GIGA);
    else if (bits >= MEGA)
        snprintf(out, PERF_RATE_TEXT, "%g Mbit/s", bits / MEGA);
    else
        snprintf(out, PERF_RATE_TEXT, "%g kbit/s", bits / KILO);
    return out;
}
