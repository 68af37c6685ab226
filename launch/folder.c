/* SPDX-License-Identifier: MIT */
/* folder: see folder.h. */
#include "launch/folder.h"

#include "launch/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `path`, which lies in the launching user's home, as it lies in ours; NULL when it does not. free() it. */
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
    char *likeness;
    int there, number;
    if (!spec->dir || chdir(spec->dir) == 0)
        return 0;
    number = errno;
    likeness = spec->dir_must ? NULL : rehome(spec->dir, spec);
    there = likeness && chdir(likeness) == 0;
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
