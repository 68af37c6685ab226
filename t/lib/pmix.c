/* SPDX-License-Identifier: MIT */
/*
 * pmix: the client of PMIx on a libpmix of this file's own, whose daemon is right, refuses, or is stopped: then what waits for
 * it ends in time all the same, and what comes next goes on where that was.
 */
#include "base/clock.h"
#include "lib/pmi.h"
#include "t/tap/tap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 3, REFUSES = -25, PMIX_STRING = 3, PMIX_UINT32 = 14, SHORT_MS = 300, LONG_S = 120 };

void *__real_dlopen(const char *name, int flags);
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *handle, const char *name);

/* --- libpmix --- */

typedef struct value {
    uint16_t type;
    union {
        char *string;
        uint32_t uint32;
        void *room[3];
    } data;
} value;

typedef void done_fn(int status, void *arg);
typedef void got_fn(int status, value *value, void *arg);

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const char *held; /* the call for which the daemon does not answer; NULL: none */
    const char *refused;
    int inits, commits, finalizes;
    char put[64], published[64];
} daemon_of = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int
answer(const char *call, int *count)
{
    pthread_mutex_lock(&daemon_of.mutex);
    while (daemon_of.held && strcmp(daemon_of.held, call) == 0)
        pthread_cond_wait(&daemon_of.changed, &daemon_of.mutex);
    ++*count;
    int refused = daemon_of.refused && strcmp(daemon_of.refused, call) == 0;
    pthread_mutex_unlock(&daemon_of.mutex);
    return refused ? REFUSES : 0;
}

static void
hold(const char *call)
{
    pthread_mutex_lock(&daemon_of.mutex);
    daemon_of.held = call;
    pthread_cond_broadcast(&daemon_of.changed);
    pthread_mutex_unlock(&daemon_of.mutex);
}

static int
init(void *me, void *info, size_t n)
{
    return answer("PMIx_Init", &daemon_of.inits);
}

static int
finalize(const void *info, size_t n)
{
    return answer("PMIx_Finalize", &daemon_of.finalizes);
}

static int
put(uint8_t scope, const char *key, const value *v)
{
    snprintf(daemon_of.put, sizeof(daemon_of.put), "%s", v->data.string);
    return 0;
}

static int
commit(void)
{
    int status = answer("PMIx_Commit", &daemon_of.commits);
    memcpy(daemon_of.published, daemon_of.put, sizeof(daemon_of.put));
    return status;
}

static int
fence(const void *procs, size_t n, const void *info, size_t infos, done_fn *done, void *arg)
{
    done(0, arg);
    return 0;
}

static int
get(const void *proc, const char *key, const void *info, size_t n, got_fn *got, void *arg)
{
    value text = {.type = PMIX_STRING, .data.string = daemon_of.published};
    value number = {.type = PMIX_UINT32, .data.uint32 = SIZE};
    got(0, strcmp(key, "pmix.job.size") == 0 ? &number : &text, arg);
    return 0;
}

static const char *
error_string(int status)
{
    return status == REFUSES ? "UNREACHABLE" : "?";
}

void *
__wrap_dlopen(const char *name, int flags)
{
    return name && strcmp(name, "libpmix.so.2") == 0 ? &daemon_of : __real_dlopen(name, flags);
}

#define FUNCTION(name, function)                                                                                       \
    {                                                                                                                  \
        name, (void (*)(void))(function)                                                                               \
    }

void *
__wrap_dlsym(void *handle, const char *name)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } all[] = {FUNCTION("PMIx_Init", init),
               FUNCTION("PMIx_Finalize", finalize),
               FUNCTION("PMIx_Put", put),
               FUNCTION("PMIx_Commit", commit),
               FUNCTION("PMIx_Fence_nb", fence),
               FUNCTION("PMIx_Get_nb", get),
               FUNCTION("PMIx_Error_string", error_string)};
    void *at = NULL;
    if (handle != &daemon_of)
        return __real_dlsym(handle, name);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (strcmp(all[i].name, name) == 0)
            memcpy(&at, &all[i].function, sizeof(at));
    return at;
}

/* --- the client --- */

static hoop_error error;

static hoop_result
open_within(uint64_t ms)
{
    hp_bounded_wait wait = hp_bounded_wait_of(ms * HP_MS, 1);
    int size = 0;
    hoop_result result = hp_pmix_open(&size, &wait, &error);
    if (result == HOOP_SUCCESS && size != SIZE)
        bail("a job of %d processes", size);
    return result;
}

static hoop_result
put_within(const char *text, uint64_t ms)
{
    hp_bounded_wait wait = hp_bounded_wait_of(ms * HP_MS, 1);
    return hp_pmix_put("key", text, &wait, &error);
}

static void
close_within(uint64_t ms)
{
    hp_bounded_wait wait = hp_bounded_wait_of(ms * HP_MS, 1);
    hp_pmix_close(&wait);
}

static void
is_late(hoop_result result, const char *call)
{
    ok(result == HOOP_ERR_RENDEZVOUS && strstr(error.text, call) && strstr(error.text, "in time") &&
           strstr(error.text, "daemon of this host, which may be stopped"),
       "%s", error.text);
}

static void
is_told(const char *text, const char *what)
{
    hp_bounded_wait wait = hp_bounded_wait_of(LONG_S * HP_SEC, 1);
    char got[64] = "";
    hoop_result result = hp_pmix_barrier(&wait, &error);
    if (result == HOOP_SUCCESS)
        result = hp_pmix_get(0, "key", got, sizeof(got), &wait, &error);
    ok(result == HOOP_SUCCESS && strcmp(got, text) == 0, "%s", what);
}

static void
test_start(void)
{
    daemon_of.refused = "PMIx_Init";
    ok(open_within(LONG_S * 1000) == HOOP_ERR_RENDEZVOUS && strstr(error.text, "PMIx_Init: UNREACHABLE"), "%s",
       error.text);
    daemon_of.refused = NULL;
    hold("PMIx_Init");
    is_late(open_within(SHORT_MS), "PMIx_Init");
    is_late(open_within(SHORT_MS), "PMIx_Init");
    hold(NULL);
    is_int(HOOP_SUCCESS, open_within(LONG_S * 1000), "when the daemon goes on, the next call gets its answer");
    is_int(2, daemon_of.inits, "to what it was asked first");
}

static void
test_put(void)
{
    hold("PMIx_Commit");
    is_late(put_within("first", SHORT_MS), "PMIx_Commit");
    is_late(put_within("second", SHORT_MS), "PMIx_Commit");
    close_within(SHORT_MS);
    is_int(HOOP_SUCCESS, open_within(SHORT_MS), "what was open before stays open");
    hold(NULL);
    is_int(HOOP_SUCCESS, put_within("third", LONG_S * 1000), "a text is published once the daemon goes on");
    is_told("first", "and all get it, and no other");
    is_int(1, daemon_of.commits, "it was published once");
    daemon_of.refused = "PMIx_Commit";
    ok(put_within("fourth", LONG_S * 1000) == HOOP_ERR_RENDEZVOUS && strstr(error.text, "PMIx_Commit: UNREACHABLE"),
       "%s", error.text);
    daemon_of.refused = NULL;
}

static void
test_end(void)
{
    hold("PMIx_Finalize");
    close_within(SHORT_MS);
    ok(daemon_of.finalizes == 0, "a process ends though the daemon does not hear its goodbye");
    is_late(open_within(SHORT_MS), "PMIx_Finalize");
    hold(NULL);
    is_int(HOOP_SUCCESS, open_within(LONG_S * 1000), "one that goes on instead starts anew");
    ok(daemon_of.finalizes == 1 && daemon_of.inits == 3, "after the goodbye");
    close_within(LONG_S * 1000);
    close_within(LONG_S * 1000);
    is_int(2, daemon_of.finalizes, "one goodbye a start");
}

int
main(void)
{
    plan(17);
    tap_limit(240);
    test_start();
    test_put();
    test_end();
    return tap_failures() != 0;
}
