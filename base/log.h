/* SPDX-License-Identifier: MIT */
/*
 * log: whole lines to standard error or to the program's function (hoop_log_to is here). Levels follow HOOP_DEBUG.
 * Thread-safe. Never writes to descriptor 1, and never waits for standard error for long: lines that it does not take
 * are lost, and the next one gives their number. Of one class at most 10 lines a second are printed (hp_log_class); the
 * next one gives the number of those that were dropped.
 */
#ifndef HP_LOG_H
#define HP_LOG_H

#include "hoop.h"

enum { HP_LOG_NONE = 0, HP_LOG_WARN = 1, HP_LOG_INFO = 2, HP_LOG_TRACE = 3 };

void hp_log_forked(void); /* in a forked child: another thread may have held the mutex */

void hp_log_level(int level); /* default HP_LOG_WARN */
int hp_log_enabled(int level);

/* The prefix of every line, such as "node2:811 [3]"; copied, at most 63 bytes. */
void hp_log_prefix(const char *prefix);

void hp_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Rate-limited. class_name is a string literal for each kind of line, compared by its address. */
void hp_log_class(const char *class_name, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
