/* SPDX-License-Identifier: MIT */
/* option_error: see option_error.h. */
#include "base/option_error.h"

#include "base/distance.h"

#include <stdio.h>
#include <string.h>

static int
is_known(int value, const struct option *options)
{
    for (; options->name; options++)
        if (value && options->val == value)
            return 1;
    return 0;
}

static const char *
nearest(const char *name, const struct option *options)
{
    const char *best = NULL;
    hp_nearest search = hp_nearest_of(name);
    for (; options->name; options++)
        if (hp_nearest_try(&search, options->name))
            best = options->name;
    return best;
}

const char *
hp_option_error(int refused, const char *word, int value, const struct option *options, char *out, size_t size)
{
    char name[HP_DISTANCE_MAX + 1]; /* without dashes and without a value; cut off where it is longer than any option */
    const char *bare = word + strspn(word, "-");
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(bare, "="), bare);
    const char *best = nearest(name, options);
    if (refused == ':')
        snprintf(out, size, "%.80s needs a value", word);
    else if (strchr(word, '=') && is_known(value, options))
        snprintf(out, size, "--%s takes no value", name);
    else if (best)
        snprintf(out, size, "there is no option %.80s; the nearest one is --%s", word, best);
    else
        snprintf(out, size, "there is no option %.80s", word);
    return out;
}
