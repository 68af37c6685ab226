/* SPDX-License-Identifier: MIT */
/*
 * log_queue: lines for the log, collected where nobody may be made to wait and said later, elsewhere: the program's
 * function for them may take its time, fork, or call the library.
 */
#ifndef HP_LOG_QUEUE_H
#define HP_LOG_QUEUE_H

enum { HP_LOG_LINES = 16, HP_LOG_LINE = 256 };

typedef struct hp_log_line {
    const char *class_name; /* as for hp_log_class */
    int level;
    char text[HP_LOG_LINE];
} hp_log_line;

typedef struct hp_log_queue {
    int count, more;              /* more: for which there was no room, */
    int level;                    /* and the most urgent level of them */
    hp_log_line of[HP_LOG_LINES]; /* the first ones */
} hp_log_queue;

void hp_log_queue_add(hp_log_queue *log_queue, const char *class_name, int level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void hp_log_queue_write(hp_log_queue *log_queue); /* and forgets them */

#endif
