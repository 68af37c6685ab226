/* SPDX-License-Identifier: MIT */
/*
 * Splits that fail on one rank, wherever in the call descriptors run out there: the ranks that wait for it learn at once
 * who it was, also those that come later, and the next split of all ranks is right. And a rank that is killed while the others
 * split.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 4, MOST = 40 };

static party p;

typedef struct plot {
    int victim;
    int room;    /* descriptors that the victim may still open in its first split */
    double late; /* seconds after it in which the others call theirs */
} plot;

/* Leaves `room` numbers free below the limit; returns the limit that was. */
static struct rlimit
fewer_descriptors(int room)
{
    struct rlimit was, now;
    int fd = 0;
    getrlimit(RLIMIT_NOFILE, &was);
    for (int left = room; left > 0 || fcntl(fd, F_GETFD) >= 0; fd++)
        left -= fcntl(fd, F_GETFD) < 0;
    now = was;
    now.rlim_cur = (rlim_t)fd;
    setrlimit(RLIMIT_NOFILE, &now);
    return was;
}

static hoop_result
first_split(hoop_comm *comm, const plot *s, hoop_comm **part)
{
    int rank = hoop_comm_rank(comm);
    struct rlimit was;
    hoop_result result;
    if (rank != s->victim) {
        party_nap(s->late);
        return hoop_comm_split(comm, rank % 2, 0, part);
    }
    was = fewer_descriptors(s->room);
    result = hoop_comm_split(comm, rank % 2, 0, part);
    setrlimit(RLIMIT_NOFILE, &was);
    return result;
}

static int
is_right(hoop_comm *part)
{
    int32_t one = 1, sum = 0;
    return part && hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, part) == HOOP_SUCCESS && sum == 2;
}

/* Notes the first split's result, and "late" or what was wrong. */
static int
twice(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm, *part = NULL, *next = NULL;
    hoop_error e = {.size = sizeof(e)};
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    double begin = party_clock();
    hoop_result result = first_split(comm, s, &part);
    double took = party_clock() - begin - s->late;
    hoop_comm_error(comm, &e);
    hoop_comm_destroy(part);
    begin = party_clock();
    hoop_result again = hoop_comm_split(comm, rank % 2, 0, &next);
    double more = party_clock() - begin - s->late;
    party_note("%d %d split again: %d; %.2f s and %.2f s; %s", (int)result, e.rank, (int)again, took, more, e.text);
    if (again != HOOP_SUCCESS || took > 2 + tap_room() || more > 2 + tap_room() || !is_right(next))
        return 2;
    if (result != HOOP_SUCCESS && rank != s->victim && (e.rank < 0 || !strstr(e.text, "failed")) &&
        !strstr(e.text, "could not take part") && !strstr(e.text, "vanished"))
        return 3;
    hoop_comm_destroy(next);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static int
result_of(int rank)
{
    return atoi(p.guest[rank].note);
}

/* Every number of descriptors, until the split needs no more. */
static void
sweep(double late, const char *what)
{
    int bad = 0, failed = 0, apart = 0, room = 0, over = 0;
    for (; room < MOST && !over; room++) {
        plot s = {.victim = (int)(tap_random() % RANKS), .room = room, .late = late};
        bad += party_run(&p, RANKS, twice, &s, 90);
        over = result_of(s.victim) == HOOP_SUCCESS;
        failed += !over;
        for (int rank = 0; rank < RANKS && !over; rank++)
            apart += result_of(rank) == HOOP_SUCCESS;
        if (!over && !bad)
            diag("%d descriptors: %s", room, p.guest[(s.victim + 1) % RANKS].note);
    }
    is_int(0, bad, "%s: %d failed splits end soon, each followed by a right one; %d ranks had got theirs", what, failed,
           apart);
    ok(failed > 3 && over, "the split failed at several places");
}

/* Works that one rank waits for before it splits and another after that: they move while that one is in the split. */
static int
split_amid(int rank, int size, void *arg)
{
    static int32_t in[1 << 20], out[1 << 20];
    const int *own_loop = arg;
    hoop_comm *comm, *half = NULL;
    hoop_work *work;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || (*own_loop && hoop_comm_fd(comm) < 0))
        return 1;
    in[1] = rank + 1;
    double begin = party_clock();
    hoop_result result = hoop_iallreduce(in, out, 1 << 20, HOOP_INT32, HOOP_SUM, comm, &work);
    if (result == HOOP_SUCCESS && rank == 0)
        result = hoop_work_wait(work, -1);
    if (result == HOOP_SUCCESS)
        result = hoop_comm_split(comm, 0, 0, &half);
    if (result == HOOP_SUCCESS && rank != 0)
        result = hoop_work_wait(work, -1);
    hoop_comm_destroy(half);
    party_note("result %d, %d in out[1], %.2f s", (int)result, out[1], party_clock() - begin);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || result != HOOP_SUCCESS || out[1] != 6;
}

static void
amid(void)
{
    for (int own_loop = 0; own_loop < 2; own_loop++) {
        int bad = party_run(&p, 3, split_amid, &own_loop, 90);
        is_int(0, bad, "works move while a rank is in a split%s: %s", own_loop ? ", with a loop of their own" : "",
               p.guest[0].note);
    }
}

/* The connection to the server ends with a reset when the process does, as it would with unread bytes. */
static void
reset_at_end(void)
{
    const struct linger none = {.l_onoff = 1};
    int port = atoi(strrchr(p.address, ':') + 1);
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in to = {0};
        socklen_t length = sizeof(to);
        if (getpeername(fd, (struct sockaddr *)&to, &length) == 0 && ntohs(to.sin_port) == port)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    }
}

static int
split_or_die(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1), *half = NULL;
    hoop_error error = {.size = sizeof(error)};
    const int *victim = arg;
    if (rank == *victim) {
        reset_at_end();
        party_nap(0.2);
        kill(getpid(), SIGKILL);
    }
    double begin = party_clock();
    hoop_result result = hoop_comm_split(comm, 0, 0, &half);
    double took = party_clock() - begin;
    hoop_comm_error(comm, &error);
    party_note("%d, rank %d after %.1f s: %s", (int)result, error.rank, took, error.text);
    hoop_comm_destroy(comm);
    return result != HOOP_ERR_PEER_LOST || error.rank != *victim || took > 10;
}

/* The server's member is away, and nobody waits in an operation: only a probe tells that its process has ended. */
static void
killed(void)
{
    int late = 0, rounds = 20;
    for (int round = 0; round < rounds; round++) {
        int victim = round % 3;
        party_run(&p, 3, split_or_die, &victim, 90);
        for (int rank = 0; rank < 3; rank++)
            if (rank != victim && p.guest[rank].status != 0) {
                late++;
                diag("round %d, rank %d: %s", round, rank, p.guest[rank].note);
            }
    }
    is_int(0, late,
           "a rank is killed while others split, and its connection is reset: it is named within 10 s, %d times (%s)",
           rounds, p.guest[0].note);
}

int
main(void)
{
    tap_limit(300);
    plan(7);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "60000", 1);
    party_open(&p);
    sweep(0, "the others wait");
    sweep(0.2, "the others come later");
    amid();
    killed();
    party_close(&p);
    return 0;
}
