/* SPDX-License-Identifier: MIT */
/*
 * cuda_memtype: kernels can address hoop's own pages, which are pinned and mapped for the GPU; of the callers' arrays
 * those in the GPU's primary context, which hoop uses too; and the callers' pinned host memory.
 */
#include "gpu/cuda_memtype.h"

#include "base/err.h"
#include "base/mem.h"
#include "gpu/cuda_context.h"

#include <stdio.h>
#include <stdlib.h>

struct hp_cuda_pages {
    hp_cuda_pages *next;
    char *host;
    size_t bytes;
    hp_cu_pointer device;
    int registered; /* by hoop: 0 if the program had pinned them before */
};

/* --- hoop's pages --- */

static hoop_result
pin_pages(hp_cuda_device *device, hp_cuda_pages *pages, hoop_error *error)
{
    const hp_cuda_driver *driver = device->driver;
    char doing[96];
    snprintf(doing, sizeof(doing), "pinning %zu bytes of slots (is the limit on locked memory too low?)", pages->bytes);
    hp_cu_result registered =
        driver->host_register(pages->host, pages->bytes, HP_CU_REGISTER_PORTABLE | HP_CU_REGISTER_DEVICEMAP);
    pages->registered = registered == HP_CU_SUCCESS;
    if (registered != HP_CU_ALREADY_REGISTERED && !pages->registered)
        return hp_cuda_check(error, registered, "cuMemHostRegister", doing);
    return hp_cuda_check(error, driver->host_pointer(&pages->device, pages->host, 0), "cuMemHostGetDevicePointer",
                         "mapping slots into a GPU");
}

static void
free_pages(hp_cuda_device *device, hp_cuda_pages *pages)
{
    if (pages->registered)
        (void)device->driver->host_unregister(pages->host);
    free(pages);
}

hoop_result
hp_cuda_pin(hp_device *base, void *host, size_t bytes, hoop_error *error)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cuda_pages *pages = hp_alloc(1, sizeof(*pages));
    if (!pages)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while showing slots to a GPU");
    pages->host = host;
    pages->bytes = bytes;
    hp_cu_context before;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = pin_pages(device, pages, error);
    if (result == HOOP_SUCCESS) {
        pthread_mutex_lock(&device->lock);
        pages->next = device->pages;
        device->pages = pages;
        pthread_mutex_unlock(&device->lock);
    } else {
        free_pages(device, pages);
    }
    hp_cuda_leave(device, before);
    return result;
}

/* Out of the device's list; NULL if no such pages are pinned. */
static hp_cuda_pages *
unlink_pages(hp_cuda_device *device, const void *host)
{
    pthread_mutex_lock(&device->lock);
    hp_cuda_pages **at = &device->pages;
    while (*at && (*at)->host != host)
        at = &(*at)->next;
    hp_cuda_pages *pages = *at;
    if (pages)
        *at = pages->next;
    pthread_mutex_unlock(&device->lock);
    return pages;
}

void
hp_cuda_unpin(hp_device *base, void *host)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cuda_pages *pages = unlink_pages(device, host);
    if (!pages)
        return;
    hp_cu_context before;
    (void)hp_cuda_enter(device, &before, NULL);
    free_pages(device, pages);
    hp_cuda_leave(device, before);
}

void
hp_cuda_leave_pinned(hp_cuda_device *device, const void *host)
{
    free(unlink_pages(device, host));
}

void
hp_cuda_unpin_all(hp_cuda_device *device)
{
    while (device->pages)
        hp_cuda_unpin(&device->base, device->pages->host);
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

/*
 * Memory of a context other than the primary one lies in an address space that hoop's kernels cannot access. An array of
 * another GPU could be copied, but not in order: only the streams of this one's context are marked.
 */
static hoop_result
refuse_context(hp_cuda_device *device, int ordinal, hp_cu_context context, const void *ptr, hoop_error *error)
{
    if (ordinal != device->ordinal)
        return hp_err_set(
            error, HOOP_ERR_UNSUPPORTED,
            "the array %p is in the memory of GPU %d, and this communicator uses GPU %d, that of its first "
            "call; arrays of another GPU need a communicator of their own",
            ptr, ordinal, device->ordinal);
    if (!context || context == device->context) /* NULL: memory that belongs to no context */
        return HOOP_SUCCESS;
    return hp_err_set(
        error, HOOP_ERR_UNSUPPORTED,
        "the array %p was allocated in a CUDA context of its own; hoop works in the GPU's primary context, "
        "the one of the CUDA runtime (cudaMalloc) and of cuDevicePrimaryCtxRetain",
        ptr);
}

/* One call of the driver: every operation checks its arrays with it. */
hoop_result
hp_cuda_admit(hp_device *base, const void *ptr, hoop_error *error)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cu_context context = NULL;
    unsigned type = 0;
    int ordinal = -1;
    int attributes[] = {HP_CU_POINTER_MEMORY_TYPE, HP_CU_POINTER_CONTEXT, HP_CU_POINTER_DEVICE_ORDINAL};
    void *values[] = {&type, &context, &ordinal};
    if (!ptr ||
        device->driver->pointer_attributes(3, attributes, values, (hp_cu_pointer)(uintptr_t)ptr) != HP_CU_SUCCESS)
        return HOOP_SUCCESS;
    int its = type == HP_CU_MEMORY_DEVICE || ordinal == device->ordinal; /* else pinned host memory of another GPU */
    return its ? refuse_context(device, ordinal, context, ptr, error) : HOOP_SUCCESS;
}

hp_cuda_memtype
hp_cuda_memtype_of(hp_cuda_device *device, const void *memory, hp_cu_pointer *address, hoop_error *error)
{
    *address = (hp_cu_pointer)(uintptr_t)memory;
    if (find_page(device, memory, address))
        return HP_CUDA_MEM_DIRECT;
    unsigned type = 0;
    int ordinal = -1;
    hp_cu_pointer mapped = 0;
    hp_cu_context context = NULL;
    int attributes[] = {HP_CU_POINTER_MEMORY_TYPE, HP_CU_POINTER_DEVICE_ORDINAL, HP_CU_POINTER_DEVICE_POINTER,
                        HP_CU_POINTER_CONTEXT};
    void *values[] = {&type, &ordinal, &mapped, &context};
    if (hp_cuda_check(error, device->driver->pointer_attributes(4, attributes, values, *address),
                      "cuPointerGetAttributes", "looking for the owner of an array") != HOOP_SUCCESS)
        return HP_CUDA_MEM_REFUSED;
    if (type == HP_CU_MEMORY_DEVICE)
        return refuse_context(device, ordinal, context, memory, error) == HOOP_SUCCESS ? HP_CUDA_MEM_DIRECT
                                                                                       : HP_CUDA_MEM_REFUSED;
    if (type == 0 || mapped == 0)
        return HP_CUDA_MEM_PAGEABLE;
    *address = mapped; /* the caller's own pinned memory */
    return HP_CUDA_MEM_DIRECT;
}
