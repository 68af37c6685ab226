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
oldest(const hp_match_queue *queue, uint64_t key)
{
    hp_match *match = queue->first;
    while (match && match->key != key)
        match = match->next;
    return match;
}

static uint64_t
next_order(hp_matching_any *any)
{
    return any ? ++any->orders : 0;
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
    receive->order = next_order(m->any);
    append(&m->posted[bucket_of(receive->key)], receive);
    m->posted_n++;
    return NULL;
}

void
hp_matching_post_any(hp_matching_any *any, hp_match *receive)
{
    receive->order = next_order(any);
    append(&any->posted[bucket_of(receive->key)], receive);
    any->posted_n++;
}

uint64_t
hp_matching_unread(const hp_matching *m, uint64_t key)
{
    const hp_match *message = oldest(&m->unexpected[bucket_of(key)], key);
    return message ? message->order : 0;
}

hp_match *
hp_matching_arrive(hp_matching *m, uint64_t key)
{
    unsigned bucket = bucket_of(key);
    const hp_match *own = oldest(&m->posted[bucket], key);
    const hp_match *shared = m->any ? oldest(&m->any->posted[bucket], key) : NULL;
    if (shared && (!own || shared->order < own->order)) {
        m->any->posted_n--;
        return take(&m->any->posted[bucket], key);
    }
    m->posted_n -= own != NULL;
    return take(&m->posted[bucket], key);
}

void
hp_matching_keep(hp_matching *m, hp_match *message)
{
    message->order = next_order(m->any);
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
