/* SPDX-License-Identifier: MIT */
/*
 * mlp: plain loops over plain arrays. Sums over samples run in sample order, so that one rank's arithmetic is the same
 * on every run. All memory is taken in mlp_init; nothing is allocated while training.
 */
#include "mlp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t
mlp_tensors_count(size_t inputs, size_t hidden, size_t outputs)
{
    return inputs * hidden + hidden + hidden * outputs + outputs;
}

mlp_tensors
mlp_tensors_at(float *all, size_t inputs, size_t hidden, size_t outputs)
{
    mlp_tensors t = {.all = all, .count = mlp_tensors_count(inputs, hidden, outputs)};
    t.w1 = all;
    t.b1 = t.w1 + inputs * hidden;
    t.w2 = t.b1 + hidden;
    t.b2 = t.w2 + hidden * outputs;
    return t;
}

static int
tensors_init(mlp_tensors *t, size_t inputs, size_t hidden, size_t outputs)
{
    float *all = calloc(mlp_tensors_count(inputs, hidden, outputs), sizeof(float));
    if (!all)
        return -1;
    *t = mlp_tensors_at(all, inputs, hidden, outputs);
    return 0;
}

/* Uniform in -1 to 1, from a small generator of our own: the same on every machine. */
static float
uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(*state >> 40) / (float)(1 << 23) - 1.0F;
}

static void
fill_uniform(float *weights, size_t count, float reach, uint64_t *state)
{
    for (size_t i = 0; i < count; i++)
        weights[i] = reach * uniform(state);
}

int
mlp_init(mlp *net, size_t inputs, size_t hidden, size_t outputs, size_t room, uint64_t seed)
{
    *net = (mlp){.inputs = inputs, .hidden = hidden, .outputs = outputs, .room = room};
    net->activity = calloc(room, hidden * sizeof(float));
    net->delta = calloc(room, hidden * sizeof(float));
    net->output = calloc(room, outputs * sizeof(float));
    if (!net->activity || !net->delta || !net->output || tensors_init(&net->parameters, inputs, hidden, outputs) != 0 ||
        tensors_init(&net->gradient, inputs, hidden, outputs) != 0 ||
        tensors_init(&net->velocity, inputs, hidden, outputs) != 0) {
        mlp_free(net);
        return -1;
    }
    /* Glorot's reach; twice that below, because most pixels of a digit are empty. */
    fill_uniform(net->parameters.w1, inputs * hidden, 2 * sqrtf(6.0F / (float)(inputs + hidden)), &seed);
    fill_uniform(net->parameters.w2, hidden * outputs, sqrtf(6.0F / (float)(hidden + outputs)), &seed);
    return 0;
}

void
mlp_free(mlp *net)
{
    free(net->activity);
    free(net->delta);
    free(net->output);
    free(net->parameters.all);
    free(net->gradient.all);
    free(net->velocity.all);
    *net = (mlp){0};
}

/* y = x w + b for one row; w is inputs x outputs. */
static void
affine(const float *x, const float *w, const float *b, float *y, size_t inputs, size_t outputs)
{
    memcpy(y, b, outputs * sizeof(float));
    for (size_t i = 0; i < inputs; i++)
        for (size_t o = 0; o < outputs; o++)
            y[o] += x[i] * w[i * outputs + o];
}

static void
softmax(float *y, size_t count)
{
    float top = y[0], sum = 0;
    for (size_t i = 1; i < count; i++)
        top = y[i] > top ? y[i] : top;
    for (size_t i = 0; i < count; i++)
        sum += y[i] = expf(y[i] - top);
    for (size_t i = 0; i < count; i++)
        y[i] /= sum;
}

void
mlp_forward(mlp *net, const float *x, size_t count)
{
    const mlp_tensors *p = &net->parameters;
    for (size_t s = 0; s < count; s++) {
        float *h = net->activity + s * net->hidden, *y = net->output + s * net->outputs;
        affine(x + s * net->inputs, p->w1, p->b1, h, net->inputs, net->hidden);
        for (size_t i = 0; i < net->hidden; i++)
            h[i] = tanhf(h[i]);
        affine(h, p->w2, p->b2, y, net->hidden, net->outputs);
        softmax(y, net->outputs);
    }
}

double
mlp_loss(const mlp *net, const uint8_t *labels, size_t count)
{
    double loss = 0;
    for (size_t s = 0; s < count; s++)
        loss -= log((double)net->output[s * net->outputs + labels[s]] + 1e-30);
    return loss;
}

size_t
mlp_hits(const mlp *net, const uint8_t *labels, size_t count)
{
    size_t hits = 0;
    for (size_t s = 0; s < count; s++) {
        const float *y = net->output + s * net->outputs;
        size_t best = 0;
        for (size_t i = 1; i < net->outputs; i++)
            best = y[i] > y[best] ? i : best;
        hits += best == labels[s];
    }
    return hits;
}

/* gw += x^T e and gb += e for one sample. */
static void
accumulate(const float *x, const float *e, float *gw, float *gb, size_t inputs, size_t outputs)
{
    for (size_t i = 0; i < inputs; i++)
        for (size_t o = 0; o < outputs; o++)
            gw[i * outputs + o] += x[i] * e[o];
    for (size_t o = 0; o < outputs; o++)
        gb[o] += e[o];
}

void
mlp_backward_output(mlp *net, const uint8_t *labels, size_t count, float scale)
{
    mlp_tensors *g = &net->gradient;
    memset(g->w2, 0, net->hidden * net->outputs * sizeof(float));
    memset(g->b2, 0, net->outputs * sizeof(float));
    for (size_t s = 0; s < count; s++) {
        float *e = net->output + s * net->outputs;
        e[labels[s]] -= 1.0F;
        for (size_t o = 0; o < net->outputs; o++)
            e[o] *= scale;
        accumulate(net->activity + s * net->hidden, e, g->w2, g->b2, net->hidden, net->outputs);
    }
}

void
mlp_backward_hidden(mlp *net, const float *x, size_t count)
{
    mlp_tensors *g = &net->gradient;
    memset(g->w1, 0, net->inputs * net->hidden * sizeof(float));
    memset(g->b1, 0, net->hidden * sizeof(float));
    for (size_t s = 0; s < count; s++) {
        const float *e = net->output + s * net->outputs, *h = net->activity + s * net->hidden;
        float *d = net->delta + s * net->hidden;
        for (size_t i = 0; i < net->hidden; i++) {
            float back = 0;
            for (size_t o = 0; o < net->outputs; o++)
                back += net->parameters.w2[i * net->outputs + o] * e[o];
            d[i] = back * (1.0F - h[i] * h[i]);
        }
        accumulate(x + s * net->inputs, d, g->w1, g->b1, net->inputs, net->hidden);
    }
}

void
mlp_update(mlp *net, size_t offset, size_t count, float rate, float momentum, float decay)
{
    float *p = net->parameters.all + offset, *v = net->velocity.all + offset;
    const float *g = net->gradient.all + offset;
    for (size_t i = 0; i < count; i++) {
        v[i] = momentum * v[i] - rate * (g[i] + decay * p[i]);
        p[i] += v[i];
    }
}
