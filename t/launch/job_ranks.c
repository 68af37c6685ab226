/* SPDX-License-Identifier: MIT */
/* What the launcher tells its server of ranks: the message there and back, and for how long it counts. */
#include "launch/job_ranks.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3 };

static hp_job_rank *ranks;
static uint64_t now = 1000 * HP_SEC;

/* The launcher tells of a rank, and the server's process takes it. */
static int
tell(int rank, uint32_t pid, hp_process state, int ended, const char *host)
{
    const hp_job_rank told = {.pid = pid, .state = state, .ended = ended, .host = host};
    hp_buffer wire = {0};
    hp_agent_msg msg;
    hoop_error error;
    hp_job_rank_put(&wire, rank, &told);
    if (hp_agent_msg_get(&wire, HP_TO_SERVER, &msg, &error) != 1)
        bail("%s", error.text);
    int taken = hp_job_rank_take(ranks, RANKS, &msg, now);
    hp_buffer_free(&wire);
    return taken;
}

static hp_process
process(int rank, uint32_t pid)
{
    return hp_job_rank_process(ranks, RANKS, rank, pid, now);
}

static void
check_message(void)
{
    ok(tell(2, 0, HP_PROCESS_UNKNOWN, 0, "n2") == -1 && strcmp(ranks[2].host, "n2") == 0, "where a rank will run");
    ok(tell(2, 4711, HP_PROCESS_STOPPED, 0, "another") == -1 && strcmp(ranks[2].host, "another") == 0, "that it moved");
    ok(ranks[2].pid == 4711 && ranks[2].state == HP_PROCESS_STOPPED, "all else of it");
    ok(tell(2, 4711, HP_PROCESS_RUNS, 1, "another") == 2, "it has ended");
    ok(tell(2, 4711, HP_PROCESS_RUNS, 1, "another") == -1, "which counts once");
    ok(tell(2, 0, HP_PROCESS_UNKNOWN, 0, "n2") == -1 && tell(2, 0, HP_PROCESS_UNKNOWN, 1, "n2") == 2,
       "until it is started again, and ends again");
    ok(tell(RANKS, 1, HP_PROCESS_RUNS, 1, "n") == -1 && tell(-1, 1, HP_PROCESS_RUNS, 1, "n") == -1,
       "a rank that there is not");
}

static void
check_process(void)
{
    ok(process(1, 77) == HP_PROCESS_UNKNOWN, "nothing is known of a process");
    tell(1, 77, HP_PROCESS_RUNS, 0, "b");
    ok(process(1, 77) == HP_PROCESS_RUNS, "it runs");
    ok(process(1, 78) == HP_PROCESS_UNKNOWN, "another process of that rank is not meant");
    ok(process(0, 77) == HP_PROCESS_RUNS && process(RANKS, 77) == HP_PROCESS_RUNS,
       "a ring that was shrunk has another number for it");
    tell(0, 77, HP_PROCESS_STOPPED, 0, "a");
    ok(process(RANKS, 77) == HP_PROCESS_UNKNOWN, "... which tells nothing if two hosts have such a process");
    now += 4 * HP_SEC;
    ok(process(1, 77) == HP_PROCESS_RUNS, "four seconds later that counts");
    now += HP_SEC;
    ok(process(1, 77) == HP_PROCESS_UNKNOWN, "after five it does not");
    tell(1, 77, HP_PROCESS_STOPPED, 0, "b");
    ok(process(1, 77) == HP_PROCESS_STOPPED, "it is said again: it is stopped");
}

int
main(void)
{
    plan_lazy();
    ranks = hp_xcalloc(RANKS, sizeof(*ranks));
    check_message();
    check_process();
    hp_job_ranks_free(ranks, RANKS);
    return 0;
}
