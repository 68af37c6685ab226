/* SPDX-License-Identifier: MIT */
/*
 * sock: TCP sockets as hoop wants them: non-blocking, close-on-exec, descriptor >= 3, TCP_NODELAY, keepalive. No
 * TCP_USER_TIMEOUT: it resets healthy connections whose peer is merely not reading (tcp.h is for the others). They listen
 * in a range of ports, they connect, or they probe whether a process still exists.
 */
#ifndef HP_SOCK_H
#define HP_SOCK_H

#include "net/addr.h"
#include "net/tcp.h"

typedef struct hp_sock_options {
    int sndbuf, rcvbuf;     /* bytes; 0: the kernel's own tuning */
    uint64_t peer_timeout;  /* ns for which the other host may be away; 0: HP_PEER_TIMEOUT_MS */
    hp_keepalive keepalive; /* 0: as peer_timeout needs it */
    char congestion[16];    /* TCP_CONGESTION; "": the system's default; a refused name is a WARN, once */
    int near_only;          /* that is for connections with a short round trip; others keep the system's default */
    int listener; /* for an acceptor: a socket that listens already, which it takes over; 0: none, it makes its own */
} hp_sock_options;

enum { HP_BACKLOG = 1024 }; /* connections that a listener of a process holds until they are accepted */

/* Each returns a descriptor, or -1 with the error filled. */
int hp_sock_listen(const hp_addr *addr, int backlog, hoop_error *error); /* port 0: any; EADDRINUSE names the port */
/* Starts a connection; hp_sock_connected finishes it. from may be NULL. */
int hp_sock_connect(const hp_addr *addr, const hp_addr *from, const hp_sock_options *options, hoop_error *error);
int hp_sock_connected(int fd, hoop_error *error); /* once the socket is writable: 1 connected, -1 failed */
int hp_sock_accept(int listener, hp_addr *peer);  /* -1 with errno, also EAGAIN */

int hp_sock_has_one_address(int fd); /* both ends of a connection have the same: they are on one host */
/* How long the connection survives that the other host is away. wish: NULL: none. */
void hp_sock_await_peer(int fd, uint64_t peer_timeout, const hp_keepalive *wish);
void hp_sock_tune(int fd, const hp_sock_options *options);
/* Of a connection that is up. */
void hp_sock_set_congestion(int fd, const hp_sock_options *options);
int hp_sock_is_near(uint32_t rtt_us); /* 1 up to 5 ms, as within a building */
/* How many more descriptors this process may open, at most, judging by the one it has just opened. */
int hp_sock_spare(int newest);
hoop_result hp_sock_name(int fd, hp_addr *local, hoop_error *error);

/* --- ports --- */

/* The range in which a process may listen (HOOP_PORT_RANGE). */
typedef struct hp_ports {
    uint16_t first, last; /* 0: any port; the system chooses */
} hp_ports;

/* "5800-5900"; "5800" for that port alone; "" for any. */
hoop_result hp_ports_parse(hp_ports *ports, const char *text, hoop_error *error);

/*
 * Returns a listener on `addr`: on its own port if it has one, else on the first free one of the range. -1 with the
 * error filled, which names the range if all its ports are in use.
 */
int hp_ports_listen(const hp_ports *ports, const hp_addr *addr, int backlog, hoop_error *error);

/* --- probes --- */

/*
 * Whether the process at an address still exists. A listening socket is closed when its process ends, so a connection that
 * is refused means that it has ended, one that is accepted that it lives. No answer means that packets do not get there and
 * back; what fails on this side means nothing. A proxy accepts for a process that has ended, and closes the connection then:
 * so behind one an accepted connection is HELD until it is closed. Never blocks.
 */
typedef enum hp_probe_state {
    HP_PROBE_NONE,      /* not asked, or an answer that means nothing */
    HP_PROBE_ASKED,     /* no answer yet */
    HP_PROBE_HELD,      /* by a proxy */
    HP_PROBE_UNREACHED, /* this kernel, or a router, has given up */
    HP_PROBE_ALIVE,
    HP_PROBE_ENDED
} hp_probe_state;

typedef struct hp_probe {
    hp_probe_state state;
    int proxied; /* set by the owner before the start */
    int fd;      /* while ASKED or HELD */
} hp_probe;

void hp_probe_start(hp_probe *probe, const hp_addr *addr, const hp_sock_options *options);
hp_probe_state hp_probe_poll(hp_probe *probe);
void hp_probe_stop(hp_probe *probe); /* forgets the answer too */

#endif
