/* SPDX-License-Identifier: MIT */
/*
 * cuda: a GPU as a device of the table. Opens the primary context of the device that owns the caller's memory, loads
 * the kernels, makes our pages visible to the GPU. Does not submit (cuda_queue.c) nor touch users' streams
 * (cuda_gate.c). A context is switched only where the thread has another one, which is put back.
 */
#include "gpu/cuda_image.h"
#include "gpu/cuda_room.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A few multiprocessors suffice: a job is bound by the bus between host and GPU, and the rest belongs to the user. */
enum { DEFAULT_BLOCKS = 8 };

static pthread_mutex_t options_lock = PTHREAD_MUTEX_INITIALIZER;
static hp_cuda_options options = {.device = -1, .blocks = 0};

void
hp_cuda_configure(const hp_cuda_options *wanted)
{
    pthread_mutex_lock(&options_lock);
    options = *wanted;
    pthread_mutex_unlock(&options_lock);
}

static hp_cuda_options
current_options(void)
{
    pthread_mutex_lock(&options_lock);
    hp_cuda_options copy = options;
    pthread_mutex_unlock(&options_lock);
    return copy;
}

static hp_cuda_device *
as_cuda(hp_device *device)
{
    return (hp_cuda_device *)device;
}

/* Our context on a thread that had none before: hp_cuda_leave left it there. */
static _Thread_local hp_cu_context left_behind;

/*
 * While some thread of the process captures a CUDA graph, most of our calls would be refused and spoil that graph, unless
 * this thread says that they have nothing to do with it.
 */
static _Thread_local int relaxed;             /* how often, one inside the other */
static _Thread_local int capture_mode_before; /* of the outermost */

static hoop_result
relax(const hp_cuda_driver *driver, hoop_error *error)
{
    int mode = HP_CU_CAPTURE_RELAXED;

    if (relaxed++ > 0)
        return HOOP_SUCCESS;
    hoop_result result = hp_cuda_check(error, driver->capture_mode(&mode), "cuThreadExchangeStreamCaptureMode",
                                       "stepping out of the way of CUDA graphs");
    capture_mode_before = result == HOOP_SUCCESS ? mode : HP_CU_CAPTURE_RELAXED;
    return result;
}

static void
unrelax(const hp_cuda_driver *driver)
{
    int mode = capture_mode_before;

    if (--relaxed == 0 && mode != HP_CU_CAPTURE_RELAXED)
        (void)driver->capture_mode(&mode);
}

hoop_result
hp_cuda_enter(hp_cuda_device *device, hp_cu_context *before, hoop_error *error)
{
    const char *doing = "entering a GPU's context";
    hoop_result mode = relax(device->driver, error);
    if (mode != HOOP_SUCCESS)
        error = NULL; /* it has its sentence; the context is entered all the same, to let go of things */
    hoop_result result = hp_cuda_check(error, device->driver->context_get(before), "cuCtxGetCurrent", doing);

    if (result != HOOP_SUCCESS)
        *before = device->context; /* nothing to put back */
    else if (*before != device->context)
        result = hp_cuda_check(error, device->driver->context_set(device->context), "cuCtxSetCurrent", doing);
    return mode != HOOP_SUCCESS ? mode : result;
}

void
hp_cuda_leave(hp_cuda_device *device, hp_cu_context before)
{
    /* A thread without a context (our progress thread) keeps ours: the next job finds it there. */
    if (before == NULL)
        left_behind = device->context;
    else if (before != device->context)
        (void)device->driver->context_set(before);
    unrelax(device->driver);
}

static int
owns(const void *ptr)
{
    hp_cu_ask_fn *ask = hp_cuda_present();
    int attribute = HP_CU_POINTER_MEMORY_TYPE;
    unsigned type = 0;
    void *values[] = {&type};

    if (ask == NULL || ptr == NULL)
        return 0;
    switch (ask(1, &attribute, values, (hp_cu_pointer)(uintptr_t)ptr)) {
    case HP_CU_SUCCESS: return type == HP_CU_MEMORY_DEVICE;
    case HP_CU_NOT_INITIALIZED:
    case HP_CU_DEINITIALIZED:
    case HP_CU_NO_DEVICE:
    case HP_CU_INVALID_CONTEXT: return 0; /* before anybody's cuInit nothing is device memory */
    default: return 1;                    /* a dead context: opening says so, while the CPU would crash on it */
    }
}

/* --- which device ------------------------------------------------------------------------------------------------- */

static int
local_rank(void)
{
    const char *text = getenv("LOCAL_RANK");
    char *end = NULL;
    long rank = text != NULL ? strtol(text, &end, 10) : 0;

    return text == NULL || end == text || *end != '\0' || rank < 0 || rank > INT_MAX ? 0 : (int)rank;
}

static hoop_result
count_devices(const hp_cuda_driver *driver, int *count, hoop_error *error)
{
    hoop_result result = hp_cuda_check(error, driver->device_count(count), "cuDeviceGetCount", "looking for GPUs");

    if (result == HOOP_SUCCESS && *count == 0)
        return hp_err_set(error, HOOP_ERR_CUDA, "the CUDA driver shows no GPU; is CUDA_VISIBLE_DEVICES empty?");
    return result;
}

/* The device a setting names, or this rank's share of those there are. */
static hoop_result
configured_device(const hp_cuda_driver *driver, int *ordinal, hoop_error *error)
{
    int count = 0;
    int wanted = current_options().device;
    hoop_result result = count_devices(driver, &count, error);

    if (result != HOOP_SUCCESS)
        return result;
    if (wanted >= count)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "HOOP_CUDA_DEVICE is %d, but this process sees only %d GPU%s, counted from 0", wanted, count,
                          count == 1 ? "" : "s");
    *ordinal = wanted >= 0 ? wanted : local_rank() % count;
    return HOOP_SUCCESS;
}

/* The pointer's device, else that of the thread's current context, else the configured one. */
static hoop_result
choose_device(const hp_cuda_driver *driver, const void *ptr, int *ordinal, hoop_error *error)
{
    int attribute = HP_CU_POINTER_DEVICE_ORDINAL;
    void *values[] = {ordinal};
    hp_cu_context context = NULL;

    *ordinal = -1;
    if (ptr != NULL)
        return hp_cuda_check(error, driver->pointer_attributes(1, &attribute, values, (hp_cu_pointer)(uintptr_t)ptr),
                             "cuPointerGetAttributes", "looking for the GPU that owns an array");
    hoop_result result =
        hp_cuda_check(error, driver->context_get(&context), "cuCtxGetCurrent", "looking for the current GPU");
    if (result != HOOP_SUCCESS || context == NULL)
        return result != HOOP_SUCCESS ? result : configured_device(driver, ordinal, error);
    return hp_cuda_check(error, driver->context_device(ordinal), "cuCtxGetDevice", "looking for the current GPU");
}

static int
serves(hp_device *base, const void *ptr)
{
    hp_cuda_device *device = as_cuda(base);
    int ordinal = -1;

    return choose_device(device->driver, ptr, &ordinal, NULL) == HOOP_SUCCESS && ordinal == device->ordinal;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static const char *
kernel_name(int kernel, char *out, size_t size)
{
    static const char *const reductions[] = {"sum", "prod", "max", "min"};
    int at = kernel - HP_CUDA_REDUCE;

    if (kernel < HP_CUDA_WIRE)
        snprintf(out, size, "hp_copy_%d", 1 << (kernel - HP_CUDA_COPY));
    else if (kernel == HP_CUDA_WIRE)
        snprintf(out, size, "hp_wire");
    else if (kernel == HP_CUDA_STAMP)
        snprintf(out, size, "hp_stamp");
    else if (kernel == HP_CUDA_GATE)
        snprintf(out, size, "hp_gate");
    else if (at / 4 == HOOP_FLOAT8E4M3 || at / 4 == HOOP_FLOAT8E5M2)
        snprintf(out, size, "hp_any_%s", hp_dtype_name((hoop_dtype)(at / 4)));
    else
        snprintf(out, size, "hp_%s_%s", reductions[at % 4], hp_dtype_name((hoop_dtype)(at / 4)));
    return out;
}

/*
 * Finds every kernel, and asks something of each: the driver may load a kernel when it is first used, and must not be
 * made to wait for a stream then that waits for us.
 */
static hoop_result
find_kernels(hp_cuda_device *device, hoop_error *error)
{
    for (int i = 0; i < HP_CUDA_KERNELS; i++) {
        char name[48], doing[80];
        int registers = 0;
        kernel_name(i, name, sizeof name);
        snprintf(doing, sizeof doing, "looking for the kernel %s", name);
        hoop_result result =
            hp_cuda_check(error, device->driver->module_function(&device->kernels[i], device->module, name),
                          "cuModuleGetFunction", doing);
        if (result == HOOP_SUCCESS)
            result = hp_cuda_check(
                error, device->driver->function_attribute(&registers, HP_CU_FUNCTION_REGISTERS, device->kernels[i]),
                "cuFuncGetAttribute", doing);
        if (result != HOOP_SUCCESS)
            return result;
    }
    return HOOP_SUCCESS;
}

static hoop_result
load_kernels(hp_cuda_device *device, hoop_error *error)
{
    hoop_result result =
        hp_cuda_check(error, device->driver->module_load(&device->module, hp_fatbin), "cuModuleLoadData",
                      "loading hoop's kernels (a driver older than the nvcc that built them?)");

    if (result != HOOP_SUCCESS) {
        device->module = NULL;
        return result;
    }
    return find_kernels(device, error);
}

static hoop_result
ask_device(hp_cuda_device *device, hoop_error *error)
{
    const hp_cuda_driver *driver = device->driver;
    int least = 0, processors = 1;
    hoop_result result = hp_cuda_check(error, driver->device_name(device->name, sizeof device->name, device->handle),
                                       "cuDeviceGetName", "asking a GPU's name");

    if (result == HOOP_SUCCESS)
        result =
            hp_cuda_check(error, driver->device_attribute(&device->memory_ops, HP_CU_MEMORY_OPS_64, device->handle),
                          "cuDeviceGetAttribute", "asking a GPU for stream memory operations");
    if (result == HOOP_SUCCESS)
        result = hp_cuda_check(error, driver->device_attribute(&processors, HP_CU_MULTIPROCESSORS, device->handle),
                               "cuDeviceGetAttribute", "counting a GPU's multiprocessors");
    if (result == HOOP_SUCCESS)
        result = hp_cuda_check(error, driver->priority_range(&least, &device->priority), "cuCtxGetStreamPriorityRange",
                               "asking for a GPU's stream priorities");
    int wanted = current_options().blocks;
    device->blocks = wanted > 0 ? wanted : DEFAULT_BLOCKS < processors ? DEFAULT_BLOCKS : processors;
    return result;
}

/* Memory of a context other than the primary one lies in an address space that our kernels cannot see. */
static hoop_result
refuse_context(hp_cuda_device *device, hp_cu_context context, const void *ptr, hoop_error *error)
{
    if (context == NULL || context == device->context) /* NULL: memory of no one context */
        return HOOP_SUCCESS;
    return hp_err_set(
        error, HOOP_ERR_UNSUPPORTED,
        "the array %p was allocated in a CUDA context of its own; hoop works in the GPU's primary context, "
        "the one of the CUDA runtime (cudaMalloc) and of cuDevicePrimaryCtxRetain",
        ptr);
}

static hoop_result
check_context(hp_cuda_device *device, const void *ptr, hoop_error *error)
{
    hp_cu_context context = NULL;
    int attribute = HP_CU_POINTER_CONTEXT;
    void *values[] = {&context};
    hp_cu_pointer pointer = (hp_cu_pointer)(uintptr_t)ptr;

    if (ptr == NULL || device->driver->pointer_attributes(1, &attribute, values, pointer) != HP_CU_SUCCESS)
        return HOOP_SUCCESS;
    return refuse_context(device, context, ptr, error);
}

static hoop_result
prepare(hp_cuda_device *device, const void *ptr, hoop_error *error)
{
    hp_cu_context before;
    hoop_result result = hp_cuda_enter(device, &before, error);

    if (result == HOOP_SUCCESS)
        result = check_context(device, ptr, error);
    if (result == HOOP_SUCCESS)
        result = ask_device(device, error);
    if (result == HOOP_SUCCESS)
        result = load_kernels(device, error);
    if (result == HOOP_SUCCESS) /* pinned now: when the first is needed a stream may stand already */
        result = hp_cuda_gates_new(device, error);
    hp_cuda_leave(device, before);
    return result;
}

static void
close_device(hp_device *base)
{
    hp_cuda_device *device = as_cuda(base);
    hp_cu_context before;

    if (device == NULL)
        return;
    if (device->context != NULL) {
        (void)hp_cuda_enter(device, &before, NULL);
        hp_cuda_streams_free(device);
        while (device->pages != NULL)
            hp_cuda_unenroll(base, device->pages->host);
        if (device->module != NULL)
            (void)device->driver->module_unload(device->module);
        /* The thread must not be left with a context that is no more, unless it had chosen that itself. */
        if (before == NULL || before == left_behind)
            (void)device->driver->context_set(left_behind = NULL);
        else if (before != device->context)
            (void)device->driver->context_set(before);
        (void)device->driver->primary_release(device->handle);
        unrelax(device->driver);
    }
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static hoop_result
retain(hp_cuda_device *device, const void *ptr, hoop_error *error)
{
    const hp_cuda_driver *driver = device->driver;
    hoop_result result = relax(driver, error);

    if (result == HOOP_SUCCESS)
        result = choose_device(driver, ptr, &device->ordinal, error);
    if (result == HOOP_SUCCESS)
        result =
            hp_cuda_check(error, driver->device_get(&device->handle, device->ordinal), "cuDeviceGet", "opening a GPU");
    if (result == HOOP_SUCCESS)
        result = hp_cuda_check(error, driver->primary_retain(&device->context, device->handle),
                               "cuDevicePrimaryCtxRetain", "opening a GPU's primary context");
    if (result != HOOP_SUCCESS)
        device->context = NULL;
    if (result == HOOP_SUCCESS)
        result = prepare(device, ptr, error);
    unrelax(driver);
    return result;
}

static hoop_result
open_device(hp_device **out, const void *ptr, hoop_error *error)
{
    *out = NULL;
    if (hp_fatbin_size == 0)
        return hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                          "this libhoop was built without nvcc, so it has no GPU kernels: rebuild it where the CUDA "
                          "toolkit is installed (configure --with-cuda=DIR), or keep the arrays in host memory");
    const hp_cuda_driver *driver = NULL;
    hoop_result result = hp_cuda_load(&driver, error);
    if (result != HOOP_SUCCESS)
        return result;
    hp_cuda_device *device = hp_alloc(1, sizeof *device);
    if (device == NULL)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a GPU");
    device->base.ops = &hp_cuda_ops;
    device->driver = driver;
    pthread_mutex_init(&device->lock, NULL);
    result = retain(device, ptr, error);
    if (result != HOOP_SUCCESS) {
        close_device(&device->base);
        return result;
    }
    *out = &device->base;
    return HOOP_SUCCESS;
}

/* --- pages -------------------------------------------------------------------------------------------------------- */

static hoop_result
see_pages(hp_cuda_device *device, hp_cuda_pages *pages, hoop_error *error)
{
    const hp_cuda_driver *driver = device->driver;
    char doing[96];
    hp_cu_result registered =
        driver->host_register(pages->host, pages->bytes, HP_CU_REGISTER_PORTABLE | HP_CU_REGISTER_DEVICEMAP);

    snprintf(doing, sizeof doing, "pinning %zu bytes of slots (is the limit on locked memory too low?)", pages->bytes);
    pages->registered = registered == HP_CU_SUCCESS;
    if (registered != HP_CU_ALREADY_REGISTERED && !pages->registered)
        return hp_cuda_check(error, registered, "cuMemHostRegister", doing);
    return hp_cuda_check(error, driver->host_pointer(&pages->device, pages->host, 0), "cuMemHostGetDevicePointer",
                         "mapping slots into a GPU");
}

static void
forget_pages(hp_cuda_device *device, hp_cuda_pages *pages)
{
    if (pages->registered)
        (void)device->driver->host_unregister(pages->host);
    free(pages);
}

hoop_result
hp_cuda_enroll(hp_device *base, void *host, size_t bytes, hoop_error *error)
{
    hp_cuda_device *device = as_cuda(base);
    hp_cu_context before;
    hp_cuda_pages *pages = hp_alloc(1, sizeof *pages);

    if (pages == NULL)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while showing slots to a GPU");
    pages->host = host;
    pages->bytes = bytes;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = see_pages(device, pages, error);
    if (result == HOOP_SUCCESS) {
        pthread_mutex_lock(&device->lock);
        pages->next = device->pages;
        device->pages = pages;
        pthread_mutex_unlock(&device->lock);
    } else {
        forget_pages(device, pages);
    }
    hp_cuda_leave(device, before);
    return result;
}

void
hp_cuda_unenroll(hp_device *base, void *host)
{
    hp_cuda_device *device = as_cuda(base);
    hp_cu_context before;
    hp_cuda_pages **at, *pages;

    pthread_mutex_lock(&device->lock);
    for (at = &device->pages; *at != NULL && (*at)->host != host; at = &(*at)->next)
        continue;
    pages = *at;
    if (pages != NULL)
        *at = pages->next;
    pthread_mutex_unlock(&device->lock);
    if (pages == NULL)
        return;
    (void)hp_cuda_enter(device, &before, NULL);
    forget_pages(device, pages);
    hp_cuda_leave(device, before);
}

static int
find_page(hp_cuda_device *device, const char *memory, hp_cu_pointer *address)
{
    int found = 0;

    pthread_mutex_lock(&device->lock);
    for (hp_cuda_pages *pages = device->pages; pages != NULL && !found; pages = pages->next) {
        uintptr_t offset = (uintptr_t)memory - (uintptr_t)pages->host;
        found = offset < pages->bytes;
        if (found)
            *address = pages->device + offset;
    }
    pthread_mutex_unlock(&device->lock);
    return found;
}

hp_cuda_reach
hp_cuda_reach_of(hp_cuda_device *device, const void *memory, hp_cu_pointer *address, hoop_error *error)
{
    unsigned type = 0;
    int ordinal = -1;
    hp_cu_pointer seen = 0;
    hp_cu_context context = NULL;
    int attributes[] = {HP_CU_POINTER_MEMORY_TYPE, HP_CU_POINTER_DEVICE_ORDINAL, HP_CU_POINTER_DEVICE_POINTER,
                        HP_CU_POINTER_CONTEXT};
    void *values[] = {&type, &ordinal, &seen, &context};

    *address = (hp_cu_pointer)(uintptr_t)memory;
    if (find_page(device, memory, address))
        return HP_CUDA_DIRECT;
    if (hp_cuda_check(error, device->driver->pointer_attributes(4, attributes, values, *address),
                      "cuPointerGetAttributes", "asking whose an array is") != HOOP_SUCCESS)
        return HP_CUDA_REFUSED;
    if (type == HP_CU_MEMORY_DEVICE && ordinal != device->ordinal)
        return HP_CUDA_FOREIGN;
    if (type == HP_CU_MEMORY_DEVICE)
        return refuse_context(device, context, memory, error) == HOOP_SUCCESS ? HP_CUDA_DIRECT : HP_CUDA_REFUSED;
    if (type == 0 || seen == 0)
        return HP_CUDA_PLAIN;
    *address = seen; /* the caller's own pinned memory */
    return HP_CUDA_DIRECT;
}

hp_cu_pointer
hp_cuda_page(hp_cuda_device *device, const void *memory)
{
    hp_cu_pointer address = 0;

    (void)find_page(device, memory, &address);
    return address;
}

/* --- the row ------------------------------------------------------------------------------------------------------ */

static int
addressable(hp_device *device)
{
    (void)device;
    return 0;
}

const hp_device_ops hp_cuda_ops = {
    .name = "cuda",
    .owns = owns,
    .open = open_device,
    .serves = serves,
    .close = close_device,
    .addressable = addressable,
    .enroll = hp_cuda_enroll,
    .unenroll = hp_cuda_unenroll,
    .queue_open = hp_cuda_queue_open,
    .queue_close = hp_cuda_queue_close,
    .submit = hp_cuda_submit,
    .done = hp_cuda_done,
    .wake_fd = hp_cuda_wake_fd,
    .wake_arm = hp_cuda_wake_arm,
    .drain = hp_cuda_drain,
    .status = hp_cuda_status,
    .gate_close = hp_cuda_gate_close,
    .gate_open = hp_cuda_gate_open,
    .release = hp_cuda_release,
    .mark = hp_cuda_mark,
    .passed = hp_cuda_passed,
    .unmark = hp_cuda_unmark,
};

void
hp_cuda_limits_of(const hp_device *base, hp_cuda_limits *limits)
{
    const hp_cuda_device *device = (const hp_cuda_device *)base;

    limits->ordinal = device->ordinal;
    limits->blocks = device->blocks;
    limits->memory_ops = device->memory_ops;
    snprintf(limits->name, sizeof limits->name, "%s", device->name);
}

const char *
hp_cuda_describe(char *out, size_t size)
{
    hoop_error error = {.size = sizeof error};
    const hp_cuda_driver *driver = NULL;
    int count = 0, version = 0;

    if (hp_fatbin_size == 0) {
        snprintf(out, size, "CUDA: no, this libhoop was built without nvcc");
        return out;
    }
    if (hp_cuda_load(&driver, &error) != HOOP_SUCCESS || count_devices(driver, &count, &error) != HOOP_SUCCESS) {
        snprintf(out, size, "CUDA: built in, but not in use: %s", error.text);
        return out;
    }
    (void)driver->driver_version(&version);
    snprintf(out, size, "CUDA: %d GPU%s, driver for CUDA %d.%d", count, count == 1 ? "" : "s", version / 1000,
             version % 1000 / 10);
    return out;
}
