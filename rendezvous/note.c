/* SPDX-License-Identifier: MIT */
/* note: see note.h. */
#include "rendezvous/note.h"

#include "base/err.h"

static int
take_counters(hp_roster *r, int rank, const hp_control_frame *frame, uint64_t now)
{
    if (!hp_history_take(&r->histories, r->ring.size, rank, frame->payload, frame->n, now))
        return 0;
    r->witnesses[rank].heard = now;
    return 1;
}

/* What a rank waits for outside the ring's operations. */
static int
take_waiting(hp_roster *r, int rank, const hp_control_frame *frame, uint64_t now)
{
    hp_witness *w = &r->witnesses[rank];
    hp_waiting waiting;
    if (!hp_waiting_get(&waiting, frame->payload, frame->n) || waiting.awaited.rank >= r->ring.size)
        return 0;
    hp_ring_names_fill(r->call_names, rank, waiting.call_name, &waiting.call);
    w->waiting = waiting;
    w->waiting_at = w->heard = now;
    return 1;
}

int
hp_note_take(const hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error)
{
    hp_roster *r = conn->roster;
    int known = r && (frame->type == HP_STATS ? take_counters(r, conn->rank, frame, now)
                      : frame->type == HP_CALL_NAME
                          ? hp_ring_names_take(&r->call_names, r->ring.size, conn->rank, frame->payload, frame->n)
                          : take_waiting(r, conn->rank, frame, now));
    if (known)
        return 0;
    hp_err_set(error, HOOP_ERR_PROTOCOL, "it sent %s",
               frame->type == HP_STATS       ? "malformed STATS"
               : frame->type == HP_CALL_NAME ? "a malformed CALL_NAME"
                                             : "a malformed WAITING");
    return -1;
}
