/* SPDX-License-Identifier: MIT */
/*
 * spec: what one agent runs: command, environment, folder, ranks. The launcher writes the structure, and the agent
 * reads it back message by message. The secret is not part of it.
 */
#ifndef HP_LAUNCH_SPEC_H
#define HP_LAUNCH_SPEC_H

#include "launch/agent_msg.h"

enum { HP_SPEC_RANKS = 16384, HP_SPEC_BYTES = 16 << 20 };

typedef struct hp_strings {
    char **item; /* NULL-terminated once there is one */
    size_t count, room;
} hp_strings;

void hp_strings_add(hp_strings *strings, char *word); /* takes a malloc'd word */
void hp_strings_free(hp_strings *strings);
char *hp_strings_join(char *const *item, size_t most); /* "a b c": the first ones, or all up to NULL; free() it */

/* The options that agents get, as numbers. */
typedef struct hp_agent_options {
#define HP_AGENT_OPTION(field, kind, names, value, help) int field;
#include "launch/options.def"
} hp_agent_options;

typedef struct hp_winsize {
    uint16_t rows, columns; /* 0: not known */
} hp_winsize;

typedef struct hp_spec {
    hp_strings argv;
    hp_strings variables; /* NAME=value */
    char *dir;            /* folder to run in; NULL: where the agent is */
    int dir_required; /* 1: --wdir asked for it; 0: the launcher's own folder, the same folder of another home will do */
    char *prefix;     /* where hoop is installed; NULL: not given */
    char *home;       /* the launching user's; NULL: not known */
    hp_agent_options options;
    hp_winsize winsize; /* of the terminal that shows the ranks' output */
    int world;
    int *rank; /* on this host, ascending */
    int ranks;
    int local_first; /* local rank of the first */
    int local_size;  /* local ranks of this machine, which may have several names */
    size_t bytes;    /* taken so far */
    int complete;    /* GO has come */
} hp_spec;

void hp_spec_put(hp_buffer *out, const hp_spec *spec); /* the whole spec, and GO */

void hp_winsize_put(hp_buffer *out, hp_winsize size);
hp_winsize hp_winsize_take(const hp_agent_msg *msg); /* of an HP_MSG_WINDOW */

/* Takes one message of HP_MSG_ENV to HP_MSG_GO. HOOP_ERR_PROTOCOL: it is not valid here. */
hoop_result hp_spec_take(hp_spec *spec, const hp_agent_msg *msg, hoop_error *error);
void hp_spec_free(hp_spec *spec);

#endif
