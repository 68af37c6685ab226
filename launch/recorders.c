/* SPDX-License-Identifier: MIT */
/* recorders: see recorders.h. */
#include "launch/recorders.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/wire.h"
#include "flight/folder.h"
#include "flight/report.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_S = 5 };

_Static_assert(12 + HP_FLIGHT_BYTES <= HP_AGENT_MSG_MAX, "a recorder is one message");

/* --- the agent --- */

void
hp_recorders_put(hp_buffer *out, const char *job)
{
    hp_flight_collection all = {0};
    char path[HP_FLIGHT_PATH];
    uint8_t head[12];
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

/* --- the launcher: the file --- */

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

/* 0, or an errno. */
static int
write_file(hp_recorders *r, const hp_flight_story *story, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (r->written ? O_TRUNC : O_EXCL), 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    int number = file ? 0 : errno;
    r->written |= fd >= 0;
    if (file && hp_flight_write_json(file, &r->hosts->recorders, story, HP_FLIGHT_PACKED) != 0)
        number = errno ? errno : EIO;
    if (file && fclose(file) != 0 && number == 0)
        number = errno;
    return number;
}

void
hp_recorders_report(hp_recorders *r)
{
    hp_flight_collection *all = &r->hosts->recorders;
    const char *dir = r->server->options->flight_dir;
    hp_flight_rings rings;
    hp_flight_story story;
    if (r->earlier.count > 0)
        hp_flight_compare(all, &r->earlier);
    hp_flight_collection_free(&r->earlier);
    if (all->count == 0 || !hp_flight_rings_make(&rings, all))
        return;
    char *path = hp_xasprintf("%s%shoop-%s.flight.json", dir ? dir : "", dir ? "/" : "", r->server->id);
    hp_flight_tell(&rings, &story);
    int number = write_file(r, &story, path);
    if (story.plot != HP_FLIGHT_WELL)
        hp_diag(r->output, "%s", story.text);
    if (number == 0)
        hp_diag(r->output, "hoop-top --flight %s explains the last operations of the ranks", path);
    else
        hp_diag(r->output, "cannot write the flight recorders to %s: %s; --flight-dir names another folder", path,
                strerror(number));
    free(path);
    hp_flight_rings_free(&rings);
    hp_flight_collection_free(all);
}

/* --- the launcher: the user asks --- */

void
hp_recorders_cancel(hp_recorders *r)
{
    r->step = HP_RECORDERS_IDLE;
    hp_timer_set(r->limit, HP_NEVER);
    hp_flight_collection_free(&r->earlier);
}

static void
ask(hp_recorders *r, int step)
{
    hp_hosts_look(r->hosts);
    r->step = hp_hosts_asked(r->hosts) ? step : HP_RECORDERS_IDLE;
    if (r->step)
        hp_timer_set(r->limit, ANSWER_S * HP_SEC);
}

static void
go_on(hp_recorders *r)
{
    if (r->step == HP_RECORDERS_SECOND) {
        hp_recorders_report(r);
        hp_recorders_cancel(r);
    }
    if (r->step != HP_RECORDERS_FIRST)
        return;
    hp_flight_collection_free(&r->earlier);
    r->earlier = r->hosts->recorders;
    r->hosts->recorders = (hp_flight_collection){0};
    r->step = HP_RECORDERS_PAUSE;
    hp_timer_set(r->limit, HP_FLIGHT_PAUSE);
}

void
hp_recorders_look(hp_recorders *r)
{
    if ((r->step == HP_RECORDERS_FIRST || r->step == HP_RECORDERS_SECOND) && !hp_hosts_asked(r->hosts))
        go_on(r);
}

static void
timed_out(void *arg)
{
    hp_recorders *r = arg;
    const char *silent = hp_hosts_asked(r->hosts);
    if (r->step == HP_RECORDERS_PAUSE) {
        ask(r, HP_RECORDERS_SECOND);
        return;
    }
    if (silent && !r->named)
        hp_diag(r->output, "%s has not sent its flight recorders within %d s; is its hooprun agent stopped?", silent,
                (int)ANSWER_S);
    r->named = 1;
    go_on(r);
}

void
hp_recorders_open(hp_recorders *r, hp_hosts *hosts, const hp_job_server *server, hp_output *output)
{
    *r = (hp_recorders){.hosts = hosts, .server = server, .output = output};
    r->limit = hp_xcheck(hp_timer_new(hosts->loop, timed_out, r));
}

void
hp_recorders_close(hp_recorders *r)
{
    hp_timer_free(r->limit);
    hp_flight_collection_free(&r->earlier);
}

void
hp_recorders_ask(hp_recorders *r)
{
    if (r->step || hp_hosts_asked(r->hosts))
        return;
    r->named = 0;
    ask(r, HP_RECORDERS_FIRST);
}
