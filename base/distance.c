/* SPDX-License-Identifier: MIT */
/* distance: see distance.h. */
#include "base/distance.h"

#include <ctype.h>
#include <stdint.h>
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
