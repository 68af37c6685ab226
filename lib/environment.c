/* SPDX-License-Identifier: MIT */
/* environment: see environment.h. */
#include "lib/environment.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/say.h"
#include "base/wire.h"
#include "lib/server_thread.h"
#include "net/interface.h"
#include "net/sock.h"
#include "net/socket.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the way to other hosts --- */

#define LOOKUP_TIME (5 * HP_SEC)

static const char *
join_host(const hoop_config *config)
{
    const char *set = hp_config_text(config, HP_SET_join_host), *variable = getenv("MASTER_ADDR");
    return *set || !variable ? set : variable;
}

static hoop_result
resolve(hp_addr *addr, const char *host, hoop_error *error)
{
    hp_loop *loop = hp_loop_new();
    if (!loop)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while looking up %.100s", host);
    hoop_result result = hp_addr_find_host(addr, host, 0, loop, hp_loop_now(loop) + LOOKUP_TIME, error);
    hp_loop_free(loop);
    return result;
}

/* The address of the host at which the ranks join. 0: no setting or variable names one, or it has none. */
static int
find_join_host(hp_addr *addr, const hoop_config *config)
{
    const char *host = join_host(config);
    return *host && resolve(addr, host, NULL) == HOOP_SUCCESS;
}

hoop_result
hp_outward_advertised(hp_addr *addr, const hoop_config *config, hoop_error *error)
{
    const char *host = hp_config_text(config, HP_SET_advertise);
    hoop_error why;
    addr->length = 0;
    if (!*host || resolve(addr, host, &why) == HOOP_SUCCESS)
        return HOOP_SUCCESS;
    return hp_err_set(error, why.code, "HOOP_ADVERTISE: %.230s", why.text);
}

/* A name that means 127.0.1.1 here may mean this host's real address elsewhere, so loopback tells nothing. */
static int
leads_to(hp_addr *addr, const hp_addr *to)
{
    return hp_addr_route(addr, to) && !hp_addr_is_loopback(addr);
}

static int
leads_out(hp_addr *addr)
{
    static const char *const world[] = {"192.0.2.1:9", "[2001:db8::1]:9"}; /* of documentation: no host has them */
    hp_addr to;
    for (size_t i = 0; i < sizeof(world) / sizeof(*world); i++)
        if (hp_addr_parse(&to, world[i], NULL) == HOOP_SUCCESS && leads_to(addr, &to))
            return 1;
    return 0;
}

hoop_result
hp_outward_find(hp_addr *addr, const hoop_config *config, char why[HP_OUTWARD_WHY], hoop_error *error)
{
    const char *wanted = hp_config_text(config, HP_SET_socket_ifname);
    char name[32] = "";
    hp_addr to;
    hoop_result result = HOOP_SUCCESS;
    if (*wanted) {
        result = hp_interface_choose(addr, wanted, NULL, name, NULL, 0, error);
        snprintf(why, HP_OUTWARD_WHY, "on %s, because of HOOP_SOCKET_IFNAME=%s", name, wanted);
    } else if (find_join_host(&to, config) && leads_to(addr, &to)) {
        snprintf(why, HP_OUTWARD_WHY, "from which this host reaches %s, where the ranks join", join_host(config));
    } else if (leads_out(addr)) {
        snprintf(why, HP_OUTWARD_WHY, "that of the default route");
    } else if (hp_interface_choose(addr, "^=lo", NULL, name, NULL, 0, NULL) == HOOP_SUCCESS) {
        snprintf(why, HP_OUTWARD_WHY, "on %s, the best interface, since there is no default route", name);
    } else {
        result = hp_interface_choose(addr, NULL, NULL, NULL, NULL, 0, error);
        snprintf(why, HP_OUTWARD_WHY, "since no interface leads to other hosts");
    }
    return result;
}

/* --- what this process was started as --- */

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
    int joins = hp_config_number(config, HP_SET_join) != 0;
    if (joins && (environment->rank >= 0 || environment->size > 0))
        return hp_err_set(
            error, HOOP_ERR_INVALID_ARGUMENT,
            "HOOP_JOIN=1 with HOOP_RANK=%d and HOOP_SIZE=%d: a process that waits for a place has neither; unset "
            "them, or HOOP_JOIN",
            environment->rank, environment->size);
    if (joins && environment->alone)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "HOOP_JOIN=1 but HOOP_RENDEZVOUS is not set: give the address of the job's server");
    if (joins)
        environment->size = 1; /* so far */
    if (environment->alone)
        return find_alone(environment, config, error);
    if (environment->size < 1)
        return hp_err_set(
            error, HOOP_ERR_INVALID_ARGUMENT,
            "HOOP_RENDEZVOUS=%.64s is set but HOOP_SIZE is not, or is 0: give every process the number of ranks",
            server);
    return hp_environment_server(&environment->servers, config, NULL, loop, deadline, error);
}

static unsigned
interface_number(const char *name)
{
    hp_socket_lock(); /* the C library opens a socket for this */
    unsigned number = if_nametoindex(name);
    hp_socket_unlock();
    return number;
}

/* The interface that a link-local address names may be another host's. */
static void
drop_foreign_interface(char *text)
{
    char *at = strchr(text, '%'), name[IF_NAMESIZE];
    size_t n = at ? strcspn(at + 1, "]") : 0;
    if (n == 0 || (at[1] >= '0' && at[1] <= '9'))
        return;
    snprintf(name, sizeof(name), "%.*s", (int)n, at + 1);
    if (interface_number(name) == 0)
        memmove(at, at + 1 + n, strlen(at + 1 + n) + 1);
}

/* A link-local address without an interface is on the network where the ranks meet. */
static void
find_interface(hp_addr *server, const hoop_config *config)
{
    const char *wanted = hp_config_text(config, HP_SET_socket_ifname);
    char name[32];
    hp_addr like;
    if (!hp_addr_is_link_local(server) || server->u.v6.sin6_scope_id)
        return;
    if (find_join_host(&like, config) && hp_addr_is_link_local(&like))
        hp_addr_scope_as(server, &like);
    else if (!hp_interface_choose(&like, *wanted ? wanted : "fe80::/10", NULL, name, NULL, 0, NULL))
        server->u.v6.sin6_scope_id = interface_number(name);
}

/* An address where the server was met is the only one; or, if the name stands for others now, the first. */
static void
prefer(hp_addr_list *list, const hp_addr *known)
{
    int i = 0;
    while (i < list->n && !hp_addr_same(known, &list->addr[i]))
        i++;
    int others = i < list->n ? 0 : list->n < HP_ADDRS_MOST ? list->n : HP_ADDRS_MOST - 1;
    memmove(&list->addr[1], list->addr, sizeof(hp_addr) * (size_t)others);
    list->n = 1 + others;
    list->addr[0] = *known;
}

hoop_result
hp_environment_server(hp_addr_list *servers, const hoop_config *config, const hp_addr *known, hp_loop *loop,
                      uint64_t deadline, hoop_error *error)
{
    char text[256];
    hoop_error why;
    snprintf(text, sizeof(text), "%s", hp_config_text(config, HP_SET_rendezvous));
    drop_foreign_interface(text);
    uint64_t soon = hp_loop_now(loop) + LOOKUP_TIME;
    hoop_result result = hp_addr_find_all(servers, text, loop, known && soon < deadline ? soon : deadline, &why);
    if (result != HOOP_SUCCESS && known) { /* the name service may be on the host that was lost */
        *servers = (hp_addr_list){.n = 1, .addr = {*known}};
        return HOOP_SUCCESS;
    }
    if (result == HOOP_SUCCESS && !hp_addr_port(&servers->addr[0]))
        result = hp_err_set(
            &why, HOOP_ERR_INVALID_ARGUMENT,
            "no server is at port 0 (%.100s): write the port that hoop-rendezvous, or hoop_server_address, tells",
            text);
    if (result != HOOP_SUCCESS)
        return hp_err_set(error, result, "HOOP_RENDEZVOUS: %.230s", why.text);
    for (int i = 0; i < servers->n; i++) {
        find_interface(&servers->addr[i], config);
        hp_server_thread_come_home(&servers->addr[i]);
    }
    if (known)
        prefer(servers, known);
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
hp_environment_keys(const hoop_config *config, int on_loopback, hoop_error *error)
{
    int mode = hp_config_number(config, HP_SET_security) == 1 ? HP_MODE_NONE : HP_MODE_AUTH;
    hp_secret *secret;
    hp_keys *keys = NULL;
    uint8_t job_id[HP_JOB_ID_BYTES];
    if (mode == HP_MODE_NONE && !on_loopback) {
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
hp_environment_log(const hoop_config *config)
{
    char prefix[64], host[64];
    hp_environment_host(config, host);
    hp_log_level((int)hp_config_number(config, HP_SET_debug));
    snprintf(prefix, sizeof(prefix), "%.40s:%d [%d]", hp_say_host(host).text, (int)getpid(),
             (int)hp_config_number(config, HP_SET_rank));
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
    memset(host, 0, 64);
    if (gethostname(host, 63) != 0 && !*host) /* of 64 bytes, the most for a name, the first 63 are there */
        snprintf(host, 64, "unknown-host");
    if (*given)
        return hp_hash_text(id, given);
    file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof(boot), file))
        boot[0] = 0;
    if (file)
        fclose(file);
    return hp_hash_text(hp_hash_text(id, host), boot);
}
