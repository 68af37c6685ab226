/* SPDX-License-Identifier: MIT */
/*
 * Messages whose peer is late, or never takes what it was sent: who waits says so, after as many milliseconds as it
 * should, and names the pair and the call. A stall of five seconds is no fault.
 */
#include "hoop.h"
#include "t/sys/told.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 5, WARN_MS = 600, LIMIT_MS = 12000, LINES = 8 };

static struct log {
    char line[LINES][320];
    double at[LINES];
    atomic_int lines;
} heard;

static void
keep(void *arg, int level, const char *line)
{
    int n = atomic_load(&heard.lines);
    if (n == LINES)
        return;
    snprintf(heard.line[n], sizeof(heard.line[n]), "%s", line);
    heard.at[n] = party_clock();
    atomic_store(&heard.lines, n + 1);
}

static void
keep_and_mark_second(void *arg, int level, const char *line)
{
    keep(arg, level, line);
    if (atomic_load(&heard.lines) == 2)
        party_mark();
}

/* When line k came, in milliseconds since then. */
static int
came(int k, double since)
{
    return (int)((heard.at[k] - since) * 1000);
}

/*
 * 1 if line k came after `ms` milliseconds, and five seconds later at most, has the text, and behind `before` the seconds
 * that had passed, and then `after`. A line later than the first is due at twice the time of the one before, at most.
 */
static int
line_is(int k, double since, int ms, const char *text, const char *before, const char *after)
{
    const char *said = strstr(heard.line[k], before);
    int at = came(k, since), passed = said ? (int)(strtod(said + strlen(before), NULL) * 1000) : -1;
    int due = k > 0 && 2 * came(k - 1, since) > ms ? 2 * came(k - 1, since) : ms;
    if (k < atomic_load(&heard.lines) && at >= ms - 50 && at < due + 5000 && passed >= ms - 50 && passed <= at + 100 &&
        strstr(heard.line[k], text) && strstr(said, after))
        return 1;
    party_note("line %d of %d after %d ms, not %d: %.300s", k, atomic_load(&heard.lines), at, ms, heard.line[k]);
    return 0;
}

/* Rank 0 sends once rank 1 has said twice that it waits. */
static int
late(int rank, int size, void *arg)
{
    int32_t value[COUNT] = {0};
    hoop_comm *comm = party_join(1);
    hoop_comm_set_name(comm, "pipe");
    hoop_log_to(rank ? keep_and_mark_second : keep, NULL);
    double since = party_clock();
    int good = 1;
    if (rank == 0) {
        good = party_await_marks(1) && hoop_send(value, COUNT, HOOP_INT32, 1, 3, comm) == HOOP_SUCCESS &&
               atomic_load(&heard.lines) == 0;
    } else {
        good = hoop_recv(value, COUNT, HOOP_INT32, 0, 3, comm) == HOOP_SUCCESS;
        good = good && atomic_load(&heard.lines) >= 2 && strstr(heard.line[0], "\"pipe\": rank 1 (");
        for (int k = 0; good && k < atomic_load(&heard.lines); k++)
            good = line_is(k, since, WARN_MS << k, ") waits in recv of 5 x int32 (tag 3) from rank 0 (",
                           "), which has not sent it; ", " s so far");
    }
    good &= hoop_barrier(comm) == HOOP_SUCCESS;
    return !good || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/*
 * Rank 1 does not take what was sent ahead, until rank 0 has left; then it comes, and the rest is lost. Rank 0 sends
 * once rank 1 has left its first receive, which takes what else has come. Each says so through its pipe of `arg`.
 */
static int
never_taken(int rank, int size, void *arg)
{
    enum { AHEAD = 64 << 10, PIECES = 15 };
    static uint8_t bytes[AHEAD];
    const int *ends = arg;
    hoop_comm *comm = party_join(1);
    hoop_result result =
        rank ? hoop_recv(bytes, 1, HOOP_UINT8, 0, 0, comm) : hoop_send(bytes, 1, HOOP_UINT8, 1, 0, comm);
    hoop_comm_set_name(comm, "pipe");
    hoop_log_to(keep, NULL);
    if ((rank ? write(ends[1], bytes, 1) : read(ends[0], bytes, 1)) != 1)
        return 1;
    if (rank == 1 && read(ends[2], bytes, 1) != 1)
        return 1;
    for (int i = 0; i < PIECES && result == HOOP_SUCCESS; i++)
        result =
            rank ? hoop_recv(bytes, AHEAD, HOOP_UINT8, 0, 1, comm) : hoop_send(bytes, AHEAD, HOOP_UINT8, 1, 1, comm);
    double since = party_clock();
    tell(comm, result, since);
    int left = hoop_comm_destroy(comm) == HOOP_SUCCESS, last = atomic_load(&heard.lines) - 1;
    if (rank == 1)
        return 0;
    int good = write(ends[3], bytes, 1) == 1 && left && last >= 2 && strstr(heard.line[0], "\"pipe\": rank 0 (");
    for (int k = 0; good && k <= last; k++)
        good = line_is(k, since, k < last ? WARN_MS << k : LIMIT_MS, "leaves, and rank 1 (",
                       ") has not received what was sent to it for ",
                       k < last ? " s; it takes it at its next call" : " s; that is lost");
    return !good;
}

int
main(void)
{
    int ends[4]; /* of two pipes */
    plan_lazy();
    tap_limit(240);
    party_open(&p);
    setenv("HOOP_WARN_AFTER_MS", "600", 1);
    party_expect(&p, 2, late, NULL, 60, "a receive that waits says so");
    setenv("HOOP_SHM", "0", 1); /* memory would hold all */
    setenv("HOOP_RCVBUF", "16384", 1);
    setenv("HOOP_OP_TIMEOUT_MS", "12000", 1);
    if (pipe(ends) || pipe(ends + 2))
        bail("pipe: %s", strerror(errno));
    party_expect(&p, 2, never_taken, ends, 60, "a rank that leaves says who does not take its messages");
    ok(hear(1).result == HOOP_ERR_PEER_LOST && hear(1).rank == 0, "and that one hears later that some are lost: %s",
       p.guest[1].note);
    for (int i = 0; i < 4; i++)
        close(ends[i]);
    party_close(&p);
    return tap_failures() != 0;
}
