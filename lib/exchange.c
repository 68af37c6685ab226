/* SPDX-License-Identifier: MIT */
/*
 * exchange: see exchange.h. An MPI library of the process uses the same channel, and hoop stays out of its way. PMI-1
 * has one connection, which belongs to MPI alone while that is initialised. It stays open until the process ends: after
 * its goodbye MPI_Init would find it closed, and without a goodbye Hydra takes the end of the process for a crash.
 * libpmix is closed after the exchange, and so its thread and its connection end, unless the program has an MPI library:
 * what libpmix knows of the job would be lost for MPI_Init. It is never opened again, because the launcher's daemon may
 * take the end of the old connection for that of a new one (seen with Open MPI 4.1: a fence whose answer never came).
 */
#include "lib/exchange.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "lib/pmi.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* --- the program's MPI library --- */

#define PREFIX "libmpi" /* of the files of all MPI libraries */

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

/* NULL: there is no MPI library. One counts however it was loaded, also where its names are not global, as Python's. */
static initialized_fn *
find_mpi(void)
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

/* From MPI_Init to the end of the process. */
static int
mpi_is_here(void)
{
    initialized_fn *initialized = find_mpi();
    int flag = 0;
    return initialized && initialized(&flag) == 0 && flag;
}

/* --- the exchange --- */

#define KEY "hoop" /* of rank 0's text */

enum { GOODBYE_MS = 5000 }; /* to a daemon that may be stopped, when the process ends */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of everything below, and of libpmix */
static hp_pmi pmi;
static pid_t user;    /* the process that has used the channel, which is its alone; 0: none has */
static char *kept;    /* rank 0's text; NULL: there was no exchange yet */
static int has_put;   /* rank 0: the channel has its text, and takes no second one */
static int processes; /* of the launcher, as PMIx says; 0: not known yet */

/*
 * Also before the library is unloaded. Another thread may be in the middle of an exchange, and the interpreter that is asked
 * about interrupts may be gone.
 */
__attribute__((destructor)) static void
end_channels(void)
{
    if (user == getpid() && pthread_mutex_trylock(&mutex) == 0) {
        hp_bounded_wait wait = hp_bounded_wait_of(GOODBYE_MS * HP_MS, 1);
        hoop_interrupt_by(NULL, NULL);
        if (!mpi_is_here())
            hp_pmi_finalize(&pmi);
        hp_pmix_close(&wait);
        pthread_mutex_unlock(&mutex);
    }
    hp_secmem_free(kept);
}

static hoop_result
by_pmi(const hp_launcher *l, char text[HP_EXCHANGE_TEXT], hp_bounded_wait *wait, hoop_error *error)
{
    hoop_result result = HOOP_SUCCESS;
    if (mpi_is_here())
        return hp_err_set(
            error, HOOP_ERR_RENDEZVOUS,
            "MPI is initialised in this process and uses the channel of %s (PMI_FD), so hoop does not: "
            "create the first communicator before MPI_Init, or pass rank 0's hoop_server_address by MPI_Bcast, "
            "as hoop_launch(7) shows",
            l->name);
    if (!pmi.open)
        result = hp_pmi_open(&pmi, l->fd, wait, error);
    if (result == HOOP_SUCCESS && l->rank == 0 && !has_put) {
        result = hp_pmi_put(&pmi, KEY, text, wait, error);
        has_put = result == HOOP_SUCCESS;
    }
    if (result == HOOP_SUCCESS)
        result = hp_pmi_barrier(&pmi, wait, error);
    return result == HOOP_SUCCESS ? hp_pmi_get(&pmi, KEY, text, HP_EXCHANGE_TEXT, wait, error) : result;
}

static hoop_result
by_pmix(const hp_launcher *l, char text[HP_EXCHANGE_TEXT], hp_bounded_wait *wait, hoop_error *error)
{
    int size;
    hoop_result result = hp_pmix_open(&size, wait, error);
    if (result == HOOP_SUCCESS && size != l->size)
        result = hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                            "%s started %d processes by its key-value channel (PMIx), and %d by its variables or "
                            "HOOP_SIZE; see hoop_launch(7)",
                            l->name, size, l->size);
    if (result == HOOP_SUCCESS && l->rank == 0 && !has_put) {
        result = hp_pmix_put(KEY, text, wait, error);
        has_put = result == HOOP_SUCCESS;
    }
    if (result == HOOP_SUCCESS)
        result = hp_pmix_barrier(wait, error);
    if (result == HOOP_SUCCESS)
        result = hp_pmix_get(0, KEY, text, HP_EXCHANGE_TEXT, wait, error);
    return result;
}

/* After the last use of libpmix. */
static void
let_go(hp_bounded_wait *wait)
{
    if (!find_mpi()) /* else MPI_Init may come */
        hp_pmix_close(wait);
}

/* Another thread of the parent may have been in the middle of an exchange. */
static void
in_child(void)
{
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void
watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

static void
enter(void)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_once(&watched, watch_forks);
    pthread_mutex_lock(&mutex);
}

/* The channel knows one process of each rank. */
static hoop_result
claim(const hp_launcher *l, hoop_error *error)
{
    if (user && user != getpid())
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "this process was forked by rank %d, process %d, which has used the channel of %s, and takes "
                          "no part in its job: create communicators in the parent, or set HOOP_RENDEZVOUS, HOOP_SIZE "
                          "and HOOP_RANK; see hoop_launch(7)",
                          l->rank, (int)user, l->name);
    user = getpid();
    return HOOP_SUCCESS;
}

/* A failed one may be repeated, so the channel stays as it is. */
static hoop_result
exchange(const hp_launcher *l, char text[HP_EXCHANGE_TEXT], hp_bounded_wait *wait, hoop_error *error)
{
    char *room = hp_secmem_new(HP_EXCHANGE_TEXT);
    if (!room)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the address and the secret of rank 0");
    memcpy(room, text, HP_EXCHANGE_TEXT);
    hoop_result result = l->way == HP_BY_PMI ? by_pmi(l, room, wait, error) : by_pmix(l, room, wait, error);
    if (result == HOOP_SUCCESS) {
        kept = room;
        let_go(wait);
    } else {
        hp_secmem_free(room);
    }
    return result;
}

hoop_result
hp_exchange_text(const hp_launcher *l, char text[HP_EXCHANGE_TEXT], hp_bounded_wait *wait, hoop_error *error)
{
    enter();
    hoop_result result = claim(l, error);
    if (result == HOOP_SUCCESS && !kept)
        result = exchange(l, text, wait, error);
    if (result == HOOP_SUCCESS)
        memcpy(text, kept, HP_EXCHANGE_TEXT);
    pthread_mutex_unlock(&mutex);
    return result;
}

hoop_result
hp_exchange_size(hp_launcher *l, hp_bounded_wait *wait, hoop_error *error)
{
    enter();
    hoop_result result = claim(l, error);
    l->size = processes;
    if (result == HOOP_SUCCESS && !processes)
        result = hp_pmix_open(&l->size, wait, error);
    if (result == HOOP_SUCCESS)
        processes = l->size;
    if (processes == 1)
        let_go(wait);
    pthread_mutex_unlock(&mutex);
    return result;
}
