/* SPDX-License-Identifier: MIT */
/*
 * cuda_driver: the part of the CUDA driver that hoop uses, as a table of functions taken from libcuda.so.1 at run time.
 * The library links nothing of CUDA and needs no CUDA header: types and prototypes are declared here, with the driver's
 * own structure tags. A missing driver is an answer, not an error. The driver is never unloaded.
 */
#ifndef HP_CUDA_DRIVER_H
#define HP_CUDA_DRIVER_H

#include "hoop.h"

typedef int hp_cu_result;
typedef int hp_cu_device;
typedef unsigned long long hp_cu_pointer; /* an address as the device sees it */
typedef struct CUctx_st *hp_cu_context;
typedef struct CUmod_st *hp_cu_module;
typedef struct CUfunc_st *hp_cu_function;
typedef struct CUstream_st *hp_cu_stream;
typedef struct CUevent_st *hp_cu_event;
typedef void hp_cu_host_fn(void *arg);
typedef hp_cu_result hp_cu_ask_fn(unsigned count, int *attributes, void **values, hp_cu_pointer pointer);

enum { /* hp_cu_result; the driver names the others */
       HP_CU_SUCCESS = 0,
       HP_CU_NOT_INITIALIZED = 3,
       HP_CU_DEINITIALIZED = 4,
       HP_CU_NO_DEVICE = 100,
       HP_CU_INVALID_IMAGE = 200,
       HP_CU_INVALID_CONTEXT = 201,
       HP_CU_NO_BINARY = 209,
       HP_CU_INVALID_PTX = 218,
       HP_CU_NO_JIT = 221,
       HP_CU_UNSUPPORTED_PTX = 222,
       HP_CU_JIT_DISABLED = 223,
       HP_CU_NOT_READY = 600,
       HP_CU_ALREADY_REGISTERED = 712,
       HP_CU_CAPTURE_IMPLICIT = 906
};

enum { /* device, pointer and function attributes */
       HP_CU_MULTIPROCESSORS = 16,
       HP_CU_MEMORY_OPS_64 = 122, /* 64-bit stream memory operations; 32-bit ones are always there beside them */
       HP_CU_POINTER_CONTEXT = 1,
       HP_CU_POINTER_MEMORY_TYPE = 2,
       HP_CU_POINTER_DEVICE_POINTER = 3,
       HP_CU_POINTER_DEVICE_ORDINAL = 9
};

enum { /* values and flags */
       HP_CU_MEMORY_DEVICE = 2,
       HP_CU_REGISTER_PORTABLE = 1,
       HP_CU_REGISTER_DEVICEMAP = 2,
       HP_CU_STREAM_NON_BLOCKING = 1,
       HP_CU_EVENT_NO_TIMING = 2,
       HP_CU_WAIT_GEQ = 0,
       HP_CU_CAPTURE_NONE = 0,
       HP_CU_CAPTURE_RELAXED = 2
};

typedef struct hp_cuda_driver {
    hp_cu_result (*init)(unsigned flags);
    hp_cu_result (*driver_version)(int *version);
    hp_cu_result (*error_name)(hp_cu_result error, const char **name);
    hp_cu_result (*error_string)(hp_cu_result error, const char **text);
    hp_cu_result (*device_count)(int *count);
    hp_cu_result (*device_get)(hp_cu_device *device, int ordinal);
    hp_cu_result (*device_name)(char *name, int length, hp_cu_device device);
    hp_cu_result (*device_attribute)(int *value, int attribute, hp_cu_device device);
    hp_cu_result (*primary_retain)(hp_cu_context *context, hp_cu_device device);
    hp_cu_result (*primary_release)(hp_cu_device device);
    hp_cu_result (*context_get)(hp_cu_context *context);
    hp_cu_result (*context_set)(hp_cu_context context);
    hp_cu_result (*context_device)(hp_cu_device *device);
    hp_cu_result (*priority_range)(int *least, int *greatest);
    hp_cu_result (*module_load)(hp_cu_module *module, const void *image);
    hp_cu_result (*module_unload)(hp_cu_module module);
    hp_cu_result (*module_function)(hp_cu_function *function, hp_cu_module module, const char *name);
    hp_cu_ask_fn *pointer_attributes;
    hp_cu_result (*host_register)(void *pages, size_t bytes, unsigned flags);
    hp_cu_result (*host_unregister)(void *pages);
    hp_cu_result (*host_pointer)(hp_cu_pointer *pointer, void *pages, unsigned flags);
    hp_cu_result (*memory_alloc)(hp_cu_pointer *pointer, size_t bytes);
    hp_cu_result (*memory_free)(hp_cu_pointer pointer);
    hp_cu_result (*copy)(hp_cu_pointer to, hp_cu_pointer from, size_t bytes);
    hp_cu_result (*copy_async)(hp_cu_pointer to, hp_cu_pointer from, size_t bytes, hp_cu_stream stream);
    hp_cu_result (*stream_create)(hp_cu_stream *stream, unsigned flags, int priority);
    hp_cu_result (*stream_destroy)(hp_cu_stream stream);
    hp_cu_result (*stream_synchronize)(hp_cu_stream stream);
    hp_cu_result (*stream_query)(hp_cu_stream stream);
    hp_cu_result (*stream_capturing)(hp_cu_stream stream, int *status);
    hp_cu_result (*capture_mode)(int *mode); /* this thread's, exchanged */
    hp_cu_result (*stream_wait_event)(hp_cu_stream stream, hp_cu_event event, unsigned flags);
    hp_cu_result (*stream_write_64)(hp_cu_stream stream, hp_cu_pointer word, uint64_t value, unsigned flags);
    hp_cu_result (*stream_wait_32)(hp_cu_stream stream, hp_cu_pointer word, uint32_t value, unsigned flags);
    hp_cu_result (*event_create)(hp_cu_event *event, unsigned flags);
    hp_cu_result (*event_destroy)(hp_cu_event event);
    hp_cu_result (*event_record)(hp_cu_event event, hp_cu_stream stream);
    hp_cu_result (*launch_host)(hp_cu_stream stream, hp_cu_host_fn *fn, void *arg);
    hp_cu_result (*launch_kernel)(hp_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                  hp_cu_stream stream, void **parameters, void **extra);
} hp_cuda_driver;

/* The table, loaded and initialised. HOOP_ERR_UNSUPPORTED: there is no driver, too old a one, or no GPU. */
hoop_result hp_cuda_load(const hp_cuda_driver **driver, hoop_error *error);

/* HOOP_ERR_UNSUPPORTED and the sentence for a driver without a GPU: no call has failed, so not HOOP_ERR_CUDA. */
hoop_result hp_cuda_no_device(hoop_error *error);

/*
 * The driver's cuPointerGetAttributes if the process has loaded the driver already, else NULL; this never loads it. In
 * a process without the driver no pointer is device memory. It also returns the function of a driver that is too old
 * for the table: device memory must be recognised, so that hp_cuda_load can refuse it, because the CPU would crash on
 * it. Cheap enough for every call.
 */
hp_cu_ask_fn *hp_cuda_present(void);

/*
 * HOOP_ERR_CUDA and the sentence "<call> failed while <doing>: <driver's name for the error> (<its text>)". An
 * hp_cu_result of 0 is HOOP_SUCCESS and leaves *error alone.
 */
hoop_result hp_cuda_check(hoop_error *error, hp_cu_result result, const char *call, const char *doing);

#endif
