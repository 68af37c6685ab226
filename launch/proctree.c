/* SPDX-License-Identifier: MIT */
/*
 * proctree: one pass over /proc makes a list of (process, parent); repeated passes over the list mark the descendants.
 * The next call of hp_proctree_signal finds a process that is born meanwhile.
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

/* How often a tree is looked at, a millisecond apart, until all of it is stopped: a process in the kernel may take long. */
enum { LOOKS = 100 };

typedef struct process {
    pid_t pid, parent;
    int stopped, marked;
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
    *seen = (process){.pid = (pid_t)strtol(pid, NULL, 10),
                      .parent = (pid_t)strtol(at + 4, NULL, 10),
                      .stopped = at[2] == 'T' || at[2] == 't'};
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

/* Marks the descendants of a process; returns how many there are. */
static int
mark(table *all, pid_t ancestor)
{
    int found = 0, before;
    do {
        before = found;
        for (size_t i = 0; i < all->count; i++)
            if (!all->list[i].marked && is_marked(all, all->list[i].parent, ancestor)) {
                all->list[i].marked = 1;
                found++;
            }
    } while (found > before);
    return found;
}

static void
signal_marked(const table *all, int signal)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].marked)
            kill(all->list[i].pid, signal);
}

int
hp_proctree_signal(pid_t ancestor, int signal)
{
    table all = {0};
    read_table(&all);
    int found = mark(&all, ancestor);
    if (signal != 0)
        signal_marked(&all, signal);
    free(all.list);
    return found;
}

/* Reads the tree anew and stops what runs; returns how many processes ran. One that may not be signalled does not count. */
static int
stop_tree(table *all, pid_t root)
{
    int running = 0;
    all->count = 0;
    read_table(all);
    mark(all, root);
    for (size_t i = 0; i < all->count; i++) {
        process *p = &all->list[i];
        running += (p->marked || p->pid == root) && !p->stopped && kill(p->pid, SIGSTOP) == 0;
    }
    return running;
}

/* A pass that finds nothing running may have missed a child born during the pass, before its parent stopped: the second
 * such pass in a row has not. */
void
hp_proctree_end(pid_t root)
{
    table all = {0};
    kill(root, SIGSTOP);
    for (int look = 0, still = 0; look < LOOKS && still < 2; look++) {
        still = stop_tree(&all, root) > 0 ? 0 : still + 1;
        if (still == 0)
            usleep(1000);
    }
    signal_marked(&all, SIGKILL);
    kill(root, SIGKILL);
    free(all.list);
}
