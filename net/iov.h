/* SPDX-License-Identifier: MIT */
/*
 * iov: a payload that lies in several places of memory, as the tensors of a fused group do: pure. The list is the
 * caller's, who keeps it as it is until the post is done; nothing is made of it but a few places for each system call.
 */
#ifndef HP_IOV_H
#define HP_IOV_H

#include <stdint.h>
#include <sys/uio.h>

enum { HP_IOV_ONCE = 256 }; /* places that one system call gets at most */

/* A contiguous piece of an operation's element space: all of it, or one tensor of a fused group. */
typedef struct hp_segment {
    uint64_t begin; /* first element within the operation */
    uint64_t count;
    const uint8_t *send;
    uint8_t *recv;
} hp_segment;

typedef enum hp_side { HP_SIDE_SEND, HP_SIDE_RECV } hp_side;

/* The first `run` bytes lie at data; what is missing of the payload, in the segments from `rest` on. */
typedef struct hp_iov {
    uint8_t *data;
    uint32_t run;
    uint32_t elem; /* bytes of a segment's element */
    const hp_segment *rest;
    hp_side side;
} hp_iov;

/* The places of bytes `from` to `to` - 1, in order, none of them empty; as many as there is room for. Their number. */
int hp_iov_list(const hp_iov *pieces, uint32_t from, uint32_t to, struct iovec *places, int room);

/* The first n bytes, put together. */
void hp_iov_copy(const hp_iov *pieces, uint32_t n, uint8_t *out);

/* CRC32C of the first n bytes. */
uint32_t hp_iov_crc(const hp_iov *pieces, uint32_t n);

#endif
