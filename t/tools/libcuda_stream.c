/* SPDX-License-Identifier: MIT */
/* libcuda_stream: the stand-in driver's streams and events: how operations are appended, and what they do. */
#include "base/dtype.h"
#include "gpu/host.h"
#include "t/tools/libcuda_internal.h"
#include "t/tools/type_named.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void kernel_fn(hp_kernel_args args);
typedef void launch_fn(kernel_fn *kernel, const hp_kernel_args *args, unsigned blocks, unsigned threads);

static int
parse_op(const char *name)
{
    for (int i = 0; i < HP_OPS; i++)
        if (strcmp(name, hp_op_name(hp_op_at(i))) == 0)
            return (int)hp_op_at(i);
    return -1;
}

static hoop_dtype
unsigned_of(int size)
{
    return size == 1 ? HOOP_UINT8 : size == 2 ? HOOP_UINT16 : size == 4 ? HOOP_UINT32 : HOOP_UINT64;
}

static int
parse_kernel(const char *name, hp_command *command)
{
    char op[8] = "", type[24] = "";
    int size = 0;
    if (sscanf(name, "hp_copy_%d", &size) == 1) {
        command->elem = command->wire = unsigned_of(size);
        command->sources = command->exchange ? 2 : 1;
        command->divisor = 0;
    } else if (sscanf(name, "hp_bits_%d", &size) == 1) {
        command->elem = command->wire = unsigned_of(size);
    } else if (strcmp(name, "hp_wire") != 0 && sscanf(name, "hp_%7[a-z]_%23s", op, type) == 2) {
        command->elem = command->wire = (hoop_dtype)type_named(type);
        if (strcmp(op, "any") != 0)
            command->op = (hoop_op)parse_op(strcmp(op, "mean") == 0 ? "avg" : op);
        for (int i = 0; i < 2; i++)
            command->src[i].wire = command->dst[i].wire = 0;
    }
    return (int)command->elem >= 0 && (int)command->op >= 0;
}

int
fake_knows_kernel(const char *name)
{
    hp_command command = {.elem = HOOP_INT8};
    return strcmp(name, "hp_stamp") == 0 || strcmp(name, "hp_gate") == 0 || parse_kernel(name, &command);
}

/* The operand's bytes; NULL if a kernel may not access all of them. */
static void *
operand(const void *memory, const hp_command *command, int wire)
{
    return fake_bytes_at(memory, hp_dtype_bytes(wire ? command->wire : command->elem, command->count));
}

static int
run_compiled(const operation *o, const hp_command *command)
{
    hp_kernel_args args = o->args;
    kernel_fn *kernel;
    launch_fn *launch;
    void *symbols[] = {dlsym(fake.compiled, o->kernel), dlsym(fake.compiled, "cudacpu_launch")};
    if (!symbols[0] || !symbols[1])
        return NOT_FOUND;
    memcpy(&kernel, &symbols[0], sizeof(kernel));
    memcpy(&launch, &symbols[1], sizeof(launch));
    for (int i = 0; i < 2; i++) {
        args.src[i] = command->src[i].ptr;
        args.dst[i] = command->dst[i].ptr;
    }
    launch(kernel, &args, o->blocks, o->threads);
    return OK;
}

static int
run_command(const operation *o)
{
    const hp_kernel_args *args = &o->args;
    hp_command command = {.elem = (hoop_dtype)args->elem,
                          .wire = (hoop_dtype)args->wire,
                          .op = (hoop_op)args->op,
                          .sources = args->sources,
                          .destinations = args->destinations,
                          .exchange = args->exchange,
                          .remainder = args->remainder,
                          .divisor = args->divisor,
                          .ranks = {args->ranks[0], args->ranks[1]},
                          .count = args->count};
    for (int i = 0; i < 2; i++) {
        command.src[i].wire = args->src_wire[i];
        command.dst[i].wire = args->dst_wire[i];
    }
    if (!parse_kernel(o->kernel, &command))
        return NOT_FOUND;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < 2; i++) {
        command.src[i].ptr = operand(args->src[i], &command, command.src[i].wire);
        command.dst[i].ptr = operand(args->dst[i], &command, command.dst[i].wire);
    }
    pthread_mutex_unlock(&fake.lock);
    for (int i = 0; i < 2; i++) {
        if ((i < command.sources && !command.src[i].ptr) || (i < command.destinations && !command.dst[i].ptr))
            return ILLEGAL_ADDRESS;
    }
    if (fake.compiled)
        return run_compiled(o, &command);
    hp_host_run(&command);
    return OK;
}

static void *
word_at(address memory, size_t size)
{
    pthread_mutex_lock(&fake.lock);
    void *bytes = fake_bytes_at((void *)(size_t)memory, size);
    pthread_mutex_unlock(&fake.lock);
    return bytes;
}

int
fake_is_dead(void)
{
    pthread_mutex_lock(&fake.lock);
    int result = fake.dead;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static int
write_word(address memory, unsigned long long value)
{
    unsigned long long *word = word_at(memory, sizeof(*word));
    if (!word)
        return ILLEGAL_ADDRESS;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return OK;
}

static int
hold_until(address memory, unsigned value)
{
    unsigned *word = word_at(memory, sizeof(*word));
    while (word && (int)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0 && !fake_is_dead())
        usleep(20);
    return word ? OK : ILLEGAL_ADDRESS;
}

static int
run_kernel(const operation *o)
{
    pthread_mutex_lock(&fake.lock);
    int broken = fake.break_next;
    fake.break_next = 0;
    pthread_mutex_unlock(&fake.lock);
    if (broken)
        return ILLEGAL_ADDRESS;
    if (strcmp(o->kernel, "hp_stamp") == 0)
        return write_word((address)(size_t)o->args.dst[0], o->args.value);
    if (strcmp(o->kernel, "hp_gate") == 0)
        return hold_until((address)(size_t)o->args.src[0], (unsigned)o->args.value);
    return run_command(o);
}

static int
copy_bytes(address to, address from, size_t size)
{
    pthread_mutex_lock(&fake.lock);
    void *target = fake_any_bytes(to, size), *source = fake_any_bytes(from, size);
    pthread_mutex_unlock(&fake.lock);
    if (!target || !source)
        return ILLEGAL_ADDRESS;
    memmove(target, source, size);
    return OK;
}

/* Under the lock. */
void
fake_let_go(event *e)
{
    if (e && --e->holders == 0)
        free(e);
}

static int
pass_event(const operation *o)
{
    pthread_mutex_lock(&fake.lock);
    if (o->kind == RECORD) {
        o->event->reached = o->number;
        pthread_cond_broadcast(&fake.changed);
    }
    while (o->kind == AWAIT && o->event->reached < o->number && !fake.dead)
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
    return OK;
}

int
fake_perform(const operation *o)
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

/* Streams 0 and 1 are the context's legacy default stream. */
static stream *
resolve(stream *s)
{
    if ((size_t)s > 1)
        return s;
    if (!current->legacy)
        current->legacy = fake_new_stream(current, LEGACY);
    return current->legacy;
}

/* An operation on the default stream would wait for the captured stream. */
static int
fake_implicit(int error)
{
    if (fake.capturing != CAPTURE_ELSEWHERE)
        return error;
    fake.spoiled = 1;
    return CAPTURE_IMPLICIT;
}

static int
append(const char *name, stream *s, const operation *what)
{
    int error = fake_begin_current(name);
    if (error == OK && (size_t)s <= 1)
        error = fake_implicit(error);
    if (error != OK)
        return fake_end(error);
    s = resolve(s);
    if (!s || s->context != current)
        return fake_end(INVALID_HANDLE);
    fake_wait_for_room(s);
    operation *o = malloc(sizeof(*o));
    if (!o)
        return fake_end(OUT_OF_MEMORY);
    *o = *what;
    if (o->event)
        o->event->holders++;
    if (o->kind == RECORD)
        o->number = ++o->event->recorded;
    else if (o->kind == AWAIT)
        o->number = o->event->recorded;
    fake_put(s, o);
    return fake_end(OK);
}

EXPORT int
cuStreamCreateWithPriority(stream **out, unsigned flags, int priority)
{
    int error = fake_unsafe(fake_begin_current("cuStreamCreateWithPriority"));
    if (error != OK || flags > 1 || priority > 0 || priority < -5)
        return fake_end(error != OK ? error : INVALID_VALUE);
    fake_drain();
    *out = fake_new_stream(current, flags == 1 ? APART : BLOCKING);
    if (!*out)
        return fake_end(OUT_OF_MEMORY);
    fake.live++;
    return fake_end(OK);
}

EXPORT int
cuStreamDestroy_v2(stream *s)
{
    int error = fake_unsafe(fake_begin("cuStreamDestroy"));
    fake_drain();
    fake_drop_stream(s);
    fake.live--;
    return fake_end(error);
}

EXPORT int
cuStreamSynchronize(stream *s)
{
    int error = fake_unsafe(fake_begin_current("cuStreamSynchronize"));
    if (error != OK && !current)
        return fake_end(error);
    s = resolve(s);
    while (!fake_is_idle(s))
        pthread_cond_wait(&fake.changed, &fake.lock);
    return fake_end(error != OK ? error : fake.dead ? ILLEGAL_ADDRESS : OK);
}

EXPORT int
cuStreamQuery(stream *s)
{
    int error = fake_unsafe(fake_begin_current("cuStreamQuery"));
    if (error != OK && !current)
        return fake_end(error);
    s = resolve(s);
    return fake_end(error != OK ? error : fake_is_idle(s) ? OK : NOT_READY);
}

EXPORT int
cuStreamIsCapturing(stream *s, int *status)
{
    int error = fake_begin("cuStreamIsCapturing");
    *status = fake.capturing == CAPTURE_HERE;
    if (error == OK && fake.capturing == CAPTURE_ELSEWHERE && (size_t)s <= 1)
        error = CAPTURE_IMPLICIT; /* the query itself does not invalidate the capture */
    return fake_end(error);
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

/* Until the stream has run its present operations. */
static void
await_all(stream *s)
{
    pthread_mutex_lock(&fake.lock);
    s = resolve(s);
    for (unsigned long last = s->submitted; s->done < last && !fake.dead;)
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
}

/* Asynchronous by name only: the real call waits for a copy from host to host, and may wait for pageable memory. */
EXPORT int
cuMemcpyAsync(address to, address from, size_t size, stream *s)
{
    int error = append("cuMemcpyAsync", s, &(operation){.kind = COPY, .to = to, .from = from, .value = size});
    if (error == OK && fake_copy_is_synchronous(to, from))
        await_all(s);
    return error;
}

EXPORT int
cuMemcpy(address to, address from, size_t size)
{
    int error = fake_unsafe(fake_begin_current("cuMemcpy"));
    fake_end(error);
    return error != OK ? error : copy_bytes(to, from, size);
}

EXPORT int
cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
               unsigned shared, stream *s, void **parameters, void **extra)
{
    operation o = {.kind = KERNEL, .blocks = gx, .threads = bx};
    if (gx == 0 || gy != 1 || gz != 1 || bx == 0 || bx > HP_KERNEL_THREADS || by != 1 || bz != 1 || shared != 0 ||
        extra)
        return INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    fake_load(f);
    pthread_mutex_unlock(&fake.lock);
    memcpy(o.kernel, f->name, sizeof(o.kernel));
    memcpy(&o.args, parameters[0], sizeof(o.args));
    return append("cuLaunchKernel", s, &o);
}

EXPORT int
cuEventCreate(event **out, unsigned flags)
{
    int error = fake_begin_current("cuEventCreate");
    if (error != OK || flags != 2)
        return fake_end(error != OK ? error : INVALID_VALUE);
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return fake_end(OUT_OF_MEMORY);
    (*out)->holders = 1;
    fake.live++;
    return fake_end(OK);
}

EXPORT int
cuEventDestroy_v2(event *e)
{
    int error = fake_unsafe(fake_begin("cuEventDestroy"));
    fake_let_go(e);
    fake.live--;
    return fake_end(error);
}
