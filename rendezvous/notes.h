/* SPDX-License-Identifier: MIT */
/*
 * notes: frames of a rank that change sentences and tables alone: STATS, CALL_NAME, WAITING. A rank that floods the server
 * with them costs time only. Pure.
 */
#ifndef HP_NOTES_H
#define HP_NOTES_H

#include "rendezvous/job_state.h"

/* Whether a frame is one of them. */
int hp_notes_has(int type);
/* Returns 0, or -1 with the error filled: it is malformed. */
int hp_notes_take(const hp_job_conn *conn, int type, const uint8_t *payload, size_t n, uint64_t now, hoop_error *error);

#endif
