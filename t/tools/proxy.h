/* SPDX-License-Identifier: MIT */
/*
 * proxy: a process between two ends of TCP connections that does to their bytes what a bad network does. It has doors;
 * each is a listener and leads to one place: the rendezvous server, or the listener of a rank that has called
 * proxy_stand_before. What a door does is written into memory that the test, the ranks and the proxy share, and holds
 * for bytes from then on. Until a door opens it does to connections what a proxy does whose target is not up yet.
 */
#ifndef T_PROXY_H
#define T_PROXY_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROXY_DOORS = 8 };

typedef enum proxy_act {
    PROXY_PASS,
    PROXY_RESET, /* both sides get a reset */
    PROXY_CUT,   /* both sides get an end of file */
    PROXY_FLIP,  /* one bit is another */
    PROXY_STALL  /* this direction stands still from here on; the other goes on */
} proxy_act;

typedef enum proxy_shut {
    PROXY_CLOSES,       /* at once */
    PROXY_CLOSES_LATER, /* after the first bytes */
    PROXY_RESETS_LATER, /* likewise, with a reset */
    PROXY_IGNORES,      /* never, and says nothing */
    PROXY_ANSWERS       /* after the first bytes, with an answer in HTTP */
} proxy_shut;

typedef struct proxy_door {
    atomic_int port;   /* where the proxy listens, on 127.0.0.1 */
    atomic_int target; /* the port it leads to */
    /* What happens once, to the first connection on which byte `at` of a direction is next. */
    atomic_int act, back, bit; /* back 0: towards the target, 1: from it */
    atomic_ullong at;
    atomic_int times; /* to so many connections, one after the other; 0: to one. A reset or a cut counts it down */
    atomic_int done;
    atomic_ullong done_at;   /* nanoseconds on the monotonic clock */
    atomic_ullong opens_at;  /* by the same clock; connections that come earlier are for ever what `shut` says */
    atomic_int shut;         /* a proxy_shut */
    atomic_int turned_away;  /* so many connections */
    atomic_int stalled;      /* while 1, nothing moves either way, and nobody is told */
    atomic_uint segment;     /* pieces of 1 to so many bytes leave one by one; 0: as they come */
    atomic_uint rate;        /* bytes a second and direction; 0: any */
    atomic_ullong passed[2]; /* bytes of the connection that carried most, there and back */
} proxy_door;

typedef struct proxy {
    pid_t pid;
    atomic_int drop; /* 1: the proxy resets all connections, 2: closes them in order; then it sets it to 0 */
    proxy_door door[PROXY_DOORS];
} proxy;

proxy *proxy_open(void);
void proxy_close(proxy *x);

/* Forgets connections, counts and acts of all doors; the doors stay where they are. */
void proxy_reset(proxy *x);

/* All connections get a reset (1), or an end of file (2), as from a proxy that closes idle ones. Returns when that is done. */
void proxy_drop_all(proxy *x, int how);

/* The door turns away who comes within so many seconds from now; 0 or less: nobody. */
void proxy_shut_for(proxy_door *door, proxy_shut how, double seconds);

/* In a rank, before hoop_comm_create: its listener is reached through this door only. */
void proxy_stand_before(proxy *x, int door);

#endif
