/* SPDX-License-Identifier: MIT */
/* notice: what the launcher says to its user, in lines on standard error that begin with its name. */
#ifndef HP_NOTICE_H
#define HP_NOTICE_H

#include "launch/agent_conn.h"
#include "launch/output.h"
#include "launch/spec.h"

/* "hooprun: ..." */
void hp_notice(hp_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Somebody's own words, "WHO| ..." a line each, so that they can be told from ours. */
void hp_notice_quote(hp_output *output, const char *who, const char *words);

/* Why a contact that is over should not be. call: the command that started it; running: ranks on all hosts, -1: none
 * yet. */
void hp_notice_ended(hp_output *output, const char *host, const hp_contact *contact, const hp_words *call, int running);

/* That it has not answered for so long. */
void hp_notice_silent(hp_output *output, const char *host, const hp_contact *contact, const hp_words *call,
                      double seconds);

#endif
