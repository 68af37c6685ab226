/* SPDX-License-Identifier: MIT */
/* descriptors: see descriptors.h. */
#include "t/tools/descriptors.h"

#include "t/tap/tap.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

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
