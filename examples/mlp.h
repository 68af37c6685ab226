/* SPDX-License-Identifier: MIT */
/*
 * mlp: a two-layer perceptron, inputs -> hidden (tanh) -> outputs (softmax), and the gradient of its
 * cross-entropy. One rank's arithmetic; it knows nothing of other ranks. The backward pass is split by layer, so that
 * the caller can send the output layer's gradient on its way before the hidden layer's is computed.
 */
#ifndef EXAMPLES_MLP_H
#define EXAMPLES_MLP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Views into one array of floats, so that all parameters are one tensor to broadcast, update or compare. */
typedef struct mlp_tensors {
    float *all;
    size_t count;
    float *w1, *b1, *w2, *b2; /* inputs x hidden, hidden, hidden x outputs, outputs */
} mlp_tensors;

/* Floats in all tensors together, and the views into an array of so many, wherever its memory lies. */
size_t mlp_tensors_count(size_t inputs, size_t hidden, size_t outputs);
mlp_tensors mlp_tensors_at(float *all, size_t inputs, size_t hidden, size_t outputs);

typedef struct mlp {
    size_t inputs, hidden, outputs;
    mlp_tensors parameters, gradient, velocity;
    size_t room;             /* samples that the scratch arrays below hold */
    float *activity, *delta; /* room x hidden */
    float *output;           /* room x outputs: probabilities, then their errors */
} mlp;

/* The same seed gives the same parameters everywhere. `room`: most samples in one call. 0, or -1 out of memory. */
int mlp_init(mlp *net, size_t inputs, size_t hidden, size_t outputs, size_t room, uint64_t seed);
void mlp_free(mlp *net);

/* Fills net->output with probabilities of `count` samples (rows of x). */
void mlp_forward(mlp *net, const float *x, size_t count);

/* After mlp_forward: sum over the samples of the cross-entropy. */
double mlp_loss(const mlp *net, const uint8_t *labels, size_t count);

/* After mlp_forward: how many samples are recognised. */
size_t mlp_hits(const mlp *net, const uint8_t *labels, size_t count);

/* Gradients of w2 and b2: `scale` times the sum over the samples. */
void mlp_backward_output(mlp *net, const uint8_t *labels, size_t count, float scale);

/* Gradients of w1 and b1; after mlp_backward_output. */
void mlp_backward_hidden(mlp *net, const float *x, size_t count);

/* One step of gradient descent with momentum on the `count` parameters that start at `offset`. */
void mlp_update(mlp *net, size_t offset, size_t count, float rate, float momentum, float decay);

#ifdef __cplusplus
}
#endif
#endif
