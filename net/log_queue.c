/* SPDX-License-Identifier: MIT */
/* log_queue: see log_queue.h. */
#include "net/log_queue.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void
hp_remark_add(hp_remarks *remarks, const char *class_name, int level, const char *format, ...)
{
    hp_remark *remark = &remarks->of[remarks->count];
    va_list arguments;
    if (!hp_log_enabled(level))
        return;
    if (remarks->count == HP_REMARKS) {
        remarks->level = remarks->more && remarks->level < level ? remarks->level : level;
        remarks->more++;
        return;
    }
    remark->class_name = class_name;
    remark->level = level;
    va_start(arguments, format);
    vsnprintf(remark->text, sizeof(remark->text), format, arguments);
    va_end(arguments);
    remarks->count++;
}

void
hp_remarks_say(hp_remarks *remarks)
{
    for (int i = 0; i < remarks->count; i++)
        hp_log_class(remarks->of[i].class_name, remarks->of[i].level, "%s", remarks->of[i].text);
    if (remarks->more)
        hp_log_class("remarks", remarks->level, "%d more lines like these, not shown", remarks->more);
    remarks->count = remarks->more = 0;
}
