/* SPDX-License-Identifier: MIT */
/*
 * course: what the training programs of this folder share, whatever they compute on: options, the images and their
 * order, one voice for all ranks, the exam and the proof at the end. Knows nothing of networks; digits.c and
 * digits_gpu.c bring theirs, and the steps.
 */
#ifndef EXAMPLES_COURSE_H
#define EXAMPLES_COURSE_H

#include "dataset.h"

#include <hoop.h>

enum { COURSE_SEED = 20 };

typedef struct course {
    const char *program; /* what it is called, in --help and in errors */
    hoop_comm *comm;
    int rank, size;
    int late;                   /* it has joined a ring that was at work: the others are elsewhere (digits_elastic) */
    long epochs, batch, hidden; /* options */
    int overlap;                /* tell at the end how much of the communication was hidden */
    double first_rate;
    const char *data;
    float momentum, decay; /* of the descent */
    dataset images;
    size_t training; /* the first `training` images are learned from, the others held out */
    size_t *order;   /* the images of an epoch, shuffled: the same on every rank */
    uint64_t random; /* state of the shuffle, another one every epoch */
    double rate;     /* learning rate of this epoch */
} course;

/* Reads the options (--help prints `what`, a line or two, and them) and joins the ring. */
void course_join(course *c, const char *program, const char *what, int argc, char **argv);

/* Rank 0 reads the images and broadcasts them: the file need not be on every host. One that is late reads them itself. */
void course_share(course *c);

/* What is learned from, by how many. */
void course_title(const course *c, size_t parameters);

/* Gives memory back and leaves the ring. */
void course_leave(course *c);

/* Rank 0 prints, the others are silent. */
void course_say(const course *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends the program with hoop's sentence if the result is an error. */
void course_check(const course *c, hoop_result result);

/*
 * All ranks call, with a sentence where something is wrong, else with NULL. If anybody has one, the first such rank says
 * it and all leave: nobody waits for a rank that cannot go on. One that is late decides alone.
 */
void course_agree(course *c, const char *sentence);

/* This rank alone is in trouble, at any time: the others learn why and end too. */
void course_abandon(const course *c, const char *sentence);

/* A new order of the images and this epoch's learning rate. Epochs count from 1. */
void course_begin(course *c, long epoch);

/* How many images the batch that begins at order[first] has; 0 at the end of the epoch. */
size_t course_batch(const course *c, size_t first);

/* This rank's shard of a batch, each image distorted, written to x and labels; returns how many it has. */
size_t course_collect(const course *c, size_t first, size_t count, float *x, uint8_t *labels);

/* Most images that a rank computes on at once: its shard of a batch or of the exam. */
size_t course_most(const course *c);

/* This rank's share of the images that were held out; returns how many there are. */
size_t course_exam(const course *c, const float **x, const uint8_t **labels);

/* All ranks call, with how many of those they recognised: the accuracy is said. An error: the ring has failed. */
hoop_result course_grade(const course *c, uint64_t hits);

/* *identical: whether all ranks hold the same bits in `values`, which is said. An error: the ring has failed. */
hoop_result course_prove(const course *c, const float *values, size_t count, int *identical);

double course_now(void); /* seconds */

#endif
