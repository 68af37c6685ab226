/* SPDX-License-Identifier: MIT */
/*
 * resend: frames that the server must not miss, although the control connection may break before or after they are
 * sent. They are kept, and sent again when the member is back. The server may receive each of them twice.
 */
#ifndef HP_RESEND_H
#define HP_RESEND_H

#include "rendezvous/message.h"

/* Where the frames of one end of a control connection go. */
typedef struct hp_outlet {
    void *arg;
    int (*send)(void *arg, hp_frame_type type, const void *payload, size_t n); /* 0: it does not fit into the queue */
    size_t (*queued)(void *arg);                                               /* bytes that are not written yet */
} hp_outlet;

/* Each is kept, and sent if there is a connection (NULL: there is none). */
typedef struct hp_resend {
    hoop_error cause;       /* code HOOP_SUCCESS: none */
    hp_loss loss;           /* peer -1: none */
    hp_unstarted unstarted; /* sequence 0: none */
    hoop_error absence;     /* from a split; code HOOP_SUCCESS: none */
    uint32_t split;
    int named; /* 1: the communicator has had a name */
    char name[HP_NAME_TEXT];
    hp_call_names call_names;
    int dropped; /* one did not fit into the queue */
} hp_resend;

void hp_resend_clear(hp_resend *resend);
void hp_resend_abort(hp_resend *resend, const hp_outlet *outlet, const hoop_error *cause);
void hp_resend_lost(hp_resend *resend, const hp_outlet *outlet, const hp_loss *loss);
void hp_resend_unstarted(hp_resend *resend, const hp_outlet *outlet, const hp_unstarted *unstarted);
void hp_resend_refuse(hp_resend *resend, const hp_outlet *outlet, uint32_t split, const hoop_error *cause);
void hp_resend_name(hp_resend *resend, const hp_outlet *outlet, int number, const char *name); /* as hp_client_name */

/* The member is back: sends all of them again. */
void hp_resend_all(hp_resend *resend, const hp_outlet *outlet);
/* There is room again: sends all of them again, if one did not fit. */
void hp_resend_dropped(hp_resend *resend, const hp_outlet *outlet);

#endif
