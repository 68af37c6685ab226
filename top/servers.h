/* SPDX-License-Identifier: MIT */
/*
 * servers: what rendezvous servers answer (rendezvous/inquiry.h): those of this user on this machine, one below the other;
 * and one on another machine, or of another user, over TCP: through the same port as ranks come, and with the secret of
 * the job, about which alone it answers.
 */
#ifndef HP_TOP_SERVERS_H
#define HP_TOP_SERVERS_H

#include "base/buffer.h"
#include "net/auth.h"
#include "net/loop.h"
#include "net/sock.h"

/*
 * Adds a line for each server of this machine ("hooprun, pid 4711") and its table, of at most `rows` ranks a ring, in lines
 * of at most `width` characters (0: any). rows 0: a list of objects with the members version, server, pid and rings;
 * hoop-top(1) has the format. Returns how many servers there are; -1: out of memory.
 */
int hp_top_jobs(hp_buffer *out, int rows, int width);

typedef struct hp_top_remote {
    hp_addr_list servers; /* the server is at one of these addresses */
    hp_keys *keys;
    hp_loop *loop;
    const char *address; /* as given: the caller keeps it */
    int found;           /* the last answer told of a ring */
} hp_top_remote;

/*
 * Finds the key of the job as the job's ranks find it, and looks the address up, HOST:PORT, within five seconds.
 * secret_file NULL: HOOP_SECRET_FD, else HOOP_SECRET_FILE, else the user's own file. job NULL: HOOP_JOB; a secret that is
 * one job's key names that job itself. With HOOP_SECURITY=none no secret is needed. To be closed in any case.
 */
hoop_result hp_top_remote_open(hp_top_remote *remote, const char *address, const char *secret_file, const char *job,
                               hoop_error *error);

/* As hp_top_jobs, with the address in the place of the program. Takes seven seconds at most. */
hoop_result hp_top_remote_ask(hp_top_remote *remote, int rows, int width, hp_buffer *out, hoop_error *error);

void hp_top_remote_close(hp_top_remote *remote); /* zeroed memory is fine */

#endif
