/* SPDX-License-Identifier: MIT */
/* recorders: see recorders.h. */
#include "launch/recorders.h"

#include "base/err.h"
#include "base/wire.h"
#include "flight/folder.h"
#include "flight/report.h"
#include "launch/agent_msg.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 12 }; /* of the message: u32 state | u64 when it was read */

_Static_assert(HEAD + HP_FLIGHT_BYTES <= HP_AGENT_MSG_MAX, "a recorder is one message");

/* --- the agent --- */

void
hp_recorders_put(hp_buffer *out, const char *job)
{
    hp_flight_collection all = {0};
    char path[HP_FLIGHT_PATH];
    uint8_t head[HEAD];
    hoop_error error;
    for (int i = 0; i < HP_FLIGHT_FOLDERS; i++) {
        int folder = hp_flight_folder_open(i, path, &error);
        if (folder < 0)
            continue;
        close(folder);
        hp_flight_add_folder(&all, path, job, &error);
    }
    for (size_t i = 0; i < all.count; i++) {
        hp_put32(head, (uint32_t)all.entry[i].state);
        hp_put64(head + 4, all.entry[i].looked);
        hp_agent_msg_put(out, HP_MSG_FLIGHT, head, sizeof(head), all.entry[i].bytes, all.entry[i].n);
    }
    hp_flight_collection_free(&all);
}

/* --- the launcher --- */

hoop_result
hp_recorders_check(const char *dir, hoop_error *error)
{
    if (!dir)
        return HOOP_SUCCESS;
    char *trial = hp_xasprintf("%s/.hoop-%d", dir, (int)getpid());
    int fd = open(trial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), number = errno;
    if (fd >= 0)
        unlink(trial);
    free(trial);
    if (fd >= 0) {
        close(fd);
        return HOOP_SUCCESS;
    }
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "--flight-dir %s: %s; name a folder that exists on this machine, and in which you may write", dir,
                      strerror(number));
}

void
hp_recorders_take(hp_recorders *recorders, const uint8_t *payload, size_t n)
{
    hoop_error error;
    uint32_t state = hp_get32(payload);
    hp_flight_state known = state <= HP_FLIGHT_MOVES ? (hp_flight_state)state : HP_FLIGHT_UNKNOWN;
    hp_flight_add(&recorders->all, payload + HEAD, NULL, n - HEAD, known, hp_get64(payload + 4), &error);
}

void
hp_recorders_again(hp_recorders *recorders)
{
    hp_recorders_forget(recorders);
    recorders->earlier = recorders->all;
    recorders->all = (hp_flight_collection){0};
}

void
hp_recorders_forget(hp_recorders *recorders)
{
    hp_flight_collection_free(&recorders->earlier);
}

/* 0, or an errno. */
static int
write_file(hp_recorders *recorders, const hp_flight_story *story, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (recorders->written ? O_TRUNC : O_EXCL), 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    int number = file ? 0 : errno;
    recorders->written |= fd >= 0;
    if (file && hp_flight_write_json(file, &recorders->all, story, HP_FLIGHT_PACKED) != 0)
        number = errno ? errno : EIO;
    if (file && fclose(file) != 0 && number == 0)
        number = errno;
    return number;
}

void
hp_recorders_report(hp_recorders *recorders, const char *dir, const char *job, hp_output *output)
{
    hp_flight_rings rings;
    hp_flight_story story;
    if (recorders->earlier.count > 0)
        hp_flight_compare(&recorders->all, &recorders->earlier);
    hp_recorders_forget(recorders);
    if (recorders->all.count == 0 || !hp_flight_rings_make(&rings, &recorders->all))
        return;
    char *path = hp_xasprintf("%s%shoop-%s.flight.json", dir ? dir : "", dir ? "/" : "", job);
    hp_flight_tell(&rings, &story);
    int number = write_file(recorders, &story, path);
    if (story.plot != HP_FLIGHT_WELL)
        hp_diag(output, "%s", story.text);
    if (number == 0)
        hp_diag(output, "hoop-top --flight %s explains the last operations of the ranks", path);
    else
        hp_diag(output, "cannot write the flight recorders to %s: %s; --flight-dir names another folder", path,
                strerror(number));
    free(path);
    hp_flight_rings_free(&rings);
    hp_flight_collection_free(&recorders->all);
}
