/* SPDX-License-Identifier: MIT */
/*
 * rig: links under test on loopback connections: two links facing each other, or one link facing a bare socket that the
 * test reads and writes byte by byte. System calls that move payload can be cut short at any byte.
 */
#ifndef T_NET_RIG_H
#define T_NET_RIG_H

#include "net/link.h"

enum { RIG_CAPACITY = 8, RIG_PIECES = 8 };

typedef struct rig {
    hp_loop *loop;
    hp_link *out, *in; /* rank 0 sends to rank 1; NULL where the other end is bare */
    int bare;          /* the test's end of the connection, -1: none */
    hp_shm *bare_shm;  /* and of the memory beside it; NULL: none */
    int in_fd;         /* the descriptor of the receiving link's last stripe; the link's */
    int kicks;
} rig;

/*
 * What each of the next calls of send, sendmsg, recv and recvmsg may move: the first one `first` bytes (0: EAGAIN), the
 * others.
 */
typedef struct rig_limit {
    size_t first, others;
    int calls;
} rig_limit;
extern rig_limit rig_sending, rig_receiving;
void rig_unlimited(void);

/* SO_RCVBUF of the accepted end, the receiving link, of the next connections; 0: as the kernel has it. */
extern int rig_receive_buffer;

/* The next links share a memory with rings of so many bytes; 0: TCP carries the posts. */
extern uint32_t rig_shares;

/* The owner of the next links; NULL: as the belt's, they have none. */
extern const hp_link_owner *rig_owner;

/* Up to 100 bytes in eight pieces, two of them empty, that lie backwards in memory with gaps in between. */
typedef struct rig_scatter {
    uint8_t memory[128];
    hp_segment segment[RIG_PIECES];
    hp_iov pieces;
} rig_scatter;
void rig_scatter_make(rig_scatter *s, const uint8_t *bytes, uint32_t n); /* bytes NULL: to receive into */
int rig_scatter_holds(const rig_scatter *s, const uint8_t *bytes);       /* them, and the gaps are as they were */

/* One frame's worth of what a test sends or awaits. */
hp_frame rig_frame(uint64_t sequence, uint32_t step, uint16_t flags);

void rig_connect(int ends[2]);      /* a connection over loopback; the first end has dialled */
void rig_open(rig *r, int stripes); /* two links facing each other */
void rig_open_in(rig *r);           /* a receiving link and a bare socket */
void rig_open_out(rig *r);          /* a sending link and a bare socket */
void rig_close(rig *r);
void rig_reset_bare(rig *r); /* RST instead of FIN */
void rig_shut_bare(rig *r);  /* FIN */

void rig_turn(rig *r);   /* moves the links, arms them, runs the loop without waiting */
void rig_settle(rig *r); /* turns until nothing has moved for a while */
int rig_until_done(rig *r, hp_link *link, uint64_t done); /* turns until link->done is there; 0: it never was */
int rig_until_state(rig *r, const hp_link *link, hp_link_state state);

/* Between these links, of which the first has dialled, or the test, as rig_shares says. */
void rig_share(hp_link *dials, hp_link *accepts, int k, hp_shm **bare);

/* The bytes that a sending link puts on the wire for one post. Returns their number. */
size_t rig_record(const hp_frame *frame, const void *data, uint32_t bytes, uint8_t *wire, size_t room);

/* Bare: all of it, or what is there now. */
void rig_write(rig *r, const void *bytes, size_t n);
size_t rig_read(rig *r, void *bytes, size_t room);

#endif
