/* SPDX-License-Identifier: MIT */
/*
 * pmi: see pmi.h. The descriptor of PMI-1 is shared with an MPI library of the same process, which may use it later: it
 * stays as it is, and no byte is read beyond an answer.
 */
#include "lib/pmi.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/text.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GOODBYE_MS = 1000 };

#define CHANNEL "the launcher's key-value channel (PMI_FD=%d) "

int
hp_pmi_word(const char *line, const char *key, char *value, size_t size)
{
    size_t n = strlen(key);
    for (const char *at = line; *at; at += strspn(at, " \n")) {
        size_t length = strcspn(at, " \n");
        if (strncmp(at, key, n) == 0 && at[n] == '=' && length > n && length - n <= size) {
            memcpy(value, at + n + 1, length - n - 1);
            value[length - n - 1] = 0;
            return 1;
        }
        at += length;
    }
    return 0;
}

/* --- PMI-1: one line --- */

static hoop_result
refuse(const hp_pmi *pmi, const char *why, hoop_error *error)
{
    return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                      CHANNEL "%.160s: start the job with hooprun, or give it HOOP_RENDEZVOUS; see hoop_launch(7)",
                      pmi->fd, why);
}

static hoop_result
send_line(const hp_pmi *pmi, const char *line, hoop_error *error)
{
    size_t n = strlen(line);
    for (size_t done = 0; done < n;) {
        ssize_t wrote = send(pmi->fd, line + done, n - done, MSG_NOSIGNAL);
        if (wrote < 0 && errno != EINTR)
            return refuse(pmi,
                          errno == EBADF      ? "is not open; did a program in between close it?"
                          : errno == ENOTSOCK ? "is no socket"
                                              : "is closed; did another library say goodbye on it?",
                          error);
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return HOOP_SUCCESS;
}

static hoop_result
late(const hp_pmi *pmi, const char *line, hoop_error *error)
{
    char why[128];
    if (pmi->in_barrier)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "a rank of this job has not called hoop_comm_create within HOOP_BOOTSTRAP_TIMEOUT_MS: all "
                          "ranks must call it; this one may call it again, but not MPI_Init, because the channel "
                          "(PMI_FD=%d) now waits for that rank; see hoop_launch(7)",
                          pmi->fd);
    snprintf(why, sizeof(why), "does not answer \"%.*s\" in time", (int)(strcspn(line, " \n")), line);
    return refuse(pmi, why, error);
}

static hoop_result
read_line(const hp_pmi *pmi, const char *asked, char answer[HP_PMI_LINE], hp_bounded_wait *wait, hoop_error *error)
{
    const char *what = pmi->in_barrier ? "other processes of this job, which must all call hoop_comm_create"
                                       : "an answer of the launcher's key-value channel (PMI_FD)";
    size_t have = 0;
    for (;;) {
        struct pollfd readable = {.fd = pmi->fd, .events = POLLIN};
        int ready = poll(&readable, 1, hp_bounded_wait_ms(wait));
        if (ready <= 0) {
            if (!hp_bounded_wait_ask(wait, what))
                return late(pmi, asked, error);
            continue;
        }
        ssize_t n = recv(pmi->fd, answer + have, HP_PMI_LINE - 1 - have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return refuse(pmi, "was closed; has the launcher ended the job?", error);
        have += (size_t)n;
        answer[have] = 0;
        const char *end = memchr(answer, '\n', have);
        if (end == answer + have - 1 && strlen(answer) == have)
            return HOOP_SUCCESS;
        if (end || have == HP_PMI_LINE - 1)
            return refuse(pmi, "gives an answer that is not one line of PMI-1", error);
    }
}

/* HOOP_SUCCESS: the answer to `line` is `cmd` with rc=0, or without an rc. */
static hoop_result
check(const hp_pmi *pmi, const char *line, const char *cmd, char answer[HP_PMI_LINE], hoop_error *error)
{
    char word[64], why[160];
    int right = hp_pmi_word(answer, "cmd", word, sizeof(word)) && strcmp(word, cmd) == 0;
    if (right && (!hp_pmi_word(answer, "rc", word, sizeof(word)) || strcmp(word, "0") == 0))
        return HOOP_SUCCESS;
    answer[strcspn(answer, "\n")] = 0;
    char *value = strstr(answer, "value="); /* it may hold the secret */
    if (value)
        value[value > answer ? -1 : 0] = 0; /* with the blank in front */
    snprintf(why, sizeof(why), "answers \"%.*s\" with \"%.80s\"", (int)strcspn(line, " \n"), line, answer);
    hp_text_tame(why, strlen(why), 0);
    return refuse(pmi, why, error);
}

/* Sends a line, and expects the answer `cmd`. */
__attribute__((format(printf, 6, 7))) static hoop_result
ask(const hp_pmi *pmi, const char *cmd, char answer[HP_PMI_LINE], hp_bounded_wait *wait, hoop_error *error,
    const char *format, ...)
{
    char line[HP_PMI_LINE];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (n >= HP_PMI_LINE)
        return refuse(pmi, "has no room for the server's address", error);
    hoop_result result = send_line(pmi, line, error);
    if (result == HOOP_SUCCESS)
        result = read_line(pmi, line, answer, wait, error);
    char *secret = strstr(line, " value=");
    if (secret)
        hp_wipe(secret, strlen(secret));
    return result == HOOP_SUCCESS ? check(pmi, line, cmd, answer, error) : result;
}

/* --- PMI-1: the commands --- */

hoop_result
hp_pmi_open(hp_pmi *pmi, int fd, hp_bounded_wait *wait, hoop_error *error)
{
    char answer[HP_PMI_LINE], number[32] = "";
    int64_t most = 0;
    *pmi = (hp_pmi){.fd = fd};
    hoop_result result = ask(pmi, "response_to_init", answer, wait, error, "cmd=init pmi_version=1 pmi_subversion=1\n");
    if (result == HOOP_SUCCESS)
        pmi->open = 1;
    if (result == HOOP_SUCCESS)
        result = ask(pmi, "maxes", answer, wait, error, "cmd=get_maxes\n");
    if (result == HOOP_SUCCESS) {
        hp_pmi_word(answer, "vallen_max", number, sizeof(number));
        if (!hp_number_parse(number, 1, INT32_MAX, &most))
            return refuse(pmi, "does not say how long a value may be (vallen_max)", error);
        pmi->most = (long)most;
        result = ask(pmi, "my_kvsname", answer, wait, error, "cmd=get_my_kvsname\n");
    }
    int named = hp_pmi_word(answer, "kvsname", pmi->space, sizeof(pmi->space)) && pmi->space[0];
    if (result == HOOP_SUCCESS && !named)
        return refuse(pmi, "has no name (kvsname)", error);
    return result;
}

hoop_result
hp_pmi_put(hp_pmi *pmi, const char *key, const char *value, hp_bounded_wait *wait, hoop_error *error)
{
    char answer[HP_PMI_LINE];
    if (strlen(value) >= (size_t)pmi->most)
        return refuse(pmi, "has no room for the server's address", error);
    return ask(pmi, "put_result", answer, wait, error, "cmd=put kvsname=%s key=%s value=%s\n", pmi->space, key, value);
}

hoop_result
hp_pmi_barrier(hp_pmi *pmi, hp_bounded_wait *wait, hoop_error *error)
{
    static const char line[] = "cmd=barrier_in\n";
    char answer[HP_PMI_LINE];
    hoop_result result = pmi->in_barrier ? HOOP_SUCCESS : send_line(pmi, line, error);
    if (result != HOOP_SUCCESS)
        return result;
    pmi->in_barrier = 1;
    result = read_line(pmi, line, answer, wait, error);
    if (result != HOOP_SUCCESS)
        return result;
    pmi->in_barrier = 0;
    return check(pmi, line, "barrier_out", answer, error);
}

hoop_result
hp_pmi_get(hp_pmi *pmi, const char *key, char *value, size_t size, hp_bounded_wait *wait, hoop_error *error)
{
    char answer[HP_PMI_LINE];
    hoop_result result = ask(pmi, "get_result", answer, wait, error, "cmd=get kvsname=%s key=%s\n", pmi->space, key);
    if (result == HOOP_SUCCESS && !hp_pmi_word(answer, "value", value, size))
        result = refuse(pmi, "gives no value for a key that rank 0 has put there", error);
    hp_wipe(answer, sizeof(answer));
    return result;
}

void
hp_pmi_finalize(hp_pmi *pmi)
{
    hp_bounded_wait wait = hp_bounded_wait_of(GOODBYE_MS * HP_MS, 1);
    char answer[HP_PMI_LINE];
    hoop_error error;
    if (pmi->open)
        ask(pmi, "finalize_ack", answer, &wait, &error, "cmd=finalize\n");
    pmi->open = 0;
}

/* --- PMIx: the part of the standard that is used --- */

/*
 * The types and numbers below are those of the PMIx Standard 4 and 5 (libpmix.so.2). A daemon may ignore a time limit. So of
 * the calls that may wait the form with a callback is used, where there is one, and a thread makes the others. An answer goes
 * into static memory, since it may arrive after this process has given up.
 */

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
static int is_open, processes; /* processes: of the job, once it is open and has told it */
static int in_barrier;         /* `answer` will be that of the fence that this process has entered */

/* --- PMIx: answers --- */

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
refuse_pmix(const char *what, int status, hoop_error *error)
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
        if (hp_thread_wait(&answer.arrived, &answer.mutex, until) || answer.known)
            continue;
        pthread_mutex_unlock(&answer.mutex);
        waits = hp_bounded_wait_ask(wait, what);
        pthread_mutex_lock(&answer.mutex);
    }
    int known = status || answer.known;
    status = status ? status : answer.status;
    pthread_mutex_unlock(&answer.mutex);
    if (known)
        return status ? refuse_pmix(call, status, error) : HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                      "the launcher's key-value channel (PMIx) did not end %s in time: waited for %s; see "
                      "hoop_launch(7)",
                      call, what);
}

/* --- PMIx: calls that wait --- */

/*
 * A thread makes the calls without a callback, one at a time. When the time is over it goes on alone, and what is called next
 * waits for it first.
 */
static struct {
    const char *name; /* NULL: there is none */
    int (*function)(void);
    void *call; /* its number */
    pthread_t thread;
} running;

static int
start_pmix(void)
{
    return pmix.init(&me, NULL, 0);
}

static int
end_pmix(void)
{
    return pmix.finalize(NULL, 0);
}

static void *
run(void *arg)
{
    (void)arg;
    int status = running.function();
    on_done(status, running.call);
    return NULL;
}

/* Until the thread has made its call. */
static hoop_result
await_thread(hp_bounded_wait *wait, hoop_error *error)
{
    if (!running.name)
        return HOOP_SUCCESS;
    hoop_result result =
        await(running.name, 0, "the launcher's daemon of this host, which may be stopped", wait, error);
    pthread_mutex_lock(&answer.mutex);
    int known = answer.known, status = answer.status;
    pthread_mutex_unlock(&answer.mutex);
    if (!known)
        return result;
    if (running.function != pmix.commit)
        is_open = running.function == start_pmix && status == 0;
    pthread_join(running.thread, NULL);
    running.name = NULL;
    return result;
}

static hoop_result
run_in_thread(const char *name, int (*function)(void), hp_bounded_wait *wait, hoop_error *error)
{
    running.function = function;
    running.call = next_call();
    if (!hp_thread_start(&running.thread, run, NULL)) /* it takes no signals, nor does the thread that libpmix starts */
        return hp_err_sys(error, HOOP_ERR_RENDEZVOUS, errno, "cannot start a thread for %s", name);
    running.name = name;
    return await_thread(wait, error);
}

/* --- PMIx: the library --- */

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
    hp_thread_pin();
    hp_thread_cond_init(&answer.arrived);
    return HOOP_SUCCESS;
}

hoop_result
hp_pmix_open(int *size, hp_bounded_wait *wait, hoop_error *error)
{
    hoop_result result = pmix.library ? HOOP_SUCCESS : open_library(error);
    if (result == HOOP_SUCCESS && running.function != pmix.commit)
        result = await_thread(wait, error);
    if (result == HOOP_SUCCESS && !is_open)
        result = run_in_thread("PMIx_Init", start_pmix, wait, error);
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
        hp_pmix_close(wait);
    return result;
}

hoop_result
hp_pmix_put(const char *key, const char *value, hp_bounded_wait *wait, hoop_error *error)
{
    char copy[1024];
    pmix_value v = {.type = TYPE_STRING, .data = {.string = copy}};
    int put_before = running.name && running.function == pmix.commit;
    hoop_result result = await_thread(wait, error);
    if (result != HOOP_SUCCESS || put_before)
        return result;
    snprintf(copy, sizeof(copy), "%s", value);
    int status = pmix.put(SCOPE_GLOBAL, key, &v);
    hp_wipe(copy, sizeof(copy)); /* it may hold the secret */
    if (status)
        return refuse_pmix("PMIx_Put", status, error);
    return run_in_thread("PMIx_Commit", pmix.commit, wait, error);
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
hp_pmix_close(hp_bounded_wait *wait)
{
    hoop_error error;
    await_thread(wait, &error);
    if (is_open && !running.name)
        run_in_thread("PMIx_Finalize", end_pmix, wait, &error);
    processes = in_barrier = 0;
}
