/* SPDX-License-Identifier: MIT */
/*
 * sweep: see sweep.h. Recorders are read first and agents looked for then: an agent's file is there before its ranks are,
 * and until it has read their recorders. So whoever has left a recorder that was read has the agent seen, or needs none.
 */
#include "flight/sweep.h"

#include "base/buffer.h"
#include "base/err.h"
#include "base/log.h"
#include "flight/collection.h"
#include "flight/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct leftover {
    int folder;
    char file[NAME_MAX + 1], job[HP_FLIGHT_TEXT];
} leftover;

typedef struct sweep {
    int folder;        /* the one that is read; -1: it is absent */
    hp_buffer left;    /* leftovers: recorders of processes that have ended */
    hp_buffer going;   /* jobs that go on, HP_FLIGHT_TEXT bytes each */
    int out_of_memory; /* what is left is not known, or not which jobs go on */
} sweep;

typedef void look_fn(sweep *s, const char *file);

static const char agent[] = ".agent";

/* --- jobs that go on --- */

static int
goes_on(const sweep *s, const char *job)
{
    const uint8_t *at = hp_buffer_first(&s->going);
    for (size_t i = 0; i < hp_buffer_size(&s->going); i += HP_FLIGHT_TEXT)
        if (strcmp((const char *)at + i, job) == 0)
            return 1;
    return 0;
}

static void
note_job(sweep *s, const char *job)
{
    char text[HP_FLIGHT_TEXT] = "";
    snprintf(text, sizeof(text), "%s", job);
    if (!goes_on(s, text))
        s->out_of_memory |= hp_buffer_add(&s->going, text, sizeof(text)) != 0;
}

/* --- files --- */

static hoop_result
read_head(int folder, const char *file, hp_flight_head *head)
{
    static hp_flight flight; /* without records */
    uint8_t bytes[HP_FLIGHT_HEAD_BYTES];
    hoop_error error;
    int fd = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
    if (fd >= 0)
        close(fd);
    hoop_result result = n < 0 ? HOOP_ERR_SYSTEM : hp_flight_get(&flight, bytes, NULL, (size_t)n, &error);
    *head = flight.head;
    return result;
}

/* Of a process that was killed while it made its recorder, only the name of the file says which it was. */
static void
look_at_recorder(sweep *s, const char *file)
{
    hp_flight_head head;
    hp_flight_process process;
    if (!hp_flight_is_recorder(file))
        return;
    hoop_result result = read_head(s->folder, file, &head);
    hp_flight_state state = result == HOOP_SUCCESS ? hp_flight_look(&head) : HP_FLIGHT_UNKNOWN;
    if (state == HP_FLIGHT_ENDED) {
        leftover one = {.folder = s->folder};
        snprintf(one.file, sizeof(one.file), "%s", file);
        snprintf(one.job, sizeof(one.job), "%s", head.job);
        s->out_of_memory |= hp_buffer_add(&s->left, &one, sizeof(one)) != 0;
    } else if (state != HP_FLIGHT_UNKNOWN)
        note_job(s, head.job);
    else if (result == HOOP_ERR_CORRUPT && !hp_flight_find_process((uint32_t)strtoul(file, NULL, 10), &process))
        unlinkat(s->folder, file, 0);
}

static void
look_at_socket(sweep *s, const char *file)
{
    if (hp_server_socket_is_dead(s->folder, file))
        unlinkat(s->folder, file, 0);
}

/* An agent that is just making its file, or found no room for the head, has only the name. Of an unknown one nobody knows. */
static void
look_at_agent(sweep *s, const char *file)
{
    char job[NAME_MAX + 1], *at;
    size_t n = strlen(file), end = sizeof(agent) - 1;
    unsigned long pid = strtoul(file, &at, 10);
    hp_flight_head head;
    hp_flight_process process;
    if (!pid || *at != '-' || n < end || strcmp(file + n - end, agent) != 0)
        return;
    snprintf(job, sizeof(job), "%.*s", (int)(file + n - end - at - 1), at + 1);
    int known = read_head(s->folder, file, &head) == HOOP_SUCCESS;
    if (known ? hp_flight_look(&head) == HP_FLIGHT_ENDED : !hp_flight_find_process((uint32_t)pid, &process))
        unlinkat(s->folder, file, 0);
    else
        note_job(s, job);
}

/* --- folders --- */

static void
look_in(sweep *s, int folder, look_fn *look_at)
{
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    if (again >= 0 && !dir)
        close(again);
    s->folder = folder;
    for (struct dirent *file; dir && (file = readdir(dir));)
        look_at(s, file->d_name);
    if (dir)
        closedir(dir);
}

void
hp_flight_sweep(void)
{
    static look_fn *const passes[] = {look_at_recorder, look_at_socket, look_at_agent};
    char path[HP_FLIGHT_PATH];
    int folders[HP_FLIGHT_FOLDERS];
    sweep s = {0};
    for (int i = 0; i < HP_FLIGHT_FOLDERS; i++)
        folders[i] = hp_flight_folder_open(i, path, NULL);
    for (size_t pass = 0; pass < sizeof(passes) / sizeof(passes[0]); pass++)
        for (int i = 0; i < HP_FLIGHT_FOLDERS; i++)
            look_in(&s, folders[i], passes[pass]);
    leftover one;
    for (; !s.out_of_memory && hp_buffer_size(&s.left) > 0; hp_buffer_drop(&s.left, sizeof(one))) {
        memcpy(&one, hp_buffer_first(&s.left), sizeof(one));
        if (!goes_on(&s, one.job))
            unlinkat(one.folder, one.file, 0);
    }
    hp_buffer_free(&s.left);
    hp_buffer_free(&s.going);
    for (int i = 0; i < HP_FLIGHT_FOLDERS; i++)
        if (folders[i] >= 0)
            close(folders[i]);
}

/* --- an agent --- */

/* As in a recorder. A file without it counts by its name. */
static void
write_head(int fd, const char *job)
{
    hp_flight_word words[HP_FLIGHT_HEAD_BYTES / 8] = {0};
    hp_flight_head head = {.size = 1};
    snprintf(head.job, sizeof(head.job), "%s", job);
    hp_flight_sign(&head);
    hp_flight_begin(words, &head);
    if (write(fd, words, sizeof(words)) != (ssize_t)sizeof(words))
        hp_log(HP_LOG_INFO, "no room for the file of the agent: other jobs may remove the recorders of its job, unless "
                            "they see its pid");
}

void
hp_flight_claim_make(hp_flight_claim *claim, const char *job)
{
    char path[HP_FLIGHT_PATH], file[128];
    int folder = hp_flight_folder_make(path, NULL);
    snprintf(file, sizeof(file), "%d-%.*s%s", (int)getpid(), HP_FLIGHT_TEXT - 1, job, agent);
    int fd = folder < 0 ? -1 : openat(folder, file, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    claim->path[0] = '\0';
    if (fd >= 0) {
        snprintf(claim->path, sizeof(claim->path), "%s/%s", path, file);
        write_head(fd, job);
        close(fd);
    }
    if (folder >= 0)
        close(folder);
}

void
hp_flight_claim_end(hp_flight_claim *claim)
{
    if (claim->path[0])
        unlink(claim->path);
    claim->path[0] = '\0';
}
