/* SPDX-License-Identifier: MIT */
/* collection: recorders that were read, of any number of processes, and what had become of these by then. */
#ifndef HP_FLIGHT_COLLECTION_H
#define HP_FLIGHT_COLLECTION_H

#include "base/clock.h"
#include "flight/process.h"

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

/*
 * Adds n bytes of a recorder, or a file, or all recorders of a folder. `job`, if not NULL: only
 * those of this job; others are left out in silence. A file of a folder that is no recorder, or vanishes, is left out:
 * a process may just be making or removing it. HOOP_ERR_CORRUPT, HOOP_ERR_UNSUPPORTED, HOOP_ERR_SYSTEM or
 * HOOP_ERR_NO_MEMORY with the error filled; what was added before stays.
 */
hoop_result hp_flight_add(hp_flight_collection *all, const uint8_t *bytes, const uint8_t *later, size_t n,
                          hp_flight_state state, uint64_t looked, hoop_error *error);
hoop_result hp_flight_add_file(hp_flight_collection *all, const char *path, const char *job, hoop_error *error);
hoop_result hp_flight_add_folder(hp_flight_collection *all, const char *path, const char *job, hoop_error *error);

/*
 * Finds by an earlier reading which of the processes go on: those become HP_FLIGHT_MOVES. What the others were in, they were
 * in at every moment between the end of the earlier reading and the beginning of this one, whichever was read first.
 */
void hp_flight_compare(hp_flight_collection *all, const hp_flight_collection *earlier);

void hp_flight_collection_free(hp_flight_collection *all);

#endif
