/* SPDX-License-Identifier: MIT */
/* on_stream: puts an operation into the order of a caller's stream: what all stream-ordered calls share. */
#ifndef HP_ON_STREAM_H
#define HP_ON_STREAM_H

#include "lib/entry.h"

/*
 * Before a work is submitted, which was made of a call on these arrays, with work->device set: marks what the stream
 * holds now, and blocks the stream until the work is complete, also by an error. Nobody has a handle of the work. After
 * an error, which is this thread's, the work is free again.
 */
hoop_result hp_on_stream(hoop_comm *comm, hoop_work *work, const void *send, const void *recv, void *stream);

#endif
