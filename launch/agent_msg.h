/* SPDX-License-Identifier: MIT */
/*
 * packet: what the launcher and an agent say to each other over the agent's standard input and output, as
 * length-prefixed packets. Pure: bytes in, bytes out. Length, type, direction and reserved bytes are checked before
 * anything is believed; the payloads' own fields are checked by those who read them (orders.c, contact.c).
 *
 *     u32 length of the payload (little-endian) | u8 type | 3 zero bytes | payload
 *
 * Before the packets the agent says one line, HP_AGENT_GREETING followed by its version, and the launcher answers with
 * one line, the job's secret.
 */
#ifndef HP_PACKET_H
#define HP_PACKET_H

#include "hoop.h"
#include "launch/bytes.h"

#define HP_AGENT_GREETING "HOOP-AGENT 3 " /* 3: the version of these packets */

enum { HP_PACKET_HEAD = 8, HP_PACKET_MAX = 132 * 1024, HP_PACKET_TEXT = 64 * 1024 };

typedef enum hp_packet_type {
    /* launcher to agent, in this order, the first eight as often as needed */
    HP_PK_ENV = 1,   /* NAME=value for every rank */
    HP_PK_ARG,       /* next word of the command */
    HP_PK_DIR,       /* u8 1: must exist, 0: any other way to it will do | folder to run in */
    HP_PK_HOME,      /* the launching user's home folder */
    HP_PK_PREFIX,    /* where hoop is installed */
    HP_PK_OPTION,    /* u32 value | name: a row of options.def that agents hear of */
    HP_PK_WINDOW,    /* u16 columns | u16 rows of the terminal that shows the output; also when that changes */
    HP_PK_RANKS,     /* u32 world | u32 rank, for each rank on this host */
    HP_PK_LOCAL,     /* u32 local rank of the first | u32 local size */
    HP_PK_GO,        /* start them */
    HP_PK_STDIN,     /* for rank 0 */
    HP_PK_STDIN_END, /* nothing more for rank 0 */
    HP_PK_SIGNAL,    /* u32 signal for every rank's group */
    HP_PK_STOP,      /* u32 ms between TERM and KILL; 0: KILL now */
    /* agent to launcher */
    HP_PK_STARTED = 32, /* u32 rank | u32 pid */
    HP_PK_OUTPUT,       /* u32 rank | u8 1 stdout, 2 stderr | bytes */
    HP_PK_EXIT,         /* u32 rank | u32 pid | u32 wait status | u64 ms since its start */
    HP_PK_TAKEN,        /* u32 bytes of standard input that rank 0 has taken */
    HP_PK_FAIL,         /* u32 exit status | sentence: nothing runs on this host */
    HP_PK_DONE          /* everything here has ended */
} hp_packet_type;

typedef struct hp_packet {
    int type;
    const uint8_t *payload;
    size_t size;
} hp_packet;

typedef enum hp_packet_side { HP_TO_AGENT, HP_TO_LAUNCHER } hp_packet_side;

/* Appends a packet whose payload is `a` followed by `b`. */
void hp_packet_put(hp_bytes *out, hp_packet_type type, const void *a, size_t na, const void *b, size_t nb);
void hp_packet_put32(hp_bytes *out, hp_packet_type type, uint32_t value);

/*
 * The packet at the front of `in`: 1 and *packet (valid until hp_packet_done), 0 when more bytes are needed, -1 with
 * the error filled.
 */
int hp_packet_get(const hp_bytes *in, hp_packet_side side, hp_packet *packet, hoop_error *error);
void hp_packet_done(hp_bytes *in, const hp_packet *packet); /* drops it */

#endif
