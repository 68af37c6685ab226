/* SPDX-License-Identifier: MIT */
/*
 * dataset: labelled images in memory, read from a CSV file with one image a line: its pixels, then its label.
 * Knows nothing of networks or of other ranks.
 */
#ifndef EXAMPLES_DATASET_H
#define EXAMPLES_DATASET_H

#include <stddef.h>
#include <stdint.h>

enum { DATASET_PIXELS = 64, DATASET_CLASSES = 10 };

typedef struct dataset {
    size_t count;
    float *pixels;   /* count x DATASET_PIXELS, 0 to 1 */
    uint8_t *labels; /* count */
} dataset;

/*
 * The file to read: `argument` where it is given, else $HOOP_DIGITS, else digits.csv beside the program, else where the
 * build left it. The answer is written to path and returned; NULL with a sentence in `why` when nothing can be read.
 */
const char *dataset_find(const char *argument, char *path, size_t path_size, char *why, size_t why_size);

/* Reads the file. 0, or -1 with a sentence in `why`. */
int dataset_read(dataset *set, const char *path, char *why, size_t why_size);

/* Makes room for `count` images. 0, or -1 when memory runs out. */
int dataset_alloc(dataset *set, size_t count);
void dataset_free(dataset *set);

#endif
