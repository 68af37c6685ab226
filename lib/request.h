/* SPDX-License-Identifier: MIT */
/*
 * request: one public call before it becomes a work: its call and its buffers, checked. After this check no argument of
 * the caller can make it fail.
 */
#ifndef HP_REQUEST_H
#define HP_REQUEST_H

#include "base/call.h"

typedef struct hp_request {
    hp_call call;
    const void *send;
    void *recv;
    int in_place; /* set by hp_request_check */
} hp_request;

/*
 * Checks what hoop(3) demands of the arguments: type, operation, root, count times size, NULL, alignment, overlap. rank
 * and size are the communicator's. HOOP_ERR_INVALID_ARGUMENT with a sentence that begins with the public function's
 * name.
 */
hoop_result hp_request_check(hp_request *request, int rank, int size, hoop_error *error);

#endif
