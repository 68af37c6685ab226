/* SPDX-License-Identifier: MIT */
/*
 * inside: a program with a server inside (hoop_server_start), for t/sys/hoop_top.t. Two children of it are the ranks of a
 * ring whose name has letters beyond ASCII. They stay until standard input ends.
 */
#include "hoop.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char secret[HOOP_SECRET_TEXT], address[HOOP_SERVER_TEXT];

static hoop_config *
settings(void)
{
    hoop_config *config = hoop_config_new();
    hoop_config_set(config, "secret", secret);
    hoop_config_set(config, "rendezvous", address[0] ? address : "127.0.0.1:0");
    return config;
}

static int
be_rank(const char *rank)
{
    char end;
    hoop_comm *comm;
    hoop_config *config = settings();
    hoop_config_set(config, "rank", rank);
    hoop_config_set(config, "size", "2");
    hoop_config_set(config, "name",
                    "gr\xc3\xb6\xc3\x9f"
                    "er");
    hoop_result result = hoop_comm_create(&comm, config);
    hoop_config_free(config);
    if (result != HOOP_SUCCESS || read(STDIN_FILENO, &end, 1) != 0)
        return 1;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* The ranks are forked first: see t/tools/served.h. */
int
main(void)
{
    static const char *const ranks[] = {"0", "1"};
    hoop_server *server;
    int status, failed = 0, gate[2];
    hoop_secret_new(secret, sizeof(secret));
    if (pipe(gate) < 0)
        return 1;
    for (int i = 0; i < 2; i++)
        if (fork() == 0)
            exit(read(gate[0], address, sizeof(address)) != sizeof(address) || be_rank(ranks[i]));
    hoop_config *config = settings();
    if (hoop_server_start(&server, config) != HOOP_SUCCESS)
        return 1;
    hoop_config_free(config);
    hoop_server_address(server, address, sizeof(address));
    for (int i = 0; i < 2; i++)
        failed |= write(gate[1], address, sizeof(address)) != sizeof(address);
    while (wait(&status) > 0)
        failed |= status;
    return hoop_server_stop(server) != HOOP_SUCCESS || failed;
}
