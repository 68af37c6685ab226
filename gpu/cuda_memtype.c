/* SPDX-License-Identifier: MIT */
/*
 * cuda_memtype: what memory a GPU's kernels can reach: our pages, which are pinned and mapped for it, and of the
 * callers' arrays those of its primary context, which is ours too.
 */
#include "base/err.h"
#include "base/mem.h"
#include "gpu/cuda_internal.h"

#include <stdio.h>
#include <stdlib.h>

static hp_cuda_device *
as_cuda(hp_device *device)
{
    return (hp_cuda_device *)device;
}

/* --- our pages --- */

static hoop_result
see_pages(hp_cuda_device *device, hp_cuda_pages *pages, hoop_error *error)
{
    const hp_cuda_driver *driver = device->driver;
    char doing[96];
    hp_cu_result registered =
        driver->host_register(pages->host, pages->bytes, HP_CU_REGISTER_PORTABLE | HP_CU_REGISTER_DEVICEMAP);
    snprintf(doing, sizeof(doing), "pinning %zu bytes of slots (is the limit on locked memory too low?)", pages->bytes);
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
hp_cuda_pin(hp_device *base, void *host, size_t bytes, hoop_error *error)
{
    hp_cuda_device *device = as_cuda(base);
    hp_cu_context before;
    hp_cuda_pages *pages = hp_alloc(1, sizeof(*pages));
    if (!pages)
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
hp_cuda_unpin(hp_device *base, void *host)
{
    hp_cuda_device *device = as_cuda(base);
    hp_cu_context before;
    hp_cuda_pages **at, *pages;
    pthread_mutex_lock(&device->lock);
    for (at = &device->pages; *at && (*at)->host != host; at = &(*at)->next)
        continue;
    pages = *at;
    if (pages)
        *at = pages->next;
    pthread_mutex_unlock(&device->lock);
    if (!pages)
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
    for (hp_cuda_pages *pages = device->pages; pages && !found; pages = pages->next) {
        uintptr_t offset = (uintptr_t)memory - (uintptr_t)pages->host;
        found = offset < pages->bytes;
        if (found)
            *address = pages->device + offset;
    }
    pthread_mutex_unlock(&device->lock);
    return found;
}

hp_cu_pointer
hp_cuda_page(hp_cuda_device *device, const void *memory)
{
    hp_cu_pointer address = 0;
    (void)find_page(device, memory, &address);
    return address;
}

/* --- callers' arrays --- */

/* Memory of a context other than the primary one lies in an address space that our kernels cannot see. */
static hoop_result
refuse_context(hp_cuda_device *device, hp_cu_context context, const void *ptr, hoop_error *error)
{
    if (!context || context == device->context) /* NULL: memory of no one context */
        return HOOP_SUCCESS;
    return hp_err_set(
        error, HOOP_ERR_UNSUPPORTED,
        "the array %p was allocated in a CUDA context of its own; hoop works in the GPU's primary context, "
        "the one of the CUDA runtime (cudaMalloc) and of cuDevicePrimaryCtxRetain",
        ptr);
}

/* One question of the driver: every call asks it of its arrays. */
hoop_result
hp_cuda_admit(hp_device *base, const void *ptr, hoop_error *error)
{
    hp_cuda_device *device = as_cuda(base);
    hp_cu_context context = NULL;
    int ordinal = -1, attributes[] = {HP_CU_POINTER_CONTEXT, HP_CU_POINTER_DEVICE_ORDINAL};
    void *values[] = {&context, &ordinal};
    if (!ptr ||
        device->driver->pointer_attributes(2, attributes, values, (hp_cu_pointer)(uintptr_t)ptr) != HP_CU_SUCCESS)
        return HOOP_SUCCESS;
    return ordinal == device->ordinal ? refuse_context(device, context, ptr, error) : HOOP_SUCCESS;
}

hp_cuda_memtype
hp_cuda_memtype_of(hp_cuda_device *device, const void *memory, hp_cu_pointer *address, hoop_error *error)
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
        return HP_CUDA_MEM_DIRECT;
    if (hp_cuda_check(error, device->driver->pointer_attributes(4, attributes, values, *address),
                      "cuPointerGetAttributes", "asking whose an array is") != HOOP_SUCCESS)
        return HP_CUDA_MEM_REFUSED;
    if (type == HP_CU_MEMORY_DEVICE && ordinal != device->ordinal)
        return HP_CUDA_MEM_PEER;
    if (type == HP_CU_MEMORY_DEVICE)
        return refuse_context(device, context, memory, error) == HOOP_SUCCESS ? HP_CUDA_MEM_DIRECT
                                                                              : HP_CUDA_MEM_REFUSED;
    if (type == 0 || seen == 0)
        return HP_CUDA_MEM_PAGEABLE;
    *address = seen; /* the caller's own pinned memory */
    return HP_CUDA_MEM_DIRECT;
}
