/* SPDX-License-Identifier: MIT */
/* lines: see lines.h. */
#include "t/rendezvous/lines.h"

#include <stdio.h>
#include <string.h>

char lines[LINES][LINE];
int count;

void
keep(void *arg, const char *line)
{
    (void)arg;
    if (count < LINES)
        snprintf(lines[count++], LINE, "%s", line);
}

void
forget(void)
{
    while (count > 0)
        lines[--count][0] = '\0';
}

const char *
line_with(const char *text)
{
    for (int i = 0; i < count; i++)
        if (strstr(lines[i], text))
            return lines[i];
    return "";
}
