/* SPDX-License-Identifier: MIT */
/*
 * log_queue: log lines that are collected under a lock and logged after it, because the program's log function may be
 * slow, fork, or call the library.
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
    int count, more;              /* more: lines for which there was no room */
    int level;                    /* the most urgent level of those */
    hp_log_line of[HP_LOG_LINES]; /* the first lines */
} hp_log_queue;

void hp_log_queue_add(hp_log_queue *queue, const char *class_name, int level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void hp_log_queue_write(hp_log_queue *queue); /* logs the lines and empties the queue */

#endif
