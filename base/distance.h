/* SPDX-License-Identifier: MIT */
/* distance: which known name a user may have meant by a mistyped one. Case does not count. Pure. */
#ifndef HP_DISTANCE_H
#define HP_DISTANCE_H

#include <stddef.h>

enum { HP_DISTANCE_MAX = 63 }; /* characters of a name; a longer one has an infinite distance */

/* Letters to change, insert or delete to make one name of the other (Levenshtein); SIZE_MAX: a name is too long. */
size_t hp_distance(const char *a, const char *b);

/*
 * Finds the known name that is nearest to a mistyped one. Call hp_nearest_try for each known name; it returns 1 if
 * that name is the best so far, and the caller notes it. A name that shares less than half with the mistyped one, or
 * differs from it in more than five letters, never is.
 */
typedef struct hp_nearest {
    const char *word; /* the mistyped name */
    size_t distance;  /* a better name has a smaller distance */
} hp_nearest;

hp_nearest hp_nearest_of(const char *word);
int hp_nearest_try(hp_nearest *nearest, const char *name);

#endif
