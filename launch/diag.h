/* SPDX-License-Identifier: MIT */
/* diag: messages to the user, lines on standard error that begin with "hooprun: ". */
#ifndef HP_LAUNCH_DIAG_H
#define HP_LAUNCH_DIAG_H

#include "launch/agent_conn.h"
#include "launch/output.h"
#include "launch/spec.h"

/* "hooprun: ..." */
void hp_diag(hp_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text that a host has sent, as "HOST| ..." a line each. */
void hp_diag_quote(hp_output *output, const char *host, const char *text);

/* An agent that has ended too early. call: the command that started it; running: ranks on all hosts, -1: none yet. */
void hp_diag_agent_ended(hp_output *output, const char *host, const hp_agent_conn *conn, const hp_strings *call,
                         int running);

/* An agent that has not answered for so long. */
void hp_diag_agent_silent(hp_output *output, const char *host, const hp_agent_conn *conn, const hp_strings *call,
                          double seconds);

#endif
