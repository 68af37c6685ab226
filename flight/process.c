/* SPDX-License-Identifier: MIT */
/*
 * process: see process.h. The one file that reads the clock that can be set: recorders of several hosts have no other in
 * common.
 */
#include "flight/process.h"

#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FIELDS_TO_START = 19 }; /* of /proc/PID/stat, from the state to the time of the start */

/* /proc/PID/stat: "PID (NAME) STATE PARENT ..."; NAME may have any bytes, so the last ')' counts. 0: gone or a zombie. */
static int
read_stat(uint32_t pid, char *state, uint64_t *started)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    if (!at || strlen(at) < 3)
        return 0;
    *state = at[2];
    at += 2;
    for (int i = 0; at && i < FIELDS_TO_START; i++)
        at = strchr(at + 1, ' ');
    *started = at ? strtoull(at, NULL, 10) : 0;
    return *state != 'Z' && *state != 'X';
}

static uint64_t
pid_space(void)
{
    struct stat space;
    return stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0;
}

void
hp_flight_sign(hp_flight_head *head)
{
    struct timespec date;
    char state;
    head->pid = (uint32_t)getpid();
    head->pid_space = pid_space();
    if (!read_stat(head->pid, &state, &head->started))
        head->started = 0;
    clock_gettime(CLOCK_REALTIME, &date);
    head->realtime = (uint64_t)date.tv_sec * HP_SEC + (uint64_t)date.tv_nsec;
    head->monotonic = hp_now();
}

int
hp_flight_exists(uint32_t pid)
{
    uint64_t started;
    char state;
    return read_stat(pid, &state, &started);
}

static int
is_stopped(char state)
{
    return state == 'T' || state == 't';
}

int
hp_flight_is_stopped(uint32_t pid)
{
    uint64_t started;
    char state;
    return read_stat(pid, &state, &started) && is_stopped(state);
}

hp_flight_state
hp_flight_look(const hp_flight_head *head)
{
    uint64_t started;
    char state;
    if (!head->started || !head->pid_space || head->pid_space != pid_space())
        return HP_FLIGHT_UNKNOWN;
    if (!read_stat(head->pid, &state, &started) || started != head->started)
        return HP_FLIGHT_ENDED;
    return is_stopped(state) ? HP_FLIGHT_STOPPED : HP_FLIGHT_RUNS;
}
