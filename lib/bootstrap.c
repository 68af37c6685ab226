/* SPDX-License-Identifier: MIT */
/*
 * bootstrap: how the processes that another launcher has started become a ring without hooprun. It fills in the settings
 * that hooprun would have set: rank, size, server, job and secret. Rank 0's process has the server. Where the launcher has a key-value channel, rank 0 puts the address and a new secret there.
 * Where it has none, the server is at a port that follows from the job; the secret is the user's, and the key that both
 * sides use is derived from it and from all that tells this start from others. So a server of an earlier start, or of
 * another job, is a stranger.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/wire.h"
#include "lib/entry.h"
#include "lib/environment.h"
#include "lib/exchange.h"
#include "lib/join.h"
#include "lib/secret_file.h"
#include "lib/server_search.h"
#include "rendezvous/registration.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD "hoop1," /* the first word of rank 0's text */

enum { NUMBER_TEXT = 20 };

/* The server of this process for jobs of its launcher. It stays until the process ends: the ranks learn its address once,
 * and a fast one may be waiting for the next communicator. */
static struct {
    pthread_mutex_t mutex;
    hoop_server *server;
    hp_secret *secret; /* NULL: that of the settings */
} host = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static unsigned rings; /* so far; under the mutex */

/* The parent's server is not the child's, and another thread may have held the mutex. */
static void
in_child(void)
{
    memset(&host, 0, sizeof(host));
    host.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void
watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

static hoop_result
put_number(hoop_config *config, const char *key, int value, hoop_error *error)
{
    char text[NUMBER_TEXT];
    snprintf(text, sizeof(text), "%d", value);
    return hp_config_put(config, key, text, HP_FROM_LAUNCHER, error);
}

static hoop_result
put_place(hoop_comm *comm, const hp_launcher *l, hoop_error *error)
{
    hoop_result result = put_number(&comm->config, "size", l->size, error);
    if (result == HOOP_SUCCESS && hp_config_number(&comm->config, HP_SET_rank) < 0)
        result = put_number(&comm->config, "rank", l->rank, error);
    return result;
}

/* Appends to the job's name. */
static hoop_result
extend_job(hoop_config *config, const char *more, hoop_error *error)
{
    char name[HP_VALUE_TEXT];
    if (snprintf(name, sizeof(name), "%s.%s", hp_config_text(config, HP_SET_job), more) >= (int)sizeof(name))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "HOOP_JOB is too long");
    return hp_config_put(config, "job", name, HP_FROM_LAUNCHER, error);
}

/* --- the secret --- */

static int
has_secret(const hoop_config *config)
{
    return config->secret || hp_config_number(config, HP_SET_secret_fd) >= 0 ||
           *hp_config_text(config, HP_SET_secret_file) || hp_config_number(config, HP_SET_security) == 1;
}

/* From now on the settings have this one; hp_bootstrap_end ends it. */
static hoop_result
take_secret(hoop_comm *comm, const hp_secret *secret, hoop_error *error)
{
    hp_secret *own = hp_secmem_new(sizeof(*own));
    if (!own)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the job's secret");
    *own = *secret;
    comm->config.secret = comm->bootstrap_secret = own;
    return HOOP_SUCCESS;
}

/* Of the settings, else the user's own, else, if all processes are on this host, the user's on this host. */
static hoop_result
read_secret(hp_secret *secret, const hp_launcher *l, const hoop_config *config, hoop_error *error)
{
    char path[HP_SECRET_PATH];
    if (has_secret(config))
        return hp_environment_secret(secret, config, error);
    hoop_result result = hp_secret_file_own(path, 0, error);
    if (result == HOOP_SUCCESS && access(path, F_OK) == 0)
        return hp_secret_from_file(secret, path, error);
    if (l->one_host)
        return hp_secret_file_of_host(secret, error);
    if (result != HOOP_SUCCESS)
        return result;
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "%s has no channel for a secret, and this user has none: make one with \"hoop-rendezvous "
                      "--new-secret\" and have %.120s on every host, or set HOOP_SECRET_FILE; see hoop_launch(7)",
                      l->name, path);
}

/* The secret of this start, which no other start has. The key of one job stays as it is. */
static hoop_result
derive_secret(hoop_comm *comm, const hp_launcher *l, hoop_error *error)
{
    hp_secret *secret = hp_secmem_new(sizeof(*secret));
    uint8_t start[HP_JOB_ID_BYTES];
    char number[NUMBER_TEXT];
    if (!secret)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the job's secret");
    hoop_result result = read_secret(secret, l, &comm->config, error);
    if (result == HOOP_SUCCESS && !secret->of_job) {
        result = hp_job_id(start, l->job, error);
        if (result == HOOP_SUCCESS)
            result = hp_secret_of_job(secret, secret, start, error);
        secret->of_job = 0;
        /* the job is named after this start; ranks of another one that look for their server here then name another job */
        snprintf(number, sizeof(number), "%016" PRIx64, hp_hash_text(HP_HASH_START, l->job));
        if (result == HOOP_SUCCESS)
            result = extend_job(&comm->config, number, error);
    }
    if (result == HOOP_SUCCESS)
        result = take_secret(comm, secret, error);
    hp_secmem_free(secret);
    return result;
}

/* --- the server, in rank 0's process --- */

/* On one host it listens on loopback; at a derived port on all addresses of both families: the others resolve a name. */
static hoop_result
listening_at(hoop_config *config, const hp_launcher *l, hoop_error *error)
{
    char ports[NUMBER_TEXT];
    int wanted = *hp_config_text(config, HP_SET_socket_ifname) != 0;
    const char *at = l->one_host ? "127.0.0.1:0" : l->way == HP_BY_PORT ? "[::]:0" : "";
    if (l->way != HP_BY_PORT && wanted)
        at = "";
    hoop_result result = hp_config_put(config, "rendezvous", at, HP_FROM_LAUNCHER, error);
    snprintf(ports, sizeof(ports), "%u-%u", l->first, l->last);
    if (result == HOOP_SUCCESS && l->way == HP_BY_PORT)
        result = hp_config_put(config, "port_range", ports, HP_FROM_LAUNCHER, error);
    return result;
}

static hoop_result
start_server(const hoop_comm *comm, const hp_launcher *l, hoop_error *error)
{
    hoop_config *config = hp_alloc(1, sizeof(*config));
    if (!config)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the rendezvous server");
    *config = comm->config;
    hoop_result result = listening_at(config, l, error);
    for (int i = 0; i < HP_SETTINGS; i++)
        config->value[i].source = HP_FROM_CALL;
    if (result == HOOP_SUCCESS && hoop_server_start(&host.server, config) != HOOP_SUCCESS) {
        hp_entry_error(NULL, error);
        result = error->code;
    }
    free(config);
    return result;
}

/* A secret for the jobs of this process's server; the settings' own wins. */
static hoop_result
find_secret(hoop_comm *comm, const hp_launcher *l, hoop_error *error)
{
    if (l->way == HP_BY_PORT || has_secret(&comm->config))
        return HOOP_SUCCESS;
    if (!host.secret) {
        host.secret = hp_secmem_new(sizeof(*host.secret));
        if (!host.secret)
            return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the job's secret");
        hoop_result result = hp_random(host.secret->key, sizeof(host.secret->key), error);
        if (result != HOOP_SUCCESS)
            return result;
    }
    return take_secret(comm, host.secret, error);
}

static hoop_result
serve(hoop_comm *comm, const hp_launcher *l, hoop_error *error)
{
    char address[HOOP_SERVER_TEXT];
    pthread_mutex_lock(&host.mutex);
    hoop_result result = find_secret(comm, l, error);
    if (result == HOOP_SUCCESS && !host.server)
        result = start_server(comm, l, error);
    if (result == HOOP_SUCCESS) {
        hoop_server_address(host.server, address, sizeof(address));
        result = hp_config_put(&comm->config, "rendezvous", address, HP_FROM_LAUNCHER, error);
    }
    pthread_mutex_unlock(&host.mutex);
    return result;
}

/* --- the two ways --- */

static hoop_result
read_refusal(char *why, hoop_error *error)
{
    size_t digits = strcspn(why, ",");
    int code = 0;
    if (!hp_number_parse_digits(why, digits, HOOP_ERR_NO_QUORUM, &code) || code == HOOP_SUCCESS)
        code = HOOP_ERR_RENDEZVOUS;
    for (char *c = why; *c; c++)
        if (*c == '^')
            *c = ' ';
    hp_err_set(error, (hoop_result)code, "rank 0: %s", why + digits + strspn(why + digits, ","));
    error->rank = 0;
    return error->code;
}

static hoop_result
read_text(hoop_comm *comm, char text[HP_EXCHANGE_TEXT], const hp_launcher *l, hoop_error *error)
{
    char *address = text + strlen(WORD), *comma = strchr(text, ',') ? strchr(address, ',') : NULL;
    hp_secret secret = {.of_job = 0};
    if (strncmp(text, WORD, strlen(WORD)) != 0 || !comma)
        return hp_err_set(
            error, HOOP_ERR_RENDEZVOUS,
            "what rank 0 put into the channel of %s is not from this release of hoop; install one release "
            "everywhere",
            l->name);
    *comma = 0;
    if (!*address)
        return read_refusal(comma + 1, error);
    hoop_result result = hp_config_put(&comm->config, "rendezvous", address, HP_FROM_LAUNCHER, error);
    if (result != HOOP_SUCCESS || has_secret(&comm->config))
        return result;
    if (strcmp(comma + 1, "-") == 0)
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "rank 0 has a secret of its own (HOOP_SECRET_FILE), and this rank has none: set it for all "
                          "ranks, or for none");
    result = hp_secret_parse(&secret, comma + 1, strlen(comma + 1), error);
    if (result == HOOP_SUCCESS)
        result = take_secret(comm, &secret, error);
    hp_wipe(&secret, sizeof(secret));
    return result;
}

/* Rank 0 speaks to the others also where it could not start a server. Then the job has none, whatever follows. */
static hoop_result
meet_by_channel(hoop_comm *comm, const hp_launcher *l, hp_bounded_wait *wait, hoop_error *error)
{
    char text[HP_EXCHANGE_TEXT] = "";
    hoop_error why;
    hoop_result served = l->rank == 0 ? serve(comm, l, error) : HOOP_SUCCESS;
    if (l->rank == 0 && served == HOOP_SUCCESS) {
        /* "hoop1,127.0.0.1:5801,SECRET"; - for a secret that all ranks have already. */
        char digits[HP_SECRET_TEXT] = "-";
        if (comm->bootstrap_secret)
            hp_secret_format(digits, comm->bootstrap_secret);
        digits[strcspn(digits, "\n")] = 0;
        snprintf(text, HP_EXCHANGE_TEXT, WORD "%s,%s", hp_config_text(&comm->config, HP_SET_rendezvous), digits);
        hp_wipe(digits, sizeof(digits));
    } else if (l->rank == 0) {
        /* "hoop1,,35,the^sentence": rank 0 has no server, and why. PMI-1 allows no blank, so '^' stands for one. */
        snprintf(text, HP_EXCHANGE_TEXT, WORD ",%d,%.230s", (int)error->code, error->text);
        for (char *c = text; *c; c++)
            if ((unsigned char)*c <= ' ')
                *c = '^';
    }
    hoop_result result = hp_exchange_text(l, text, wait, served == HOOP_SUCCESS ? error : &why);
    if (served == HOOP_SUCCESS && result == HOOP_SUCCESS)
        result = read_text(comm, text, l, error);
    hp_wipe(text, sizeof(text));
    return served == HOOP_SUCCESS ? result : served;
}

static hoop_result
find_server(hoop_comm *comm, const hp_launcher *l, hp_bounded_wait *wait, hoop_error *error)
{
    hp_server_search_options o = {.what = "the server of rank 0", .host = l->one_host ? "127.0.0.1" : l->host};
    char text[HP_ADDR_TEXT], why[HP_OUTWARD_WHY];
    hp_addr server, outward;
    hp_keys *keys = hp_environment_keys(&comm->config, l->one_host, error);
    if (!keys)
        return error->code;
    o.keys = keys;
    o.hello = hp_registration_hello(&(hp_client_options){.rank = (int)hp_config_number(&comm->config, HP_SET_rank),
                                                         .size = (int)hp_config_number(&comm->config, HP_SET_size)},
                                    NULL);
    hoop_result result = hp_server_search_ports(&server, l->first, l->last, &o, comm->loop, wait, error);
    hp_keys_drop(keys);
    if (result != HOOP_SUCCESS)
        return result;
    /*
     * Many hosts have their own name for a loopback address. A rank on rank 0's host then finds the server there, but must
     * itself listen where other hosts reach it: on the interface of the server, whose reasons are the same.
     */
    if (!l->one_host && hp_addr_is_loopback(&server) &&
        hp_outward_find(&outward, &comm->config, why, NULL) == HOOP_SUCCESS) {
        hp_addr_set_port(&outward, hp_addr_port(&server));
        server = outward;
    }
    return hp_config_put(&comm->config, "rendezvous", hp_addr_print(&server, text), HP_FROM_LAUNCHER, error);
}

/* --- the bootstrap --- */

/* No other ring of this start has its name. */
static hoop_result
name_ring(hoop_comm *comm, hoop_error *error)
{
    char text[NUMBER_TEXT];
    pthread_mutex_lock(&host.mutex);
    comm->bootstrap_ring = ++rings;
    pthread_mutex_unlock(&host.mutex);
    snprintf(text, sizeof(text), "%u", comm->bootstrap_ring);
    return comm->bootstrap_ring == 1 ? HOOP_SUCCESS : extend_job(&comm->config, text, error);
}

static hoop_result
meet(hoop_comm *comm, hp_launcher *l, hp_bounded_wait *wait, hoop_error *error)
{
    hoop_result result = l->size ? HOOP_SUCCESS : hp_exchange_size(l, wait, error);
    if (result == HOOP_SUCCESS)
        result = put_place(comm, l, error);
    hp_environment_log(&comm->config);
    if (result != HOOP_SUCCESS || l->size == 1)
        return result;
    if (l->way == HP_BY_PORT && hp_config_number(&comm->config, HP_SET_security) == 0)
        result = derive_secret(comm, l, error);
    if (result == HOOP_SUCCESS)
        result = l->way != HP_BY_PORT ? meet_by_channel(comm, l, wait, error)
                 : l->rank == 0       ? serve(comm, l, error)
                                      : find_server(comm, l, wait, error);
    return result == HOOP_SUCCESS ? name_ring(comm, error) : result;
}

/* HOOP_RENDEZVOUS is set: the launcher says which rank this is, unless HOOP_SIZE does. */
static hoop_result
take_rank(hoop_comm *comm, hoop_error *error)
{
    hp_launcher l;
    if (hp_config_number(&comm->config, HP_SET_size) > 0 || hp_config_number(&comm->config, HP_SET_join))
        return HOOP_SUCCESS;
    hoop_result result = hp_environment_launcher(&l, &comm->config, error);
    return result == HOOP_SUCCESS && l.name && l.size ? put_place(comm, &l, error) : result;
}

hoop_result
hp_bootstrap_run(hoop_comm *comm, uint64_t deadline, hoop_error *error)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    static const char *const ways[] = {"no way", "PMI-1", "PMIx", "a port of rank 0's host"};
    hp_launcher l;
    uint64_t now = hp_loop_now(comm->loop);
    hp_bounded_wait wait = hp_bounded_wait_of(deadline > now ? deadline - now : 0, 0);
    if (*hp_config_text(&comm->config, HP_SET_rendezvous))
        return take_rank(comm, error);
    pthread_once(&watched, watch_forks);
    hoop_result result = hp_environment_launcher(&l, &comm->config, error);
    if (result != HOOP_SUCCESS || l.size == 1)
        return result;
    if (l.way == HP_BY_NONE)
        return hp_launcher_refuse(&l, error);
    if (hp_config_number(&comm->config, HP_SET_security) == 1)
        l.one_host = 1; /* without a secret ranks meet on loopback only */
    int local = hp_environment_local_rank();
    wait.quiet = l.rank > 1 && local != 0; /* of each host one is enough; rank 1, because rank 0 may only serve */
    result = meet(comm, &l, &wait, error);
    if (result == HOOP_SUCCESS)
        hp_log(HP_LOG_INFO, "launcher: %s, rank %d of %d; they meet by %s", l.name, l.rank, l.size, ways[l.way]);
    else if (error->rank < 0)
        error->rank = l.rank;
    return result;
}

void
hp_bootstrap_end(hoop_comm *comm, int joined)
{
    if (!joined && comm->bootstrap_ring) {
        pthread_mutex_lock(&host.mutex);
        rings -= comm->bootstrap_ring == rings; /* a rank that was late has counted none yet, and they all try again */
        pthread_mutex_unlock(&host.mutex);
    }
    hp_secmem_free(comm->bootstrap_secret);
    comm->config.secret = comm->bootstrap_secret = NULL;
}
