/* SPDX-License-Identifier: MIT */
/*
 * job_keys: what strangers that name jobs can make a server compute. The test counts libcrypto's key derivations: those
 * of a server whose ranks and strangers are in this process.
 */
#include "rendezvous/job_keys.h"
#include "t/rendezvous/ranks.h"
#include "t/tap/tap.h"

#include <dlfcn.h>
#include <openssl/kdf.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EACH = 5, SOON = 60000 };

static int derivations;

int
EVP_KDF_derive(EVP_KDF_CTX *context, unsigned char *key, size_t length, const OSSL_PARAM params[])
{
    int (*real)(EVP_KDF_CTX *, unsigned char *, size_t, const OSSL_PARAM[]) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "EVP_KDF_derive");
    derivations++;
    return real(context, key, length, params);
}

/* A stranger without a secret names this job; it is turned away without a byte. Returns how many keys that cost. */
static int
knock(meet *m, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    const uint8_t nonce[32] = {1};
    hp_hello hello = {.role = HP_ROLE_CONTROL, .mode = HP_MODE_AUTH, .ver_min = HP_WIRE_MIN};
    uint8_t m1[HP_M1] = {0};
    char byte;
    ssize_t n = -1;
    int before = derivations, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(hello.job_id, job_id, HP_JOB_ID_BYTES);
    hp_hello_put(m1, &hello, nonce);
    if (connect(fd, &m->addr.u.any, m->addr.length) != 0 || send(fd, m1, sizeof(m1), MSG_NOSIGNAL) != sizeof(m1))
        bail("the server does not listen");
    for (int tries = 0; tries < 1000 && n < 0; tries++) {
        meet_run(m, 1);
        n = recv(fd, &byte, 1, MSG_DONTWAIT);
    }
    close(fd);
    if (n != 0)
        bail("a stranger was not turned away");
    return derivations - before;
}

static int
knock_by_name(meet *m, const char *name)
{
    uint8_t job_id[HP_JOB_ID_BYTES];
    if (hp_job_id(job_id, name, NULL))
        bail("no job id");
    return knock(m, job_id);
}

/* Strangers that name `jobs` jobs in turn. */
static int
knock_in_turn(meet *m, int jobs, int times)
{
    int cost = 0;
    for (int i = 0; i < times; i++)
        cost += knock(m, (const uint8_t[HP_JOB_ID_BYTES]){7, (uint8_t)(i % jobs)});
    return cost;
}

static void
names_in_turn(void)
{
    meet m;
    meet_open(&m);
    is_int(2 * EACH, knock_in_turn(&m, 2, 60), "60 strangers that name two jobs in turn cost the keys of two jobs");
    meet_close(&m);
    meet_open(&m);
    is_int(HP_JOB_KEYS * EACH, knock_in_turn(&m, HP_JOB_KEYS, 60), "as many as there is room for cost one each");
    int cost = 0;
    for (int i = 0; i < HP_JOB_KEYS; i++)
        cost += knock(&m, (const uint8_t[HP_JOB_ID_BYTES]){8, (uint8_t)i});
    is_int(HP_JOB_KEYS * EACH, cost, "a job that was not asked for before costs one set of keys");
    is_int(0, knock(&m, (const uint8_t[HP_JOB_ID_BYTES]){8, 0}), "and is kept");
    is_int(EACH, knock(&m, (const uint8_t[HP_JOB_ID_BYTES]){9}), "until it is the oldest:");
    is_int(0, knock(&m, (const uint8_t[HP_JOB_ID_BYTES]){8, 0}), "one that was asked for again is not,");
    is_int(EACH, knock(&m, (const uint8_t[HP_JOB_ID_BYTES]){8, 1}), "the one behind it is");
    meet_close(&m);
}

/* However many jobs strangers name: the ranks of a job that is here cost nothing. */
static void
honest_job(void)
{
    meet m;
    hp_client *clients[2];
    meet_open(&m);
    hp_client_options first = rank_options(&m, "honest", 0, 2, 1, SOON),
                      second = rank_options(&m, "honest", 1, 2, 1, SOON);
    clients[0] = rank_join(&m, &first);
    int at = derivations;
    for (int tries = 0; tries < 1000 && hp_server_jobs(m.server) == 0; tries++)
        meet_run(&m, 1);
    is_int(EACH, derivations - at, "the first rank of a job costs one set of keys");
    knock_in_turn(&m, 3 * HP_JOB_KEYS, 3 * HP_JOB_KEYS);
    at = derivations;
    clients[1] = rank_join(&m, &second);
    ok(ranks_go(&m, clients, 2, SOON), "a rank that comes after strangers named %d jobs enters", 3 * HP_JOB_KEYS);
    is_int(0, derivations - at, "and costs no keys");
    is_int(0, knock_by_name(&m, "honest"), "nor does a stranger who names its job");
    ranks_leave(&m, clients, 2, 0);
    meet_close(&m);
}

/* The server of one job, such as hooprun's. */
static void
one_job(void)
{
    uint8_t job_id[HP_JOB_ID_BYTES];
    hp_secret secret = rank_secret();
    meet m;
    if (hp_job_id(job_id, "only", NULL))
        bail("no job id");
    meet_open_as(&m, &secret, job_id);
    is_int(0, knock_in_turn(&m, 20, 20), "a server that has one job's own key derives none for others");
    meet_close(&m);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    names_in_turn();
    honest_job();
    one_job();
    return 0;
}
