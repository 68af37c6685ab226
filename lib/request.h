/* SPDX-License-Identifier: MIT */
/*
 * request: one public call before it becomes a work: its call and its buffers, checked. After this check no argument of
 * the caller can make it fail, but for blocks that overlap each other: works.c, which has a copy to sort, finds them.
 */
#ifndef HP_REQUEST_H
#define HP_REQUEST_H

#include "base/call.h"

/* Which of the public functions of a call it is: hoop_allreduce, hoop_iallreduce, ..._with, ..._on_stream. */
typedef enum hp_form { HP_FORM_BLOCKING, HP_FORM_I, HP_FORM_I_WITH, HP_FORM_ON_STREAM, HP_FORMS } hp_form;

/* An allgatherv's call.count is its sendcount until the check, which sets call.count and call.root of kinds with counts. */
typedef struct hp_request {
    hp_call call;
    hp_form form;
    const void *send;
    void *recv;
    int peer; /* of a send or a receive */
    /* of kinds with counts, and of an alltoallv's receives: `size` entries each, the caller's; displs may be NULL */
    const size_t *counts, *displs;
    const size_t *send_counts, *send_displs; /* of an alltoallv's sends, likewise */
    const hoop_call_options *options;        /* NULL: none */
    hoop_order order;                        /* the setting; the check sets call.ordered by it and by the options, */
    hoop_wire wire;                          /* and call.wire by this one; */
    int in_memory;                           /* but no element travels narrower */
    int in_place;                            /* set by hp_request_check, */
    float *residual;                         /* and this, if the options have one */
} hp_request;

/*
 * Checks what hoop(3) demands of the arguments: type, operation, root, count times size, NULL, alignment, overlap of the
 * two buffers, options; of a message peer and tag, too. rank and size are the communicator's. HOOP_ERR_INVALID_ARGUMENT, or HOOP_ERR_UNSUPPORTED for an
 * option that this version does not know, with a sentence that begins with the public function's name.
 */
hoop_result hp_request_check(hp_request *request, int rank, int size, hoop_error *error);

/* Puts the name of the public function before an error's sentence: "hoop_ireduce: sendbuf is NULL". */
void hp_form_name(hp_form form, int kind, hoop_error *error);
/* The sentence behind that name, in any form of the kind; the whole text if it has another name, or none. */
const char *hp_form_skip(int kind, const char *text);

#endif
