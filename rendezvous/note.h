/* SPDX-License-Identifier: MIT */
/*
 * note: frames of a member that change sentences and tables alone: STATS, CALL_NAME, WAITING. Pure. A rank that floods the
 * server with them costs time only.
 */
#ifndef HP_NOTE_H
#define HP_NOTE_H

#include "rendezvous/job_state.h"

/* Returns 0, or -1 with the error filled. */
int hp_note_take(const hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error);

#endif
