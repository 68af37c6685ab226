/* SPDX-License-Identifier: MIT */
/* title: see title.h. */
#include "rendezvous/title.h"

#include <stdio.h>
#include <string.h>

const char *
hp_title_print(const char *label, const char *name, char out[HP_TITLE_TEXT])
{
    const char *quote = name[0] ? "\"" : "";
    snprintf(out, HP_TITLE_TEXT, "%s%s%s%s%s", label, name[0] ? " " : "", quote, name, quote);
    return out;
}

const char *
hp_title_split(const char *label)
{
    return strstr(label, "split ");
}

const char *
hp_title_ring(const char *label, const char *name, char out[HP_RING_TEXT])
{
    const char *split = hp_title_split(label);
    if (*name)
        snprintf(out, HP_RING_TEXT, "\"%s\"", name);
    else
        snprintf(out, HP_RING_TEXT, "%s", split ? split : "the whole job");
    return out;
}
