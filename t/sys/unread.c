/* SPDX-License-Identifier: MIT */
/*
 * unread: nobody reads what hoop-rendezvous says, into a pipe or a terminal. It serves on: jobs come and go, ranks meet,
 * and a rank that is missing is warned of. Once somebody reads again, the server says how many lines were lost.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 300, PAGE = 4096, SOON = 60 };

static pid_t server;
static FILE *said;

/* A terminal or a pipe, with as little room as it may have: [0] to read from, [1] for the server. */
static void
open_ends(int ends[2], int terminal)
{
    char name[64];
    if (!terminal) {
        if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[1], F_SETPIPE_SZ, PAGE) < 0)
            bail("no pipe");
        return;
    }
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] < 0 || grantpt(ends[0]) != 0 || unlockpt(ends[0]) != 0 || ptsname_r(ends[0], name, sizeof(name)) != 0)
        bail("no terminal");
    ends[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

/* Starts hoop-rendezvous, whose first line has its address. */
static void
start(int terminal)
{
    char program[512], line[256] = "";
    int ends[2];
    snprintf(program, sizeof(program), "%s/bin/hoop-rendezvous", getenv("abs_top_builddir"));
    open_ends(ends, terminal);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execl(program, program, "--security", "none", "--port", "0", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    said = fdopen(ends[0], "r");
    if (!fgets(line, sizeof(line), said) || !strstr(line, "listening on "))
        bail("hoop-rendezvous did not start: %s", line);
    line[strcspn(line, "\r\n")] = '\0';
    setenv("HOOP_RENDEZVOUS", strstr(line, "listening on ") + strlen("listening on "), 1);
}

static void
stop(void)
{
    int status = -1;
    kill(server, SIGTERM);
    waitpid(server, &status, 0);
    fclose(said);
    is_int(0, status, "the server ends by SIGTERM as ever");
}

/* A rank of a job of its own, or one of `size`: in, and out again. */
static int
come_and_go(const char *job, const char *rank, const char *size)
{
    hoop_comm *comm = NULL;
    setenv("HOOP_JOB", job, 1);
    setenv("HOOP_RANK", rank, 1);
    setenv("HOOP_SIZE", size, 1);
    return hoop_comm_create(&comm, NULL) == HOOP_SUCCESS && hoop_barrier(comm) == HOOP_SUCCESS &&
           hoop_comm_destroy(comm) == HOOP_SUCCESS;
}

static int
two_meet(void)
{
    int status = -1;
    pid_t other = fork();
    if (other == 0) {
        alarm(SOON);
        _exit(!come_and_go("two", "1", "2"));
    }
    int good = come_and_go("two", "0", "2");
    waitpid(other, &status, 0);
    return good && status == 0;
}

/* The line of a job that comes after everything that waited was read. */
static int
tells_of_lost_lines(void)
{
    char bytes[PAGE];
    struct pollfd end = {.fd = fileno(said), .events = POLLIN};
    while (poll(&end, 1, 300) > 0)
        if (read(end.fd, bytes, sizeof(bytes)) <= 0)
            return 0;
    come_and_go("read again", "0", "1");
    poll(&end, 1, SOON * 1000);
    ssize_t n = read(end.fd, bytes, sizeof(bytes) - 1);
    bytes[n > 0 ? n : 0] = '\0';
    return strstr(bytes, "lines before it are lost") != NULL;
}

static void
test_unread(int terminal, const char *what)
{
    char job[32];
    int came = 0;
    start(terminal);
    double begin = party_clock();
    for (int i = 0; i < JOBS && party_clock() < begin + SOON; i++) {
        snprintf(job, sizeof(job), "%d", i);
        came += come_and_go(job, "0", "1");
    }
    is_int(JOBS, came, "%s that nobody reads: jobs come and go, in %.1f s", what, party_clock() - begin);
    begin = party_clock();
    ok(two_meet(), "and two ranks meet");
    ok(party_clock() - begin < 1 + tap_room(), "in %.1f s", party_clock() - begin);
    ok(tells_of_lost_lines(), "who reads again is told how many lines were lost");
    stop();
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    if (!getenv("abs_top_builddir"))
        bail("abs_top_builddir is not set");
    setenv("HOOP_SECURITY", "none", 1);
    setenv("HOOP_CONF_FILE", "", 1);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "30000", 1);
    test_unread(0, "a pipe");
    test_unread(1, "a terminal");
    return 0;
}
