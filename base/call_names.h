/* SPDX-License-Identifier: MIT */
/*
 * call_names: names that a program gives its calls (hoop_comm_set_call_name), each kept once, with a number from 1. A
 * name that is there stays where it is, so that a call may point to it. Pure.
 */
#ifndef HP_CALL_NAMES_H
#define HP_CALL_NAMES_H

enum {
    HP_CALL_NAMES = 64,    /* at most */
    HP_CALL_NAME_TEXT = 32 /* room for one, and the end of the string */
};

/* All zero at the start. */
typedef struct hp_call_names {
    int count;
    char text[HP_CALL_NAMES][HP_CALL_NAME_TEXT];
} hp_call_names;

/* The number of a name of at most HP_CALL_NAME_TEXT - 1 bytes, which is added if it is new; 0: there is no room for it. */
int hp_call_names_add(hp_call_names *names, const char *name);

/* The name with this number; NULL: there is none. */
const char *hp_call_names_get(const hp_call_names *names, int number);

/* The number of a name that hp_call_names_get has returned; 0 for NULL. */
int hp_call_names_number(const hp_call_names *names, const char *name);

#endif
