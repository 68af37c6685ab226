/* SPDX-License-Identifier: MIT */
/*
 * link: one direction between two ranks: K stripes (TCP connections) that carry posts in order. A post is one slice to
 * receive or to send; post i travels on stripe i mod K. The link of the other direction, its twin, may share the stripes.
 * The belt reads two counters that only grow, `posted` and `done`. A link may have posts before it is connected: they
 * wait. It keeps its first error, with its sentence; lib/fault.c reads that.
 *
 * The memory of a post is the link's until the post is done.
 */
#ifndef HP_LINK_H
#define HP_LINK_H

#include "net/stripe.h"

/* capacity: how many posts it can hold. NULL when memory runs out. The state is HP_LINK_WANTED. */
hp_link *hp_link_new(int sending, int self, int peer, int distance, int stripes, uint32_t capacity);

/*
 * Two links with one peer share their connections, one direction each; both have as many stripes. dials: this rank dials
 * them, and sends first. Without this call a link has connections of its own, which the sending rank dials. Before the
 * first is attached.
 */
void hp_link_pair(hp_link *out, hp_link *in, int dials);

/*
 * Takes a proven connection for stripe k, for its twin too. The state is OPEN when all K are there. The descriptor is the
 * link's, also after an error.
 */
hoop_result hp_link_attach(hp_link *link, int k, int fd, hp_loop *loop, hp_kick_fn *kick, void *arg, hoop_error *error);

/* From now on the posts of stripe k, which has just been attached, move through this memory. The memory is the link's. */
void hp_link_share(hp_link *link, int k, hp_shm *shm);
int hp_link_shares(const hp_link *link); /* whether they do */

/*
 * From now on stripe k, which has just been attached, is repaired if its connection breaks: the link is LOST, the rank that
 * dials dials again, and hp_link_resume puts the new connection in the place of the old one, also where that seems to be sound. generation:
 * how often it was dialled again; later ones win. Both ranks alike. The link is OPEN again when all stripes are.
 */
hoop_result hp_link_repair(hp_link *link, int k, hoop_error *error);
hoop_result hp_link_resume(hp_link *link, int k, int fd, uint16_t generation, hoop_error *error);
int hp_link_resumes(const hp_link *link, int k,
                    uint16_t generation); /* whether such a connection may come in its place */

/* Whether stripe k is to be dialled again. */
int hp_link_is_broken(const hp_link *link, int k);
uint16_t hp_link_next_generation(const hp_link *link, int k); /* after 65535 comes 1 */
int hp_link_is_repaired(const hp_link *link);                 /* whether the link is LOST, and may be OPEN again */

/* Whether stripe k has not been attached, or has not carried a byte: another connection may take its place. */
int hp_link_is_fresh(const hp_link *link, int k);

/* Whether the connection of stripe k stands: it is attached, and the other end has not closed it. A system call. */
int hp_link_stands(const hp_link *link, int k);

/* Whether the next post can never be completed because the stripe that carries it has ended. */
int hp_link_is_stuck(const hp_link *link);

/* The decoded head of a data frame that has come, and for which there is no post yet, or which was refused; NULL: none. */
const hp_frame *hp_link_unposted(const hp_link *link);

/*
 * What the kernel has measured of its connections, a system call for each: the longest round trip, and the sums of the
 * others. Zeros where memory carries the posts.
 */
hp_tcp_path hp_link_path(const hp_link *link);

/*
 * For how many ns the other host has acknowledged nothing on one of its connections (tcp.h); a system call for each. Only
 * looks since which the link was open count. hp_link_cut ends those that are silent, and the wait for one that is dialled:
 * the link is lost (ETIMEDOUT), and not repaired. It opens again if the dial succeeds after all. hp_link_cut_once is for a
 * host that answers: it ends the connections that are silent and repaired, each once; where a frame has been taken since,
 * again. 1: it did.
 */
uint64_t hp_link_silence(hp_link *link, uint64_t now);
/* Whether the other host has acknowledged anything in the last `within` ns: an idle connection is probed by keepalive. */
int hp_link_is_heard(const hp_link *link, uint64_t within);
/*
 * The size in bytes of the segments of a silent link that loses them, perhaps for their size; 0: it does not. After
 * hp_link_silence. answered: as hp_tcp_silence_answer has it.
 */
uint32_t hp_link_lost_size(hp_link *link, int answered, uint64_t now);
void hp_link_cut(hp_link *link);
int hp_link_cut_once(hp_link *link);

/* Appends a post. Returns its number + 1: the post is done when link->done reaches that. Never fails, never blocks. */
uint64_t hp_link_post(hp_link *link, const hp_frame *frame, void *data, uint32_t bytes);

/* The same for a payload in several places, which stay as they are until the post is done. */
uint64_t hp_link_post_iov(hp_link *link, const hp_frame *frame, const hp_iov *pieces, uint32_t bytes);

/* Moves the bytes that can be moved without blocking. Returns 1 if any moved. */
int hp_link_move(hp_link *link);

/* Sends a TICK to the peer of a receiving link. Returns 0 if an earlier TICK is still queued: this one is dropped. */
int hp_link_send_heartbeats(hp_link *link, const uint8_t *heartbeats, size_t n);

/* Sends an HP_CREDIT to the peer of a receiving link. Returns 0 if there is no room for it now. */
int hp_link_send_credit(hp_link *link, const uint8_t payload[HP_CREDIT_BYTES]);

/* Before the driver sleeps: watches the directions in which bytes are awaited, and no other. */
void hp_link_arm(hp_link *link);

/*
 * After a fault: sends the first cause to the peer if the last frame is complete (best effort, never blocks), then
 * moves nothing more. Posts stay undone; their memory is the caller's again.
 */
void hp_link_stop(hp_link *link, const hoop_error *cause);

/*
 * Before hp_link_leave: asks the peer what it has taken. Then hp_link_is_free is 1 when the peer needs nothing more of this
 * rank, or the link is not repaired (parting.h); until then the owner moves the link on and has it repaired. waited: so long.
 */
void hp_link_ask(hp_link *link);
int hp_link_is_free(const hp_link *link, uint64_t waited, uint64_t peer_timeout, int proxied);

/* Sends LEAVE and nothing after it. hp_link_closed returns 1 when the peer has all that was written, or has closed. */
void hp_link_leave(hp_link *link);
int hp_link_closed(hp_link *link);
void hp_link_free(hp_link *link);

#endif
