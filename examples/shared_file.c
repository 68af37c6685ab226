/* SPDX-License-Identifier: MIT */
/*
 * shared_file: ranks that have nothing in common but a folder, such as a home on NFS. Rank 0 serves, and writes the
 * address and the secret to a file that only its user may read; the others wait for the file. Its name must be new for
 * each start of the job.     for r in 0 1 2; do ./shared_file meeting.$$ $r 3 & done; wait
 */
#include <fcntl.h>
#include <hoop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE = 600 }; /* tenths of a second */

/* What the ranks have to know. */
static char address[HOOP_SERVER_TEXT], secret[HOOP_SECRET_TEXT];

static int
fail(const hoop_comm *comm)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(comm, &error);
    fprintf(stderr, "shared_file: %s\n", error.text);
    return 1;
}

/* The file appears whole, or not at all. */
static int
write_file(const char *path)
{
    char fresh[4096], text[sizeof(address) + sizeof(secret) + 2];
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    int n = snprintf(text, sizeof(text), "%s %s\n", address, secret);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, text, (size_t)n) == n && close(fd) == 0 && rename(fresh, path) == 0)
        return 1;
    perror(path);
    if (fd >= 0)
        unlink(fresh);
    return 0;
}

static int
read_file(const char *path)
{
    for (int i = 0; i < PATIENCE; i++) {
        FILE *file = fopen(path, "r");
        int good = file && fscanf(file, "%71s %64s", address, secret) == 2;
        if (file)
            fclose(file);
        if (good)
            return 1;
        usleep(100000);
    }
    fprintf(stderr, "shared_file: rank 0 has not written %s\n", path);
    return 0;
}

/* Rank 0: starts the server, with the settings that the ranks use too. */
static int
serve(hoop_server **server, hoop_config *config, const char *path)
{
    if (hoop_secret_new(secret, sizeof(secret)) != HOOP_SUCCESS ||
        hoop_config_set(config, "secret", secret) != HOOP_SUCCESS ||
        hoop_server_start(server, config) != HOOP_SUCCESS) {
        fail(NULL);
        return 0;
    }
    hoop_server_address(*server, address, sizeof(address));
    return write_file(path);
}

int
main(int argc, char **argv)
{
    hoop_server *server = NULL;
    hoop_comm *comm;
    if (argc != 4) {
        fprintf(stderr, "usage: shared_file FILE RANK SIZE\n");
        return 2;
    }
    int serves = strcmp(argv[2], "0") == 0;
    hoop_config *config = hoop_config_new();
    if (!(serves ? serve(&server, config, argv[1]) : read_file(argv[1])))
        return 1;
    hoop_config_set(config, "rendezvous", address);
    hoop_config_set(config, "secret", secret);
    int joined = hoop_config_set(config, "rank", argv[2]) == HOOP_SUCCESS &&
                 hoop_config_set(config, "size", argv[3]) == HOOP_SUCCESS &&
                 hoop_comm_create(&comm, config) == HOOP_SUCCESS;
    if (serves)
        unlink(argv[1]); /* all have read it, or it is of no use, and it has the secret */
    if (!joined)
        return fail(NULL);
    hoop_config_free(config);
    int size = hoop_comm_size(comm), sum = hoop_comm_rank(comm) + 1;
    if (hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS)
        return fail(comm);
    printf("rank %s of %d: the sum of 1 to %d is %d\n", argv[2], size, size, sum);
    if (hoop_comm_destroy(comm) != HOOP_SUCCESS)
        return fail(NULL);
    hoop_server_stop(server); /* after this rank's own use of the ring, for splits need it */
    return 0;
}
