/* SPDX-License-Identifier: MIT */
/*
 * digits_gpu: the training of digits.c with parameters, gradients and arithmetic on a GPU, and hoop in stream order.
 *
 *     hooprun -n 4 digits_gpu
 *
 * Work is put into two streams, and events say what waits for what:
 *
 *     compute   forward, output layer's gradient | hidden layer's gradient | step of output | step of hidden
 *     ring                                       | mean of output's gradient | mean of hidden's gradient
 *
 * The host waits for none of it: it distorts the images of the next batch meanwhile, and looks at losses once an epoch.
 * Ranks of a host share its GPUs, if need be several one GPU.
 */
#include "course.h"
#include "mlp.h"
#include "mlp_gpu.h"

#include <cuda_runtime.h>
#include <hoop.h>
#include <stdio.h>
#include <stdlib.h>

/* A stretch of the parameters that is averaged and updated at once. */
typedef struct layer {
    size_t first, count;
    cudaEvent_t computed, averaged; /* its gradient on this rank; the mean of all ranks' */
} layer;

/* A shard of a batch in pinned host memory, on its way to the GPU. */
typedef struct parcel {
    float *x;
    uint8_t *labels;
    cudaEvent_t sent;
} parcel;

typedef struct trainer {
    course course;
    mlp net;     /* the host's: parameters at the start and in the end */
    mlp_gpu gpu; /* the one that learns */
    cudaStream_t compute, ring;
    layer output, hidden;
    parcel parcels[2]; /* one is filled while the other is sent */
    unsigned turn;     /* whose */
    float *x;          /* this rank's shard of the batch, on the GPU: pixels ... */
    uint8_t *labels;   /* ... and labels */
    float *losses;     /* pinned: the mean loss of each batch of an epoch */
} trainer;

static void
check(const trainer *t, hoop_result result)
{
    course_check(&t->course, result);
}

/* A rank whose GPU fails ends all: the others would wait for it. */
static void
need(const trainer *t, cudaError_t result)
{
    if (result != cudaSuccess)
        course_abandon(&t->course, cudaGetErrorString(result));
    if (t->gpu.error)
        course_abandon(&t->course, t->gpu.error);
}

/* --- before --- */

static void
take_gpu(trainer *t)
{
    char why[256];
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result == cudaSuccess)
        result = count > 0 ? cudaSetDevice(hoop_comm_local_rank(t->course.comm) % count) : cudaErrorNoDevice;
    snprintf(why, sizeof(why), "no GPU here (CUDA says: %s); digits is the same training on CPUs",
             cudaGetErrorString(result));
    course_agree(&t->course, result == cudaSuccess ? NULL : why);
}

static void
open_layer(trainer *t, layer *l, size_t first, size_t count)
{
    l->first = first;
    l->count = count;
    need(t, cudaEventCreateWithFlags(&l->computed, cudaEventDisableTiming));
    need(t, cudaEventCreateWithFlags(&l->averaged, cudaEventDisableTiming));
}

static void
open_parcel(trainer *t, parcel *p, size_t room)
{
    need(t, cudaMallocHost((void **)&p->x, room * DATASET_PIXELS * sizeof(float)));
    need(t, cudaMallocHost((void **)&p->labels, room));
    need(t, cudaEventCreateWithFlags(&p->sent, cudaEventDisableTiming));
}

static void
prepare(trainer *t)
{
    course *c = &t->course;
    size_t room = course_most(c), hidden = (size_t)c->hidden;
    int lacking = mlp_init(&t->net, DATASET_PIXELS, hidden, DATASET_CLASSES, room, COURSE_SEED) != 0;
    course_agree(c, lacking ? "there is no memory for the network" : NULL);
    need(t, cudaStreamCreateWithFlags(&t->compute, cudaStreamNonBlocking));
    need(t, cudaStreamCreateWithFlags(&t->ring, cudaStreamNonBlocking));
    mlp_gpu_init(&t->gpu, DATASET_PIXELS, hidden, DATASET_CLASSES, room, t->compute);
    need(t, cudaMalloc((void **)&t->x, room * DATASET_PIXELS * sizeof(float)));
    need(t, cudaMalloc((void **)&t->labels, room));
    need(t, cudaMallocHost((void **)&t->losses, c->training * sizeof(float)));
    for (int i = 0; i < 2; i++)
        open_parcel(t, &t->parcels[i], room);
    size_t below = DATASET_PIXELS * hidden + hidden;
    open_layer(t, &t->hidden, 0, below);
    open_layer(t, &t->output, below, t->net.parameters.count - below);
}

/* --- a step --- */

/* Sends this rank's shard of a batch to the GPU; returns how many images it has. */
static size_t
fetch(trainer *t, size_t first, size_t count)
{
    parcel *p = &t->parcels[t->turn++ % 2];
    need(t, cudaEventSynchronize(p->sent)); /* two batches ago; no other wait in an epoch */
    size_t mine = course_collect(&t->course, first, count, p->x, p->labels);
    size_t bytes = mine * DATASET_PIXELS * sizeof(float);
    need(t, cudaMemcpyAsync(t->x, p->x, bytes, cudaMemcpyHostToDevice, t->compute));
    need(t, cudaMemcpyAsync(t->labels, p->labels, mine, cudaMemcpyHostToDevice, t->compute));
    need(t, cudaEventRecord(p->sent, t->compute));
    return mine;
}

/* Local sums are scaled by ranks / batch: the average over the ranks is the mean over the batch, as in digits.c. */
static void
output_gradient(trainer *t, size_t mine, size_t count)
{
    float scale = (float)t->course.size / (float)count;
    mlp_gpu_forward(&t->gpu, t->x, mine);
    mlp_gpu_loss(&t->gpu, t->labels, mine, scale);
    mlp_gpu_backward_output(&t->gpu, t->labels, mine, scale);
}

/*
 * What `compute` holds so far is waited for by `ring`, which averages; `compute` goes on meanwhile. `extra` floats
 * behind the layer's gradient go with it.
 */
static void
average(trainer *t, const layer *l, size_t extra)
{
    float *gradient = t->gpu.gradient.all + l->first;
    need(t, cudaEventRecord(l->computed, t->compute));
    need(t, cudaStreamWaitEvent(t->ring, l->computed, 0));
    check(t, hoop_allreduce_on_stream(gradient, gradient, l->count + extra, HOOP_FLOAT32, HOOP_AVG, t->course.comm,
                                      t->ring));
    need(t, cudaEventRecord(l->averaged, t->ring));
}

static void
update(trainer *t, const layer *l)
{
    const course *c = &t->course;
    mlp_gpu_update(&t->gpu, l->first, l->count, (float)c->rate, c->momentum, c->decay);
}

static void
train_batch(trainer *t, size_t first, size_t count, float *loss)
{
    size_t mine = fetch(t, first, count);
    output_gradient(t, mine, count);
    average(t, &t->output, 1); /* with the loss; on its way while the hidden layer's gradient is computed */
    mlp_gpu_backward_hidden(&t->gpu, t->x, mine);
    average(t, &t->hidden, 0);
    need(t, cudaStreamWaitEvent(t->compute, t->output.averaged, 0));
    need(t, cudaMemcpyAsync(loss, t->gpu.loss, sizeof(*loss), cudaMemcpyDeviceToHost, t->compute));
    update(t, &t->output); /* while the hidden layer's gradient is on its way */
    need(t, cudaStreamWaitEvent(t->compute, t->hidden.averaged, 0));
    update(t, &t->hidden);
}

/*
 * CUDA loads a kernel when it is first launched, and may hold all of the GPU's work and its driver until that is done.
 * A stream that waits for other ranks then would wait for ever. So all that training will launch is launched before
 * there is such a stream: for the first and for the last batch of an epoch, as cuBLAS chooses kernels by size.
 */
static void
rehearse(trainer *t)
{
    course *c = &t->course;
    size_t batch = course_batch(c, 0), firsts[] = {0, (c->training - 1) / batch * batch};
    for (int i = 0; i < 2; i++) {
        size_t count = course_batch(c, firsts[i]), mine = fetch(t, firsts[i], count);
        output_gradient(t, mine, count);
        mlp_gpu_backward_hidden(&t->gpu, t->x, mine);
        update(t, &t->output);
        update(t, &t->hidden);
    }
    need(t, cudaStreamSynchronize(t->compute));
}

/* Rank 0's parameters go to its GPU, and from there to all others'. */
static void
share_parameters(trainer *t)
{
    mlp_tensors *p = &t->gpu.parameters;
    mlp_gpu_load(&t->gpu, t->course.rank == 0 ? t->net.parameters.all : NULL);
    check(t, hoop_broadcast_on_stream(p->all, p->all, p->count, HOOP_FLOAT32, 0, t->course.comm, t->compute));
}

static void
train_epoch(trainer *t, long epoch)
{
    course *c = &t->course;
    double start = course_now(), loss = 0;
    size_t batch = 0;
    course_begin(c, epoch);
    for (size_t first = 0, count; (count = course_batch(c, first)) > 0; first += count)
        train_batch(t, first, count, &t->losses[batch++]);
    need(t, cudaStreamSynchronize(t->compute));
    batch = 0;
    for (size_t first = 0, count; (count = course_batch(c, first)) > 0; first += count)
        loss += (double)t->losses[batch++] * (double)count;
    double seconds = course_now() - start;
    course_say(c, "%5ld  %10.7f  %9.0f\n", epoch, loss / (double)c->training, (double)c->training / seconds);
}

/* --- after --- */

/* Probabilities and parameters come back to the host, which counts what was recognised and compares bits. */
static int
evaluate(trainer *t)
{
    const float *x;
    const uint8_t *labels;
    int identical;
    mlp *net = &t->net;
    size_t count = course_exam(&t->course, &x, &labels), parameters = net->parameters.count;
    need(t, cudaMemcpyAsync(t->x, x, count * DATASET_PIXELS * sizeof(float), cudaMemcpyHostToDevice, t->compute));
    mlp_gpu_forward(&t->gpu, t->x, count);
    need(t, cudaMemcpyAsync(net->output, t->gpu.output, count * net->outputs * sizeof(float), cudaMemcpyDeviceToHost,
                            t->compute));
    need(t, cudaMemcpyAsync(net->parameters.all, t->gpu.parameters.all, parameters * sizeof(float),
                            cudaMemcpyDeviceToHost, t->compute));
    need(t, cudaStreamSynchronize(t->compute));
    course_check(&t->course, course_grade(&t->course, mlp_hits(net, labels, count)));
    course_check(&t->course, course_prove(&t->course, net->parameters.all, parameters, &identical));
    return identical;
}

static void
close_layer(layer *l)
{
    cudaEventDestroy(l->computed);
    cudaEventDestroy(l->averaged);
}

static void
give_back(trainer *t)
{
    mlp_gpu_free(&t->gpu);
    mlp_free(&t->net);
    cudaFree(t->x);
    cudaFree(t->labels);
    cudaFreeHost(t->losses);
    for (int i = 0; i < 2; i++) {
        cudaFreeHost(t->parcels[i].x);
        cudaFreeHost(t->parcels[i].labels);
        cudaEventDestroy(t->parcels[i].sent);
    }
    close_layer(&t->output);
    close_layer(&t->hidden);
    cudaStreamDestroy(t->compute);
    cudaStreamDestroy(t->ring);
}

int
main(int argc, char **argv)
{
    trainer t = {0};
    course *c = &t.course;
    course_join(
        c, "digits_gpu",
        "Trains a two-layer perceptron on 1,797 handwritten digits, data-parallel over all ranks, on NVIDIA GPUs.\n",
        argc, argv);
    course_agree(c, c->overlap ? "--overlap is an option of digits only" : NULL);
    take_gpu(&t);
    course_share(c);
    prepare(&t);
    rehearse(&t);
    share_parameters(&t);
    course_title(c, t.net.parameters.count);
    course_say(c, "epoch        loss  samples/s\n");
    for (long epoch = 1; epoch <= c->epochs; epoch++)
        train_epoch(&t, epoch);
    int identical = evaluate(&t);
    course_leave(c);
    give_back(&t);
    return identical ? 0 : 1;
}
