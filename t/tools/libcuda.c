/* SPDX-License-Identifier: MIT */
/*
 * libcuda: a stand-in for the CUDA driver (libcuda.so.1), so that gpu/cuda*.c runs, and is tested, on a machine without a
 * GPU. Exactly the functions of gpu/cuda_driver.c's table. Streams are threads. Device memory is a range of addresses
 * that faults when the host touches it; the bytes are in a second mapping only "kernels" use. Pinned host memory has a
 * device address of its own that faults too, so an address not translated is found out. Kernels are executed by the
 * host's reference arithmetic from the launch's name and parameter, or by gpu/kernels.cu compiled for the CPU
 * (cudacpu.h). Strict where the driver is: contexts must be current, handles must live, ranges must lie inside one
 * allocation.
 */
#include "t/tools/libcuda.h"

#include "gpu/cuda_kernel.h"
#include "gpu/gpu.h"
#include "lib/base/dtype.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713
};

typedef unsigned long long address;
typedef void host_fn(void *arg);
typedef void kernel_fn(hp_kernel_args args);
typedef void launch_fn(kernel_fn *kernel, const hp_kernel_args *args, unsigned blocks, unsigned threads);

typedef struct context {
    int ordinal, retained;
    struct stream *legacy; /* stream 0, made when first used */
} context;

typedef struct event {
    unsigned long recorded, reached;
    int holders; /* its owner, and operations under way */
} event;

enum kind { KERNEL, HOST, RECORD, AWAIT, WRITE, HOLD, COPY };

typedef struct operation {
    struct operation *next;
    enum kind kind;
    char kernel[48];
    hp_kernel_args args;
    unsigned blocks, threads;
    host_fn *fn;
    void *arg;
    event *event;
    unsigned long number; /* of the event's record */
    address to, from;
    unsigned long long value; /* or bytes */
} operation;

typedef struct stream {
    context *context;
    pthread_t thread;
    operation *first, **last;
    unsigned long submitted, done;
    int closing;
} stream;

typedef struct module {
    context *context;
} module;

typedef struct function {
    struct function *next;
    char name[48];
} function;

/* A stretch of addresses as kernels name them, and where its bytes are. */
typedef struct range {
    struct range *next;
    char *seen, *bytes;
    size_t size;
    int ordinal;
    int host; /* registered: bytes is the host's own address */
} range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static context contexts[8];
static range *ranges;
static function *functions;
static long calls, fail_at, live;
static const char *failed_name;
static int initialized, sticky, dead, break_next, capturing;
static int devices = 1, memory_ops = 1;
static unsigned delay_us;
static void *compiled; /* kernels.cu for the CPU, or NULL */
static _Thread_local context *current;

static long
number_from(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? strtol(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void
read_environment(void)
{
    fail_at = number_from("HOOP_FAKE_CUDA_FAIL", 0);
    sticky = (int)number_from("HOOP_FAKE_CUDA_STICKY", 0);
    delay_us = (unsigned)number_from("HOOP_FAKE_CUDA_DELAY_US", 0);
    devices = (int)number_from("HOOP_FAKE_CUDA_DEVICES", 1);
    memory_ops = (int)number_from("HOOP_FAKE_CUDA_MEMOPS", 1);
    const char *path = getenv("HOOP_FAKE_CUDA_KERNELS");
    if (path != NULL && (compiled = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL)
        fprintf(stderr, "stand-in driver: %s\n", dlerror());
}

/* Counts a call, under the lock it takes: the error the call must end with, or OK. */
static int
begin(const char *name)
{
    pthread_mutex_lock(&lock);
    calls++;
    if (fail_at > 0 && calls == fail_at) {
        failed_name = name;
        dead = sticky;
        return ILLEGAL_ADDRESS;
    }
    if (dead)
        return ILLEGAL_ADDRESS;
    return initialized ? OK : NOT_INITIALIZED;
}

static int
end(int result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

static int
begin_current(const char *name)
{
    int error = begin(name);

    return error == OK && current == NULL ? INVALID_CONTEXT : error;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static range *
find(const void *memory, size_t size, int as_host)
{
    for (range *r = ranges; r != NULL; r = r->next) {
        const char *start = as_host ? r->bytes : r->seen;
        size_t offset = (size_t)((const char *)memory - start);
        if ((!as_host || r->host) && (const char *)memory >= start && offset < r->size && size <= r->size - offset)
            return r;
    }
    return NULL;
}

/* Where the bytes of a device address are; NULL if the range is not all inside one allocation. */
static void *
bytes_at(const void *memory, size_t size)
{
    range *r = find(memory, size, 0);

    return r != NULL ? r->bytes + ((const char *)memory - r->seen) : NULL;
}

static range *
new_range(size_t size, int ordinal)
{
    range *r = calloc(1, sizeof *r);
    size_t span = (size + 8191) & ~(size_t)4095; /* a page more than needed: neighbours never touch */

    if (r == NULL)
        return NULL;
    r->size = size;
    r->ordinal = ordinal;
    r->seen = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->seen == MAP_FAILED) {
        free(r);
        return NULL;
    }
    r->next = ranges;
    ranges = r;
    live++;
    return r;
}

static void
drop_range(range *gone)
{
    range **at = &ranges;

    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    munmap(gone->seen, (gone->size + 8191) & ~(size_t)4095);
    if (!gone->host)
        munmap(gone->bytes, gone->size);
    free(gone);
    live--;
}

EXPORT int
cuMemAlloc_v2(address *out, size_t size)
{
    int error = begin_current("cuMemAlloc");
    range *r = error == OK && size > 0 ? new_range(size, current->ordinal) : NULL;

    if (error != OK || r == NULL)
        return end(error != OK ? error : size == 0 ? INVALID_VALUE : OUT_OF_MEMORY);
    r->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *out = (address)(size_t)r->seen;
    return end(OK);
}

EXPORT int
cuMemFree_v2(address memory)
{
    int error = begin_current("cuMemFree");
    range *r = find((void *)(size_t)memory, 1, 0);

    if (r == NULL || r->host || r->seen != (char *)(size_t)memory)
        return end(error != OK ? error : INVALID_VALUE);
    drop_range(r);
    return end(error);
}

EXPORT int
cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    int error = begin_current("cuMemHostRegister");

    if (error != OK || size == 0 || flags != 3)
        return end(error != OK ? error : INVALID_VALUE);
    for (range *r = ranges; r != NULL; r = r->next) {
        if (r->host && (char *)memory < r->bytes + r->size && r->bytes < (char *)memory + size)
            return end(ALREADY_REGISTERED);
    }
    range *r = new_range(size, current->ordinal);
    if (r == NULL)
        return end(OUT_OF_MEMORY);
    r->host = 1;
    r->bytes = memory;
    return end(OK);
}

EXPORT int
cuMemHostUnregister(void *memory)
{
    int error = begin_current("cuMemHostUnregister");
    range *r = find(memory, 1, 1);

    if (r == NULL || r->bytes != memory)
        return end(error != OK ? error : NOT_REGISTERED);
    drop_range(r);
    return end(error);
}

EXPORT int
cuMemHostGetDevicePointer_v2(address *out, void *memory, unsigned flags)
{
    int error = begin_current("cuMemHostGetDevicePointer");
    range *r = find(memory, 1, 1);

    if (error != OK || r == NULL || flags != 0)
        return end(error != OK ? error : INVALID_VALUE);
    *out = (address)(size_t)(r->seen + ((char *)memory - r->bytes));
    return end(OK);
}

EXPORT int
cuPointerGetAttributes(unsigned count, int *attributes, void **values, address memory)
{
    int error = begin("cuPointerGetAttributes");
    void *pointer = (void *)(size_t)memory;
    range *r = find(pointer, 1, 0);

    if (error != OK)
        return end(error);
    if (r == NULL)
        r = find(pointer, 1, 1);
    for (unsigned i = 0; i < count; i++) {
        switch (attributes[i]) {
        case 1: *(context **)values[i] = r != NULL ? &contexts[r->ordinal] : NULL; break;
        case 2: *(unsigned *)values[i] = r == NULL ? 0 : r->host ? 1 : 2; break;
        case 3:
            *(address *)values[i] =
                r == NULL ? 0 : r->host ? (address)(size_t)(r->seen + ((char *)pointer - r->bytes)) : memory;
            break;
        case 9: *(int *)values[i] = r != NULL ? r->ordinal : -2; break;
        default: return end(INVALID_VALUE);
        }
    }
    return end(OK);
}

/* Any memory, as a copy names it: device addresses, else the host's own. */
static void *
any_bytes(address memory, size_t size)
{
    void *pointer = (void *)(size_t)memory;
    void *inside = bytes_at(pointer, size);

    return inside != NULL ? inside : find(pointer, 1, 0) == NULL ? pointer : NULL;
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

static int
parse_kernel(const char *name, hp_job *job)
{
    char op[8] = "", type[24] = "";
    int size = 0;

    if (sscanf(name, "hp_copy_%d", &size) == 1) {
        job->elem = size == 1 ? HOOP_UINT8 : size == 2 ? HOOP_FLOAT16 : size == 4 ? HOOP_UINT32 : HOOP_UINT64;
        job->sources = job->exchange ? 2 : 1;
        job->divisor = 0;
        job->wire = job->elem;
    } else if (strcmp(name, "hp_wire") != 0 && sscanf(name, "hp_%7[a-z]_%23s", op, type) == 2) {
        job->elem = job->wire = (hoop_dtype)hp_dtype_parse(type);
        if (strcmp(op, "any") != 0)
            job->op = (hoop_op)hp_op_parse(op);
        for (int i = 0; i < 2; i++)
            job->src[i].wire = job->dst[i].wire = 0;
    }
    return (int)job->elem >= 0 && (int)job->op >= 0;
}

/* The operand's bytes, if all of it is memory that a kernel may touch. */
static void *
operand(const void *memory, const hp_job *job, int wire)
{
    return bytes_at(memory, job->count * hp_dtype_size(wire ? job->wire : job->elem));
}

static int
run_compiled(const operation *o, const hp_job *job)
{
    hp_kernel_args args = o->args;
    kernel_fn *kernel;
    launch_fn *launch;
    void *symbols[] = {dlsym(compiled, o->kernel), dlsym(compiled, "cudacpu_launch")};

    if (symbols[0] == NULL || symbols[1] == NULL)
        return NOT_FOUND;
    memcpy(&kernel, &symbols[0], sizeof kernel);
    memcpy(&launch, &symbols[1], sizeof launch);
    for (int i = 0; i < 2; i++) {
        args.src[i] = job->src[i].ptr;
        args.dst[i] = job->dst[i].ptr;
    }
    launch(kernel, &args, o->blocks, o->threads);
    return OK;
}

static int
run_job(const operation *o)
{
    const hp_kernel_args *args = &o->args;
    hp_job job = {.elem = (hoop_dtype)args->elem,
                  .wire = (hoop_dtype)args->wire,
                  .op = (hoop_op)args->op,
                  .sources = args->sources,
                  .destinations = args->destinations,
                  .exchange = args->exchange,
                  .divisor = args->divisor,
                  .count = args->count};

    for (int i = 0; i < 2; i++) {
        job.src[i].wire = args->src_wire[i];
        job.dst[i].wire = args->dst_wire[i];
    }
    if (!parse_kernel(o->kernel, &job))
        return NOT_FOUND;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 2; i++) {
        job.src[i].ptr = operand(args->src[i], &job, job.src[i].wire);
        job.dst[i].ptr = operand(args->dst[i], &job, job.dst[i].wire);
    }
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++) {
        if ((i < job.sources && job.src[i].ptr == NULL) || (i < job.destinations && job.dst[i].ptr == NULL))
            return ILLEGAL_ADDRESS;
    }
    if (compiled != NULL)
        return run_compiled(o, &job);
    hp_host_run(&job);
    return OK;
}

static void *
word_at(address memory, size_t size)
{
    pthread_mutex_lock(&lock);
    void *bytes = bytes_at((void *)(size_t)memory, size);
    pthread_mutex_unlock(&lock);
    return bytes;
}

static int
is_dead(void)
{
    pthread_mutex_lock(&lock);
    int result = dead;
    pthread_mutex_unlock(&lock);
    return result;
}

static int
write_word(address memory, unsigned long long value)
{
    unsigned long long *word = word_at(memory, sizeof *word);

    if (word == NULL)
        return ILLEGAL_ADDRESS;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return OK;
}

static int
hold_until(address memory, unsigned value)
{
    unsigned *word = word_at(memory, sizeof *word);

    while (word != NULL && (int)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0 && !is_dead())
        usleep(20);
    return word != NULL ? OK : ILLEGAL_ADDRESS;
}

static int
run_kernel(const operation *o)
{
    pthread_mutex_lock(&lock);
    int broken = break_next;
    break_next = 0;
    pthread_mutex_unlock(&lock);
    if (broken)
        return ILLEGAL_ADDRESS;
    if (strcmp(o->kernel, "hp_stamp") == 0)
        return write_word((address)(size_t)o->args.dst[0], o->args.value);
    if (strcmp(o->kernel, "hp_gate") == 0)
        return hold_until((address)(size_t)o->args.src[0], (unsigned)o->args.value);
    return run_job(o);
}

static int
copy_bytes(address to, address from, size_t size)
{
    pthread_mutex_lock(&lock);
    void *target = any_bytes(to, size), *source = any_bytes(from, size);
    pthread_mutex_unlock(&lock);
    if (target == NULL || source == NULL)
        return ILLEGAL_ADDRESS;
    memmove(target, source, size);
    return OK;
}

static int
pass_event(const operation *o)
{
    pthread_mutex_lock(&lock);
    if (o->kind == RECORD) {
        o->event->reached = o->number;
        pthread_cond_broadcast(&changed);
    }
    while (o->kind == AWAIT && o->event->reached < o->number && !dead)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return OK;
}

static int
perform(const operation *o)
{
    switch (o->kind) {
    case KERNEL: return run_kernel(o);
    case HOST: o->fn(o->arg); return OK;
    case WRITE: return write_word(o->to, o->value);
    case HOLD: return hold_until(o->to, (unsigned)o->value);
    case COPY: return copy_bytes(o->to, o->from, o->value);
    default: return pass_event(o);
    }
}

static operation *
next_operation(stream *s)
{
    pthread_mutex_lock(&lock);
    while (s->first == NULL && !s->closing)
        pthread_cond_wait(&changed, &lock);
    operation *o = s->first;
    if (o != NULL && (s->first = o->next) == NULL)
        s->last = &s->first;
    pthread_mutex_unlock(&lock);
    return o;
}

/* Under the lock. */
static void
let_go(event *e)
{
    if (e != NULL && --e->holders == 0)
        free(e);
}

/* A dead context performs nothing, not even host functions. */
static void *
stream_main(void *arg)
{
    stream *s = arg;
    unsigned seed = (unsigned)(size_t)s;

    for (operation *o = next_operation(s); o != NULL; o = next_operation(s)) {
        unsigned most = __atomic_load_n(&delay_us, __ATOMIC_RELAXED);
        if (most > 0)
            usleep((unsigned)rand_r(&seed) % (most + 1));
        int error = is_dead() ? OK : perform(o);
        pthread_mutex_lock(&lock);
        if (error != OK)
            dead = 1;
        s->done++;
        let_go(o->event);
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        free(o);
    }
    return NULL;
}

static stream *
new_stream(context *owner)
{
    stream *s = calloc(1, sizeof *s);

    if (s == NULL)
        return NULL;
    s->context = owner;
    s->last = &s->first;
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

/* Under the lock, which it gives away while it waits. */
static void
drop_stream(stream *s)
{
    s->closing = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&lock);
    free(s);
}

/* Streams 0 and 1 are the context's own. */
static stream *
resolve(stream *s)
{
    if ((size_t)s > 1)
        return s;
    if (current->legacy == NULL)
        current->legacy = new_stream(current);
    return current->legacy;
}

static int
append(const char *name, stream *s, const operation *what)
{
    int error = begin_current(name);

    if (error != OK)
        return end(error);
    s = resolve(s);
    if (s == NULL || s->context != current)
        return end(INVALID_HANDLE);
    operation *o = malloc(sizeof *o);
    if (o == NULL)
        return end(OUT_OF_MEMORY);
    *o = *what;
    o->next = NULL;
    if (o->event != NULL)
        o->event->holders++;
    if (o->kind == RECORD)
        o->number = ++o->event->recorded;
    else if (o->kind == AWAIT)
        o->number = o->event->recorded;
    *s->last = o;
    s->last = &o->next;
    s->submitted++;
    pthread_cond_broadcast(&changed);
    return end(OK);
}

EXPORT int
cuStreamCreateWithPriority(stream **out, unsigned flags, int priority)
{
    int error = begin_current("cuStreamCreateWithPriority");

    if (error != OK || flags != 1 || priority > 0 || priority < -5)
        return end(error != OK ? error : INVALID_VALUE);
    *out = new_stream(current);
    if (*out == NULL)
        return end(OUT_OF_MEMORY);
    live++;
    return end(OK);
}

EXPORT int
cuStreamDestroy_v2(stream *s)
{
    int error = begin("cuStreamDestroy");

    drop_stream(s);
    live--;
    return end(error);
}

EXPORT int
cuStreamSynchronize(stream *s)
{
    int error = begin_current("cuStreamSynchronize");

    if (error != OK && current == NULL)
        return end(error);
    s = resolve(s);
    while (s->done < s->submitted)
        pthread_cond_wait(&changed, &lock);
    return end(error != OK ? error : dead ? ILLEGAL_ADDRESS : OK);
}

EXPORT int
cuStreamQuery(stream *s)
{
    int error = begin("cuStreamQuery");

    return end(error != OK ? error : s->done < s->submitted ? NOT_READY : OK);
}

EXPORT int
cuStreamIsCapturing(stream *s, int *status)
{
    int error = begin("cuStreamIsCapturing");

    (void)s;
    *status = capturing;
    return end(error);
}

EXPORT int
cuStreamWaitEvent(stream *s, event *e, unsigned flags)
{
    (void)flags;
    return append("cuStreamWaitEvent", s, &(operation){.kind = AWAIT, .event = e});
}

EXPORT int
cuEventRecord(event *e, stream *s)
{
    return append("cuEventRecord", s, &(operation){.kind = RECORD, .event = e});
}

EXPORT int
cuStreamWriteValue64_v2(stream *s, address word, unsigned long long value, unsigned flags)
{
    if (flags != 0 || (word & 7) != 0)
        return INVALID_VALUE;
    return append("cuStreamWriteValue64", s, &(operation){.kind = WRITE, .to = word, .value = value});
}

EXPORT int
cuStreamWaitValue32_v2(stream *s, address word, unsigned value, unsigned flags)
{
    if (flags != 0 || (word & 3) != 0)
        return INVALID_VALUE;
    return append("cuStreamWaitValue32", s, &(operation){.kind = HOLD, .to = word, .value = value});
}

EXPORT int
cuLaunchHostFunc(stream *s, host_fn *fn, void *arg)
{
    return append("cuLaunchHostFunc", s, &(operation){.kind = HOST, .fn = fn, .arg = arg});
}

EXPORT int
cuMemcpyAsync(address to, address from, size_t size, stream *s)
{
    return append("cuMemcpyAsync", s, &(operation){.kind = COPY, .to = to, .from = from, .value = size});
}

EXPORT int
cuMemcpy(address to, address from, size_t size)
{
    int error = begin_current("cuMemcpy");

    end(error);
    return error != OK ? error : copy_bytes(to, from, size);
}

EXPORT int
cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
               unsigned shared, stream *s, void **parameters, void **extra)
{
    operation o = {.kind = KERNEL, .blocks = gx, .threads = bx};

    if (gx == 0 || gy != 1 || gz != 1 || bx == 0 || bx > HP_KERNEL_THREADS || by != 1 || bz != 1 || shared != 0 ||
        extra != NULL)
        return INVALID_VALUE;
    memcpy(o.kernel, f->name, sizeof o.kernel);
    memcpy(&o.args, parameters[0], sizeof o.args);
    return append("cuLaunchKernel", s, &o);
}

/* --- events, modules, contexts ------------------------------------------------------------------------------------ */

EXPORT int
cuEventCreate(event **out, unsigned flags)
{
    int error = begin_current("cuEventCreate");

    if (error != OK || flags != 2)
        return end(error != OK ? error : INVALID_VALUE);
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return end(OUT_OF_MEMORY);
    (*out)->holders = 1;
    live++;
    return end(OK);
}

EXPORT int
cuEventDestroy_v2(event *e)
{
    int error = begin("cuEventDestroy");

    let_go(e);
    live--;
    return end(error);
}

EXPORT int
cuModuleLoadData(module **out, const void *image)
{
    int error = begin_current("cuModuleLoadData");

    if (error != OK || image == NULL)
        return end(error != OK ? error : INVALID_VALUE);
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return end(OUT_OF_MEMORY);
    live++;
    return end(OK);
}

EXPORT int
cuModuleUnload(module *m)
{
    int error = begin_current("cuModuleUnload");

    free(m);
    live--;
    return end(error);
}

EXPORT int
cuModuleGetFunction(function **out, module *m, const char *name)
{
    int error = begin_current("cuModuleGetFunction");
    hp_job job = {.elem = HOOP_INT8};

    (void)m;
    if (error != OK)
        return end(error);
    if (strlen(name) >= sizeof(*out)->name ||
        (strcmp(name, "hp_stamp") != 0 && strcmp(name, "hp_gate") != 0 && !parse_kernel(name, &job)))
        return end(NOT_FOUND);
    for (*out = functions; *out != NULL && strcmp((*out)->name, name) != 0; *out = (*out)->next)
        continue;
    if (*out != NULL)
        return end(OK);
    *out = calloc(1, sizeof **out); /* kept: one for each name there is */
    if (*out == NULL)
        return end(OUT_OF_MEMORY);
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    (*out)->next = functions;
    functions = *out;
    return end(OK);
}

EXPORT int
cuFuncGetAttribute(int *value, int attribute, function *f)
{
    int error = begin("cuFuncGetAttribute");

    (void)f;
    *value = 32;
    return end(error != OK ? error : attribute == 4 ? OK : INVALID_VALUE);
}

EXPORT int
cuInit(unsigned flags)
{
    int error = begin("cuInit");

    if (error == ILLEGAL_ADDRESS || flags != 0)
        return end(error == ILLEGAL_ADDRESS ? error : INVALID_VALUE);
    initialized = 1;
    for (int i = 0; i < 8; i++)
        contexts[i].ordinal = i;
    return end(OK);
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
    int error = begin("cuDeviceGetCount");

    *count = devices;
    return end(error);
}

EXPORT int
cuDeviceGet(int *device, int ordinal)
{
    int error = begin("cuDeviceGet");

    *device = ordinal;
    return end(error != OK ? error : ordinal >= 0 && ordinal < devices ? OK : INVALID_DEVICE);
}

EXPORT int
cuDeviceGetName(char *name, int length, int device)
{
    int error = begin("cuDeviceGetName");

    snprintf(name, (size_t)length, "stand-in GPU %d", device);
    return end(error);
}

EXPORT int
cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int error = begin("cuDeviceGetAttribute");

    (void)device;
    *value = attribute == 16 ? 4 : attribute == 122 ? memory_ops : 0;
    return end(error);
}

EXPORT int
cuDevicePrimaryCtxRetain(context **out, int device)
{
    int error = begin("cuDevicePrimaryCtxRetain");

    if (error != OK)
        return end(error);
    *out = &contexts[device];
    (*out)->retained++;
    live++;
    return end(OK);
}

EXPORT int
cuDevicePrimaryCtxRelease_v2(int device)
{
    int error = begin("cuDevicePrimaryCtxRelease");
    context *c = &contexts[device];

    live--;
    if (--c->retained == 0 && c->legacy != NULL) {
        drop_stream(c->legacy);
        c->legacy = NULL;
    }
    return end(error);
}

EXPORT int
cuCtxGetCurrent(context **out)
{
    int error = begin("cuCtxGetCurrent");

    *out = current;
    return end(error);
}

EXPORT int
cuCtxSetCurrent(context *c)
{
    int error = begin("cuCtxSetCurrent");

    if (error == OK && c != NULL && c->retained == 0)
        return end(INVALID_CONTEXT);
    if (error == OK || c == NULL)
        current = c;
    return end(error);
}

EXPORT int
cuCtxGetDevice(int *device)
{
    int error = begin_current("cuCtxGetDevice");

    if (error == OK)
        *device = current->ordinal;
    return end(error);
}

EXPORT int
cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    int error = begin_current("cuCtxGetStreamPriorityRange");

    *least = 0;
    *greatest = -5;
    return end(error);
}

EXPORT int
cuGetErrorName(int error, const char **name)
{
    *name = error == ILLEGAL_ADDRESS    ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : error == NOT_INITIALIZED  ? "CUDA_ERROR_NOT_INITIALIZED"
            : error == INVALID_CONTEXT  ? "CUDA_ERROR_INVALID_CONTEXT"
            : error == INVALID_HANDLE   ? "CUDA_ERROR_INVALID_HANDLE"
            : error == INVALID_VALUE    ? "CUDA_ERROR_INVALID_VALUE"
            : error == NOT_FOUND        ? "CUDA_ERROR_NOT_FOUND"
                                        : NULL;
    return *name != NULL ? OK : INVALID_VALUE;
}

EXPORT int
cuGetErrorString(int error, const char **text)
{
    *text = error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "a stand-in's error";
    return OK;
}

/* --- steering ----------------------------------------------------------------------------------------------------- */

static void
steer_fail(long call, int with_sticky)
{
    pthread_mutex_lock(&lock);
    fail_at = call > 0 ? calls + call : 0;
    sticky = with_sticky;
    if (call > 0)
        failed_name = NULL;
    pthread_mutex_unlock(&lock);
}

static long
steer_calls(void)
{
    pthread_mutex_lock(&lock);
    long result = calls;
    pthread_mutex_unlock(&lock);
    return result;
}

static const char *
steer_failed(void)
{
    pthread_mutex_lock(&lock);
    const char *result = failed_name;
    pthread_mutex_unlock(&lock);
    return result;
}

static void
set(int *what, int value)
{
    pthread_mutex_lock(&lock);
    *what = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void
steer_break(void)
{
    set(&break_next, 1);
}

static void
steer_heal(void)
{
    set(&dead, 0);
}

static long
steer_live(void)
{
    pthread_mutex_lock(&lock);
    long result = live;
    pthread_mutex_unlock(&lock);
    return result;
}

static void
steer_delay(unsigned microseconds)
{
    __atomic_store_n(&delay_us, microseconds, __ATOMIC_RELAXED);
}

static void
steer_capture(int on)
{
    set(&capturing, on);
}

static void
steer_memory_ops(int on)
{
    set(&memory_ops, on);
}

EXPORT const hoop_fake_cuda hoop_fake_cuda_table = {
    .fail = steer_fail,
    .calls = steer_calls,
    .failed = steer_failed,
    .break_kernel = steer_break,
    .heal = steer_heal,
    .live = steer_live,
    .delay = steer_delay,
    .capture = steer_capture,
    .memory_ops = steer_memory_ops,
};
