/* SPDX-License-Identifier: MIT */
/*
 * unload: a program that loads the library, serves, and unloads the library without a word, as an interpreter does with a
 * module: the server's thread and port are gone before the library's code is.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The functions of the library, as the program finds them. */
static struct {
    hoop_config *(*config_new)(void);
    hoop_result (*config_set)(hoop_config *config, const char *key, const char *value);
    void (*config_free)(hoop_config *config);
    hoop_result (*secret_new)(char *text, size_t size);
    hoop_result (*server_start)(hoop_server **server, const hoop_config *config);
    hoop_result (*server_address)(const hoop_server *server, char *text, size_t size);
} hoop;

static void
find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (!found)
        bail("%s: %s", name, dlerror());
    memcpy(function, &found, sizeof(found));
}

static void *
load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        bail("%s", dlerror());
    find(library, "hoop_config_new", &hoop.config_new);
    find(library, "hoop_config_set", &hoop.config_set);
    find(library, "hoop_config_free", &hoop.config_free);
    find(library, "hoop_secret_new", &hoop.secret_new);
    find(library, "hoop_server_start", &hoop.server_start);
    find(library, "hoop_server_address", &hoop.server_address);
    return library;
}

/* The port of a server that is started, and left behind. */
static int
serve(void)
{
    char secret[HOOP_SECRET_TEXT], address[HOOP_SERVER_TEXT] = "";
    hoop_server *server = NULL;
    hoop_config *config = hoop.config_new();
    int port = 0;
    hoop.secret_new(secret, sizeof(secret));
    hoop.config_set(config, "secret", secret);
    hoop.config_set(config, "rendezvous", "127.0.0.1:0");
    if (hoop.server_start(&server, config) == HOOP_SUCCESS)
        hoop.server_address(server, address, sizeof(address));
    hoop.config_free(config);
    sscanf(address, "127.0.0.1:%d", &port);
    return port;
}

static int
threads(void)
{
    char line[128];
    int n = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && n == 0 && fgets(line, sizeof(line), file))
        (void)sscanf(line, "Threads: %d", &n);
    if (file)
        fclose(file);
    return n;
}

int
main(void)
{
    const char *tree = getenv("abs_top_builddir");
    char path[4096];
    snprintf(path, sizeof(path), "%s/.libs/libhoop.so", tree ? tree : ".");
    if (access(path, R_OK) != 0)
        skip_all("no shared library: %s", path);
    plan_lazy();
    tap_limit(240);
    int before = threads(); /* a sanitizer may have one of its own */
    for (int round = 0; round < 3; round++) {
        void *library = load(path);
        int port = serve();
        ok(port && listens_at(port) && threads() > before, "the library is loaded, and serves at port %d", port);
        ok(dlclose(library) == 0, "the library is unloaded");
        is_int(before, threads(), "no thread is left");
        ok(!listens_at(port), "nor a port");
        if (!tap_sanitized())
            ok(!dlopen(path, RTLD_NOW | RTLD_NOLOAD), "nor the library");
    }
    void *library = load(path);
    ok(serve() != 0, "the program ends while it serves");
    (void)library;
    return tap_failures() != 0;
}
