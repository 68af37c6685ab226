/* SPDX-License-Identifier: MIT */
/*
 * resend: what the server must not miss of a member, and misses where the control connection breaks before or after it is
 * said: it is kept, and said again when the member is back. The server takes each of them twice without harm.
 */
#ifndef HP_DEBT_H
#define HP_DEBT_H

#include "rendezvous/control_conn.h"
#include "rendezvous/message.h"

/* Each is noted, and said where there is a line (NULL: none that is heard). */
typedef struct hp_debts {
    hoop_error cause;     /* code HOOP_SUCCESS: none */
    hp_loss loss;         /* peer -1: none */
    hp_unstarted refusal; /* sequence 0: none */
    hoop_error absence;   /* from a split; code HOOP_SUCCESS: none */
    uint32_t split;
} hp_debts;

void hp_debts_clear(hp_debts *debts);
void hp_debts_abort(hp_debts *debts, hp_line *line, const hoop_error *cause);
void hp_debts_lost(hp_debts *debts, hp_line *line, const hp_loss *loss);
void hp_debts_unstarted(hp_debts *debts, hp_line *line, const hp_unstarted *unstarted);
void hp_debts_refuse(hp_debts *debts, hp_line *line, uint32_t split, const hoop_error *cause);

/* The member is back: all of them again. */
void hp_debts_pay(const hp_debts *debts, hp_line *line);

#endif
