/* SPDX-License-Identifier: MIT */
/*
 * message_call: the forms that calls for messages share: blocking, non-blocking, in the
 * order of a stream, and queued in a group. The calls
 * themselves are in sendrecv.c and alltoallv.c. Other ranks learn nothing of a call that was refused.
 */
#ifndef HP_MESSAGE_CALL_H
#define HP_MESSAGE_CALL_H

#include "lib/entry.h"
#include "lib/group.h"
#include "lib/works.h"

/* What a call makes of its checked arguments: a work with its messages, or more messages in a group's work. */
typedef struct hp_message_call {
    hoop_work *(*make)(hoop_comm *comm, const void *arguments); /* NULL when memory runs out */
    int (*join)(hoop_work *work, const void *arguments);        /* 0 likewise */
} hp_message_call;

/* Sets the index of the device of the call's arrays, which is opened if need be: work->device. */
hoop_result hp_message_call_device(hoop_comm *comm, const void *send, const void *recv, int *device);

/* checked: what the check of the arguments has returned, with this thread's error set; comm may be NULL after one. */
hoop_result hp_message_call_run(hoop_comm *comm, const hp_message_call *how, const hp_call *call, const void *arguments,
                                hoop_result checked);
hoop_result hp_message_call_start(hoop_comm *comm, const hp_message_call *how, const void *arguments,
                                  hoop_result checked, hoop_work **out);
/* send, recv: the call's arrays, NULL where it has none. */
hoop_result hp_message_call_on_stream(hoop_comm *comm, const hp_message_call *how, const void *arguments,
                                      hoop_result checked, const void *send, const void *recv, void *stream);

#endif
