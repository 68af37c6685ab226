/* SPDX-License-Identifier: MIT */
/* network: see network.h. */
#include "t/tools/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int
write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return good;
}

/* Root in a user namespace: user and group 0 there are the process's own. */
static int
become_root(void)
{
    char users[64], groups[64];
    snprintf(users, sizeof(users), "0 %u 1", (unsigned)geteuid());
    snprintf(groups, sizeof(groups), "0 %u 1", (unsigned)getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && write_file("/proc/self/setgroups", "deny") &&
           write_file("/proc/self/uid_map", users) && write_file("/proc/self/gid_map", groups);
}

static int
set_address(int fd, const char *address)
{
    struct ifreq alias = {.ifr_name = "lo:1"};
    struct sockaddr_in sin = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, address, &sin.sin_addr) != 1)
        return 0;
    memcpy(&alias.ifr_addr, &sin, sizeof(sin));
    return ioctl(fd, SIOCSIFADDR, &alias) == 0;
}

int
own_network(const char *address, const char **why)
{
    struct ifreq loopback = {.ifr_name = "lo"};
    *why = "no network namespace: run it as root, or permit user namespaces (sysctl user.max_user_namespaces)";
    if (unshare(CLONE_NEWNET) != 0 && !become_root())
        return 0;
    *why = "the network namespace has no loopback interface";
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int good = ioctl(fd, SIOCGIFFLAGS, &loopback) == 0;
    loopback.ifr_flags |= IFF_UP | IFF_RUNNING;
    good = good && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0 && (!address || set_address(fd, address));
    close(fd);
    return good;
}
