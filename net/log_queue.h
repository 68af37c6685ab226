/* SPDX-License-Identifier: MIT */
/*
 * log_queue: lines for the log, collected where nobody may be made to wait and said later, elsewhere: the program's
 * function for them may take its time, fork, or call the library.
 */
#ifndef HP_REMARKS_H
#define HP_REMARKS_H

enum { HP_REMARKS = 16, HP_REMARK = 256 };

typedef struct hp_remark {
    const char *class_name; /* as for hp_log_class */
    int level;
    char text[HP_REMARK];
} hp_remark;

typedef struct hp_remarks {
    int count, more;          /* more: for which there was no room, */
    int level;                /* and the most urgent level of them */
    hp_remark of[HP_REMARKS]; /* the first ones */
} hp_remarks;

void hp_remark_add(hp_remarks *remarks, const char *class_name, int level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void hp_remarks_say(hp_remarks *remarks); /* and forgets them */

#endif
