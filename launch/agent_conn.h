/* SPDX-License-Identifier: MIT */
/*
 * contact: the launcher's end of one agent: starts it, here or through a remote shell, waits for its greeting behind
 * whatever a login shell prints, and exchanges packets with it. Whether what comes makes sense for the job is job.c's
 * business.
 */
#ifndef HP_CONTACT_H
#define HP_CONTACT_H

#include "launch/agent_msg.h"
#include "launch/write_queue.h"

#include <sys/types.h>

typedef struct hp_contact hp_contact;

typedef struct hp_contact_owner {
    void *arg;
    void (*greeted)(void *arg, hp_contact *contact);
    void (*packet)(void *arg, hp_contact *contact, const hp_packet *packet);
    void (*over)(void *arg, hp_contact *contact); /* it has ended, well or not; nothing more comes */
} hp_contact_owner;

typedef enum hp_contact_state {
    HP_CONTACT_CALLING, /* started; awaits the greeting */
    HP_CONTACT_GREETED, /* packets may come */
    HP_CONTACT_OVER     /* process reaped, pipes read to their end */
} hp_contact_state;

/*
 * argv, or another to try when the first fails before the greeting because the agent's program is not there (NULL:
 * none); both outlive the contact. local: started in a session of its own. HOOP_ERR_SYSTEM: argv could not be run at
 * all.
 */
hp_contact *hp_contact_new(hp_loop *loop, const char *host, char *const *argv, char *const *other, int local,
                           const hp_contact_owner *owner, hoop_error *error);

hp_contact_state hp_contact_status(const hp_contact *contact);
const char *
hp_contact_seen_from(const hp_contact *contact);           /* this machine's address as the host sees it; "": unknown */
const char *hp_contact_noise(const hp_contact *contact);   /* what was printed before the greeting */
const char *hp_contact_words(const hp_contact *contact);   /* the end of what came on standard error */
const char *hp_contact_command(const hp_contact *contact); /* as one line */
int hp_contact_ending(const hp_contact *contact);          /* the wait status, once it is over */
int hp_contact_lacks_agent(const hp_contact *contact);     /* it is over because hoop-launch was not found there */
const char *hp_contact_broken(const hp_contact *contact);  /* what was wrong with what it sent; "": nothing */

hp_bytes *hp_contact_out(hp_contact *contact); /* add packets here, then push */
void hp_contact_push(hp_contact *contact);
void hp_contact_pause(hp_contact *contact, int pause); /* 1: take nothing from it for now */
void hp_contact_hang_up(hp_contact *contact);          /* closes its standard input: a live agent ends everything */
void hp_contact_kill(hp_contact *contact, int signal); /* the process and what it has started here */
int hp_contact_reaped(hp_contact *contact, pid_t pid, int status); /* after waitpid; 1: it was this one */
void hp_contact_free(hp_contact *contact);

#endif
