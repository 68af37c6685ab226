/* SPDX-License-Identifier: MIT */
/*
 * job_server: the job's name and secret, and the rendezvous server that hooprun runs for it, at an address that all hosts
 * can reach. The server is a process of its own (server_process.h), which is started again when it dies; the ranks and this
 * file tell it then what it must know.
 */
#ifndef HP_LAUNCH_JOB_SERVER_H
#define HP_LAUNCH_JOB_SERVER_H

#include "launch/job_ranks.h"
#include "launch/mapping.h"
#include "launch/streams.h"
#include "net/secret.h"
#include "net/sock.h"

typedef struct hp_job_server {
    const hp_options *options;
    const hp_mapping *mapping;
    hp_loop *loop;
    char id[9];        /* the job's name: in HOOP_JOB, in tables and lines, and in the names of files */
    uint16_t port;     /* random, for MASTER_PORT */
    hp_secret *secret; /* the job's own key */
    hp_job_rank *rank;
    hp_addr address; /* at which the ranks join */
    int listener;    /* there; -1: not opened yet, or given up */
    pid_t pid;       /* of the server's process; 0: none runs */
    int fd;          /* to it; -1: none */
    hp_watch *watch;
    hp_write_queue out;
    hp_buffer in;
    size_t taken;             /* bytes of the message that hp_job_server_hear has returned last */
    uint32_t asked, answered; /* questions */
    uint64_t asked_at;
    int stranded;          /* how many processes wait in vain for a place in a ring, since none is left */
    int summaries;         /* lines of what rings have done */
    int ending;            /* set by the owner: a process that dies now is not started again */
    uint64_t since;        /* when the process was started */
    int died;              /* it was reaped, or could not be started; */
    char how[200];         /* so */
    int deaths, row, fell; /* in all; one soon after the other; the last one at its start */
    hp_timer *again;
    char text[400]; /* of the last event */
} hp_job_server;

/* What the server has to say. */
typedef struct hp_server_event {
    enum {
        HP_SERVER_LINE,        /* text, for the user */
        HP_SERVER_RING_FAILED, /* cause; pid: the process of its rank, 0: unknown; split: its name, NULL: all ranks */
        HP_SERVER_KNOCKED,     /* somebody on host number `host` has made a new connection, and knows the job's key */
        HP_SERVER_PEER_TIMEOUT /* ms: for how long a host may be unreachable, as the ranks say */
    } what;
    const char *text;
    const char *split;
    int host;
    uint32_t pid, ms;
    hoop_error cause;
} hp_server_event;

hoop_result hp_job_server_open(hp_job_server *s, hp_loop *loop, const hp_options *options, const hp_mapping *mapping,
                               hoop_error *error);

/*
 * Starts the server once `host` has answered, which sees this machine at the address seen_from ("": unknown). Does
 * nothing if it was started, or if the answer came from here and other hosts must reach the server. *note: a line for the
 * user, to be freed; NULL: there is none.
 */
hoop_result hp_job_server_start(hp_job_server *s, int host, const char *seen_from, char **note, hoop_error *error);

/* After each turn of the loop, until it returns 0: the next event, valid until the next call. */
int hp_job_server_hear(hp_job_server *s, hp_server_event *event);
int hp_job_server_reaped(hp_job_server *s, pid_t pid, int status); /* after waitpid; 1: it was the server's process */
void hp_job_server_signal(const hp_job_server *s, int number);     /* to that process */

/* What is known of a rank: where it runs, as which process (0: another one starts), and whether that is stopped. */
void hp_job_server_rank(hp_job_server *s, int rank, const char *host, uint32_t pid, hp_process state);
/* Its process has ended, well or not: the server tells ranks that wait for it in hoop_comm_create. */
void hp_job_server_rank_over(hp_job_server *s, int rank);

/*
 * Questions: what the ranks are doing, the table of rendezvous/table.h, at most so many lines (if_stalled: only if a rank
 * has waited for a second); and what the rings have done that were not left. The answers are events: they are to be heard
 * while hp_job_server_answers, which waits for them, returns 1. Then hp_job_server_missed: the server has not answered all
 * within so many seconds.
 */
enum { HP_TABLE_ALL = 1 << 20, HP_TABLE_SHORT = 10 };
void hp_job_server_table(hp_job_server *s, int most, int width, int if_stalled);
void hp_job_server_sum_up(hp_job_server *s);
int hp_job_server_answers(hp_job_server *s);
int hp_job_server_missed(const hp_job_server *s);

void hp_job_server_close(hp_job_server *s); /* ends the server's process; zeroed memory is fine */

#endif
