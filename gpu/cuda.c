/* SPDX-License-Identifier: MIT */
/*
 * cuda: opens the primary context of the GPU that owns the caller's memory, and makes it a device: memory is
 * cuda_memtype.c's affair, commands are cuda_queue.c's, callers' streams cuda_stream_sync.c's.
 */
#include "gpu/cuda.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/number.h"
#include "gpu/cuda_context.h"
#include "gpu/cuda_launch.h"
#include "gpu/cuda_memtype.h"
#include "gpu/cuda_queue.h"
#include "gpu/cuda_stream_sync.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* A few multiprocessors are enough: the bus between host and GPU limits a command. The others are the program's. */
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

/* --- whose memory --- */

static int
owns(const void *ptr)
{
    hp_cu_ask_fn *ask = hp_cuda_present();
    int attribute = HP_CU_POINTER_MEMORY_TYPE;
    unsigned type = 0;
    void *values[] = {&type};
    if (!ask || !ptr)
        return 0;
    switch (ask(1, &attribute, values, (hp_cu_pointer)(uintptr_t)ptr)) {
    case HP_CU_SUCCESS: return type == HP_CU_MEMORY_DEVICE;
    case HP_CU_NOT_INITIALIZED:
    case HP_CU_DEINITIALIZED:
    case HP_CU_NO_DEVICE:
    case HP_CU_INVALID_CONTEXT: return 0; /* before the first cuInit of the process no memory is the device's */
    default: return 1;                    /* a failed context: open reports it, while the CPU would crash */
    }
}

/* --- which device --- */

static hoop_result
count_devices(const hp_cuda_driver *driver, int *count, hoop_error *error)
{
    hoop_result result = hp_cuda_check(error, driver->device_count(count), "cuDeviceGetCount", "looking for GPUs");
    return result == HOOP_SUCCESS && *count == 0 ? hp_cuda_no_device(error) : result;
}

/* The device of the setting, or one by the rank on this host. */
static hoop_result
configured_device(const hp_cuda_driver *driver, int *ordinal, hoop_error *error)
{
    const char *local = getenv("LOCAL_RANK");
    int count = 0, local_rank = 0;
    int wanted = current_options().device;
    hoop_result result = count_devices(driver, &count, error);
    if (result != HOOP_SUCCESS)
        return result;
    if (wanted >= count)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "HOOP_CUDA_DEVICE is %d, but this process sees only %d GPU%s, counted from 0", wanted, count,
                          count == 1 ? "" : "s");
    if (local)
        hp_number_parse_int(local, 0, INT_MAX, &local_rank); /* another text counts as 0 */
    *ordinal = wanted >= 0 ? wanted : local_rank % count;
    return HOOP_SUCCESS;
}

/* The pointer's device; without a pointer, the current context's; without a context, the configured one. */
static hoop_result
choose_device(const hp_cuda_driver *driver, const void *ptr, int *ordinal, hoop_error *error)
{
    int attribute = HP_CU_POINTER_DEVICE_ORDINAL;
    void *values[] = {ordinal};
    hp_cu_context context = NULL;
    *ordinal = -1;
    if (ptr)
        return hp_cuda_check(error, driver->pointer_attributes(1, &attribute, values, (hp_cu_pointer)(uintptr_t)ptr),
                             "cuPointerGetAttributes", "looking for the GPU that owns an array");
    hoop_result result =
        hp_cuda_check(error, driver->context_get(&context), "cuCtxGetCurrent", "looking for the current GPU");
    if (result != HOOP_SUCCESS || !context)
        return result != HOOP_SUCCESS ? result : configured_device(driver, ordinal, error);
    return hp_cuda_check(error, driver->context_device(ordinal), "cuCtxGetDevice", "looking for the current GPU");
}

static int
serves(hp_device *base, const void *ptr)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    int ordinal = -1;
    return choose_device(device->driver, ptr, &ordinal, NULL) == HOOP_SUCCESS && ordinal == device->ordinal;
}

/* --- open, close --- */

static hoop_result
ask_device(hp_cuda_device *device, hoop_error *error)
{
    const hp_cuda_driver *driver = device->driver;
    int least = 0, processors = 1;
    hoop_result result = hp_cuda_check(error, driver->device_name(device->name, sizeof(device->name), device->handle),
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

static hoop_result
prepare(hp_cuda_device *device, const void *ptr, hoop_error *error)
{
    hp_cu_context before;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = hp_cuda_admit(&device->base, ptr, error);
    if (result == HOOP_SUCCESS)
        result = ask_device(device, error);
    if (result == HOOP_SUCCESS)
        result = hp_cuda_kernels_load(device, error);
    if (result == HOOP_SUCCESS)
        result = hp_cuda_sync_block_new(device, error);
    hp_cuda_leave(device, before);
    return result;
}

static void
close_device(hp_device *base)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    if (!device)
        return;
    if (device->context) {
        hp_cu_context before;
        (void)hp_cuda_enter(device, &before, NULL);
        hp_cuda_sync_blocks_free(device);
        hp_cuda_unpin_all(device);
        hp_cuda_kernels_unload(device);
        hp_cuda_leave_closed(device, before);
    }
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static hoop_result
retain(hp_cuda_device *device, const void *ptr, hoop_error *error)
{
    const hp_cuda_driver *driver = device->driver;
    hoop_result result = hp_cuda_relax(driver, error);
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
    hp_cuda_unrelax(driver);
    return result;
}

static hoop_result
load(const hp_cuda_driver **driver, hoop_error *error)
{
    if (hp_fatbin_size == 0)
        return hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                          "this libhoop was built without nvcc, so it has no GPU kernels: rebuild it where the CUDA "
                          "toolkit is installed (configure --with-cuda=DIR), or keep the arrays in host memory");
    return hp_cuda_load(driver, error);
}

hoop_result
hp_cuda_ordinal(int *ordinal, hoop_error *error)
{
    const hp_cuda_driver *driver = NULL;
    hoop_result result = load(&driver, error);
    if (result != HOOP_SUCCESS)
        return result;
    result = hp_cuda_relax(driver, error);
    if (result == HOOP_SUCCESS)
        result = choose_device(driver, NULL, ordinal, error);
    hp_cuda_unrelax(driver);
    return result;
}

static hoop_result
open_device(hp_device **out, const void *ptr, hoop_error *error)
{
    *out = NULL;
    const hp_cuda_driver *driver = NULL;
    hoop_result result = load(&driver, error);
    if (result != HOOP_SUCCESS)
        return result;
    hp_cuda_device *device = hp_alloc(1, sizeof(*device));
    if (!device)
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

/* --- the device's functions --- */

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
    .admit = hp_cuda_admit,
    .close = close_device,
    .addressable = addressable,
    .pin = hp_cuda_pin,
    .unpin = hp_cuda_unpin,
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

const char *
hp_cuda_describe(char *out, size_t size)
{
    hoop_error error = {.size = sizeof(error)};
    const hp_cuda_driver *driver = NULL;
    int count = 0, version = 0;
    if (hp_fatbin_size == 0) {
        snprintf(out, size, "CUDA: no GPU kernels inside, this libhoop was built without nvcc");
        return out;
    }
    if (hp_cuda_load(&driver, &error) != HOOP_SUCCESS || count_devices(driver, &count, &error) != HOOP_SUCCESS) {
        snprintf(out, size, "CUDA: GPU kernels inside, but not in use: %s", error.text);
        return out;
    }
    (void)driver->driver_version(&version);
    snprintf(out, size, "CUDA: GPU kernels inside, %d GPU%s, driver for CUDA %d.%d", count, count == 1 ? "" : "s",
             version / 1000, version % 1000 / 10);
    return out;
}
