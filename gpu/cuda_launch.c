/* SPDX-License-Identifier: MIT */
/* cuda_launch: loads the kernels that fatbin.S holds, chooses one for a command, launches it with one parameter. */
#include "gpu/cuda_launch.h"

#include "base/err.h"
#include "gpu/cuda_kernel.h"

#include <stdio.h>

/* --- loading --- */

static const char *
kernel_name(int kernel, char *out, size_t size)
{
    int at = kernel - HP_CUDA_REDUCE;
    hoop_dtype dtype = hp_dtype_at(at / 4);
    if (kernel < HP_CUDA_WIRE)
        snprintf(out, size, "hp_copy_%d", 1 << (kernel - HP_CUDA_COPY));
    else if (kernel == HP_CUDA_WIRE)
        snprintf(out, size, "hp_wire");
    else if (kernel == HP_CUDA_SCALED)
        snprintf(out, size, "hp_scaled");
    else if (kernel == HP_CUDA_STAMP)
        snprintf(out, size, "hp_stamp");
    else if (kernel == HP_CUDA_GATE)
        snprintf(out, size, "hp_gate");
    else if (kernel >= HP_CUDA_MEAN)
        snprintf(out, size, "hp_mean_%s", hp_dtype_name(hp_narrow[kernel - HP_CUDA_MEAN]));
    else if (kernel >= HP_CUDA_BITS)
        snprintf(out, size, "hp_bits_%d", 1 << (kernel - HP_CUDA_BITS));
    else if (dtype == HOOP_FLOAT8E4M3 || dtype == HOOP_FLOAT8E5M2 || dtype == HOOP_BOOL)
        snprintf(out, size, "hp_any_%s", hp_dtype_name(dtype));
    else
        snprintf(out, size, "hp_%s_%s", hp_op_name((hoop_op)(at % 4)), hp_dtype_name(dtype));
    return out;
}

/* As hp_cuda_check, but a driver that cannot read the kernels, now or when they are first asked for, does not serve. */
static hoop_result
check_fit(hoop_error *error, hp_cu_result called, const char *call, const char *doing)
{
    static const hp_cu_result unfit[] = {HP_CU_INVALID_IMAGE, HP_CU_NO_BINARY,       HP_CU_INVALID_PTX,
                                         HP_CU_NO_JIT,        HP_CU_UNSUPPORTED_PTX, HP_CU_JIT_DISABLED};
    hoop_result result = hp_cuda_check(error, called, call, doing);
    for (size_t i = 0; i < sizeof(unfit) / sizeof(*unfit); i++)
        if (called == unfit[i]) /* nothing has failed on the GPU */
            result = HOOP_ERR_UNSUPPORTED;
    if (error && result != HOOP_SUCCESS)
        error->code = result;
    return result;
}

static hoop_result
find_kernels(hp_cuda_device *device, hoop_error *error)
{
    for (int i = 0; i < HP_CUDA_KERNELS; i++) {
        char name[48], doing[80];
        kernel_name(i, name, sizeof(name));
        snprintf(doing, sizeof(doing), "looking for the kernel %s", name);
        hoop_result result =
            check_fit(error, device->driver->module_function(&device->kernels[i], device->module, name),
                      "cuModuleGetFunction", doing);
        if (result != HOOP_SUCCESS)
            return result;
    }
    return HOOP_SUCCESS;
}

hoop_result
hp_cuda_kernels_load(hp_cuda_device *device, hoop_error *error)
{
    hoop_result result = check_fit(error, device->driver->module_load(&device->module, hp_fatbin), "cuModuleLoadData",
                                   "loading hoop's kernels (a driver older than the nvcc that built them?)");
    if (result == HOOP_SUCCESS)
        return find_kernels(device, error);
    device->module = NULL;
    return result;
}

void
hp_cuda_kernels_unload(hp_cuda_device *device)
{
    if (device->module)
        (void)device->driver->module_unload(device->module);
    device->module = NULL;
}

/* --- launching --- */

static hp_cu_result
launch(const hp_cuda_device *device, hp_cu_stream stream, int kernel, unsigned blocks, unsigned threads,
       hp_kernel_args *args)
{
    void *parameters[] = {args};
    return device->driver->launch_kernel(device->kernels[kernel], blocks, 1, 1, threads, 1, 1, 0, stream, parameters,
                                         NULL);
}

static unsigned
grid_for(const hp_cuda_queue *queue, uint64_t units)
{
    uint64_t blocks = (units + HP_KERNEL_THREADS - 1) / HP_KERNEL_THREADS;
    uint64_t most = (uint64_t)queue->device->blocks;
    return (unsigned)(blocks > most ? most : blocks > 0 ? blocks : 1);
}

static int
log2_of(size_t size)
{
    return size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;
}

static hoop_dtype
type_of(const hp_command *command, const hp_operand *operand)
{
    return operand->wire ? command->wire : command->elem;
}

/* Whether every operand is of the type of the first. */
static int
is_one_type(const hp_command *command)
{
    hoop_dtype type = type_of(command, &command->src[0]);
    return (command->sources < 2 || type_of(command, &command->src[1]) == type) &&
           type_of(command, &command->dst[0]) == type &&
           (command->destinations < 2 || type_of(command, &command->dst[1]) == type);
}

static int
has_blocks(const hp_command *command)
{
    return command->wire == HP_SCALED &&
           (command->src[0].wire || command->src[1].wire || command->dst[0].wire || command->dst[1].wire);
}

/* A command that neither computes nor converts moves bytes. */
static int
kernel_for(const hp_command *command)
{
    hoop_dtype type = type_of(command, &command->src[0]);
    if (has_blocks(command))
        return HP_CUDA_SCALED;
    if (!is_one_type(command))
        return HP_CUDA_WIRE;
    if (command->ranks[0] > 0)
        return HP_CUDA_MEAN + hp_narrow_index(type);
    if (command->exchange || (command->sources == 1 && command->divisor <= 1))
        return HP_CUDA_COPY + log2_of(hp_dtype_size(type));
    int bits = command->sources == 2 && hp_op_is_bitwise(command->op);
    if (bits && type != HOOP_BOOL)
        return HP_CUDA_BITS + log2_of(hp_dtype_size(type));
    int op = bits || command->sources < 2 || command->op == HOOP_AVG ? HOOP_SUM : (int)command->op;
    return HP_CUDA_REDUCE + 4 * (int)hp_dtype_index(type) + op;
}

hoop_result
hp_cuda_launch(hp_cuda_queue *queue, const hp_command *command, const hp_cu_pointer address[4])
{
    hp_kernel_args args = {
        .src = {(const void *)(uintptr_t)address[0], (const void *)(uintptr_t)address[1]},
        .dst = {(void *)(uintptr_t)address[2], (void *)(uintptr_t)address[3]},
        .count = command->count,
        .divisor = command->divisor,
        .ranks = {command->ranks[0], command->ranks[1]},
        .sources = (uint8_t)command->sources,
        .destinations = (uint8_t)command->destinations,
        .exchange = command->exchange != 0,
        .remainder = command->remainder != 0,
        .elem = (uint8_t)command->elem,
        .wire = (uint8_t)command->wire,
        .op = (uint8_t)(command->op == HOOP_AVG ? HOOP_SUM : command->op),
        .src_wire = {command->src[0].wire != 0, command->src[1].wire != 0},
        .dst_wire = {command->dst[0].wire != 0, command->dst[1].wire != 0},
    };
    int kernel = kernel_for(command);
    size_t at_once = kernel == HP_CUDA_WIRE     ? 1
                     : kernel == HP_CUDA_SCALED ? HP_SCALED_BLOCK
                                                : 16 / hp_dtype_size(type_of(command, &command->src[0]));
    unsigned blocks = grid_for(queue, command->count / at_once + 1);
    return hp_cuda_keep_error(queue, launch(queue->device, queue->stream, kernel, blocks, HP_KERNEL_THREADS, &args),
                              "cuLaunchKernel", "submitting a command");
}

hoop_result
hp_cuda_launch_all(hp_cuda_queue *queue, hp_cu_pointer word)
{
    void *nothing = (void *)(uintptr_t)word;
    hp_kernel_args args = {.src = {nothing, nothing}, .dst = {nothing, nothing}, .sources = 1, .destinations = 1};
    for (int kernel = 0; kernel < HP_CUDA_KERNELS && queue->status.code == HOOP_SUCCESS; kernel++)
        hp_cuda_keep_error(queue, launch(queue->device, queue->stream, kernel, 1, 1, &args), "cuLaunchKernel",
                           "trying a new queue");
    return queue->status.code;
}

/* --- stream memory operations --- */

hoop_result
hp_cuda_write_value(const hp_cuda_device *device, void *stream, hp_cu_pointer word, uint64_t value, const char *doing,
                    hoop_error *error)
{
    if (device->memory_ops)
        return hp_cuda_check(error, device->driver->stream_write_64(stream, word, value, 0), "cuStreamWriteValue64",
                             doing);
    hp_kernel_args args = {.dst = {(void *)(uintptr_t)word}, .value = value};
    return hp_cuda_check(error, launch(device, stream, HP_CUDA_STAMP, 1, 1, &args), "cuLaunchKernel", doing);
}

hoop_result
hp_cuda_wait_value(const hp_cuda_device *device, void *stream, hp_cu_pointer word, uint32_t value, const char *doing,
                   hoop_error *error)
{
    if (device->memory_ops)
        return hp_cuda_check(error, device->driver->stream_wait_32(stream, word, value, HP_CU_WAIT_GEQ),
                             "cuStreamWaitValue32", doing);
    hp_kernel_args args = {.src = {(const void *)(uintptr_t)word}, .value = value};
    return hp_cuda_check(error, launch(device, stream, HP_CUDA_GATE, 1, 1, &args), "cuLaunchKernel", doing);
}

/* --- a queue's first error --- */

hoop_result
hp_cuda_keep_error(hp_cuda_queue *queue, hp_cu_result result, const char *call, const char *doing)
{
    if (result == HP_CU_SUCCESS || queue->status.code != HOOP_SUCCESS)
        return queue->status.code;
    return hp_cuda_check(&queue->status, result, call, doing);
}

hoop_result
hp_cuda_may_submit(hp_cuda_queue *queue)
{
    if (queue->status.code == HOOP_SUCCESS && atomic_load_explicit(&queue->device->released, memory_order_acquire))
        hp_err_set(&queue->status, HOOP_ERR_ABORTED,
                   "the callers' streams were released while a command was submitted");
    return queue->status.code;
}
