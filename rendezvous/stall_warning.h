/* SPDX-License-Identifier: MIT */
/*
 * stall_warning: when to warn of a stall: first after a while, then at doubling intervals, and once more when it is
 * over. Pure. The owner knows which rank is stalled and writes the message.
 */
#ifndef HP_STALL_WARNING_H
#define HP_STALL_WARNING_H

#include <stdint.h>

/* All zero at the start. */
typedef struct hp_stall_warning {
    uint64_t since;  /* when the stall of the last warning began; 0: none */
    uint64_t next;   /* how long it has lasted at the next warning */
    uint64_t moved;  /* the last progress seen */
    uint64_t going;  /* since when there is progress again; 0: there is none */
    uint64_t lasted; /* ns, at the last warning */
} hp_stall_warning;

typedef enum hp_stall_word {
    HP_STALL_QUIET,
    HP_STALL_WARN, /* warn: nothing has moved for `lasted` */
    HP_STALL_OVER  /* the stall of the last warning is over; it lasted for `lasted` */
} hp_stall_word;

/*
 * after: the time without progress before a warning, 0: never; waiting: whether any rank waits now; moved: the time
 * of the last progress. Progress ends a stall if no rank waits any more, or if it goes on for a second.
 */
hp_stall_word hp_stall_warning_due(hp_stall_warning *warning, uint64_t after, int waiting, uint64_t moved,
                                   uint64_t now);

#endif
