/* SPDX-License-Identifier: MIT */
/*
 * table: what the ranks of a job are doing, as far as they have told the server, in lines for a person; and what a ring has
 * done, and what slowed it down, in sentences. Pure. A rank reports an operation only if it lasts a moment, so most ranks of a
 * healthy job show none.
 */
#ifndef HP_TABLE_H
#define HP_TABLE_H

#include "base/buffer.h"
#include "base/json.h"
#include "rendezvous/columns.h"
#include "rendezvous/job.h"
#include "rendezvous/roster.h"
#include "rendezvous/straggler.h"

/*
 * A few lines about a ring from its beginning on: operations, bytes, bandwidth, time waited by reason, the slowest rank and
 * link. None if no rank has reported counters.
 */
void hp_summary_print(const hp_roster *roster, const hp_line_sink *lines);

/* "slowest link: rank 2 (node1) to rank 3 (node2), which rank 2 has awaited 45% of the time; ...". Returns out. */
const char *hp_summary_link(const hp_roster *roster, const hp_slow_link *link, char *out, size_t size);

typedef struct hp_table_options {
    int most;  /* rows of a ring; if it has more ranks, those that tell most about a hang come, in this order */
    int lines; /* of its sentence, titles and rows together, at least one row; 0: any */
    hp_line_sink to;
} hp_table_options;

/*
 * For each world that is not complete a sentence, for each ring a sentence and a row for each rank. Rings in which an
 * operation has waited for a second come first. A row has rank,
 * host, process, operation, for how long, and for which rank it waits; of ranks that report counters also bytes/s, the
 * share of time waited, and segments sent again. Then come the ring with its slowest link, and the rank that is late.
 */
void hp_table_print(const hp_job *job, const hp_table_options *options, uint64_t now);

/* The same as members of an open list: an object for each ring, and for each world that is not complete. */
void hp_table_json(const hp_job *job, hp_json *json, uint64_t now);

typedef struct hp_table_request {
    const uint8_t *job_id; /* NULL: about all jobs */
    int rows;              /* at most so many ranks of a ring; 0: JSON */
    int width;             /* of a line; 0: any */
} hp_table_request;

/*
 * What a server answers to those who ask what its jobs do. first: of the list of jobs. Without memory `out` is cut off, or
 * empty.
 */
void hp_table_answer(hp_buffer *out, const hp_job *first, const hp_table_request *request, uint64_t now);

/* ns for which the operation that has lasted longest has waited without any progress in its ring; 0: none waits. */
uint64_t hp_table_stalled(const hp_job *first, uint64_t now);

#endif
