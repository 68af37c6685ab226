/* SPDX-License-Identifier: MIT */
/*
 * task: what all ranks of one run have in common: the job's name and secret, the rendezvous server and where it
 * listens; and what each host's agent is told.
 */
#ifndef HP_TASK_H
#define HP_TASK_H

#include "launch/mapping.h"
#include "net/addr.h"
#include "net/secret.h"
#include "rendezvous/server.h"

/* Who hears of the server. */
typedef struct hp_task_owner {
    void *arg;
    void (*say)(void *arg, const char *line);  /* its own lines */
    void (*warn)(void *arg, const char *line); /* who holds up the job */
    void (*failed)(void *arg, const hoop_error *cause);
    const char *(*host_of)(void *arg, int rank); /* where a rank was started */
} hp_task_owner;

typedef struct hp_task {
    const hp_options *options;
    const hp_layout *layout;
    char id[17];
    uint16_t port;     /* chosen at random, for MASTER_PORT */
    hp_secret *secret; /* the job's own key */
    hp_server *server;
    hp_addr address;  /* the server's */
    hp_window window; /* for the ranks' terminals */
} hp_task;

hoop_result hp_task_open(hp_task *task, const hp_options *options, const hp_layout *layout, hoop_error *error);

/*
 * Opens the server once `host` has answered, which sees this machine at the address seen_from ("": unknown). Does
 * nothing when it is open, or when the answer came from here and other hosts must reach it.
 */
hoop_result hp_task_meet(hp_task *task, hp_loop *loop, int host, const char *seen_from, const hp_task_owner *owner,
                         hoop_error *error);

void hp_task_put(const hp_task *task, int host, hp_bytes *out); /* the secret's line and the orders, for an agent */
void hp_task_forget(hp_task *task);                             /* the secret has gone to everybody */
void hp_task_rank_ended(hp_task *task, int rank,
                        const char *host); /* with status 0: the server tells who waits for it */
void hp_task_close(hp_task *task);

#endif
