/* SPDX-License-Identifier: MIT */
/*
 * collection: see collection.h. A recorder is read twice if its process may live: what has changed meanwhile is not
 * believed, and a recorder in which a record was just being written is read again. The process is looked at before the first
 * reading: one that had ended by then has written all of it. This is the one file that reads the clock that can be set:
 * recorders of several hosts have no other in common.
 */
#include "flight/collection.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- a process --- */

/* /proc/PID/stat: "PID (NAME) STATE PARENT ...", the start as the 22nd; NAME may have any bytes, so the last ')' counts. */
int
hp_flight_find_process(uint32_t pid, hp_flight_process *process)
{
    char path[64], text[1024], state;
    unsigned long long started = 0;
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strrchr(text, ')');
    *process = (hp_flight_process){0};
    if (!at || sscanf(at, ") %c %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &state,
                      &process->parent, &started) < 2)
        return 0;
    process->started = started;
    process->stopped = state == 'T' || state == 't';
    return state != 'Z' && state != 'X';
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
    hp_flight_process own;
    head->pid = (uint32_t)getpid();
    head->pid_space = pid_space();
    head->started = hp_flight_find_process(head->pid, &own) ? own.started : 0;
    clock_gettime(CLOCK_REALTIME, &date);
    head->realtime = (uint64_t)date.tv_sec * HP_SEC + (uint64_t)date.tv_nsec;
    head->monotonic = hp_now();
}

hp_flight_state
hp_flight_look(const hp_flight_head *head)
{
    hp_flight_process process;
    if (!head->started || !head->pid_space || head->pid_space != pid_space())
        return HP_FLIGHT_UNKNOWN;
    if (!hp_flight_find_process(head->pid, &process) || process.started != head->started)
        return HP_FLIGHT_ENDED;
    return process.stopped ? HP_FLIGHT_STOPPED : HP_FLIGHT_RUNS;
}

static const char ending[] = ".flight";

enum { READINGS_MOST = 5 }; /* of a recorder whose process may write without end */

/* --- one recorder --- */

static hoop_result
no_memory(hoop_error *error)
{
    return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for flight recorders");
}

/* Without the records at the end that were never used. */
static size_t
used(const uint8_t *bytes, size_t n)
{
    static const uint8_t none[HP_FLIGHT_RECORD_BYTES];
    while (n > HP_FLIGHT_HEAD_BYTES && memcmp(bytes + n - sizeof(none), none, sizeof(none)) == 0)
        n -= sizeof(none);
    return n;
}

static int
grow(hp_flight_collection *all)
{
    size_t room = all->room ? 2 * all->room : 16;
    if (all->count < all->room)
        return 1;
    hp_flight_entry *grown = reallocarray(all->entry, room, sizeof(*grown));
    if (!grown)
        return 0;
    all->entry = grown;
    all->room = room;
    return 1;
}

hoop_result
hp_flight_add(hp_flight_collection *all, const hp_flight_reading *r, hoop_error *error)
{
    hp_flight *flight = hp_alloc(1, sizeof(*flight));
    hoop_result result = flight ? hp_flight_get(flight, r->bytes, r->later, r->n, error) : no_memory(error);
    size_t kept = result == HOOP_SUCCESS ? used(r->bytes, r->n) : 0;
    uint8_t *copy = kept ? hp_alloc(1, kept) : NULL;
    if (result == HOOP_SUCCESS && (!copy || !grow(all)))
        result = no_memory(error);
    if (result != HOOP_SUCCESS) {
        free(copy);
        free(flight);
        return result;
    }
    memcpy(copy, r->bytes, kept);
    all->entry[all->count++] =
        (hp_flight_entry){.flight = flight, .state = r->state, .looked = r->looked, .bytes = copy, .n = kept};
    return HOOP_SUCCESS;
}

/* All bytes of a recorder's file, or so many as there are; -1 with errno. */
static ssize_t
read_all(int fd, uint8_t *bytes)
{
    ssize_t n, sum = 0;
    while ((n = pread(fd, bytes + sum, HP_FLIGHT_BYTES - (size_t)sum, sum)) > 0)
        sum += n;
    return n < 0 ? n : sum;
}

/* Now, as the process counts: the clock may have been set since it started. After a reboot, or of another machine: unknown. */
static uint64_t
date_of_reading(const hp_flight_head *head, hp_flight_state state)
{
    hp_flight_head now = {0};
    hp_flight_sign(&now);
    int unknown = state == HP_FLIGHT_UNKNOWN || now.monotonic < head->monotonic;
    return unknown ? now.realtime : head->realtime + (now.monotonic - head->monotonic);
}

/* Reads an open file; bytes has room for two recorders. */
static hoop_result
add_open(hp_flight_collection *all, int fd, const char *job, uint8_t *bytes, hoop_error *error)
{
    static hp_flight first; /* its head says which process to look at */
    uint8_t *later = bytes + HP_FLIGHT_BYTES;
    ssize_t n = read_all(fd, bytes);
    if (n < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot read it");
    hoop_result result = hp_flight_get(&first, bytes, NULL, (size_t)n, error);
    if (result != HOOP_SUCCESS || (job && strncmp(job, first.head.job, HP_FLIGHT_TEXT - 1) != 0))
        return result;
    hp_flight_state state = hp_flight_look(&first.head);
    for (int i = 0; i < READINGS_MOST; i++) {
        if (read_all(fd, bytes) != n || read_all(fd, later) != n)
            return hp_err_set(error, HOOP_ERR_SYSTEM, "it changes its size");
        result = hp_flight_get(&first, bytes, later, (size_t)n, error);
        if (result != HOOP_SUCCESS || first.torn == 0)
            break;
    }
    const hp_flight_reading reading = {bytes, later, (size_t)n, state, date_of_reading(&first.head, state)};
    return hp_flight_add(all, &reading, error);
}

static hoop_result
add_at(hp_flight_collection *all, int folder, const char *name, const char *job, hoop_error *error)
{
    uint8_t *bytes = hp_alloc(2, HP_FLIGHT_BYTES);
    int fd = bytes ? openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    hoop_result result = !bytes   ? no_memory(error)
                         : fd < 0 ? hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot open it")
                                  : add_open(all, fd, job, bytes, error);
    if (fd >= 0)
        close(fd);
    free(bytes);
    return result;
}

hoop_result
hp_flight_add_file(hp_flight_collection *all, const char *path, const char *job, hoop_error *error)
{
    return add_at(all, AT_FDCWD, path, job, error);
}

/* --- a folder --- */

int
hp_flight_is_recorder(const char *name)
{
    size_t n = strlen(name), end = sizeof(ending) - 1;
    return n > end && strcmp(name + n - end, ending) == 0;
}

hoop_result
hp_flight_add_folder(hp_flight_collection *all, const char *path, const char *job, hoop_error *error)
{
    hoop_error one;
    hoop_result result = HOOP_SUCCESS;
    DIR *folder = opendir(path);
    if (!folder)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot open the folder %s", path);
    for (struct dirent *file; result == HOOP_SUCCESS && (file = readdir(folder));)
        if (hp_flight_is_recorder(file->d_name) &&
            add_at(all, dirfd(folder), file->d_name, job, &one) == HOOP_ERR_NO_MEMORY)
            result = no_memory(error);
    closedir(folder);
    return result;
}

/* --- two readings --- */

static int
is_same_recorder(const hp_flight_head *a, const hp_flight_head *b)
{
    return a->pid == b->pid && a->comm == b->comm && a->epoch == b->epoch && a->rank == b->rank &&
           a->started == b->started && a->pid_space == b->pid_space && strcmp(a->host, b->host) == 0;
}

/* That a rank waits is noted again and again, and is no progress. A record that is just being written is. */
static int
has_moved(const hp_flight *from, const hp_flight *to)
{
    if (from->torn || to->torn || from->count != to->count || from->head.called != to->head.called ||
        from->head.split_at != to->head.split_at || from->head.error_code != to->head.error_code)
        return 1;
    for (int i = 0; i < to->count; i++) {
        const hp_flight_record *a = &from->record[i], *b = &to->record[i];
        if (a->number != b->number || a->first != b->first || a->last != b->last || a->left != b->left)
            return 1;
    }
    return 0;
}

void
hp_flight_compare(hp_flight_collection *all, const hp_flight_collection *earlier)
{
    for (size_t i = 0; i < all->count; i++) {
        hp_flight_entry *entry = &all->entry[i];
        int moves = entry->state == HP_FLIGHT_RUNS || entry->state == HP_FLIGHT_UNKNOWN;
        for (size_t k = 0; moves && k < earlier->count; k++) {
            const hp_flight *before = earlier->entry[k].flight;
            moves = !is_same_recorder(&before->head, &entry->flight->head) || has_moved(before, entry->flight);
        }
        if (moves)
            entry->state = HP_FLIGHT_MOVES;
    }
}

void
hp_flight_collection_free(hp_flight_collection *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->entry[i].flight);
        free(all->entry[i].bytes);
    }
    free(all->entry);
    *all = (hp_flight_collection){0};
}
