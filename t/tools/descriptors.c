/* SPDX-License-Identifier: MIT */
/* descriptors: see descriptors.h. */
#include "t/tools/descriptors.h"

#include "t/tap/tap.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int output = -1; /* where standard output was */

void
allow_descriptors(unsigned n)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = n;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        bail("setrlimit: %s", strerror(errno));
}

int
count_descriptors(pid_t pid)
{
    char path[64] = "/proc/self/fd";
    int n = 0;
    if (pid > 0)
        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    if (!folder)
        return -1;
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return pid > 0 ? n : n - 1; /* the folder itself is open meanwhile */
}

int
count_sockets(void)
{
    struct stat status;
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
    return n;
}

int
listens_at(int port)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in sin = {0};
        socklen_t n = sizeof(sin), m = sizeof(int);
        int accepts = 0;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &m) == 0 && accepts &&
            getsockname(fd, (struct sockaddr *)&sin, &n) == 0 && ntohs(sin.sin_port) == port)
            return 1;
    }
    return 0;
}

void
close_low(void)
{
    output = fcntl(1, F_DUPFD_CLOEXEC, 100);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
}

int
low_is_closed(void)
{
    int open[3], closed = 1;
    for (int fd = 0; fd < 3; fd++)
        open[fd] = fcntl(fd, F_GETFD) != -1;
    dup2(output, 1);
    for (int fd = 0; fd < 3; fd++)
        closed &= case_int(0, open[fd], "descriptor %d is open", fd);
    return closed;
}
