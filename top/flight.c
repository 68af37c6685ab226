/* SPDX-License-Identifier: MIT */
/* flight: see flight.h. */
#include "top/flight.h"

#include "base/err.h"
#include "flight/folder.h"
#include "flight/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static hoop_result
add_path(hp_flight_collection *all, const char *path, const char *job, hoop_error *error)
{
    static const char json[] = ".json";
    struct stat st;
    size_t n = strlen(path);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return hp_flight_add_folder(all, path, job, error);
    if (n > sizeof(json) && strcmp(path + n - sizeof(json) + 1, json) == 0)
        return hp_flight_add_archive(all, path, error);
    return hp_flight_add_file(all, path, job, error);
}

/* The recorders that are named; without a name those of this user. 0, or the exit status. */
static int
collect(hp_flight_collection *all, char **paths, const char *job)
{
    hoop_error error;
    for (; *paths; paths++)
        if (add_path(all, *paths, job, &error) != HOOP_SUCCESS) {
            fprintf(stderr, "hoop-top: %s: %s\n", *paths, error.text);
            return 1;
        }
    return 0;
}

static int
collect_own(hp_flight_collection *all, const char *job)
{
    char path[HP_FLIGHT_PATH];
    hoop_error error;
    int fd = hp_flight_folder(0, path, &error);
    char *paths[] = {path, NULL};
    if (fd >= 0) {
        close(fd);
        return collect(all, paths, job);
    }
    fprintf(stderr, "hoop-top: no flight recorders here: %s\n", error.text);
    return 1;
}

static int
tell(const hp_flight_collection *all, int json)
{
    hp_flight_rings rings;
    hp_flight_story story;
    int status = 0;
    if (!hp_flight_rings_make(&rings, all)) {
        fprintf(stderr, "hoop-top: out of memory\n");
        return 1;
    }
    hp_flight_tell(&rings, &story);
    if (!json)
        hp_flight_print(stdout, &story);
    else
        status = hp_flight_write_json(stdout, all, &story, HP_FLIGHT_DECODED) != 0;
    if (status || fflush(stdout) != 0) {
        fprintf(stderr, "hoop-top: cannot write: %s\n", strerror(errno));
        status = 1;
    }
    hp_flight_rings_free(&rings);
    return status;
}

static int
complain_of_none(const char *job)
{
    fprintf(stderr,
            "hoop-top: there is no recorder%s%s: a process that ends well removes its own, hooprun those of an earlier "
            "job when it starts the next one, and a job on other hosts leaves them there\n",
            job ? " of job " : "", job ? job : "");
    return 1;
}

static int
collect_once(hp_flight_collection *all, char **paths, const char *job)
{
    return *paths ? collect(all, paths, job) : collect_own(all, job);
}

static int
may_run(const hp_flight_collection *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->entry[i].state == HP_FLIGHT_RUNS || all->entry[i].state == HP_FLIGHT_UNKNOWN)
            return 1;
    return 0;
}

/* Ranks that run are read twice, so that one is not called late because it was read a moment earlier. */
static int
collect_all(hp_flight_collection *all, char **paths, const char *job)
{
    static const struct timespec pause = {.tv_nsec = HP_FLIGHT_PAUSE};
    hp_flight_collection earlier = {0};
    int status = collect_once(&earlier, paths, job);
    if (status != 0 || !may_run(&earlier)) {
        *all = earlier;
        return status;
    }
    nanosleep(&pause, NULL);
    status = collect_once(all, paths, job);
    hp_flight_compare(all, &earlier);
    hp_flight_collection_free(&earlier);
    return status;
}

int
hp_top_flight(char **paths, const char *job, int json)
{
    hp_flight_collection all = {0};
    int status = collect_all(&all, paths, job);
    if (status == 0 && (all.count > 0 || json))
        status = tell(&all, json);
    if (status == 0 && all.count == 0)
        status = complain_of_none(job);
    hp_flight_collection_free(&all);
    return status;
}
