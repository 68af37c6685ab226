/* SPDX-License-Identifier: MIT */
/*
 * limits: how many descriptors and processors the system leaves to this process. The usual soft limit of 1024 descriptors
 * (RLIMIT_NOFILE) is for programs that use select(2); hoop does not, and needs one for each connection.
 */
#ifndef HP_LIMITS_H
#define HP_LIMITS_H

#include <stdint.h>
#include <sys/resource.h>

int hp_limits_descriptors(void); /* the soft limit; INT_MAX where there is none, or where it cannot be read */
int hp_limits_left(int most);    /* how many it may still open, counted up to `most`; opens none */
int hp_processors_count(void);   /* on which it may run, by its affinity mask; at least 1 */
uint32_t hp_processors_id(void); /* equal for processes of one host that may run on the same ones */
uint32_t hp_pid_space(void);     /* the namespace in which getpid() counts, constant; 0: unknown, without /proc */

/*
 * Raises the soft limit to the hard one. Returns 1 if the limit is now another one: *before (may be NULL) is what it
 * was, for child processes that are to have it. Returns 0 if nothing was changed.
 */
int hp_limits_raise_descriptors(struct rlimit *before);

/*
 * A descriptor that is held for the moment in which the process has none left. A listener without any could not even tell
 * a rank why it must go away; with the spare one it accepts one connection at a time for that.
 */
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
