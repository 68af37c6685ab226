/* SPDX-License-Identifier: MIT */
/*
 * proxied_dial: a dial to an acceptor behind a proxy whose target is not up yet. It gets in as soon as the door opens,
 * whatever the proxy does until then, and says meanwhile what it meets; where the door stays shut, its error at the
 * deadline names what it may be. All doors at once. And what is said while a request is on its way.
 */
#include "net/dial.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/acceptor.h"
#include "net/sock.h"
#include "net/socket.h"
#include "t/tap/tap.h"
#include "t/tools/proxy.h"

#include <string.h>

enum { WAYS = 5, OPEN_S = 8, SHUT_S = 5, LIMIT_S = 60 };

typedef struct caller {
    hp_dial *dial;
    int done;
    uint64_t at;
    hp_dial_result result;
} caller;

static const char *const ways[WAYS] = {"closes at once", "closes on the first byte", "resets on the first byte",
                                       "says nothing", "answers in HTTP"};
static hp_loop *loop;
static hp_keys keys;
static hp_acceptor *acceptor;

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    caller *c = arg;
    c->done++;
    c->at = hp_now();
    c->result = *result;
}

static const hp_keys *
on_keys(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    return &keys;
}

static int
on_policy(void *arg, const hp_hello *hello, hp_handshake_policy *policy)
{
    *policy = (hp_handshake_policy){.my_rank = 4, .world = 8, .role = HP_ROLE_DATA};
    return 1;
}

static hp_status
on_judge(void *arg, const hp_hello *hello, const hp_addr *peer, uint32_t *assigned)
{
    *assigned = hello->my_rank;
    return HP_OK;
}

static void
on_enter(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *peer)
{
    hp_socket_close(fd);
}

static void
dial(caller *c, int port, int limit_s)
{
    hp_hello hello = {.comm = 5, .my_rank = 3, .your_rank = 4, .world = 8, .role = HP_ROLE_DATA};
    hp_addr to;
    hp_addr_parse(&to, "127.0.0.1:0", NULL);
    hp_addr_set_port(&to, (uint16_t)port);
    memcpy(hello.job_id, keys.job_id, HP_JOB_ID_BYTES);
    hello.ver_min = hello.ver_max = HP_WIRE_MAX;
    c->dial = hp_dial_new(loop, &to,
                          &(hp_dial_options){.what = "rank 4 (node3)",
                                             .keys = &keys,
                                             .hello = hello,
                                             .deadline = hp_now() + (uint64_t)limit_s * HP_SEC,
                                             .fn = on_dialled,
                                             .arg = c});
}

static int
count_done(const caller *c, int n)
{
    int done = 0;
    for (int i = 0; i < n; i++)
        done += c[i].done;
    return done;
}

/* Runs until all have an answer, `until` at most. */
static void
run_until(const caller *c, int n, uint64_t until)
{
    while (count_done(c, n) < n && hp_now() < until)
        hp_loop_run(loop, 10 * HP_MS);
}

/* Of what is said about a door, and whether that may be the secret. */
static const char *
word_of(proxy_shut way)
{
    return way == PROXY_IGNORES ? " and does not answer (a proxy"
           : way == PROXY_ANSWERS
               ? "; it answers \"HTTP/1.1 503 Service Unavailable\", which is not hoop's protocol (a proxy"
               : " and closes them without an answer (a proxy";
}

static hoop_result
code_of(proxy_shut way)
{
    return way == PROXY_IGNORES || way == PROXY_ANSWERS ? HOOP_ERR_RENDEZVOUS : HOOP_ERR_AUTH;
}

static void
check_words(const caller *c, proxy_shut way)
{
    hoop_error error = {.text = ""};
    int met = hp_dial_explain(c->dial, &error);
    ok(met && strstr(error.text, "something accepts connections at 127.0.0.1:") && strstr(error.text, word_of(way)) &&
           error.code == code_of(way),
       "one that %s: %s", ways[way], error.text);
}

static void
test_late_targets(proxy *x)
{
    caller c[WAYS] = {0};
    uint64_t began = hp_now(), opens = began + OPEN_S * HP_SEC;
    for (int i = 0; i < WAYS; i++) {
        proxy_shut_for(&x->door[i], (proxy_shut)i, OPEN_S);
        dial(&c[i], atomic_load(&x->door[i].port), LIMIT_S);
    }
    run_until(c, WAYS, opens - HP_SEC / 2);
    for (int i = 0; i < WAYS; i++) {
        ok(!c[i].done && atomic_load(&x->door[i].turned_away) >= (i == PROXY_IGNORES ? 1 : 6),
           "one that %s, %d times: the dial goes on", ways[i], atomic_load(&x->door[i].turned_away));
        check_words(&c[i], (proxy_shut)i);
    }
    run_until(c, WAYS, began + LIMIT_S * HP_SEC);
    for (int i = 0; i < WAYS; i++) {
        ok(c[i].result.fd >= 0, "it gets in when the door opens (%.2f s): %s", (double)(c[i].at - began) / 1e9,
           c[i].result.error.text);
        hp_dial_free(c[i].dial);
        hp_socket_close(c[i].result.fd);
    }
}

static void
test_no_target(proxy *x)
{
    caller c[WAYS] = {0};
    for (int i = 0; i < WAYS; i++) {
        proxy_shut_for(&x->door[i], (proxy_shut)i, 600);
        dial(&c[i], atomic_load(&x->door[i].port), SHUT_S);
    }
    run_until(c, WAYS, hp_now() + LIMIT_S * HP_SEC);
    for (int i = 0; i < WAYS; i++) {
        const char *text = c[i].result.error.text;
        const char *word = i == PROXY_ANSWERS ? "it answers \"HTTP/1.1 503" : "a proxy with nothing behind it";
        hoop_result code = code_of((proxy_shut)i);
        ok(c[i].result.error.code == code && strstr(text, word) &&
               !strstr(text, "wrong secret") == (code != HOOP_ERR_AUTH),
           "a door that stays shut: %s", text);
        hp_dial_free(c[i].dial);
    }
}

/* docker-proxy and its like: it accepts, and closes as long as it cannot connect itself. */
static void
test_dead_target(proxy *x)
{
    caller c = {0};
    int target = atomic_exchange(&x->door[0].target, 1);
    proxy_shut_for(&x->door[0], PROXY_CLOSES, 0);
    dial(&c, atomic_load(&x->door[0].port), LIMIT_S);
    run_until(&c, 1, hp_now() + 3 * HP_SEC);
    ok(!c.done, "a proxy that cannot reach its target: the dial goes on");
    atomic_store(&x->door[0].target, target);
    run_until(&c, 1, hp_now() + LIMIT_S * HP_SEC);
    ok(c.result.fd >= 0, "and gets in when it can: %s", c.result.error.text);
    hp_dial_free(c.dial);
    hp_socket_close(c.result.fd);
}

/* Where the last request was refused, one that is only just on its way is no other answer. */
static void
test_young(void)
{
    caller c = {0};
    hp_addr there;
    int queued[2]; /* the listener's queue is full then: it takes no more */
    hp_addr_parse(&there, "127.0.0.1:0", NULL);
    int listener = hp_sock_listen(&there, 0, NULL);
    hp_sock_name(listener, &there, NULL);
    hp_socket_close(listener);
    dial(&c, hp_addr_port(&there), LIMIT_S);
    for (tap_wait w = {0}; !strstr(hp_dial_answer(c.dial), "refused") && tap_waits(&w);)
        hp_loop_run(loop, 10 * HP_MS);
    listener = hp_sock_listen(&there, 0, NULL);
    for (int i = 0; i < 2; i++)
        queued[i] = hp_sock_connect(&there, NULL, NULL, NULL);
    for (tap_wait w = {0}; hp_dial_stands(c.dial) != HP_DIAL_ASKING && tap_waits(&w);)
        hp_loop_run(loop, 10 * HP_MS);
    ok(strstr(hp_dial_answer(c.dial), "refused") != NULL, "asked again: %s", hp_dial_answer(c.dial));
    run_until(&c, 1, hp_now() + 2 * HP_SEC);
    is_string("no answer to the connection request", hp_dial_answer(c.dial), "later that is the answer");
    hp_dial_free(c.dial);
    for (int i = 0; i < 2; i++)
        hp_socket_close(queued[i]);
    hp_socket_close(listener);
}

int
main(void)
{
    uint8_t secret[HP_SECRET] = {7}, job_id[HP_JOB_ID_BYTES] = {8};
    hp_acceptor_owner owner = {NULL, on_keys, on_policy, on_judge, on_enter, NULL, NULL, NULL};
    hp_addr addr;
    hoop_error error;
    tap_limit(240);
    plan_lazy();
    proxy *x = proxy_open();
    hp_log_level(HP_LOG_NONE);
    loop = hp_loop_new();
    hp_addr_parse(&addr, "127.0.0.1:0", NULL);
    if (hp_keys_derive(&keys, secret, job_id, HP_MODE_AUTH, &error) != HOOP_SUCCESS)
        bail("no keys");
    acceptor = hp_acceptor_new(loop, &addr, NULL, NULL, &owner, 8, &error);
    for (int i = 0; acceptor && i < WAYS; i++)
        atomic_store(&x->door[i].target, hp_addr_port(hp_acceptor_addr(acceptor)));
    test_late_targets(x);
    test_no_target(x);
    test_dead_target(x);
    test_young();
    hp_acceptor_free(acceptor);
    hp_loop_free(loop);
    proxy_close(x);
    return 0;
}
