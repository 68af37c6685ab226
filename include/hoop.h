/* SPDX-License-Identifier: MIT */
/*
 * hoop.h - ring collectives over TCP: the public face of the library.
 *
 * Ranks join at a rendezvous server, form a ring of persistent TCP connections and reduce arrays round it. Every rank
 * calls the same operations in the same order. Argument order and numbers are NCCL's; an `i` prefix makes a call
 * non-blocking. Every function that can fail returns a hoop_result; hoop_comm_error() returns the error as a sentence.
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
typedef struct hoop_work hoop_work;     /* one collective in flight */
typedef struct hoop_config hoop_config; /* key/value settings */

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
    HOOP_ERR_TIMEOUT = 8,          /* no rank progressed for op_timeout_ms */
    HOOP_ERR_MISMATCH = 32,        /* ranks called with different kind, count, dtype, op, root or order */
    HOOP_ERR_ABORTED = 33,         /* some rank called hoop_comm_abort, or failed by itself */
    HOOP_ERR_RENDEZVOUS = 34,      /* the ranks could not join: missing or duplicate ranks, no server */
    HOOP_ERR_AUTH = 35,            /* the shared secret is missing, unreadable or wrong */
    HOOP_ERR_VERSION = 36,         /* the other side speaks another version of the protocol */
    HOOP_ERR_PROTOCOL = 37,        /* the other side violated the protocol */
    HOOP_ERR_CORRUPT = 38,         /* a checksum was wrong: bytes changed on the network */
    HOOP_ERR_NO_MEMORY = 39,
    HOOP_ERR_UNSUPPORTED = 40, /* not built yet, or not in this build */
    HOOP_ERR_BUSY = 41,        /* another thread is in a blocking call or a wait on this communicator */
    HOOP_ERR_FORKED = 42,      /* the communicator belongs to the parent process */
    HOOP_ERR_STALE_EPOCH = 43, /* the others continued without this rank */
    HOOP_ERR_NO_QUORUM = 44    /* too few ranks are left to continue */
} hoop_result;

/* Equal ncclDataType_t. Buffers need an element's natural alignment, no more. */
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
    HOOP_FLOAT8E5M2 = 11
} hoop_dtype;

/*
 * Equal ncclRedOp_t. Integer sums and products wrap; integer AVG truncates toward zero. AVG of integers, float32 and
 * float64 divides the sum once, at the owner of the element. 16- and 8-bit floats accumulate in float32 within a hop.
 * NaN propagates through all five.
 *
 * AVG of 16- and 8-bit floats cannot overflow: ranks exchange means instead of sums. A mean a over p ranks and a mean
 * b over q ranks become a * (p / (p + q)) + b * (q / (p + q)): weights, products and sum are float32, each rounded, and
 * the result is rounded once to the type. It lies between the ranks' least and greatest element. Its error is at most
 * 1.001 J max(u S, e): S is the greatest magnitude among the elements; hoop_allreduce(3) has J, u and e.
 */
typedef enum hoop_op { HOOP_SUM = 0, HOOP_PROD = 1, HOOP_MAX = 2, HOOP_MIN = 3, HOOP_AVG = 4 } hoop_op;

/*
 * Settings. The same keys serve hoop_config_set ("op_timeout_ms"), the environment (HOOP_OP_TIMEOUT_MS) and
 * hoop.conf(5); hoop_env(7) lists them. hoop_config_new returns NULL when memory runs out. An unknown key or a bad
 * value is HOOP_ERR_INVALID_ARGUMENT and leaves the settings as they were. The strings are copied.
 */
hoop_config *hoop_config_new(void);
hoop_result hoop_config_set(hoop_config *config, const char *key, const char *value);
void hoop_config_free(hoop_config *config);

/*
 * Membership. hoop_comm_create returns when all ranks have joined and the ring is up, or with an error within
 * bootstrap_timeout_ms. After an error *comm is NULL, and hoop_comm_error(NULL, ...) has the sentence. config NULL: all
 * settings come from the environment and hoop.conf(5). A program that is started alone is a ring of one. The config may
 * be freed afterwards.
 */
hoop_result hoop_comm_create(hoop_comm **comm, const hoop_config *config);

/*
 * Leaves the ring; other ranks need not call it at the same time. Waits for work in flight up to op_timeout_ms, then
 * aborts it. Frees all works (their handles become invalid) and the communicator, and returns the communicator's error
 * if it has failed. HOOP_SUCCESS for NULL.
 */
hoop_result hoop_comm_destroy(hoop_comm *comm);

/*
 * Ends every operation on every rank with HOOP_ERR_ABORTED and `why` (copied; NULL: no reason). Any thread may call it.
 * HOOP_ERR_TIMEOUT: another thread is stuck in a call into the CUDA driver, and operations may still use their buffers.
 */
hoop_result hoop_comm_abort(hoop_comm *comm, const char *why);

/*
 * All ranks call it. Those of one color form a new communicator, ranked by key, then by old rank. A rank with color < 0
 * takes no part: it gets *newcomm NULL and HOOP_SUCCESS.
 */
hoop_result hoop_comm_split(hoop_comm *comm, int color, int key, hoop_comm **newcomm);
hoop_result hoop_comm_shrink(hoop_comm *comm, hoop_comm **newcomm); /* HOOP_ERR_UNSUPPORTED in this version */
hoop_result hoop_comm_grow(hoop_comm *comm, hoop_comm **newcomm);   /* HOOP_ERR_UNSUPPORTED in this version */

/* Getters; they work on a failed communicator too, and return -1 (completed: 0) for NULL. */
int hoop_comm_rank(const hoop_comm *comm);
int hoop_comm_size(const hoop_comm *comm);
int hoop_comm_local_rank(const hoop_comm *comm);     /* among the ranks of this host */
int hoop_comm_local_size(const hoop_comm *comm);     /* ranks on this host */
uint64_t hoop_comm_completed(const hoop_comm *comm); /* operations this rank has completed */

/*
 * This rank's own address on the network of the ring, as text without a port: "10.0.0.5", "fd00::5", "fe80::1%eth0".
 * The other ranks connect to it, unless HOOP_ADVERTISE is set. A ring of one has no network: "" and HOOP_SUCCESS. HOOP_ADDRESS_TEXT bytes hold every
 * address; if `size` is too small, the result is HOOP_ERR_INVALID_ARGUMENT and the text "". Works on a failed
 * communicator too.
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
 * At most one thread is in a blocking call or a wait on a communicator; a second gets HOOP_ERR_BUSY.
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

/*
 * Makes some progress (a few slices, about a millisecond), never blocks, never frees. *done = 1 when the operation has
 * ended; returns its error if it has one.
 */
hoop_result hoop_work_test(hoop_work *work, int *done);

/*
 * Waits up to timeout_ms milliseconds (-1: until the operation ends). HOOP_IN_PROGRESS: the time was up first, and the
 * work is still valid. Anything else is the operation's result, and the work is freed.
 */
hoop_result hoop_work_wait(hoop_work *work, int timeout_ms);

/* Waits for all, frees all, returns the first error. NULL entries are skipped. */
hoop_result hoop_wait_all(hoop_work **works, size_t count);

/*
 * For a program with its own event loop: the descriptor is readable when hoop_comm_progress has something to do. After
 * the first call of hoop_comm_fd the library's background thread stops driving, and the program must call
 * hoop_comm_progress, which never blocks, whenever the descriptor is readable. If it does not for long, a thread of the
 * library calls it now and then, so that the other ranks know that this rank is alive. The descriptor belongs to the
 * library.
 */
int hoop_comm_fd(const hoop_comm *comm);
hoop_result hoop_comm_progress(hoop_comm *comm);

/*
 * Groups: blocking collectives that this thread calls between start and end are queued (HOOP_SUCCESS means queued), and
 * small allreduces of one dtype and op are fused into one pass round the ring. hoop_group_end returns when all are
 * complete. After an argument error inside, the end returns that error, and the whole group is dropped. Nested groups,
 * waits, non-blocking calls and other communicators inside a group are HOOP_ERR_INVALID_USAGE.
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

/* Log lines go to standard error, or to fn (NULL: standard error). level: 1 WARN, 2 INFO, 3 TRACE; no newline in `line`. */
typedef void hoop_log_fn(void *arg, int level, const char *line);
void hoop_log_to(hoop_log_fn *fn, void *arg);
const char *hoop_version(void); /* "0.1.0" */

/*
 * The GPU of this process. hoop_gpu_ordinal tells which GPU hoop uses if no array determines another: that of the
 * thread's current CUDA context, else HOOP_CUDA_DEVICE's as the last hoop_comm_create has read it, else LOCAL_RANK
 * modulo the number of GPUs. It makes no context. Both start CUDA in the process, so fork before them.
 * *ordinal is its CUDA ordinal; after an error it is -1, and hoop_comm_error(NULL, ...) names the missing part.
 * hoop_gpu_describe writes one sentence on GPUs and driver, or on why the process has none, cut off at `size` bytes.
 */
hoop_result hoop_gpu_ordinal(int *ordinal);
hoop_result hoop_gpu_describe(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
