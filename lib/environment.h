/* SPDX-License-Identifier: MIT */
/*
 * environment: what this process was started as, and where: rank, size, server and secret, from the settings that
 * hooprun (or a user's own script) has set, or that bootstrap.c has found out from another launcher; and the address at
 * which ranks on other hosts reach this process, before any of them has connected.
 */
#ifndef HP_ENVIRONMENT_H
#define HP_ENVIRONMENT_H

#include "lib/config.h"
#include "lib/launcher.h"
#include "net/addr.h"
#include "net/secret.h"
#include "net/sock.h"

/* --- what this process was started as --- */

typedef struct hp_environment {
    int alone;            /* no launcher, or one that has started one process only: a ring of one */
    const char *by;       /* where alone: the launcher or variable that shows it; "none": no variable contradicts it */
    int rank, size;       /* rank -1: the server gives one */
    hp_addr_list servers; /* the addresses of HOOP_RENDEZVOUS; the server is at one of them */
} hp_environment;

/* This process's number among those of its host, as the launcher gives it; -1: it gives none. */
int hp_environment_local_rank(void);

/* Which launcher has started this process, by its variables and the settings. */
hoop_result hp_environment_launcher(hp_launcher *launcher, const hoop_config *config, hoop_error *error);

/* Rank, size and server. This function and the next may resolve a name, until the deadline, by hp_loop_now(). */
hoop_result hp_environment_find(hp_environment *environment, const hoop_config *config, hp_loop *loop,
                                uint64_t deadline, hoop_error *error);

/*
 * The addresses of HOOP_RENDEZVOUS; `known`, where this process has met the server before, alone or before the others. With it,
 * a name service that fails, or takes longer than 5 s, is no error.
 */
hoop_result hp_environment_server(hp_addr_list *servers, const hoop_config *config, const hp_addr *known, hp_loop *loop,
                                  uint64_t deadline, hoop_error *error);

/* The secret of the settings as it is: a server's, or the key of the job that the settings name. */
hoop_result hp_environment_secret(hp_secret *secret, const hoop_config *config, hoop_error *error);

/* After a failed authentication: adds to the error where this rank has its secret from. */
void hp_environment_name_secret(hoop_error *error, const hoop_config *config);

/*
 * The job's keys, with one holder; the secret itself is wiped before this returns, its descriptor closes on exec. Without a
 * secret (security=none) the server must be on_loopback.
 */
hp_keys *hp_environment_keys(const hoop_config *config, int on_loopback, hoop_error *error);

/* The level of the log, and what every line begins with: host, process and rank. */
void hp_environment_log(const hoop_config *config);

void hp_environment_sock(hp_sock_options *sock, const hoop_config *config);

/* This host's name into host and its id: HOOP_HOSTID, else host name and boot id. */
uint64_t hp_environment_host(const hoop_config *config, char host[64]);

/* --- the way to other hosts --- */

enum { HP_OUTWARD_WHY = 320 };

/*
 * The address (port 0), and why it was taken, as the end of a sentence. In this order: the interface that the user names
 * (socket_ifname); the one that leads to the host at which the ranks join (join_host, else MASTER_ADDR), because the user's
 * own address works there; the default route; the best interface; loopback. Waits up to 5 s for a name service.
 */
hoop_result hp_outward_find(hp_addr *addr, const hoop_config *config, char why[HP_OUTWARD_WHY], hoop_error *error);

/*
 * The address that other processes shall use instead of the own one (setting advertise), with port 0 unless it names one;
 * length 0: none is set. Waits up to 5 s for a name service.
 */
hoop_result hp_outward_advertised(hp_addr *addr, const hoop_config *config, hoop_error *error);

#endif
