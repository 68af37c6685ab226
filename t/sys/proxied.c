/* SPDX-License-Identifier: MIT */
/*
 * proxied: jobs whose server, or whose ranks, are behind proxies that come up before their targets. However such a proxy
 * treats connections until then, start and split wait for it, and each rank says in one line what it meets. A wrong
 * secret looks the same, so it gets the line too, and an error that names both at the end of its time. Later a proxy may
 * close the ways of all ranks to the server in order, and the job does not notice.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"
#include "t/tools/proxy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RANKS = 5, SHUT_S = 16 /* the line comes after ten */, LINE = 400 };

static party p;
static proxy *doors;
static char lines[2][LINE]; /* of a rank: the last about what it meets, in the start and in the split */
static int told[2], phase;

static void
on_line(void *arg, int level, const char *line)
{
    if (!strstr(line, "something accepts connections at 127.0.0.1:"))
        return;
    told[phase]++;
    snprintf(lines[phase], LINE, "%s", line);
}

/* The line is about the server behind this rank's door, or about another rank behind its own, a neighbour or not. */
static int
is_right(const char *line, int rank)
{
    static const char to_rank[] = "no connection to rank ";
    const char *peer = strstr(line, to_rank);
    int way = peer ? atoi(peer + sizeof(to_rank) - 1) : rank;
    const char *words = way == PROXY_IGNORES   ? " and does not answer"
                        : way == PROXY_ANSWERS ? "; it answers \"HTTP/1.1 503 Service Unavailable\""
                                               : " and closes them without an answer";
    return strstr(line, words) != NULL;
}

static void
shut(int rank)
{
    proxy_shut_for(&doors->door[rank], (proxy_shut)rank, SHUT_S);
}

/* before_ranks: the doors are before the ranks' listeners, else on each rank's way to the server. */
static int
come(int rank, int size, void *before_ranks)
{
    hoop_comm *comm = NULL, *part = NULL;
    hoop_error e = {.size = sizeof(e)};
    char address[32];
    int32_t one = 1, sum[2] = {0};
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&doors->door[rank].port));
    setenv("HOOP_LOCAL_RANK", "0", 1); /* each speaks as if it were alone on its host */
    if (before_ranks)
        proxy_stand_before(doors, rank);
    else
        setenv("HOOP_RENDEZVOUS", address, 1);
    hoop_log_to(on_line, NULL);
    hoop_result result = hoop_comm_create(&comm, NULL);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&one, &sum[0], 1, HOOP_INT32, HOOP_SUM, comm);
    phase = 1;
    shut(rank);
    if (result == HOOP_SUCCESS)
        result = hoop_barrier(comm);
    if (result == HOOP_SUCCESS)
        result = hoop_comm_split(comm, 0, rank, &part);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&one, &sum[1], 1, HOOP_INT32, HOOP_SUM, part);
    hoop_comm_error(NULL, &e);
    int good = result == HOOP_SUCCESS && sum[0] == size && sum[1] == size && told[0] > 0 && told[1] > 0 &&
               is_right(lines[0], rank) && is_right(lines[1], rank);
    party_note("%d %d, %d and %d lines: %.150s | %.150s", good, (int)result, told[0], told[1],
               result == HOOP_SUCCESS ? lines[0] : e.text, lines[1]);
    hoop_comm_destroy(part);
    hoop_comm_destroy(comm);
    return !good;
}

static void
late_targets(int before_ranks)
{
    for (int rank = 0; rank < RANKS; rank++) {
        shut(rank);
        atomic_store(&doors->door[rank].target, atoi(strrchr(p.address, ':') + 1));
    }
    int bad = party_run(&p, RANKS, come, before_ranks ? &p : NULL, 120);
    for (int rank = 0; rank < RANKS; rank++)
        diag("rank %d after %.1f s: %s", rank, p.guest[rank].seconds, p.guest[rank].note);
    is_int(0, bad, "%s behind proxies that are up first: start and split wait, and a line tells why",
           before_ranks ? "ranks" : "the server");
}

/* Rank 0 has another secret; rank 1 has a proxy with nothing behind it before the server. */
static int
in_vain(int rank, int size, void *arg)
{
    hoop_comm *comm;
    hoop_error e = {.size = sizeof(e)};
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&doors->door[0].port));
    setenv(rank ? "HOOP_RENDEZVOUS" : "HOOP_SECRET_FILE", rank ? address : (const char *)arg, 1);
    hoop_log_to(on_line, NULL);
    double began = party_clock();
    hoop_result result = hoop_comm_create(&comm, NULL);
    hoop_comm_error(NULL, &e);
    party_note("%d after %.1f s: %s | %s", (int)result, party_clock() - began, e.text, lines[0]);
    return !(result == HOOP_ERR_AUTH && strstr(e.text, "wrong secret or job name, or a proxy with nothing behind it") &&
             told[0] == 1 && strstr(lines[0], "another secret or job name") && strstr(lines[0], "HOOP_SECRET_FILE=/"));
}

static void
nothing_there(void)
{
    char other[400];
    snprintf(other, sizeof(other), "%s/other", tap_tmpdir());
    FILE *f = fopen(other, "w");
    if (!f || fchmod(fileno(f), 0600) != 0 || fprintf(f, "%064d\n", 7) < 0 || fclose(f) != 0)
        bail("cannot write %s", other);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "8000", 1);
    proxy_shut_for(&doors->door[0], PROXY_CLOSES_LATER, 600);
    is_int(0, party_run(&p, 2, in_vain, other, 60),
           "a wrong secret, or no target: a line, then an error that names both");
    for (int rank = 0; rank < 2; rank++)
        diag("rank %d: %s", rank, p.guest[rank].note);
}

/* The way to the server leads through a door, and the rank says that it is behind a proxy. */
static hoop_result
create_behind(int rank, hoop_comm **comm)
{
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&doors->door[rank].port));
    setenv("HOOP_RENDEZVOUS", address, 1);
    setenv("HOOP_ADVERTISE", "127.0.0.1", 1);
    return hoop_comm_create(comm, NULL);
}

/* All ways to the server are closed while all compute, then while all but rank 0 are in an operation, then in a split. */
static int
rides(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL, *part = NULL;
    hoop_error e = {.size = sizeof(e)};
    int32_t one = 1, sum[3] = {0};
    hoop_result result = create_behind(rank, &comm);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&one, &sum[0], 1, HOOP_INT32, HOOP_SUM, comm);
    if (rank == 0)
        proxy_drop_all(doors, 2);
    party_nap(rank == 0 ? 2 : 1);
    if (rank == 0)
        proxy_drop_all(doors, 2);
    party_nap(rank == 0 ? 1 : 0);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&one, &sum[1], 1, HOOP_INT32, HOOP_SUM, comm);
    if (rank == 0)
        proxy_drop_all(doors, 2);
    if (result == HOOP_SUCCESS)
        result = hoop_comm_split(comm, 0, rank, &part);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&one, &sum[2], 1, HOOP_INT32, HOOP_SUM, part);
    hoop_comm_error(comm, &e);
    party_note("%d, %d %d %d: %.300s", (int)result, (int)sum[0], (int)sum[1], (int)sum[2], e.text);
    hoop_comm_destroy(part);
    hoop_comm_destroy(comm);
    return !(result == HOOP_SUCCESS && sum[0] == size && sum[1] == size && sum[2] == size);
}

enum { VICTIM = 3, MANY = 9 }; /* so many ranks have no chord before they use it */

/* Rank 3 is killed after that, and the others wait for it. */
static int
is_bereaved(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL;
    hoop_error e = {.size = sizeof(e)};
    int32_t one = 1, sum;
    hoop_result result = create_behind(rank, &comm);
    if (result == HOOP_SUCCESS)
        result = hoop_barrier(comm);
    if (rank == 0)
        proxy_drop_all(doors, 2);
    party_nap(rank == VICTIM ? 2 : 0);
    if (rank == VICTIM)
        raise(SIGKILL);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    hoop_comm_error(comm, &e);
    party_note("%d %.300s", (int)result, e.text);
    hoop_comm_destroy(comm);
    return !(result == HOOP_ERR_PEER_LOST && e.rank == VICTIM && strstr(e.text, "rank 3 ("));
}

/*
 * Rank 3, to which rank 0 has no connection, is killed. The proxy before it accepts connections and closes them. Rank 0 waits
 * for a message from it, or for its split; the others do nothing.
 */
static int
misses(int rank, int size, void *splits)
{
    hoop_comm *comm = NULL, *part = NULL;
    hoop_error e = {.size = sizeof(e)};
    int32_t byte = 0;
    (void)size;
    setenv("HOOP_PEER_TIMEOUT_MS", "5000", 1);
    setenv("HOOP_LOCAL_RANK", "0", 1);
    if (rank < PROXY_DOORS)
        proxy_stand_before(doors, rank);
    hoop_result result = party_create(&comm);
    party_mark();
    if (rank == VICTIM && result == HOOP_SUCCESS && party_await_marks(size))
        raise(SIGKILL);
    if (rank != 0) {
        party_await_marks(size + 1);
        hoop_comm_abort(comm, NULL);
        hoop_comm_destroy(comm);
        return result != HOOP_SUCCESS;
    }
    double began = party_clock();
    if (result == HOOP_SUCCESS && splits)
        result = hoop_comm_split(comm, 0, 0, &part);
    else if (result == HOOP_SUCCESS)
        result = hoop_recv(&byte, 1, HOOP_INT32, VICTIM, 0, comm);
    double took = party_clock() - began;
    hoop_comm_error(comm, &e);
    party_note("%d after %.1f s: %.300s", (int)result, took, e.text);
    party_mark();
    hoop_comm_destroy(comm);
    return !(result == HOOP_ERR_PEER_LOST && e.rank == VICTIM && took > 4 && took < 30);
}

static void
unseen(void)
{
    for (int splits = 0; splits < 2; splits++) {
        proxy_reset(doors);
        is_int(1, party_run(&p, MANY, misses, splits ? &p : NULL, 60),
               "a rank ends behind a proxy while %s: it is named when peer_timeout is up",
               splits ? "another waits in a split" : "another waits for its message");
        for (int rank = 0; rank < MANY; rank++)
            diag("rank %d: %s", rank, p.guest[rank].note);
    }
}

/* The server ends, and its proxy closes what comes then. */
static int
outlives(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL;
    int32_t one = 1, sum = 0;
    hoop_result result = create_behind(rank, &comm);
    if (result == HOOP_SUCCESS)
        result = hoop_barrier(comm);
    if (rank == 0)
        kill(p.server, SIGKILL);
    party_nap(1);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    party_note("%d, %d", (int)result, (int)sum);
    hoop_comm_destroy(comm);
    return !(result == HOOP_SUCCESS && sum == size);
}

/* Whether all ranks have left both rings, as the server says; shows: what it says, too. */
static int
all_have_left(int shows)
{
    char line[512];
    int found = 0;
    FILE *f = fopen(p.log, "r");
    for (; f && fgets(line, sizeof(line), f); found += strstr(line, "over: all 5 ranks left") != NULL)
        if (shows)
            diag("%.*s", (int)strcspn(line, "\n"), line);
    if (f)
        fclose(f);
    return found == 2;
}

static void
closed_later(void)
{
    for (int rank = 0; rank < RANKS; rank++)
        atomic_store(&doors->door[rank].target, atoi(strrchr(p.address, ':') + 1));
    party_expect(&p, RANKS, rides, NULL, 60, "the ways to the server are closed in order: the job goes on");
    for (tap_wait w = {0}; !all_have_left(0) && tap_waits(&w);)
        party_nap(0.01);
    ok(all_have_left(1), "the server has heard of all, to the end");
    is_int(1, party_run(&p, RANKS, is_bereaved, NULL, 60), "of a rank that is killed all others hear by name");
    for (int rank = 0; rank < RANKS; rank++)
        diag("rank %d: %s", rank, p.guest[rank].note);
    party_expect(&p, RANKS, outlives, NULL, 60, "the server ends: the job goes on, and all leave");
    diag("after %.1f s", p.guest[0].seconds);
}

static void
play(int scene)
{
    doors = proxy_open();
    party_open(&p);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "60000", 1);
    if (scene < 2)
        late_targets(scene);
    else if (scene == 2)
        nothing_there();
    else if (scene == 3)
        closed_later();
    else
        unseen();
    party_close(&p);
    proxy_close(doors);
}

int
main(void)
{
    tap_limit(300);
    plan_lazy();
    tap_scenes(5, play);
    return 0;
}
