/* SPDX-License-Identifier: MIT */
/*
 * membership: one rank's place in a ring, as its end of the control connection sees it: it joins, learns the ring,
 * reports, receives verdicts, and comes back if the connection was reset. Pure: events in, frames and wishes out, no
 * sockets, no clock of its own. client.c adds the sockets; the simulator of t/rendezvous adds none.
 */
#ifndef HP_MEMBERSHIP_H
#define HP_MEMBERSHIP_H

#include "net/dial.h"
#include "rendezvous/registration.h"

typedef enum hp_client_state {
    HP_CLIENT_JOINING, /* dialling, or JOIN is sent: awaits the roster */
    HP_CLIENT_ROSTER,  /* hp_client_ring() is complete: the owner opens its links, then calls hp_client_ready */
    HP_CLIENT_READY,   /* awaits GO: all ranks have their links */
    HP_CLIENT_GO,      /* member of a ring; a verdict may arrive */
    HP_CLIENT_LEFT,    /* LEAVE is sent; again, if the connection is reset before the server has read it */
    HP_CLIENT_GONE, /* the server is lost: the ring goes on without it, and names of causes are best effort, until it is back */
    HP_CLIENT_FAILED /* the join failed; hp_client_error has the reason */
} hp_client_state;

/* The control connection, as this file wants it: where it is NONE, the shell closes what it has. */
typedef enum hp_line { HP_LINE_NONE, HP_LINE_DIALLING, HP_LINE_UP } hp_line;

typedef enum hp_away {
    HP_HERE,
    HP_AWAY,     /* the connection was reset: the owner calls hp_membership_return */
    HP_RETURNING /* dialling, or JOIN is sent: awaits GO or a verdict */
} hp_away;

typedef struct hp_membership {
    hp_client_options options; /* agree is the shell's; keys are not used */
    hp_outlet outlet;
    hp_client_state state;
    hoop_error error, verdict;
    hp_line line;
    uint64_t dial_at, give_up_at; /* HP_NEVER: not */
    uint64_t bringup;             /* from the first dial to the deadline, ns */
    uint64_t look_at;             /* at the server's silence: hp_membership_silence */
    int late;                     /* to give up, once */
    int attempts;
    int met;               /* the server: before, its host may not even be up */
    uint64_t silent_since; /* until GO: its host has acknowledged nothing since; 0: it has, or was never met */
    uint64_t answered;     /* when its host last answered a probe */
    int pinged;            /* on this connection it sends PINGs while this rank waits in a split */
    hp_ring ring;
    int parts_to; /* members [0, parts_to) of the roster have arrived */
    int in_op;
    int comes_back;               /* the server is started again when it has died; fixed once this rank has its ring */
    int given_up;                 /* that at its address knows this ring no more */
    uint32_t placed;              /* the last split, or grow, that is over for this rank */
    const hp_ring *told;          /* the ring whose roster the server has asked for; NULL: none, or all of it is sent */
    int told_to;                  /* its members [0, told_to) are */
    int owes_out;                 /* OUT was dropped, */
    uint64_t owed_out;            /* with this number of operations completed */
    uint64_t features;            /* of the server */
    int refused;                  /* this rank has refused a call, and has started none since */
    uint64_t last_seen, reported; /* the server's last frame; during an operation: this rank's last report */
    hp_away away;
    hp_resend resend;
} hp_membership;

void hp_membership_open(hp_membership *m, const hp_client_options *options, const hp_outlet *outlet, uint64_t now);
void hp_membership_close(hp_membership *m); /* sends nothing */

/* --- events --- */

/* The shell dials now: HELLO but for the job and its mode, and until when. */
hp_hello hp_membership_dial(hp_membership *m, uint64_t now, uint64_t *deadline);
/*
 * fd >= 0: the connection is up, and the outlet takes frames; the descriptor itself is the shell's. Else sys_errno of the
 * error is ECONNREFUSED if nobody listens there.
 */
void hp_membership_dialled(hp_membership *m, const hp_dial_result *result, uint64_t now);
/* One frame of the server. Returns 0, or -1 with the error filled: the shell wants no more, and the connection ends. */
int hp_membership_frame(hp_membership *m, const hp_control_frame *frame, uint64_t now, hoop_error *error);
void hp_membership_closed(hp_membership *m, const hoop_error *why, uint64_t now); /* as hp_control_conn_owner has it */
void hp_membership_room(hp_membership *m);               /* all frames are written: what was dropped is sent now */
void hp_membership_time(hp_membership *m, uint64_t now); /* it is hp_membership_next, or later */

/*
 * A look, about once a second, at the connection or the dial (net/tcp.h; hp_dial_silent_since): since when the server's host
 * has acknowledged nothing; 0: it does. A server that is stopped is not silent: its kernel acknowledges.
 */
void hp_membership_silence(hp_membership *m, uint64_t since, uint64_t now);
/* The answer to hp_membership_wants_probe: TCP waits long before it sends again to a host that is back. */
void hp_membership_probed(hp_membership *m, int answered, uint64_t now);

/* --- wishes: the shell asks for them after each event --- */

int hp_membership_wants_dial(const hp_membership *m, uint64_t now);
/* What this rank awaits of the server is lost unless its host answers a new connection now. */
int hp_membership_wants_probe(const hp_membership *m, uint64_t now);
uint64_t hp_membership_next(const hp_membership *m); /* when the time is an event; HP_NEVER: it is not */

/* --- calls of the owner --- */

void hp_membership_ready(hp_membership *m); /* its links are open */
/*
 * This rank is in an operation for longer than a moment (the first call sends IN_OP, and later ones, each heartbeat,
 * PROGRESS).
 */
void hp_membership_in_op(hp_membership *m, const hp_report *report, uint64_t now);
/*
 * This rank has refused a call; it has started one after all (call it at once, however short the operation). Between
 * the two calls this rank's reports are about earlier operations.
 */
void hp_membership_unstarted(hp_membership *m, const hp_unstarted *unstarted);
void hp_membership_started(hp_membership *m, const hp_report *report, uint64_t now);
/*
 * Whether the server can judge: it is not lost, its connection was not reset, and it has not been silent for two
 * seconds of an operation.
 */
int hp_membership_has_server(const hp_membership *m, uint64_t now);
void hp_membership_out(hp_membership *m, uint64_t completed);        /* nothing is sent if IN_OP was not */
void hp_membership_abort(hp_membership *m, const hoop_error *cause); /* relayed to every rank; the first one wins */
/*
 * A frame that changes sentences and tables alone: STATS, WAITING. 0: it was not sent, because the server does not have this
 * feature, or is away, or many bytes are not sent yet.
 */
int hp_membership_inform(hp_membership *m, uint64_t feature, hp_frame_type type, const void *payload, size_t n);
int hp_membership_may_ask(const hp_membership *m); /* whether the server's clock may be asked for now */
/* A ring connection has ended without LEAVE or ABORT: the server finds the cause and sends it to all ranks. */
void hp_membership_lost(hp_membership *m, const hp_loss *loss);
void hp_membership_found(hp_membership *m); /* the connection was made again: it is no loss */
/*
 * The server is lost, and this rank looks for it from time to time, if it is one that comes back: then it tells that server
 * of its ring. hp_membership_return says with which numbers.
 */
int hp_membership_is_lost(const hp_membership *m);
int hp_membership_may_return(const hp_membership *m); /* it is away, or lost */
/*
 * is_away: the control connection was reset, or closed where a proxy may have done that. The server gives this member a
 * moment to dial again, and hp_membership_return says with which numbers of operations started and completed: until the
 * member is back, or nobody listens there any more (HP_CLIENT_GONE; a proxy's word for that is none). A server that does not
 * answer is not gone. Causes, losses and refused calls are sent again when the member is back, because they may have been
 * lost.
 */
int hp_membership_is_away(const hp_membership *m);
void hp_membership_return(hp_membership *m, uint64_t started, uint64_t completed,
                          uint64_t now); /* no-op unless away or lost, or if dialling */
/* A split, or grow, of its communicator is over for this rank: a server that is started again must not await it there. */
void hp_membership_placed(hp_membership *m, uint32_t split);
/* This rank takes no part in the split of that number of its communicator: the server informs the ranks that wait. */
void hp_membership_refuse(hp_membership *m, uint32_t split, const hoop_error *cause);
/*
 * A name for tables and lines of the server. number 0: the communicator's (empty: none). Others: that of calls, of which
 * each is told once, in their order from 1. 0: not before GO, and not names of calls to a server that does not take them.
 */
int hp_membership_name(hp_membership *m, int number, const char *name);
/* The ring's first cause, once the server has sent it: returns 1 and *error, else 0. */
int hp_membership_verdict(const hp_membership *m, hoop_error *error);
/*
 * Sends LEAVE with the number of completed operations. A connection that is reset then is made again. is_leaving: the
 * server has not read LEAVE yet, as far as is known, and may still do so.
 */
void hp_membership_leave(hp_membership *m, uint64_t completed);
int hp_membership_is_leaving(const hp_membership *m);

/* --- between membership.c and reporting.c --- */

const hp_outlet *
hp_membership_outlet(const hp_membership *m); /* while the connection takes frames of a member; else NULL */
/* 0: the frame is dropped. */
int hp_membership_send(const hp_membership *m, hp_frame_type type, const void *payload, size_t n);
int hp_membership_count(const hp_membership *m, hp_frame_type type, uint64_t completed);
void hp_membership_tell(hp_membership *m); /* more of the roster that the server has asked for */

#endif
