/* SPDX-License-Identifier: MIT */
/*
 * libcudart: a stand-in for the CUDA runtime, as far as examples/ uses it, over the stand-in driver (libcuda.c). Like
 * NVIDIA's it loads libcuda.so.1 at its first call, and a thread that chose no device has device 0. It accepts no
 * driver but the stand-in: kernels run on the CPU (cudacpu_stream.h), as host functions of their stream.
 */
#include "t/tools/libcudart.h"

#include "gpu/cuda_driver.h"
#include "t/tools/libcuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_DEVICES = 8, MOST_THREADS = 1024, MOST_KERNELS = 256 };

struct CUevent_st {
    hp_cu_event driver;
    unsigned long recorded, reached; /* under the lock */
    int destroyed;                   /* by the program; streams may still refer to it */
};

typedef struct launch {
    void (*run)(void *closure);
    void *closure;
} launch;

typedef struct fill {
    void *memory;
    int value;
    size_t bytes;
} fill;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const hp_cuda_driver *driver;
static const hoop_fake_cuda *fake;
static hp_cu_context contexts[MOST_DEVICES];
static int live;
static _Thread_local int chosen;
static _Thread_local cudaError_t last;

/* The runtime's error numbers are the driver's. */
static cudaError_t
done(int result)
{
    if (result != 0)
        last = (cudaError_t)result;
    return (cudaError_t)result;
}

void
hoop_fake_cudart_count(int change)
{
    __atomic_add_fetch(&live, change, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void
say_what_is_left(void)
{
    if (live != 0)
        fprintf(stderr, "stand-in runtime: %d objects are left\n", live);
}

/* --- devices --- */

/* Under the lock. */
static int
find_driver(void)
{
    hoop_error error = {.size = sizeof(error)};
    if (driver)
        return cudaSuccess;
    if (hp_cuda_load(&driver, &error) == HOOP_SUCCESS)
        fake = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "hoop_fake_cuda_table");
    if (!fake)
        driver = NULL;
    return driver ? cudaSuccess : cudaErrorInsufficientDriver;
}

static int
enter_device(void)
{
    int result = find_driver();
    if (result == cudaSuccess && !contexts[chosen])
        result = driver->primary_retain(&contexts[chosen], chosen);
    return result == cudaSuccess ? driver->context_set(contexts[chosen]) : result;
}

/* Before every call: opens the thread's device and makes it current. */
static int
enter(void)
{
    pthread_mutex_lock(&lock);
    int result = enter_device();
    pthread_mutex_unlock(&lock);
    return result;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    pthread_mutex_lock(&lock);
    int result = find_driver();
    pthread_mutex_unlock(&lock);
    *count = 0;
    if (result == cudaSuccess)
        result = driver->device_count(count);
    return done(result == cudaSuccess && *count == 0 ? cudaErrorNoDevice : result);
}

cudaError_t
cudaSetDevice(int device)
{
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result != cudaSuccess)
        return result;
    if (device < 0 || device >= count || device >= MOST_DEVICES)
        return done(cudaErrorInvalidDevice);
    chosen = device;
    return done(enter());
}

const char *
cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    default: return "a stand-in's error";
    }
}

cudaError_t
cudaGetLastError(void)
{
    cudaError_t result = last;
    last = cudaSuccess;
    return result;
}

/* --- memory --- */

static hp_cu_pointer
pointer(const void *memory)
{
    return (hp_cu_pointer)(uintptr_t)memory;
}

cudaError_t
cudaMalloc(void **memory, size_t bytes)
{
    hp_cu_pointer address = 0;
    int result = enter();
    if (result == cudaSuccess)
        result = driver->memory_alloc(&address, bytes);
    if (result == cudaSuccess)
        hoop_fake_cudart_count(1);
    *memory = (void *)(uintptr_t)address;
    return done(result);
}

cudaError_t
cudaFree(void *memory)
{
    int result = enter();
    if (!memory || result != cudaSuccess)
        return done(result);
    hoop_fake_cudart_count(-1);
    return done(driver->memory_free(pointer(memory)));
}

cudaError_t
cudaMallocHost(void **memory, size_t bytes)
{
    int result = enter();
    if (result != cudaSuccess)
        return done(result);
    *memory = malloc(bytes);
    if (!*memory)
        return done(cudaErrorMemoryAllocation);
    hoop_fake_cudart_count(1);
    return done(driver->host_register(*memory, bytes, HP_CU_REGISTER_PORTABLE | HP_CU_REGISTER_DEVICEMAP));
}

cudaError_t
cudaFreeHost(void *memory)
{
    int result = enter();
    if (!memory || result != cudaSuccess)
        return done(result);
    hoop_fake_cudart_count(-1);
    result = driver->host_unregister(memory);
    free(memory);
    return done(result);
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const void *there = kind == cudaMemcpyHostToDevice ? to : from, *here = kind == cudaMemcpyHostToDevice ? from : to;
    int result = enter();
    if (result != cudaSuccess || bytes == 0)
        return done(result);
    if (!fake->bytes(there, bytes) || fake->bytes(here, 1))
        return done(cudaErrorInvalidValue);
    return done(driver->copy_async(pointer(to), pointer(from), bytes, stream));
}

static void
run_fill(void *closure)
{
    fill *f = closure;
    memset(hoop_fake_cudart_reach(f->memory, f->bytes), f->value, f->bytes);
}

cudaError_t
cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    fill *f = malloc(sizeof(*f));
    if (!f)
        return done(cudaErrorMemoryAllocation);
    *f = (fill){memory, value, bytes};
    return hoop_fake_cudart_launch(stream, 0, 1, 1, run_fill, f);
}

void *
hoop_fake_cudart_reach(const void *memory, size_t bytes)
{
    void *inside = fake->bytes(memory, bytes);
    if (!inside) {
        fprintf(stderr, "stand-in runtime: a kernel was given %zu bytes at %p, which are not the device's\n", bytes,
                memory);
        abort();
    }
    return inside;
}

/* --- streams --- */

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    int result = enter();
    if (result == cudaSuccess)
        result = driver->stream_create(stream, flags, 0);
    if (result == cudaSuccess)
        hoop_fake_cudart_count(1);
    return done(result);
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    int result = enter();
    hoop_fake_cudart_count(-1);
    return done(result == cudaSuccess ? driver->stream_destroy(stream) : result);
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    int result = enter();
    return done(result == cudaSuccess ? driver->stream_synchronize(stream) : result);
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    int result = enter();
    return done(result == cudaSuccess ? driver->stream_wait_event(stream, event->driver, flags) : result);
}

static void
run_launch(void *arg)
{
    launch *l = arg;
    l->run(l->closure);
    free(l->closure);
    free(l);
}

/* Whether this is the first launch of the kernel. */
static int
is_new(uintptr_t kernel)
{
    static uintptr_t seen[MOST_KERNELS];
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < MOST_KERNELS && seen[i] != kernel && seen[i] != 0)
        i++;
    int result = i < MOST_KERNELS && seen[i] == 0;
    if (result)
        seen[i] = kernel;
    pthread_mutex_unlock(&lock);
    return result;
}

cudaError_t
hoop_fake_cudart_launch(cudaStream_t stream, uintptr_t kernel, unsigned blocks, unsigned threads,
                        void (*run)(void *closure), void *closure)
{
    int result = enter();
    launch *l = malloc(sizeof(*l));
    if (result == cudaSuccess && !l)
        result = cudaErrorMemoryAllocation;
    if (result == cudaSuccess && (blocks == 0 || threads == 0 || threads > MOST_THREADS))
        result = cudaErrorInvalidConfiguration;
    if (result == cudaSuccess) {
        if (kernel != 0 && is_new(kernel))
            fake->load();
        *l = (launch){run, closure};
        result = driver->launch_host(stream, run_launch, l);
    }
    if (result != cudaSuccess) {
        free(closure);
        free(l);
    }
    return done(result);
}

/* --- events --- */

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    int result = enter();
    *event = result == cudaSuccess ? calloc(1, sizeof(**event)) : NULL;
    if (!*event)
        return done(result != cudaSuccess ? result : cudaErrorMemoryAllocation);
    hoop_fake_cudart_count(1);
    return done(driver->event_create(&(*event)->driver, flags));
}

/* Under the lock. */
static void
free_passed(cudaEvent_t event)
{
    if (event->destroyed && event->reached == event->recorded)
        free(event);
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
    int result = enter();
    hoop_fake_cudart_count(-1);
    if (result == cudaSuccess)
        result = driver->event_destroy(event->driver);
    pthread_mutex_lock(&lock);
    event->destroyed = 1;
    free_passed(event);
    pthread_mutex_unlock(&lock);
    return done(result);
}

static void
reach_event(void *arg)
{
    cudaEvent_t event = arg;
    pthread_mutex_lock(&lock);
    event->reached++;
    pthread_cond_broadcast(&changed);
    free_passed(event);
    pthread_mutex_unlock(&lock);
}

/* Recorded twice: by the driver for other streams, by a host function for the host. */
cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    int result = enter();
    if (result == cudaSuccess)
        result = driver->event_record(event->driver, stream);
    if (result != cudaSuccess)
        return done(result);
    pthread_mutex_lock(&lock);
    event->recorded++;
    pthread_mutex_unlock(&lock);
    return done(driver->launch_host(stream, reach_event, event));
}

/* A failed context runs nothing, so this does not wait for it. */
cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
    struct timespec until;
    hp_cu_device device;
    int result = enter();
    pthread_mutex_lock(&lock);
    while (result == cudaSuccess && event->reached < event->recorded) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT)
            result = driver->context_device(&device);
    }
    pthread_mutex_unlock(&lock);
    return done(result);
}
