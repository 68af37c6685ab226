/* SPDX-License-Identifier: MIT */
/* failure: see failure.h. */
#include "launch/failure.h"

#include "launch/diag.h"
#include "launch/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_RECENTLY = 10 }; /* last words are repeated when more than so many outputs came after them */

typedef struct repeat {
    hp_output *output;
    int rank;
} repeat;

void
hp_failure_open(hp_failure *failure, int size)
{
    *failure = (hp_failure){.size = size, .first.rank = -1};
    failure->rank = hp_xcalloc((size_t)size, sizeof(*failure->rank));
}

void
hp_failure_started(hp_failure *failure, int rank)
{
    failure->rank[rank].running = 1;
}

void
hp_failure_stderr(hp_failure *failure, int rank, const uint8_t *bytes, size_t n, uint64_t shown)
{
    hp_tail_add(&failure->rank[rank].stderr_tail, bytes, n);
    failure->rank[rank].shown = shown;
}

int
hp_failure_exited(hp_failure *failure, const hp_rank_exit *ending)
{
    int first = failure->first.rank < 0;
    if (!failure->rank[ending->rank].running)
        return 0;
    failure->rank[ending->rank].running = 0;
    failure->running--;
    if (ending->status == 0 || failure->reported)
        return 0;
    if (first || hp_rank_exit_precedes(ending->status, failure->first.status))
        failure->first = *ending;
    return first;
}

/* A rank that vanishes, or ends it all, once a ring has failed: a consequence, as a rule. */
static int
may_follow(const hoop_error *cause)
{
    return cause->code == HOOP_ERR_PEER_LOST || cause->code == HOOP_ERR_ABORTED;
}

void
hp_failure_ring_failed(hp_failure *failure, const hoop_error *cause)
{
    if (failure->ring && (failure->ring_judged || may_follow(cause)))
        return;
    free(failure->ring);
    failure->ring = hp_xstrdup(cause->text);
    failure->ring_judged = cause->code == HOOP_ERR_TIMEOUT || cause->code == HOOP_ERR_MISMATCH;
    failure->ring_worked = cause->phase == HOOP_PHASE_OPERATION;
}

static int
holds(const hp_buffer *words, const char *text)
{
    size_t n = hp_buffer_size(words);
    return n > 0 && memmem(hp_buffer_first(words), n, text, strlen(text)) != NULL;
}

/* Whether the reason adds something: it is about another rank, and of an operation or not among the last words. */
static int
ring_tells_more(const hp_failure *failure)
{
    char itself[32];
    int n = snprintf(itself, sizeof(itself), "rank %d (", failure->first.rank);
    return failure->ring && strncmp(failure->ring, itself, (size_t)n) != 0 &&
           (failure->ring_worked || !holds(&failure->rank[failure->first.rank].stderr_tail, failure->ring));
}

static void
repeat_line(void *arg, const char *line)
{
    const repeat *r = arg;
    char *text = hp_xasprintf("[%d] %s", r->rank, line);
    hp_output_say(r->output, text);
    free(text);
}

void
hp_failure_report(hp_failure *failure, hp_output *output, int hidden)
{
    repeat r = {output, failure->first.rank};
    hp_failure_rank *rank = &failure->rank[failure->first.rank];
    char *sentence = hp_rank_exit_sentence(&failure->first, failure->running);
    if (!failure->reported) {
        hp_diag(output, "%s", sentence);
        if (hidden || hp_output_shown(output) - rank->shown > SHOWN_RECENTLY)
            hp_tail_each_line(&rank->stderr_tail, repeat_line, &r);
        if (ring_tells_more(failure))
            hp_diag(output, "the ring had failed: %s", failure->ring);
    }
    failure->reported = 1;
    free(sentence);
}

void
hp_failure_close(hp_failure *failure)
{
    int i;
    for (i = 0; i < failure->size; i++)
        hp_buffer_free(&failure->rank[i].stderr_tail);
    free(failure->rank);
    free(failure->ring);
}
