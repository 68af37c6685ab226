/* SPDX-License-Identifier: MIT */
/* jury: see jury.h. */
#include "launch/failure.h"

#include "launch/diag.h"
#include "launch/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_LATELY = 10 }; /* last words are repeated when more than so many outputs came after them */

typedef struct repeat {
    hp_output *output;
    int rank;
} repeat;

void
hp_jury_open(hp_jury *jury, int size)
{
    *jury = (hp_jury){.size = size, .verdict.rank = -1};
    jury->seat = hp_must_alloc((size_t)size, sizeof(*jury->seat));
}

void
hp_jury_started(hp_jury *jury, int rank)
{
    jury->seat[rank].running = 1;
}

void
hp_jury_heard(hp_jury *jury, int rank, const uint8_t *bytes, size_t n, uint64_t shown)
{
    hp_last_words_add(&jury->seat[rank].last_words, bytes, n);
    jury->seat[rank].shown = shown;
}

int
hp_jury_ended(hp_jury *jury, const hp_ending *ending)
{
    int first = jury->verdict.rank < 0;
    if (!jury->seat[ending->rank].running)
        return 0;
    jury->seat[ending->rank].running = 0;
    jury->running--;
    if (ending->status == 0 || jury->spoken)
        return 0;
    if (first || hp_verdict_worse(ending->status, jury->verdict.status))
        jury->verdict = *ending;
    return first;
}

/* A rank that vanishes, or ends it all, once a ring has failed: a consequence, as a rule. */
static int
may_follow(const hoop_error *cause)
{
    return cause->code == HOOP_ERR_PEER_LOST || cause->code == HOOP_ERR_ABORTED;
}

void
hp_jury_ring_failed(hp_jury *jury, const hoop_error *cause)
{
    if (jury->ring && (jury->ring_judged || may_follow(cause)))
        return;
    free(jury->ring);
    jury->ring = hp_must(strdup(cause->text));
    jury->ring_judged = cause->code == HOOP_ERR_TIMEOUT || cause->code == HOOP_ERR_MISMATCH;
    jury->ring_worked = cause->phase == HOOP_PHASE_OPERATION;
}

static int
holds(const hp_bytes *words, const char *text)
{
    size_t n = hp_bytes_size(words);
    return n > 0 && memmem(hp_bytes_first(words), n, text, strlen(text)) != NULL;
}

/* Whether the reason adds something: it is about another rank, and of an operation or not among the last words. */
static int
ring_tells_more(const hp_jury *jury)
{
    char itself[32];
    int n = snprintf(itself, sizeof(itself), "rank %d (", jury->verdict.rank);
    return jury->ring && strncmp(jury->ring, itself, (size_t)n) != 0 &&
           (jury->ring_worked || !holds(&jury->seat[jury->verdict.rank].last_words, jury->ring));
}

static void
repeat_line(void *arg, const char *line)
{
    const repeat *r = arg;
    char *text = hp_must_print("[%d] %s", r->rank, line);
    hp_output_say(r->output, text);
    free(text);
}

void
hp_jury_speak(hp_jury *jury, hp_output *output, int hidden)
{
    repeat r = {output, jury->verdict.rank};
    hp_seat *seat = &jury->seat[jury->verdict.rank];
    char *sentence = hp_verdict_sentence(&jury->verdict, jury->running);
    if (!jury->spoken) {
        hp_notice(output, "%s", sentence);
        if (hidden || hp_output_shown(output) - seat->shown > SHOWN_LATELY)
            hp_last_words_each(&seat->last_words, repeat_line, &r);
        if (ring_tells_more(jury))
            hp_notice(output, "the ring had failed: %s", jury->ring);
    }
    jury->spoken = 1;
    free(sentence);
}

void
hp_jury_close(hp_jury *jury)
{
    int i;
    for (i = 0; i < jury->size; i++)
        hp_bytes_free(&jury->seat[i].last_words);
    free(jury->seat);
    free(jury->ring);
}
