/* SPDX-License-Identifier: MIT */
/*
 * digits_elastic: digits.c for machines that vanish and come. When a rank is lost, the others go on without it. Before each
 * epoch they take in the processes that wait for a place.
 *
 *     hooprun -n 4 --elastic 1 digits_elastic
 *     hooprun -n 4 --elastic 2 --max-restarts 3 digits_elastic
 *     HOOP_JOIN=1 HOOP_RENDEZVOUS=host:port HOOP_JOB=name HOOP_SECRET_FILE=file digits_elastic
 *
 * Every rank takes a step only after its gradient has been averaged, in one operation, so that the state of a rank is that
 * after a whole number of steps. When an operation fails, the ranks that are left shrink the ring. One of them may have
 * completed a step that another has not: the one that is furthest gives its state to all. The batch that was lost with the
 * ring is then computed again, shared out over fewer ranks.
 */
#include "course.h"
#include "mlp.h"

#include <hoop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct trainer {
    course course;
    mlp net;
    size_t steps;    /* that are in `net` */
    long epoch;      /* whose order of images the course has */
    size_t grown;    /* the steps + 1 when all last asked who waits for a place */
    float *x;        /* this rank's shard of the batch: pixels ... */
    uint8_t *labels; /* ... and labels */
    float *state;    /* parameters, then velocity, on their way from one rank to the others */
} trainer;

static void
prepare(trainer *t)
{
    course *c = &t->course;
    size_t room = c->training + 1; /* this rank may be the last one */
    t->x = calloc(room, DATASET_PIXELS * sizeof(float));
    t->labels = calloc(room, 1);
    int lacking = !t->x || !t->labels ||
                  mlp_init(&t->net, DATASET_PIXELS, (size_t)c->hidden, DATASET_CLASSES, room, COURSE_SEED) != 0;
    t->state = lacking ? NULL : calloc(2 * t->net.parameters.count, sizeof(float));
    course_agree(c, !t->state ? "there is no memory for the network" : NULL);
}

/* --- after a loss --- */

/* The rank that is furthest gives its state to all. A rank takes it when it is complete: the giver may be lost, too. */
static hoop_result
catch_up(trainer *t)
{
    hoop_comm *comm = t->course.comm;
    size_t n = t->net.parameters.count, bytes = n * sizeof(float);
    int rank = t->course.rank, size = t->course.size, first;
    uint64_t most, mine = t->steps;
    hoop_result result = hoop_allreduce(&mine, &most, 1, HOOP_UINT64, HOOP_MAX, comm);
    int giver = mine == most ? rank : size;
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&giver, &first, 1, HOOP_INT32, HOOP_MIN, comm);
    if (result != HOOP_SUCCESS)
        return result;
    memcpy(t->state, t->net.parameters.all, bytes);
    memcpy(t->state + n, t->net.velocity.all, bytes);
    result = hoop_broadcast(t->state, t->state, 2 * n, HOOP_FLOAT32, first, comm);
    if (result != HOOP_SUCCESS)
        return result;
    memcpy(t->net.parameters.all, t->state, bytes);
    memcpy(t->net.velocity.all, t->state + n, bytes);
    t->steps = (size_t)most;
    t->grown = t->steps + 1; /* all ranks go on with a step */
    return HOOP_SUCCESS;
}

/* This ring instead of the one before. */
static void
use(course *c, hoop_comm *ring)
{
    hoop_comm_destroy(c->comm);
    c->comm = ring;
    c->rank = hoop_comm_rank(ring);
    c->size = hoop_comm_size(ring);
}

/* The ring has failed. Returns when a ring of the ranks that are left is up, and all are at one step. */
static void
go_on(trainer *t)
{
    course *c = &t->course;
    hoop_error error = {.size = sizeof(error)};
    do {
        hoop_comm *ring;
        hoop_comm_error(c->comm, &error);
        course_check(c, hoop_comm_shrink(c->comm, &ring)); /* it is refused if, say, this rank came too late */
        use(c, ring);
    } while (catch_up(t) != HOOP_SUCCESS);
    course_say(c, "after step %zu: %s; going on with %d rank%s\n", t->steps, error.text, c->size,
               c->size == 1 ? "" : "s");
}

/* Takes in those that wait, and gives them the state. */
static void
take_in(trainer *t)
{
    course *c = &t->course;
    hoop_comm *ring;
    t->grown = t->steps + 1;
    if (hoop_comm_grow(c->comm, &ring) != HOOP_SUCCESS) {
        go_on(t);
    } else if (ring != c->comm) {
        use(c, ring);
        if (catch_up(t) != HOOP_SUCCESS)
            go_on(t);
        course_say(c, "after step %zu: %d ranks\n", t->steps, c->size);
    }
}

/* --- one step --- */

/* Brings the course to the epoch of the next step. Returns where that step's batch begins, and how long it is. */
static size_t
turn_to(trainer *t, size_t *count)
{
    course *c = &t->course;
    size_t batch = (size_t)c->batch, in_epoch = (c->training + batch - 1) / batch;
    size_t first = t->steps % in_epoch * batch;
    while (t->epoch <= (long)(t->steps / in_epoch))
        course_begin(c, ++t->epoch);
    *count = course_batch(c, first);
    return t->epoch > c->epochs ? c->training : first;
}

/* Local sums are scaled by ranks / batch, so that their average is the mean over the batch, however unequal the shards are. */
static hoop_result
step(trainer *t, size_t first, size_t count)
{
    const course *c = &t->course;
    mlp *net = &t->net;
    mlp_tensors *p = &net->parameters, *g = &net->gradient;
    size_t mine = course_collect(c, first, count, t->x, t->labels);
    float scale = (float)c->size / (float)count;
    mlp_forward(net, t->x, mine);
    mlp_backward_output(net, t->labels, mine, scale);
    mlp_backward_hidden(net, t->x, mine);
    hoop_result result = hoop_allreduce(g->all, g->all, g->count, HOOP_FLOAT32, HOOP_AVG, c->comm);
    if (result != HOOP_SUCCESS)
        return result;
    mlp_update(net, 0, p->count, (float)c->rate, c->momentum, c->decay);
    t->steps++;
    return HOOP_SUCCESS;
}

static void
train(trainer *t)
{
    course *c = &t->course;
    for (size_t first, count; (first = turn_to(t, &count)) < c->training;)
        if (first == 0 && t->grown <= t->steps)
            take_in(t);
        else if (step(t, first, count) != HOOP_SUCCESS)
            go_on(t);
}

/* --- the end --- */

/* Every rank judges its share of the images that were held out; 1 if all ranks hold the same bits. */
static int
examine(trainer *t)
{
    const course *c = &t->course;
    const float *x;
    const uint8_t *labels;
    int identical;
    for (;; go_on(t)) {
        size_t count = course_exam(c, &x, &labels);
        mlp_forward(&t->net, x, count);
        if (course_grade(c, mlp_hits(&t->net, labels, count)) == HOOP_SUCCESS &&
            course_prove(c, t->net.parameters.all, t->net.parameters.count, &identical) == HOOP_SUCCESS)
            return identical;
    }
}

int
main(int argc, char **argv)
{
    trainer t = {0};
    course *c = &t.course;
    course_join(c, "digits_elastic", "As digits; when ranks are lost, those that are left go on.\n", argc, argv);
    course_share(c);
    prepare(&t);
    /* All ranks are ready: from here on those that are left when one is lost go on. One that is late gets the state. */
    if ((c->late ? catch_up(&t) : hoop_barrier(c->comm)) != HOOP_SUCCESS)
        go_on(&t);
    course_title(c, t.net.parameters.count);
    train(&t);
    int identical = examine(&t);
    mlp_free(&t.net);
    free(t.state);
    free(t.x);
    free(t.labels);
    course_leave(c);
    return identical ? 0 : 1;
}
