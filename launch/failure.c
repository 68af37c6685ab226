/* SPDX-License-Identifier: MIT */
/* failure: see failure.h. Only hp_failure_report writes anything. */
#include "launch/failure.h"

#include "launch/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    TAIL_BYTES = 2048,   /* of a rank's standard error are kept, */
    TAIL_LINES = 10,     /* and so many lines of these repeated */
    SHOWN_RECENTLY = 10, /* if more than so many outputs came after them */
    STATUS_NOT_LOADED = 127
};

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
    hp_buffer *tail = &failure->rank[rank].tail;
    size_t skip = n > TAIL_BYTES ? n - TAIL_BYTES : 0;
    hp_xbuffer_add(tail, bytes + skip, n - skip);
    size_t size = hp_buffer_size(tail);
    if (size > TAIL_BYTES)
        hp_buffer_drop(tail, size - TAIL_BYTES);
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
hp_failure_ring_failed(hp_failure *failure, const char *split, const hoop_error *cause, uint32_t pid)
{
    int is_shared = !split && failure->ring && strcmp(failure->ring, cause->text) == 0;
    if (failure->ring && !is_shared && (failure->ring_judged || may_follow(cause)))
        return;
    free(failure->ring);
    free(failure->split);
    failure->ring = hp_xstrdup(cause->text);
    failure->split = split ? hp_xstrdup(split) : NULL;
    failure->ring_rank = split ? -1 : cause->rank;
    failure->ring_lost = may_follow(cause);
    failure->ring_pid = pid;
    failure->ring_judged = cause->code == HOOP_ERR_TIMEOUT || cause->code == HOOP_ERR_MISMATCH;
    failure->ring_worked = cause->phase == HOOP_PHASE_OPERATION;
}

/* The end of the rank that the ring has lost. A split numbers its ranks in its own way, so its rank is known by its process. */
static const hp_rank_exit *
find_cause(const hp_failure *failure)
{
    for (int rank = 0; failure->ring_lost && rank < failure->size; rank++) {
        const hp_rank_exit *end = &failure->rank[rank].end;
        int lost = failure->split ? failure->ring_pid != 0 && (uint32_t)end->pid == failure->ring_pid
                                  : rank == failure->ring_rank;
        if (lost && end->status != 0)
            return end;
    }
    return &failure->first;
}

/*
 * Whether the reason adds something: it is more than that this rank was lost, and about an operation or not in the
 * rank's own words. A verdict on the ranks' calls may be about the rank that waits.
 */
static int
ring_tells_more(const hp_failure *failure)
{
    int rank = failure->first.rank;
    const hp_buffer *tail = &failure->rank[rank].tail;
    size_t n = hp_buffer_size(tail);
    if (!failure->ring || (!failure->ring_judged && failure->ring_rank == rank))
        return 0;
    return failure->ring_worked || n == 0 || !memmem(hp_buffer_first(tail), n, failure->ring, strlen(failure->ring));
}

/* --- the report --- */

/* The last lines of a stream as text, with control bytes replaced; free() it. */
static char *
last_lines(const hp_buffer *tail)
{
    size_t size = hp_buffer_size(tail), begin = size, lines = 0;
    const uint8_t *first = hp_buffer_first(tail);
    while (begin > 0 && (first[begin - 1] != '\n' || begin == size || ++lines < TAIL_LINES))
        begin--;
    char *text = hp_xcalloc(size - begin + 1, 1);
    for (size_t i = begin; i < size; i++)
        text[i - begin] = first[i] < ' ' && first[i] != '\t' && first[i] != '\n' ? '?' : (char)first[i];
    return text;
}

static void
repeat_lines(hp_output *output, int rank, char *text)
{
    char *rest;
    for (const char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *labelled = hp_xasprintf("[%d] %s", rank, line);
        hp_output_say(output, labelled);
        free(labelled);
    }
}

void
hp_failure_report(hp_failure *failure, hp_output *output, int hidden)
{
    if (failure->reported)
        return;
    failure->reported = 1;
    failure->first = *find_cause(failure);
    const hp_failure_rank *rank = &failure->rank[failure->first.rank];
    char *lines = last_lines(&rank->tail), *sentence = hp_rank_exit_sentence(&failure->first, failure->running);
    hp_diag(output, "%s", sentence);
    free(sentence);
    /* The loader's complaint: LD_LIBRARY_PATH of this machine does not reach other hosts. */
    int missing = hp_exit_status(failure->first.status) == STATUS_NOT_LOADED &&
                  strstr(lines, "error while loading shared libraries: libhoop");
    if (hidden || hp_output_shown(output) - rank->shown > SHOWN_RECENTLY)
        repeat_lines(output, failure->first.rank, lines);
    free(lines);
    if (missing)
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
