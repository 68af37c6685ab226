/* SPDX-License-Identifier: MIT */
/* option_list: see option_list.h. */
#include "base/option_list.h"

#include <string.h>

static int
is_first(const struct option *options, const struct option *one)
{
    while (options->val != one->val)
        options++;
    return options == one;
}

static hp_option_kind
kind_of(const struct option *one, const hp_option_kind *kinds)
{
    for (; kinds->option; kinds++)
        if (kinds->option == one->val)
            return *kinds;
    return one->has_arg == no_argument ? (hp_option_kind){one->val, "flag", ""}
                                       : (hp_option_kind){one->val, "text", "VALUE"};
}

void
hp_option_list(FILE *to, const struct option *options, const char *letters, const hp_option_kind *kinds)
{
    for (const struct option *one = options; one->name; one++) {
        hp_option_kind k = kind_of(one, kinds);
        if (strcmp(k.kind, "hidden") == 0 || !is_first(options, one))
            continue;
        fprintf(to, "--%s %s %s\n", one->name, k.kind, k.value);
        if (one->val < 128 && strchr(letters, one->val))
            fprintf(to, "-%c %s %s\n", one->val, k.kind, k.value);
    }
}
