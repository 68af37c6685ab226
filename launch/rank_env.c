/* SPDX-License-Identifier: MIT */
/*
 * variables: see variables.h. OMPI_*, PMI_* and their like are never faked.
 */
#include "launch/rank_env.h"

#include "base/err.h"
#include "launch/xalloc.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* They belong to one job or one rank: never handed on, and removed before a rank gets its own. */
static const char *const own[] = {"HOOP_RANK",       "HOOP_SIZE", "HOOP_LOCAL_RANK", "HOOP_LOCAL_SIZE",
                                  "HOOP_RENDEZVOUS", "HOOP_JOB",  "HOOP_SECRET_FD",  "HOOP_SECRET_FILE",
                                  "HOOP_SECURITY",   "RANK",      "WORLD_SIZE",      "LOCAL_RANK",
                                  "LOCAL_WORLD_SIZE"};

enum { OWN = sizeof(own) / sizeof(own[0]), MINE = 10 };

static int
is_own(const char *variable)
{
    size_t i;
    for (i = 0; i < OWN; i++) {
        size_t n = strlen(own[i]);
        if (strncmp(variable, own[i], n) == 0 && variable[n] == '=')
            return 1;
    }
    return 0;
}

void
hp_variables_settings(hp_words *words)
{
    char **variable;
    for (variable = environ; *variable != NULL; variable++)
        if (strncmp(*variable, "HOOP_", 5) == 0 && strchr(*variable, '=') && !is_own(*variable))
            hp_words_add(words, hp_must(strdup(*variable)));
    hp_words_add(words,
                 hp_must_print("HOOPRUN_TTY=%s%s", isatty(STDOUT_FILENO) ? "1" : "", isatty(STDERR_FILENO) ? "2" : ""));
}

hoop_result
hp_variables_wish(hp_words *words, const char *wish, hoop_error *error)
{
    size_t n = strcspn(wish, "=");
    const char *value;
    char *name;
    size_t i;
    for (i = 0; i < n; i++)
        if (!isalpha((unsigned char)wish[i]) && wish[i] != '_' && (i == 0 || !isdigit((unsigned char)wish[i])))
            n = 0;
    if (n == 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "-x %.60s: that is no variable's name; write -x NAME or -x NAME=value", wish);
    if (wish[n] == '=') {
        hp_words_add(words, hp_must(strdup(wish)));
        return HOOP_SUCCESS;
    }
    name = hp_must(strndup(wish, n));
    value = getenv(name);
    if (value)
        hp_words_add(words, hp_must_print("%s=%s", name, value));
    free(name);
    return HOOP_SUCCESS;
}

void
hp_variables_adopt(const hp_orders *orders)
{
    size_t i;
    for (i = 0; i < OWN; i++)
        unsetenv(own[i]);
    for (i = 0; i < orders->variables.count; i++) {
        const char *variable = orders->variables.word[i];
        char *name = hp_must(strndup(variable, strcspn(variable, "=")));
        setenv(name, strchr(variable, '=') + 1, 1);
        free(name);
    }
    setenv("PYTHONUNBUFFERED", "1", 0); /* what a rank prints is seen when it is printed */
}

/* PREFIX/lib, or what it is called there; NULL: the library is not there. free() it. */
static char *
library_folder(const char *prefix)
{
    static const char *const places[] = {"lib", "lib64", "lib*/*"};
    char *found = NULL;
    size_t i;
    for (i = 0; i < sizeof(places) / sizeof(places[0]) && !found; i++) {
        char *pattern = hp_must_print("%s/%s/libhoop.so*", prefix, places[i]);
        glob_t seen;
        if (glob(pattern, GLOB_NOSORT, NULL, &seen) == 0) {
            found = hp_must(strdup(seen.gl_pathv[0]));
            *strrchr(found, '/') = '\0';
            globfree(&seen);
        }
        free(pattern);
    }
    return found;
}

void
hp_variables_library(const char *prefix)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    char *folder = library_folder(prefix), *both;
    if (!folder)
        return;
    both = before && before[0] ? hp_must_print("%s:%s", folder, before) : hp_must(strdup(folder));
    setenv("LD_LIBRARY_PATH", both, 1);
    free(both);
    free(folder);
}

char **
hp_variables_of_rank(const hp_orders *orders, int i, int secret_fd)
{
    size_t count = 0, at;
    char **all;
    while (environ[count])
        count++;
    all = hp_must_alloc(count + MINE + 1, sizeof(*all));
    all[0] = hp_must_print("HOOP_RANK=%d", orders->rank[i]);
    all[1] = hp_must_print("HOOP_SIZE=%d", orders->world);
    all[2] = hp_must_print("HOOP_LOCAL_RANK=%d", orders->local_first + i);
    all[3] = hp_must_print("HOOP_LOCAL_SIZE=%d", orders->local_size);
    all[4] = hp_must_print("HOOP_SECRET_FD=%d", secret_fd);
    all[5] = hp_must_print("RANK=%d", orders->rank[i]);
    all[6] = hp_must_print("WORLD_SIZE=%d", orders->world);
    all[7] = hp_must_print("LOCAL_RANK=%d", orders->local_first + i);
    all[8] = hp_must_print("LOCAL_WORLD_SIZE=%d", orders->local_size);
    all[9] = hp_must_print("HOOP_SECURITY=auth"); /* whatever a settings file says: the server asks for the secret */
    for (at = 0, count = MINE; environ[at] != NULL; at++)
        all[count++] = environ[at];
    return all;
}

void
hp_variables_free(char **variables)
{
    int i;
    for (i = 0; i < MINE; i++)
        free(variables[i]);
    free(variables);
}
