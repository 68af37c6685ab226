/* SPDX-License-Identifier: MIT */
/*
 * registration: what a rank sends when it connects, or connects again: HELLO, JOIN, and frames that the server must not miss,
 * although the control connection may break before or after they are sent. Pure. Those are kept, and sent again when the
 * member is back, so the server may receive each of them twice. The client adds the settings (agree).
 */
#ifndef HP_REGISTRATION_H
#define HP_REGISTRATION_H

#include "base/clock.h"
#include "net/handshake.h"
#include "net/sock.h"
#include "rendezvous/statement.h"

enum { HP_RETURN_MS = 5000 }; /* how long a member dials again; the server waits for less if other ranks wait */
#define HP_SILENT HP_SEC      /* a host that acknowledges nothing for so long is silent */

/*
 * How long a member that is away is expected, ms. If its host was silent for so long before, a probe has to tell whether the
 * process has ended or its host is cut off, and nobody is before peer_timeout.
 */
static inline uint64_t
hp_return_ms(uint64_t silence, uint64_t peer_timeout)
{
    return HP_RETURN_MS + (silence >= HP_SILENT ? peer_timeout / HP_MS : 0);
}

/*
 * The roster is checked against these: a world must have `size` ranks (and assign `rank`, if that is >= 0). For a
 * split parent_rank and parent_size count; rank and size are not read.
 */
typedef struct hp_client_options {
    hp_addr server;
    const hp_keys *keys;  /* the client holds them */
    hp_sock_options sock; /* its peer_timeout is told to the server, likewise */
    uint32_t attempt;     /* how often the job was started before: a server may serve one attempt alone */
    int rank;             /* -1: the server assigns one */
    int size;
    char host[HP_HOST_TEXT];
    uint64_t host_id;
    uint32_t processors, pid, pid_space;
    hp_addr own;              /* where this rank's data listener is, */
    hp_addr listen;           /* and how the other ranks reach it */
    hp_addr other[HP_OTHERS]; /* and where else, if that does not work */
    int proxied;              /* that is not its own address: hp_member */
    const char *agree;        /* settings that all ranks must share: "key=value\n" lines, <= 2 KiB; copied */
    uint32_t number;          /* of this JOIN, another than those of this process's other communicators; 0: none */
    uint64_t deadline;        /* hp_loop_now() at which the join has failed */
    uint64_t op_timeout;      /* ns, 0: none; the server uses that of the first rank that joins */
    uint64_t warn_after;      /* ns, 0: never; likewise */
    int shrink;               /* of the communicator below; else that is split */
    int grow;                 /* of the communicator below; without one this process waits for that, and size is 1 */
    /* the parent communicator, the split's number, this rank and the size there; parent 0: none */
    uint64_t parent, parent_digest; /* hp_ring_digest */
    uint64_t started, completed;    /* operations there */
    uint32_t split;
    int parent_rank, parent_size, color, key;
    const hp_ring *parent_ring; /* for a server that was started again, until this rank has a ring; NULL: none */
    hp_origin parent_origin;
    uint32_t parent_placed; /* the last split, or grow, of the parent that is over for this rank */
    int comes_back;         /* the server of the parent is started again when it has died */
} hp_client_options;

hp_join hp_registration_first(const hp_client_options *options, uint64_t now);
/* The JOIN of a member that connects again: all that a server, even a restarted one, must know of this rank. */
hp_join hp_registration_again(const hp_client_options *options, const hp_ring *ring);
/* Where a ring comes from that these options have led to. */
hp_origin hp_registration_origin(const hp_client_options *options, const hp_ring *ring);
/*
 * HELLO but for the job and its mode. It declares the attempt, the communicator that is split or joined again (`again`:
 * its ring, else NULL), rank and size there.
 */
hp_hello hp_registration_hello(const hp_client_options *options, const hp_ring *again);

/*
 * Takes the roster's next part, after its first *parts_to members, if it fits what was asked for. The ring's memory is
 * the caller's. Returns 1 when the ring is complete, 0 when more parts follow, -1 with the error filled.
 */
int hp_registration_part(const hp_client_options *options, hp_ring *ring, int *parts_to, const uint8_t *payload,
                         size_t n, hoop_error *error);

/* Why a rank cannot join, in words: its number is taken; the server is that of another start; none has answered. */
void hp_registration_duplicate(const hp_client_options *options, hoop_error *error);
void hp_registration_other_attempt(const hp_client_options *options, uint32_t attempt, hoop_error *error);
/* silent: for how many ns the server's host has acknowledged nothing */
void hp_registration_cut_off(const hp_client_options *options, uint64_t silent, hoop_error *error);
void hp_registration_too_late(const hp_client_options *options, int connected, hoop_error *error);

/* --- frames that are sent again --- */

/* Where the frames of one end of a control connection go. */
typedef struct hp_outlet {
    void *arg;
    int (*send)(void *arg, hp_frame_type type, const void *payload, size_t n); /* 0: it does not fit into the queue */
    size_t (*queued)(void *arg);                                               /* bytes that are not written yet */
} hp_outlet;

/* Each is kept, and sent if there is a connection (NULL: there is none). */
typedef struct hp_resend {
    hoop_error cause;       /* code HOOP_SUCCESS: none */
    hp_loss loss;           /* peer -1: none */
    hp_unstarted unstarted; /* sequence 0: none */
    hoop_error absence;     /* from a split; code HOOP_SUCCESS: none */
    uint32_t split;
    int named; /* 1: the communicator has had a name */
    char name[HP_NAME_TEXT];
    hp_call_names call_names;
    int dropped; /* one did not fit into the queue */
} hp_resend;

void hp_resend_clear(hp_resend *resend);
void hp_resend_abort(hp_resend *resend, const hp_outlet *outlet, const hoop_error *cause);
void hp_resend_lost(hp_resend *resend, const hp_outlet *outlet, const hp_loss *loss);
void hp_resend_unstarted(hp_resend *resend, const hp_outlet *outlet, const hp_unstarted *unstarted);
void hp_resend_refuse(hp_resend *resend, const hp_outlet *outlet, uint32_t split, const hoop_error *cause);
void hp_resend_name(hp_resend *resend, const hp_outlet *outlet, int number, const char *name); /* as hp_client_name */

/* The member is back: sends all of them again. */
void hp_resend_all(hp_resend *resend, const hp_outlet *outlet);
/* There is room again: sends all of them again, if one did not fit. */
void hp_resend_dropped(hp_resend *resend, const hp_outlet *outlet);

#endif
