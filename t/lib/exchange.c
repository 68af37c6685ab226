/* SPDX-License-Identifier: MIT */
/*
 * exchange: a process uses the launcher's channel once, says goodbye once when it ends, and its forked children leave the
 * channel alone. If another rank is late, a process may try again, and asks nothing twice. The ranks are processes;
 * this one is the launcher, and writes down what it hears.
 */
#include "lib/exchange.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEARD = 1024, RANK_S = 60, WAIT_S = 50 };

/* The text of rank 0, without blanks. */
#define TEXT "hoop1,127.0.0.1:5801,-"

static const char *const answers[][2] = {{"cmd=init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
                                         {"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=256\n"},
                                         {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1\n"},
                                         {"cmd=put", "cmd=put_result rc=0\n"},
                                         {"cmd=barrier_in", "cmd=barrier_out\n"},
                                         {"cmd=get", "cmd=get_result rc=0 value=" TEXT "\n"},
                                         {"cmd=finalize", "cmd=finalize_ack\n"}};

/* --- the launcher --- */

static int late[2]; /* a pipe: the other rank comes to the barrier once this rank has written to it; 0: at once */

static void
answer(FILE *in, const char *cmd)
{
    char byte;
    if (strcmp(cmd, "cmd=barrier_in") == 0 && late[0] > 0 && read(late[0], &byte, 1) != 1)
        return;
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
        if (strcmp(cmd, answers[i][0]) == 0 && write(fileno(in), answers[i][1], strlen(answers[i][1])) < 0)
            return;
}

/* Answers until all who have the other end have ended; heard: "init get_maxes ...". */
static void
serve(int fd, char heard[HEARD])
{
    FILE *in = fdopen(fd, "r");
    char line[HEARD];
    size_t used = 0;
    heard[0] = 0;
    while (in && fgets(line, sizeof(line), in)) {
        line[strcspn(line, " \n")] = 0;
        used += (size_t)snprintf(heard + used, HEARD - used, "%s%s", used ? " " : "", line + strlen("cmd="));
        answer(in, line);
    }
    if (in)
        fclose(in);
}

/* What the launcher hears of a process that does this, and ends. */
static void
is_heard(const char *wanted, int (*rank)(const hp_launcher *), int number, const char *text)
{
    int ends[2], status = -1;
    char heard[HEARD];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        bail("no sockets");
    hp_launcher l = {.name = "mpiexec (PMI)", .rank = number, .size = 2, .way = HP_BY_PMI, .fd = ends[1]};
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        alarm(RANK_S);
        exit(rank(&l)); /* not _exit: its goodbye is part of this */
    }
    close(ends[1]);
    serve(ends[0], heard);
    waitpid(pid, &status, 0);
    is_string(wanted, heard, "%s", text);
    is_int(0, status, "and the process is content");
}

/* --- the ranks --- */

/* 0: this process has rank 0's text in time, whatever its own was. */
static int
meet_within(uint64_t limit_ns, const hp_launcher *l, const char *own, hoop_error *error)
{
    hp_bounded_wait wait = hp_bounded_wait_of(limit_ns, 0);
    char text[HP_EXCHANGE_TEXT];
    *error = (hoop_error){.size = sizeof(*error)};
    snprintf(text, sizeof(text), "%s", own);
    return hp_exchange_text(l, text, &wait, error) != HOOP_SUCCESS || strcmp(text, TEXT) != 0;
}

static int
meet(const hp_launcher *l, const char *own, hoop_error *error)
{
    return meet_within(WAIT_S * HP_SEC, l, own, error);
}

static int
meets_thrice(const hp_launcher *l)
{
    hoop_error error;
    return meet(l, TEXT, &error) || meet(l, "another", &error) || meet(l, "more", &error);
}

static int
ended_well(pid_t child)
{
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}

/* 0: the error names the rank and its process, and the child is told where to read more. */
static int
is_refused(const hp_launcher *l, int parent)
{
    hoop_error error;
    char who[64];
    snprintf(who, sizeof(who), "forked by rank %d, process %d,", l->rank, parent);
    int bad = !meet(l, "the child's", &error);
    return bad || error.code != HOOP_ERR_RENDEZVOUS || !strstr(error.text, who) ||
           !strstr(error.text, "hoop_launch(7)");
}

static int
forks_afterwards(const hp_launcher *l)
{
    hoop_error error;
    int bad = meet(l, TEXT, &error), parent = (int)getpid();
    pid_t child = fork();
    if (child == 0) {
        alarm(RANK_S);
        exit(is_refused(l, parent));
    }
    return bad || !ended_well(child) || meet(l, "the parent's", &error);
}

/* A program whose worker is the rank. */
static int
forks_before(const hp_launcher *l)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(RANK_S);
        exit(meets_thrice(l));
    }
    return !ended_well(child);
}

/* Two tries end before the other rank comes, and say so; the third one waits for it. The first one gets to the barrier. */
static int
tries_again(const hp_launcher *l)
{
    static const uint64_t limit_ms[] = {5000, 100};
    hoop_error error;
    for (int i = 0; i < 2; i++)
        if (!meet_within(limit_ms[i] * HP_MS, l, TEXT, &error) || error.code != HOOP_ERR_RENDEZVOUS ||
            !strstr(error.text, "but not MPI_Init"))
            return 1;
    return write(late[1], "", 1) != 1 || meet(l, TEXT, &error);
}

int
main(void)
{
    plan(12);
    tap_limit(240);
    is_heard("init get_maxes get_my_kvsname barrier_in get finalize", meets_thrice, 1, "three calls, one exchange");
    is_heard("init get_maxes get_my_kvsname put barrier_in get finalize", meets_thrice, 0, "rank 0 puts its text once");
    is_heard("init get_maxes get_my_kvsname barrier_in get finalize", forks_afterwards, 1,
             "a child that was forked afterwards is silent, also when it ends");
    is_heard("init get_maxes get_my_kvsname barrier_in get finalize", forks_before, 1,
             "one that was forked before may be the rank");
    if (pipe(late) != 0)
        bail("no pipe");
    is_heard("init get_maxes get_my_kvsname put barrier_in get finalize", tries_again, 0,
             "rank 0 enters the barrier once, however often it tries");
    is_heard("init get_maxes get_my_kvsname barrier_in get finalize", tries_again, 1, "and so does rank 1");
    return tap_failures() != 0;
}
