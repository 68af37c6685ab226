/* SPDX-License-Identifier: MIT */
/*
 * cuda_driver: loads libcuda.so.1 and fills the table. It knows the exact (versioned) symbol of every function, and
 * writes the messages for the driver's errors. The handle is kept until the process ends: the driver cannot be
 * unloaded.
 */
#include "gpu/cuda_driver.h"

#include "base/err.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define DRIVER "libcuda.so.1"

typedef struct symbol_row {
    const char *name;
    size_t offset; /* of the function pointer in hp_cuda_driver */
} symbol_row;

static const symbol_row symbols[] = {
    {"cuInit", offsetof(hp_cuda_driver, init)},
    {"cuDriverGetVersion", offsetof(hp_cuda_driver, driver_version)},
    {"cuGetErrorName", offsetof(hp_cuda_driver, error_name)},
    {"cuGetErrorString", offsetof(hp_cuda_driver, error_string)},
    {"cuDeviceGetCount", offsetof(hp_cuda_driver, device_count)},
    {"cuDeviceGet", offsetof(hp_cuda_driver, device_get)},
    {"cuDeviceGetName", offsetof(hp_cuda_driver, device_name)},
    {"cuDeviceGetAttribute", offsetof(hp_cuda_driver, device_attribute)},
    {"cuDevicePrimaryCtxRetain", offsetof(hp_cuda_driver, primary_retain)},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(hp_cuda_driver, primary_release)},
    {"cuCtxGetCurrent", offsetof(hp_cuda_driver, context_get)},
    {"cuCtxSetCurrent", offsetof(hp_cuda_driver, context_set)},
    {"cuCtxGetDevice", offsetof(hp_cuda_driver, context_device)},
    {"cuCtxGetStreamPriorityRange", offsetof(hp_cuda_driver, priority_range)},
    {"cuModuleLoadData", offsetof(hp_cuda_driver, module_load)},
    {"cuModuleUnload", offsetof(hp_cuda_driver, module_unload)},
    {"cuModuleGetFunction", offsetof(hp_cuda_driver, module_function)},
    {"cuPointerGetAttributes", offsetof(hp_cuda_driver, pointer_attributes)},
    {"cuMemHostRegister_v2", offsetof(hp_cuda_driver, host_register)},
    {"cuMemHostUnregister", offsetof(hp_cuda_driver, host_unregister)},
    {"cuMemHostGetDevicePointer_v2", offsetof(hp_cuda_driver, host_pointer)},
    {"cuMemAlloc_v2", offsetof(hp_cuda_driver, memory_alloc)},
    {"cuMemFree_v2", offsetof(hp_cuda_driver, memory_free)},
    {"cuMemcpy", offsetof(hp_cuda_driver, copy)},
    {"cuMemcpyAsync", offsetof(hp_cuda_driver, copy_async)},
    {"cuStreamCreateWithPriority", offsetof(hp_cuda_driver, stream_create)},
    {"cuStreamDestroy_v2", offsetof(hp_cuda_driver, stream_destroy)},
    {"cuStreamSynchronize", offsetof(hp_cuda_driver, stream_synchronize)},
    {"cuStreamQuery", offsetof(hp_cuda_driver, stream_query)},
    {"cuStreamIsCapturing", offsetof(hp_cuda_driver, stream_capturing)},
    {"cuThreadExchangeStreamCaptureMode", offsetof(hp_cuda_driver, capture_mode)},
    {"cuStreamWaitEvent", offsetof(hp_cuda_driver, stream_wait_event)},
    {"cuStreamWriteValue64_v2", offsetof(hp_cuda_driver, stream_write_64)},
    {"cuStreamWaitValue32_v2", offsetof(hp_cuda_driver, stream_wait_32)},
    {"cuEventCreate", offsetof(hp_cuda_driver, event_create)},
    {"cuEventDestroy_v2", offsetof(hp_cuda_driver, event_destroy)},
    {"cuEventRecord", offsetof(hp_cuda_driver, event_record)},
    {"cuLaunchHostFunc", offsetof(hp_cuda_driver, launch_host)},
    {"cuLaunchKernel", offsetof(hp_cuda_driver, launch_kernel)},
};

enum { SYMBOLS = sizeof(symbols) / sizeof(*symbols) };
_Static_assert(sizeof(hp_cuda_driver) == SYMBOLS * sizeof(void *), "every function of the table has its symbol");

static hp_cuda_driver table;
static int filled;                              /* every symbol is in the table; under `loading` */
static _Atomic(hp_cu_ask_fn *) asker;           /* cuPointerGetAttributes, also of a driver that lacks another symbol */
static _Atomic unsigned long long objects_seen; /* dlpi_adds when the driver was last searched for */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Under `loading`. */
static hoop_result
fill(void *handle, hoop_error *error)
{
    for (size_t i = 0; i < SYMBOLS; i++) {
        void *function = dlsym(handle, symbols[i].name);
        if (!function)
            return hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                              DRIVER " has no function %s: the NVIDIA driver is too old (hoop needs one for CUDA 11.7 "
                                     "or later, and of the nvcc's generation that built it); update the driver, or "
                                     "keep the arrays in host memory",
                              symbols[i].name);
        memcpy((char *)&table + symbols[i].offset, &function, sizeof(function));
    }
    filled = 1;
    return HOOP_SUCCESS;
}

static hoop_result
find(int flags, hoop_error *error)
{
    hoop_result result = HOOP_SUCCESS;
    pthread_mutex_lock(&loading);
    if (!filled) {
        void *handle = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL | flags);
        const char *why = !handle && flags == 0 ? dlerror() : NULL;
        if (handle) {
            hp_cu_ask_fn *ask = NULL;
            void *function = dlsym(handle, "cuPointerGetAttributes");
            memcpy(&ask, &function, sizeof(ask));
            atomic_store_explicit(&asker, ask, memory_order_release);
            result = fill(handle, error);
        } else {
            result = hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                                "there is no CUDA driver on this machine, so arrays must be in host memory (%s)",
                                why ? why : DRIVER " is not loaded");
        }
    }
    pthread_mutex_unlock(&loading);
    return result;
}

hoop_result
hp_cuda_no_device(hoop_error *error)
{
    return hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                      "the CUDA driver shows no GPU, so arrays must be in host memory; is CUDA_VISIBLE_DEVICES empty?");
}

hoop_result
hp_cuda_load(const hp_cuda_driver **driver, hoop_error *error)
{
    hoop_result result = find(0, error);
    if (result == HOOP_SUCCESS) {
        hp_cu_result started = table.init(0);
        result = started == HP_CU_NO_DEVICE
                     ? hp_cuda_no_device(error)
                     : hp_cuda_check(error, started, "cuInit", "starting CUDA (does nvidia-smi work here?)");
    }
    *driver = result == HOOP_SUCCESS ? &table : NULL;
    return result;
}

static int
count_objects(struct dl_phdr_info *info, size_t size, void *seen)
{
    (void)size;
    *(unsigned long long *)seen = info->dlpi_adds;
    return 1; /* every row has the same counter */
}

static int
is_driver(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    return strstr(info->dlpi_name, "libcuda.so") != NULL;
}

hp_cu_ask_fn *
hp_cuda_present(void)
{
    hp_cu_ask_fn *ask = atomic_load_explicit(&asker, memory_order_acquire);
    if (ask)
        return ask;
    unsigned long long seen = 0;
    dl_iterate_phdr(count_objects, &seen);
    if (seen == atomic_load_explicit(&objects_seen, memory_order_relaxed))
        return NULL;
    if (dl_iterate_phdr(is_driver, NULL)) /* the loader looks in every folder for a library that is not loaded */
        find(RTLD_NOLOAD, NULL);
    atomic_store_explicit(&objects_seen, seen, memory_order_relaxed);
    return atomic_load_explicit(&asker, memory_order_acquire);
}

hoop_result
hp_cuda_check(hoop_error *error, hp_cu_result result, const char *call, const char *doing)
{
    const char *name = NULL, *text = NULL;
    if (result == HP_CU_SUCCESS)
        return HOOP_SUCCESS;
    if (table.error_name(result, &name) != HP_CU_SUCCESS || !name)
        name = "an error the driver has no name for";
    if (table.error_string(result, &text) != HP_CU_SUCCESS || !text)
        text = "no text";
    return hp_err_set(error, HOOP_ERR_CUDA, "%s failed while %s: %s (%d, %s)", call, doing, name, result, text);
}
