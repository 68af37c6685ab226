/* SPDX-License-Identifier: MIT */
/* usage: see usage.h. Rows are data here; what an option does is in options.c. */
#include "launch/usage.h"

#include "base/distance.h"

#include <fnmatch.h>
#include <string.h>

typedef struct help_row {
    const char *kind, *names, *value, *help;
} help_row;

static const help_row rows[] = {
#define HP_OPTION(field, kind, names, value, help) {#kind, names, value, help},
#define HP_AGENT_OPTION(field, kind, names, value, help) {#kind, names, value, help},
#define HP_OTHER_OPTION(kind, names, value, help) {#kind, names, value, help},
#include "launch/options.def"
};

static const struct {
    const char *names, *advice;
} foreign[] = {
#define HP_FOREIGN(names, advice) {names, advice},
#include "launch/options.def"
};

enum {
    ROWS = sizeof(rows) / sizeof(rows[0]),
    FOREIGN = sizeof(foreign) / sizeof(foreign[0]),
    NAME_SIZE = 40,
    COLUMN = 32
};

/* --- names --- */

static const char *
bare(const char *word)
{
    return word + (word[0] == '-') + (word[0] == '-' && word[1] == '-');
}

/* Copies the next name of a list; returns the rest of the list, or NULL: no more names. */
static const char *
next_name(const char *names, char name[NAME_SIZE])
{
    names += strspn(names, " |");
    size_t n = strcspn(names, " ");
    snprintf(name, NAME_SIZE, "%.*s", (int)n, names);
    return n > 0 ? names + n : NULL;
}

int
hp_usage_has(const char *names, const char *word)
{
    char name[NAME_SIZE];
    while ((names = next_name(names, name)))
        if (strcmp(bare(name), bare(word)) == 0)
            return 1;
    return 0;
}

/* --- help --- */

static void
print_row(FILE *to, const help_row *r)
{
    char line[256] = "", name[NAME_SIZE];
    const char *names = r->names, *end = strchr(names, '|');
    size_t n = 0;
    if (end == names)
        return;
    while ((names = next_name(names, name)) && (!end || names <= end)) {
        n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%s",
                              n                        ? ", "
                              : strncmp(name, "--", 2) ? "  "
                                                       : "      ",
                              name);
        if (n >= sizeof(line))
            return;
    }
    snprintf(line + n, sizeof(line) - n, " %s", r->value);
    fprintf(to, "%-*s%s\n", COLUMN - 1, line, r->help);
}

void
hp_usage_print(FILE *to)
{
    fprintf(to,
            "usage: hooprun [-n RANKS] [-H HOST:SLOTS,... | --hostfile FILE] [OPTION...] PROGRAM [ARGUMENT...]\n\n");
    for (size_t i = 0; i < ROWS; i++)
        print_row(to, &rows[i]);
    fprintf(to, "\n  hooprun -n 4 ./train                     four ranks here\n"
                "  hooprun --hostfile hosts -x LR=0.1 ./train\n");
}

void
hp_usage_list(void)
{
    char name[NAME_SIZE];
    for (size_t i = 0; i < ROWS; i++) {
        const char *names = rows[i].names;
        while (names[0] != '|' && (names = next_name(names, name)))
            printf("%s %s %s\n", name, rows[i].kind, rows[i].value);
    }
}

/* --- advice --- */

/* The nearest known name; none, if too much of the word differs. */
static int
nearest(const char *word, char best[NAME_SIZE])
{
    hp_nearest search = hp_nearest_of(bare(word));
    char name[NAME_SIZE];
    best[0] = '\0';
    for (size_t i = 0; i < ROWS; i++) {
        const char *names = rows[i].names;
        while ((names = next_name(names, name)))
            if (hp_nearest_try(&search, bare(name)))
                memcpy(best, name, NAME_SIZE);
    }
    return best[0] != '\0';
}

static const char *
instead(const char *word)
{
    char pattern[NAME_SIZE];
    for (size_t i = 0; i < FOREIGN; i++) {
        const char *names = foreign[i].names;
        while ((names = next_name(names, pattern)))
            if (fnmatch(pattern, bare(word), 0) == 0)
                return foreign[i].advice;
    }
    return NULL;
}

void
hp_usage_advice(const char *word, char *out, size_t size)
{
    const char *advice = instead(word);
    char best[NAME_SIZE];
    if (advice)
        snprintf(out, size, "; %s", advice);
    else if (nearest(word, best))
        snprintf(out, size, "; the nearest one is %s", best);
    else
        out[0] = '\0';
}
