/* SPDX-License-Identifier: MIT */
/* call_names: see call_names.h. Programs have a few names, so each is looked for one after the other. */
#include "base/call_names.h"

#include <stdio.h>
#include <string.h>

int
hp_call_names_add(hp_call_names *names, const char *name)
{
    int i = 0;
    while (i < names->count && strcmp(names->text[i], name) != 0)
        i++;
    if (i == HP_CALL_NAMES)
        return 0;
    if (i == names->count)
        snprintf(names->text[names->count++], HP_CALL_NAME_TEXT, "%s", name);
    return i + 1;
}

const char *
hp_call_names_get(const hp_call_names *names, int number)
{
    return number > 0 && number <= names->count ? names->text[number - 1] : NULL;
}

int
hp_call_names_number(const hp_call_names *names, const char *name)
{
    return name ? (int)((name - names->text[0]) / HP_CALL_NAME_TEXT) + 1 : 0;
}
