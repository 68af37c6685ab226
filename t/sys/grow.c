/* SPDX-License-Identifier: MIT */
/*
 * hoop_comm_grow: processes that wait (HOOP_JOIN=1) become the last ranks of a running ring, and the old ones keep their
 * numbers. Nobody waits for a newcomer that has died; one with other settings is refused; a ring that has lost a rank is
 * shrunk, and grows again.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static party p;

static int
bad(const char *what, hoop_comm *comm)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    party_note("%s: %d %s", what, e.code, e.text);
    return 1;
}

/* Guests below `first` are the ranks of the first ring, the others wait for a place. NULL: there is none. */
static hoop_comm *
enter(int guest, int first)
{
    char size[12];
    hoop_comm *comm = NULL;
    snprintf(size, sizeof(size), "%d", first);
    setenv("HOOP_SIZE", size, 1);
    if (guest >= first) {
        unsetenv("HOOP_SIZE");
        unsetenv("HOOP_RANK");
        setenv("HOOP_JOIN", "1", 1);
    }
    return hoop_comm_create(&comm, NULL) == HOOP_SUCCESS ? comm : NULL;
}

/* All ranks call it, new ones as soon as they are in. */
static int
grow_to(hoop_comm **comm, int size)
{
    while (hoop_comm_size(*comm) < size) {
        hoop_comm *old = *comm;
        uint64_t epoch = hoop_comm_epoch(old);
        int was = hoop_comm_size(old), rank = hoop_comm_rank(old);
        if (hoop_comm_grow(old, comm) != HOOP_SUCCESS)
            return bad("grow", old);
        if (*comm == old) {
            party_nap(0.01);
            continue;
        }
        if (hoop_comm_rank(*comm) != rank || hoop_comm_size(*comm) <= was || hoop_comm_epoch(*comm) != epoch + 1)
            return bad("another rank, size or epoch", *comm);
        if (hoop_comm_destroy(old) != HOOP_SUCCESS)
            return bad("the old ring", NULL);
    }
    return 0;
}

/* Sums are right, and the guests below `first` have their own numbers. */
static int
works(hoop_comm *comm, int guest, int first)
{
    enum { COUNT = 40000 };
    static int32_t values[COUNT], sums[COUNT];
    int all[16], size = hoop_comm_size(comm);
    if (hoop_allgather(&guest, all, 1, HOOP_INT32, comm) != HOOP_SUCCESS)
        return bad("allgather", comm);
    for (int i = 0; i < first; i++)
        if (all[i] != i)
            return bad("an old rank has another number", comm);
    for (int i = 0; i < COUNT; i++)
        values[i] = i * (hoop_comm_rank(comm) + 1);
    memset(sums, 0xff, sizeof(sums));
    if (hoop_allreduce(values, sums, COUNT, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS)
        return bad("allreduce", comm);
    for (int i = 0; i < COUNT; i++)
        if (sums[i] != i * size * (size + 1) / 2)
            return bad("a wrong sum", comm);
    return 0;
}

/* Two ranks; the others come by themselves, in any order. */
static int
grows(int guest, int size, void *arg)
{
    const int *first = arg;
    if (guest >= *first)
        party_nap((double)(tap_mix((uint64_t)guest) % 200) / 1e3);
    hoop_comm *comm = enter(guest, *first), *part;
    if (!comm || grow_to(&comm, size) || works(comm, guest, *first))
        return !comm ? bad("create", NULL) : 1;
    hoop_comm *same = NULL;
    if (hoop_comm_grow(comm, &same) != HOOP_SUCCESS || same != comm)
        return bad("nobody waits", comm);
    if (hoop_comm_split(comm, guest % 2, 0, &part) != HOOP_SUCCESS || hoop_barrier(part) != HOOP_SUCCESS)
        return bad("a split of it", comm);
    return (hoop_comm_destroy(part) | hoop_comm_destroy(comm)) != HOOP_SUCCESS;
}

/* Guest 2 waits, and dies; guest 3 comes after that. */
static int
one_died(int guest, int size, void *arg)
{
    if (guest == 2) {
        alarm(1); /* inside hoop_comm_create */
        signal(SIGALRM, SIG_DFL);
        enter(guest, 2);
        return 1;
    }
    if (guest == 3)
        party_await_marks(1);
    hoop_comm *comm = enter(guest, 2);
    if (guest < 2 && !party_await_marks(1))
        return bad("guest 2 has not died", NULL);
    if (!comm || grow_to(&comm, size - 1) || works(comm, guest, 2))
        return !comm ? bad("create", NULL) : 1;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* Guest 2 wants other settings than the ring has. */
static int
misfit(int guest, int size, void *arg)
{
    if (guest == 2)
        setenv("HOOP_CHANNELS", "2", 1);
    if (guest == 3) /* those that wait are compared with each other, too */
        party_await_marks(1);
    hoop_comm *comm = enter(guest, 2);
    if (guest == 2) {
        hoop_error e = {.size = sizeof(e)};
        hoop_comm_error(NULL, &e);
        party_mark();
        if (!comm && e.code == HOOP_ERR_MISMATCH && strstr(e.text, "settings differ") && strstr(e.text, "channels=2"))
            return 0;
        return bad("a misfit", comm);
    }
    if (!comm || grow_to(&comm, size - 1) || works(comm, guest, 2))
        return !comm ? bad("create", NULL) : 1;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* Rank 1 of three dies, two go on, and guest 3 takes its place. */
static int
again(int guest, int size, void *arg)
{
    hoop_comm *comm = enter(guest, size - 1), *rest;
    if (!comm)
        return bad("create", NULL);
    if (guest == 1)
        kill(getpid(), SIGKILL);
    if (guest < size - 1) {
        while (hoop_barrier(comm) == HOOP_SUCCESS)
            continue;
        if (hoop_comm_shrink(comm, &rest) != HOOP_SUCCESS)
            return bad("shrink", comm);
        hoop_comm_destroy(comm);
        comm = rest;
    }
    if (grow_to(&comm, size - 1) || works(comm, guest, 1) || hoop_comm_epoch(comm) != 2)
        return 1;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static int
refused(const char *what, hoop_comm *comm, hoop_result wanted, hoop_result seen, const char *words)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    if (seen == wanted && strstr(e.text, words))
        return 0;
    party_note("%s: %d %s", what, (int)seen, e.text);
    return 1;
}

static int
misused(int guest, int size, void *arg)
{
    hoop_comm *comm = party_join(1), *next = NULL;
    if (refused("no place", comm, HOOP_ERR_INVALID_ARGUMENT, hoop_comm_grow(comm, NULL), "newcomm is NULL"))
        return 1;
    hoop_group_start(comm);
    if (refused("in a group", comm, HOOP_ERR_INVALID_USAGE, hoop_comm_grow(comm, &next),
                "hoop_comm_grow cannot be called inside"))
        return 1;
    hoop_group_end(comm);
    hoop_result result = guest ? hoop_comm_grow(comm, &next) : hoop_comm_split(comm, 0, 0, &next);
    int wrong =
        refused("one grows, and another one splits", comm, HOOP_ERR_MISMATCH, result, "all ranks must call the same") ||
        next;
    hoop_comm_destroy(comm);
    return wrong;
}

/* A ring of one that no server knows. */
static int
alone(int guest, int size, void *arg)
{
    hoop_comm *comm, *same = NULL;
    unsetenv("HOOP_RENDEZVOUS");
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || hoop_comm_grow(comm, &same) != HOOP_SUCCESS || same != comm)
        return bad("alone", NULL);
    hoop_comm_destroy(comm);
    setenv("HOOP_JOIN", "1", 1);
    if (refused("a rank and a size", NULL, HOOP_ERR_INVALID_ARGUMENT, hoop_comm_create(&comm, NULL), "has neither"))
        return 1;
    unsetenv("HOOP_RANK");
    unsetenv("HOOP_SIZE");
    return refused("no server", NULL, HOOP_ERR_INVALID_ARGUMENT, hoop_comm_create(&comm, NULL),
                   "HOOP_RENDEZVOUS is not set");
}

int
main(void)
{
    plan_lazy();
    party_open(&p);
    for (int i = 0; i < party_rounds(60); i++) {
        int first = 1 + i % 4;
        party_expect(&p, first + 4, grows, &first, 90, "four newcomers");
    }
    siginfo_t died;
    party_start(&p, 4, one_died, NULL, 90);
    waitid(P_PID, (id_t)p.guest[2].pid, &died, WEXITED | WNOWAIT);
    party_mark();
    party_wait(&p);
    ok(p.guest[2].status == SIGALRM && !p.guest[0].status && !p.guest[1].status && !p.guest[3].status,
       "a newcomer that dies while it waits is not taken; %s%s", p.guest[0].note, p.guest[3].note);
    party_expect(&p, 4, misfit, NULL, 90, "a newcomer with other settings is refused");
    is_int(1, party_run(&p, 4, again, NULL, 90), "a ring that has lost a rank grows again");
    is_int(SIGKILL, p.guest[1].status, "... the others ended well");
    party_expect(&p, 2, misused, NULL, 90, "misuse");
    party_expect(&p, 1, alone, NULL, 90, "a ring of one");
    party_close(&p);
    return tap_failures() != 0;
}
