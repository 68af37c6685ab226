/* SPDX-License-Identifier: MIT */
/* cuda_context: a context is switched only where the thread has another one, which is put back afterwards. */
#include "gpu/cuda_context.h"

/* The context that hp_cuda_leave left current on a thread that had none. */
static _Thread_local hp_cu_context left_behind;

/*
 * While some thread of the process captures a CUDA graph in global mode, the driver refuses most calls of all other
 * threads and invalidates that graph, unless the calling thread is in relaxed mode: its calls are not part of the
 * graph.
 */
static _Thread_local int relaxed;             /* depth of nested hp_cuda_relax */
static _Thread_local int capture_mode_before; /* the thread's own mode */

hoop_result
hp_cuda_relax(const hp_cuda_driver *driver, hoop_error *error)
{
    if (relaxed++ > 0)
        return HOOP_SUCCESS;
    int mode = HP_CU_CAPTURE_RELAXED;
    hoop_result result = hp_cuda_check(error, driver->capture_mode(&mode), "cuThreadExchangeStreamCaptureMode",
                                       "setting the capture mode of the thread");
    capture_mode_before = result == HOOP_SUCCESS ? mode : HP_CU_CAPTURE_RELAXED;
    return result;
}

void
hp_cuda_unrelax(const hp_cuda_driver *driver)
{
    int mode = capture_mode_before;
    if (--relaxed == 0 && mode != HP_CU_CAPTURE_RELAXED)
        (void)driver->capture_mode(&mode);
}

hoop_result
hp_cuda_enter(hp_cuda_device *device, hp_cu_context *before, hoop_error *error)
{
    const char *doing = "entering a GPU's context";
    hoop_result mode = hp_cuda_relax(device->driver, error);
    if (mode != HOOP_SUCCESS)
        error = NULL; /* it holds the first error; the context is entered all the same, so that the caller can free */
    hoop_result result = hp_cuda_check(error, device->driver->context_get(before), "cuCtxGetCurrent", doing);
    if (result != HOOP_SUCCESS)
        *before = device->context; /* leave has nothing to put back */
    else if (*before != device->context)
        result = hp_cuda_check(error, device->driver->context_set(device->context), "cuCtxSetCurrent", doing);
    return mode != HOOP_SUCCESS ? mode : result;
}

/* A thread without a context, as hoop's progress thread, keeps this one: its next enter has nothing to switch. */
void
hp_cuda_leave(hp_cuda_device *device, hp_cu_context before)
{
    if (!before)
        left_behind = device->context;
    else if (before != device->context)
        (void)device->driver->context_set(before);
    hp_cuda_unrelax(device->driver);
}

/* The thread must not keep a context that is no longer valid, unless the program made it current itself. */
void
hp_cuda_leave_closed(hp_cuda_device *device, hp_cu_context before)
{
    if (!before || before == left_behind)
        (void)device->driver->context_set(left_behind = NULL);
    else if (before != device->context)
        (void)device->driver->context_set(before);
    (void)device->driver->primary_release(device->handle);
    hp_cuda_unrelax(device->driver);
}
