/* SPDX-License-Identifier: MIT */
/*
 * incoming: see incoming.h. Searches are linear, in some hundred entries at most: looking at 256 places takes less time than
 * the accept that asks for one.
 */
#include "net/incoming.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(hp_pending) <= 256, "a pending connection takes at most 256 bytes");

char *
hp_pending_quote(const hp_pending *pending, const char *what, size_t at, char text[HP_QUOTED])
{
    size_t n = (size_t)snprintf(text, HP_QUOTED, "%.80s (", what);
    for (size_t i = at; i < pending->have && i < at + 16; i++)
        n += (size_t)snprintf(text + n, HP_QUOTED - n, i == at ? "%02x" : " %02x", pending->m1[i]);
    snprintf(text + n, HP_QUOTED - n, ")");
    return text;
}

void
hp_pending_pool_share(hp_pending_pool *pool, int world)
{
    pool->per_address = world > HP_PER_ADDRESS ? world : HP_PER_ADDRESS;
}

void
hp_pending_pool_limit(hp_pending_pool *pool, int most)
{
    pool->most = most < HP_PLACES_LEAST ? HP_PLACES_LEAST : most > HP_PENDING_MAX ? HP_PENDING_MAX : most;
}

int
hp_pending_pool_taken(const hp_pending_pool *pool)
{
    int taken = 0;
    for (size_t i = 0; i < HP_PENDING_MAX; i++)
        taken += pool->places[i].incoming.fd >= 0;
    return taken;
}

void
hp_pending_pool_init(hp_pending_pool *pool, int world)
{
    hp_pending_pool_share(pool, world);
    hp_pending_pool_limit(pool, HP_PENDING_MAX);
    for (size_t i = 0; i < HP_PENDING_MAX; i++)
        pool->places[i] = (hp_pending){.incoming = {.fd = -1}};
}

static hp_pending *
older(hp_pending *a, hp_pending *b)
{
    return !a || b->incoming.deadline < a->incoming.deadline ? b : a;
}

hp_pending *
hp_pending_pool_oldest(hp_pending_pool *pool)
{
    hp_pending *found = NULL;
    for (size_t i = 0; i < HP_PENDING_MAX; i++)
        if (pool->places[i].incoming.fd >= 0)
            found = older(found, &pool->places[i]);
    return found;
}

/*
 * The oldest connection of this address, if the address has its share already; else NULL. One host may use all addresses
 * of an IPv6 network of 64 bits.
 */
static hp_pending *
surplus(hp_pending_pool *pool, const hp_addr *peer)
{
    hp_pending *found = NULL;
    int count = 0;
    if (hp_addr_is_loopback(peer))
        return NULL;
    for (size_t i = 0; i < HP_PENDING_MAX; i++) {
        hp_pending *pending = &pool->places[i];
        const hp_addr *one = &pending->incoming.peer;
        int both6 = one->u.any.sa_family == AF_INET6 && peer->u.any.sa_family == AF_INET6;
        if (pending->incoming.fd < 0 ||
            !(both6 ? memcmp(&one->u.v6.sin6_addr, &peer->u.v6.sin6_addr, 8) == 0 : hp_addr_same_host(one, peer)))
            continue;
        found = older(found, pending);
        count++;
    }
    return count >= pool->per_address ? found : NULL;
}

hp_pending *
hp_pending_pool_place(hp_pending_pool *pool, const hp_addr *peer)
{
    hp_pending *place = surplus(pool, peer);
    if (place)
        return place;
    if (hp_pending_pool_taken(pool) >= pool->most)
        return hp_pending_pool_oldest(pool);
    for (size_t i = 0; i < HP_PENDING_MAX; i++)
        if (pool->places[i].incoming.fd < 0)
            return &pool->places[i];
    return hp_pending_pool_oldest(pool);
}

/* --- candidates --- */

#define STALE (4 * HP_SEC)  /* the dialling rank gives up one second later */
#define CONFIRM_TIME HP_SEC /* a dialling rank confirms at once: a second is a slow network, or a recorded HELLO */

int
hp_candidates_know(const uint8_t m1[HP_M1], const hp_keys *keys)
{
    enum { TAGGED = HP_M1 - HP_MAC };
    uint8_t tag[HP_MAC];
    int right = -1;
    if (hp_mac(tag, keys->hello, m1, TAGGED) == HOOP_SUCCESS)
        right = hp_mac_equal(tag, m1 + TAGGED);
    hp_wipe(tag, sizeof(tag));
    return right;
}

int
hp_candidates_note(hp_candidates *candidates, const uint8_t m1[HP_M1])
{
    uint64_t nonce;
    unsigned known = candidates->noted < HP_NONCES ? candidates->noted : HP_NONCES;
    memcpy(&nonce, m1 + HP_M1_NONCE, sizeof(nonce));
    for (unsigned i = 0; i < known; i++)
        if (candidates->seen[i] == nonce)
            return 0;
    candidates->seen[candidates->noted++ % HP_NONCES] = nonce;
    return 1;
}

hp_candidate *
hp_candidate_new(const hp_incoming *incoming, const hp_keys *keys, int expendable)
{
    hp_candidate *candidate = hp_alloc(1, sizeof(*candidate));
    if (!candidate)
        return NULL;
    *candidate = (hp_candidate){.incoming = *incoming, .greeted = hp_now(), .expendable = expendable};
    candidate->incoming.is_candidate = 1;
    candidate->keys = hp_keys_hold(keys);
    return candidate;
}

void
hp_candidates_add(hp_candidates *candidates, hp_candidate *candidate)
{
    candidate->next = candidates->first;
    candidate->link = &candidates->first;
    if (candidate->next)
        candidate->next->link = &candidate->next;
    candidates->first = candidate;
    candidates->count++;
    candidates->expendable += candidate->expendable;
}

void
hp_candidates_remove(hp_candidates *candidates, hp_candidate *candidate)
{
    *candidate->link = candidate->next;
    if (candidate->next)
        candidate->next->link = candidate->link;
    candidate->next = NULL;
    candidates->count--;
    candidates->expendable -= candidate->expendable;
}

hp_candidate *
hp_candidates_expendable(const hp_candidates *candidates)
{
    hp_candidate *oldest = NULL;
    for (hp_candidate *candidate = candidates->first; candidate; candidate = candidate->next)
        if (candidate->expendable && (!oldest || candidate->incoming.deadline < oldest->incoming.deadline))
            oldest = candidate;
    return oldest;
}

int
hp_candidates_room(const hp_candidates *candidates, int most, uint64_t now, hp_candidate **goes)
{
    *goes = NULL;
    if (candidates->count < most)
        return 1;
    *goes = hp_candidates_expendable(candidates);
    if (*goes)
        return 1;
    for (hp_candidate *candidate = candidates->first; candidate; candidate = candidate->next)
        if (candidate->handshake.state == HP_HANDSHAKE_CONFIRM && now >= candidate->greeted + CONFIRM_TIME &&
            (!*goes || candidate->greeted <= (*goes)->greeted))
            *goes = candidate;
    return *goes != NULL;
}

int
hp_candidate_answer(hp_candidate *candidate, hp_status status, uint32_t assigned)
{
    int fd = -1;
    hp_handshake_judge(&candidate->handshake, status, assigned);
    /* 64 bytes always fit into the send buffer of a connection that has carried 112 */
    if (hp_handshake_io(&candidate->handshake, candidate->incoming.fd, 0) == HP_HANDSHAKE_IO_STOP &&
        candidate->handshake.state == HP_HANDSHAKE_DONE) {
        fd = candidate->incoming.fd;
        candidate->incoming.fd = -1;
    }
    hp_candidate_free(candidate);
    return fd;
}

int
hp_candidate_has_input(const hp_candidate *candidate)
{
    char byte;
    return recv(candidate->incoming.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

int
hp_candidate_is_stale(const hp_candidate *candidate)
{
    char byte;
    ssize_t n = recv(candidate->incoming.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    int has_left = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    return has_left || hp_now() - candidate->greeted >= STALE;
}

void
hp_candidate_free(hp_candidate *candidate)
{
    if (candidate->incoming.fd >= 0)
        hp_socket_close(candidate->incoming.fd);
    hp_keys_drop(candidate->keys);
    free(candidate);
}
