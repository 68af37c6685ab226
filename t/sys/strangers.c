/* SPDX-License-Identifier: MIT */
/*
 * strangers: 300 of them greet a rank whose standard error is a pipe that nobody reads, and each is worth a warning. The
 * rank works on: it waits for nobody who should read a line.
 */
#include "net/handshake.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT = 60, STRANGERS = 300, SOON = 40 };

static party p;
static atomic_int turned_away;

/* Descriptor 2 becomes a pipe without room. Returns its other end, which is never read. */
static int
fill_standard_error(void)
{
    static const char bytes[4096];
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    for (size_t n = sizeof(bytes); n > 0; n /= 2)
        while (write(ends[1], bytes, n) > 0)
            continue;
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], 2);
    return ends[0];
}

/* Greetings for a job that nobody knows, one after the other; each is answered by the end of the connection. */
static void *
greet(void *arg)
{
    const struct sockaddr_in sin = party_own_port();
    const hp_hello hello = {.job_id = {9}, .role = HP_ROLE_DATA, .mode = HP_MODE_AUTH, .ver_min = HP_WIRE_MIN};
    const uint8_t nonce[32] = {1};
    uint8_t m1[HP_M1] = {0};
    char byte;
    hp_hello_put(m1, &hello, nonce);
    for (int i = 0; i < STRANGERS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (const struct sockaddr *)&sin, sizeof(sin)) == 0 &&
            send(fd, m1, HP_M1, MSG_NOSIGNAL) == HP_M1 && recv(fd, &byte, 1, 0) == 0)
            atomic_fetch_add(&turned_away, 1);
        close(fd);
    }
    return arg;
}

static int
work(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL;
    pthread_t thread;
    int wrong = 0, more = 1, unread = rank == 0 ? fill_standard_error() : -1;
    double begin = party_clock();
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    if (rank == 0)
        pthread_create(&thread, NULL, greet, NULL);
    for (int calls = 0; more && !wrong; calls++) {
        int sums[2] = {rank + 1, rank == 0 && atomic_load(&turned_away) < STRANGERS && party_clock() - begin < SOON};
        wrong = hoop_allreduce(sums, sums, 2, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS ||
                sums[0] != size * (size + 1) / 2;
        more = sums[1];
        party_note("%d strangers and %d allreduces in %.2f s", atomic_load(&turned_away), calls + 1,
                   party_clock() - begin);
    }
    if (rank == 0)
        pthread_join(thread, NULL);
    close(unread);
    wrong |= rank == 0 && party_clock() - begin > SOON;
    return wrong || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

int
main(void)
{
    tap_limit(240);
    plan(1);
    party_open(&p);
    int bad = party_run(&p, 2, work, NULL, LIMIT);
    ok(bad == 0, "a rank whose warnings nobody reads goes on: %s", p.guest[0].note);
    party_close(&p);
    return tap_failures() != 0;
}
