/* SPDX-License-Identifier: MIT */
/* flight: see flight.h. */
#include "top/flight.h"

#include "base/err.h"
#include "flight/folder.h"
#include "flight/report.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
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

/* Those in the folders of this user, of which one may be absent. */
static int
collect_own(hp_flight_collection *all, const char *job)
{
    char path[HP_FLIGHT_PATH];
    char *paths[] = {path, NULL};
    hoop_error error;
    int found = 0, status = 0;
    for (int i = 0; status == 0 && i < HP_FLIGHT_FOLDERS; i++) {
        int fd = hp_flight_folder_open(i, path, &error);
        if (fd < 0)
            continue;
        close(fd);
        found++;
        status = collect(all, paths, job);
    }
    if (found > 0)
        return status;
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
collect_once(hp_flight_collection *all, char **paths, const char *job)
{
    return *paths ? collect(all, paths, job) : collect_own(all, job);
}

/* Ranks that run are read twice, so that one is not called late because it was read a moment earlier. */
static int
collect_all(hp_flight_collection *all, char **paths, const char *job)
{
    static const struct timespec pause = {.tv_nsec = HP_FLIGHT_PAUSE};
    hp_flight_collection earlier = {0};
    int status = collect_once(&earlier, paths, job), may_run = 0;
    for (size_t i = 0; i < earlier.count; i++)
        may_run |= earlier.entry[i].state == HP_FLIGHT_RUNS || earlier.entry[i].state == HP_FLIGHT_UNKNOWN;
    if (status != 0 || !may_run) {
        *all = earlier;
        return status;
    }
    nanosleep(&pause, NULL);
    status = collect_once(all, paths, job);
    hp_flight_compare(all, &earlier);
    hp_flight_collection_free(&earlier);
    return status;
}

/* --- folders in which hooprun has written --- */

typedef struct archive {
    char path[PATH_MAX]; /* empty: none was found */
    struct timespec written;
} archive;

static int
is_archive(const char *name, const char *job)
{
    static const char ending[] = ".flight.json";
    char wanted[NAME_MAX + 1];
    size_t n = strlen(name), end = sizeof(ending) - 1;
    snprintf(wanted, sizeof(wanted), "hoop-%s%s", job ? job : "", ending);
    return job ? strcmp(name, wanted) == 0 : n > end && strcmp(name + n - end, ending) == 0;
}

static void
find_newest(archive *newest, const char *path, const char *job)
{
    struct stat st;
    const struct timespec *this = &st.st_mtim, *last = &newest->written;
    DIR *folder = opendir(path);
    for (struct dirent *file; folder && (file = readdir(folder));) {
        if (!is_archive(file->d_name, job) || fstatat(dirfd(folder), file->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode))
            continue;
        int is_later = this->tv_sec != last->tv_sec ? this->tv_sec > last->tv_sec : this->tv_nsec > last->tv_nsec;
        if (newest->path[0] && !is_later)
            continue;
        int n = snprintf(newest->path, sizeof(newest->path), "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
                         file->d_name);
        newest->written = st.st_mtim;
        if (n >= (int)sizeof(newest->path))
            newest->path[0] = '\0';
    }
    if (folder)
        closedir(folder);
}

/* Where no recorder is, the newest file that hooprun has written, if there is one. */
static int
collect_newest(hp_flight_collection *all, char **paths, const char *job)
{
    archive newest = {.path = ""};
    char *found[] = {newest.path, NULL};
    for (; *paths; paths++)
        find_newest(&newest, *paths, job);
    if (!newest.path[0])
        return 0;
    fprintf(stderr, "hoop-top: there is no recorder, so it reads %s, which hooprun has written\n", newest.path);
    return collect(all, found, NULL);
}

int
hp_top_flight(char **paths, const char *job, int json)
{
    hp_flight_collection all = {0};
    int status = collect_all(&all, paths, job);
    if (status == 0 && all.count == 0)
        status = collect_newest(&all, paths, job);
    if (status == 0 && (all.count > 0 || json))
        status = tell(&all, json);
    if (status == 0 && all.count == 0) {
        fprintf(stderr,
                "hoop-top: there is no recorder%s%s: a process that ends well removes its own, hooprun those of an "
                "earlier job when it starts the next one, and a job on other hosts leaves them there\n",
                job ? " of job " : "", job ? job : "");
        status = 1;
    }
    hp_flight_collection_free(&all);
    return status;
}
