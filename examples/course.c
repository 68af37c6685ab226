/* SPDX-License-Identifier: MIT */
/* course: arithmetic here is the same on every rank, so that all agree on every batch without a word. */
#include "course.h"

#include "warp.h"

#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HELD_OUT = 360, SIDE = 8 };

double
course_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- what is said, and how it ends --- */

void
course_say(const course *c, const char *format, ...)
{
    va_list arguments;
    if (c->rank != 0)
        return;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

/* hoop's errors are sentences; there is nothing to add to them. */
void
course_check(const course *c, hoop_result result)
{
    if (result == HOOP_SUCCESS)
        return;
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(c->comm, &error);
    fprintf(stderr, "%s: %s\n", c->program, error.text[0] != '\0' ? error.text : hoop_strerror(result));
    exit(1);
}

void
course_agree(course *c, const char *sentence)
{
    int32_t first = !sentence ? c->size : c->rank;
    if (c->late && sentence)
        course_abandon(c, sentence);
    if (c->late)
        return;
    course_check(c, hoop_allreduce(&first, &first, 1, HOOP_INT32, HOOP_MIN, c->comm));
    if (first == c->size)
        return;
    if (first == c->rank && first == 0)
        fprintf(stderr, "%s: %s\n", c->program, sentence);
    else if (first == c->rank)
        fprintf(stderr, "%s: rank %d: %s\n", c->program, c->rank, sentence);
    /* a launcher ends all ranks at the first that fails: not before it is said */
    course_check(c, hoop_barrier(c->comm));
    hoop_comm_destroy(c->comm);
    exit(1);
}

void
course_abandon(const course *c, const char *sentence)
{
    fprintf(stderr, "%s: rank %d: %s\n", c->program, c->rank, sentence);
    hoop_comm_abort(c->comm, sentence);
    exit(1);
}

/* --- options --- */

static void
help(const course *c, const char *what)
{
    printf("Usage: hooprun -n 4 %s [options]\n%s", c->program, what);
    puts("The last 360 digits are held out and judged at the end. Started alone, it is one rank.\n\n"
         "  --epochs N    passes over the images (60)\n"
         "  --batch N     images in a global batch, shared out over the ranks (32)\n"
         "  --hidden N    units of the hidden layer (128)\n"
         "  --lr X        learning rate at the start; it falls to 0 along a cosine (0.1)\n"
         "  --overlap     tell at the end how much of the communication was hidden behind computing (digits)\n"
         "  --data FILE   the images: digits.csv (default: $HOOP_DIGITS, then beside the program)\n"
         "  --help        this text\n");
    printf("Example: hooprun -n 4 %s --epochs 10 --batch 128\n", c->program);
}

static const struct option long_options[] = {
    {"epochs", required_argument, NULL, 'e'}, {"batch", required_argument, NULL, 'b'},
    {"hidden", required_argument, NULL, 'n'}, {"lr", required_argument, NULL, 'l'},
    {"data", required_argument, NULL, 'd'},   {"overlap", no_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};

/* A whole number of 1 to `most`; 0 for anything else. */
static long
whole(const char *text, long most)
{
    char *end;
    long number = strtol(text, &end, 10);
    return end != text && *end == '\0' && number >= 1 && number <= most ? number : 0;
}

/* 0, or -1 where an option makes no sense. */
static int
parse(course *c, const char *what, int argc, char **argv)
{
    int letter;
    opterr = 0;
    while ((letter = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
        switch (letter) {
        case 'e': c->epochs = whole(optarg, 100000); break;
        case 'b': c->batch = whole(optarg, 1000000); break;
        case 'n': c->hidden = whole(optarg, 1000000); break;
        case 'l': c->first_rate = strtod(optarg, NULL); break;
        case 'd': c->data = optarg; break;
        case 'o': c->overlap = 1; break;
        case 'h': help(c, what); exit(0);
        default: return -1;
        }
    return optind == argc && c->epochs > 0 && c->batch > 0 && c->hidden > 0 && c->first_rate > 0 ? 0 : -1;
}

void
course_join(course *c, const char *program, const char *what, int argc, char **argv)
{
    char why[128];
    *c = (course){.program = program,
                  .epochs = 60,
                  .batch = 32,
                  .hidden = 128,
                  .first_rate = 0.1,
                  .momentum = 0.9F,
                  .decay = 1e-4F};
    int bad = parse(c, what, argc, argv);
    course_check(c, hoop_comm_create(&c->comm, NULL));
    c->rank = hoop_comm_rank(c->comm);
    c->size = hoop_comm_size(c->comm);
    c->late = hoop_comm_epoch(c->comm) > 0;
    snprintf(why, sizeof(why), "an option or its value makes no sense: see %s --help", program);
    course_agree(c, bad ? why : NULL);
}

/* --- images --- */

void
course_share(course *c)
{
    char path[PATH_MAX], why[PATH_MAX + 256];
    int reads = c->rank == 0 || c->late;
    int unread = reads && (!dataset_find(c->data, path, sizeof(path), why, sizeof(why)) ||
                           dataset_read(&c->images, path, why, sizeof(why)) != 0);
    course_agree(c, unread ? why : NULL);
    uint64_t count = c->images.count;
    if (!c->late)
        course_check(c, hoop_broadcast(&count, &count, 1, HOOP_UINT64, 0, c->comm));
    course_agree(c, count <= HELD_OUT
                        ? "there are too few images: the last 360 are held out, the others are learned from"
                        : NULL);
    c->training = count - HELD_OUT;
    c->order = calloc(c->training, sizeof(*c->order));
    int lacking = !c->order || (!reads && dataset_alloc(&c->images, count) != 0);
    course_agree(c, lacking ? "there is no memory for the images" : NULL);
    dataset *set = &c->images;
    if (!c->late) {
        course_check(c, hoop_broadcast(set->pixels, set->pixels, count * DATASET_PIXELS, HOOP_FLOAT32, 0, c->comm));
        course_check(c, hoop_broadcast(set->labels, set->labels, count, HOOP_UINT8, 0, c->comm));
    }
    for (size_t i = 0; i < c->training; i++)
        c->order[i] = i;
    c->random = COURSE_SEED;
}

void
course_title(const course *c, size_t parameters)
{
    course_say(c, "%zu digits to learn from, %d held out; %zu parameters; batches of %ld over %d rank%s\n", c->training,
               (int)HELD_OUT, parameters, c->batch, c->size, c->size == 1 ? "" : "s");
}

void
course_leave(course *c)
{
    dataset_free(&c->images);
    free(c->order);
    course_check(c, hoop_comm_destroy(c->comm));
}

/* --- an epoch --- */

/* Fisher-Yates, from the same state on every rank. */
static void
shuffle(course *c)
{
    for (size_t i = c->training - 1; i > 0; i--) {
        c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t other = (size_t)(c->random >> 33) % (i + 1), keep = c->order[i];
        c->order[i] = c->order[other];
        c->order[other] = keep;
    }
}

void
course_begin(course *c, long epoch)
{
    c->rate = c->first_rate * 0.5 * (1 + cos(3.14159265 * (double)(epoch - 1) / (double)c->epochs));
    shuffle(c);
}

size_t
course_batch(const course *c, size_t first)
{
    size_t left = c->training - first, batch = (size_t)c->batch;
    return left < batch ? left : batch;
}

/* Where rank r's share of `count` begins; the share of a rank may be one longer than another's, or empty. */
static size_t
share(size_t count, int rank, int size)
{
    return count * (size_t)rank / (size_t)size;
}

size_t
course_collect(const course *c, size_t first, size_t count, float *x, uint8_t *labels)
{
    size_t begin = share(count, c->rank, c->size), end = share(count, c->rank + 1, c->size);
    for (size_t i = begin; i < end; i++) {
        size_t image = c->order[first + i];
        warp_image(c->images.pixels + image * DATASET_PIXELS, x + (i - begin) * DATASET_PIXELS, SIDE,
                   warp_key(c->random, image));
        labels[i - begin] = c->images.labels[image];
    }
    return end - begin;
}

size_t
course_most(const course *c)
{
    size_t batch = course_batch(c, 0), more = batch > HELD_OUT ? batch : HELD_OUT, size = (size_t)c->size;
    return (more + size - 1) / size;
}

/* --- the end --- */

size_t
course_exam(const course *c, const float **x, const uint8_t **labels)
{
    size_t begin = share(HELD_OUT, c->rank, c->size), end = share(HELD_OUT, c->rank + 1, c->size);
    *x = c->images.pixels + (c->training + begin) * DATASET_PIXELS;
    *labels = c->images.labels + c->training + begin;
    return end - begin;
}

hoop_result
course_grade(const course *c, uint64_t hits)
{
    hoop_result result = hoop_allreduce(&hits, &hits, 1, HOOP_UINT64, HOOP_SUM, c->comm);
    if (result != HOOP_SUCCESS)
        return result;
    course_say(c, "held-out accuracy: %.2f %% (%d of %d)\n", 100.0 * (double)hits / HELD_OUT, (int)hits, (int)HELD_OUT);
    return HOOP_SUCCESS;
}

/* FNV-1a over the bits. */
static uint64_t
checksum(const float *values, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)values;
    uint64_t sum = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count * sizeof(*values); i++)
        sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
    return sum;
}

/* If the smallest and the largest checksum of all ranks are one, all ranks hold the same bits. */
hoop_result
course_prove(const course *c, const float *values, size_t count, int *identical)
{
    uint64_t mine = checksum(values, count), least, most;
    hoop_result result = hoop_allreduce(&mine, &least, 1, HOOP_UINT64, HOOP_MIN, c->comm);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&mine, &most, 1, HOOP_UINT64, HOOP_MAX, c->comm);
    if (result != HOOP_SUCCESS)
        return result;
    *identical = least == most;
    if (*identical)
        course_say(c, "parameters: bit-identical on all ranks (ranks %d, checksum %016llx)\n", c->size,
                   (unsigned long long)most);
    else
        course_say(c, "parameters: DIFFERENT between ranks (checksums from %016llx to %016llx)\n",
                   (unsigned long long)least, (unsigned long long)most);
    return hoop_barrier(c->comm); /* as in course_agree() */
}
