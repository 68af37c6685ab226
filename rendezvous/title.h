/* SPDX-License-Identifier: MIT */
/* title: how lines about a ring begin: its label, and its name where it has one. Pure. */
#ifndef HP_TITLE_H
#define HP_TITLE_H

#include "rendezvous/message.h"

enum { HP_LABEL_TEXT = 64, HP_TITLE_TEXT = HP_LABEL_TEXT + HP_NAME_TEXT + 4 };

/* 'job 4f21c0de split 0 colour 1 "dp"'; name empty: the label alone. Returns out. */
const char *hp_title_print(const char *label, const char *name, char out[HP_TITLE_TEXT]);

/* "split 0 colour 1" of such a label; NULL: it is of the whole job. */
const char *hp_title_split(const char *label);

enum { HP_RING_TEXT = HP_NAME_TEXT + 2 };

/* "the whole job" or "split 1 colour 0"; a ring that has a name by that, in quotes. Returns out. */
const char *hp_title_ring(const char *label, const char *name, char out[HP_RING_TEXT]);

#endif
