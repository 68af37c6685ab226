/* SPDX-License-Identifier: MIT */
/*
 * digits: trains a two-layer perceptron on real handwritten digits, synchronous data-parallel SGD over all ranks.
 *
 *     hooprun -n 4 digits
 *
 * Every rank computes the gradient of its shard of each batch; hoop averages the gradients layer by layer, while the
 * next layer's are still being computed; every rank then makes the same step, so that all hold the same parameters,
 * bit for bit. This file is the part between network (mlp.c) and data (course.c, dataset.c) that a program of yours
 * would have. digits_gpu.c is the same on a GPU.
 */
#include "course.h"
#include "mlp.h"

#include <hoop.h>
#include <math.h>
#include <stdlib.h>

typedef struct trainer {
    course course;
    mlp net;
    float *x;                                    /* this rank's shard of the batch: pixels ... */
    uint8_t *labels;                             /* ... and labels */
    float loss;                                  /* mean of the batch, once averaged over the ranks */
    double waiting;                              /* seconds of this batch spent in waits */
    double *waits;                               /* those of each batch of the epoch */
    enum { OVERLAPPED, AT_ONCE, SILENT } manner; /* how gradients are averaged; the last two only to be timed */
} trainer;

static void
check(const trainer *t, hoop_result result)
{
    course_check(&t->course, result);
}

static void
prepare(trainer *t)
{
    course *c = &t->course;
    size_t room = course_most(c);
    t->x = calloc(room, DATASET_PIXELS * sizeof(float));
    t->labels = calloc(room, 1);
    t->waits = calloc(c->training, sizeof(*t->waits));
    int lacking = !t->x || !t->labels || !t->waits ||
                  mlp_init(&t->net, DATASET_PIXELS, (size_t)c->hidden, DATASET_CLASSES, room, COURSE_SEED) != 0;
    course_agree(c, lacking ? "there is no memory for the network" : NULL);
    /* Equal seeds would do here; a program that loads a checkpoint on rank 0 needs exactly this line. */
    mlp_tensors *p = &t->net.parameters;
    check(t, hoop_broadcast(p->all, p->all, p->count, HOOP_FLOAT32, 0, c->comm));
}

static void
wait_for(trainer *t, hoop_work *work)
{
    double start = course_now();
    if (!work)
        return;
    check(t, hoop_work_wait(work, -1));
    t->waiting += course_now() - start;
}

/* NULL stands for an average that has been made, or is not to be made. */
static hoop_work *
started(trainer *t, hoop_work *work)
{
    if (t->manner == OVERLAPPED)
        return work;
    wait_for(t, work);
    return NULL;
}

static hoop_work *
average(trainer *t, float *gradient, size_t count)
{
    hoop_work *work;
    if (t->manner == SILENT)
        return NULL;
    check(t, hoop_iallreduce(gradient, gradient, count, HOOP_FLOAT32, HOOP_AVG, t->course.comm, &work));
    return started(t, work);
}

/* The small tensors travel together: three calls, one pass round the ring. */
static hoop_work *
average_small(trainer *t)
{
    mlp *net = &t->net;
    hoop_comm *comm = t->course.comm;
    float *b1 = net->gradient.b1, *b2 = net->gradient.b2;
    hoop_work *work;
    if (t->manner == SILENT)
        return NULL;
    check(t, hoop_group_start(comm));
    check(t, hoop_allreduce(b2, b2, net->outputs, HOOP_FLOAT32, HOOP_AVG, comm));
    check(t, hoop_allreduce(b1, b1, net->hidden, HOOP_FLOAT32, HOOP_AVG, comm));
    check(t, hoop_allreduce(&t->loss, &t->loss, 1, HOOP_FLOAT32, HOOP_AVG, comm));
    check(t, hoop_igroup_end(comm, &work));
    return started(t, work);
}

/* The step is linear in the gradient, so a layer can be updated as soon as its own gradient is there. */
static void
update(trainer *t, const float *parameters, size_t count)
{
    const course *c = &t->course;
    mlp_update(&t->net, (size_t)(parameters - t->net.parameters.all), count, (float)c->rate, c->momentum, c->decay);
}

/*
 * One step on a global batch. Local sums are scaled by ranks / batch, so that the average over the ranks is the mean
 * over the batch, however unequal the shards are.
 */
static void
train_batch(trainer *t, size_t first, size_t count)
{
    mlp *net = &t->net;
    mlp_tensors *p = &net->parameters, *g = &net->gradient;
    size_t w1 = net->inputs * net->hidden, w2 = net->hidden * net->outputs;
    size_t mine = course_collect(&t->course, first, count, t->x, t->labels);
    float scale = (float)t->course.size / (float)count;
    mlp_forward(net, t->x, mine);
    t->loss = scale * (float)mlp_loss(net, t->labels, mine);
    mlp_backward_output(net, t->labels, mine, scale);
    hoop_work *output = average(t, g->w2, w2); /* on its way while the hidden layer's gradient is computed */
    mlp_backward_hidden(net, t->x, mine);
    hoop_work *hidden = average(t, g->w1, w1);
    hoop_work *small = average_small(t);
    wait_for(t, output);
    update(t, p->w2, w2); /* while the hidden layer's gradient is on its way */
    wait_for(t, hidden);
    update(t, p->w1, w1);
    wait_for(t, small);
    update(t, p->b1, net->hidden);
    update(t, p->b2, net->outputs);
}

/*
 * Where an epoch's time has gone, the ranks' mean. In each batch the rank that is last with its gradients waits least:
 * that is what the communication itself takes, and whatever others wait beyond it, they wait for that rank.
 */
static void
tell_shares(trainer *t, double seconds, size_t batches)
{
    double waiting = 0, communication = 0;
    hoop_comm *comm = t->course.comm;
    for (size_t i = 0; i < batches; i++)
        waiting += t->waits[i];
    check(t, hoop_allreduce(&waiting, &waiting, 1, HOOP_FLOAT64, HOOP_AVG, comm));
    check(t, hoop_allreduce(t->waits, t->waits, batches, HOOP_FLOAT64, HOOP_MIN, comm));
    for (size_t i = 0; i < batches; i++)
        communication += t->waits[i];
    course_say(&t->course, "  %7.1f %%  %21.1f %%  %11.1f %%\n", 100 * (1 - waiting / seconds),
               100 * (waiting - communication) / seconds, 100 * communication / seconds);
}

static void
train_epoch(trainer *t, long epoch)
{
    course *c = &t->course;
    double start = course_now(), loss = 0;
    size_t batches = 0;
    course_begin(c, epoch);
    for (size_t first = 0, count; (count = course_batch(c, first)) > 0; first += count) {
        t->waiting = 0;
        train_batch(t, first, count);
        t->waits[batches++] = t->waiting;
        loss += (double)t->loss * (double)count;
    }
    double seconds = course_now() - start;
    course_say(c, "%5ld  %10.7f  %9.0f", epoch, loss / (double)c->training, (double)c->training / seconds);
    tell_shares(t, seconds, batches);
}

/* Every rank judges its share of the images that were held out. */
static void
evaluate(trainer *t)
{
    const float *x;
    const uint8_t *labels;
    size_t count = course_exam(&t->course, &x, &labels);
    mlp_forward(&t->net, x, count);
    check(t, course_grade(&t->course, mlp_hits(&t->net, labels, count)));
}

/* Seconds that the slowest rank needs for a batch; what is learned meanwhile is of no interest any more. */
static double
time_manner(trainer *t, int manner)
{
    course *c = &t->course;
    size_t batches = 0;
    t->manner = manner;
    check(t, hoop_barrier(c->comm));
    double start = course_now();
    for (size_t first = 0, count; (count = course_batch(c, first)) > 0; first += count, batches++)
        train_batch(t, first, count);
    double seconds = (course_now() - start) / (double)batches;
    check(t, hoop_allreduce(&seconds, &seconds, 1, HOOP_FLOAT64, HOOP_MAX, c->comm));
    return seconds;
}

/*
 * How much of the communication is hidden behind computing: what overlapping saves, of what communication costs when
 * all computing waits for it. The three are timed in turns, and the best of each counts.
 */
static void
tell_overlap(trainer *t)
{
    enum { TURNS = 15 };
    double best[3] = {INFINITY, INFINITY, INFINITY};
    for (int turn = 0; turn < 3 * TURNS; turn++)
        best[turn % 3] = fmin(best[turn % 3], time_manner(t, turn % 3));
    double cost = best[AT_ONCE] - best[SILENT], saved = best[AT_ONCE] - best[OVERLAPPED];
    course_say(
        &t->course,
        "overlap: a batch takes %.0f us, waiting for each average at once %.0f us, without communication %.0f us: ",
        1e6 * best[OVERLAPPED], 1e6 * best[AT_ONCE], 1e6 * best[SILENT]);
    course_say(&t->course, "%.0f %% of the communication hidden\n", cost > 0 ? 100 * saved / cost : 0.0);
}

int
main(int argc, char **argv)
{
    trainer t = {0};
    course *c = &t.course;
    course_join(c, "digits",
                "Trains a two-layer perceptron on 1,797 handwritten digits, data-parallel over all ranks.\n", argc,
                argv);
    course_share(c);
    prepare(&t);
    course_title(c, t.net.parameters.count);
    course_say(c, "epoch        loss  samples/s  computing  waiting for the slowest  communicating\n");
    for (long epoch = 1; epoch <= c->epochs; epoch++)
        train_epoch(&t, epoch);
    evaluate(&t);
    int identical;
    course_check(c, course_prove(c, t.net.parameters.all, t.net.parameters.count, &identical));
    if (c->overlap)
        tell_overlap(&t);
    mlp_free(&t.net);
    free(t.waits);
    free(t.x);
    free(t.labels);
    course_leave(c);
    return identical ? 0 : 1;
}
