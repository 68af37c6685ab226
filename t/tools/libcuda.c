/* SPDX-License-Identifier: MIT */
/*
 * libcuda: a stand-in for the CUDA driver (libcuda.so.1), so that gpu/cuda*.c can be tested on a machine without a GPU.
 * It has exactly the functions of gpu/cuda_driver.c's table. A thread runs each stream. Device memory is a range of
 * addresses that faults when the host accesses it; only "kernels" access the bytes, which are in a second mapping.
 * Pinned host memory has a device address that faults too, so a test finds an address that was not translated. A kernel
 * is run by the host's reference arithmetic, from the launch's name and parameter, or by gpu/kernels.cu compiled for
 * the CPU (cudacpu_kernels.h). As with the real driver, contexts must be current, handles must exist, and ranges must
 * be inside one allocation.
 */
#include "t/tools/libcuda.h"

#include "t/tools/libcuda_internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct module {
    function *functions; /* each is loaded at its first launch, once per module */
} module;

fake_state fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .devices = 1, .memory_ops = 1};
_Thread_local context *current;
static _Thread_local int capture_mode = MODE_GLOBAL;

static long
number_from(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text != '\0' ? strtol(text, NULL, 10) : otherwise;
}

static void
steer_connections(int number)
{
    pthread_mutex_lock(&fake.lock);
    fake.connections = number < CONNECTIONS_MAX ? number : CONNECTIONS_MAX;
    pthread_mutex_unlock(&fake.lock);
}

__attribute__((constructor)) static void
read_environment(void)
{
    fake.fail_at = number_from("HOOP_FAKE_CUDA_FAIL", 0);
    fake.sticky = (int)number_from("HOOP_FAKE_CUDA_STICKY", 0);
    fake.delay_us = (unsigned)number_from("HOOP_FAKE_CUDA_DELAY_US", 0);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"); /* as NVIDIA's driver: if empty, there is no GPU */
    fake.devices = visible && *visible == '\0' ? 0 : (int)number_from("HOOP_FAKE_CUDA_DEVICES", 1);
    fake.memory_ops = (int)number_from("HOOP_FAKE_CUDA_MEMOPS", 1);
    fake.jealous = (int)number_from("HOOP_FAKE_CUDA_JEALOUS", 0);
    fake.unfit = (int)number_from("HOOP_FAKE_CUDA_UNFIT", 0);
    fake.depth = (int)number_from("HOOP_FAKE_CUDA_DEPTH", 0);
    steer_connections((int)number_from("HOOP_FAKE_CUDA_CONNECTIONS", 0));
    const char *path = getenv("HOOP_FAKE_CUDA_KERNELS");
    if (path && !(fake.compiled = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        fprintf(stderr, "stand-in driver: %s\n", dlerror());
}

/* Under the lock. */
static void
wait_for_drainer(void)
{
    while (fake.draining && !pthread_equal(fake.drainer, pthread_self()))
        pthread_cond_wait(&fake.changed, &fake.lock);
}

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Under the lock. The names are string literals. */
static void
count_call(const char *name)
{
    int i = 0;
    while (i < NAMES_MAX - 1 && fake.names[i].name && strcmp(fake.names[i].name, name) != 0)
        i++;
    fake.names[i].name = name;
    fake.names[i].calls++;
    fake.calls++;
}

int
fake_begin(const char *name)
{
    pthread_mutex_lock(&fake.lock);
    wait_for_drainer();
    count_call(name);
    if (fake.fail_at > 0 && fake.calls == fake.fail_at) {
        fake.failed_name = name;
        fake.failed_at = now();
        fake.dead = fake.sticky;
        return ILLEGAL_ADDRESS;
    }
    if (fake.dead)
        return ILLEGAL_ADDRESS;
    return fake.initialized ? OK : NOT_INITIALIZED;
}

int
fake_end(int result)
{
    pthread_mutex_unlock(&fake.lock);
    return result;
}

void
fake_drain(void)
{
    if (!fake.jealous)
        return;
    wait_for_drainer();
    fake.draining = 1;
    fake.drainer = pthread_self();
    while (fake.under_way > 0 && !fake.dead)
        pthread_cond_wait(&fake.changed, &fake.lock);
    fake.draining = 0;
    pthread_cond_broadcast(&fake.changed);
}

int
fake_begin_current(const char *name)
{
    int error = fake_begin(name);
    return error == OK && !current ? INVALID_CONTEXT : error;
}

int
fake_unsafe(int error)
{
    if (error != OK || fake.capturing != CAPTURE_ELSEWHERE || capture_mode != MODE_GLOBAL)
        return error;
    fake.spoiled = 1;
    return CAPTURE_UNSUPPORTED;
}

EXPORT int
cuThreadExchangeStreamCaptureMode(int *mode)
{
    int error = fake_begin("cuThreadExchangeStreamCaptureMode"), before = capture_mode;
    if (error != OK || *mode < MODE_GLOBAL || *mode > MODE_RELAXED)
        return fake_end(error != OK ? error : INVALID_VALUE);
    capture_mode = *mode;
    *mode = before;
    return fake_end(OK);
}

/* --- modules, contexts --- */

EXPORT int
cuModuleLoadData(module **out, const void *image)
{
    int error = fake_unsafe(fake_begin_current("cuModuleLoadData"));
    if (error == OK && fake.unfit)
        error = fake.unfit;
    if (error != OK || !image)
        return fake_end(error != OK ? error : INVALID_VALUE);
    fake_drain();
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return fake_end(OUT_OF_MEMORY);
    fake.live++;
    return fake_end(OK);
}

static void
drop_functions(module *m)
{
    while (m && m->functions) {
        function *gone = m->functions;
        m->functions = gone->next;
        free(gone);
    }
}

EXPORT int
cuModuleUnload(module *m)
{
    int error = fake_unsafe(fake_begin_current("cuModuleUnload"));
    fake_drain();
    drop_functions(m);
    free(m);
    fake.live--;
    return fake_end(error);
}

EXPORT int
cuModuleGetFunction(function **out, module *m, const char *name)
{
    int error = fake_begin_current("cuModuleGetFunction");
    if (error != OK)
        return fake_end(error);
    if (strlen(name) >= sizeof((*out)->name) || !fake_knows_kernel(name))
        return fake_end(NOT_FOUND);
    for (*out = m->functions; *out && strcmp((*out)->name, name) != 0; *out = (*out)->next)
        continue;
    if (*out)
        return fake_end(OK);
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return fake_end(OUT_OF_MEMORY);
    snprintf((*out)->name, sizeof((*out)->name), "%s", name);
    (*out)->next = m->functions;
    m->functions = *out;
    return fake_end(OK);
}

void
fake_load(function *f)
{
    if (f->loaded)
        return;
    fake_drain();
    f->loaded = 1;
    fake.loads++;
}

EXPORT int
cuInit(unsigned flags)
{
    int error = fake_begin("cuInit");
    if (error == ILLEGAL_ADDRESS || flags != 0)
        return fake_end(error == ILLEGAL_ADDRESS ? error : INVALID_VALUE);
    if (fake.devices == 0) /* as NVIDIA's driver, whose cuDeviceGetCount is then never called */
        return fake_end(NO_DEVICE);
    fake.initialized = 1;
    for (int i = 0; i < 8; i++)
        fake.contexts[i].ordinal = i;
    return fake_end(OK);
}

EXPORT int
cuDriverGetVersion(int *version)
{
    *version = 13000;
    return OK;
}

EXPORT int
cuDeviceGetCount(int *count)
{
    int error = fake_begin("cuDeviceGetCount");
    *count = fake.devices;
    return fake_end(error);
}

EXPORT int
cuDeviceGet(int *device, int ordinal)
{
    int error = fake_begin("cuDeviceGet");
    *device = ordinal;
    return fake_end(error != OK ? error : ordinal >= 0 && ordinal < fake.devices ? OK : INVALID_DEVICE);
}

EXPORT int
cuDeviceGetName(char *name, int length, int device)
{
    int error = fake_begin("cuDeviceGetName");
    snprintf(name, (size_t)length, "stand-in GPU %d", device);
    return fake_end(error);
}

EXPORT int
cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int error = fake_begin("cuDeviceGetAttribute");
    (void)device;
    *value = attribute == 16 ? 4 : attribute == 122 ? fake.memory_ops : 0;
    return fake_end(error);
}

EXPORT int
cuDevicePrimaryCtxRetain(context **out, int device)
{
    int error = fake_unsafe(fake_begin("cuDevicePrimaryCtxRetain"));
    if (error != OK)
        return fake_end(error);
    *out = &fake.contexts[device];
    (*out)->retained++;
    fake.live++;
    return fake_end(OK);
}

EXPORT int
cuDevicePrimaryCtxRelease_v2(int device)
{
    int error = fake_begin("cuDevicePrimaryCtxRelease");
    context *c = &fake.contexts[device];
    fake.live--;
    if (--c->retained == 0 && c->legacy) {
        fake_drop_stream(c->legacy);
        c->legacy = NULL;
    }
    return fake_end(error);
}

EXPORT int
cuCtxGetCurrent(context **out)
{
    int error = fake_begin("cuCtxGetCurrent");
    *out = current;
    return fake_end(error);
}

EXPORT int
cuCtxSetCurrent(context *c)
{
    int error = fake_begin("cuCtxSetCurrent");
    if (error == OK && c && c->retained == 0)
        return fake_end(INVALID_CONTEXT);
    if (error == OK || !c)
        current = c;
    return fake_end(error);
}

EXPORT int
cuCtxGetDevice(int *device)
{
    int error = fake_begin_current("cuCtxGetDevice");
    if (error == OK)
        *device = current->ordinal;
    return fake_end(error);
}

EXPORT int
cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    int error = fake_begin_current("cuCtxGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return fake_end(error);
}

EXPORT int
cuGetErrorName(int error, const char **name)
{
    *name = error == ILLEGAL_ADDRESS   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : error == NOT_INITIALIZED ? "CUDA_ERROR_NOT_INITIALIZED"
            : error == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
            : error == INVALID_HANDLE  ? "CUDA_ERROR_INVALID_HANDLE"
            : error == INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
            : error == NOT_FOUND       ? "CUDA_ERROR_NOT_FOUND"
                                       : NULL;
    return *name ? OK : INVALID_VALUE;
}

EXPORT int
cuGetErrorString(int error, const char **text)
{
    *text = error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "a stand-in's error";
    return OK;
}

/* --- steering --- */

static void
steer_fail(long call, int with_sticky)
{
    pthread_mutex_lock(&fake.lock);
    fake.fail_at = call > 0 ? fake.calls + call : 0;
    fake.sticky = with_sticky;
    if (call > 0)
        fake.failed_name = NULL;
    pthread_mutex_unlock(&fake.lock);
}

static long
steer_calls(void)
{
    pthread_mutex_lock(&fake.lock);
    long result = fake.calls;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static long
steer_called(const char *prefix)
{
    long result = 0;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < NAMES_MAX && fake.names[i].name; i++) {
        if (strncmp(fake.names[i].name, prefix, strlen(prefix)) == 0)
            result += fake.names[i].calls;
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static long
steer_loads(void)
{
    pthread_mutex_lock(&fake.lock);
    long result = fake.loads;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static const char *
steer_failed(void)
{
    pthread_mutex_lock(&fake.lock);
    const char *result = fake.failed_name;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static double
steer_failed_at(void)
{
    pthread_mutex_lock(&fake.lock);
    double result = fake.failed_at;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static void
set(int *what, int value)
{
    pthread_mutex_lock(&fake.lock);
    *what = value;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static void
steer_break(void)
{
    set(&fake.break_next, 1);
}

static void
steer_heal(void)
{
    set(&fake.dead, 0);
}

static long
steer_live(void)
{
    pthread_mutex_lock(&fake.lock);
    long result = fake.live;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static void
steer_delay(unsigned microseconds)
{
    __atomic_store_n(&fake.delay_us, microseconds, __ATOMIC_RELAXED);
}

static void
steer_capture(int what)
{
    set(&fake.spoiled, 0);
    set(&fake.capturing, what);
}

static int
steer_spoiled(void)
{
    pthread_mutex_lock(&fake.lock);
    int result = fake.spoiled;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static void
steer_memory_ops(int on)
{
    set(&fake.memory_ops, on);
}

static void
steer_apart(int on)
{
    set(&fake.apart, on);
}

static void *
steer_bytes(const void *memory, size_t size)
{
    pthread_mutex_lock(&fake.lock);
    void *result = fake_bytes_at(memory, size);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static void
steer_jealous(int on)
{
    set(&fake.jealous, on);
}

static void
steer_depth(int operations)
{
    set(&fake.depth, operations);
}

static void
steer_load(void)
{
    pthread_mutex_lock(&fake.lock);
    fake_drain();
    pthread_mutex_unlock(&fake.lock);
}

EXPORT const hoop_fake_cuda hoop_fake_cuda_table = {
    .fail = steer_fail,
    .calls = steer_calls,
    .called = steer_called,
    .loads = steer_loads,
    .failed = steer_failed,
    .failed_at = steer_failed_at,
    .break_kernel = steer_break,
    .heal = steer_heal,
    .live = steer_live,
    .delay = steer_delay,
    .capture = steer_capture,
    .spoiled = steer_spoiled,
    .memory_ops = steer_memory_ops,
    .apart = steer_apart,
    .jealous = steer_jealous,
    .bytes = steer_bytes,
    .load = steer_load,
    .depth = steer_depth,
    .connections = steer_connections,
};
