/* SPDX-License-Identifier: MIT */
/*
 * serve: the public functions for a program that starts its ring itself: a secret, and a rendezvous server in
 * this process (server_thread.c), which all who start it share.
 */
#include "base/err.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "lib/entry.h"
#include "lib/environment.h"
#include "lib/registry.h"
#include "lib/server_thread.h"
#include "net/interface.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hoop_server {
    unsigned forks; /* of the process that started it */
    int users;      /* calls of hoop_server_start without one of hoop_server_stop */
    int mode;
    uint32_t attempt;
    hp_secret *secret;
    char address[HP_ADDR_TEXT]; /* as the ranks use it */
};

_Static_assert((int)HOOP_SERVER_TEXT >= HP_ADDR_TEXT, "the address of a server");
_Static_assert((int)HOOP_SECRET_TEXT == 2 * HP_SECRET + 1, "a secret's digits");

static hoop_server *served; /* this process's, or the parent's; under the lock of server_thread.h */

/* --- the secret --- */

hoop_result
hoop_secret_new(char *text, size_t size)
{
    hoop_error error;
    hp_secret secret = {.of_job = 0};
    char line[HP_SECRET_TEXT];
    if (!text || size < HOOP_SECRET_TEXT)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT,
                               "hoop_secret_new: text is NULL, or size is less than HOOP_SECRET_TEXT");
    text[0] = '\0';
    if (hp_random(secret.key, sizeof(secret.key), &error) != HOOP_SUCCESS)
        return hp_entry_fail(NULL, &error);
    hp_secret_format(line, &secret);
    memcpy(text, line, HOOP_SECRET_TEXT - 1); /* without the newline */
    text[HOOP_SECRET_TEXT - 1] = '\0';
    hp_wipe(&secret, sizeof(secret));
    hp_wipe(line, sizeof(line));
    return HOOP_SUCCESS;
}

/* --- where the server listens --- */

/* The address for the ranks, if the setting `rendezvous` does not name one, and why. */
static hoop_result
own_address(hp_addr *addr, const hoop_config *config, int mode, char why[HP_OUTWARD_WHY], hoop_error *error)
{
    if (mode == HP_MODE_AUTH)
        return hp_outward_find(addr, config, why, error);
    snprintf(why, HP_OUTWARD_WHY, "because of HOOP_SECURITY=none");
    return hp_interface_choose(addr, hp_config_text(config, HP_SET_socket_ifname), NULL, NULL, NULL, 0, error);
}

/* Where the server is to listen, and at which address (any port) the ranks find it. */
static hoop_result
find_addresses(hp_addr *listen, hp_addr *found, const hoop_config *config, int mode, char why[HP_OUTWARD_WHY],
               hoop_error *error)
{
    const char *given = hp_config_text(config, HP_SET_rendezvous);
    snprintf(why, HP_OUTWARD_WHY, "because of HOOP_RENDEZVOUS=%s", given);
    hoop_result result = *given ? hp_addr_parse(listen, given, error) : own_address(listen, config, mode, why, error);
    *found = *listen;
    if (result == HOOP_SUCCESS && hp_addr_is_any(listen))
        result = own_address(found, config, mode, why, error);
    return result;
}

/* --- the server --- */

/* This process's server; NULL: it has none. */
static hoop_server *
running(void)
{
    return served && served->forks == hp_forks() ? served : NULL;
}

/* A process has one server, so that it has one port. */
static hoop_result
share(hoop_server *server, const hp_server_options *options, const hoop_config *config, hoop_error *error)
{
    const hp_addr *at = hp_server_thread_addr();
    int given = *hp_config_text(config, HP_SET_rendezvous) != '\0';
    int port = hp_addr_port(&options->listen);
    const char *what = NULL;
    const hp_secret *a = options->secret, *b = server->secret;
    if (given && (!hp_addr_same_host(&options->listen, at) || (port && port != hp_addr_port(at))))
        what = "another address (HOOP_RENDEZVOUS)";
    else if (options->mode != server->mode)
        what = "another HOOP_SECURITY";
    else if (options->attempt != server->attempt)
        what = "another HOOP_ATTEMPT";
    else if (options->mode == HP_MODE_AUTH && (a->of_job != b->of_job || memcmp(a->key, b->key, sizeof(a->key)) != 0 ||
                                               (a->of_job && memcmp(a->job_id, b->job_id, sizeof(a->job_id)) != 0)))
        what = "another secret";
    if (what)
        return hp_err_set(error, HOOP_ERR_INVALID_USAGE,
                          "hoop_server_start: this process has a server already, at %s, with %s; one server serves all "
                          "jobs of a process, so use the same settings, or stop it first",
                          server->address, what);
    server->users++;
    return HOOP_SUCCESS;
}

static hoop_result
refuse_start(const hp_server_options *options, hoop_error *error)
{
    char host[HP_ADDR_TEXT];
    hoop_error why = *error;
    if (why.sys_errno == EADDRINUSE && hp_addr_port(&options->listen))
        return hp_err_set(error, why.code,
                          "hoop_server_start: port %u on %s is in use: a process of an earlier start, another job or "
                          "hooprun's server listens there; \"ss -ltnp\" shows it. End it, or choose another port, or 0 "
                          "for any",
                          hp_addr_port(&options->listen), hp_addr_host(&options->listen, host));
    if (why.sys_errno == EADDRNOTAVAIL)
        return hp_err_set(error, why.code,
                          "hoop_server_start: %s (HOOP_RENDEZVOUS) is not an address of this host: start the server in "
                          "a process on that host, or set rendezvous to \"0.0.0.0:0\" there",
                          hp_addr_host(&options->listen, host));
    return hp_err_set(error, why.code, "hoop_server_start: %.220s", why.text);
}

static void
end(hoop_server *server)
{
    served = NULL; /* for a child of a fork */
    hp_server_thread_stop();
    hp_secmem_free(server->secret);
    free(server);
}

static void
end_at_exit(void)
{
    hp_server_thread_lock();
    if (running())
        end(served);
    hp_server_thread_unlock();
}

static hoop_result
start(const hp_server_options *options, hp_addr *found, hp_addr *proxy, hoop_error *error)
{
    static int at_exit; /* also called before the library is unloaded */
    hoop_server *server = hp_alloc(1, sizeof(*server));
    hp_secret *secret = hp_secmem_new(sizeof(*secret));
    uint8_t job_id[HP_JOB_ID_BYTES];
    hoop_result result = HOOP_SUCCESS;
    if (!server || !secret)
        result = hp_err_set(error, HOOP_ERR_NO_MEMORY, "hoop_server_start: out of memory");
    else if (hp_server_thread_start(options, error) != HOOP_SUCCESS)
        result = refuse_start(options, error);
    if (result != HOOP_SUCCESS) {
        hp_secmem_free(secret);
        free(server);
        return result;
    }
    hp_job_id(job_id, "", NULL); /* libcrypto registers its own clean-up now: it runs after the server has ended */
    if (!at_exit)
        at_exit = atexit(end_at_exit) == 0;
    *secret = *options->secret;
    *server = (hoop_server){
        .forks = hp_forks(), .users = 1, .mode = options->mode, .attempt = options->attempt, .secret = secret};
    /* The address for the ranks, which may be another host's, that of a proxy; this process itself uses its own. */
    uint16_t port = hp_addr_port(hp_server_thread_addr());
    hp_addr *announced = proxy->length ? proxy : found;
    hp_addr_set_port(found, port);
    hp_addr_set_port(announced, port);
    hp_server_thread_announce(announced, found);
    hp_addr shown = *announced;
    if (hp_addr_is_link_local(&shown))
        shown.u.v6.sin6_scope_id = 0; /* a number, or the name of an interface, of this host */
    hp_addr_print(&shown, server->address);
    served = server;
    return HOOP_SUCCESS;
}

/* With the resolved settings, and memory for the secret. */
static hoop_result
serve(hoop_server **server, const hoop_config *config, hp_secret *secret, hoop_error *error)
{
    hp_server_options options = {.secret = secret, .one_attempt = 1, .asked = 1};
    char why[HP_OUTWARD_WHY];
    hp_addr found, proxy;
    options.attempt = (uint32_t)hp_config_number(config, HP_SET_attempt);
    options.mode = hp_config_number(config, HP_SET_security) == 1 ? HP_MODE_NONE : HP_MODE_AUTH;
    hoop_result result = find_addresses(&options.listen, &found, config, options.mode, why, error);
    if (result == HOOP_SUCCESS)
        result = hp_outward_advertised(&proxy, config, error);
    if (result == HOOP_SUCCESS)
        result = hp_ports_parse(&options.ports, hp_config_text(config, HP_SET_port_range), error);
    if (result == HOOP_SUCCESS && options.mode == HP_MODE_AUTH)
        result = hp_environment_secret(secret, config, error);
    if (result != HOOP_SUCCESS)
        return result;
    hp_server_thread_lock();
    result = running() ? share(served, &options, config, error) : start(&options, &found, &proxy, error);
    *server = result == HOOP_SUCCESS ? served : NULL;
    hp_server_thread_unlock();
    if (*server) /* not under the lock: the program's log function may fork */
        hp_log(HP_LOG_INFO, "the rendezvous server of this process is at %s, %s", (*server)->address, why);
    return result;
}

hoop_result
hoop_server_start(hoop_server **server, const hoop_config *config)
{
    hoop_error error;
    hoop_result result;
    hp_err_clear(&error);
    if (!server)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_server_start: server is NULL");
    *server = NULL;
    hp_registry_watch_forks();
    hp_limits_raise_descriptors(NULL);
    hoop_config *resolved = hp_alloc(1, sizeof(*resolved));
    hp_secret *secret = hp_secmem_new(sizeof(*secret));
    if (!resolved || !secret)
        result = hp_err_set(&error, HOOP_ERR_NO_MEMORY, "hoop_server_start: out of memory");
    else
        result = hp_config_resolve(resolved, config, &error);
    if (result == HOOP_SUCCESS) {
        hp_log_level((int)hp_config_number(resolved, HP_SET_debug));
        result = serve(server, resolved, secret, &error);
    }
    hp_secmem_free(secret);
    free(resolved);
    return result == HOOP_SUCCESS ? result : hp_entry_fail(NULL, &error);
}

hoop_result
hoop_server_address(const hoop_server *server, char *text, size_t size)
{
    if (!server || !text || size == 0)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT,
                               "hoop_server_address: server is NULL, or there is no room for the text");
    text[0] = '\0';
    if (strlen(server->address) >= size)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT,
                               "hoop_server_address: size is too small: HOOP_SERVER_TEXT is enough");
    memcpy(text, server->address, strlen(server->address) + 1);
    return HOOP_SUCCESS;
}

hoop_result
hoop_server_stop(hoop_server *server)
{
    if (!server)
        return HOOP_SUCCESS;
    hp_server_thread_lock();
    if (server == running() && --server->users == 0)
        end(server);
    hp_server_thread_unlock();
    return HOOP_SUCCESS;
}
