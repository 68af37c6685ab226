/* SPDX-License-Identifier: MIT */
/*
 * Limits that a program sets: hoop_comm_set_timeout, whose shortest value of a rank that waits counts, and
 * hoop_work_wait_or_fail. Every rank ends in time, and the sentence names the rank that has not entered, with a server
 * and without one.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, LATE = 1, LARGE = 1 << 22, FLIGHT = 8000, NEVER = 99 };

static int bad;

static void
note(int right, const char *what, double seconds, const hoop_error *error)
{
    if (right || bad++)
        return;
    party_note("%s, after %.2f s: %s", what, seconds, error->text);
}

/*
 * What a rank does: its time-out, -1 for none of its own; how late it is, and whether it comes only when the others have
 * failed (NEVER); the limit of its wait, -1 for none. A limit is not shorter than what a healthy process may be late.
 */
typedef struct deed {
    int timeout_ms;
    double nap;
    int wait_ms;
} deed;

typedef struct scene {
    const char *name, *op_timeout;
    deed deed[RANKS];
    hoop_result result;
    double soonest, latest;
    int server_dies;
} scene;

static const scene scenes[] = {
    {"a time-out of one rank", "60000", {{6000, 0, -1}, {-1, NEVER, -1}, {-1, 0, -1}}, HOOP_ERR_TIMEOUT, 5.9, 7.4, 0},
    {"a time-out of another", "60000", {{-1, 0, -1}, {-1, NEVER, -1}, {5000, 0, -1}}, HOOP_ERR_TIMEOUT, 4.9, 6.4, 0},
    {"no time-out any more", "5000", {{0, 0, -1}, {0, 6, -1}, {0, 0, -1}}, HOOP_SUCCESS, 0, 8, 0},
    {"a longer time-out of every rank",
     "5000",
     {{60000, 0, -1}, {60000, 6, -1}, {60000, 0, -1}},
     HOOP_SUCCESS,
     0,
     8,
     0},
    {"a time-out of the late rank", "60000", {{-1, 0, -1}, {5000, 6, -1}, {-1, 0, -1}}, HOOP_SUCCESS, 0, 8, 0},
    {"a wait with a limit", "60000", {{-1, 0, 5000}, {-1, NEVER, -1}, {-1, 0, -1}}, HOOP_ERR_TIMEOUT, 4.9, 6.4, 0},
    {"a wait with no time", "60000", {{-1, 1, 0}, {-1, NEVER, -1}, {-1, 0, -1}}, HOOP_ERR_TIMEOUT, 0, 2.9, 0},
    {"a wait that ends in time", "60000", {{-1, 0, 50000}, {-1, 0.5, 50000}, {-1, 0, -1}}, HOOP_SUCCESS, 0, 5, 0},
    {"a time-out without a server",
     "60000",
     {{5000, 0, -1}, {-1, NEVER, -1}, {5000, 0, -1}},
     HOOP_ERR_TIMEOUT,
     4.9,
     9.9,
     1},
    {"a wait with a limit, without a server",
     "60000",
     {{-1, 0, 5000}, {-1, NEVER, -1}, {-1, 0, 5000}},
     HOOP_ERR_TIMEOUT,
     4.9,
     10.9,
     1}};
enum { SCENES = sizeof(scenes) / sizeof(scenes[0]) };

typedef struct stage {
    const scene *scene;
    pid_t server;
} stage;

static int
play(int rank, int size, void *arg)
{
    const stage *at = arg;
    const scene *s = at->scene;
    const deed *mine = &s->deed[rank];
    hoop_error error = {.size = sizeof(error)};
    hoop_comm *comm = party_join(1);
    int32_t one = 1, sum = 0;
    hoop_work *work;
    hoop_result result;
    if (mine->timeout_ms >= 0 && hoop_comm_set_timeout(comm, mine->timeout_ms) != HOOP_SUCCESS)
        return 1;
    if (s->server_dies && rank == LATE)
        kill(at->server, SIGKILL);
    if (s->server_dies)
        party_nap(0.3);
    double since = party_clock();
    if (rank == LATE && mine->nap == NEVER)
        note(party_await_marks(RANKS - 1), "the others have ended before it comes", 0, &error);
    else
        party_nap(mine->nap);
    result = hoop_iallreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm, &work);
    if (result == HOOP_SUCCESS)
        result = mine->wait_ms < 0 ? hoop_work_wait(work, -1) : hoop_work_wait_or_fail(work, mine->wait_ms);
    double seconds = party_clock() - since;
    party_mark();
    hoop_comm_error(comm, &error);
    note(result == s->result, "the result", seconds, &error);
    note(rank == LATE || seconds <= s->latest + tap_room(), "too late", seconds, &error);
    if (s->result == HOOP_SUCCESS) {
        note(sum == size, "the sum", seconds, &error);
        return hoop_comm_destroy(comm) != HOOP_SUCCESS || bad;
    }
    note(rank == LATE || seconds >= s->soonest, "too soon", seconds, &error);
    note(error.rank == LATE && strstr(error.text, "rank 1 (") && strstr(error.text, "has not entered operation 2"),
         "names the rank that is late", seconds, &error);
    note(hoop_comm_destroy(comm) == HOOP_ERR_TIMEOUT, "destroying says it too", seconds, &error);
    return bad;
}

/* The limit of a wait ends also an operation that progresses; the values do not matter here. */
static int
progresses(int rank, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm *comm = party_join(1);
    float *data = calloc(LARGE, sizeof(*data));
    static hoop_work *works[FLIGHT];
    for (int i = 0; i < FLIGHT && data; i++)
        hoop_iallreduce(data, data, LARGE, HOOP_FLOAT32, HOOP_SUM, comm, &works[i]);
    double since = party_clock();
    hoop_result result = rank ? hoop_work_wait(works[FLIGHT - 1], -1) : hoop_work_wait_or_fail(works[FLIGHT - 1], 500);
    double seconds = party_clock() - since;
    hoop_comm_error(comm, &error);
    note(result == HOOP_ERR_TIMEOUT && error.rank == 0 && strstr(error.text, "which was the limit of that wait"),
         "ends it", seconds, &error);
    hoop_comm_destroy(comm);
    free(data);
    return bad;
}

static int
mistakes(int rank, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm *comm = party_join(1);
    note(hoop_comm_set_timeout(NULL, 1) == HOOP_ERR_INVALID_ARGUMENT, "NULL", 0, &error);
    note(hoop_comm_set_timeout(comm, -1) == HOOP_ERR_INVALID_ARGUMENT, "-1", 0, &error);
    hoop_comm_error(comm, &error);
    note(strstr(error.text, "hoop_comm_set_timeout: timeout_ms is -1") != NULL, "its sentence", 0, &error);
    note(hoop_comm_set_timeout(comm, 86400001) == HOOP_ERR_INVALID_ARGUMENT, "more than a day", 0, &error);
    note(hoop_comm_set_timeout(comm, 86400000) == HOOP_SUCCESS, "a day", 0, &error);
    note(hoop_work_wait_or_fail(NULL, 1) == HOOP_ERR_INVALID_ARGUMENT, "no work", 0, &error);
    return hoop_barrier(comm) != HOOP_SUCCESS || hoop_comm_destroy(comm) != HOOP_SUCCESS || bad;
}

/* Rank 0 waits for a message that rank 1 does not send. */
static int
no_message(int rank, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm *comm = party_join(1);
    hoop_work *work;
    int32_t value;
    double since = party_clock();
    hoop_result result = rank ? hoop_barrier(comm) : hoop_irecv(&value, 1, HOOP_INT32, 1, 7, comm, &work);
    if (rank == 0 && result == HOOP_SUCCESS)
        result = hoop_work_wait_or_fail(work, 1000);
    double seconds = party_clock() - since;
    hoop_comm_error(comm, &error);
    note(result == HOOP_ERR_TIMEOUT && seconds < 1 + tap_room(), "a limit on a receive", seconds, &error);
    note(error.rank == 1 && strstr(error.text, "in recv of 1 x int32 (tag 7) from rank 1"), "names the call", seconds,
         &error);
    hoop_comm_destroy(comm);
    return bad;
}

typedef enum several { WITH_COLLECTIVE, MESSAGES, ALLTOALLV, GETS_ON } several;

static hoop_result
start_several(several what, int rank, hoop_comm *comm, hoop_work **work)
{
    static const size_t ones[RANKS] = {1, 1, 1};
    static int32_t one[RANKS] = {1, 1, 1}, in[RANKS], sum;
    if (what == ALLTOALLV)
        return hoop_ialltoallv(one, in, ones, NULL, ones, NULL, HOOP_INT32, comm, work);
    hoop_group_start(comm);
    if (what == WITH_COLLECTIVE || what == GETS_ON)
        hoop_allreduce(one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    if (rank == 0)
        hoop_send(one, 1, HOOP_INT32, 2, 3, comm);
    else
        hoop_recv(in, 1, HOOP_INT32, 0, 3, comm);
    if ((what == MESSAGES || what == GETS_ON) && rank == 0)
        hoop_recv(in, 1, HOOP_INT32, LATE, 7, comm);
    return hoop_igroup_end(comm, work);
}

/*
 * Rank 0 waits for several messages, and perhaps for a collective; all but what rank 1 takes part in have ended before. GETS_ON: it
 * enters the collective when that is overdue, so that only its message remains, unless the server has judged before.
 */
static int
waits_for_several(int rank, int size, void *arg)
{
    const several what = *(const several *)arg;
    hoop_error error = {.size = sizeof(error)};
    hoop_comm *comm = party_join(1);
    hoop_work *work = NULL;
    hoop_barrier(comm);
    double since = party_clock();
    if (rank == LATE && what == GETS_ON) {
        party_nap(1.1);
        hoop_allreduce(&(int32_t){1}, &(int32_t){0}, 1, HOOP_INT32, HOOP_SUM, comm);
    }
    if (rank == LATE)
        party_await_marks(1);
    else
        start_several(what, rank, comm, &work);
    hoop_result result = rank == 0 ? hoop_work_wait_or_fail(work, 1000) : work ? hoop_work_wait(work, -1) : 0;
    double seconds = party_clock() - since;
    hoop_comm_error(comm, &error);
    if (rank == 0)
        note(result == HOOP_ERR_TIMEOUT && seconds < 2 + tap_room() && error.rank == LATE, "names rank 1", seconds,
             &error);
    if (rank == 0 && what == WITH_COLLECTIVE)
        note(strstr(error.text, "has not entered operation") != NULL, "the collective", seconds, &error);
    else if (rank == 0 && what != GETS_ON)
        note(strstr(error.text, what == MESSAGES ? "in recv of 1 x int32 (tag 7) from rank 1 (" : "rank 1 (") &&
                 strstr(error.text, "and others of one call"),
             "the message", seconds, &error);
    if (rank == 0)
        party_mark();
    hoop_comm_destroy(comm);
    return bad;
}

static void
play_scene(int i)
{
    party p;
    setenv("HOOP_OP_TIMEOUT_MS", scenes[i].op_timeout, 1);
    party_open(&p);
    stage at = {&scenes[i], p.server};
    is_int(0, party_run(&p, RANKS, play, &at, 120), "%s", scenes[i].name);
    party_close(&p);
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    is_int(0, party_run(&p, 2, mistakes, NULL, 60), "wrong limits are refused");
    is_int(0, party_run(&p, 2, progresses, NULL, 60), "a limit ends an operation that progresses");
    is_int(0, party_run(&p, 2, no_message, NULL, 60), "a limit ends a receive, and names its sender");
    for (several what = WITH_COLLECTIVE; what <= GETS_ON; what++)
        is_int(0, party_run(&p, RANKS, waits_for_several, &what, 60), "a limit on %s names who is missed",
               what == GETS_ON     ? "a group that gets on"
               : what == ALLTOALLV ? "an alltoallv"
               : what == MESSAGES  ? "several messages"
                                   : "a group with a collective");
    party_close(&p);
    tap_scenes(SCENES, play_scene);
    return tap_failures() != 0;
}
