/* SPDX-License-Identifier: MIT */
/* wait: what an operation or a message waits for. The numbers are in flight recorders, and less one in control frames. */
#ifndef HP_WAIT_H
#define HP_WAIT_H

typedef enum hp_wait {
    HP_WAIT_NONE,   /* for nothing, or it is not known */
    HP_WAIT_PEER,   /* data of a rank */
    HP_WAIT_LINK,   /* a rank has to take data */
    HP_WAIT_STREAM, /* the program's stream has not reached it */
    HP_WAIT_DEVICE, /* a reduction or a copy on this rank */
    HP_WAITS
} hp_wait;

typedef struct hp_awaited {
    hp_wait what;
    int rank; /* of PEER and LINK; -1: none, any, or not known */
} hp_awaited;

static inline int
hp_wait_is_for_rank(hp_wait what)
{
    return what == HP_WAIT_PEER || what == HP_WAIT_LINK;
}

#endif
