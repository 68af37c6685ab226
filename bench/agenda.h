/* SPDX-License-Identifier: MIT */
/* agenda: what happens in the model, and when: a binary heap of events. */
#ifndef AGENDA_H
#define AGENDA_H

#include <stddef.h>
#include <stdint.h>

typedef enum event_kind { STARTS, CAN_SEND, JOB_DONE, LEFT, ARRIVED, TAKEN } event_kind;

typedef struct event {
    double at;
    uint64_t order; /* of two at one time the older comes first */
    event_kind kind;
    uint32_t belt;
    uint32_t port;
    uint64_t step;
} event;

typedef struct agenda {
    event *heap;
    size_t events, room;
    uint64_t number; /* of events so far */
} agenda;

int agenda_push(agenda *a, event e); /* 0: out of memory */
event agenda_pop(agenda *a);         /* the earliest; there must be one */
void agenda_free(agenda *a);

#endif
