/* SPDX-License-Identifier: MIT */
/*
 * pmix: see pmix.h. The types and numbers below are those of the PMIx Standard 4 and 5 (libpmix.so.2). The calls that
 * may wait have the form with a callback, because a daemon may ignore a time limit; their answer goes into static
 * memory, since it may arrive after this process has given up.
 */
#include "lib/pmix.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the part of the standard that is used --- */

enum {
    NSPACE_TEXT = 256,
    KEY_TEXT = 512,
    TYPE_BOOL = 1,
    TYPE_STRING = 3,
    TYPE_UINT32 = 14,
    SCOPE_GLOBAL = 3,
    DONE_AT_ONCE = -157
};

#define ALL_RANKS (UINT32_MAX - 1)

typedef struct pmix_proc {
    char nspace[NSPACE_TEXT];
    uint32_t rank;
} pmix_proc;

typedef struct pmix_value {
    uint16_t type;
    union {
        _Bool flag;
        char *string;
        uint32_t uint32;
        void *room[3]; /* the largest member is three words */
    } data;
} pmix_value;

typedef struct pmix_info {
    char key[KEY_TEXT];
    uint32_t flags;
    pmix_value value;
} pmix_info;

typedef void pmix_done(int status, void *arg);
typedef void pmix_got(int status, pmix_value *value, void *arg);

static struct {
    void *library;
    int (*init)(pmix_proc *me, pmix_info *info, size_t n);
    int (*finalize)(const pmix_info *info, size_t n);
    int (*put)(uint8_t scope, const char *key, pmix_value *value);
    int (*commit)(void);
    int (*fence)(const pmix_proc *procs, size_t n, const pmix_info *info, size_t infos, pmix_done *done, void *arg);
    int (*get)(const pmix_proc *proc, const char *key, const pmix_info *info, size_t n, pmix_got *got, void *arg);
    const char *(*text)(int status);
} pmix;

static pmix_proc me;
static int is_open, processes; /* processes: of the job, once it is open */
static int in_barrier;         /* `answer` will be that of the fence that this process has entered */

/* --- answers --- */

/* Of the call with this number; that of an earlier one, which was given up, is dropped. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    uintptr_t number;
    int known, status;
    uint32_t count;
    char text[1024];
} answer = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void
on_answer(int status, pmix_value *value, void *arg)
{
    pthread_mutex_lock(&answer.mutex);
    if (answer.number == (uintptr_t)arg) {
        answer.known = 1;
        answer.status = status;
        answer.count = value && value->type == TYPE_UINT32 ? value->data.uint32 : 0;
        snprintf(answer.text, sizeof(answer.text), "%s",
                 value && value->type == TYPE_STRING && value->data.string ? value->data.string : "");
        pthread_cond_signal(&answer.arrived);
    }
    pthread_mutex_unlock(&answer.mutex);
}

static void
on_done(int status, void *arg)
{
    on_answer(status, NULL, arg);
}

/* The argument of the next call. */
static void *
next_call(void)
{
    pthread_mutex_lock(&answer.mutex);
    answer.known = 0;
    uintptr_t number = ++answer.number;
    pthread_mutex_unlock(&answer.mutex);
    return (void *)number;
}

static hoop_result
refuse(const char *what, int status, hoop_error *error)
{
    return hp_err_set(
        error, HOOP_ERR_RENDEZVOUS,
        "the launcher's key-value channel (PMIx) failed in %s: %.60s: start the job with hooprun, or give "
        "it HOOP_RENDEZVOUS; see hoop_launch(7)",
        what, pmix.text(status));
}

/* Until the answer to the last call, whose own status is given, has arrived. */
static hoop_result
await(const char *call, int status, const char *what, hp_bounded_wait *wait, hoop_error *error)
{
    int waits = status == 0;
    if (status == DONE_AT_ONCE) /* and no callback follows */
        return HOOP_SUCCESS;
    pthread_mutex_lock(&answer.mutex);
    while (waits && !answer.known) {
        uint64_t until = hp_now() + (uint64_t)hp_bounded_wait_ms(wait) * HP_MS;
        if (!hp_thread_wait(&answer.arrived, &answer.mutex, until) && !answer.known)
            waits = hp_bounded_wait_ask(wait, what);
    }
    int known = status || answer.known;
    status = status ? status : answer.status;
    pthread_mutex_unlock(&answer.mutex);
    if (known)
        return status ? refuse(call, status, error) : HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                      "the launcher's key-value channel (PMIx) did not end %s in time: waited for %s; see "
                      "hoop_launch(7)",
                      call, what);
}

/* --- the library --- */

static hoop_result
open_library(hoop_error *error)
{
    static const char *const names[] = {"PMIx_Init",     "PMIx_Finalize", "PMIx_Put",         "PMIx_Commit",
                                        "PMIx_Fence_nb", "PMIx_Get_nb",   "PMIx_Error_string"};
    void *at[sizeof(names) / sizeof(*names)];
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "the launcher offers PMIx, but %.120s: install it (Debian: libpmix2), or set "
                          "LD_LIBRARY_PATH; see hoop_launch(7)",
                          dlerror());
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        at[i] = dlsym(library, names[i]);
        if (!at[i]) {
            dlclose(library);
            return hp_err_set(
                error, HOOP_ERR_RENDEZVOUS,
                "the launcher offers PMIx, but libpmix.so.2 has no %s: hoop needs version 3 or later; see "
                "hoop_launch(7)",
                names[i]);
        }
    }
    memcpy(&pmix.init, &at[0], sizeof(at[0]));
    memcpy(&pmix.finalize, &at[1], sizeof(at[0]));
    memcpy(&pmix.put, &at[2], sizeof(at[0]));
    memcpy(&pmix.commit, &at[3], sizeof(at[0]));
    memcpy(&pmix.fence, &at[4], sizeof(at[0]));
    memcpy(&pmix.get, &at[5], sizeof(at[0]));
    memcpy(&pmix.text, &at[6], sizeof(at[0]));
    pmix.library = library;
    hp_thread_cond_init(&answer.arrived);
    return HOOP_SUCCESS;
}

static hoop_result
open_connection(hoop_error *error)
{
    sigset_t all, old;
    sigfillset(&all); /* libpmix starts a thread, which shall take no signals of the program */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int status = pmix.init(&me, NULL, 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (status)
        return refuse("PMIx_Init", status, error);
    is_open = 1;
    return HOOP_SUCCESS;
}

hoop_result
hp_pmix_open(int *size, hp_bounded_wait *wait, hoop_error *error)
{
    hoop_result result = pmix.library ? HOOP_SUCCESS : open_library(error);
    if (result == HOOP_SUCCESS && !is_open)
        result = open_connection(error);
    if (result != HOOP_SUCCESS)
        return result;
    if (processes) {
        *size = processes;
        return HOOP_SUCCESS;
    }
    pmix_proc job = me;
    job.rank = ALL_RANKS;
    void *call = next_call();
    result = await("PMIx_Get", pmix.get(&job, "pmix.job.size", NULL, 0, on_answer, call), "the size of the job", wait,
                   error);
    *size = (int)answer.count;
    if (result == HOOP_SUCCESS && *size < 1)
        result = hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                            "the launcher's key-value channel (PMIx) does not say how many processes the job has; see "
                            "hoop_launch(7)");
    if (result == HOOP_SUCCESS)
        processes = *size;
    else
        hp_pmix_close();
    return result;
}

hoop_result
hp_pmix_put(const char *key, const char *value, hoop_error *error)
{
    char copy[1024];
    pmix_value v = {.type = TYPE_STRING, .data = {.string = copy}};
    snprintf(copy, sizeof(copy), "%s", value);
    int status = pmix.put(SCOPE_GLOBAL, key, &v);
    if (status == 0)
        status = pmix.commit();
    hp_wipe(copy, sizeof(copy)); /* it may hold the secret */
    return status ? refuse("PMIx_Put", status, error) : HOOP_SUCCESS;
}

hoop_result
hp_pmix_barrier(hp_bounded_wait *wait, hoop_error *error)
{
    pmix_info collect = {.key = "pmix.collect", .value = {.type = TYPE_BOOL, .data = {.flag = 1}}};
    pmix_proc job = me;
    job.rank = ALL_RANKS;
    int status = in_barrier ? 0 : pmix.fence(&job, 1, &collect, 1, on_done, next_call());
    hoop_result result =
        await("PMIx_Fence", status, "other processes of this job, which must all call hoop_comm_create", wait, error);
    in_barrier = status == 0 && result != HOOP_SUCCESS;
    return result;
}

hoop_result
hp_pmix_get(int rank, const char *key, char *value, size_t size, hp_bounded_wait *wait, hoop_error *error)
{
    pmix_proc from = me;
    from.rank = (uint32_t)rank;
    void *call = next_call();
    hoop_result result = await("PMIx_Get", pmix.get(&from, key, NULL, 0, on_answer, call),
                               "the address that rank 0 has put there", wait, error);
    if (result == HOOP_SUCCESS)
        snprintf(value, size, "%s", answer.text);
    hp_wipe(answer.text, sizeof(answer.text));
    return result;
}

void
hp_pmix_close(void)
{
    if (is_open)
        pmix.finalize(NULL, 0);
    is_open = processes = in_barrier = 0;
}
