/* SPDX-License-Identifier: MIT */
/*
 * spare: a descriptor that is held for the moment in which a process has none left. A listener without any could not
 * even tell a rank why it must go away; with the spare one it accepts one connection at a time for that.
 */
#ifndef HP_SPARE_H
#define HP_SPARE_H

#include <stdint.h>

typedef struct hp_spare {
    int fd;         /* -1: it is given away, or none was left to hold */
    uint64_t since; /* when it was first given away, and has been missed since; 0: it is not missed */
} hp_spare;

void hp_spare_hold(hp_spare *spare);              /* if it is not held, and if one is left */
int hp_spare_give(hp_spare *spare, uint64_t now); /* 1: it was held, and one descriptor is free now */
void hp_spare_was_enough(hp_spare *spare); /* a descriptor was found; if the spare one is held, no more is missed */
int hp_spare_is_short(int number); /* whether this errno of accept(2) means that descriptors or memory ran out */
/* For how long descriptors have been missed, at least 1; 0: the spare one is held, or could be held again. */
uint64_t hp_spare_lacking(hp_spare *spare, uint64_t now);

#endif
