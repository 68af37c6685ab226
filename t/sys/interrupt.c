/* SPDX-License-Identifier: MIT */
/*
 * interrupt: hoop_interrupt_by in each blocking call. Ranks 0 and 1 are in the call, which cannot end as rank 2 stays
 * away, and the function of rank 1 interrupts it when it is asked for the third time; in hoop_comm_create after six seconds,
 * because a rank that has not reached the server can tell nobody.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 3, GUILTY = 1, ASKED = 3, ASKED_TO_CREATE = 60 };

static party p;
static int asked, most = ASKED, is_last;

static int
interrupt(void *arg)
{
    is_last = ++*(int *)arg == most;
    return is_last;
}

static hoop_result
wait_for_work(hoop_comm *comm)
{
    static float x;
    hoop_work *work = NULL;
    hoop_result result = hoop_iallreduce(&x, &x, 1, HOOP_FLOAT32, HOOP_SUM, comm, &work);
    return result ? result : hoop_work_wait_or_fail(work, -1);
}

static hoop_result
end_group(hoop_comm *comm)
{
    static float x[2];
    hoop_group_start(comm);
    for (int i = 0; i < 2; i++)
        hoop_allreduce(&x[i], &x[i], 1, HOOP_FLOAT32, HOOP_SUM, comm);
    return hoop_group_end(comm);
}

static hoop_result
receive(hoop_comm *comm)
{
    float x;
    return hoop_recv(&x, 1, HOOP_FLOAT32, RANKS - 1, 0, comm);
}

static hoop_result
destroy(hoop_comm *comm)
{
    static float x;
    hoop_work *work = NULL;
    hoop_result result = hoop_iallreduce(&x, &x, 1, HOOP_FLOAT32, HOOP_SUM, comm, &work);
    hoop_work_free(work);
    return result ? result : hoop_comm_destroy(comm);
}

static hoop_result
split(hoop_comm *comm)
{
    hoop_comm *part = NULL;
    return hoop_comm_split(comm, 0, 0, &part);
}

static const struct way {
    const char *name;
    hoop_result (*call)(hoop_comm *comm); /* NULL: hoop_comm_create */
} ways[] = {{"hoop_comm_create", NULL},    {"hoop_comm_split", split},    {"hoop_barrier", hoop_barrier},
            {"hoop_recv", receive},        {"hoop_group_end", end_group}, {"hoop_work_wait_or_fail", wait_for_work},
            {"hoop_comm_destroy", destroy}};
enum { WAYS = sizeof(ways) / sizeof(*ways) };

static int
take_part(int rank, int size, void *arg)
{
    const struct way *way = arg;
    hoop_comm *comm = way->call ? party_join(1) : NULL;
    hoop_error e = {.size = sizeof(e)};
    hoop_result result = HOOP_SUCCESS;
    if (!way->call)
        most = ASKED_TO_CREATE;
    if (rank == GUILTY)
        hoop_interrupt_by(interrupt, &asked);
    double began = party_clock();
    if (rank < RANKS - 1)
        result = way->call ? way->call(comm) : hoop_comm_create(&comm, NULL);
    double seconds = party_clock() - began;
    hoop_comm_error(way->call == destroy ? NULL : comm, &e);
    hoop_interrupt_by(NULL, NULL);
    party_mark();
    party_await_marks(RANKS);
    hoop_result later = comm && way->call != destroy ? hoop_barrier(comm) : HOOP_SUCCESS;
    party_note("%d after %.1f s, asked %d times, a barrier: %d; %s", (int)result, seconds, asked, (int)later, e.text);
    if (rank == RANKS - 1)
        return way->call == split && later != HOOP_SUCCESS;
    int is_told = result == HOOP_ERR_ABORTED && strstr(e.text, "rank 1 was interrupted");
    int is_asked = rank != GUILTY || (is_last && asked == most && seconds >= 0.1 * (most - 1));
    int is_over = way->call && way->call != split && way->call != destroy;
    return !(is_told && is_asked && is_over == (later != HOOP_SUCCESS));
}

static void
play(int scene)
{
    party_open(&p);
    party_expect(&p, RANKS, take_part, (void *)&ways[scene], 60, ways[scene].name);
    party_close(&p);
}

int
main(void)
{
    tap_limit(120);
    plan_lazy();
    tap_scenes(WAYS, play);
    return 0;
}
