/* SPDX-License-Identifier: MIT */
/* test_acceptor: see test_acceptor.h. */
#include "t/net/test_acceptor.h"

#include "base/clock.h"
#include "net/socket.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FEATURES = 0xff, TURNS = 50 };

int house_log_lines;
char house_log_text[512];

void
house_log(void *arg, int level, const char *line)
{
    house_log_lines++;
    snprintf(house_log_text, sizeof(house_log_text), "%s", line);
}

void
make_keys(hp_keys *keys, uint8_t first, uint8_t job_first)
{
    uint8_t secret[HP_SECRET], job_id[HP_JOB_ID_BYTES];
    for (size_t i = 0; i < sizeof(secret); i++)
        secret[i] = (uint8_t)(first + i);
    for (size_t i = 0; i < sizeof(job_id); i++)
        job_id[i] = (uint8_t)(job_first + i);
    if (hp_keys_derive(keys, secret, job_id, HP_MODE_AUTH, NULL) != HOOP_SUCCESS)
        bail("no keys");
}

static void
maybe_free(struct house *house, enum free_in here)
{
    if (house->free_in != here)
        return;
    hp_acceptor_free(house->acceptor);
    house->acceptor = NULL;
}

static const hp_keys *
on_keys(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    struct house *house = arg;
    house->asked_keys++;
    maybe_free(house, IN_KEYS);
    return memcmp(job_id, house->keys.job_id, HP_JOB_ID_BYTES) == 0 ? &house->keys : NULL;
}

static int
on_policy(void *arg, const hp_hello *hello, hp_handshake_policy *policy)
{
    struct house *house = arg;
    house->asked_policy++;
    *policy = house->policy;
    maybe_free(house, IN_POLICY);
    if (hello->comm == house->policy.comm)
        return 1;
    policy->comm = 0;
    return HP_ACCEPTOR_EXPENDABLE;
}

static void
reset(int fd)
{
    struct linger hard = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
}

static hp_status
on_judge(void *arg, const hp_hello *hello, const hp_addr *peer, uint32_t *assigned)
{
    struct house *house = arg;
    house->judged++;
    *assigned = hello->my_rank + 100;
    if (house->kill > 0)
        reset(house->kill);
    maybe_free(house, IN_JUDGE);
    return house->verdict;
}

static void
on_enter(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *peer)
{
    struct house *house = arg;
    house->entered++;
    if (house->fd > 0)
        hp_socket_close(house->fd);
    house->fd = fd;
    house->hello = *hello;
    house->features = features;
    house->peer = *peer;
    maybe_free(house, IN_ENTER);
}

static void
on_starved(void *arg, int number)
{
    struct house *house = arg;
    house->starved++;
    house->number = number;
}

int
build(struct house *house, const char *where)
{
    hp_addr addr;
    hoop_error error;
    memset(house, 0, sizeof(*house));
    make_keys(&house->keys, 0, 0xa0);
    house->policy = (hp_handshake_policy){
        .my_rank = 4, .world = 8, .comm = 5, .role = HP_ROLE_DATA, .mode = HP_MODE_AUTH, .features = FEATURES};
    house->loop = hp_loop_new();
    hp_addr_parse(&addr, where, NULL);
    hp_acceptor_owner owner = {house, on_keys, on_policy, on_judge, on_enter, on_starved, NULL, NULL};
    house->acceptor = hp_acceptor_new(house->loop, &addr, NULL, NULL, &owner, 8, &error);
    if (!house->acceptor)
        diag("%s", error.text);
    return house->acceptor != NULL;
}

void
raze(struct house *house)
{
    hp_acceptor_free(house->acceptor);
    hp_loop_free(house->loop);
    if (house->fd > 0)
        hp_socket_close(house->fd);
}

void
run_for(struct house *house, uint64_t ns)
{
    for (uint64_t end = hp_now() + ns; hp_now() < end;)
        hp_loop_run(house->loop, end - hp_now());
    for (int i = 0; i < TURNS; i++) /* as many as what is ready may need, if the time passed while nothing ran */
        hp_loop_run(house->loop, 0);
}

int
settle(struct house *house, const int *value, int wanted)
{
    for (tap_wait w = {0}; *value < wanted && tap_waits(&w);)
        hp_loop_run(house->loop, 10 * HP_MS);
    return *value == wanted;
}

hp_hello
greeting(const struct house *house)
{
    hp_hello hello = {.comm = 5, .my_rank = 3, .your_rank = 4, .world = 8, .role = HP_ROLE_DATA, .channel = 2};
    memcpy(hello.job_id, house->keys.job_id, HP_JOB_ID_BYTES);
    hello.stripe = 1;
    hello.ver_min = hello.ver_max = HP_WIRE_MAX;
    hello.features = 0xf0f;
    return hello;
}

static int
visit_fd(const struct house *house)
{
    const hp_addr *addr = hp_acceptor_addr(house->acceptor);
    struct timeval limit = {.tv_sec = 10};
    int fd = socket(addr->u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, &addr->u.any, addr->length) != 0)
        bail("no connection to the door: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

int
visit(const struct house *house, const void *bytes, size_t n)
{
    int fd = visit_fd(house);
    if (n > 0 && send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        bail("could not send to the door: %s", strerror(errno));
    return fd;
}

int
answer(struct house *house, int fd, uint64_t limit)
{
    char bytes[512];
    int got = 0;
    for (uint64_t end = hp_now() + limit; hp_now() < end;) {
        hp_loop_run(house->loop, 2 * HP_MS);
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return got;
        got += n > 0 ? (int)n : 0;
    }
    return -1;
}

void
make_m1(const struct house *house, uint8_t m1[HP_M1])
{
    make_another_m1(house, m1, 1);
}

void
make_another_m1(const struct house *house, uint8_t m1[HP_M1], uint8_t first)
{
    const uint8_t nonce[32] = {first, 2, 3};
    hp_hello hello = greeting(house);
    hp_handshake handshake;
    hp_handshake_start(&handshake, &house->keys, &hello, nonce, HP_NEVER);
    memcpy(m1, handshake.m1, HP_M1);
}

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    struct candidate *candidate = arg;
    candidate->done++;
    candidate->result = *result;
}

hp_dial *
call(struct house *house, struct candidate *candidate, const hp_keys *keys, const hp_hello *hello)
{
    memset(candidate, 0, sizeof(*candidate));
    return hp_dial_new(house->loop, hp_acceptor_addr(house->acceptor),
                       &(hp_dial_options){.what = "rank 4 (node3)",
                                          .keys = keys,
                                          .hello = *hello,
                                          .deadline = hp_now() + 20 * HP_SEC,
                                          .fn = on_dialled,
                                          .arg = candidate});
}

int
gets_in(struct house *house, uint64_t *took)
{
    struct candidate candidate;
    hp_hello hello = greeting(house);
    uint64_t begin = hp_now();
    hp_dial *dial = call(house, &candidate, &house->keys, &hello);
    settle(house, &candidate.done, 1);
    *took = hp_now() - begin;
    hp_dial_free(dial);
    if (candidate.result.fd >= 0)
        hp_socket_close(candidate.result.fd);
    else
        diag("%s", candidate.result.error.text);
    return candidate.result.fd >= 0;
}
