/* SPDX-License-Identifier: MIT */
/* log_queue: see log_queue.h. */
#include "net/log_queue.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void
hp_log_queue_add(hp_log_queue *queue, const char *class_name, int level, const char *format, ...)
{
    hp_log_line *entry = &queue->of[queue->count];
    va_list arguments;
    if (!hp_log_enabled(level))
        return;
    if (queue->count == HP_LOG_LINES) {
        queue->level = queue->more && queue->level < level ? queue->level : level;
        queue->more++;
        return;
    }
    entry->class_name = class_name;
    entry->level = level;
    va_start(arguments, format);
    vsnprintf(entry->text, sizeof(entry->text), format, arguments);
    va_end(arguments);
    queue->count++;
}

void
hp_log_queue_write(hp_log_queue *queue)
{
    for (int i = 0; i < queue->count; i++)
        hp_log_class(queue->of[i].class_name, queue->of[i].level, "%s", queue->of[i].text);
    if (queue->more)
        hp_log_class("log queue", queue->level, "%d more lines like these, not shown", queue->more);
    queue->count = queue->more = 0;
}
