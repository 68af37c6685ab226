/* SPDX-License-Identifier: MIT */
/* handshake_io: carries the bytes of a handshake between its state machine (handshake.h) and a non-blocking socket. */
#ifndef HP_SHAKE_H
#define HP_SHAKE_H

#include "net/handshake.h"

enum { HP_SHAKE_LOST = -1, HP_SHAKE_STOP = 0 }; /* and HP_READ, HP_WRITE: what to wait for */

/*
 * Writes and reads as far as it goes; never reads more than the handshake wants, for what follows is the owner's.
 * HP_SHAKE_STOP: everything is written and conn->state (JUDGE, DONE, REFUSED, BAD) says what is next. HP_SHAKE_LOST:
 * the other side has gone; errno, 0 for an orderly end. `now` is of the clock that the conn's deadline is of.
 */
int hp_shake(hp_conn *conn, int fd, uint64_t now);

#endif
