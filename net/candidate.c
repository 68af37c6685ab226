/* SPDX-License-Identifier: MIT */
/* candidate: see candidate.h. Knows neither doors nor loops; searches are linear, in at most some hundred entries. */
#include "net/candidate.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/handshake_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STALE (4 * HP_SEC) /* the other side gives up a second later */

int
hp_callers_know(const uint8_t m1[HP_M1], const hp_keys *keys)
{
    enum { TAGGED = HP_M1 - HP_MAC };
    uint8_t tag[HP_MAC];
    int right = -1;
    if (hp_mac(tag, keys->hello, m1, TAGGED, NULL, 0, NULL, 0) == HOOP_SUCCESS)
        right = hp_mac_equal(tag, m1 + TAGGED);
    hp_wipe(tag, sizeof(tag));
    return right;
}

int
hp_callers_note(hp_callers *callers, const uint8_t m1[HP_M1])
{
    uint64_t nonce;
    unsigned known = callers->noted < HP_NONCES ? callers->noted : HP_NONCES;
    memcpy(&nonce, m1 + HP_M1_NONCE, sizeof nonce);
    for (unsigned i = 0; i < known; i++)
        if (callers->seen[i] == nonce)
            return 0;
    callers->seen[callers->noted++ % HP_NONCES] = nonce;
    return 1;
}

void
hp_callers_add(hp_callers *callers, hp_caller *caller)
{
    caller->next = callers->first;
    caller->link = &callers->first;
    if (caller->next)
        caller->next->link = &caller->next;
    callers->first = caller;
    callers->count++;
    callers->vain += caller->vain;
}

void
hp_callers_remove(hp_callers *callers, hp_caller *caller)
{
    *caller->link = caller->next;
    if (caller->next)
        caller->next->link = caller->link;
    caller->next = NULL;
    callers->count--;
    callers->vain -= caller->vain;
}

hp_caller *
hp_callers_vain(const hp_callers *callers)
{
    hp_caller *oldest = NULL;
    for (hp_caller *caller = callers->first; caller; caller = caller->next)
        if (caller->vain && (!oldest || caller->visitor.deadline < oldest->visitor.deadline))
            oldest = caller;
    return oldest;
}

int
hp_caller_answer(hp_caller *caller, hp_status status, uint32_t assigned)
{
    int fd = -1;
    hp_conn_judge(&caller->conn, status, assigned);
    /* 64 bytes always have room in a connection that has carried 112 */
    if (hp_shake(&caller->conn, caller->visitor.fd, 0) == HP_SHAKE_STOP && caller->conn.state == HP_CONN_DONE) {
        fd = caller->visitor.fd;
        caller->visitor.fd = -1;
    }
    hp_caller_free(caller);
    return fd;
}

static int
has_left(const hp_caller *caller)
{
    char byte;
    ssize_t n = recv(caller->visitor.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

int
hp_caller_is_stale(const hp_caller *caller)
{
    return hp_now() - caller->greeted >= STALE || has_left(caller);
}

void
hp_caller_free(hp_caller *caller)
{
    if (caller->visitor.fd >= 0)
        close(caller->visitor.fd);
    hp_keys_drop(caller->keys);
    free(caller);
}
