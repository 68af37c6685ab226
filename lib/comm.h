/* SPDX-License-Identifier: MIT */
/*
 * comm: the structure of a communicator, part by part, and what it, its calls and its ranks are called. The functions of
 * each part are in the file that the part names; they are above this one, so nothing here calls them. join.c makes a
 * communicator, leave.c ends it, and baton.h has the rule which thread may touch what.
 */
#ifndef HP_COMM_H
#define HP_COMM_H

#include "base/call.h"
#include "base/count.h"
#include "base/dtype.h"
#include "flight/folder.h"
#include "lib/channel.h"
#include "lib/config.h"
#include "lib/listener.h"
#include "lib/peer_heartbeat.h"
#include "net/race.h"
#include "net/sock.h"
#include "rendezvous/client.h"
#include "rendezvous/lateness.h"
#include "rendezvous/stall_warning.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum hp_comm_state {
    HP_COMM_JOINING, /* joining at the rendezvous server, opening links */
    HP_COMM_READY,
    HP_COMM_FAILED, /* fault.error is the first cause */
    HP_COMM_CLOSED  /* leaving */
} hp_comm_state;

/* One connection of a link while it is being dialled; links.c's. */
typedef struct hp_dialing {
    hoop_comm *comm;
    hp_race *race;
    hp_link *link;
    int stripe;
    uint16_t generation; /* 0: the first connection; else a broken one is made again, for the nth time */
    hp_shm *shm;         /* what this rank offers to share; NULL: nothing */
    uint64_t began;
    int told; /* what is met there */
    struct hp_dialing *next;
} hp_dialing;

/* cut_off.c's. */
typedef struct hp_cut_off {
    uint64_t looked, asked; /* at the links; a silent host, 0: none is asked now */
    int peer;               /* whose host is asked */
    hp_probe probe;
} hp_cut_off;

/* cut_off.c's, likewise. */
typedef struct hp_large_packets {
    int peer, told; /* whose host is asked; a line was written about this silence */
    uint64_t asked;
    hp_probe probe;
} hp_large_packets;

/* fault.c's. */
typedef struct hp_fault {
    atomic_int known;     /* 1: error is final; any thread may read it, the driver may not have acted on it yet */
    atomic_int failed;    /* 1: the driver has, and nothing moves any more */
    atomic_int seen;      /* a call has returned the error to its caller */
    atomic_int on_stream; /* a caller's stream was in an operation when it failed: nothing else tells of it */
    hoop_error error;
    hoop_error suspicion; /* becomes the error at `grace`, unless the cause is known by then */
    uint64_t grace;       /* by hp_loop_now(); 0: there is no suspicion */
    hp_link *ended;       /* the link whose end is the suspicion; NULL: it is something else */
    int mends;            /* it was told to the server as repaired */
    uint64_t report_at;   /* when the loss of that link has to be reported to the server; 0: it was, or need not be */
    hp_probe probe;       /* of that link's peer */
    uint64_t probed_at;   /* when that peer was asked; a question from sure_at on settles it. By hp_loop_now() */
    uint64_t sure_at;
    uint64_t heard_at;    /* when the server, or else that peer, was last there, while the connection is made again */
    const hp_link *asked; /* a link that is not up, whose peer is asked without a server; NULL: none is */
    uint64_t ask_at;      /* when next, by hp_loop_now() */
    hp_probe inquiry;
    hp_cut_off cut_off;
    hp_large_packets large_packets;
} hp_fault;

/*
 * Which thread drives, and what it has to do; progress.c's, works.c's and baton.c's.
 * Guarded by `mutex` unless atomic, or the baton holder's.
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
    int held;           /* who has the baton; baton.h's */
    int waiting;        /* threads in a blocking call, a wait or a split; */
    atomic_int here;    /* of them, those that drive no other communicator meanwhile; read without the mutex */
    _Atomic(struct hp_waiter *) sleepers; /* of these, those that sleep until they may drive; likewise */
    pthread_mutex_t splitting;            /* held by the one thread that splits the communicator */
    hoop_work *inbox, *inbox_last;
    hoop_work *due, *due_last; /* works that have ended and whose function has to be called */
    int calling;               /* a thread calls these functions */
    hoop_work *free[2];        /* works to use again, without and with blocks */
    hoop_work *made;           /* every work there is, by `made_before` */
    hp_segment *free_arrays;   /* arrays of segments that no group uses now */
    int guests;                /* threads inside hp_progress_abort, or a visit (visit.h) */
    atomic_int leaving;        /* hoop_comm_destroy waits for the works */
    hp_unstarted refused_call; /* the last call that was refused, */
    int refused;               /* 1: no operation was started since; 2: likewise, and the driver has read it */
    int refusal_reported;      /* a refused call was reported to the server; the baton holder's */
    uint64_t sequence;         /* of the last operation started */
    atomic_int has_inbox;      /* read by the driver without the mutex */
    atomic_int has_due;        /* `due` is not empty, and no thread calls; likewise */
    atomic_int yield;          /* threads that ask the driver to hand the baton over */
    atomic_int asleep;         /* the driver is (about to be) in hp_loop_run: wake it */
    atomic_ullong outstanding; /* works started, or with a function to be called, and not done */
    atomic_int reconnecting;   /* the control connection is being made again, or has bytes to take */
    atomic_int departed;       /* threads that are in a split, if connections are made again */
    atomic_int aborting;       /* 1: the driver has to end all works, by fault.error; 2: it has */
    atomic_ullong heartbeat;   /* grows while the driver is not stuck in a call */
    atomic_ullong op_timeout;  /* ns, of this rank: op_timeout_ms, unless hoop_comm_set_timeout has set another */
} hp_driver;

/* standby.c's, of callers' streams. */
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
    uint64_t overdue;                /* the last operation that a wait with a limit of its own ends; */
    uint64_t overdue_at;             /* since then that wait is overdue, */
    uint64_t overdue_ns;             /* and so long it had lasted by then */
    hp_waiting waiting;              /* as the server was told; call.kind 0: it knows of none */
    uint64_t waiting_at;             /* and when */
    int turns;                       /* so many waits give the loop a turn when they end; progress.c's */
    int asks;                        /* the server's clock is to be asked for; stats.c's */
    uint64_t born, vitals_due;       /* stats.c's: when this rank's ring was up, and when the next STATS is due */
    uint64_t logged;                 /* the last operation of which this rank has logged whom it waits for */
    hp_stall_warning warning;        /* the stall warning that this rank gives while the server is lost */
    hp_heartbeats *heartbeats;       /* those that the ranks send each other then; NULL without neighbours */
} hp_reports;

/* When a rank has called, by the server's clock; account.c adds it up. All zero at first. */
typedef struct hp_call_times {
    hp_entry_times known;                /* by the server's clock */
    uint64_t early, sum, earliest, last; /* not added yet, by this host's clock: how many, their sum modulo 2^64 */
    hp_clock_offset clock;
} hp_call_times;

enum { HP_COUNTERS_ENTRIES = 1024 }; /* of so many collectives, the time of one's call is added up */
enum { HP_TIMES_WORDS = 6 };         /* that any thread may read of hp_call_times */

/*
 * What the driver counts; account.c's. The baton's holder counts, and any thread may read; fields of one moment need not
 * agree. All times are by hp_now(), and those that others have read already: an operation that does not wait reads no
 * clock for this.
 */
typedef struct hp_counters {
    hp_count messages, bytes[2]; /* messages that ended well; payload received, and sent */
    hp_count narrowed;           /* calls that ended well, and whose elements travelled in a narrower type; */
    hp_count narrowed_e4m3;      /* of these, as e4m3 */
    hp_count levels;             /* calls that ended well, and went over two levels */
    hp_count plan;  /* of the last collective that ended well: 3 (1 + algorithm) + its hp_order; 0: there was none */
    hp_count ended; /* when the last operation ended; 0: one is in progress, or there was none */
    hp_stopwatch inside; /* operations were in progress */
    hp_stopwatch waited[HP_WAITS];
    hp_stopwatch *waited_for; /* by rank; NULL before the ring is known */
    int ranks;
    hp_count wire_sent, retransmits; /* over TCP: payload; segments sent again */
    hp_count most_to;                /* 1 + the rank to which most goes over TCP; 0: all goes through memory; */
    hp_count rtt_us, delivery_rate;  /* of the connection to that rank; */
    hp_count most_resent;            /* its segments sent again */
    hp_count shares;                 /* memory with the next rank */
    hp_count repairs;                /* of connections */
    atomic_uint shown;               /* in [shown % 2] is what `times` were */
    hp_count times_shown[2][HP_TIMES_WORDS];
    /* the baton holder's alone */
    hp_call_times times;
    uint64_t in_progress; /* operations */
    uint64_t left;        /* when the last one ended */
    uint64_t passed;      /* stations that steps had passed when the wait began */
    hp_awaited awaited;   /* HP_WAIT_NONE: no wait is open */
} hp_counters;

/* The flight recorder; account.c's. The baton holder's, except as noted. */
typedef struct hp_recorder {
    hp_flight_file file;
    uint64_t called;  /* works submitted; under the driver's mutex */
    uint64_t started; /* works recorded */
    uint64_t clock;   /* by hp_now(): when the recorder has looked at it last */
} hp_recorder;

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

enum {
    HP_MESSAGE_POSTS = 16, /* frames of messages that a link has to send at once */
    HP_ROOMS = 8           /* for slices of messages to be sent, and as many for those that come */
};

/* Pinned memory for a slice on its way from a GPU's memory to a link, or from a link to a GPU's memory; devices.c's. */
typedef struct hp_room {
    uint8_t *memory;
    int held;
    uint64_t ticket; /* the last command that reads it, once it is no longer held; 0: there is none */
} hp_room;

/* A piece of a message on its way to a link. */
typedef struct hp_transit {
    hp_piece piece;
    uint8_t *data;   /* its bytes are sent from here */
    uint64_t ticket; /* of the command that copies them here first; 0: there is none */
    hp_room *room;   /* here; NULL: elsewhere */
} hp_transit;

/* Messages with one other rank, or with this one; messages.c's. */
typedef struct hp_peer {
    hoop_comm *comm;
    hp_pair pair;
    hp_link *in, *out; /* NULL until they are needed; with itself a rank has none */
    hp_link_owner owner;
    hp_transit transit[HP_MESSAGE_POSTS]; /* of each post of `out`, by its number */
    uint64_t taken,
        staged;            /* pieces for `out`, and those of them that are, or soon will be, where they are sent from */
    uint64_t sent, landed; /* posts of `out` and `in` that were counted */
    uint8_t *ahead;        /* copies of short messages out of a GPU's memory; NULL: there was none yet */
    hp_room *room;         /* for the slice that comes; NULL: it goes to its place */
    uint64_t unfinished;   /* messages that were started and are not complete */
    uint64_t finished;     /* those that are */
    uint64_t activity, moved_at; /* as last seen, and when it last changed; message_waits.c's */
    struct hp_peer *next;
} hp_peer;

/* The baton holder's. */
typedef struct hp_messages {
    hp_peer **peer;        /* by rank; NULL before the first message */
    hp_peer *first, *last; /* those that there are */
    hp_peer *anyone;       /* among them, without a link: receives from any rank whose message has not come; or NULL */
    hp_matching_any any;   /* these receives, which all pairs share */
    hoop_work *running, *running_last;
    hp_message_queue held;     /* whose caller's stream is on its way to them, and those that must come after these */
    hp_message_queue settling; /* receives whose bytes are here, on their way into a GPU's memory */
    hp_room room[2][HP_ROOMS]; /* for slices that come; to be sent */
    uint64_t copied;           /* the last command of devices.c */
    uint64_t joining;          /* of them, those that are complete after a collective of their group */
    uint64_t passed;           /* frames that came, or left; grows when a message gets on */
    int links_wanted;          /* links to other ranks that links.c has not dialled yet */
    int32_t alltoallvs;        /* started so far */
    hoop_error error;          /* what this rank has seen, other than on a link; fault.c reads it */
    hp_stall_warning warning;  /* message_waits.c's */
    uint64_t leaves_at;        /* likewise: when it has seen that this rank leaves; 0: not yet */
} hp_messages;

struct hoop_comm {
    hoop_config config;
    hp_secret *bootstrap_secret; /* bootstrap.c's, while the communicator joins; it is config.secret then */
    unsigned bootstrap_ring;     /* bootstrap.c's: which ring of this start it is; 0: another way was taken */
    unsigned forks;              /* hp_forks() at creation */
    uint64_t serial;             /* 1, 2, 3 ... in this process; an address may be used again */
    hoop_comm *next_registered, *previous_registered; /* registry.c's */

    /* the ring: join.c's, constant once the communicator is handed out */
    int rank, size, local_rank, local_size, position;
    int shm_told;   /* that a rank of this host shares no memory */
    int host_ranks; /* ranks of the job on this host, also those that a split left out */
    int colocated; /* ranks of the job that may run on the same processors as this one, also those that a split left out */
    int *order;    /* position -> rank */
    int *position_of; /* rank -> position */
    hp_host_map hosts;
    uint64_t id;
    uint32_t epoch;
    uint64_t least, most;             /* of the ring that was shrunk to this one: hp_ring */
    uint32_t splits;                  /* hoop_comm_split calls so far, those that failed as well */
    int left;                         /* the size of the ring to which it was shrunk last; 0: it was not */
    int shrunk;                       /* to a ring that this process has */
    hoop_error lost_in_split;         /* why the last split or grow has failed, if a rank was lost; else HOOP_SUCCESS */
    char name[HP_NAME_TEXT];          /* under the driver's mutex */
    atomic_int renamed;               /* bits: what the server does not know yet */
    hp_call_names call_names;         /* likewise */
    int told_names;                   /* of them, those that the server knows; the baton holder's */
    _Atomic(const char *) calls_name; /* of the calls that are made now, one of them; NULL: they have none */
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

    hp_messages messages;
    hp_gpu_use gpu;
    hp_reports reports;
    hp_recorder recorder;
    hp_counters counters; /* and what any thread may read of them */
    hp_fault fault;
    hp_driver driver;
    hp_stream_watchdog watchdog;
    hp_standby standby;
};

/* The links of a communicator, one after the other: of its channels, then of its messages. hp_link_next: NULL at the end. */
typedef struct hp_link_walk {
    const hoop_comm *comm;
    uint32_t channel;
    int link;
    const hp_peer *peer;
    int taken; /* of the peer: 1 its `in`, 2 `out` too */
} hp_link_walk;

hp_link_walk hp_comm_links(const hoop_comm *comm);
hp_link *hp_link_next(hp_link_walk *walk);

/* "rank 3 (node2)", "any rank". */
const char *hp_comm_name(const hoop_comm *comm, int rank, char out[96]);

/* ns without progress after which this rank's operations fail; 0: never. Any thread. */
uint64_t hp_comm_limit(hoop_comm *comm);

/*
 * ns between two reports of a rank in an operation, by the setting that all ranks agree on; and between those of this
 * rank, which reports more often where its own limit is shorter.
 */
uint64_t hp_comm_heartbeat(const hoop_comm *comm);
uint64_t hp_comm_own_heartbeat(hoop_comm *comm);

/* --- names --- */

/*
 * A communicator's name, by which sentences, tables and the flight recorder call it, and the names of its calls. They
 * are local: the ranks need not agree on them. The server learns them between two rounds.
 */
enum { HP_NAME_PREFIX = HP_NAME_TEXT + 4 };

/* `name` is a name to print of at most HP_NAME_TEXT - 1 bytes; empty: none. Any thread. */
void hp_name_set(hoop_comm *comm, const char *name);

/*
 * Calls have this name from now on, of at most HP_CALL_NAME_TEXT - 1 bytes; empty: none. 0: there are as many names as
 * there may be, and they have none. Any thread.
 */
int hp_name_set_calls(hoop_comm *comm, const char *name);

/* Into a call that is made now. Any thread. */
static inline void
hp_name_call(const hoop_comm *comm, hp_call *call)
{
    call->name = atomic_load_explicit(&comm->calls_name, memory_order_relaxed);
}

/* How the communicator's sentences begin: '"dp": ', or nothing. Any thread. Returns out. */
const char *hp_name_prefix(const hoop_comm *comm, char out[HP_NAME_PREFIX]);

/* Tells the server names that it does not know yet. Baton holder only. */
void hp_name_report(hoop_comm *comm);

/* The number of a call's name for the server; 0: the call has none, or the server does not know it. Baton holder only. */
int hp_name_number(const hoop_comm *comm, const hp_call *call);

#endif
