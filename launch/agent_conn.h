/* SPDX-License-Identifier: MIT */
/*
 * conn: the launcher's end of one agent: starts it, here or through a remote shell, waits for its greeting behind
 * whatever a login shell prints, and exchanges packets with it. Whether what comes makes sense for the job is job.c's
 * business.
 */
#ifndef HP_LAUNCH_AGENT_CONN_H
#define HP_LAUNCH_AGENT_CONN_H

#include "launch/agent_msg.h"
#include "launch/write_queue.h"

#include <sys/types.h>

typedef struct hp_agent_conn hp_agent_conn;

typedef struct hp_agent_conn_owner {
    void *arg;
    void (*greeted)(void *arg, hp_agent_conn *conn);
    void (*message)(void *arg, hp_agent_conn *conn, const hp_agent_msg *msg);
    void (*over)(void *arg, hp_agent_conn *conn); /* it has ended, well or not; nothing more comes */
} hp_agent_conn_owner;

typedef enum hp_agent_conn_state {
    HP_AGENT_CONN_STARTING, /* started; awaits the greeting */
    HP_AGENT_CONN_GREETED,  /* packets may come */
    HP_AGENT_CONN_OVER      /* process reaped, pipes read to their end */
} hp_agent_conn_state;

/*
 * argv, or another to try when the first fails before the greeting because the agent's program is not there (NULL:
 * none); both outlive the conn. local: started in a session of its own. HOOP_ERR_SYSTEM: argv could not be run at
 * all.
 */
hp_agent_conn *hp_agent_conn_new(hp_loop *loop, const char *host, char *const *argv, char *const *other, int local,
                                 const hp_agent_conn_owner *owner, hoop_error *error);

hp_agent_conn_state hp_agent_conn_status(const hp_agent_conn *conn);
const char *
hp_agent_conn_seen_from(const hp_agent_conn *conn); /* this machine's address as the host sees it; "": unknown */
const char *hp_agent_conn_banner(const hp_agent_conn *conn);  /* what was printed before the greeting */
const char *hp_agent_conn_stderr(const hp_agent_conn *conn);  /* the end of what came on standard error */
const char *hp_agent_conn_command(const hp_agent_conn *conn); /* as one line */
int hp_agent_conn_wait_status(const hp_agent_conn *conn);     /* the wait status, once it is over */
int hp_agent_conn_lacks_agent(const hp_agent_conn *conn);     /* it is over because hoop-launch was not found there */
const char *hp_agent_conn_protocol_error(const hp_agent_conn *conn); /* what was wrong with what it sent; "": nothing */

hp_buffer *hp_agent_conn_out(hp_agent_conn *conn); /* add packets here, then push */
void hp_agent_conn_push(hp_agent_conn *conn);
void hp_agent_conn_pause(hp_agent_conn *conn, int pause); /* 1: take nothing from it for now */
void hp_agent_conn_hang_up(hp_agent_conn *conn);          /* closes its standard input: a live agent ends everything */
void hp_agent_conn_kill(hp_agent_conn *conn, int signal); /* the process and what it has started here */
int hp_agent_conn_reaped(hp_agent_conn *conn, pid_t pid, int status); /* after waitpid; 1: it was this one */
void hp_agent_conn_free(hp_agent_conn *conn);

#endif
