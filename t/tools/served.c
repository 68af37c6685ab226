/* SPDX-License-Identifier: MIT */
/* served: see served.h. */
#include "t/tools/served.h"

#include "t/tap/tap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

char served_secret[HOOP_SECRET_TEXT], served_address[HOOP_SERVER_TEXT];

const char *
served_why(void)
{
    static _Thread_local hoop_error error;
    error.size = sizeof(error);
    hoop_comm_error(NULL, &error);
    return error.text;
}

static void
set_number(hoop_config *config, const char *key, int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    hoop_config_set(config, key, text);
}

/* Settings of a server on loopback with the test's secret. */
static hoop_config *
server_settings(const char *rendezvous)
{
    hoop_config *config = hoop_config_new();
    if (hoop_config_set(config, "rendezvous", rendezvous) || hoop_config_set(config, "secret", served_secret))
        bail("settings: %s", served_why());
    return config;
}

hoop_server *
served_start(const char *rendezvous)
{
    hoop_server *server = NULL;
    hoop_config *config = server_settings(rendezvous);
    hoop_result result = hoop_server_start(&server, config);
    hoop_config_free(config);
    if (result == HOOP_SUCCESS && hoop_server_address(server, served_address, sizeof(served_address)))
        bail("no address: %s", served_why());
    return server;
}

hoop_result
served_join(hoop_comm **comm, const char *job, int rank, int size)
{
    hoop_config *config = server_settings(served_address);
    hoop_config_set(config, "job", job);
    set_number(config, "rank", rank);
    set_number(config, "size", size);
    if (!getenv("HOOP_BOOTSTRAP_TIMEOUT_MS"))
        set_number(config, "bootstrap_timeout_ms", 60000);
    hoop_result result = hoop_comm_create(comm, config);
    hoop_config_free(config);
    return result;
}

int
served_adds_up(hoop_comm *comm)
{
    int size = hoop_comm_size(comm), sum = hoop_comm_rank(comm) + 1;
    int right =
        hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS && sum == size * (size + 1) / 2;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || !right;
}

/* --- processes --- */

static int gate[2] = {-1, -1}, waiting;

pid_t
served_spawn(served_fn *fn, int rank)
{
    fflush(NULL);
    if (gate[0] < 0 && pipe(gate) < 0)
        bail("no pipe");
    usleep(50000); /* a server's thread is idle again */
    pid_t parent = getpid(), pid = fork();
    if (pid) {
        waiting++;
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    alarm(SERVED_LIMIT * tap_time_factor());
    if (read(gate[0], served_address, sizeof(served_address)) != sizeof(served_address))
        _exit(1);
    close(gate[0]);
    close(gate[1]);
    _exit(fn(rank) || tap_failures());
}

void
served_go(void)
{
    for (; waiting > 0; waiting--)
        if (write(gate[1], served_address, sizeof(served_address)) != sizeof(served_address))
            bail("a pipe that is full");
}

int
served_reap(const pid_t *pids, int n)
{
    int bad = 0, status;
    for (int i = 0; i < n; i++)
        bad += waitpid(pids[i], &status, 0) != pids[i] || status != 0;
    return bad;
}

int
served_run(served_fn *fn, int first, int n)
{
    pid_t pids[SERVED_RANKS];
    for (int i = 0; i < n; i++)
        pids[i] = served_spawn(fn, first + i);
    served_go();
    return served_reap(pids, n);
}
