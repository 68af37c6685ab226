/* SPDX-License-Identifier: MIT */
/* option: see option.h. It needs nothing else of the library, as json.c and number.c. */
#include "base/option.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { GUESSED_MOST = 5 }; /* letters; long names have much in common that says little, such as _bytes at the end */

/* The table of distances between prefixes, of which one row is kept: row[j] is for the first j letters of b. */
size_t
hp_distance(const char *a, const char *b)
{
    size_t row[HP_DISTANCE_MAX + 1], rows = strlen(a), columns = strlen(b);
    if (rows > HP_DISTANCE_MAX || columns > HP_DISTANCE_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t change = diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            size_t insert = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < insert ? change : insert;
        }
    }
    return row[columns];
}

hp_nearest
hp_nearest_of(const char *word)
{
    size_t half = strlen(word) / 2;
    return (hp_nearest){word, (half < GUESSED_MOST ? half : GUESSED_MOST) + 1};
}

int
hp_nearest_try(hp_nearest *nearest, const char *name)
{
    size_t distance = hp_distance(nearest->word, name);
    if (distance >= nearest->distance)
        return 0;
    nearest->distance = distance;
    return 1;
}

const char *
hp_option_error(int refused, const char *word, int value, const struct option *options, char *out, size_t size)
{
    char name[HP_DISTANCE_MAX + 1]; /* without dashes and without a value; cut off where it is longer than any option */
    const char *bare = word + strspn(word, "-");
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(bare, "="), bare);
    const char *best = NULL;
    int is_known = 0;
    hp_nearest search = hp_nearest_of(name);
    for (; options->name; options++) {
        best = hp_nearest_try(&search, options->name) ? options->name : best;
        is_known |= value && options->val == value;
    }
    if (refused == ':')
        snprintf(out, size, "%.80s needs a value", word);
    else if (strchr(word, '=') && is_known)
        snprintf(out, size, "--%s takes no value", name);
    else if (value && !is_known)
        snprintf(out, size, "there is no option -%c", value);
    else if (best)
        snprintf(out, size, "there is no option %.80s; the nearest one is --%s", word, best);
    else
        snprintf(out, size, "there is no option %.80s", word);
    return out;
}

void
hp_option_list(FILE *to, const struct option *options, const char *letters, const hp_option_kind *kinds)
{
    for (const struct option *one = options; one->name; one++) {
        static const hp_option_kind flag = {0, "flag", ""}, text = {0, "text", "VALUE"};
        const hp_option_kind *k = kinds;
        const struct option *first = options;
        while (k->option && k->option != one->val)
            k++;
        if (!k->option)
            k = one->has_arg == no_argument ? &flag : &text;
        while (first->val != one->val)
            first++;
        if (first != one || strcmp(k->kind, "hidden") == 0)
            continue;
        fprintf(to, "--%s %s %s\n", one->name, k->kind, k->value);
        if (one->val < 128 && strchr(letters, one->val))
            fprintf(to, "-%c %s %s\n", one->val, k->kind, k->value);
    }
}
