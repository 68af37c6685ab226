/* SPDX-License-Identifier: MIT */
/* mpi: see mpi.h. The files of all MPI libraries have names that begin with libmpi. */
#include "lib/mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "libmpi"

typedef int initialized_fn(int *flag);

/* The first library with such a name; the loop of the loader calls this, and allows no dlopen meanwhile. */
static int
take_path(struct dl_phdr_info *info, size_t size, void *path)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    (void)size;
    return slash && strncmp(slash + 1, PREFIX, strlen(PREFIX)) == 0 &&
           snprintf(path, PATH_MAX, "%s", info->dlpi_name) < PATH_MAX;
}

/* NULL: there is no MPI library. */
static initialized_fn *
find(void)
{
    char path[PATH_MAX];
    initialized_fn *function = NULL;
    void *at = dlsym(RTLD_DEFAULT, "MPI_Initialized");
    if (!at && dl_iterate_phdr(take_path, path)) {
        void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        at = library ? dlsym(library, "MPI_Initialized") : NULL;
        if (library)
            dlclose(library);
    }
    memcpy(&function, &at, sizeof(at));
    return function;
}

int
hp_mpi_is_loaded(void)
{
    return find() != NULL;
}

int
hp_mpi_is_here(void)
{
    initialized_fn *initialized = find();
    int flag = 0;
    return initialized && initialized(&flag) == 0 && flag;
}
