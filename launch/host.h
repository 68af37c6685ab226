/* SPDX-License-Identifier: MIT */
/*
 * host: the hosts of a run as the launcher sees them. Each has an agent, which is started, sent its spec, and reports;
 * a message about a rank that is not on its host is dropped. What follows from a report is run.c's business.
 */
#ifndef HP_LAUNCH_HOST_H
#define HP_LAUNCH_HOST_H

#include "flight/collection.h"
#include "launch/agent_conn.h"
#include "launch/job_server.h"
#include "launch/lease.h"
#include "launch/places.h"
#include "launch/rank_exit.h"

typedef struct hp_hosts hp_hosts;

typedef struct hp_host {
    hp_hosts *all;
    int index;           /* in the mapping */
    const char *name;    /* for messages */
    int count;           /* of the ranks that were started there first */
    hp_agent_conn *conn; /* NULL: not started, or not used */
    int has_spec;        /* the spec was sent: the ranks are starting or running */
    uint32_t own;        /* ms: peer_timeout_ms, as its variables have it; 0: its agent has not told it yet */
    hp_lease lease;
    uint64_t called;   /* when its agent was started */
    uint64_t heard;    /* when its agent last said anything, which it does every second while ranks run there */
    uint64_t answered; /* when the last ping was sent that its agent has answered: both directions worked then */
    uint64_t knocked;  /* when its agent last made a new connection to the server, which it does if it hears nothing */
    int asked;         /* it was asked for its flight recorders, and has not sent all of them */
    int given_up;      /* its agent is not awaited any more: nothing has come from it for too long */
    int done;          /* the agent has reported that everything there has ended, or that nothing was started */
} hp_host;

/* What an agent has reported. */
typedef struct hp_host_event {
    enum {
        HP_HOST_GREETED,
        HP_HOST_STARTED, /* rank, pid */
        HP_HOST_PROCESS, /* rank, pid, number: 1: the process is stopped, 0: it runs; each second */
        HP_HOST_OUTPUT,  /* rank, number: the stream, 1 or 2, n bytes */
        HP_HOST_EXITED,  /* ended, whose program is NULL */
        HP_HOST_TAKEN,   /* n bytes of what hp_hosts_stdin sent */
        HP_HOST_FAILED,  /* it could not start its ranks; number: an exit status, n bytes of text that say why */
        HP_HOST_OVER     /* it has ended; the last event of this host */
    } what;
    hp_host *host;
    int rank, number;
    unsigned pid;
    const uint8_t *bytes;
    size_t n;
    hp_rank_exit ended;
} hp_host_event;

struct hp_hosts {
    hp_loop *loop;
    const hp_mapping *mapping;
    hp_host *host; /* by index in the mapping */
    int count;
    int heard;                      /* whose events hp_hosts_hear returns now */
    hp_host *first;                 /* the one with rank 0 */
    int used;                       /* hosts that have an agent */
    hp_flight_collection recorders; /* as far as agents have sent them */
    int started, greeted, over;     /* agents of them */
    int *ended;                     /* by rank: its process */
    hp_places places;
    hp_timer *ping; /* agents behind a network are told now and then that this launcher lives, */
    uint64_t pace;  /* this often */
    uint32_t relet; /* ms: peer_timeout_ms, as the rings have it; 0: not known */
};

void hp_hosts_open(hp_hosts *hosts, hp_loop *loop, const hp_mapping *mapping);
void hp_hosts_close(hp_hosts *hosts); /* zeroed memory is fine */

/* After each turn of the loop, until it returns 0: the next event, valid until the next call. */
int hp_hosts_hear(hp_hosts *hosts, hp_host_event *event);

/* The next host whose agent should be started now; NULL: all are, or too many have not answered yet. */
hp_host *hp_hosts_next(hp_hosts *hosts);
hoop_result hp_host_start(hp_host *host, hoop_error *error);

/* Secret, spec, go. */
void hp_host_send_spec(hp_host *host, const hp_job_server *server, hp_winsize winsize);

int hp_host_is_silent(const hp_host *host);  /* its agent was started and has not answered */
int hp_host_is_watched(const hp_host *host); /* its agent is behind a network, and should say something now and then */
uint64_t hp_host_alive(const hp_host *host); /* when it last answered a ping, or knocked */
uint64_t hp_host_silence(const hp_host *host);  /* ns since such an agent could be reached; 0: it is not watched */
int hp_host_has(const hp_host *host, int rank); /* a process of this rank runs there, or ran there last */

/* The host is lost. Returns how many of its ranks that had not ended are not started again on another one. */
int hp_host_lost(hp_host *host, hp_failure *failure);
void hp_host_give_up(hp_host *host);                   /* kills the remote shell; nothing will come from there */
hp_host *hp_hosts_of(const hp_hosts *hosts, int rank); /* where a rank runs; NULL: there is no such rank */

/* Its agent starts a process for a rank that hp_places_next has named. */
void hp_hosts_again(hp_hosts *hosts, int rank);

/* The ranks' own peer_timeout_ms is so many ms: every lease follows it. */
void hp_hosts_relet(hp_hosts *hosts, uint32_t ms);

/* The agent of host number `host` >= 0 has made a new connection to the server. */
void hp_hosts_knocked(hp_hosts *hosts, int host);

/* To rank 0. */
void hp_hosts_stdin(hp_hosts *hosts, const uint8_t *bytes, size_t n);
void hp_hosts_stdin_end(hp_hosts *hosts);

/* To every host. */
void hp_hosts_look(hp_hosts *hosts);               /* asks for the flight recorders as they are now */
const char *hp_hosts_asked(const hp_hosts *hosts); /* the first that has not answered that; NULL: there is none */
void hp_hosts_signal(hp_hosts *hosts, int number); /* to its ranks */
void hp_hosts_resize(hp_hosts *hosts, hp_winsize size);
void hp_hosts_pause(hp_hosts *hosts, int pause); /* 1: the ranks are held back for now by what they print */
void hp_hosts_stop(hp_hosts *hosts, uint64_t grace_ns);
void hp_hosts_kill(hp_hosts *hosts); /* what each agent's process has started on this machine, too */

void hp_hosts_reaped(hp_hosts *hosts, pid_t pid, int status); /* after waitpid */

#endif
