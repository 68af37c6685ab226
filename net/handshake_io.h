/* SPDX-License-Identifier: MIT */
/* handshake_io: carries the bytes of a handshake between its state machine (handshake.h) and a non-blocking socket. */
#ifndef HP_HANDSHAKE_IO_H
#define HP_HANDSHAKE_IO_H

#include "net/handshake.h"

enum { HP_HANDSHAKE_IO_LOST = -1, HP_HANDSHAKE_IO_STOP = 0 }; /* or HP_READ, HP_WRITE: what to wait for */

/*
 * Writes and reads as far as the socket allows. It never reads more than the handshake wants: what follows is the
 * owner's. HP_HANDSHAKE_IO_STOP: everything is written; the state (JUDGE, DONE, REFUSED, BAD) decides what is next.
 * HP_HANDSHAKE_IO_LOST: the peer closed or reset the connection (errno; 0: it closed). `now` is by the clock of the
 * handshake's deadline.
 */
int hp_handshake_io(hp_handshake *handshake, int fd, uint64_t now);

#endif
