/* SPDX-License-Identifier: MIT */
/*
 * dataset: finds and reads a CSV file of small images. Each line has 64 pixels of 0 to 16 and a label of 0 to 9; any
 * other line is an error that names the file and the line. The caller owns the set and frees it.
 */
#include "dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef DIGITS_DATA
#define DIGITS_DATA "digits.csv"
#endif

enum { LINE_MAX_BYTES = 1024, DEEPEST_PIXEL = 16 };

/* digits.csv in the folder of the running program. */
static const char *
beside_program(char *path, size_t size)
{
    const char *name = "/digits.csv";
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length < 0)
        return NULL;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) + strlen(name) >= size)
        return NULL;
    memcpy(slash, name, strlen(name) + 1);
    return path;
}

const char *
dataset_find(const char *argument, char *path, size_t path_size, char *why, size_t why_size)
{
    const char *asked = argument ? argument : getenv("HOOP_DIGITS");
    if (asked) {
        snprintf(path, path_size, "%s", asked);
        if (access(path, R_OK) == 0)
            return path;
        snprintf(why, why_size, "cannot read the images in %s, named by %s: %s", asked,
                 argument ? "--data" : "HOOP_DIGITS", strerror(errno));
        return NULL;
    }
    if (beside_program(path, path_size) && access(path, R_OK) == 0)
        return path;
    snprintf(path, path_size, "%s", DIGITS_DATA);
    if (access(path, R_OK) == 0)
        return path;
    snprintf(why, why_size,
             "the images, digits.csv, are neither beside the program nor at %s: name the file with --data FILE or in "
             "HOOP_DIGITS",
             DIGITS_DATA);
    return NULL;
}

int
dataset_alloc(dataset *set, size_t count)
{
    set->count = count;
    set->pixels = calloc(count, DATASET_PIXELS * sizeof(float));
    set->labels = calloc(count, 1);
    if (set->pixels && set->labels)
        return 0;
    dataset_free(set);
    return -1;
}

void
dataset_free(dataset *set)
{
    free(set->pixels);
    free(set->labels);
    *set = (dataset){0};
}

/* One number of 0 to `most`, followed by `end`. Returns where to go on, or NULL. */
static const char *
take_number(const char *text, long most, char end, long *number)
{
    char *rest;
    if (*text < '0' || *text > '9')
        return NULL;
    *number = strtol(text, &rest, 10);
    if (*number > most || *rest != end)
        return NULL;
    return rest + 1;
}

static int
parse_line(const char *line, float *pixels, uint8_t *label)
{
    long number;
    for (int i = 0; i < DATASET_PIXELS; i++) {
        line = take_number(line, DEEPEST_PIXEL, ',', &number);
        if (!line)
            return -1;
        pixels[i] = (float)number / (float)DEEPEST_PIXEL;
    }
    if (!take_number(line, DATASET_CLASSES - 1, '\0', &number))
        return -1;
    *label = (uint8_t)number;
    return 0;
}

/* The next line without its end: 1, or 0 at the end of the file. */
static int
next_line(FILE *file, char *line, int size)
{
    if (!fgets(line, size, file))
        return 0;
    line[strcspn(line, "\r\n")] = '\0';
    return 1;
}

static size_t
count_lines(FILE *file)
{
    char line[LINE_MAX_BYTES];
    size_t count = 0;
    while (next_line(file, line, sizeof(line)))
        count++;
    rewind(file);
    return count;
}

static int
read_lines(dataset *set, FILE *file, const char *path, char *why, size_t why_size)
{
    char line[LINE_MAX_BYTES];
    for (size_t i = 0; i < set->count && next_line(file, line, sizeof(line)); i++)
        if (parse_line(line, set->pixels + i * DATASET_PIXELS, set->labels + i) != 0) {
            snprintf(why, why_size, "%s, line %zu: expected %d pixels of 0 to %d and a label of 0 to %d", path, i + 1,
                     (int)DATASET_PIXELS, (int)DEEPEST_PIXEL, DATASET_CLASSES - 1);
            return -1;
        }
    return 0;
}

int
dataset_read(dataset *set, const char *path, char *why, size_t why_size)
{
    *set = (dataset){0};
    FILE *file = fopen(path, "r");
    if (!file) {
        snprintf(why, why_size, "cannot read %s: %s", path, strerror(errno));
        return -1;
    }
    int failed = dataset_alloc(set, count_lines(file));
    if (failed)
        snprintf(why, why_size, "not enough memory for the images of %s", path);
    else
        failed = read_lines(set, file, path, why, why_size);
    fclose(file);
    if (failed)
        dataset_free(set);
    return failed ? -1 : 0;
}
