/* SPDX-License-Identifier: MIT */
/* answer: what a server answers to those who ask what its jobs do: tables, or JSON. Pure. */
#ifndef HP_ANSWER_H
#define HP_ANSWER_H

#include "base/buffer.h"
#include "rendezvous/job.h"

typedef struct hp_answer_request {
    const uint8_t *job_id; /* NULL: about all jobs */
    int rows;              /* at most so many ranks of a ring; 0: JSON */
    int width;             /* of a line; 0: any */
} hp_answer_request;

/* first: of the list of jobs. Without memory `out` is cut off, or empty. */
void hp_answer_add(hp_buffer *out, const hp_job *first, const hp_answer_request *request, uint64_t now);

#endif
