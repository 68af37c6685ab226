/* SPDX-License-Identifier: MIT */
/*
 * rank_env: OMPI_*, PMI_* and variables of other launchers are never set. With r ranks and u units (cores, or hyperthreads
 * if there are more ranks than cores) rank i is bound to the units from i u / r on; if there are more ranks than units,
 * several ranks share one. The ranks' end of a terminal cannot be read: no input ever comes there, so a read would never
 * return.
 */
#include "launch/rank_env.h"

#include "base/err.h"
#include "launch/xalloc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* These belong to one job or one rank: never handed on, and removed before a rank gets its own. */
static const char *const own[] = {
    "HOOP_RANK", "HOOP_SIZE",      "HOOP_LOCAL_RANK",  "HOOP_LOCAL_SIZE", "HOOP_RENDEZVOUS",
    "HOOP_JOB",  "HOOP_SECRET_FD", "HOOP_SECRET_FILE", "HOOP_SECURITY",   "HOOP_JOIN",
    "RANK",      "WORLD_SIZE",     "LOCAL_RANK",       "LOCAL_WORLD_SIZE"};

/* These tell where a host is, and are another host's lie: ranks have them from the environment of their own host. */
static const char *const of_host[] = {"HOOP_HOSTID", "HOOP_ADVERTISE"};

enum { OWN = sizeof(own) / sizeof(own[0]), OF_HOST = sizeof(of_host) / sizeof(of_host[0]) };

/* Whether "NAME=value", or "NAME", has one of these names. */
static int
is_among(const char *const *names, size_t count, const char *variable)
{
    size_t n = strcspn(variable, "=");
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == n && strncmp(variable, names[i], n) == 0)
            return 1;
    return 0;
}

void
hp_rank_env_settings(hp_strings *words, const hp_strings *given)
{
    for (char **variable = environ; *variable; variable++)
        if (strncmp(*variable, "HOOP_", 5) == 0 && strchr(*variable, '=') && !is_among(own, OWN, *variable) &&
            !is_among(of_host, OF_HOST, *variable))
            hp_strings_add(words, hp_xstrdup(*variable));
    hp_strings_add(
        words, hp_xasprintf("HOOPRUN_TTY=%s%s", isatty(STDOUT_FILENO) ? "1" : "", isatty(STDERR_FILENO) ? "2" : ""));
    for (size_t i = 0; i < given->count; i++)
        hp_strings_add(words, hp_xstrdup(given->item[i]));
}

hoop_result
hp_rank_env_option(hp_strings *words, const char *variable, hoop_error *error)
{
    size_t n = strcspn(variable, "=");
    for (size_t i = 0; i < n; i++)
        if (!isalpha((unsigned char)variable[i]) && variable[i] != '_' &&
            (i == 0 || !isdigit((unsigned char)variable[i])))
            n = 0;
    if (n == 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "-x %.60s: that is not the name of a variable; write -x NAME or -x NAME=value", variable);
    if (is_among(own, OWN, variable))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "-x %.*s: that variable is hooprun's, which sets or removes it for each rank; leave it out",
                          (int)n, variable);
    if (variable[n] == '=') {
        hp_strings_add(words, hp_xstrdup(variable));
        return HOOP_SUCCESS;
    }
    char *name = hp_xstrndup(variable, n);
    const char *value = getenv(name);
    if (value)
        hp_strings_add(words, hp_xasprintf("%s=%s", name, value));
    free(name);
    return HOOP_SUCCESS;
}

void
hp_rank_env_adopt(const hp_spec *spec)
{
    for (size_t i = 0; i < OWN; i++)
        unsetenv(own[i]);
    for (size_t i = 0; i < spec->variables.count; i++) {
        const char *variable = spec->variables.item[i];
        char *name = hp_xstrndup(variable, strcspn(variable, "="));
        setenv(name, strchr(variable, '=') + 1, 1);
        free(name);
    }
    setenv("PYTHONUNBUFFERED", "1", 0); /* output of Python appears at once */
}

void
hp_rank_env_add_library(const char *prefix)
{
    static const char *const places[] = {"lib", "lib64", "lib*/*"}; /* its name differs between systems */
    const char *before = getenv("LD_LIBRARY_PATH");
    int found = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !found; i++) {
        char *pattern = hp_xasprintf("%s/%s/libhoop.so*", prefix, places[i]);
        glob_t seen;
        found = glob(pattern, GLOB_NOSORT, NULL, &seen) == 0;
        if (found) {
            int n = (int)(strrchr(seen.gl_pathv[0], '/') - seen.gl_pathv[0]), more = before && before[0];
            char *path = hp_xasprintf("%.*s%s%s", n, seen.gl_pathv[0], more ? ":" : "", more ? before : "");
            setenv("LD_LIBRARY_PATH", path, 1);
            free(path);
            globfree(&seen);
        }
        free(pattern);
    }
}

char **
hp_rank_env_new(const hp_spec *spec, int i, int secret_fd)
{
    hp_strings all = {0};
    hp_strings_add(&all, hp_xasprintf("HOOP_SECRET_FD=%d", secret_fd));
    /* whatever a settings file has: the server wants the secret */
    hp_strings_add(&all, hp_xstrdup("HOOP_SECURITY=auth"));
    if (i < 0) {
        hp_strings_add(&all, hp_xstrdup("HOOP_JOIN=1"));
    } else {
        hp_strings_add(&all, hp_xasprintf("HOOP_RANK=%d", spec->rank[i]));
        hp_strings_add(&all, hp_xasprintf("HOOP_SIZE=%d", spec->world));
        hp_strings_add(&all, hp_xasprintf("HOOP_LOCAL_RANK=%d", spec->local_first + i));
        hp_strings_add(&all, hp_xasprintf("HOOP_LOCAL_SIZE=%d", spec->local_size));
        hp_strings_add(&all, hp_xasprintf("RANK=%d", spec->rank[i]));
        hp_strings_add(&all, hp_xasprintf("WORLD_SIZE=%d", spec->world));
        hp_strings_add(&all, hp_xasprintf("LOCAL_RANK=%d", spec->local_first + i));
        hp_strings_add(&all, hp_xasprintf("LOCAL_WORLD_SIZE=%d", spec->local_size));
    }
    for (char **variable = environ; *variable; variable++)
        hp_strings_add(&all, hp_xstrdup(*variable));
    return all.item;
}

void
hp_rank_env_free(char **variables)
{
    for (char **variable = variables; *variable; variable++)
        free(*variable);
    free(variables);
}

/* --- the folder and the program --- */

/* `path` in our home, if it lies in the launching user's home; NULL: it does not. free() it. */
static char *
rehome(const char *path, const hp_spec *spec)
{
    const char *mine = getenv("HOME");
    size_t n = spec->home ? strlen(spec->home) : 0;
    if (n < 2 || !mine || strncmp(path, spec->home, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    return hp_xasprintf("%s%s", mine, path + n);
}

int
hp_rank_env_enter_folder(const hp_spec *spec)
{
    if (!spec->dir || chdir(spec->dir) == 0)
        return 0;
    int number = errno;
    char *likeness = spec->dir_required ? NULL : rehome(spec->dir, spec);
    int there = likeness && chdir(likeness) == 0;
    free(likeness);
    errno = number;
    return there ? 0 : -1;
}

void
hp_rank_env_find_program(hp_spec *spec)
{
    char *program = spec->argv.item[0];
    char *likeness = access(program, F_OK) == 0 ? NULL : rehome(program, spec);
    if (likeness && access(likeness, X_OK) == 0) {
        spec->argv.item[0] = likeness;
        free(program);
    } else {
        free(likeness);
    }
}

/* --- its processors --- */

/* Reads a number, or the first one of a list. */
static int
topology(int processor, const char *what, int unknown)
{
    char path[96];
    FILE *file;
    int value;
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", processor, what);
    file = fopen(path, "re");
    if (!file)
        return unknown;
    if (fscanf(file, "%d", &value) != 1 || value < 0)
        value = unknown;
    fclose(file);
    return value;
}

void
hp_affinity_read(hp_cpu_list *cpus)
{
    cpu_set_t mine;
    *cpus = (hp_cpu_list){.list = hp_xcalloc(CPU_SETSIZE, sizeof(hp_cpu))};
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
        return;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET((size_t)i, &mine))
            continue;
        /* The first of its core's processors is unique, unlike the core's number. Linux before 5.5 has the second name. */
        int core = topology(i, "core_cpus_list", topology(i, "thread_siblings_list", i));
        cpus->list[cpus->count++] = (hp_cpu){topology(i, "physical_package_id", 0), core, i};
    }
    hp_affinity_sort(cpus);
}

static int
by_place(const void *a, const void *b)
{
    const hp_cpu *x = a, *y = b;
    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    if (x->core != y->core)
        return x->core < y->core ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

void
hp_affinity_sort(hp_cpu_list *cpus)
{
    qsort(cpus->list, (size_t)cpus->count, sizeof(*cpus->list), by_place);
}

void
hp_affinity_free(hp_cpu_list *cpus)
{
    free(cpus->list);
    *cpus = (hp_cpu_list){0};
}

static int
begins_core(const hp_cpu_list *m, int at)
{
    return at == 0 || m->list[at].core != m->list[at - 1].core || m->list[at].package != m->list[at - 1].package;
}

/* Where in the list the i-th rank's processors begin; the end of the list behind the last rank. */
static int
border(const hp_cpu_list *m, int ranks, int i)
{
    int cores = 0, at = 0;
    for (int k = 0; k < m->count; k++)
        cores += begins_core(m, k);
    if (ranks > cores)
        return (int)((long)i * m->count / ranks);
    for (int before = (int)((long)i * cores / ranks); at < m->count; at++)
        if (begins_core(m, at) && before-- == 0)
            break;
    return at;
}

void
hp_affinity_of_rank(const hp_cpu_list *cpus, int ranks, int i, cpu_set_t *set)
{
    int at = border(cpus, ranks, i), end = border(cpus, ranks, i + 1);
    CPU_ZERO(set);
    if (end == at && at < cpus->count)
        end = at + 1;
    for (; at < end; at++)
        CPU_SET((size_t)cpus->list[at].number, set);
}

/* --- its terminal --- */

int
hp_terminal_open(int pair[2], hp_winsize winsize)
{
    char name[64];
    struct termios settings;
    pair[1] = -1;
    pair[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (pair[0] < 0)
        return -1;
    if (grantpt(pair[0]) == 0 && unlockpt(pair[0]) == 0 && (errno = ptsname_r(pair[0], name, sizeof(name))) == 0)
        pair[1] = open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (pair[1] >= 0 && tcgetattr(pair[1], &settings) == 0) {
        cfmakeraw(&settings); /* no echo, no carriage returns added, no characters that mean anything */
        if (tcsetattr(pair[1], TCSANOW, &settings) == 0) {
            hp_terminal_resize(pair[0], winsize);
            return 0;
        }
    }
    int number = errno;
    if (pair[1] >= 0)
        close(pair[1]);
    close(pair[0]);
    errno = number;
    return -1;
}

hp_winsize
hp_terminal_size(int fd)
{
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) < 0)
        return (hp_winsize){0};
    return (hp_winsize){size.ws_row, size.ws_col};
}

void
hp_terminal_resize(int fd, hp_winsize winsize)
{
    const struct winsize size = {.ws_row = winsize.rows, .ws_col = winsize.columns};
    if (winsize.rows > 0 || winsize.columns > 0)
        (void)ioctl(fd, TIOCSWINSZ, &size); /* on failure programs assume 80 columns */
}
