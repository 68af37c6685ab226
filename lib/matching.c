/* SPDX-License-Identifier: MIT */
/* matching: see matching.h. Keys share buckets: a queue is searched from its oldest entry. */
#include "lib/matching.h"

#include <stddef.h>

static unsigned
bucket_of(uint64_t key)
{
    return (unsigned)(key ^ key >> 32) % HP_MATCHING_BUCKETS;
}

static void
append(hp_match_queue *queue, hp_match *match)
{
    match->next = NULL;
    if (queue->first)
        queue->last->next = match;
    else
        queue->first = match;
    queue->last = match;
}

static hp_match *
take(hp_match_queue *queue, uint64_t key)
{
    hp_match *before = NULL, *match = queue->first;
    while (match && match->key != key) {
        before = match;
        match = match->next;
    }
    if (!match)
        return NULL;
    if (before)
        before->next = match->next;
    else
        queue->first = match->next;
    if (queue->last == match)
        queue->last = before;
    return match;
}

hp_match *
hp_matching_post(hp_matching *m, hp_match *receive)
{
    hp_match *message = take(&m->unexpected[bucket_of(receive->key)], receive->key);
    if (message) {
        m->unexpected_n--;
        return message;
    }
    append(&m->posted[bucket_of(receive->key)], receive);
    m->posted_n++;
    return NULL;
}

hp_match *
hp_matching_arrive(hp_matching *m, uint64_t key)
{
    hp_match *receive = take(&m->posted[bucket_of(key)], key);
    m->posted_n -= receive != NULL;
    return receive;
}

void
hp_matching_keep(hp_matching *m, hp_match *message)
{
    append(&m->unexpected[bucket_of(message->key)], message);
    m->unexpected_n++;
}

hp_match *
hp_matching_drop(hp_matching *m)
{
    for (int i = 0; i < HP_MATCHING_BUCKETS; i++) {
        hp_match *message = m->unexpected[i].first;
        if (!message)
            continue;
        m->unexpected_n--;
        return take(&m->unexpected[i], message->key);
    }
    return NULL;
}
