/* SPDX-License-Identifier: MIT */
/*
 * log: whole lines to standard error or to the program's function (hoop_log_to is here). Levels follow HOOP_DEBUG.
 * Thread-safe. Never writes to descriptor 1, and never waits for standard error for long: lines that it does not take
 * are lost, and the next one gives their number. Of one class at most 10 lines a second are printed (hp_log_class); the
 * next one gives the number of those that were dropped. Below it are the lines of a program that writes its own.
 */
#ifndef HP_LOG_H
#define HP_LOG_H

#include "hoop.h"

#include <stdint.h>

enum { HP_LOG_NONE = 0, HP_LOG_WARN = 1, HP_LOG_INFO = 2, HP_LOG_TRACE = 3 };

void hp_log_forked(void); /* in a forked child: another thread may have held the mutex */

void hp_log_level(int level); /* default HP_LOG_WARN */
int hp_log_enabled(int level);

/* The prefix of every line, such as "node2:811 [3]"; copied, at most 63 bytes. */
void hp_log_prefix(const char *prefix);

void hp_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Rate-limited. class_name is a string literal for each kind of line, compared by its address. */
void hp_log_class(const char *class_name, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* --- lines that are collected under a lock --- */

/* They are logged after it, because the program's log function may be slow, fork, or call the library. */
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

/* --- lines into a descriptor --- */

/*
 * A descriptor of the program, such as standard error, may be a pipe which nobody reads or a terminal that is stopped.
 * Writing never waits for those for longer than the patience, once a second: a line that is not taken is lost, and the next
 * one gives the number. A file is written to as files are. Not thread-safe.
 */
typedef struct hp_line_writer {
    int fd;
    int patience_ms;       /* for a reader that is slow */
    uint64_t patient_from; /* after a lost line there is no patience before this time */
    unsigned lost;         /* lines since the last that was written */
} hp_line_writer;

/* `line` has no newline; more than 1400 bytes are cut. Keeps errno. */
void hp_line_writer_put(hp_line_writer *writer, const char *line);

#endif
