/* SPDX-License-Identifier: MIT */
/*
 * orders: what one agent is told to run: command, environment, folder, ranks. The same structure is written by the
 * launcher and read back, packet by packet, by the agent. The secret is not part of it.
 */
#ifndef HP_ORDERS_H
#define HP_ORDERS_H

#include "launch/agent_msg.h"

enum { HP_ORDERS_RANKS = 16384, HP_ORDERS_BYTES = 16 << 20 };

typedef struct hp_words {
    char **word; /* NULL-terminated once there is one */
    size_t count, room;
} hp_words;

void hp_words_add(hp_words *words, char *word); /* takes a malloc'd word */
void hp_words_free(hp_words *words);

/* The options that agents hear of, by number. */
typedef struct hp_wish {
#define HP_AGENT_OPTION(field, kind, names, value, help) int field;
#include "launch/options.def"
} hp_wish;

typedef struct hp_window {
    uint16_t rows, columns; /* 0: not known */
} hp_window;

typedef struct hp_orders {
    hp_words argv;
    hp_words variables; /* NAME=value */
    char *dir;          /* folder to run in; NULL: where the agent is */
    int dir_must;       /* 1: --wdir asked for it; 0: the launcher's own folder, a likeness will do */
    char *prefix;       /* where hoop is installed; NULL: not said */
    char *home;         /* the launching user's; NULL: not known */
    hp_wish wish;
    hp_window window; /* of the terminal that shows the ranks' output */
    int world;
    int *rank; /* on this host, rising */
    int ranks;
    int local_first,
        local_size; /* local rank of the first, and how many there are: other names of this machine count */
    size_t bytes;   /* taken so far */
    int complete;   /* GO was seen */
} hp_orders;

void hp_orders_put(hp_bytes *out, const hp_orders *orders); /* all of it and GO */

void hp_window_put(hp_bytes *out, hp_window window);
hp_window hp_window_take(const hp_packet *packet); /* a HP_PK_WINDOW */

/* Takes one packet of HP_PK_ENV to HP_PK_GO. HOOP_ERR_PROTOCOL: it makes no sense. */
hoop_result hp_orders_take(hp_orders *orders, const hp_packet *packet, hoop_error *error);
void hp_orders_free(hp_orders *orders);

#endif
