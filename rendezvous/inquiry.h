/* SPDX-License-Identifier: MIT */
/*
 * inquiry: where a server is asked what its jobs do. This user's programs on this machine ask at a Unix socket
 * PID-N.socket in the folder of the flight recorders; others come by TCP, through the acceptor, with the secret of a job,
 * and hear of that job alone. Who asks sends one line, "table ROWS", "table ROWS COLUMNS" or "json", and reads until the
 * end. There are eight places; other users are refused; whoever asks slowly, or does not read, is closed after two seconds.
 */
#ifndef HP_INQUIRY_H
#define HP_INQUIRY_H

#include "base/buffer.h"
#include "hoop.h"
#include "net/auth.h"
#include "net/loop.h"

enum { HP_INQUIRY_PATH = 384 };

typedef struct hp_inquiry hp_inquiry;

typedef struct hp_inquiry_owner {
    void *arg;
    /* Adds the answer. job_id NULL: about all jobs. rows: at most so many ranks of a ring; 0: JSON is wanted. width: of a
     * line; 0: any. */
    void (*answer)(void *arg, const uint8_t *job_id, int rows, int width, hp_buffer *out);
} hp_inquiry_owner;

/* Without a socket where that cannot be opened: the error says why. NULL: out of memory, and the error says so, too. */
hp_inquiry *hp_inquiry_new(hp_loop *loop, const hp_inquiry_owner *owner, hoop_error *error);
/* Whether there is a place; and one who has proven to know the secret of this job takes it: the socket is the inquiry's. */
int hp_inquiry_has_room(const hp_inquiry *inquiry);
void hp_inquiry_admit(hp_inquiry *inquiry, int fd, const uint8_t job_id[HP_JOB_ID_BYTES]);

void hp_inquiry_free(hp_inquiry *inquiry); /* removes the socket; NULL is fine */

#endif
