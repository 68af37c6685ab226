/* SPDX-License-Identifier: MIT */
/*
 * hoop.h - ring collectives over TCP: the public face of the library. Ranks join at a rendezvous server, form a ring of
 * persistent TCP connections and reduce arrays round it. Every rank calls the same operations in the same order. Argument
 * order and numbers are NCCL's; an `i` prefix makes a call non-blocking. Every function that can fail returns a
 * hoop_result; hoop_comm_error() returns the error as a sentence.
 */
#ifndef HOOP_H
#define HOOP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HOOP_VERSION_MAJOR 0
#define HOOP_VERSION_MINOR 1
#define HOOP_VERSION_PATCH 0

typedef struct hoop_comm hoop_comm;     /* a communicator: one rank's membership in a ring */
typedef struct hoop_work hoop_work;     /* one collective or message in flight */
typedef struct hoop_config hoop_config; /* key/value settings */
typedef struct hoop_server hoop_server; /* this process's rendezvous server */

/* 0 to 8 equal ncclResult_t. */
typedef enum hoop_result {
    HOOP_SUCCESS = 0,
    HOOP_ERR_CUDA = 1,             /* a CUDA driver call failed */
    HOOP_ERR_SYSTEM = 2,           /* a system call failed; hoop_error.sys_errno is its errno */
    HOOP_ERR_INTERNAL = 3,         /* a bug in hoop */
    HOOP_ERR_INVALID_ARGUMENT = 4, /* a wrong argument; nothing was started, the communicator is unharmed */
    HOOP_ERR_INVALID_USAGE = 5,    /* a right call at the wrong moment, for instance a wait inside a group */
    HOOP_ERR_PEER_LOST = 6,        /* a rank died or left */
    HOOP_IN_PROGRESS = 7,          /* not an error: the time of hoop_work_wait was up first */
    HOOP_ERR_TIMEOUT = 8,          /* no rank progressed for op_timeout_ms, or a wait was over its limit */
    HOOP_ERR_MISMATCH = 32,        /* ranks called with different kind, count, dtype, op, root, order or wire */
    HOOP_ERR_ABORTED = 33,         /* some rank called hoop_comm_abort, or failed by itself */
    HOOP_ERR_RENDEZVOUS = 34,      /* the ranks could not join: missing or duplicate ranks, no server */
    HOOP_ERR_AUTH = 35,            /* the shared secret is missing, unreadable or wrong */
    HOOP_ERR_VERSION = 36,         /* the other side speaks another version of the protocol */
    HOOP_ERR_PROTOCOL = 37,        /* the other side violated the protocol */
    HOOP_ERR_CORRUPT = 38,         /* a checksum was wrong: bytes changed on the network */
    HOOP_ERR_NO_MEMORY = 39,
    HOOP_ERR_UNSUPPORTED = 40, /* not built yet, or not in this build */
    HOOP_ERR_BUSY = 41,        /* destroyed, or its descriptor closed, while another thread waits or is stuck in it */
    HOOP_ERR_FORKED = 42,      /* the communicator belongs to the parent process */
    HOOP_ERR_STALE_EPOCH = 43, /* the others continued without this rank */
    HOOP_ERR_NO_QUORUM = 44    /* too few ranks are left to continue */
} hoop_result;

/*
 * Below 64 equal ncclDataType_t; from 64 on hoop's own, which NCCL does not have. Buffers need an element's natural
 * alignment, no more.
 */
typedef enum hoop_dtype {
    HOOP_INT8 = 0,
    HOOP_UINT8 = 1,
    HOOP_INT32 = 2,
    HOOP_UINT32 = 3,
    HOOP_INT64 = 4,
    HOOP_UINT64 = 5,
    HOOP_FLOAT16 = 6, /* IEEE 754 binary16 */
    HOOP_FLOAT32 = 7,
    HOOP_FLOAT64 = 8,
    HOOP_BFLOAT16 = 9,
    HOOP_FLOAT8E4M3 = 10, /* OCP 8-bit floats; they saturate instead of overflowing */
    HOOP_FLOAT8E5M2 = 11,
    HOOP_INT16 = 64,
    HOOP_UINT16 = 65,
    HOOP_BOOL = 66 /* one byte, as C's and C++'s bool: 0 is false, everything else is true */
} hoop_dtype;

/*
 * Below 64 equal ncclRedOp_t; from 64 on hoop's own. Integer sums and products wrap; integer AVG truncates toward zero.
 * AVG of integers, float32 and float64 divides the sum once, at the owner of the element. 16- and 8-bit floats
 * accumulate in float32 within a hop. NaN propagates through the five of NCCL.
 *
 * BAND, BOR and BXOR combine the bits of integers; floats are HOOP_ERR_INVALID_ARGUMENT. Results of HOOP_BOOL are 0 or
 * 1, on any number of ranks: SUM, MAX and BOR are or, PROD, MIN and BAND are and, BXOR is whether an odd number of
 * ranks has true; AVG is HOOP_ERR_INVALID_ARGUMENT. Operations that only move elements leave every byte as it is.
 *
 * AVG of 16- and 8-bit floats cannot overflow: ranks exchange means instead of sums. A mean a over p ranks and a mean b
 * over q ranks become a * (p / (p + q)) + b * (q / (p + q)): weights, products and sum are float32, each rounded, and
 * the result is rounded once to the type. It lies between the ranks' least and greatest element. Its error is at most
 * 1.001 J max(u S, e): S is the greatest magnitude among the elements; hoop_allreduce(3) has J, u and e.
 */
typedef enum hoop_op {
    HOOP_SUM = 0,
    HOOP_PROD = 1,
    HOOP_MAX = 2,
    HOOP_MIN = 3,
    HOOP_AVG = 4,
    HOOP_BAND = 64,
    HOOP_BOR = 65,
    HOOP_BXOR = 66
} hoop_op;

/*
 * Settings. The same keys serve hoop_config_set ("op_timeout_ms"), the environment (HOOP_OP_TIMEOUT_MS) and
 * hoop.conf(5); hoop_env(7) lists them. hoop_config_new returns NULL when memory runs out. An unknown key or a bad
 * value is HOOP_ERR_INVALID_ARGUMENT and leaves the settings as they were. The strings are copied. The setting "secret"
 * is for hoop_config_set only: it is kept apart from the others, never printed, and wiped by hoop_config_free.
 */
hoop_config *hoop_config_new(void);
hoop_result hoop_config_set(hoop_config *config, const char *key, const char *value);
void hoop_config_free(hoop_config *config);

/*
 * A secret for hoop_config_set(config, "secret", text): 64 random hexadecimal digits and a zero, in HOOP_SECRET_TEXT
 * bytes; a smaller `size` is HOOP_ERR_INVALID_ARGUMENT. The program passes it to the other ranks in a way that others
 * cannot read, and makes a new one for each start.
 */
enum { HOOP_SECRET_TEXT = 65 };
hoop_result hoop_secret_new(char *text, size_t size);

/*
 * A rendezvous server inside this process, for programs that pass its address and the secret to their ranks themselves:
 * what hoop-rendezvous(8) does, on a thread of the library. It serves any number of jobs whose ranks know the secret;
 * each group of ranks is a job (setting "job"). The process that serves need not be a rank.
 *
 * It listens on "rendezvous" (host:port; port 0: any) if that is set, else on the address of "socket_ifname", else on
 * the one by which this host reaches other hosts, or on loopback if it has none or with "security" none. A process has
 * one server: a second hoop_server_start returns the same one if secret, security and address agree, and otherwise
 * HOOP_ERR_INVALID_USAGE. After an error *server is NULL, and hoop_comm_error(NULL, ...) has the sentence.
 *
 * hoop_server_address gives what the ranks set as "rendezvous" (HOOP_RENDEZVOUS): host:port and a zero, in at most
 * HOOP_SERVER_TEXT bytes. If `size` is too small, the result is HOOP_ERR_INVALID_ARGUMENT and the text "".
 *
 * hoop_server_stop ends the server once it was called as often as hoop_server_start. Ranks that are still joining get
 * an error; rings that are up go on without a server, see hoop_faults(7). HOOP_SUCCESS for NULL. The server ends with
 * the process, too, and before the library is unloaded. After a fork it goes on in the parent only: in the child
 * hoop_server_address still gives the address, hoop_server_stop does nothing, and hoop_server_start starts another.
 */
enum { HOOP_SERVER_TEXT = 72 };
hoop_result hoop_server_start(hoop_server **server, const hoop_config *config);
hoop_result hoop_server_address(const hoop_server *server, char *text, size_t size);
hoop_result hoop_server_stop(hoop_server *server);

/*
 * hoop_comm_create returns when all ranks have joined and the ring is up, or with an error within bootstrap_timeout_ms.
 * After an error *comm is NULL, and hoop_comm_error(NULL, ...) has the sentence. config NULL: the environment and
 * hoop.conf(5) have all settings. A program that is started alone is a ring of one. config may be freed afterwards.
 */
hoop_result hoop_comm_create(hoop_comm **comm, const hoop_config *config);

/*
 * Leaves the ring; other ranks need not call it at the same time. Waits for work in flight up to op_timeout_ms, then
 * aborts it; and as long for messages that hoop_send has sent ahead to reach their ranks' systems. Frees all works
 * (their handles become invalid) and the communicator, and returns the communicator's error if it has failed.
 * HOOP_SUCCESS for NULL. HOOP_ERR_BUSY, and nothing is freed: another thread is in a blocking call or a wait on it, or
 * has been stuck in it for 5 s.
 */
hoop_result hoop_comm_destroy(hoop_comm *comm);

/*
 * Ends every operation on every rank with HOOP_ERR_ABORTED and `why` (copied; NULL: no reason). Any thread may call it.
 * HOOP_ERR_TIMEOUT: another thread is stuck in a call into the CUDA driver, and operations may still use their buffers.
 */
hoop_result hoop_comm_abort(hoop_comm *comm, const char *why);

/*
 * Changes op_timeout_ms for this rank from now on (0: no limit), operations in progress included. The shortest limit of
 * the ranks that are in an operation counts, so a rank that waits with a short limit ends the operation for all. Limits
 * below a second may end an operation in which only other ranks progress. Any thread may call it.
 * HOOP_ERR_INVALID_ARGUMENT: timeout_ms is below 0 or above 86400000.
 */
hoop_result hoop_comm_set_timeout(hoop_comm *comm, int timeout_ms);

/*
 * Names the communicator: "gradients". The name is copied, UTF-8 of at most 63 bytes without control characters; NULL or
 * "": no name any more. Errors of the communicator, tables and the flight recorder show it. The call is local; the ranks
 * need not give one name, and tables show that given last. Any thread may call it, at any time.
 * HOOP_ERR_INVALID_ARGUMENT: the name is too long, or not such text.
 */
hoop_result hoop_comm_set_name(hoop_comm *comm, const char *name);

/*
 * Names calls: operations and messages that any thread calls on this communicator from now on are "allreduce 1041
 * (gradients)" in errors, tables and the flight recorder. The name is copied, UTF-8 of at most 31 bytes without control
 * characters; NULL or "": no name any more. It is local and cheap, so a program may set it before each call. Any thread may
 * call it, at any time. Of a group each call has the name of its time, and a fused operation that of its first call.
 * HOOP_ERR_INVALID_ARGUMENT: the name is too long, not such text, or the 65th different one of this communicator; calls
 * then have no name.
 */
hoop_result hoop_comm_set_call_name(hoop_comm *comm, const char *name);

/*
 * All ranks call it. Those of one color form a new communicator, ranked by key, then by old rank. A rank with color < 0
 * takes no part: *newcomm is NULL. Other threads may wait on comm meanwhile; splits take turns.
 */
hoop_result hoop_comm_split(hoop_comm *comm, int color, int key, hoop_comm **newcomm);

/*
 * After an error that has ended comm, every rank that is left calls it with comm: these form *newcomm, in the old order.
 * Each is awaited for half of bootstrap_timeout_ms; a later one gets HOOP_ERR_STALE_EPOCH. A sound communicator ends by
 * this, on all ranks. comm remains to be destroyed. It needs the rendezvous server.
 */
hoop_result hoop_comm_shrink(hoop_comm *comm, hoop_comm **newcomm);
/*
 * All ranks call it. Processes that wait in hoop_comm_create with HOOP_JOIN=1 become the last ranks of *newcomm, and the
 * others keep their numbers. No process waits: *newcomm is comm. Else comm goes on, and remains to be destroyed.
 */
hoop_result hoop_comm_grow(hoop_comm *comm, hoop_comm **newcomm);
uint64_t hoop_comm_epoch(const hoop_comm *comm); /* how many shrinks and grows lie behind it; 0 for NULL */
/* In the one that was shrunk to comm, every rank of comm had completed *least operations, and one *most. Else 0, 0. */
hoop_result hoop_comm_history(const hoop_comm *comm, uint64_t *least, uint64_t *most);
/* Getters; they work on a failed communicator too, and return -1 (completed: 0) for NULL. */
int hoop_comm_rank(const hoop_comm *comm);
int hoop_comm_size(const hoop_comm *comm);
int hoop_comm_local_rank(const hoop_comm *comm);     /* among the ranks of this host */
int hoop_comm_local_size(const hoop_comm *comm);     /* ranks on this host */
uint64_t hoop_comm_completed(const hoop_comm *comm); /* operations this rank has completed */

/*
 * This rank's own address on the network of the ring, as text without a port: "10.0.0.5", "fd00::5", "fe80::1%eth0".
 * The other ranks connect to it, unless HOOP_ADVERTISE is set. A ring of one has no network: "" and HOOP_SUCCESS.
 * HOOP_ADDRESS_TEXT bytes hold every address; if `size` is too small, the result is HOOP_ERR_INVALID_ARGUMENT and the
 * text "". Works on a failed communicator too.
 */
enum { HOOP_ADDRESS_TEXT = 64 };
hoop_result hoop_comm_local_address(const hoop_comm *comm, char *text, size_t size);

/*
 * Collectives, blocking form. count is in elements. In place: allreduce, broadcast, reduce, alltoall with sendbuf ==
 * recvbuf; allgather and gather (at the root) with sendbuf == recvbuf + rank * sendcount elements; reduce_scatter and
 * scatter (at the root) with recvbuf == sendbuf + rank * recvcount elements. Any other overlap is
 * HOOP_ERR_INVALID_ARGUMENT. count 0 and a ring of one are fine. Off the root, the recvbuf of reduce and gather, the
 * sendbuf of broadcast and scatter may be NULL. Out of place, sendbuf is never written; in place it is undefined after
 * an error. HOOP_SUCCESS means that this rank's result is complete, and bit-identical to every other rank's.
 *
 *                   sendbuf                 recvbuf
 *   allreduce       count                   count                 reduction over all ranks
 *   reduce_scatter  size * recvcount        recvcount             block `rank` of the reduction
 *   allgather       sendcount               size * sendcount      the ranks' blocks in rank order
 *   broadcast       count (root)            count                 the root's data
 *   reduce          count                   count (root)          reduction, at the root
 *   gather          sendcount               size * sendcount (root)
 *   scatter         size * recvcount (root) recvcount
 *   alltoall        size * count            size * count          block r goes to rank r
 *   barrier         -                       -                     returns when all have entered
 *
 * Any number of threads may be in blocking calls and waits on a communicator. All ranks call the same collectives in
 * the same order; threads that call them agree on it themselves.
 */
hoop_result hoop_allreduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op,
                           hoop_comm *comm);
hoop_result hoop_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, hoop_op op,
                                hoop_comm *comm);
hoop_result hoop_allgather(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, hoop_comm *comm);
hoop_result hoop_broadcast(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, int root,
                           hoop_comm *comm);
hoop_result hoop_reduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op, int root,
                        hoop_comm *comm);
hoop_result hoop_gather(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, int root,
                        hoop_comm *comm);
hoop_result hoop_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, int root,
                         hoop_comm *comm);
hoop_result hoop_alltoall(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_comm *comm);
hoop_result hoop_barrier(hoop_comm *comm);

/*
 * allgather and reduce_scatter whose ranks have blocks of different sizes. recvcounts[r] is the count of rank r, and
 * displs[r] is where its block begins in the larger array, recvbuf of allgatherv and sendbuf of reduce_scatterv, in
 * elements; both have an entry for each rank, and are read before the call returns. displs NULL: one block behind the
 * other, in rank order. All ranks pass the same recvcounts; displs may differ from rank to rank. Counts may be 0.
 * Blocks must not overlap; what lies between them is neither read nor written. sendcount is recvcounts[rank]. In place:
 * allgatherv with sendbuf == recvbuf + displs[rank] elements, reduce_scatterv with recvbuf == sendbuf + displs[rank]
 * elements.
 */
hoop_result hoop_allgatherv(const void *sendbuf, void *recvbuf, size_t sendcount, const size_t *recvcounts,
                            const size_t *displs, hoop_dtype dtype, hoop_comm *comm);
hoop_result hoop_reduce_scatterv(const void *sendbuf, void *recvbuf, const size_t *recvcounts, const size_t *displs,
                                 hoop_dtype dtype, hoop_op op, hoop_comm *comm);

/*
 * Non-blocking form: starts the operation and returns. *work is its handle until a wait frees it. Several may be in
 * flight; their buffers must not overlap, and all ranks must start them in the same order. Any thread may start them.
 * After an error nothing was started and *work is NULL.
 */
hoop_result hoop_iallreduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op,
                            hoop_comm *comm, hoop_work **work);
hoop_result hoop_ireduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, hoop_op op,
                                 hoop_comm *comm, hoop_work **work);
hoop_result hoop_iallgather(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, hoop_comm *comm,
                            hoop_work **work);
hoop_result hoop_ibroadcast(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, int root,
                            hoop_comm *comm, hoop_work **work);
hoop_result hoop_ireduce(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op, int root,
                         hoop_comm *comm, hoop_work **work);
hoop_result hoop_igather(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, int root,
                         hoop_comm *comm, hoop_work **work);
hoop_result hoop_iscatter(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, int root,
                          hoop_comm *comm, hoop_work **work);
hoop_result hoop_ialltoall(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_comm *comm,
                           hoop_work **work);
hoop_result hoop_ibarrier(hoop_comm *comm, hoop_work **work);
hoop_result hoop_iallgatherv(const void *sendbuf, void *recvbuf, size_t sendcount, const size_t *recvcounts,
                             const size_t *displs, hoop_dtype dtype, hoop_comm *comm, hoop_work **work);
hoop_result hoop_ireduce_scatterv(const void *sendbuf, void *recvbuf, const size_t *recvcounts, const size_t *displs,
                                  hoop_dtype dtype, hoop_op op, hoop_comm *comm, hoop_work **work);

/* In which order a reduction combines the elements of the ranks; 0: by the setting "order", hoop_env(7). */
typedef enum hoop_order {
    HOOP_ORDER_SETTING = 0,
    HOOP_ORDER_AUTO = 1, /* the fastest; the same on all ranks, and for the same call on the same communicator */
    HOOP_ORDER_RANK = 2, /* floats: rank 0's and rank 1's, then rank 2's and so on; at most 64 ranks */
    HOOP_ORDER_HOST = 3  /* the ranks of each host so, then the hosts' sums; see hoop_allreduce(3) */
} hoop_order;
/* In which type sums and means of float32 travel, if not in memory: the setting "wire_dtype", hoop_env(7). 0 to 3. */
typedef enum hoop_wire { HOOP_WIRE_SETTING, HOOP_WIRE_FLOAT32, HOOP_WIRE_BFLOAT16, HOOP_WIRE_E4M3 } hoop_wire;

/*
 * hoop_iallreduce with options for this call; NULL: none. `size` is sizeof(hoop_call_options), set by the program: the struct
 * may grow. An option that is 0 is not set. Order and wire are the same on all ranks. Bytes that this version does not know
 * must be 0, else the result is HOOP_ERR_UNSUPPORTED. An option that does not fit the call is HOOP_ERR_INVALID_ARGUMENT.
 */
typedef struct hoop_call_options {
    size_t size;
    hoop_order order;
    hoop_wire wire;
    float *residual;       /* what rounding for the wire takes away: kept here, added at the next call; NULL: lost */
    size_t residual_count; /* elements, as many as the arrays */
} hoop_call_options;
hoop_result hoop_iallreduce_with(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op,
                                 hoop_comm *comm, const hoop_call_options *options, hoop_work **work);

/* Makes some progress (about a millisecond), never blocks or frees. *done = 1: it has ended; returns its error, if any. */
hoop_result hoop_work_test(hoop_work *work, int *done);

/*
 * Waits up to timeout_ms milliseconds (-1: until the operation ends). HOOP_IN_PROGRESS: the time was up first, and the
 * work is still valid. Anything else is the operation's result, and the work is freed.
 */
hoop_result hoop_work_wait(hoop_work *work, int timeout_ms);

/*
 * hoop_work_wait with a limit that counts for all ranks: if the time is up first, the operation ends with
 * HOOP_ERR_TIMEOUT, on every rank, and with it the communicator. The error names the rank that has not entered the
 * operation, or holds it up. -1: no limit. An operation that completes within the moment until the server judges it
 * (less than a second, five without a server) ends well. The work is freed. HOOP_ERR_TIMEOUT while another thread is
 * stuck in a call into the CUDA driver: operations may still use their buffers.
 */
hoop_result hoop_work_wait_or_fail(hoop_work *work, int timeout_ms);

/* Waits for all, frees all, returns the first error. NULL entries are skipped. */
hoop_result hoop_wait_all(hoop_work **works, size_t count);

/*
 * Waits up to timeout_ms milliseconds (-1: without limit) until one of the operations has ended. Its index is in
 * *index, it is freed, its entry becomes NULL, and its result is returned. If several have ended, the first of the
 * array is chosen. NULL entries are skipped; the works may belong to several communicators. *index == count: no
 * operation has ended; HOOP_IN_PROGRESS: the time was up, HOOP_SUCCESS: all entries are NULL, or count is 0.
 */
hoop_result hoop_wait_any(hoop_work **works, size_t count, int timeout_ms, size_t *index);

/*
 * Calls fn(arg, result) once when the operation has ended, also by an error, an abort or hoop_comm_destroy; from then
 * on the buffers are the program's again. Any thread may call fn: one that waits, tests or drives, one of the library,
 * or hoop_work_on_done itself if the operation has ended already. A communicator's functions are called one at a time,
 * in the order in which the operations complete. fn must return within microseconds. It may start operations (hoop_i*)
 * and free works, also where the thread that calls it has a group open: they are no part of that group. It must not
 * wait, make a blocking call, start or end a group, or create, split or destroy a communicator: these calls return
 * HOOP_ERR_INVALID_USAGE inside it. Waits for the operation return after fn has returned, and so does
 * hoop_comm_destroy. A second function for one work is HOOP_ERR_INVALID_USAGE. The handle stays valid until it is
 * waited for or freed.
 */
typedef void hoop_done_fn(void *arg, hoop_result result);
hoop_result hoop_work_on_done(hoop_work *work, hoop_done_fn *fn, void *arg);

/*
 * A ready function for hoop_work_on_done, for languages whose code should not run on a thread of the library; arg is a
 * hoop_signal. It stores the result, and then adds 1 to the counter of the eventfd `fd`, unless fd is below 0. The
 * program sets `result` to HOOP_IN_PROGRESS first, polls the eventfd, and looks which of its signals have another
 * result. The signal must stay valid until then, and the eventfd open.
 */
typedef struct hoop_signal {
    int fd;
    hoop_result result;
} hoop_signal;
void hoop_signal_done(void *signal, hoop_result result);

/*
 * Lets the handle go; it is invalid afterwards. The operation goes on, and its buffers are the program's again only
 * when it has ended: a function set before by hoop_work_on_done tells. HOOP_SUCCESS for NULL.
 */
hoop_result hoop_work_free(hoop_work *work);

/*
 * Messages between two ranks. A receive gets the oldest message of rank `peer` with its tag, 0 to INT32_MAX; messages
 * of one sender, receiver and tag keep their order, and are not ordered with anything else. The two ranks' types must be
 * the same. A message may have fewer elements than its receive, whose array it fills from the start; more are
 * HOOP_ERR_MISMATCH. No other rank takes part, and the calls are not counted by hoop_comm_completed.
 *
 * Up to 64 KiB travel ahead of their receive, in all up to 1 MiB from one rank to another: such a send is complete when
 * the message is on its way. A longer one, or one beyond the 1 MiB, is complete when its receive has taken it. So two
 * ranks that both send first and then receive wait for each other: put the two calls in a group, where all messages run
 * at once, or use the non-blocking form. Messages to oneself work in a group and in non-blocking form; a blocking
 * hoop_send to oneself of more than 64 KiB is HOOP_ERR_INVALID_ARGUMENT. Arrays may be in a GPU's memory.
 *
 * A receive with peer HOOP_ANY_RANK takes the message with its tag that this rank has read first, from whatever rank. It
 * and receives from one rank get messages in the order in which they were called. It fails if any rank is lost, or when
 * all others have left. hoop_recv_on_stream has no such form: HOOP_ERR_UNSUPPORTED.
 */
enum { HOOP_ANY_RANK = -1 };
hoop_result hoop_send(const void *sendbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm);
hoop_result hoop_recv(void *recvbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm);
hoop_result hoop_isend(const void *sendbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm,
                       hoop_work **work);
hoop_result hoop_irecv(void *recvbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm,
                       hoop_work **work);

/*
 * How many elements came, and from which rank; peer and count may be NULL. hoop_received tells of the last receive that a
 * call of this thread has ended well: hoop_recv outside a group, or a wait for a work of hoop_irecv. hoop_work_received
 * tells of a work of hoop_irecv that has ended and was not freed by a wait, in any thread. HOOP_ERR_INVALID_USAGE: there
 * is no such receive, or the work is another one, in progress, or failed. A receive in a group has no getter.
 */
hoop_result hoop_received(int *peer, size_t *count);
hoop_result hoop_work_received(const hoop_work *work, int *peer, size_t *count);

/*
 * Each rank sends a block to each rank, itself included: sendcounts[r] elements from sendbuf + senddispls[r] elements
 * go to rank r, and recvcounts[r] elements from rank r go to recvbuf + recvdispls[r] elements. Counts and displacements
 * are arrays of one number a rank, read before the call returns; displacements NULL: the blocks lie one after the
 * other. Zeros are fine. The blocks are messages: the count that rank a sends to rank b must be the one that b receives
 * from a, and all ranks call it equally often. The arrays must not overlap.
 */
hoop_result hoop_alltoallv(const void *sendbuf, void *recvbuf, const size_t *sendcounts, const size_t *senddispls,
                           const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype, hoop_comm *comm);
hoop_result hoop_ialltoallv(const void *sendbuf, void *recvbuf, const size_t *sendcounts, const size_t *senddispls,
                            const size_t *recvcounts, const size_t *recvdispls, hoop_dtype dtype, hoop_comm *comm,
                            hoop_work **work);

/*
 * For a program with its own event loop: the descriptor is readable when hoop_comm_progress has something to do. After
 * the first call of hoop_comm_fd the library's background thread stops driving, and the program must call
 * hoop_comm_progress, which never blocks, whenever the descriptor is readable. If it does not for long, a thread of the
 * library calls it now and then, so that the other ranks know that this rank is alive. The descriptor belongs to the
 * library. hoop_comm_fd_close closes it, and the background thread drives again, also operations in flight; a later
 * hoop_comm_fd makes a new one. HOOP_SUCCESS if there is no descriptor; HOOP_ERR_BUSY if another thread is in a blocking
 * call or a wait on the communicator, or has been stuck in it for 5 s. hoop_comm_progress may be called beside such a
 * thread, which drives then.
 */
int hoop_comm_fd(const hoop_comm *comm);
hoop_result hoop_comm_fd_close(hoop_comm *comm);
hoop_result hoop_comm_progress(hoop_comm *comm);

/*
 * Groups: blocking collectives that this thread calls between start and end are queued (HOOP_SUCCESS means queued), and
 * small allreduces of one dtype and op are fused into one pass round the ring. hoop_group_end returns when all are
 * complete. After an argument error inside, the end returns that error, and the whole group is dropped. Nested groups,
 * waits, hoop_work_on_done, hoop_comm_progress, non-blocking calls and other communicators inside a group are
 * HOOP_ERR_INVALID_USAGE. Several threads may have a group each.
 */
hoop_result hoop_group_start(hoop_comm *comm);
hoop_result hoop_group_end(hoop_comm *comm);
hoop_result hoop_igroup_end(hoop_comm *comm, hoop_work **work);

/*
 * Stream-ordered form, for device memory: adds the operation to the CUDA stream and returns. When the stream reaches
 * it, the stream waits for the result and continues. cuda_stream is a cudaStream_t or CUstream.
 */
hoop_result hoop_allreduce_on_stream(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op,
                                     hoop_comm *comm, void *cuda_stream);
hoop_result hoop_reduce_scatter_on_stream(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype,
                                          hoop_op op, hoop_comm *comm, void *cuda_stream);
hoop_result hoop_allgather_on_stream(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype,
                                     hoop_comm *comm, void *cuda_stream);
hoop_result hoop_broadcast_on_stream(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, int root,
                                     hoop_comm *comm, void *cuda_stream);
hoop_result hoop_reduce_on_stream(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_op op,
                                  int root, hoop_comm *comm, void *cuda_stream);
hoop_result hoop_gather_on_stream(const void *sendbuf, void *recvbuf, size_t sendcount, hoop_dtype dtype, int root,
                                  hoop_comm *comm, void *cuda_stream);
hoop_result hoop_scatter_on_stream(const void *sendbuf, void *recvbuf, size_t recvcount, hoop_dtype dtype, int root,
                                   hoop_comm *comm, void *cuda_stream);
hoop_result hoop_alltoall_on_stream(const void *sendbuf, void *recvbuf, size_t count, hoop_dtype dtype, hoop_comm *comm,
                                    void *cuda_stream);
hoop_result hoop_barrier_on_stream(hoop_comm *comm, void *cuda_stream);
hoop_result hoop_allgatherv_on_stream(const void *sendbuf, void *recvbuf, size_t sendcount, const size_t *recvcounts,
                                      const size_t *displs, hoop_dtype dtype, hoop_comm *comm, void *cuda_stream);
hoop_result hoop_reduce_scatterv_on_stream(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
                                           const size_t *displs, hoop_dtype dtype, hoop_op op, hoop_comm *comm,
                                           void *cuda_stream);

/*
 * The same of messages. One starts when the stream reaches it, and the stream goes on when it is complete: a receive
 * that is behind a send in the same stream cannot start before that send has ended.
 */
hoop_result hoop_send_on_stream(const void *sendbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm,
                                void *cuda_stream);
hoop_result hoop_recv_on_stream(void *recvbuf, size_t count, hoop_dtype dtype, int peer, int tag, hoop_comm *comm,
                                void *cuda_stream);
hoop_result hoop_alltoallv_on_stream(const void *sendbuf, void *recvbuf, const size_t *sendcounts,
                                     const size_t *senddispls, const size_t *recvcounts, const size_t *recvdispls,
                                     hoop_dtype dtype, hoop_comm *comm, void *cuda_stream);

/* Errors. A communicator's first error is kept and returned by every later call on it; argument errors are not kept. */
enum { HOOP_PHASE_NONE = 0, HOOP_PHASE_BRINGUP = 1, HOOP_PHASE_OPERATION = 2, HOOP_PHASE_LEAVE = 3 };
enum { HOOP_ERROR_BEST_EFFORT = 1 }; /* the server was gone: `rank` may be the guess of a neighbour */

typedef struct hoop_error {
    size_t size; /* = sizeof(hoop_error), set by the program: the struct may grow */
    hoop_result code;
    int rank;          /* the rank that caused it, -1 if unknown */
    int reporter;      /* the rank that saw it first, -1 if unknown */
    uint64_t sequence; /* the operation, counted from 1; 0: none */
    int sys_errno;     /* 0 if none */
    int phase;         /* HOOP_PHASE_* */
    int flags;         /* HOOP_ERROR_* */
    char text[256];    /* one sentence for a human */
} hoop_error;

/*
 * Fills *error (its size field must be set) with the communicator's kept error or, if it has no error, with this
 * thread's last error on it; comm NULL: this thread's last error. Returns HOOP_SUCCESS, or HOOP_ERR_INVALID_ARGUMENT.
 */
hoop_result hoop_comm_error(const hoop_comm *comm, hoop_error *error);
const char *hoop_strerror(hoop_result result); /* a short phrase; never NULL, never freed */
size_t hoop_dtype_size(hoop_dtype dtype);      /* bytes of an element, 0 for an unknown type */

/*
 * What a rank knows of itself. Fields that are "now" tell of the present; all others count from the return of
 * hoop_comm_create, and only grow. A wait is time in which operations of this rank were in progress and no step of them
 * moved for at least 10 microseconds, also if the program computed meanwhile; it counts for what the oldest collective
 * waited for, or, without a collective, the oldest message. ns: nanoseconds by CLOCK_MONOTONIC. Without a flight
 * recorder (setting "recorder" 0) nothing takes the time of a call: inside_ns, outside_ns and entries are 0. Entries
 * count once the clocks were compared, so never without a server.
 */
typedef struct hoop_stats {
    size_t size;                  /* = sizeof(hoop_stats), set by the program: the struct may grow */
    uint64_t operations;          /* collectives that have ended well, as hoop_comm_completed */
    uint64_t messages;            /* sends and receives that have ended well, of an alltoallv one each with each rank */
    uint64_t bytes_sent;          /* payload to other ranks, also of what has failed or is forwarded; no heads */
    uint64_t bytes_received;      /* likewise from other ranks */
    uint64_t inside_ns;           /* at least one operation was called and had not ended */
    uint64_t outside_ns;          /* now: since the last one ended; 0: one is in progress, or none was called */
    uint64_t waited_peer_ns;      /* for data of another rank: it is late, or the network is slow */
    uint64_t waited_link_ns;      /* for another rank, or the network, to take data */
    uint64_t waited_stream_ns;    /* for the CUDA stream of the call to reach the operation */
    uint64_t waited_reduction_ns; /* for this rank's own device: its reductions and copies */
    uint64_t slowest_ns;          /* of waited_peer_ns and waited_link_ns, the part for rank slowest_rank */
    int32_t slowest_rank;         /* now: the rank waited for longest, which may itself wait for another; -1: none */
    uint32_t rtt_us;              /* now: us to the rank to which most goes over TCP, and back; 0: unknown */
    uint64_t retransmits;         /* segments that TCP has sent to other ranks again */
    uint64_t delivery_rate;       /* now: bytes/s that TCP has last delivered to that rank; 0: unknown */
    uint64_t entries;             /* collectives whose time of call was kept, every 1,024th; */
    uint64_t entered_ns;          /* the sum of these times by the clock of the server's host, modulo 2^64; */
    uint64_t entered_error_ns;    /* and the most by which that sum may be wrong */
    int64_t clock_offset_ns;      /* now: this host's CLOCK_MONOTONIC less that of the server's host; */
    uint64_t clock_error_ns;      /* now: the most by which that may be wrong; UINT64_MAX: it is not known */
    int32_t shares_memory;        /* now: 1: data to the next rank passes through shared memory; 0: over TCP */
    int32_t in_rank_order;        /* now: 1: the collective that ended last was combined in rank order, 2: by host */
    char algorithm[16];           /* now: its algorithm, as in hoop_allreduce(3): "ring"; "": none has ended */
    uint64_t repairs;             /* connections to other ranks that broke and were made again */
    uint64_t narrowed;            /* collectives that have ended well, and whose elements travelled narrower: all, */
    uint64_t narrowed_e4m3;       /* and of these, those whose elements travelled as e4m3, in a quarter of the bytes */
    uint64_t levels;              /* collectives that have ended well, and went over two levels */
} hoop_stats;

/*
 * Fills *stats (its size field must be set). Any thread, at any time, also on a failed communicator; it waits for nothing.
 * The fields of TCP and of the clock are renewed once a second while this rank calls; of several connections that carry much
 * the slowest counts, and retransmits of all are added up. While operations run the fields may be of slightly different moments.
 * HOOP_ERR_INVALID_ARGUMENT: comm or stats is NULL, or size is too small; then *stats is as it was.
 */
hoop_result hoop_comm_stats(const hoop_comm *comm, hoop_stats *stats);

/* Log lines go to fn, or if it is NULL to standard error. level: 1 WARN, 2 INFO, 3 TRACE; `line` has no newline. */
typedef void hoop_log_fn(void *arg, int level, const char *line);
void hoop_log_to(hoop_log_fn *fn, void *arg);
const char *hoop_version(void); /* "0.1.0" */

/*
 * For languages whose handlers of signals run between two calls of C only: fn (NULL, as at the start: none) is called
 * every 100 ms on the main thread of the process while that is inside a blocking call: creating, splitting, destroying,
 * a blocking operation, hoop_group_end, hoop_work_wait_or_fail. It returns 0: go on. Anything else interrupts the call,
 * which ends with HOOP_ERR_ABORTED; the other ranks are informed "rank 3 was interrupted", and the communicator is over, or
 * is not made. A split that is interrupted leaves its parent as it was. fn may call hoop, and is not called meanwhile.
 * The waits with limits of their own, hoop_work_wait and hoop_wait_any, do not ask: the program waits in slices.
 */
typedef int hoop_interrupt_fn(void *arg);
void hoop_interrupt_by(hoop_interrupt_fn *fn, void *arg);

/*
 * The GPU of this process. hoop_gpu_ordinal tells which GPU hoop uses if no array determines another: that of the
 * thread's current CUDA context, else HOOP_CUDA_DEVICE's as the last hoop_comm_create has read it, else LOCAL_RANK
 * modulo the number of GPUs. It makes no context. *ordinal is its CUDA ordinal; after an error it is -1. Both functions
 * start CUDA in the process, so fork before them. hoop_gpu_describe writes one sentence on GPUs and driver, or on why
 * it has none, cut off at `size` bytes.
 */
hoop_result hoop_gpu_ordinal(int *ordinal);
hoop_result hoop_gpu_describe(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
