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
rehome(const char *path, const hp_orders *orders)
{
    const char *mine = getenv("HOME");
    size_t n = orders->home ? strlen(orders->home) : 0;
    if (n < 2 || !mine || strncmp(path, orders->home, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    return hp_must_print("%s%s", mine, path + n);
}

int
hp_folder_enter(const hp_orders *orders)
{
    char *likeness;
    int there, number;
    if (!orders->dir || chdir(orders->dir) == 0)
        return 0;
    number = errno;
    likeness = orders->dir_must ? NULL : rehome(orders->dir, orders);
    there = likeness && chdir(likeness) == 0;
    free(likeness);
    errno = number;
    return there ? 0 : -1;
}

void
hp_folder_find_program(hp_orders *orders)
{
    char *program = orders->argv.word[0];
    char *likeness = access(program, F_OK) == 0 ? NULL : rehome(program, orders);
    if (likeness && access(likeness, X_OK) == 0) {
        orders->argv.word[0] = likeness;
        free(program);
    } else {
        free(likeness);
    }
}
