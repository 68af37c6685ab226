/* SPDX-License-Identifier: MIT */
/*
 * A member that sends without end when the others leave: destroying the communicator takes its second, not for ever. The
 * member floods every connection that it has to other ranks, with two threads each; who leaves reads slowly, as on a
 * machine that is slower than the member's.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { FDS = 64, LONG = 1 << 20 };

static party p;
static char bytes[LONG];

static int slow; /* bytes that a call may read; 0: all */

ssize_t
recv(int fd, void *to, size_t n, int flags)
{
    return recvfrom(fd, to, slow && n > (size_t)slow ? (size_t)slow : n, flags, NULL, NULL);
}

static void *
flood(void *arg)
{
    int fd = (int)(intptr_t)arg;
    while (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
        continue;
    return NULL;
}

/* The connections of this process, but for the one to the server. */
static int
flood_all(void)
{
    unsigned server = (unsigned)atoi(strrchr(p.address, ':') + 1);
    pthread_t thread;
    int n = 0;
    for (int fd = 3; fd < FDS; fd++) {
        struct sockaddr_in peer;
        socklen_t length = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0 || peer.sin_family != AF_INET ||
            ntohs(peer.sin_port) == server)
            continue;
        for (int i = 0; i < 2; i++)
            pthread_create(&thread, NULL, flood, (void *)(intptr_t)fd);
        n++;
    }
    return n;
}

static int
leave(int rank, int size, void *arg)
{
    hoop_comm *comm;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || hoop_barrier(comm) != HOOP_SUCCESS)
        return 1;
    if (rank == 1) {
        int n = flood_all();
        party_note("%d connections are flooded", n);
        return n == 0 || !party_await_marks(1);
    }
    party_nap(0.3);
    slow = 1;
    double begin = party_clock();
    hoop_comm_destroy(comm);
    double took = party_clock() - begin;
    party_mark();
    party_note("%.2f", took);
    return took > 2 + tap_room();
}

int
main(void)
{
    tap_limit(240);
    plan(1);
    party_open(&p);
    party_start(&p, 2, leave, NULL, 60);
    party_wait(&p);
    ok(p.guest[0].status == 0 && p.guest[1].status == 0, "a rank leaves soon while its neighbour floods it (%s s; %s)",
       p.guest[0].note, p.guest[1].note);
    party_close(&p);
    return tap_failures() != 0;
}
