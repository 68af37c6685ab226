/* SPDX-License-Identifier: MIT */
/*
 * stripe: one TCP connection of a link, or of two links that share it, one for each direction. It sends each post, header
 * and payload, in one system call. It receives header and payload the same way, straight to their place, and compares
 * every header with the awaited one before the bytes are used. Control frames go between data frames; a direction
 * without a link carries nothing else.
 *
 * A stripe that is repaired outlives its connections. The peer says how many frames it has taken: by HP_ACK, or, where both
 * directions share the stripe, in each data frame. The first frame of a new connection, HP_RESUME, says it again, and then
 * both sides send all frames that were not taken.
 *
 * Between two processes that share memory (shm.h) the posts move through that, and the connection carries control frames
 * only. It wakes the other process, and its end is the end of the stripe, once what lies in memory is read.
 */
#ifndef HP_STRIPE_H
#define HP_STRIPE_H

#include "net/link_state.h"
#include "net/loop.h"
#include "net/medium.h"
#include "net/receiver.h"
#include "net/sender.h"

enum { HP_ASK_DUE = 1, HP_ASK_SENT, HP_ASK_ANSWERED };

typedef void hp_kick_fn(void *arg); /* a connection can move something: the owner of the link is to drive */

struct hp_stripe {
    hp_link *out, *in; /* whose posts it carries; NULL: only control frames go in that direction */
    hp_medium medium;
    hp_watch *watch;
    hp_loop *loop;
    hp_kick_fn *kick;
    void *kick_arg;
    int number;          /* k of K: it carries the posts k, k + K ... */
    uint64_t taken;      /* frames received */
    int accepted, heard; /* the peer has dialled it; a byte has come over this connection */
    int readable;        /* the watch saw it readable; cleared by EAGAIN */
    int blocked; /* > 0: the last write would have blocked; try again after so many moves, or when it is writable */
    int left;

    hp_unacked *unacked; /* it is repaired; NULL: it is not */
    uint16_t generation; /* connections before this one */
    int resuming;        /* the peer's RESUME is to come: so many bytes of it have */
    size_t resume_n;
    uint8_t resume[HP_COMMON_BYTES + HP_TAKEN_BYTES + 4];
    uint64_t owed_frames, owed_bytes; /* taken, and not said so yet; */
    int owes_ack;                     /* to be said now */
    int asked, owes_answer;           /* the peer leaves, and wants to know what this end has taken; to be said now */
    uint64_t cut_at;                  /* frames taken of both directions when it was cut last, and 1; 0: it never was */
    int asks;                         /* this end leaves, and wants to know: HP_ASK_... */

    hp_sender sender;
    hp_receiver receiver;
    hp_control control; /* written between data frames; received here only in a direction without posts */
};

/*
 * Takes fd over, for the link and for its twin, if it has one. number: this stripe's index k; it carries posts k, k + K
 * ... NULL: out of memory, fd is closed.
 */
hp_stripe *hp_stripe_new(hp_link *link, int number, int fd, hp_loop *loop, hp_kick_fn *kick, void *arg);
/* From now on it is repaired; before its first frame. 0: out of memory. */
int hp_stripe_repair(hp_stripe *stripe);
/* Goes on over another connection, and closes the one before. Takes fd over. 0: out of memory. */
int hp_stripe_resume(hp_stripe *stripe, int fd, uint16_t generation);
int hp_stripe_move(hp_stripe *stripe, const hp_link *link); /* the link's posts, and what is readable; 1: moved */
void hp_stripe_arm(hp_stripe *stripe);
/* Queues a control frame; 0: no room. */
int hp_stripe_send_control(hp_stripe *stripe, int type, const void *payload, size_t n);
const hp_frame *hp_stripe_unposted(hp_stripe *stripe); /* see hp_link_unposted */
/* Ends a silent connection (ETIMEDOUT). once: not a second time without a frame in between. 1: it did. */
int hp_stripe_cut(hp_stripe *stripe, int once);
void hp_stripe_free(hp_stripe *stripe);

#endif
