/* SPDX-License-Identifier: MIT */
/* agenda: see agenda.h. */
#include "bench/agenda.h"

#include <stdlib.h>

static int
earlier(const event *a, const event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

int
agenda_push(agenda *a, event e)
{
    size_t i = a->events;
    if (i == a->room) {
        size_t room = a->room ? 2 * a->room : 1024;
        event *heap = realloc(a->heap, room * sizeof(*heap));
        if (!heap)
            return 0;
        a->heap = heap;
        a->room = room;
    }
    e.order = a->number++;
    for (a->events++; i > 0 && earlier(&e, &a->heap[(i - 1) / 2]); i = (i - 1) / 2)
        a->heap[i] = a->heap[(i - 1) / 2];
    a->heap[i] = e;
    return 1;
}

event
agenda_pop(agenda *a)
{
    event first = a->heap[0], last = a->heap[--a->events];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < a->events) {
        if (child + 1 < a->events && earlier(&a->heap[child + 1], &a->heap[child]))
            child++;
        if (!earlier(&a->heap[child], &last))
            break;
        a->heap[i] = a->heap[child];
        i = child;
    }
    a->heap[i] = last;
    return first;
}

void
agenda_free(agenda *a)
{
    free(a->heap);
}
