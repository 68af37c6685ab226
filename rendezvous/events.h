/* SPDX-License-Identifier: MIT */
/*
 * events: what the server's pure files (job, join_group, roster) cause outside. `peer` is the owner's handle of one
 * control connection. Every function only queues or notes something; none may call back into the file that called it.
 */
#ifndef HP_EVENTS_H
#define HP_EVENTS_H

#include "base/log.h"

#include <stddef.h>
#include <stdint.h>

struct hp_job;
struct hp_roster;
struct hp_join_group;
struct hp_recall;
struct hp_member;

/* One control connection. The owner embeds it, and gets its address back as the `peer` of events. */
typedef struct hp_job_conn {
    struct hp_job *job;
    int where;   /* HP_BEFORE_JOIN or HP_JOINING; once it has a rank, the roster knows */
    int done;    /* refused or disconnected: its frames are ignored */
    int starved; /* set by the owner: no descriptor is left for another one, and this one is let in to hear that */
    uint32_t declared_rank, declared_world;
    uint64_t declared_parent; /* what its HELLO declared; JOIN must declare the same */
    struct hp_join_group *join_group;
    struct hp_roster *roster;
    int rank;
    int returned;             /* it was reconnected: it has the roster already */
    int proxied;              /* its JOIN says so: hp_member */
    int recalls;              /* set by the owner: it may be asked for a ring that is not known (recall.h), */
    struct hp_recall *recall; /* and is; else NULL */
} hp_job_conn;

/* What is known of a rank's process by those who started it. */
typedef enum hp_process { HP_PROCESS_UNKNOWN, HP_PROCESS_RUNS, HP_PROCESS_STOPPED } hp_process;

/* What a line of the server is for. */
typedef enum hp_notice {
    HP_NOTICE_EVENT,   /* what happens in a job ("job 4f21: 8 ranks on 2 hosts joined, ..."), for the server's log */
    HP_NOTICE_WARNING, /* for the user, even without a log: which rank the others wait for */
    HP_NOTICE_SUMMARY  /* what a ring has done, when it is over (table.h) */
} hp_notice;

/* Who runs the server, and perhaps has started the ranks of its one job. It is told and asked; each may be NULL. */
typedef struct hp_starter {
    void *arg;
    /* A line of any job; it begins with the job's name. NULL: hp_log, INFO for events and WARN for warnings. */
    void (*say)(void *arg, hp_notice sort, const char *line);
    /*
     * A ring of any job has failed, or cannot be made. It was logged before. split: which one, 'split 1 colour 0 "dp"'; NULL:
     * all ranks. pid: the process of cause->rank, which the ring numbers in its own way; 0: unknown.
     */
    void (*failed)(void *arg, const char *split, const hoop_error *cause, uint32_t pid);
    /* The host on which a missing rank was started; NULL: unknown. */
    const char *(*host_of)(void *arg, int rank);
    /* Whether the process of a rank of the whole job, if it is `pid`, is stopped. */
    hp_process (*process)(void *arg, int rank, uint32_t pid);
} hp_starter;

typedef struct hp_events {
    hp_starter starter;
    void *arg;                                                                    /* of those below */
    void (*send)(void *arg, void *peer, int type, const void *payload, size_t n); /* sends one control frame */
    /* The peer is rank `rank` of this ring from now on: its roster is sent in parts (hp_part_put). */
    void (*assign)(void *arg, void *peer, struct hp_roster *roster, int rank);
    void (*disconnect)(void *arg, void *peer); /* close when all that was sent is written */
    /* A question, not an event: has the peer's host taken all bytes sent to it, read or not? */
    int (*reached)(void *arg, const void *peer);
    void (*ended)(void *arg, const struct hp_roster *ring); /* a ring is over, and forgotten after this */
} hp_events;

static inline void
hp_events_say(const hp_events *events, hp_notice sort, const char *line)
{
    if (events->starter.say)
        events->starter.say(events->starter.arg, sort, line);
    else
        hp_log(sort == HP_NOTICE_WARNING ? HP_LOG_WARN : HP_LOG_INFO, "%s", line);
}

static inline void
hp_events_failed(const hp_events *events, const char *split, const hoop_error *cause, uint32_t pid)
{
    if (events->starter.failed)
        events->starter.failed(events->starter.arg, split, cause, pid);
}

/* These two note the state of the connection, and then tell the owner. */
static inline void
hp_events_assign(const hp_events *events, hp_job_conn *conn, struct hp_roster *roster, int rank)
{
    conn->join_group = NULL;
    conn->roster = roster;
    conn->rank = rank;
    events->assign(events->arg, conn, roster, rank);
}

static inline void
hp_events_disconnect(const hp_events *events, hp_job_conn *conn)
{
    conn->join_group = NULL;
    conn->done = 1;
    events->disconnect(events->arg, conn);
}

#endif
