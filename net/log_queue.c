/* SPDX-License-Identifier: MIT */
/* log_queue: see log_queue.h. */
#include "net/log_queue.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void
hp_log_queue_add(hp_log_queue *log_queue, const char *class_name, int level, const char *format, ...)
{
    hp_log_line *log_line = &log_queue->of[log_queue->count];
    va_list arguments;
    if (!hp_log_enabled(level))
        return;
    if (log_queue->count == HP_LOG_LINES) {
        log_queue->level = log_queue->more && log_queue->level < level ? log_queue->level : level;
        log_queue->more++;
        return;
    }
    log_line->class_name = class_name;
    log_line->level = level;
    va_start(arguments, format);
    vsnprintf(log_line->text, sizeof(log_line->text), format, arguments);
    va_end(arguments);
    log_queue->count++;
}

void
hp_log_queue_write(hp_log_queue *log_queue)
{
    for (int i = 0; i < log_queue->count; i++)
        hp_log_class(log_queue->of[i].class_name, log_queue->of[i].level, "%s", log_queue->of[i].text);
    if (log_queue->more)
        hp_log_class("remarks", log_queue->level, "%d more lines like these, not shown", log_queue->more);
    log_queue->count = log_queue->more = 0;
}
