/* SPDX-License-Identifier: MIT */
/*
 * mlp_gpu: matrix products by cuBLAS, all else by kernels of one thread an element, which never wait for each other.
 * Sums over samples run in sample order. Compile with -fmad=false: a step is then rounded alike on every kind of GPU,
 * and equal gradients make equal parameters.
 */
#include "mlp_gpu.h"

static const unsigned THREADS = 256;

static unsigned
blocks(size_t elements)
{
    return (unsigned)((elements + THREADS - 1) / THREADS);
}

static void
note(mlp_gpu *net, cudaError_t result)
{
    if (result != cudaSuccess && !net->error)
        net->error = cudaGetErrorString(result);
}

static void
note_blas(mlp_gpu *net, cublasStatus_t result)
{
    if (result != CUBLAS_STATUS_SUCCESS && !net->error)
        net->error = cublasGetStatusString(result);
}

/* --- kernels --- */

__device__ static size_t
my_element()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__global__ static void
add_bias_tanh(float *h, const float *b, size_t count, size_t columns)
{
    size_t i = my_element();
    if (i < count)
        h[i] = tanhf(h[i] + b[i % columns]);
}

/* A row is a sample. */
__global__ static void
add_bias_softmax(float *all, const float *b, size_t rows, size_t columns)
{
    size_t row = my_element();
    if (row >= rows)
        return;
    float *y = all + row * columns, top = y[0] + b[0], sum = 0;
    for (size_t i = 0; i < columns; i++) {
        y[i] += b[i];
        top = y[i] > top ? y[i] : top;
    }
    for (size_t i = 0; i < columns; i++)
        sum += y[i] = expf(y[i] - top);
    for (size_t i = 0; i < columns; i++)
        y[i] /= sum;
}

__global__ static void
cross_entropy(const float *y, const uint8_t *labels, float *losses, size_t rows, size_t columns)
{
    size_t row = my_element();
    if (row < rows)
        losses[row] = -logf(y[row * columns + labels[row]] + 1e-30F);
}

__global__ static void
output_error(float *y, const uint8_t *labels, float scale, size_t count, size_t columns)
{
    size_t i = my_element();
    if (i < count)
        y[i] = scale * (y[i] - (labels[i / columns] == i % columns ? 1.0F : 0.0F));
}

__global__ static void
hidden_error(float *delta, const float *h, size_t count)
{
    size_t i = my_element();
    if (i < count)
        delta[i] *= 1.0F - h[i] * h[i];
}

__global__ static void
sum_rows(const float *matrix, float *sums, float scale, size_t rows, size_t columns)
{
    size_t column = my_element();
    float sum = 0;
    if (column >= columns)
        return;
    for (size_t row = 0; row < rows; row++)
        sum += matrix[row * columns + column];
    sums[column] = scale * sum;
}

__global__ static void
descend(float *p, float *v, const float *g, size_t count, float rate, float momentum, float decay)
{
    size_t i = my_element();
    if (i >= count)
        return;
    v[i] = momentum * v[i] - rate * (g[i] + decay * p[i]);
    p[i] += v[i];
}

/* --- memory --- */

static float *
floats(mlp_gpu *net, size_t count)
{
    void *memory = NULL;
    if (!net->error)
        note(net, cudaMalloc(&memory, count * sizeof(float)));
    if (!net->error)
        note(net, cudaMemsetAsync(memory, 0, count * sizeof(float), net->stream));
    return (float *)memory;
}

int
mlp_gpu_init(mlp_gpu *net, size_t inputs, size_t hidden, size_t outputs, size_t room, cudaStream_t stream)
{
    size_t count = mlp_tensors_count(inputs, hidden, outputs);
    *net = mlp_gpu();
    net->inputs = inputs;
    net->hidden = hidden;
    net->outputs = outputs;
    net->stream = stream;
    net->parameters = mlp_tensors_at(floats(net, count), inputs, hidden, outputs);
    net->gradient = mlp_tensors_at(floats(net, count + 1), inputs, hidden, outputs);
    net->velocity = mlp_tensors_at(floats(net, count), inputs, hidden, outputs);
    net->loss = net->gradient.all + count;
    net->activity = floats(net, room * hidden);
    net->delta = floats(net, room * hidden);
    net->output = floats(net, room * outputs);
    net->losses = floats(net, room);
    if (!net->error)
        note_blas(net, cublasCreate(&net->blas));
    if (!net->error)
        note_blas(net, cublasSetStream(net->blas, stream));
    return !net->error ? 0 : -1;
}

void
mlp_gpu_free(mlp_gpu *net)
{
    float *memory[] = {net->parameters.all, net->gradient.all, net->velocity.all, net->activity,
                       net->delta,          net->output,       net->losses};
    for (float *m : memory)
        cudaFree(m);
    if (net->blas)
        cublasDestroy(net->blas);
    *net = mlp_gpu();
}

void
mlp_gpu_load(mlp_gpu *net, const float *host)
{
    size_t bytes = net->parameters.count * sizeof(float);
    if (host)
        note(net, cudaMemcpyAsync(net->parameters.all, host, bytes, cudaMemcpyHostToDevice, net->stream));
    else
        note(net, cudaMemsetAsync(net->parameters.all, 0, bytes, net->stream));
    note(net, cudaMemsetAsync(net->velocity.all, 0, bytes, net->stream));
}

/* --- passes --- */

/* A matrix as it lies in memory, row after row; `turned`: its transpose is meant. */
typedef struct matrix {
    const float *elements;
    size_t columns;
    int turned;
} matrix;

/* c = a b, where c has `rows` x `columns` elements, each the sum of `depth` products. */
static void
multiply(mlp_gpu *net, matrix a, matrix b, float *c, size_t rows, size_t columns, size_t depth)
{
    const float one = 1, zero = 0;
    /* cuBLAS stores column after column: what it sees of ours is the transpose, and c^T = b^T a^T. */
    note_blas(net, cublasSgemm(net->blas, b.turned ? CUBLAS_OP_T : CUBLAS_OP_N, a.turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                               (int)columns, (int)rows, (int)depth, &one, b.elements, (int)b.columns, a.elements,
                               (int)a.columns, &zero, c, (int)columns));
}

/* A shard may be empty, a grid and a matrix may not. */
static int
nothing(mlp_gpu *net, size_t count, float *result, size_t results)
{
    if (count == 0)
        note(net, cudaMemsetAsync(result, 0, results * sizeof(float), net->stream));
    return count == 0;
}

void
mlp_gpu_forward(mlp_gpu *net, const float *x, size_t count)
{
    const mlp_tensors *p = &net->parameters;
    size_t activities = count * net->hidden;
    if (count == 0)
        return;
    multiply(net, {x, net->inputs, 0}, {p->w1, net->hidden, 0}, net->activity, count, net->hidden, net->inputs);
    add_bias_tanh<<<blocks(activities), THREADS, 0, net->stream>>>(net->activity, p->b1, activities, net->hidden);
    multiply(net, {net->activity, net->hidden, 0}, {p->w2, net->outputs, 0}, net->output, count, net->outputs,
             net->hidden);
    add_bias_softmax<<<blocks(count), THREADS, 0, net->stream>>>(net->output, p->b2, count, net->outputs);
    note(net, cudaGetLastError());
}

void
mlp_gpu_loss(mlp_gpu *net, const uint8_t *labels, size_t count, float scale)
{
    if (nothing(net, count, net->loss, 1))
        return;
    cross_entropy<<<blocks(count), THREADS, 0, net->stream>>>(net->output, labels, net->losses, count, net->outputs);
    sum_rows<<<1, THREADS, 0, net->stream>>>(net->losses, net->loss, scale, count, 1);
    note(net, cudaGetLastError());
}

void
mlp_gpu_backward_output(mlp_gpu *net, const uint8_t *labels, size_t count, float scale)
{
    mlp_tensors *g = &net->gradient;
    size_t errors = count * net->outputs;
    if (nothing(net, count, g->w2, net->hidden * net->outputs + net->outputs))
        return;
    output_error<<<blocks(errors), THREADS, 0, net->stream>>>(net->output, labels, scale, errors, net->outputs);
    multiply(net, {net->activity, net->hidden, 1}, {net->output, net->outputs, 0}, g->w2, net->hidden, net->outputs,
             count);
    sum_rows<<<blocks(net->outputs), THREADS, 0, net->stream>>>(net->output, g->b2, 1, count, net->outputs);
    note(net, cudaGetLastError());
}

void
mlp_gpu_backward_hidden(mlp_gpu *net, const float *x, size_t count)
{
    mlp_tensors *g = &net->gradient;
    size_t errors = count * net->hidden;
    if (nothing(net, count, g->w1, net->inputs * net->hidden + net->hidden))
        return;
    multiply(net, {net->output, net->outputs, 0}, {net->parameters.w2, net->outputs, 1}, net->delta, count, net->hidden,
             net->outputs);
    hidden_error<<<blocks(errors), THREADS, 0, net->stream>>>(net->delta, net->activity, errors);
    multiply(net, {x, net->inputs, 1}, {net->delta, net->hidden, 0}, g->w1, net->inputs, net->hidden, count);
    sum_rows<<<blocks(net->hidden), THREADS, 0, net->stream>>>(net->delta, g->b1, 1, count, net->hidden);
    note(net, cudaGetLastError());
}

void
mlp_gpu_update(mlp_gpu *net, size_t offset, size_t count, float rate, float momentum, float decay)
{
    float *p = net->parameters.all + offset, *v = net->velocity.all + offset;
    const float *g = net->gradient.all + offset;
    descend<<<blocks(count), THREADS, 0, net->stream>>>(p, v, g, count, rate, momentum, decay);
    note(net, cudaGetLastError());
}
