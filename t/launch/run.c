/* SPDX-License-Identifier: MIT */
/*
 * A run from its agents' greetings to hooprun's exit status: ranks that end well, fail, are stopped by time or by the
 * user; hosts that do not answer or are lost. The agents are fake processes that follow a script.
 */
#include "launch/run.h"

#include "base/clock.h"
#include "base/wire.h"
#include "t/launch/fake_loop.h"
#include "t/launch/fake_process.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 2 };

/* What the one agent does, a letter an act; the next act follows when nothing else happens. See act(). */
static const char *script;
static hp_buffer sent;  /* to the agent */
static char text[8192]; /* what the run wrote */
static int by_signal;
static int servers; /* processes of the server that were started */

static void
report(hp_agent_msg_type type, const void *head, size_t n, const char *rest)
{
    hp_buffer wire = {0};
    hp_agent_msg_put(&wire, type, head, n, rest, strlen(rest));
    fake_process_write(fake_process_at(0), 1, hp_buffer_first(&wire), hp_buffer_size(&wire));
    hp_buffer_free(&wire);
}

static void
report_rank(hp_agent_msg_type type, uint32_t rank, uint32_t status, const char *rest)
{
    uint8_t head[24] = {0};
    hp_put32(head, rank);
    hp_put32(head + 4, type == HP_MSG_OUTPUT ? 1 : 800 + rank);
    hp_put32(head + 8, status);
    hp_put32(head + 12, 2500);
    report(type, head, type == HP_MSG_EXIT ? 24 : type == HP_MSG_OUTPUT ? 5 : 8, rest);
}

/* Takes what the launcher has sent so far. */
static void
hear(void)
{
    uint8_t bytes[8192];
    size_t n = fake_process_read(fake_process_at(0), 0, bytes, sizeof(bytes));
    if (n > 0 && hp_buffer_add(&sent, bytes, n) < 0)
        bail("no memory");
}

static void
exit_agent(int wait_status)
{
    hear();
    fake_process_exit(fake_process_at(0), wait_status);
}

/* The server's process that was started last hangs up: it answers no question, which the launcher sees at once. */
static void
hang_up_server(void)
{
    fake_process *p = fake_process_at(fake_processes - 1);
    if (!strstr(p->command, "--serve") || p->fd[0] < 0)
        return;
    close(p->fd[0]);
    p->fd[0] = -1;
    servers++;
}

static int
act(void)
{
    static const char greeting[] = "\n" HP_AGENT_GREETING "0.1.0 -\n";
    if (fake_processes > 0)
        hang_up_server();
    switch (*script) {
    case '\0': return 0; /* time goes on */
    case 'w': script++; return 0;
    case 'g': fake_process_write(fake_process_at(0), 1, greeting, strlen(greeting)); break;
    case 's':
        for (uint32_t i = 0; i < RANKS; i++)
            report_rank(HP_MSG_STARTED, i, 0, "");
        break;
    case 'o': report_rank(HP_MSG_OUTPUT, 0, 0, "hello\n"); break;
    case '0': report_rank(HP_MSG_EXIT, 0, 0, ""); break;
    case '1': report_rank(HP_MSG_EXIT, 1, 0, ""); break;
    case '3': report_rank(HP_MSG_EXIT, 1, 3 << 8, ""); break;
    case '9': report_rank(HP_MSG_EXIT, 0, 9, ""); break;
    case 'f': report(HP_MSG_FAIL, "\177\0\0\0", 4, "there is no program"); break;
    case 'd':
        report(HP_MSG_DONE, "", 0, "");
        exit_agent(0);
        break;
    case 'D': report(HP_MSG_DONE, "", 0, ""); break;
    case 'x': exit_agent(0); break;
    case 'k': exit_agent(9); break;
    case 'K': /* once it is killed */
        if (!strstr(fake_process_at(0)->signals, "9 "))
            return 0;
        exit_agent(9);
        break;
    case 'i': raise(SIGINT); break;
    case 'F': fake_process_fail(HP_SPAWN_FORK, EAGAIN); break; /* no other process can be started, once */
    case 'v': fake_process_exit(fake_process_at(fake_processes - 1), 9); break; /* the server's process */
    default: bail("no such act: %s", script);
    }
    script++;
    return 1;
}

/* Whether the launcher sent a message of this type, behind the line with the secret. */
static int
was_sent(hp_agent_msg_type type)
{
    const char *line = memchr(hp_buffer_first(&sent), '\n', hp_buffer_size(&sent));
    hp_buffer in = sent;
    hp_agent_msg msg;
    hoop_error error;
    int found = 0;
    in.head += line ? (size_t)(line - (const char *)hp_buffer_first(&sent)) + 1 : 0;
    while (line && hp_agent_msg_get(&in, HP_TO_AGENT, &msg, &error) > 0) {
        found += (int)msg.type == (int)type;
        in.head += HP_AGENT_MSG_HEAD + msg.size;
    }
    return found;
}

/* Runs two ranks here while the agent follows the script; hooprun's exit status. */
static int
play(const char *acts, hp_options options)
{
    static char *program[] = {"./train", NULL};
    hp_mapping mapping;
    hoop_error error;
    char path[512];
    snprintf(path, sizeof(path), "%s/both", tap_tmpdir());
    int kept[3] = {dup(0), dup(1), dup(2)}, file = open(path, O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0600);
    int null = open("/dev/null", O_RDONLY);
    hp_buffer_free(&sent);
    fake_process_forget();
    servers = 0;
    options.argv = program;
    options.here = strdup("/");
    options.ranks = RANKS;
    if (hp_mapping_make(&mapping, &options, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    script = acts;
    fake_loop_next = act;
    dup2(null, 0);
    dup2(file, 1);
    dup2(file, 2);
    int status = hp_run_to_end(&options, &mapping, &by_signal);
    for (int i = 0; i < 3; i++) {
        dup2(kept[i], i);
        close(kept[i]);
    }
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(file);
    close(null);
    hp_mapping_free(&mapping);
    hp_options_free(&options);
    return status;
}

/* The same on the hosts of a list, which a remote shell reaches. */
static int
play_at(const char *list, const char *acts, hp_options options)
{
    hoop_error error;
    hp_strings_add(&options.rsh, strdup("ssh"));
    if (hp_hostfile_parse(&options.hosts, "-H", 0, list, strlen(list), &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    return play(acts, options);
}

static int
says(const char *wanted)
{
    int found = strstr(text, wanted) != NULL;
    if (!found)
        diag("it wrote: %s", text);
    return found;
}

static void
check_well(void)
{
    is_int(0, play("gso01d", (hp_options){0}), "two ranks that end well: status 0");
    is_string("hello\n", text, "their output, and nothing else");
    ok(was_sent(HP_MSG_GO) == 1 && was_sent(HP_MSG_STDIN_END) == 1 && was_sent(HP_MSG_STOP) == 0,
       "the agent got its spec and the end of the input, and was not stopped");
    is_int(0, by_signal, "no signal stopped it");
    play("gso01d", (hp_options){.verbose = 1});
    ok(says("calling ") && says(" has answered") && says("the rendezvous server listens on 127.0.0.1:") &&
           says("rank 1 runs on ") && says("pid 801"),
       "--verbose tells each step");
}

static void
check_failures(void)
{
    is_int(3, play("gs3w0d", (hp_options){0}), "a rank that fails: its status");
    ok(says("hooprun: rank 1 (") && says(", pid 801, ./train) exited with status 3 after 2.5 s; stopping 1 other\n"),
       "a sentence");
    is_int(1, was_sent(HP_MSG_STOP), "and the others are stopped");
    is_int(137, play("gs39wd", (hp_options){0}), "a signal at the same moment is the cause");
    ok(says("rank 0 (") && says("killed by signal 9 (SIGKILL)") && !strstr(text, "rank 1 ("), "and alone is reported");
    is_int(127, play("gfd", (hp_options){0}), "ranks that cannot be started: the agent's status");
    ok(says("there is no program\n"), "and its sentence");
}

static void
check_again(void)
{
    const hp_options options = {.elastic = {1, 0}, .agent.max_restarts = 1},
                     both = {.elastic = {2, 0}, .agent.max_restarts = 1};
    is_int(0, play("gs3ws01d", options), "a rank that is started again, and ends well: status 0");
    ok(says("hooprun: rank 1 (") &&
           says(") exited with status 3 after 2.5 s; it is started again (restart 1 of 1); 1 other goes on\n"),
       "a sentence");
    ok(was_sent(HP_MSG_AGAIN) == 1 && was_sent(HP_MSG_STOP) == 1,
       "it is started once, and the agent is told of the end");
    is_int(0, play("gs3ws3w0d", options), "again, and then the other goes on alone");
    ok(says("exited with status 3 after 2.5 s; no restart is left; 1 other goes on\n"), "a sentence");
    is_int(3, play("gs3ws3w0d", both), "again, and the other may not go on alone: its status");
    ok(says("exited with status 3 after 2.5 s; no restart is left; stopping 1 other\n"), "a sentence");
    is_int(3, play("gs03d", both), "one that fails when the other has ended");
    ok(was_sent(HP_MSG_AGAIN) == 0, "is not started again");
}

static void
check_lost(void)
{
    is_int(1, play("gsk", (hp_options){0}), "an agent that dies: status 1");
    ok(says(" is lost: ") && says("was killed by signal 9\n"), "is said");
    is_int(1, play("x", (hp_options){0}), "one that ends before it greets: status 1");
    ok(says("cannot start on ") && says("ended with status 0"), "is said");
    is_int(1, play("wwwwwx", (hp_options){0}), "one that does not answer: status 1");
    ok(says(" has not answered within 60 s: "), "is said");
    ok(says(" has not answered for 5 s; waiting up to 60 s\n") && says(" for 10 s;") && says(" for 20 s;") &&
           says(" for 40 s;"),
       "and lines at doubling intervals have said it before");
    is_string("9 ", fake_process_at(0)->signals, "and it is ended");
    fake_process_fail(HP_SPAWN_FORK, EAGAIN);
    is_int(1, play("", (hp_options){0}), "one that cannot be started: status 1");
    ok(says("hooprun: cannot start "), "is said");
}

/* On a host of a remote shell, whose agent does not say that all has ended. */
static void
check_not_confirmed(void)
{
    is_int(130, play_at("n1:2", "gsi", (hp_options){0}), "an agent that does not answer to the end");
    ok(says("hooprun: n1 did not answer; ranks 0-1 may still run there, for up to 34 s\n"), "its ranks may still run");
    play_at("n1:2", "gs0i", (hp_options){0});
    ok(says("hooprun: n1 did not answer; rank 1 may still run there, for up to 34 s\n"), "but not one that has ended");
    play_at("n1:2", "gsk", (hp_options){0});
    ok(says("hooprun: n1 did not answer; ranks 0-1 may still run there, for up to 42 s\n"),
       "the same if the connection is lost");
    play_at("n1:2", "gsi01d", (hp_options){0});
    ok(!strstr(text, "did not answer"), "one that confirms the end is not named");
    play("gsi", (hp_options){0});
    ok(!strstr(text, "did not answer"), "nor is this machine, where all is killed");
}

/* A host behind a network that is cut: no connection ends, and no word comes. */
static void
check_cut_off(void)
{
    is_int(1, play_at("n1:2", "gs", (hp_options){0}), "a host that is cut off: status 1");
    ok(says("hooprun: n1 (ranks 0-1) has sent nothing for 10.0 s; is it down, or the network to it?\n") &&
           says(" has sent nothing for 20.0 s;") && says(" has sent nothing for 40.0 s;"),
       "lines name it meanwhile");
    ok(says("hooprun: n1 (ranks 0-1) is lost: it has not answered for 42.0 s; is it down, or the network to it?\n"),
       "then it is lost");
    ok(!strstr(text, "did not answer"), "its agent has ended its ranks by then");
    ok(strncmp(fake_process_at(0)->signals, "9 ", 2) == 0, "its remote shell is killed at once");
    is_int(0, play_at("n1:2", "gs01DK", (hp_options){0}), "one that is cut off when all has ended there: status 0");
    is_string("", text, "without a word");
}

#define TEN_DEATHS "vwvwvwvwvwvwvwvwvwv"

static void
check_server(void)
{
    is_int(0, play("gsvw01d", (hp_options){0}), "the server's process is killed: the job goes on");
    is_int(2, servers, "with another one");
    is_string("hooprun: the process of the rendezvous server was killed by signal 9 (Killed); it is started again\n",
              text, "a line says so");
    is_int(0, play("gs" TEN_DEATHS "w" TEN_DEATHS "w" TEN_DEATHS "01d", (hp_options){0}),
           "one that dies again and again");
    is_int(30, servers, "is started no more");
    ok(says("started again\nhooprun: the process of the rendezvous server was killed by signal 9 (Killed), 30 times in "
            "a "
            "row; it is not started again, and the ranks go on without it\n"),
       "two lines say so");
    is_int(3, play("gs3vw0d", (hp_options){0}), "one that dies while the job is stopped");
    is_int(1, servers, "is not started again");
    play("gsvw01d", (hp_options){.summary = 1});
    ok(says("no summary: the process of the rendezvous server has died"), "what it knew is lost");
    is_int(2, play("Fgx", (hp_options){0}), "no process can be started for it: status 2");
    ok(says("hooprun: cannot open the rendezvous server: cannot start its process, "), "a sentence");
    is_int(0, play("gsvFww01d", (hp_options){0}), "none for another one, at first: the job goes on");
    is_int(2, servers, "with one that is started later");
}

static void
check_stopped(void)
{
    is_int(124, play("gsw01d", (hp_options){.timeout = 10 * HP_SEC}), "the time limit: status 124");
    ok(says("the time limit of 10 s is reached; stopping 2 ranks") && was_sent(HP_MSG_STOP) == 1, "is said");
    is_int(0, play("gs01wd", (hp_options){.timeout = 10 * HP_SEC}), "no time limit once all ranks have ended");
    is_int(130, play("gsi01d", (hp_options){0}), "SIGINT: status 130");
    ok(by_signal == SIGINT && says("hooprun: SIGINT; stopping 2 ranks"), "is said");
    is_int(130, play("gsii01d", (hp_options){0}), "twice at once, as of timeout(1)");
    ok(!says("again") && was_sent(HP_MSG_STOP) == 1, "is one");
    is_int(130, play("gsiwi01d", (hp_options){0}), "another one, later");
    ok(says("SIGINT again; killing the remaining processes") && was_sent(HP_MSG_STOP) == 2, "shortens the grace");
    is_int(130, play("gsi", (hp_options){0}), "an agent that does not end");
    ok(strncmp(fake_process_at(0)->signals, "9 ", 2) == 0, "is killed, and abandoned");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    signal(SIGPIPE, SIG_IGN);
    setenv("HOOP_SOCKET_IFNAME", "127.0.0.0/8", 1); /* for the server of ranks elsewhere */
    check_well();
    check_failures();
    check_again();
    check_lost();
    check_not_confirmed();
    check_cut_off();
    check_server();
    check_stopped();
    hp_buffer_free(&sent);
    fake_process_forget();
    return 0;
}
