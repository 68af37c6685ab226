/* SPDX-License-Identifier: MIT */
/* environment: see environment.h. */
#include "lib/environment.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "lib/outward.h"
#include "lib/server_thread.h"
#include "net/interface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES "hoop_launch(7) has the steps"

static const char *
look_up(const char *name)
{
    return getenv(name);
}

int
hp_environment_local_rank(void)
{
    return hp_launcher_local_rank(look_up);
}

hoop_result
hp_environment_launcher(hp_launcher *launcher, const hoop_config *config, hoop_error *error)
{
    hp_launcher_settings settings = {.size = (int)hp_config_number(config, HP_SET_size),
                                     .rank = (int)hp_config_number(config, HP_SET_rank),
                                     .job = hp_config_text(config, HP_SET_job)};
    return hp_launcher_find(launcher, &settings, look_up, error);
}

/* Without a server: an error, unless this process is the only one, by all variables that are set. */
static hoop_result
find_alone(hp_environment *environment, const hoop_config *config, hoop_error *error)
{
    hp_launcher launcher;
    if (environment->size > 1)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "HOOP_SIZE=%d but HOOP_RENDEZVOUS is not set: start hoop-rendezvous and give its host:port, "
                          "or use hooprun; " LINES,
                          environment->size);
    if (environment->rank >= 0 && environment->size != 1)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "HOOP_RANK=%d but neither HOOP_RENDEZVOUS nor HOOP_SIZE is set: start hoop-rendezvous and "
                          "give its host:port and the number of ranks, or use hooprun; " LINES,
                          environment->rank);
    hoop_result result = hp_environment_launcher(&launcher, config, error);
    if (result == HOOP_SUCCESS)
        environment->by = environment->size == 1 ? "HOOP_SIZE" : launcher.name ? launcher.name : "none";
    return result;
}

hoop_result
hp_environment_find(hp_environment *environment, const hoop_config *config, hp_loop *loop, uint64_t deadline,
                    hoop_error *error)
{
    const char *server = hp_config_text(config, HP_SET_rendezvous);
    *environment = (hp_environment){.rank = (int)hp_config_number(config, HP_SET_rank)};
    environment->size = (int)hp_config_number(config, HP_SET_size);
    environment->alone = !*server;
    if (environment->size > 0 && environment->rank >= environment->size)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "HOOP_RANK=%d is not below HOOP_SIZE=%d: ranks count from 0", environment->rank,
                          environment->size);
    if (environment->alone)
        return find_alone(environment, config, error);
    if (environment->size < 1)
        return hp_err_set(
            error, HOOP_ERR_INVALID_ARGUMENT,
            "HOOP_RENDEZVOUS=%.64s is set but HOOP_SIZE is not, or is 0: give every process the number of ranks",
            server);
    return hp_environment_server(&environment->server, config, loop, deadline, error);
}

/* A link-local address has no scope when it comes from another host: it is on the network where the ranks meet. */
static void
add_scope(hp_addr *server, const hoop_config *config)
{
    hp_addr like;
    if (!hp_addr_is_link_local(server) || server->u.v6.sin6_scope_id)
        return;
    if ((hp_outward_join_host(&like, config) && hp_addr_is_link_local(&like)) ||
        hp_interface_choose(&like, "fe80::/10", NULL, NULL, NULL, 0, NULL) == HOOP_SUCCESS)
        hp_addr_scope_as(server, &like);
}

hoop_result
hp_environment_server(hp_addr *server, const hoop_config *config, hp_loop *loop, uint64_t deadline, hoop_error *error)
{
    hoop_error why;
    hoop_result result = hp_addr_find(server, hp_config_text(config, HP_SET_rendezvous), loop, deadline, &why);
    if (result != HOOP_SUCCESS)
        return hp_err_set(error, result, "HOOP_RENDEZVOUS: %.230s", why.text);
    add_scope(server, config);
    hp_server_thread_come_home(server);
    return HOOP_SUCCESS;
}

void
hp_environment_name_secret(hoop_error *error, const hoop_config *config)
{
    hoop_error why = *error;
    int fd = (int)hp_config_number(config, HP_SET_secret_fd);
    if (hp_config_number(config, HP_SET_security) == 1)
        return; /* none */
    if (config->secret)
        hp_err_set(error, why.code, "%.200s; this rank's secret is that of hoop_config_set", why.text);
    else if (fd >= 0)
        hp_err_set(error, why.code, "%.200s; this rank's secret is that of HOOP_SECRET_FD=%d", why.text, fd);
    else
        hp_err_set(error, why.code, "%.180s; this rank's secret is that of HOOP_SECRET_FILE=%s", why.text,
                   hp_config_text(config, HP_SET_secret_file));
    error->rank = why.rank;
    error->phase = why.phase;
}

static hoop_result
read_secret(hp_secret *secret, const hoop_config *config, hoop_error *error)
{
    int fd = (int)hp_config_number(config, HP_SET_secret_fd);
    const char *file = hp_config_text(config, HP_SET_secret_file);
    if (config->secret) {
        *secret = *config->secret;
        return HOOP_SUCCESS;
    }
    if (fd < 0 && !*file)
        return hp_err_set(error, HOOP_ERR_AUTH,
                          "there is no secret: start the program with hooprun, or give every rank and the server "
                          "HOOP_SECRET_FILE (hoop-rendezvous --new-secret FILE makes one) or the setting secret "
                          "(hoop_secret_new makes one)");
    return fd >= 0 ? hp_secret_from_fd(secret, fd, error) : hp_secret_from_file(secret, file, error);
}

hoop_result
hp_environment_secret(hp_secret *secret, const hoop_config *config, hoop_error *error)
{
    uint8_t job_id[HP_JOB_ID_BYTES];
    const char *file = hp_config_text(config, HP_SET_secret_file);
    const char *source = config->secret                                    ? "hoop_config_set"
                         : hp_config_number(config, HP_SET_secret_fd) >= 0 ? "HOOP_SECRET_FD"
                                                                           : file;
    hoop_result result = hp_job_id(job_id, hp_config_text(config, HP_SET_job), error);
    if (result == HOOP_SUCCESS)
        result = read_secret(secret, config, error);
    if (result != HOOP_SUCCESS || !secret->of_job || memcmp(secret->job_id, job_id, HP_JOB_ID_BYTES) == 0)
        return result;
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "the secret of %.100s is the key of another job than HOOP_JOB=%.64s: set HOOP_JOB to the name "
                      "for which it was made",
                      source, hp_config_text(config, HP_SET_job));
}

/* The key of this job: taken as it is from hooprun, or derived from the server's secret. */
static hoop_result
find_secret(hp_secret *secret, const uint8_t job_id[HP_JOB_ID_BYTES], const hoop_config *config, hoop_error *error)
{
    hoop_result result = hp_environment_secret(secret, config, error);
    return result == HOOP_SUCCESS ? hp_secret_of_job(secret, secret, job_id, error) : result;
}

hp_keys *
hp_environment_keys(const hp_environment *environment, const hoop_config *config, hoop_error *error)
{
    int mode = hp_config_number(config, HP_SET_security) == 1 ? HP_MODE_NONE : HP_MODE_AUTH;
    hp_secret *secret;
    hp_keys *keys = NULL;
    uint8_t job_id[HP_JOB_ID_BYTES];
    if (mode == HP_MODE_NONE && !hp_addr_is_loopback(&environment->server)) {
        hp_err_set(error, HOOP_ERR_AUTH,
                   "HOOP_SECURITY=none is allowed on loopback only, and the rendezvous server is elsewhere: use "
                   "HOOP_SECURITY=auth and a secret file");
        return NULL;
    }
    secret = hp_secmem_new(sizeof(*secret));
    if (!secret)
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the job's secret");
    else if (hp_job_id(job_id, hp_config_text(config, HP_SET_job), error) == HOOP_SUCCESS &&
             (mode == HP_MODE_NONE || find_secret(secret, job_id, config, error) == HOOP_SUCCESS))
        keys = hp_keys_new(secret->key, job_id, mode, error);
    hp_secmem_free(secret);
    return keys;
}

void
hp_environment_limits(void)
{
    hp_limits_raise_descriptors(NULL);
}

void
hp_environment_log(const hoop_config *config)
{
    char prefix[64], host[64];
    hp_environment_host(config, host);
    hp_log_level((int)hp_config_number(config, HP_SET_debug));
    snprintf(prefix, sizeof(prefix), "%.40s:%d [%d]", host, (int)getpid(), (int)hp_config_number(config, HP_SET_rank));
    hp_log_prefix(prefix);
}

static int
machine_allows(const char *congestion)
{
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "re");
    char word[32];
    int found = 0;
    while (file && !found && fscanf(file, "%31s", word) == 1)
        found = strcmp(word, congestion) == 0;
    if (file)
        fclose(file);
    return found;
}

void
hp_environment_sock(hp_sock_options *sock, const hoop_config *config)
{
    const char *congestion = hp_config_text(config, HP_SET_tcp_congestion);
    *sock = (hp_sock_options){.sndbuf = (int)hp_config_number(config, HP_SET_sndbuf),
                              .rcvbuf = (int)hp_config_number(config, HP_SET_rcvbuf)};
    sock->peer_timeout = (uint64_t)hp_config_number(config, HP_SET_peer_timeout_ms) * HP_MS;
    sock->keepalive = (hp_keepalive){.idle = (int)hp_config_number(config, HP_SET_keepalive_idle),
                                     .interval = (int)hp_config_number(config, HP_SET_keepalive_interval),
                                     .count = (int)hp_config_number(config, HP_SET_keepalive_count)};
    /* a pacing congestion control (bbr) sends in bursts by timers, which costs most on loopback */
    sock->near_only = strcmp(congestion, "auto") == 0;
    if (sock->near_only)
        congestion = machine_allows("reno") ? "reno" : "";
    else if (strcmp(congestion, "default") == 0)
        congestion = "";
    snprintf(sock->congestion, sizeof(sock->congestion), "%.15s", congestion);
}

uint64_t
hp_environment_host(const hoop_config *config, char host[64])
{
    const char *given = hp_config_text(config, HP_SET_hostid);
    char boot[64] = "";
    FILE *file;
    uint64_t id = HP_HASH_START;
    if (gethostname(host, 64) != 0)
        snprintf(host, 64, "unknown-host");
    host[63] = 0;
    if (*given)
        return hp_hash_text(id, given);
    file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof(boot), file))
        boot[0] = 0;
    if (file)
        fclose(file);
    return hp_hash_text(hp_hash_text(id, host), boot);
}
