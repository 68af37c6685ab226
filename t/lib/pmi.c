/* SPDX-License-Identifier: MIT */
/*
 * pmi: the client of PMI-1 against servers that are right, wrong, silent, or that close: each ends in time with one
 * sentence, and no byte is read beyond an answer.
 */
#include "lib/pmi.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the server answers to a line that begins with `asked`; NULL: it closes; "": it is silent. */
typedef struct reply {
    const char *asked, *answer;
} reply;

static const reply right[] = {
    {"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
    {"cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=64\n"},
    {"cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=kvs_1\n"},
    {"cmd=put kvsname=kvs_1 key=k value=v1\n", "cmd=put_result rc=0 msg=success\n"},
    {"cmd=barrier_in\n", "cmd=barrier_out\n"},
    {"cmd=get kvsname=kvs_1 key=k\n", "cmd=get_result rc=0 msg=success value=v1\n"},
    {"cmd=finalize\n", "cmd=finalize_ack\n"}};

enum { RIGHT = sizeof(right) / sizeof(*right), SHORT_S = 5, LONG_S = 60 };

typedef struct server {
    int fd, at; /* the end of the line; which reply is another, -1: none */
    reply other;
    int bad;  /* lines that nobody expects */
    int slow; /* one byte at a time */
    pthread_t thread;
} server;

static void
give(const server *s, const char *answer)
{
    size_t n = strlen(answer), step = s->slow ? 1 : n;
    for (size_t i = 0; i < n; i += step)
        if (write(s->fd, answer + i, step) < 0)
            return;
}

static void *
serve(void *arg)
{
    server *s = arg;
    FILE *in = fdopen(dup(s->fd), "r");
    char line[HP_PMI_LINE];
    for (int i = 0; in && i < RIGHT && fgets(line, sizeof(line), in); i++) {
        const reply *r = i == s->at ? &s->other : &right[i];
        s->bad += strcmp(line, right[i].asked) != 0;
        if (!r->answer)
            break;
        give(s, r->answer);
    }
    if (in)
        fclose(in);
    shutdown(s->fd, SHUT_RDWR);
    return NULL;
}

static void
start(server *s, hp_pmi *pmi, int at, const char *answer)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        bail("no sockets");
    *s = (server){.fd = ends[0], .at = at, .other = {NULL, answer}, .slow = at == -2};
    *pmi = (hp_pmi){.fd = ends[1]};
    pthread_create(&s->thread, NULL, serve, s);
}

static void
end(server *s, const hp_pmi *pmi)
{
    close(pmi->fd);
    pthread_join(s->thread, NULL);
    close(s->fd);
}

/* All commands in turn, within so many seconds. */
static hoop_result
talk(hp_pmi *pmi, char value[64], uint64_t seconds, hoop_error *error)
{
    hp_bounded_wait wait = hp_bounded_wait_of(seconds * HP_SEC, 0);
    hoop_result result = hp_pmi_open(pmi, pmi->fd, &wait, error);
    if (result == HOOP_SUCCESS)
        result = hp_pmi_put(pmi, "k", "v1", &wait, error);
    if (result == HOOP_SUCCESS)
        result = hp_pmi_barrier(pmi, &wait, error);
    if (result == HOOP_SUCCESS)
        result = hp_pmi_get(pmi, "k", value, 64, &wait, error);
    return result;
}

static void
test_right(int slow)
{
    server s;
    hp_pmi pmi;
    hoop_error error = {.size = sizeof(error)};
    char value[64] = "";
    start(&s, &pmi, slow ? -2 : -1, NULL);
    is_int(HOOP_SUCCESS, talk(&pmi, value, LONG_S, &error), "a server that is right%s%s", slow ? ", byte by byte" : "",
           error.text);
    is_string("v1", value, "gives the value");
    hp_bounded_wait wait = hp_bounded_wait_of(LONG_S * HP_SEC, 0);
    char large[100];
    memset(large, 'x', sizeof(large));
    large[sizeof(large) - 1] = 0;
    ok(hp_pmi_put(&pmi, "k", large, &wait, &error) == HOOP_ERR_RENDEZVOUS, "it has no room: %s", error.text);
    hp_pmi_finalize(&pmi);
    hp_pmi_finalize(&pmi); /* nothing more */
    pthread_join(s.thread, NULL);
    is_int(0, s.bad, "and heard each line once, as the protocol wants it");
    close(pmi.fd);
    close(s.fd);
}

/* The answer to line `at` is another one; "": there is none. */
static void
test_wrong(int at, const char *answer, const char *part)
{
    server s;
    hp_pmi pmi;
    hoop_error error = {.size = sizeof(error)};
    char value[64];
    uint64_t began = hp_now(), limit = answer && !*answer ? SHORT_S : LONG_S;
    start(&s, &pmi, at, answer);
    hoop_result result = talk(&pmi, value, limit, &error);
    end(&s, &pmi);
    ok(result == HOOP_ERR_RENDEZVOUS && strstr(error.text, part) && strstr(error.text, "hoop_launch(7)") &&
           (double)(hp_now() - began) / 1e9 < (double)limit + tap_room(),
       "%s", error.text);
}

static void
test_words(void)
{
    char word[8];
    ok(hp_pmi_word("cmd=maxes rc=0\n", "rc", word, sizeof(word)) && strcmp(word, "0") == 0, "a word at the end");
    ok(!hp_pmi_word("cmd=maxes xrc=0\n", "rc", word, sizeof(word)), "another word that ends like it");
    ok(!hp_pmi_word("cmd=maxes rc 0\n", "rc", word, sizeof(word)), "a word without =");
    ok(hp_pmi_word("a=1234567", "a", word, sizeof(word)) && !hp_pmi_word("a=12345678", "a", word, sizeof(word)),
       "one that just fits, and one that does not");
    ok(hp_pmi_word("a= b=2", "a", word, sizeof(word)) && !*word, "an empty one");
}

static void
test_descriptor(int fd, const char *part)
{
    hoop_error error = {.size = sizeof(error)};
    hp_bounded_wait wait = hp_bounded_wait_of(300 * HP_MS, 0);
    hp_pmi pmi;
    hoop_result result = hp_pmi_open(&pmi, fd, &wait, &error);
    ok(result == HOOP_ERR_RENDEZVOUS && strstr(error.text, part), "%s", error.text);
}

int
main(void)
{
    static char endless[HP_PMI_LINE + 10];
    int pipes[2];
    plan(29);
    tap_limit(240);
    test_words();
    test_right(0);
    test_right(1);
    memset(endless, 'x', sizeof(endless) - 1);
    test_wrong(0, NULL, "was closed");
    test_wrong(0, "", "does not answer \"cmd=init\" in time");
    test_wrong(0, "cmd=response_to_init rc=-1\n", "answers \"cmd=init\" with \"cmd=response_to_init rc=-1\"");
    test_wrong(0, "HTTP/1.1 400 Bad Request\n", "answers \"cmd=init\" with \"HTTP/1.1 400 Bad Request\"");
    test_wrong(0, endless, "not one line of PMI-1");
    test_wrong(1, "cmd=maxes\n", "vallen_max");
    test_wrong(2, "cmd=my_kvsname\n", "kvsname");
    test_wrong(2, "cmd=my_kvsname kvsname=\n", "kvsname");
    test_wrong(3, "cmd=put_result rc=-1 msg=no value=secret\n", "\"cmd=put_result rc=-1 msg=no\"");
    test_wrong(4, "", "has not called hoop_comm_create within HOOP_BOOTSTRAP_TIMEOUT_MS");
    test_wrong(4, NULL, "was closed");
    test_wrong(4, "cmd=barrier_out\ncmd=", "not one line of PMI-1");
    test_wrong(4, "cmd=barrier_out\ncmd=get_result rc=0 value=v2\n", "not one line of PMI-1");
    test_wrong(5, "cmd=get_result rc=0\n", "gives no value");
    if (pipe(pipes) != 0)
        bail("no pipe");
    test_descriptor(pipes[1], "is no socket");
    close(pipes[0]);
    close(pipes[1]);
    test_descriptor(pipes[1], "is not open");
    return tap_failures() != 0;
}
