/* SPDX-License-Identifier: MIT */
/* failure: see failure.h. Only hp_failure_report writes anything. */
#include "launch/failure.h"

#include "launch/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    SHOWN_RECENTLY = 10, /* last lines are repeated if more than so many outputs came after them */
    STATUS_NOT_LOADED = 127
};

/* --- the last lines of a stream --- */

void
hp_tail_add(hp_buffer *tail, const uint8_t *bytes, size_t n)
{
    if (n > HP_TAIL_BYTES) {
        bytes += n - HP_TAIL_BYTES;
        n = HP_TAIL_BYTES;
    }
    hp_xbuffer_add(tail, bytes, n);
    size_t size = hp_buffer_size(tail);
    if (size > HP_TAIL_BYTES)
        hp_buffer_drop(tail, size - HP_TAIL_BYTES);
}

void
hp_tail_each_line(const hp_buffer *tail, void (*fn)(void *arg, const char *line), void *arg)
{
    size_t size = hp_buffer_size(tail), begin = size, lines = 0;
    const uint8_t *first = hp_buffer_first(tail);
    while (begin > 0 && (first[begin - 1] != '\n' || begin == size || ++lines < HP_TAIL_LINES))
        begin--;
    if (size == 0)
        return;
    char *text = hp_xcalloc(size - begin + 1, 1);
    memcpy(text, first + begin, size - begin);
    for (size_t i = 0, start = 0, n = size - begin; i <= n; i++) {
        if (i < n && text[i] != '\n') {
            if ((unsigned char)text[i] < ' ' && text[i] != '\t')
                text[i] = '?';
            continue;
        }
        text[i] = '\0';
        if (i > start)
            fn(arg, text + start);
        start = i + 1;
    }
    free(text);
}

/* --- which exit is the cause --- */

void
hp_failure_open(hp_failure *failure, int size)
{
    *failure = (hp_failure){.size = size, .first.rank = -1, .ring_rank = -1};
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
    hp_tail_add(&failure->rank[rank].tail, bytes, n);
    failure->rank[rank].shown = shown;
}

int
hp_failure_exited(hp_failure *failure, const hp_rank_exit *ended)
{
    int is_first = failure->first.rank < 0;
    if (!failure->rank[ended->rank].running)
        return 0;
    failure->rank[ended->rank].running = 0;
    failure->running--;
    failure->rank[ended->rank].end = *ended;
    if (ended->status == 0 || failure->reported)
        return 0;
    if (is_first || hp_rank_exit_precedes(ended->status, failure->first.status))
        failure->first = *ended;
    return is_first;
}

/* --- why the ring failed --- */

/* A rank that vanishes or aborts: after a ring has failed it is usually a consequence of that failure. */
static int
may_follow(const hoop_error *cause)
{
    return cause->code == HOOP_ERR_PEER_LOST || cause->code == HOOP_ERR_ABORTED;
}

void
hp_failure_ring_failed(hp_failure *failure, const char *split, const hoop_error *cause)
{
    int is_shared = !split && failure->ring && strcmp(failure->ring, cause->text) == 0;
    if (failure->ring && !is_shared && (failure->ring_judged || may_follow(cause)))
        return;
    free(failure->ring);
    free(failure->split);
    failure->ring = hp_xstrdup(cause->text);
    failure->split = split ? hp_xstrdup(split) : NULL;
    failure->ring_rank = !split && may_follow(cause) ? cause->rank : -1;
    failure->ring_judged = cause->code == HOOP_ERR_TIMEOUT || cause->code == HOOP_ERR_MISMATCH;
    failure->ring_worked = cause->phase == HOOP_PHASE_OPERATION;
}

/* Whether the sentence is about this process; the ring of a split numbers its ranks in its own way. */
static int
is_named(const hp_failure *failure, int rank)
{
    char pid[32];
    snprintf(pid, sizeof(pid), ", pid %d)", failure->rank[rank].end.pid);
    return failure->rank[rank].end.status != 0 && strstr(failure->ring, pid);
}

const hp_rank_exit *
hp_failure_cause(const hp_failure *failure)
{
    int named = failure->ring_rank;
    if (named < 0 || named >= failure->size)
        return &failure->first;
    for (int rank = 0; rank < failure->size && !is_named(failure, named); rank++)
        if (is_named(failure, rank))
            named = rank;
    return failure->rank[named].end.status != 0 ? &failure->rank[named].end : &failure->first;
}

static int
holds(const hp_buffer *tail, const char *text)
{
    size_t n = hp_buffer_size(tail);
    return n > 0 && memmem(hp_buffer_first(tail), n, text, strlen(text));
}

/*
 * Whether the reason adds something: it is more than that this rank was lost, and about an operation or not in the
 * rank's own words. A verdict on the ranks' calls may begin with the rank that waits.
 */
static int
ring_tells_more(const hp_failure *failure)
{
    char itself[32];
    int n = snprintf(itself, sizeof(itself), "rank %d (", failure->first.rank);
    return failure->ring &&
           (failure->split || failure->ring_judged || strncmp(failure->ring, itself, (size_t)n) != 0) &&
           (failure->ring_worked || !holds(&failure->rank[failure->first.rank].tail, failure->ring));
}

/* --- the report --- */

typedef struct repeat {
    hp_output *output;
    int rank;
} repeat;

static void
repeat_line(void *arg, const char *line)
{
    const repeat *r = arg;
    char *text = hp_xasprintf("[%d] %s", r->rank, line);
    hp_output_say(r->output, text);
    free(text);
}

/* The loader's complaint among the last lines: LD_LIBRARY_PATH of this machine does not reach other hosts. */
static void
look_for_missing_library(void *arg, const char *line)
{
    int *missing = arg;
    *missing |= strstr(line, "error while loading shared libraries: libhoop") != NULL;
}

static int
lacks_library(const hp_failure *failure)
{
    int missing = 0;
    if (hp_exit_status(failure->first.status) == STATUS_NOT_LOADED)
        hp_tail_each_line(&failure->rank[failure->first.rank].tail, look_for_missing_library, &missing);
    return missing;
}

void
hp_failure_report(hp_failure *failure, hp_output *output, int hidden)
{
    if (failure->reported)
        return;
    failure->reported = 1;
    failure->first = *hp_failure_cause(failure);
    const hp_failure_rank *rank = &failure->rank[failure->first.rank];
    repeat r = {output, failure->first.rank};
    char *sentence = hp_rank_exit_sentence(&failure->first, failure->running);
    hp_diag(output, "%s", sentence);
    free(sentence);
    if (hidden || hp_output_shown(output) - rank->shown > SHOWN_RECENTLY)
        hp_tail_each_line(&rank->tail, repeat_line, &r);
    if (lacks_library(failure))
        hp_diag(output, "%s did not find hoop's library: name the folder where hoop is installed there, --prefix DIR",
                failure->first.host);
    if (ring_tells_more(failure))
        hp_diag(output, "%s had failed: %s", failure->split ? failure->split : "the ring", failure->ring);
}

void
hp_failure_close(hp_failure *failure)
{
    for (int i = 0; i < failure->size; i++)
        hp_buffer_free(&failure->rank[i].tail);
    free(failure->rank);
    free(failure->ring);
    free(failure->split);
}
