/* SPDX-License-Identifier: MIT */
/*
 * format: the bytes of a flight recorder, which hoop_flight(5) describes: a head, and a ring of the last records, one
 * for each operation of a communicator. A process may be killed between any two stores, so the mark of a record is odd
 * while the record changes, and the head is recognized only once it is whole. All words are little-endian.
 *
 * The functions that write are for one thread at a time, over memory that a file backs; hp_flight_get is pure.
 */
#ifndef HP_FLIGHT_FORMAT_H
#define HP_FLIGHT_FORMAT_H

#include "base/call.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HP_FLIGHT_VERSION = 3,
    HP_FLIGHT_HEAD_BYTES = 1024 + HP_CALL_NAMES * HP_CALL_NAME_TEXT,
    HP_FLIGHT_RECORD_BYTES = 128,
    HP_FLIGHT_RECORDS = 1024,
    HP_FLIGHT_BYTES = HP_FLIGHT_HEAD_BYTES + HP_FLIGHT_RECORDS * HP_FLIGHT_RECORD_BYTES,
    HP_FLIGHT_TEXT = 64
};

typedef _Atomic uint64_t hp_flight_word; /* of a recorder's memory, which begins at a multiple of 8 */

typedef struct hp_flight_head {
    uint32_t pid;
    int32_t rank, size; /* in this communicator */
    uint32_t epoch;
    uint64_t comm;      /* the same on all its ranks; 0: a ring of one */
    uint64_t started;   /* when the process was started, in ticks since the machine was; 0: unknown */
    uint64_t pid_space; /* the inode of its pid namespace; 0: unknown */
    uint64_t monotonic; /* ns; read at the same moment as */
    uint64_t realtime;  /* ns since 1970 */
    char host[HP_FLIGHT_TEXT], job[HP_FLIGHT_TEXT];
    char name[HP_FLIGHT_TEXT]; /* of the communicator; empty: it has none */
    /* what changes */
    uint64_t called;    /* calls so far: records from this one on are still to come */
    uint32_t split;     /* the number of the last hoop_comm_split */
    uint64_t split_at;  /* the process is in it since then; 0: it is in none */
    int32_t error_code; /* a hoop_result; HOOP_SUCCESS: the communicator has not failed */
    char error[256];
} hp_flight_head;

/* All times are CLOCK_MONOTONIC of the host, in ns. 0: not yet. */
typedef struct hp_flight_record {
    uint64_t number;   /* of the record, counted from 1 */
    uint64_t sequence; /* of the operation, the same on all ranks; of messages that of the operation before */
    hp_call call;
    uint64_t entered, first, last, left; /* the call; the first and the last part of the data; the end */
    uint32_t calls;                      /* public calls that were fused into this operation */
    uint32_t messages;                   /* messages of a group; 0: a collective */
    int32_t peer;                        /* of the first message; -1 of a collective */
    int32_t result;                      /* a hoop_result, once it has ended */
    uint32_t wait;                       /* a hp_wait, as last seen */
    int32_t awaited;                     /* a rank, or -1 */
    uint64_t waits_since;                /* when that was first seen */
    uint32_t name;                       /* the number of the call's name; 0: it has none */
} hp_flight_record;

/* A recorder that was read. Some 100 KB. */
typedef struct hp_flight {
    hp_flight_head head;
    int torn;  /* records that cannot be believed: they were being written */
    int count; /* the others, by number */
    hp_flight_record record[HP_FLIGHT_RECORDS];
    char call_name[HP_CALL_NAMES][HP_CALL_NAME_TEXT]; /* by number - 1; the records' calls point to them */
} hp_flight;

/* --- writing: HP_FLIGHT_BYTES zeros at first --- */

void hp_flight_begin(hp_flight_word *file, const hp_flight_head *head);
void hp_flight_put(hp_flight_word *file, const hp_flight_record *record); /* nothing, if a newer one has its place */
void hp_flight_put_called(hp_flight_word *file, uint64_t called);
void hp_flight_put_name(hp_flight_word *file, const char *name);
void hp_flight_put_call_name(hp_flight_word *file, int number, const char *name); /* before a record has the number */
void hp_flight_put_split(hp_flight_word *file, uint32_t number, uint64_t since);
void hp_flight_put_error(hp_flight_word *file, int32_t code, const char *text);

/* --- reading --- */

/*
 * Reads n bytes of a recorder: a head, and as many whole records as there are. `later`, of a process that lives: the
 * same bytes, read again after the first reading had ended; NULL: the process has ended. Texts are safe to print.
 * HOOP_ERR_CORRUPT, or HOOP_ERR_UNSUPPORTED of another version, with the error filled (it names no file).
 */
hoop_result hp_flight_get(hp_flight *flight, const uint8_t *bytes, const uint8_t *later, size_t n, hoop_error *error);

#endif
