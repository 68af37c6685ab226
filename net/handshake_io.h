/* SPDX-License-Identifier: MIT */
/* handshake_io: carries the bytes of a handshake between its state machine (handshake.h) and a non-blocking socket. */
#ifndef HP_IO_H
#define HP_IO_H

#include "net/handshake.h"

enum { HP_IO_LOST = -1, HP_IO_STOP = 0 }; /* and HP_READ, HP_WRITE: what to wait for */

/*
 * Writes and reads as far as it goes; never reads more than the handshake wants, for what follows is the owner's.
 * HP_IO_STOP: everything is written and conn->state (JUDGE, DONE, REFUSED, BAD) says what is next. HP_IO_LOST:
 * the other side has gone; errno, 0 for an orderly end. `now` is of the clock that the conn's deadline is of.
 */
int hp_handshake_io(hp_handshake *handshake, int fd, uint64_t now);

#endif
