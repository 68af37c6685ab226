/* SPDX-License-Identifier: MIT */
/*
 * comm: the structure of a communicator, part by part, and how its ranks are named. The functions of each part are in
 * the file that the part names; they are above this one, so nothing here calls them. join.c makes a communicator,
 * leave.c ends it, and baton.h has the rule which thread may touch what.
 */
#ifndef HP_COMM_H
#define HP_COMM_H

#include "base/dtype.h"
#include "lib/channel.h"
#include "lib/config.h"
#include "lib/listener.h"
#include "lib/peer_heartbeat.h"
#include "lib/probe.h"
#include "rendezvous/client.h"
#include "rendezvous/stall_warning.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum hp_comm_state {
    HP_COMM_JOINING,    /* joining at the rendezvous server */
    HP_COMM_CONNECTING, /* the ring is known, links are being opened */
    HP_COMM_READY,
    HP_COMM_FAILED, /* fault.error is the first cause */
    HP_COMM_CLOSED  /* leaving */
} hp_comm_state;

/* One connection of a link while it is being dialled; links.c's. */
typedef struct hp_dialing {
    hoop_comm *comm;
    hp_dial *dial;
    hp_link *link;
    int stripe;
    struct hp_dialing *next;
} hp_dialing;

/* fault.c's. */
typedef struct hp_fault {
    atomic_int known;  /* 1: error is final; any thread may read it, the driver may not have acted on it yet */
    atomic_int failed; /* 1: the driver has, and nothing moves any more */
    hoop_error error;
    hoop_error suspicion; /* becomes the error at `grace`, unless the cause is known by then */
    uint64_t grace;       /* by hp_loop_now(); 0: there is no suspicion */
    const hp_link *ended; /* the link whose end is the suspicion; NULL: it is something else */
    uint64_t report_at;   /* when the loss of that link has to be reported to the server; 0: it was, or need not be */
    hp_probe probe;       /* of that link's peer */
} hp_fault;

/*
 * Which thread drives, and what it has to do; progress.c's, inbox.c's, work_pool.c's and baton.c's. Guarded by `mutex`
 * unless atomic, or the baton holder's.
 */
typedef struct hp_driver {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* baton free, work arrived, stop */
    pthread_t thread;       /* the background thread */
    int has_thread, stop;
    atomic_int manual;  /* the program drives (hoop_comm_fd) */
    int64_t spins;      /* how often the driver polls again before it sleeps, for now; the baton holder's */
    int64_t most_spins; /* by the setting, and the ranks on this host; likewise */
    unsigned ended;     /* waits that have ended; likewise */
    int held;           /* a thread has the baton */
    int waiting;        /* a thread is in a blocking call or a wait, */
    int elsewhere;      /* and drives another communicator meanwhile (a split) */
    hoop_work *inbox, *inbox_last;
    hoop_work *free;           /* works to use again */
    hoop_work *made;           /* every work there is, by `made_before` */
    hp_segment *free_arrays;   /* arrays of segments that no group uses now */
    int aborters;              /* threads inside hp_progress_abort */
    hp_unstarted refused_call; /* the last call that was refused, */
    int refused;               /* 1: no operation was started since; 2: likewise, and the driver has read it */
    int refusal_reported;      /* a refused call was reported to the server; the baton holder's */
    uint64_t sequence;         /* of the last operation started */
    atomic_int has_inbox;      /* read by the driver without the mutex */
    atomic_int yield;          /* threads that ask the driver to hand the baton over */
    atomic_int asleep;         /* the driver is (about to be) in hp_loop_run: wake it */
    atomic_ullong outstanding; /* works started and not done */
    atomic_int reconnecting;   /* the control connection is being made again */
    atomic_int aborting;       /* 1: the driver has to end all works, by fault.error; 2: it has */
    atomic_ullong heartbeat;   /* grows while the driver is not stuck in a call */
} hp_driver;

/* stream_watchdog.c's. */
typedef struct hp_stream_watchdog {
    pthread_t thread;
    pthread_cond_t wakeup; /* with the driver's mutex */
    int runs, stop, released;
    unsigned long long heartbeat; /* the driver's, as last seen */
    uint64_t polls;               /* since it has grown */
} hp_stream_watchdog;

/* standby.c's; with the driver's mutex. */
typedef struct hp_standby {
    pthread_t thread;
    pthread_cond_t wakeup;
    int runs, stop, idle;          /* idle: until hp_standby_wake */
    void (*poll)(hoop_comm *comm); /* one round, if no other thread drives */
} hp_standby;

/* What reports.c has reported of the operation in progress. The baton holder's. */
typedef struct hp_reports {
    uint64_t steps, bytes, moved_at; /* progress as last seen, and when it last grew */
    uint64_t entered, entered_at;    /* the oldest operation as last seen, and since when it is the oldest */
    int entering;                    /* it was started out of none, and its times are not set yet */
    uint64_t reported_at;            /* last IN_OP or PROGRESS */
    int in_op;                       /* IN_OP was sent to the server */
    int out;                         /* and OUT after it, on a connection not polled since; progress.c's */
    uint64_t logged;                 /* the last operation of which this rank has logged whom it waits for */
    hp_stall_warning warning;        /* the stall warning that this rank gives while the server is lost */
    hp_heartbeats *heartbeats;       /* those that the ranks send each other then; NULL without neighbours */
} hp_reports;

/* A communicator's use of its GPU, which is device[1]; devices.c's. */
typedef struct hp_gpu_use {
    int chosen;                    /* a call has used it; until then it is only prepared; under the driver's mutex */
    atomic_int prepared;           /* it was prepared, or that was tried; set under the lock of registry.c */
    atomic_int blocked;            /* callers' streams that wait for operations of this communicator */
    atomic_int pinned;             /* a bit for each device on which the channels' queues are open */
    int queue_fd[HP_CHANNELS_MAX]; /* the queues' wake-ups */
    hp_watch *queue_watch[HP_CHANNELS_MAX];
    uint64_t awaited_since; /* since when the driver waits for a stream to reach its operation; 0: no; round.c's */
} hp_gpu_use;

/* A group being collected; hoop.c's and group.c's. */
typedef struct hp_group {
    int open;
    hoop_result result; /* first argument error inside */
    hp_call call;       /* the call that it is of */
    hoop_error error;
    uint64_t small;                                  /* bytes of an allreduce that is fused with others like it */
    hoop_work *head, *tail;                          /* queued works, in the order of their first calls */
    hoop_work *alike[HP_DTYPES][HP_OPS][HP_DEVICES]; /* the one that small allreduces of a type and operation join */
} hp_group;

struct hoop_comm {
    hoop_config config;
    unsigned forks;                                   /* hp_forks() at creation */
    hoop_comm *next_registered, *previous_registered; /* registry.c's */

    /* the ring: join.c's, constant once the communicator is handed out */
    int rank, size, local_rank, local_size, position;
    int colocated; /* ranks of the job that may run on the same processors as this one, also those that a split left out */
    int *order;    /* position -> rank */
    int *position_of; /* rank -> position */
    uint64_t id;
    uint32_t epoch;
    uint32_t splits; /* hoop_comm_split calls so far, those that failed as well */
    hp_plan_options plan;
    const hp_ring *ring; /* the client's: members for sentences */

    /* connections: the baton holder's */
    hp_comm_state state; /* other threads read fault.failed */
    hp_loop *loop;
    hp_timer *alarm; /* with hoop_comm_fd: makes the descriptor readable in time for reports and time-outs */
    hp_keys *keys;   /* NULL in a ring of one that no launcher started */
    hp_sock_options sock;
    hp_client *client;       /* NULL in a ring of one */
    hp_listener_entry entry; /* where other ranks reach it */
    hp_dialing *dialing;
    uint64_t bringup_until; /* when a link that is not up has failed */

    /* the work: the baton holder's, except as noted */
    uint32_t channels;
    hp_channel *channel[HP_CHANNELS_MAX];
    hp_device *device[HP_DEVICES];     /* [0] the host; [1] under the driver's mutex until it is chosen */
    hoop_work *running, *running_last; /* in order of sequence */
    _Atomic uint64_t completed;

    hp_gpu_use gpu;
    hp_reports reports;
    hp_fault fault;
    hp_driver driver;
    hp_stream_watchdog watchdog;
    hp_standby standby;
    hp_group group;
};

/* "rank 3 (node2)". */
const char *hp_comm_name(const hoop_comm *comm, int rank, char out[96]);

/* ns between two reports of a rank in an operation. */
uint64_t hp_comm_heartbeat(const hoop_comm *comm);

#endif
