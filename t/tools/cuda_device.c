/* SPDX-License-Identifier: MIT */
/* cuda_device: most functions here are a call of the driver in the device's context. */
#include "t/tools/cuda_device.h"

#include "gpu/cuda_context.h"

#include <stdio.h>

static hp_cu_pointer
pointer(const void *memory)
{
    return (hp_cu_pointer)(uintptr_t)memory;
}

hoop_result
hp_cuda_alloc(hp_device *base, void **memory, size_t bytes, hoop_error *error)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cu_context before;
    hp_cu_pointer address = 0;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = hp_cuda_check(error, device->driver->memory_alloc(&address, bytes > 0 ? bytes : 1), "cuMemAlloc",
                               "allocating an array on the GPU");
    hp_cuda_leave(device, before);
    *memory = result == HOOP_SUCCESS ? (void *)(uintptr_t)address : NULL;
    return result;
}

void
hp_cuda_free(hp_device *base, void *memory)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cu_context before;
    if (!memory)
        return;
    (void)hp_cuda_enter(device, &before, NULL);
    (void)device->driver->memory_free(pointer(memory));
    hp_cuda_leave(device, before);
}

hoop_result
hp_cuda_copy(hp_device *base, void *to, const void *from, size_t bytes, hoop_error *error)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cu_context before;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = hp_cuda_check(error, device->driver->copy(pointer(to), pointer(from), bytes), "cuMemcpy",
                               "copying an array");
    /* A copy to the GPU may return when its source has been read, not when it has arrived. */
    if (result == HOOP_SUCCESS)
        result =
            hp_cuda_check(error, device->driver->stream_synchronize(NULL), "cuStreamSynchronize", "copying an array");
    hp_cuda_leave(device, before);
    return result;
}

hoop_result
hp_cuda_stream_open(hp_device *base, void **out, hoop_error *error)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cu_context before;
    hp_cu_stream stream = NULL;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = hp_cuda_check(error, device->driver->stream_create(&stream, HP_CU_STREAM_NON_BLOCKING, 0),
                               "cuStreamCreateWithPriority", "making a stream");
    hp_cuda_leave(device, before);
    *out = result == HOOP_SUCCESS ? stream : NULL;
    return result;
}

void
hp_cuda_stream_close(hp_device *base, void *stream)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cu_context before;
    if (!stream)
        return;
    (void)hp_cuda_enter(device, &before, NULL);
    (void)device->driver->stream_destroy(stream);
    hp_cuda_leave(device, before);
}

hoop_result
hp_cuda_stream_wait(hp_device *base, void *stream, hoop_error *error)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cu_context before;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = hp_cuda_check(error, device->driver->stream_synchronize(stream), "cuStreamSynchronize",
                               "waiting for a stream");
    hp_cuda_leave(device, before);
    return result;
}

hoop_result
hp_cuda_stream_copy(hp_device *base, void *stream, void *to, const void *from, size_t bytes, hoop_error *error)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    hp_cu_context before;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = hp_cuda_check(error, device->driver->copy_async(pointer(to), pointer(from), bytes, stream),
                               "cuMemcpyAsync", "copying an array on a stream");
    hp_cuda_leave(device, before);
    return result;
}

void
hp_cuda_limits_of(const hp_device *base, hp_cuda_limits *limits)
{
    const hp_cuda_device *device = (const hp_cuda_device *)base;
    limits->ordinal = device->ordinal;
    limits->blocks = device->blocks;
    limits->memory_ops = device->memory_ops;
    snprintf(limits->name, sizeof(limits->name), "%s", device->name);
}
