/* SPDX-License-Identifier: MIT */
/*
 * lease: see lease.h. The kernel accepts a connection also while the launcher is stopped, or writes to a file system that
 * hangs; such a launcher lives, so a connection alone is an answer to a knock. The launcher hears of the knock when it has
 * read the handshake.
 */
#include "launch/lease.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/handshake.h"
#include "net/secret.h"
#include "net/socket.h"

#include <string.h>

#define PING_LEAST (HP_SEC / 10)
#define PING_MOST (3 * HP_SEC)
#define KNOCK_LEAST (HP_SEC / 2) /* a connection takes two round trips, and perhaps a retransmission */
#define KNOCK_MOST (2 * HP_SEC)
#define MARGIN_LEAST (3 * HP_SEC) /* `knock`, until an agent looks again, and its grace between TERM and KILL */
#define MARGIN_MOST (6 * HP_SEC)

static uint64_t
within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/*
 * An outage of the whole time-out must end well: the last word came up to `ping` before it, and the first knock after it
 * is answered up to `knock` later. That is less than the margin. A second margin is the time that the ranks take to end.
 */
hp_lease
hp_lease_of(uint64_t timeout)
{
    uint64_t margin = within(timeout / 5, MARGIN_LEAST, MARGIN_MOST);
    return (hp_lease){.ping = within(timeout / 10, PING_LEAST, PING_MOST),
                      .knock = within(timeout / 15, KNOCK_LEAST, KNOCK_MOST),
                      .end = timeout + margin,
                      .most = 3 * timeout + margin,
                      .away = timeout / 2,
                      .lost = timeout + 2 * margin};
}

hp_lease_word
hp_lease_judge(const hp_lease *lease, uint64_t heard, uint64_t answered, uint64_t now)
{
    uint64_t alive = answered > heard ? answered : heard;
    if (now >= heard + lease->most || now >= alive + lease->end)
        return HP_LEASE_OVER;
    return now >= heard + 3 * lease->ping ? HP_LEASE_KNOCK : HP_LEASE_WAIT;
}

/* --- knocks --- */

static void
end_attempt(hp_knock *k)
{
    hp_watch_free(k->watch);
    k->watch = NULL;
    if (k->fd >= 0)
        hp_socket_close(k->fd);
    k->fd = -1;
}

static void
ready(void *arg, int what)
{
    hp_knock *k = arg;
    uint8_t nonce[32];
    hoop_error error;
    int wanted = HP_HANDSHAKE_IO_LOST;
    (void)what;
    if (!k->connected && hp_sock_connected(k->fd, &error) >= 0 &&
        hp_random(nonce, sizeof(nonce), &error) == HOOP_SUCCESS) {
        k->connected = 1;
        k->answered = hp_loop_now(k->loop);
        hp_handshake_start(&k->handshake, k->keys, &k->hello, nonce, HP_NEVER);
    }
    if (k->connected)
        wanted = hp_handshake_io(&k->handshake, k->fd, hp_loop_now(k->loop));
    if (wanted <= HP_HANDSHAKE_IO_STOP || hp_watch_set(k->watch, wanted) < 0)
        end_attempt(k);
}

void
hp_knock_again(hp_knock *k)
{
    const hp_sock_options options = {0};
    hoop_error error;
    if (!k->keys)
        return;
    end_attempt(k);
    k->connected = 0;
    k->fd = hp_sock_connect(&k->server, NULL, &options, &error);
    k->watch = k->fd >= 0 ? hp_watch_new(k->loop, k->fd, ready, k) : NULL;
    if (!k->watch || hp_watch_set(k->watch, HP_WRITE) < 0)
        end_attempt(k);
}

void
hp_knock_open(hp_knock *k, hp_loop *loop, const char *server, int secret_fd, int host)
{
    hp_secret secret;
    hoop_error error;
    *k = (hp_knock){.loop = loop, .fd = -1};
    if (!server || hp_addr_parse(&k->server, server, &error) != HOOP_SUCCESS ||
        hp_secret_from_fd(&secret, secret_fd, &error) != HOOP_SUCCESS)
        return;
    k->hello = (hp_hello){.my_rank = (uint32_t)host,
                          .your_rank = HP_RANK_SERVER,
                          .role = HP_ROLE_ASK,
                          .mode = HP_MODE_AUTH,
                          .ver_min = HP_WIRE_MIN,
                          .ver_max = HP_WIRE_MAX};
    memcpy(k->hello.job_id, secret.job_id, HP_JOB_ID_BYTES);
    k->keys = hp_keys_new(secret.key, secret.job_id, HP_MODE_AUTH, &error);
    hp_wipe(&secret, sizeof(secret));
}

void
hp_knock_close(hp_knock *k)
{
    if (!k->loop)
        return;
    end_attempt(k);
    hp_keys_drop(k->keys);
    k->keys = NULL;
}
