/* SPDX-License-Identifier: MIT */
/*
 * control_conn: one proven control connection, the same for rank and server: control frames in, a bounded queue of
 * frames out. It never blocks (except hp_control_conn_finish, which has a limit), does not know what frames mean, and
 * owns the descriptor.
 */
#ifndef HP_CONTROL_CONN_H
#define HP_CONTROL_CONN_H

#include "net/frame.h"
#include "net/loop.h"

enum { HP_CONTROL_QUEUE = 64 << 10 };

typedef struct hp_control_conn hp_control_conn;

typedef struct hp_control_conn_owner {
    void *arg;
    /* One whole frame. Returns 0, or -1 with the error filled: the owner wants no more; closed() follows. */
    int (*frame)(void *arg, const hp_control_frame *frame, hoop_error *error);
    /* Everything queued is written: there is room for more. */
    void (*room)(void *arg);
    /*
     * The peer has closed (code HOOP_SUCCESS), or the connection broke. This is the last call, and the only one in
     * which the connection may be freed.
     */
    void (*closed)(void *arg, const hoop_error *error);
} hp_control_conn_owner;

/* NULL: errno, and the descriptor is still the caller's. */
hp_control_conn *hp_control_conn_new(hp_loop *loop, int fd, const hp_control_conn_owner *owner);
int hp_control_conn_send(hp_control_conn *control, hp_frame_type type, const void *payload,
                         size_t n); /* 0: the queue is full */
size_t hp_control_conn_queued(const hp_control_conn *control);
int
hp_control_conn_arrived(const hp_control_conn *control); /* the peer's kernel has all bytes, as far as this one knows */
uint64_t
hp_control_conn_blocked_since(const hp_control_conn *control); /* when output last moved; HP_NEVER: nothing is queued */

/* For how many ns the other host has acknowledged nothing (net/tcp.h); about one look a second. */
uint64_t hp_control_conn_silence(hp_control_conn *control, uint64_t now);
int hp_control_conn_is_heard(const hp_control_conn *control, uint64_t within); /* as hp_link_is_heard */
/* The other host has not acknowledged all that was sent; again: TCP has sent it again already. */
int hp_control_conn_is_owed(const hp_control_conn *control, int *again);
void hp_control_conn_await_peer(hp_control_conn *control, uint64_t peer_timeout); /* ns for which it may be away */

/* Nothing more is queued. Once the queue is written the peer sees the end. Frames that still arrive are dropped. */
void hp_control_conn_shut(hp_control_conn *control);
/* Ends a connection without the loop: writes what is queued and waits up to `limit` ns until the peer has closed. */
void hp_control_conn_finish(hp_control_conn *control, uint64_t limit);
void hp_control_conn_free(hp_control_conn *control); /* closes; NULL is fine */

#endif
