/* SPDX-License-Identifier: MIT */
/* A host's ranks: what each is started with, output before an exit, input and its acknowledgement, stopping, orphans. */
#include "launch/ranks.h"

#include "base/clock.h"
#include "base/wire.h"
#include "launch/rank_env.h"
#include "t/launch/fake_loop.h"
#include "t/launch/fake_process.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static hp_loop *loop;
static hp_ranks *ranks;
static hp_spec spec;
static int secret_fd, restarts;
static hp_buffer out;
static int over; /* the end was heard */
static char heard[2048];

__attribute__((format(printf, 1, 2))) static void
hear(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), format, ap);
    va_end(ap);
}

/* The messages that were added since the last time, and the end, once. */
static void
hear_all(void)
{
    hp_agent_msg msg;
    fake_loop_settle(loop);
    int ended = ranks && hp_ranks_ended(ranks);
    for (; hp_agent_msg_get(&out, HP_TO_LAUNCHER, &msg, NULL) > 0; hp_agent_msg_done(&out, &msg)) {
        const uint8_t *bytes = msg.payload;
        int rank = (int)hp_get32(bytes), pid = msg.size < 8 ? 0 : (int)hp_get32(bytes + 4) - FAKE_PID;
        size_t n = msg.size - 5;
        switch (msg.type) {
        case HP_MSG_STARTED: hear("started %d %d|", rank, pid); break;
        case HP_MSG_OUTPUT:
            if (n > 100)
                hear("output %d %d %zu bytes|", rank, bytes[4], n);
            else
                hear("output %d %d %.*s|", rank, bytes[4], (int)n, (const char *)bytes + 5);
            break;
        case HP_MSG_EXIT:
            hear("exited %d %d %d after %d ms|", rank, pid, (int)hp_get32(bytes + 8), (int)hp_get64(bytes + 12));
            break;
        case HP_MSG_STOPPED: hear("%s %d|", hp_get32(bytes + 8) ? "stopped" : "runs", rank); break;
        case HP_MSG_TAKEN: hear("taken %d|", rank); break;
        default: bail("a message of type %d", msg.type);
        }
    }
    if (ended && !over)
        hear("ended|");
    over = ended;
}

/* What was reported since the last look. */
static void
told(const char *wanted, const char *text)
{
    hear_all();
    is_string(wanted, heard, "%s", text);
    heard[0] = '\0';
}

/* Ranks 4 and 5 of 8, or from rank 0 on; their local ranks are 1 and 2 of 3. */
static hp_ranks *
try(int first, hp_start_error *e)
{
    loop = hp_loop_new();
    spec = (hp_spec){
        .world = 8, .ranks = 2, .local_first = 1, .local_size = 3, .options.pty = 2, .options.max_restarts = restarts};
    spec.rank = malloc(2 * sizeof(*spec.rank));
    spec.rank[0] = first;
    spec.rank[1] = first + 1;
    hp_strings_add(&spec.argv, strdup("./train"));
    hp_strings_add(&spec.argv, strdup("-v"));
    hp_strings_add(&spec.variables, strdup("LR=0.1"));
    secret_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    heard[0] = '\0';
    over = 0;
    hp_rank_env_adopt(&spec);
    return hp_ranks_start(loop, &spec, secret_fd, NULL, &out, e);
}

static void
begin(int first)
{
    hp_start_error e;
    ranks = try(first, &e);
    if (!ranks)
        bail("ranks were not started: %s", e.text);
    hear_all();
    heard[0] = '\0';
}

static void
end_spec(void)
{
    hp_loop_free(loop);
    hp_spec_free(&spec);
    close(secret_fd);
    fake_process_forget();
}

static void
end(void)
{
    hp_ranks_free(ranks);
    ranks = NULL;
    hp_buffer_free(&out);
    end_spec();
}

static void
says(int i, int fd, const char *text)
{
    fake_process_write(fake_process_at(i), fd, text, strlen(text));
}

static void
dies(int i, int wait_status)
{
    fake_process_exit(fake_process_at(i), wait_status);
    hp_ranks_reap(ranks);
}

static void
check_start(void)
{
    hp_start_error e;
    ranks = try(4, &e);
    told("started 4 0|started 5 1|", "both are reported when both run");
    const fake_process *second = fake_process_at(1);
    is_string("./train -v", second->command, "the command");
    is_string("5", fake_process_getenv(second, "HOOP_RANK"), "its rank");
    is_string("8", fake_process_getenv(second, "WORLD_SIZE"), "the number of ranks");
    is_string("2", fake_process_getenv(second, "LOCAL_RANK"), "its local rank");
    is_string("3", fake_process_getenv(second, "HOOP_SECRET_FD"), "where the secret is");
    is_string("0.1", fake_process_getenv(second, "LR"), "a variable handed on");
    ok(second->fd[0] < 0 && second->fd[3] >= 0, "it has no input, and the secret");
    ok(second->session && second->death_signal == SIGKILL, "a session of its own, which dies with the agent");
    is_int(0, second->bound, "it may run on all processors");
    end();
}

static void
check_not_started(void)
{
    hp_start_error e = {0};
    fake_process_fail(HP_SPAWN_EXEC, ENOENT);
    ok(!try(4, &e), "a program that is not there");
    is_int(127, e.status, "has the shells' status");
    ok(strstr(e.text, "there is no program ./train"), "and a sentence: %s", e.text);
    is_string("", heard, "nothing is reported");
    end_spec();
}

static void
check_output(void)
{
    begin(4);
    says(0, 1, "a");
    says(1, 2, "b");
    hear_all();
    ok(strstr(heard, "output 4 1 a|") && strstr(heard, "output 5 2 b|"), "what ranks write comes by rank and stream");
    heard[0] = '\0';
    hp_ranks_pause(ranks, 1);
    says(0, 1, "late");
    told("", "while output is paused none is taken");
    hp_ranks_pause(ranks, 0);
    told("output 4 1 late|", "later it is");
    fake_loop_advance(loop, 3 * HP_SEC / 2);
    hear_all();
    says(1, 1, "last");
    dies(1, 3 << 8);
    told("output 5 1 last|exited 5 1 768 after 1500 ms|", "all output of a rank comes before its exit");
    dies(0, 0);
    told("exited 4 0 0 after 1500 ms|ended|", "after the last exit all has ended");
    end();
}

static void
check_stdin(void)
{
    static uint8_t flood[200000];
    uint8_t seen[100];
    begin(0);
    hp_ranks_stdin(ranks, (const uint8_t *)"hello", 5);
    told("taken 5|", "input that fits into the pipe is taken at once");
    is_uint(5, fake_process_read(fake_process_at(0), 0, seen, sizeof(seen)), "rank 0 has it");
    hp_ranks_stdin(ranks, flood, sizeof(flood));
    int n = 0;
    hear_all();
    ok(sscanf(heard, "taken %d|", &n) == 1 && n < (int)sizeof(flood), "of what does not fit only a part is");
    heard[0] = '\0';
    hp_ranks_stdin_end(ranks);
    size_t all = 0;
    for (size_t got; (got = fake_process_read(fake_process_at(0), 0, flood, sizeof(flood))) > 0; all += got)
        hear_all();
    is_uint(sizeof(flood), all, "the rest comes as rank 0 reads, then its input is at its end");
    heard[0] = '\0';
    dies(0, 0);
    hear_all();
    heard[0] = '\0';
    hp_ranks_stdin(ranks, flood, 10);
    told("taken 10|", "input for a rank that has ended goes nowhere, and is acknowledged");
    dies(1, 0);
    end();
}

static void
check_look(void)
{
    begin(4);
    hp_ranks_look(ranks, 1);
    told("runs 4|runs 5|", "it is reported which processes run");
    fake_loop_advance(loop, HP_SEC / 2);
    hear_all();
    hp_ranks_look(ranks, 1);
    told("", "while nothing changes nothing is");
    fake_loop_advance(loop, HP_SEC / 2);
    hear_all();
    hp_ranks_look(ranks, 1);
    told("runs 4|runs 5|", "until a second has passed");
    dies(0, 0);
    hear_all();
    heard[0] = '\0';
    fake_loop_advance(loop, HP_SEC);
    hear_all();
    hp_ranks_look(ranks, 1);
    told("runs 5|", "nothing of a rank that has ended");
    dies(1, 0);
    end();
}

static void
check_signals(void)
{
    begin(4);
    hp_ranks_signal(ranks, SIGUSR1);
    dies(0, 0);
    hp_ranks_signal(ranks, SIGUSR2);
    is_string("10 ", fake_process_at(0)->signals, "a signal goes to ranks");
    is_string("10 12 ", fake_process_at(1)->signals, "that live");
    dies(1, 0);
    end();
}

static void
check_stop(void)
{
    begin(4);
    hp_ranks_stop(ranks, 5 * HP_SEC);
    is_string("15 18 ", fake_process_at(0)->signals, "stopping: TERM, and CONT so that it is heard");
    fake_loop_advance(loop, 4 * HP_SEC);
    hear_all();
    is_string("15 18 ", fake_process_at(0)->signals, "a grace");
    fake_loop_advance(loop, 2 * HP_SEC);
    hear_all();
    ok(strncmp(fake_process_at(0)->signals, "15 18 9 ", 8) == 0, "then KILL");
    is_string("exited 4 0 9 after 5100 ms|exited 5 1 9 after 5100 ms|ended|", heard, "which ends it");
    end();
    begin(4);
    hp_ranks_stop(ranks, 5 * HP_SEC);
    hp_ranks_stop(ranks, 0);
    fake_loop_advance(loop, HP_SEC);
    hear_all();
    ok(strstr(heard, "ended|"), "a second stop shortens the grace");
    end();
    begin(4);
    hp_ranks_stop(ranks, HP_SEC);
    hp_ranks_stop(ranks, 60 * HP_SEC);
    fake_loop_advance(loop, 2 * HP_SEC);
    hear_all();
    ok(strstr(heard, "ended|"), "and does not make it longer");
    end();
}

/* An orphan is a process that a rank has left behind: the agent adopts it, so waitpid knows it. */
static void
check_orphan(void)
{
    begin(4);
    fake_processes = 3;
    *fake_process_at(2) = (fake_process){.running = 1, .fd = {-1, -1, -1, -1}};
    dies(0, 0);
    dies(1, 0);
    hear_all();
    ok(!strstr(heard, "ended|"), "while an orphan lives, not all has ended");
    fake_loop_advance(loop, HP_SEC);
    hear_all();
    is_string("15 ", fake_process_at(2)->signals, "it has a second to end by itself, then TERM");
    fake_loop_advance(loop, 3 * HP_SEC);
    hear_all();
    ok(strstr(fake_process_at(2)->signals, "9 "), "then KILL");
    ok(strstr(heard, "ended|"), "then all has ended");
    end();
}

/* Ranks that fail are started again, also those of other hosts, until the ranks are stopped. */
static void
check_again(void)
{
    restarts = 9;
    begin(0);
    says(0, 1, "last");
    dies(0, 3 << 8);
    told("output 0 1 last|exited 0 0 768 after 0 ms|", "a rank fails");
    hp_ranks_again(ranks, 0);
    hp_ranks_again(ranks, 1);
    hp_ranks_again(ranks, 6);
    told("started 0 2|started 6 3|", "it is started again, one that runs is not, and one of another host is");
    for (int i = 2; i < 4; i++) {
        const fake_process *p = fake_process_at(i);
        is_string("1", fake_process_getenv(p, "HOOP_JOIN"), "it waits for a place");
        ok(!fake_process_getenv(p, "HOOP_RANK") && !fake_process_getenv(p, "LOCAL_RANK"), "and has no number");
        ok(p->fd[0] < 0 && p->fd[3] >= 0, "it has no input, and the secret");
    }
    says(2, 2, "again");
    says(3, 1, "there");
    hear_all();
    ok(strstr(heard, "output 0 2 again|") && strstr(heard, "output 6 1 there|"), "their output comes by rank");
    heard[0] = '\0';
    dies(1, 0);
    dies(2, 9);
    dies(3, 0);
    fake_loop_advance(loop, 60 * HP_SEC);
    hear_all();
    ok(!strstr(heard, "ended|"), "although none is left, not all has ended");
    heard[0] = '\0';
    fake_process_fail(HP_SPAWN_EXEC, ENOENT);
    hp_ranks_again(ranks, 6);
    hear_all();
    ok(strstr(heard, "output 6 2 ") && strstr(heard, "exited 6 "), "one that cannot be started says so, and exits: %s",
       heard);
    heard[0] = '\0';
    hp_ranks_stop(ranks, 5 * HP_SEC);
    hp_ranks_again(ranks, 0);
    told("ended|", "once they are stopped all has ended, at once, and none is started");
    end();
    restarts = 0;
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    signal(SIGPIPE, SIG_IGN);
    check_start();
    check_not_started();
    check_output();
    check_stdin();
    check_look();
    check_signals();
    check_stop();
    check_orphan();
    check_again();
    return 0;
}
