/* SPDX-License-Identifier: MIT */
/*
 * medium: what carries the bytes of a stripe: its TCP connection, or memory beside that (shm.h), and a queue of control
 * frames, which take the connection. Writes and reads are as sendmsg and recvmsg on a socket that does not block.
 */
#ifndef HP_MEDIUM_H
#define HP_MEDIUM_H

#include "net/frame.h"
#include "net/shm.h"
#include "net/tcp.h"

typedef struct hp_medium {
    int fd;
    hp_shm *shm;     /* NULL: the bytes go over the connection */
    int eof;         /* end of file or reset: nothing more comes */
    int shut;        /* this side writes and reads nothing more */
    int over;        /* the connection beside the memory has ended, */
    int number;      /* with this errno, or 0 */
    int owes_wake;   /* the peer sleeps until what has been moved now: it is to be woken */
    int asked_wake;  /* the peer may have been asked to wake this process */
    int one_address; /* of both ends of the connection */
    int wake_at;     /* SO_RCVLOWAT; 0: the kernel's default */
    hp_tcp_silence silence;
} hp_medium;

void hp_medium_begin(hp_medium *medium, int fd); /* takes fd over */
void hp_medium_end(hp_medium *medium);

/* Returns bytes, 0 at the end, or -1 with errno: EAGAIN; EBADMSG if the peer has spoilt the memory; or what has happened. */
ssize_t hp_medium_write(hp_medium *medium, const struct iovec *places, int n);
ssize_t hp_medium_read(hp_medium *medium, const struct iovec *places, int n);

int hp_medium_has_bytes(hp_medium *medium); /* memory has some, or its end is to be seen; 0 for a connection */

/*
 * Before a sleep: memory asks for a wake-up when so many bytes have come, or have room; 0: none are awaited. Returns 1 if
 * they are there already. A connection is told how many bytes it need not wake for. hp_medium_awake takes that back.
 */
int hp_medium_await(hp_medium *medium, uint32_t bytes, uint32_t room);
void hp_medium_awake(hp_medium *medium);

/*
 * After a pause the kernel acknowledges each small frame by a segment of its own, for ever: on one host that takes a tenth
 * of a small operation. Now it acknowledges every second segment, or late (RFC 1122 4.2.3.2), until it changes that itself.
 * Between hosts this is left as it is: it costs little there, and shows the round trip.
 */
void hp_medium_delay_acks(const hp_medium *medium);

/* --- control frames --- */

/* A RESUME, an ACK, two TAKEN, a TICK, an ABORT and a LEAVE: bounded memory, no allocation. */
enum { HP_CONTROL_ROOM = 7 * (HP_COMMON_BYTES + 4) + HP_ABORT_BYTES + HP_HEARTBEATS_BYTES + 3 * HP_TAKEN_BYTES };

/* Those to write, and the reader of those received. The stripe decides when one may be written, and acts on the others. */
typedef struct hp_control {
    hp_frame_reader in;
    uint8_t out[HP_CONTROL_ROOM];
    size_t out_n, out_at; /* bytes of frames, and how many of them are written */
} hp_control;

/*
 * Queues a frame. Returns 0 if there is no room (for a CREDIT, an ACK or a TAKEN: less than half), and for a TICK to a peer that does not
 * read: bytes in front of an ABORT may keep it from arriving.
 */
int hp_control_add(hp_control *control, int fd, hp_frame_type type, const void *payload, size_t n);

static inline int
hp_control_waits(const hp_control *control)
{
    return control->out_n > 0;
}

/* Writes what the socket takes. Returns 1 if more would block. */
int hp_control_write(hp_control *control, int fd);

#endif
