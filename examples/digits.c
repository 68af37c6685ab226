/* SPDX-License-Identifier: MIT */
/*
 * digits: trains a two-layer perceptron on real handwritten digits, synchronous data-parallel SGD over all ranks.
 *
 *     hooprun -n 4 digits
 *
 * Every rank computes the gradient of its shard of each batch; hoop averages the gradients layer by layer, while the
 * next layer's are still being computed; every rank then makes the same step, so that all hold the same parameters,
 * bit for bit. This file is the part between network (mlp.c) and data (dataset.c) that a program of yours would have.
 */
#include "dataset.h"
#include "mlp.h"
#include "warp.h"

#include <hoop.h>

#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HELD_OUT = 360, SIDE = 8, SEED = 20 };

typedef struct options {
    long epochs, batch, hidden;
    int overlap; /* measure how much of the communication was hidden */
    double rate;
    const char *data;
} options;

typedef struct trainer {
    hoop_comm *comm;
    int rank, size;
    options opt;
    dataset images;
    size_t training; /* the first `training` images are learned from, the others held out */
    size_t *order;   /* the images of an epoch, shuffled: the same on every rank */
    uint64_t random; /* state of the shuffle, another one every epoch */
    double rate;     /* learning rate of this epoch */
    mlp net;
    float *x;                                    /* this rank's shard of the batch: pixels ... */
    uint8_t *labels;                             /* ... and labels */
    float loss;                                  /* mean of the batch, once averaged over the ranks */
    double waiting;                              /* seconds spent in waits for communication */
    enum { OVERLAPPED, AT_ONCE, SILENT } manner; /* how gradients are averaged; the last two only to be timed */
} trainer;

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One voice: rank 0 prints, the others are silent. */
static void say(const trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
say(const trainer *t, const char *format, ...)
{
    va_list arguments;
    if (t->rank != 0)
        return;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

/* hoop's errors are sentences; there is nothing to add to them. */
static void
check(const trainer *t, hoop_result result)
{
    if (result == HOOP_SUCCESS)
        return;
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(t->comm, &error);
    fprintf(stderr, "digits: %s\n", error.text[0] != '\0' ? error.text : hoop_strerror(result));
    exit(1);
}

static void
give_up(trainer *t, const char *sentence)
{
    if (t->rank == 0)
        fprintf(stderr, "digits: %s\n", sentence);
    hoop_comm_destroy(t->comm);
    exit(1);
}

/* One rank alone is in trouble: the others must not wait for it. */
static void
abandon(trainer *t, const char *sentence)
{
    fprintf(stderr, "digits: rank %d has %s\n", t->rank, sentence);
    hoop_comm_abort(t->comm, sentence);
    exit(1);
}

/*
 * Rank 0 reads the images and broadcasts them: the file need not be on every host. A count of 0 tells the others that
 * there is nothing to come.
 */
static void
share_images(trainer *t)
{
    char path[PATH_MAX], why[PATH_MAX + 256] = "rank 0 could not read the images";
    uint64_t count = 0;
    if (t->rank == 0 && dataset_find(t->opt.data, path, sizeof(path), why, sizeof(why)) != NULL &&
        dataset_read(&t->images, path, why, sizeof(why)) == 0)
        count = t->images.count;
    check(t, hoop_broadcast(&count, &count, 1, HOOP_UINT64, 0, t->comm));
    if (count == 0)
        give_up(t, why);
    if (count <= HELD_OUT)
        give_up(t, "there are too few images: the last 360 are held out, the others are learned from");
    if (t->rank != 0 && dataset_alloc(&t->images, count) != 0)
        abandon(t, "no memory for the images");
    check(t, hoop_broadcast(t->images.pixels, t->images.pixels, count * DATASET_PIXELS, HOOP_FLOAT32, 0, t->comm));
    check(t, hoop_broadcast(t->images.labels, t->images.labels, count, HOOP_UINT8, 0, t->comm));
    t->training = count - HELD_OUT;
}

static void
prepare(trainer *t)
{
    size_t batch = (size_t)t->opt.batch;
    size_t room = batch > HELD_OUT ? batch : HELD_OUT;
    t->order = calloc(t->training, sizeof(*t->order));
    t->x = calloc(batch, DATASET_PIXELS * sizeof(float));
    t->labels = calloc(batch, 1);
    if (t->order == NULL || t->x == NULL || t->labels == NULL ||
        mlp_init(&t->net, DATASET_PIXELS, (size_t)t->opt.hidden, DATASET_CLASSES, room, SEED) != 0)
        abandon(t, "no memory for the network");
    for (size_t i = 0; i < t->training; i++)
        t->order[i] = i;
    t->random = SEED;
    /* Equal seeds would do here; a program that loads a checkpoint on rank 0 needs exactly this line. */
    check(t, hoop_broadcast(t->net.parameters.all, t->net.parameters.all, t->net.parameters.count, HOOP_FLOAT32, 0,
                            t->comm));
}

/* Fisher-Yates, from the same state on every rank: all ranks agree on every batch without a word. */
static void
shuffle(trainer *t)
{
    for (size_t i = t->training - 1; i > 0; i--) {
        t->random = t->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t other = (size_t)(t->random >> 33) % (i + 1), keep = t->order[i];
        t->order[i] = t->order[other];
        t->order[other] = keep;
    }
}

/* Where rank r's share of `count` begins; the share of a rank may be one longer than another's, or empty. */
static size_t
share(size_t count, int rank, int size)
{
    return count * (size_t)rank / (size_t)size;
}

/* Puts this rank's shard of order[first ... first + count) together, each image distorted; returns how many it has. */
static size_t
collect(trainer *t, size_t first, size_t count)
{
    size_t begin = share(count, t->rank, t->size), end = share(count, t->rank + 1, t->size);
    for (size_t i = begin; i < end; i++) {
        size_t image = t->order[first + i];
        warp_image(t->images.pixels + image * DATASET_PIXELS, t->x + (i - begin) * DATASET_PIXELS, SIDE,
                   warp_key(t->random, image));
        t->labels[i - begin] = t->images.labels[image];
    }
    return end - begin;
}

static void
wait_for(trainer *t, hoop_work *work)
{
    double start = now();
    if (work == NULL)
        return;
    check(t, hoop_work_wait(work, -1));
    t->waiting += now() - start;
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
    check(t, hoop_iallreduce(gradient, gradient, count, HOOP_FLOAT32, HOOP_AVG, t->comm, &work));
    return started(t, work);
}

/* The small tensors travel together: three calls, one pass round the ring. */
static hoop_work *
average_small(trainer *t)
{
    mlp *net = &t->net;
    float *b1 = net->gradient.b1, *b2 = net->gradient.b2;
    hoop_work *work;
    if (t->manner == SILENT)
        return NULL;
    check(t, hoop_group_start(t->comm));
    check(t, hoop_allreduce(b2, b2, net->outputs, HOOP_FLOAT32, HOOP_AVG, t->comm));
    check(t, hoop_allreduce(b1, b1, net->hidden, HOOP_FLOAT32, HOOP_AVG, t->comm));
    check(t, hoop_allreduce(&t->loss, &t->loss, 1, HOOP_FLOAT32, HOOP_AVG, t->comm));
    check(t, hoop_igroup_end(t->comm, &work));
    return started(t, work);
}

/* The step is linear in the gradient, so a layer can be updated as soon as its own gradient is there. */
static void
update(trainer *t, const float *parameters, size_t count)
{
    mlp_update(&t->net, (size_t)(parameters - t->net.parameters.all), count, (float)t->rate, 0.9F, 1e-4F);
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
    size_t mine = collect(t, first, count);
    float scale = (float)t->size / (float)count;

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

static void
train_epoch(trainer *t, long epoch)
{
    double start = now(), loss = 0;
    size_t batch = (size_t)t->opt.batch;
    t->waiting = 0;
    t->rate = t->opt.rate * 0.5 * (1 + cos(3.14159265 * (double)(epoch - 1) / (double)t->opt.epochs));
    shuffle(t);
    for (size_t first = 0; first < t->training; first += batch) {
        size_t count = t->training - first < batch ? t->training - first : batch;
        train_batch(t, first, count);
        loss += (double)t->loss * (double)count;
    }
    double seconds = now() - start;
    say(t, "%5ld  %10.7f  %9.0f  %6.1f %%\n", epoch, loss / (double)t->training, (double)t->training / seconds,
        100.0 * t->waiting / seconds);
}

/* Every rank judges its share of the images that were held out. */
static void
evaluate(trainer *t)
{
    size_t begin = share(HELD_OUT, t->rank, t->size), end = share(HELD_OUT, t->rank + 1, t->size);
    size_t first = t->training + begin, count = end - begin;
    mlp_forward(&t->net, t->images.pixels + first * DATASET_PIXELS, count);
    uint64_t hits = mlp_hits(&t->net, t->images.labels + first, count);
    check(t, hoop_allreduce(&hits, &hits, 1, HOOP_UINT64, HOOP_SUM, t->comm));
    say(t, "held-out accuracy: %.2f %% (%d of %d)\n", 100.0 * (double)hits / HELD_OUT, (int)hits, (int)HELD_OUT);
}

/* FNV-1a over the bits of the parameters. */
static uint64_t
checksum(const float *values, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)values;
    uint64_t sum = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count * sizeof(*values); i++)
        sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
    return sum;
}

/* If the smallest and the largest checksum of all ranks are one, all ranks hold the same bits. 1 if they do. */
static int
prove_identical(trainer *t)
{
    uint64_t mine = checksum(t->net.parameters.all, t->net.parameters.count), least, most;
    check(t, hoop_allreduce(&mine, &least, 1, HOOP_UINT64, HOOP_MIN, t->comm));
    check(t, hoop_allreduce(&mine, &most, 1, HOOP_UINT64, HOOP_MAX, t->comm));
    if (least == most)
        say(t, "parameters: bit-identical on all ranks (ranks %d, checksum %016llx)\n", t->size,
            (unsigned long long)most);
    else
        say(t, "parameters: DIFFERENT between ranks (checksums from %016llx to %016llx)\n", (unsigned long long)least,
            (unsigned long long)most);
    return least == most;
}

/* Seconds that the slowest rank needs for a batch; what is learned meanwhile is of no interest any more. */
static double
time_manner(trainer *t, int manner)
{
    size_t batch = (size_t)t->opt.batch, batches = 0;
    t->manner = manner;
    check(t, hoop_barrier(t->comm));
    double start = now();
    for (size_t first = 0; first + batch <= t->training || first == 0; first += batch, batches++)
        train_batch(t, first, t->training < batch ? t->training : batch);
    double seconds = (now() - start) / (double)batches;
    check(t, hoop_allreduce(&seconds, &seconds, 1, HOOP_FLOAT64, HOOP_MAX, t->comm));
    return seconds;
}

/*
 * How much of the communication is hidden behind computing: what overlapping saves, of what communication costs when all
 * computing waits for it. The three are timed in turns, and the best of each counts.
 */
static void
tell_overlap(trainer *t)
{
    enum { TURNS = 15 };
    double best[3] = {INFINITY, INFINITY, INFINITY};
    for (int turn = 0; turn < 3 * TURNS; turn++)
        best[turn % 3] = fmin(best[turn % 3], time_manner(t, turn % 3));
    double cost = best[AT_ONCE] - best[SILENT], saved = best[AT_ONCE] - best[OVERLAPPED];
    say(t, "overlap: a batch takes %.0f us, waiting for each average at once %.0f us, without communication %.0f us: ",
        1e6 * best[OVERLAPPED], 1e6 * best[AT_ONCE], 1e6 * best[SILENT]);
    say(t, "%.0f %% of the communication hidden\n", cost > 0 ? 100 * saved / cost : 0.0);
}

static void
help(void)
{
    puts(
        "Usage: hooprun -n 4 digits [options]\n"
        "Trains a two-layer perceptron on 1,797 handwritten digits, data-parallel over all ranks; the last 360 digits\n"
        "are held out and judged at the end. Started alone, it is one rank.\n\n"
        "  --epochs N    passes over the images (60)\n"
        "  --batch N     images in a global batch, shared out over the ranks (32)\n"
        "  --hidden N    units of the hidden layer (128)\n"
        "  --lr X        learning rate at the start; it falls to 0 along a cosine (0.1)\n"
        "  --overlap     tell at the end how much of the communication was hidden behind computing\n"
        "  --data FILE   the images: digits.csv (default: $HOOP_DIGITS, then beside the program)\n"
        "  --help        this text\n\n"
        "Example: hooprun -n 4 digits --epochs 10 --batch 128");
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
parse(options *opt, int argc, char **argv)
{
    int c;
    while ((c = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
        switch (c) {
        case 'e': opt->epochs = whole(optarg, 100000); break;
        case 'b': opt->batch = whole(optarg, 1000000); break;
        case 'n': opt->hidden = whole(optarg, 1000000); break;
        case 'l': opt->rate = strtod(optarg, NULL); break;
        case 'd': opt->data = optarg; break;
        case 'o': opt->overlap = 1; break;
        case 'h': help(); exit(0);
        default: return -1;
        }
    return optind == argc && opt->epochs > 0 && opt->batch > 0 && opt->hidden > 0 && opt->rate > 0 ? 0 : -1;
}

static int
train(trainer *t)
{
    share_images(t);
    prepare(t);
    say(t, "%zu digits to learn from, %d held out; %zu parameters; batches of %ld over %d rank%s\n", t->training,
        (int)HELD_OUT, t->net.parameters.count, t->opt.batch, t->size, t->size == 1 ? "" : "s");
    say(t, "epoch        loss  samples/s   waiting for communication\n");
    for (long epoch = 1; epoch <= t->opt.epochs; epoch++)
        train_epoch(t, epoch);
    evaluate(t);
    int identical = prove_identical(t);
    if (t->opt.overlap)
        tell_overlap(t);
    return identical;
}

int
main(int argc, char **argv)
{
    trainer t = {.opt = {.epochs = 60, .batch = 32, .hidden = 128, .rate = 0.1}};
    opterr = 0;
    int bad = parse(&t.opt, argc, argv);
    check(&t, hoop_comm_create(&t.comm, NULL));
    t.rank = hoop_comm_rank(t.comm);
    t.size = hoop_comm_size(t.comm);
    if (bad)
        give_up(&t, "an option or its value makes no sense: see digits --help");
    int identical = train(&t);
    mlp_free(&t.net);
    dataset_free(&t.images);
    free(t.order);
    free(t.x);
    free(t.labels);
    check(&t, hoop_comm_destroy(t.comm));
    return identical ? 0 : 1;
}
