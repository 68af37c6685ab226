/* SPDX-License-Identifier: MIT */
/*
 * proctree: one pass over /proc makes a list of (process, parent); repeated passes over the list mark the descendants.
 * The next call finds a process that is born meanwhile.
 */
#include "launch/proctree.h"

#include "launch/xalloc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct process {
    pid_t pid, parent;
    int marked;
} process;

typedef struct table {
    process *list;
    size_t count, room;
} table;

/*
 * /proc/PID/stat: "PID (NAME) STATE PARENT ..."; NAME may have any bytes, so the last ')' counts. 0: gone or a zombie.
 */
static int
look(const char *pid, process *seen)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    if (!at || strlen(at) < 5 || at[2] == 'Z' || at[2] == 'X') /* ") S 123 ...": state, parent */
        return 0;
    *seen = (process){.pid = (pid_t)strtol(pid, NULL, 10), .parent = (pid_t)strtol(at + 4, NULL, 10)};
    return 1;
}

static void
read_table(table *all)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    process seen;
    while (proc && (entry = readdir(proc))) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !look(entry->d_name, &seen))
            continue;
        all->list = hp_xgrow(all->list, &all->room, all->count + 1, sizeof(*all->list));
        all->list[all->count++] = seen;
    }
    if (proc)
        closedir(proc);
}

static int
is_marked(const table *all, pid_t pid, pid_t ancestor)
{
    if (pid == ancestor)
        return 1;
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].marked && all->list[i].pid == pid)
            return 1;
    return 0;
}

int
hp_proctree_signal(pid_t ancestor, int signal)
{
    table all = {0};
    int found = 0, before;
    read_table(&all);
    do {
        before = found;
        for (size_t i = 0; i < all.count; i++)
            if (!all.list[i].marked && is_marked(&all, all.list[i].parent, ancestor)) {
                all.list[i].marked = 1;
                found++;
            }
    } while (found > before);
    for (size_t i = 0; signal != 0 && i < all.count; i++)
        if (all.list[i].marked)
            kill(all.list[i].pid, signal);
    free(all.list);
    return found;
}
