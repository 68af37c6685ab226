/* SPDX-License-Identifier: MIT */
/*
 * remote: a server on another machine, or of another user, which is asked over TCP: through the same port as ranks come,
 * and with the secret of the job, about which alone it answers.
 */
#ifndef HP_TOP_REMOTE_H
#define HP_TOP_REMOTE_H

#include "base/buffer.h"
#include "net/auth.h"
#include "net/loop.h"
#include "net/sock.h"

typedef struct hp_top_remote {
    hp_addr server;
    hp_keys *keys;
    hp_loop *loop;
    const char *address; /* as given: the caller keeps it */
    int found;           /* the last answer told of a ring */
} hp_top_remote;

/* keys: the job's, which the remote holds. Looks the address up, HOST:PORT, within five seconds. */
hoop_result hp_top_remote_open(hp_top_remote *remote, const char *address, const hp_keys *keys, hoop_error *error);

/*
 * Adds to out what hp_top_jobs_text does, with the address in the place of the program; rows 0:
 * what hp_top_jobs_json does. Takes seven seconds at most. After an error `out` is as before.
 */
hoop_result hp_top_remote_ask(hp_top_remote *remote, int rows, int width, hp_buffer *out, hoop_error *error);

void hp_top_remote_close(hp_top_remote *remote); /* zeroed memory is fine */

#endif
