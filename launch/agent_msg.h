/* SPDX-License-Identifier: MIT */
/*
 * agent_msg: the messages between the launcher and its other processes: the agents, over their standard input and output,
 * and the rendezvous server (server_process.h), over a pair of sockets. Pure: bytes in, bytes out. Length, type, direction
 * and reserved bytes are checked here; the fields of a payload are checked by their readers (host.c, agent.c, job_server.c,
 * server_process.c), those of the spec here too. The spec is what one agent runs: command, environment, folder, ranks. The
 * launcher writes the structure, and the agent reads it back message by message.
 *
 *     u32 length of the payload (little-endian) | u8 type | 3 zero bytes | payload
 *
 * Before the first message the agent writes one line, HP_AGENT_GREETING followed by its version, and the launcher
 * answers with one line, the job's secret, which is no part of the spec.
 */
#ifndef HP_LAUNCH_AGENT_MSG_H
#define HP_LAUNCH_AGENT_MSG_H

#include "hoop.h"
#include "launch/xalloc.h"

#define HP_AGENT_MARK "HOOP-AGENT "
#define HP_AGENT_GREETING HP_AGENT_MARK "10 " /* 10: the version of these messages */

enum { HP_AGENT_MSG_HEAD = 8, HP_AGENT_MSG_MAX = 132 * 1024, HP_AGENT_MSG_TEXT = 64 * 1024, HP_AGENT_MSG_WORDS = 4 };
enum { HP_SPEC_RANKS = 16384, HP_SPEC_BYTES = 16 << 20 };

typedef enum hp_agent_msg_type {
    /* launcher to agent, in this order, the first eight as often as needed */
    HP_MSG_ENV = 1,   /* NAME=value for every rank */
    HP_MSG_ARG,       /* next word of the command */
    HP_MSG_DIR,       /* u8 1: must exist, 0: the same folder of another home will do | folder to run in */
    HP_MSG_HOME,      /* the launching user's home folder */
    HP_MSG_PREFIX,    /* where hoop is installed */
    HP_MSG_OPTION,    /* u32 value | name: an HP_AGENT_OPTION of options.def */
    HP_MSG_WINDOW,    /* u16 columns | u16 rows of the terminal that shows the output; also when that changes */
    HP_MSG_RANKS,     /* u32 world | u32 rank, for each rank on this host; without any it only waits for AGAIN */
    HP_MSG_LOCAL,     /* u32 local rank of the first | u32 local size | u32 number of the host */
    HP_MSG_GO,        /* start them */
    HP_MSG_STDIN,     /* for rank 0 */
    HP_MSG_STDIN_END, /* nothing more for rank 0 */
    HP_MSG_SIGNAL,    /* u32 signal for every rank's group; STOP and CONT go to the other groups of its session, too */
    HP_MSG_STOP,      /* u32 ms between TERM and KILL; 0: KILL now */
    HP_MSG_LOOK,      /* send the flight recorders as they are now */
    HP_MSG_PING,      /* u64, the launcher's time; the first one starts the lease (lease.h) */
    HP_MSG_AGAIN,     /* u32 rank: start a process for it that waits for a place; none runs */
    HP_MSG_RELET,     /* u32 ms, > 0: the lease follows this peer_timeout_ms from now on */
    HP_MSG_PAUSE,     /* u32 1: read no output of the ranks for now, 0: do */
    /* agent to launcher */
    HP_MSG_STARTED = 32, /* u32 rank | u32 pid */
    HP_MSG_OUTPUT,       /* u32 rank | u8 1 stdout, 2 stderr | bytes */
    HP_MSG_EXIT,         /* u32 rank | u32 pid | u32 wait status | u64 ms since its start | u32 hp_exit_cause */
    HP_MSG_TAKEN,        /* u32 bytes of standard input that rank 0 has taken */
    HP_MSG_FAIL,         /* u32 exit status | sentence: no rank runs on this host */
    HP_MSG_DONE,         /* every process of the ranks has ended */
    HP_MSG_FLIGHT,       /* u32 state of the process | u64 when it was read | a flight recorder */
    HP_MSG_LOOKED,       /* those are all that HP_MSG_LOOK asked for */
    HP_MSG_STOPPED, /* u32 rank | u32 pid | u32 1: its process is stopped, 0: it runs; when that changes, and each second */
    HP_MSG_LEASE, /* u32 ms, > 0: peer_timeout_ms, as the ranks of this host have it; before they start */
    HP_MSG_PONG,  /* u64: that of a PING */
    /* launcher to the process of its rendezvous server: the same program on the same machine, so structs go as they are */
    HP_MSG_SERVE = 64,  /* struct hp_serving */
    HP_MSG_SERVED_RANK, /* u32 rank | u32 pid | u32 hp_process | u32 1: it has ended | name of its host */
    HP_MSG_TABLE,       /* u32 number of the question | u32 lines | u32 columns | u32 1: if a rank has waited for 1 s */
    HP_MSG_SUM_UP,      /* u32 number of the question: what have the rings done that were not left */
    /* that process to the launcher; texts end with a zero byte */
    HP_MSG_LINE = 96,   /* u8 hp_notice | a line for the user */
    HP_MSG_SAID,        /* u32 number: all lines have been sent that this question asked for */
    HP_MSG_RING_FAILED, /* hoop_error | u32 pid of its rank | u8 1: of a split | its name */
    HP_MSG_KNOCKED,     /* u32 host: its agent has made a new connection */
    HP_MSG_STRANDED,    /* u32: how many processes wait for a place that nobody is left to give them */
    HP_MSG_PEER_TIMEOUT /* u32 ms, > 0: the longest peer_timeout_ms of the rings, when that changes */
} hp_agent_msg_type;

typedef struct hp_agent_msg {
    int type;
    const uint8_t *payload;
    size_t size;
} hp_agent_msg;

typedef enum hp_agent_msg_side { HP_TO_AGENT = 1, HP_TO_LAUNCHER, HP_TO_SERVER, HP_FROM_SERVER } hp_agent_msg_side;

/* The exit status of an agent that the launcher has deserted, as it seems: its ranks have ended. */
enum { HP_AGENT_DESERTED = 75 };

/* Appends a message whose payload is `a` followed by `b`. */
void hp_agent_msg_put(hp_buffer *out, hp_agent_msg_type type, const void *a, size_t na, const void *b, size_t nb);
void hp_agent_msg_put32(hp_buffer *out, hp_agent_msg_type type, uint32_t value);

/* The same with a payload of n words of 32 bits, at most HP_AGENT_MSG_WORDS. */
void hp_agent_msg_put_words(hp_buffer *out, hp_agent_msg_type type, const uint32_t *words, size_t n);

/*
 * The message at the front of `in`: 1 and *msg (valid until hp_agent_msg_done), 0 when more bytes are needed, -1 with
 * the error filled.
 */
int hp_agent_msg_get(const hp_buffer *in, hp_agent_msg_side side, hp_agent_msg *msg, hoop_error *error);
void hp_agent_msg_done(hp_buffer *in, const hp_agent_msg *msg); /* drops it */

/* --- the spec --- */

/* The options that agents get, as numbers. */
typedef struct hp_agent_options {
#define HP_AGENT_OPTION(field, kind, names, value, help) int field;
#include "launch/options.def"
} hp_agent_options;

typedef struct hp_winsize {
    uint16_t rows, columns; /* 0: not known */
} hp_winsize;

typedef struct hp_spec {
    hp_strings argv;
    hp_strings variables; /* NAME=value */
    char *dir;            /* folder to run in; NULL: where the agent is */
    int dir_required; /* 1: --wdir asked for it; 0: the launcher's own folder, the same folder of another home will do */
    char *prefix;     /* where hoop is installed; NULL: not given */
    char *home;       /* the launching user's; NULL: not known */
    hp_agent_options options;
    hp_winsize winsize; /* of the terminal that shows the ranks' output */
    int world;
    int *rank; /* on this host, ascending */
    int ranks;
    int local_first; /* local rank of the first */
    int local_size;  /* local ranks of this machine, which may have several names */
    int host;        /* the launcher's number of this host */
    size_t bytes;    /* taken so far */
    int complete;    /* GO has come */
} hp_spec;

void hp_spec_put(hp_buffer *out, const hp_spec *spec); /* the whole spec, and GO */

void hp_winsize_put(hp_buffer *out, hp_winsize size);
hp_winsize hp_winsize_take(const hp_agent_msg *msg); /* of an HP_MSG_WINDOW */

/* Takes one message of HP_MSG_ENV to HP_MSG_GO. HOOP_ERR_PROTOCOL: it is not valid here. */
hoop_result hp_spec_take(hp_spec *spec, const hp_agent_msg *msg, hoop_error *error);
void hp_spec_free(hp_spec *spec);

#endif
