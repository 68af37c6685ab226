/* SPDX-License-Identifier: MIT */
/*
 * collection: recorders that were read, of any number of processes, and what had become of these by then, by /proc; and how a
 * process signs its recorder, so that it is found again.
 */
#ifndef HP_FLIGHT_COLLECTION_H
#define HP_FLIGHT_COLLECTION_H

#include "base/clock.h"
#include "flight/format.h"

/* --- which process, and what has become of it --- */

typedef enum hp_flight_state {
    HP_FLIGHT_UNKNOWN, /* it is of another host, or of another pid namespace */
    HP_FLIGHT_RUNS,
    HP_FLIGHT_STOPPED, /* by a signal, or by a debugger */
    HP_FLIGHT_ENDED,
    HP_FLIGHT_MOVES /* it has called, ended a call, or moved data between two readings of its recorder */
} hp_flight_state;

/* Sets pid, started, pid_space and both clocks of this process. */
void hp_flight_sign(hp_flight_head *head);

typedef struct hp_flight_process {
    uint32_t parent;
    int stopped;      /* by a signal, or by a debugger */
    uint64_t started; /* in ticks since the machine was; 0: unknown */
} hp_flight_process;

/* Reads it from /proc. 0: there is none of this number, or it has ended. */
int hp_flight_find_process(uint32_t pid, hp_flight_process *process);

/* What has become of the process that signed. A process of the same pid that was started later is another one. */
hp_flight_state hp_flight_look(const hp_flight_head *head);

/* --- recorders --- */

#define HP_FLIGHT_PAUSE (250 * HP_MS) /* between two readings of recorders whose processes run */

typedef struct hp_flight_entry {
    hp_flight *flight;
    hp_flight_state state;
    uint64_t looked; /* ns since 1970: when it was read */
    uint8_t *bytes;  /* the recorder itself, up to its last record */
    size_t n;
} hp_flight_entry;

typedef struct hp_flight_collection {
    hp_flight_entry *entry;
    size_t count, room;
} hp_flight_collection;

int hp_flight_is_recorder(const char *name); /* it ends in ".flight" */

/* Of a recorder. `later`: see hp_flight_get. */
typedef struct hp_flight_reading {
    const uint8_t *bytes, *later;
    size_t n;
    hp_flight_state state;
    uint64_t looked;
} hp_flight_reading;

/*
 * Adds a reading of a recorder, or a file, or all recorders of a folder. `job`, if not NULL: only
 * those of this job; others are left out in silence. A file of a folder that is no recorder, or vanishes, is left out:
 * a process may just be making or removing it. HOOP_ERR_CORRUPT, HOOP_ERR_UNSUPPORTED, HOOP_ERR_SYSTEM or
 * HOOP_ERR_NO_MEMORY with the error filled; what was added before stays.
 */
hoop_result hp_flight_add(hp_flight_collection *all, const hp_flight_reading *reading, hoop_error *error);
hoop_result hp_flight_add_file(hp_flight_collection *all, const char *path, const char *job, hoop_error *error);
hoop_result hp_flight_add_folder(hp_flight_collection *all, const char *path, const char *job, hoop_error *error);

/*
 * Finds by an earlier reading which of the processes go on: those become HP_FLIGHT_MOVES. What the others were in, they were
 * in at every moment between the end of the earlier reading and the beginning of this one, whichever was read first.
 */
void hp_flight_compare(hp_flight_collection *all, const hp_flight_collection *earlier);

void hp_flight_collection_free(hp_flight_collection *all);

#endif
