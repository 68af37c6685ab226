/* SPDX-License-Identifier: MIT */
/*
 * mlp_gpu: the perceptron of mlp.h with its parameters, its gradient and its arithmetic on a GPU. Like mlp it knows
 * nothing of other ranks. Every call but init and free only puts work into the network's stream; arrays are in the
 * GPU's memory unless they are said to be the host's. What fails first is kept in `error`, and the caller looks there.
 */
#ifndef EXAMPLES_MLP_GPU_H
#define EXAMPLES_MLP_GPU_H

#include "mlp.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mlp_gpu {
    size_t inputs, hidden, outputs;
    mlp_tensors parameters, gradient, velocity;
    float *loss;             /* one float, right behind the gradient, so that it can travel with it */
    float *activity, *delta; /* room x hidden, for as many samples as there is room */
    float *output, *losses;  /* room x outputs: probabilities, then their errors; room */
    cudaStream_t stream;
    cublasHandle_t blas;
    const char *error; /* of CUDA or cuBLAS, or NULL */
} mlp_gpu;

/* On the current GPU. All parameters are 0. 0, or -1 with net->error set; free takes what there is, in either case. */
int mlp_gpu_init(mlp_gpu *net, size_t inputs, size_t hidden, size_t outputs, size_t room, cudaStream_t stream);
void mlp_gpu_free(mlp_gpu *net);

/* Training starts anew: with parameters from host memory, which must last until the stream has come by, or all 0 (NULL). */
void mlp_gpu_load(mlp_gpu *net, const float *host);

/* Those of mlp.h; `loss` gets `scale` times what mlp_loss returns. */
void mlp_gpu_forward(mlp_gpu *net, const float *x, size_t count);
void mlp_gpu_loss(mlp_gpu *net, const uint8_t *labels, size_t count, float scale);
void mlp_gpu_backward_output(mlp_gpu *net, const uint8_t *labels, size_t count, float scale);
void mlp_gpu_backward_hidden(mlp_gpu *net, const float *x, size_t count);
void mlp_gpu_update(mlp_gpu *net, size_t offset, size_t count, float rate, float momentum, float decay);

#ifdef __cplusplus
}
#endif
#endif
