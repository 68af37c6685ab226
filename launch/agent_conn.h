/* SPDX-License-Identifier: MIT */
/*
 * agent_conn: the launcher's connection to one agent. It starts the agent, here or through a remote shell, waits for
 * its greeting behind whatever a login shell prints, and exchanges messages with it. host.c judges the messages.
 */
#ifndef HP_LAUNCH_AGENT_CONN_H
#define HP_LAUNCH_AGENT_CONN_H

#include "launch/agent_msg.h"
#include "launch/output.h"
#include "launch/streams.h"

#include <sys/types.h>

typedef struct hp_agent_conn hp_agent_conn;

/* How an agent is started. All of it must outlive the connection. */
typedef struct hp_agent_call {
    const char *host;   /* for messages */
    char *const *argv;  /* the command; its last two words are the agent's */
    char *const *other; /* run in its place if it fails before the greeting because the agent's program is not there */
    int local;          /* the agent gets a session of its own */
} hp_agent_call;

typedef enum hp_agent_conn_state {
    HP_AGENT_CONN_STARTING, /* started; awaits the greeting */
    HP_AGENT_CONN_GREETED,  /* messages may come */
    HP_AGENT_CONN_OVER      /* process reaped, pipes read to their end */
} hp_agent_conn_state;

/* What has happened, in this order. */
typedef enum hp_agent_conn_news {
    HP_AGENT_CONN_NOTHING,
    HP_AGENT_CONN_GREETING,
    HP_AGENT_CONN_MESSAGE,
    HP_AGENT_CONN_END /* the agent has ended, well or not */
} hp_agent_conn_news;

/* For others to read: state to lacks_agent. */
struct hp_agent_conn {
    hp_agent_conn_state state;
    char *command;            /* as one line */
    hp_buffer banner, err;    /* the output before the greeting, once that has come; the end of its standard error */
    char seen_from[64];       /* this machine's address as the host sees it; "": unknown */
    int wait_status;          /* once it is over */
    char protocol_error[256]; /* why its messages were refused; "": they were not */
    int lacks_agent;          /* it is over because the host has no hoop-launch */
    hp_write_queue out;       /* add messages to its buffer, then hp_agent_conn_push */
    hp_loop *loop;
    hp_agent_call call;
    char *const *argv; /* what runs: the call's command, or the other one */
    int greeted;
    hp_agent_conn_news told;   /* what hp_agent_conn_next has returned */
    size_t taken;              /* bytes of the message that it has returned last */
    pid_t pid;                 /* 0: reaped */
    int in_fd, out_fd, err_fd; /* of the agent; -1: hung up, or at their end */
    hp_watch *out_watch, *err_watch;
    hp_timer *timer;
    hp_buffer in;
};

/* HOOP_ERR_SYSTEM: the command could not be run. */
hp_agent_conn *hp_agent_conn_new(hp_loop *loop, const hp_agent_call *call, hoop_error *error);

/* After each turn of the loop, until nothing more has happened. *msg is valid until the next call. */
hp_agent_conn_news hp_agent_conn_next(hp_agent_conn *conn, hp_agent_msg *msg);
void hp_agent_conn_push(hp_agent_conn *conn);
void hp_agent_conn_hang_up(hp_agent_conn *conn); /* closes its standard input: the agent ends its ranks */
void hp_agent_conn_kill(hp_agent_conn *conn);    /* the process and its descendants on this machine */
int hp_agent_conn_reaped(hp_agent_conn *conn, pid_t pid, int status); /* after waitpid; 1: it was this agent */
void hp_agent_conn_free(hp_agent_conn *conn);

/*
 * Tells the user of an agent that has ended too early. running: ranks on the other hosts, -1: none yet; go_on: they are not
 * stopped.
 */
void hp_agent_conn_report_end(const hp_agent_conn *conn, hp_output *output, int running, int go_on);

/* Tells the user what the host has said. */
void hp_agent_conn_quote(const hp_agent_conn *conn, hp_output *output);

/* Tells the user of an agent that has not answered for so long. */
void hp_agent_conn_report_silence(const hp_agent_conn *conn, hp_output *output, double seconds);

#endif
