/* SPDX-License-Identifier: MIT */
/*
 * post: what a link moves as one: a frame, and its payload in one place of memory or in several, such as the tensors of a
 * fused group. Pure. The list of places is the caller's, and stays as it is until the post is done; each system call gets
 * some iovecs made from it.
 */
#ifndef HP_POST_H
#define HP_POST_H

#include "net/frame.h"

#include <sys/uio.h>

enum { HP_IOV_ONCE = 256 }; /* iovecs for one system call, at most */

/* A contiguous part of an operation's elements: all of them, or one tensor of a fused group. */
typedef struct hp_segment {
    uint64_t begin; /* first element within the operation */
    uint64_t count;
    const uint8_t *send;
    uint8_t *recv;
} hp_segment;

typedef enum hp_side { HP_SIDE_SEND, HP_SIDE_RECV } hp_side;

/* The first `run` bytes lie at data; the rest of the payload lies in the segments from `rest` on. */
typedef struct hp_iov {
    uint8_t *data;
    uint32_t run;
    uint32_t elem; /* bytes of a segment's element */
    const hp_segment *rest;
    hp_side side;
} hp_iov;

/* Lists the places of bytes `from` to `to` - 1 in order, at most `room` of them, none empty. Returns their number. */
int hp_iov_list(const hp_iov *pieces, uint32_t from, uint32_t to, struct iovec *places, int room);

/* Copies the first n bytes into one place. */
void hp_iov_copy(const hp_iov *pieces, uint32_t n, uint8_t *out);

/* CRC32C of the first n bytes. */
uint32_t hp_iov_crc(const hp_iov *pieces, uint32_t n);

enum { HP_SMALL_BYTES = 2048 }; /* a payload up to this is copied next to its head: cheaper than an iovec */

typedef struct hp_post {
    hp_frame frame; /* the frame to send, or the one that must arrive */
    uint32_t bytes; /* payload */
    hp_iov body;
    int done;
} hp_post;

/* Whether the payload is small and in one place. */
static inline int
hp_post_is_small(const hp_post *post)
{
    return post->bytes <= HP_SMALL_BYTES && post->body.run >= post->bytes;
}

#endif
