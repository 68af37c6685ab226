/* SPDX-License-Identifier: MIT */
/* notice: what the launcher says to its user, in lines on standard error that begin with its name. */
#ifndef HP_LAUNCH_DIAG_H
#define HP_LAUNCH_DIAG_H

#include "launch/agent_conn.h"
#include "launch/output.h"
#include "launch/spec.h"

/* "hooprun: ..." */
void hp_diag(hp_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Somebody's own words, "WHO| ..." a line each, so that they can be told from ours. */
void hp_diag_quote(hp_output *output, const char *who, const char *words);

/* Why a conn that is over should not be. call: the command that started it; running: ranks on all hosts, -1: none
 * yet. */
void hp_diag_agent_ended(hp_output *output, const char *host, const hp_agent_conn *conn, const hp_strings *call,
                         int running);

/* That it has not answered for so long. */
void hp_diag_agent_silent(hp_output *output, const char *host, const hp_agent_conn *conn, const hp_strings *call,
                          double seconds);

#endif
