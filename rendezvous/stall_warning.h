/* SPDX-License-Identifier: MIT */
/*
 * stall_warning: when to speak of a standstill: first after a while, then at doubling intervals, and once more when it is over;
 * pure. Who stands still, and in which words that is told, is the owner's.
 */
#ifndef HP_STALL_WARNING_H
#define HP_STALL_WARNING_H

#include <stdint.h>

/* All zero: nothing was said. */
typedef struct hp_stall_warning {
    uint64_t since;  /* when the standstill that was spoken of began; 0: none is */
    uint64_t next;   /* how long it lasts when it is spoken of again */
    uint64_t moved;  /* the last movement seen */
    uint64_t going;  /* since when there is movement again; 0: there is none */
    uint64_t lasted; /* ns, at the last word */
} hp_stall_warning;

typedef enum hp_stall_word {
    HP_STALL_QUIET,
    HP_STALL_WARN, /* nothing has moved for `lasted` */
    HP_STALL_OVER  /* what was spoken of is over; it had lasted so long */
} hp_stall_word;

/*
 * after: how long nothing must have moved, 0: never; waiting: whether anybody waits now; moved: when something last did.
 * A movement ends a standstill if it leads somewhere: nobody waits any more, or it goes on for a second.
 */
hp_stall_word hp_stall_warning_due(hp_stall_warning *warning, uint64_t after, int waiting, uint64_t moved,
                                   uint64_t now);

#endif
