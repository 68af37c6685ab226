/* SPDX-License-Identifier: MIT */
/* Hosts as the launcher sees them: how many are started at once, what they are sent, which reports are passed on. */
#include "launch/host.h"

#include "base/clock.h"
#include "base/wire.h"
#include "t/launch/fake_loop.h"
#include "t/launch/fake_process.h"
#include "t/tap/tap.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define GREETING "\n" HP_AGENT_GREETING "0.1.0 -\n"

static char *program[] = {"./train", NULL};
static hp_loop *loop;
static hp_options options;
static hp_mapping mapping;
static hp_hosts hosts;
static char heard[2048];
static int ranks, restarts; /* of the options */

__attribute__((format(printf, 1, 2))) static void
hear(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), format, ap);
    va_end(ap);
}

/* What agents have reported. */
static void
hear_all(void)
{
    hp_host_event e;
    fake_loop_settle(loop);
    while (hp_hosts_hear(&hosts, &e))
        switch (e.what) {
        case HP_HOST_GREETED: hear("greeted %s|", e.host->name); break;
        case HP_HOST_STARTED: hear("started %s %d %u|", e.host->name, e.rank, e.pid); break;
        case HP_HOST_PROCESS: hear("process %s %d %u %d|", e.host->name, e.rank, e.pid, e.number); break;
        case HP_HOST_OUTPUT: hear("output %d %d %.*s|", e.rank, e.number, (int)e.n, (const char *)e.bytes); break;
        case HP_HOST_EXITED:
            hear("exited %s %d %d %d %d|", e.host->name, e.ended.rank, e.ended.pid, e.ended.status, (int)e.ended.ms);
            break;
        case HP_HOST_TAKEN: hear("taken %zu|", e.n); break;
        case HP_HOST_FAILED: hear("failed %s %d %.*s|", e.host->name, e.number, (int)e.n, (const char *)e.bytes); break;
        case HP_HOST_OVER: hear("over %s %s|", e.host->name, e.host->done ? "well" : "early"); break;
        }
}

static void
begin(const char *list)
{
    hoop_error error;
    loop = hp_loop_new();
    options = (hp_options){.argv = program, .here = strdup("/work"), .ranks = ranks, .agent.max_restarts = restarts};
    hp_strings_add(&options.rsh, strdup("ssh"));
    if (hp_hostfile_parse(&options.hosts, "-H", 0, list, strlen(list), &error) != HOOP_SUCCESS ||
        hp_mapping_make(&mapping, &options, &error) != HOOP_SUCCESS)
        bail("no mapping: %s", error.text);
    hp_hosts_open(&hosts, loop, &mapping);
    heard[0] = '\0';
}

static void
end(void)
{
    hp_hosts_close(&hosts);
    hp_mapping_free(&mapping);
    hp_options_free(&options);
    hp_loop_free(loop);
    fake_process_forget();
}

static void
told(const char *wanted, const char *text)
{
    hear_all();
    is_string(wanted, heard, "%s", text);
    heard[0] = '\0';
}

static void
start_all(void)
{
    hoop_error error;
    for (hp_host *host; (host = hp_hosts_next(&hosts));)
        if (hp_host_start(host, &error) != HOOP_SUCCESS)
            bail("%s", error.text);
}

static void
reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        hp_hosts_reaped(&hosts, pid, status);
}

/* All have greeted and have their spec. */
static void
run_all(void)
{
    hp_job_server server;
    start_all();
    for (int i = 0; i < fake_processes; i++)
        fake_process_write(fake_process_at(i), 1, GREETING, strlen(GREETING));
    hear_all();
    hp_job_server_open(&server, loop, &options, &mapping, NULL);
    for (int i = 0; i < hosts.count; i++)
        if (hosts.host[i].conn)
            hp_host_send_spec(&hosts.host[i], &server, (hp_winsize){24, 80});
    hp_job_server_close(&server);
    heard[0] = '\0';
}

static void
reports(int i, hp_agent_msg_type type, const void *head, size_t n, const char *text)
{
    hp_buffer wire = {0};
    hp_agent_msg_put(&wire, type, head, n, text, strlen(text));
    fake_process_write(fake_process_at(i), 1, hp_buffer_first(&wire), hp_buffer_size(&wire));
    hp_buffer_free(&wire);
    hear_all();
}

static void
reports_rank(int i, hp_agent_msg_type type, uint32_t rank, uint32_t a, uint32_t b, const char *text)
{
    uint8_t head[24] = {0};
    hp_put32(head, rank);
    hp_put32(head + 4, a);
    hp_put32(head + 8, b);
    hp_put32(head + 12, 1500);
    reports(i, type, head,
            type == HP_MSG_EXIT      ? 24
            : type == HP_MSG_OUTPUT  ? 5
            : type == HP_MSG_STOPPED ? 12
                                     : 8,
            text);
}

/* The types of the messages that a host was sent, behind the line with its secret. */
static const char *
sent(int i, int skip_line)
{
    static char types[512];
    uint8_t bytes[8192];
    hp_buffer in = {0};
    hp_agent_msg msg;
    hoop_error error;
    size_t n = fake_process_read(fake_process_at(i), 0, bytes, sizeof(bytes));
    const uint8_t *line = skip_line && n > 0 ? memchr(bytes, '\n', n) : NULL;
    size_t skip = line ? (size_t)(line - bytes) + 1 : 0;
    types[0] = '\0';
    if (hp_buffer_add(&in, bytes + skip, n - skip) < 0)
        bail("no memory");
    while (hp_agent_msg_get(&in, HP_TO_AGENT, &msg, &error) > 0) {
        snprintf(types + strlen(types), sizeof(types) - strlen(types), "%d ", msg.type);
        hp_agent_msg_done(&in, &msg);
    }
    hp_buffer_free(&in);
    return types;
}

static void
check_starts(void)
{
    begin("n[1-70]:1");
    start_all();
    is_int(64, fake_processes, "64 remote shells are started at once");
    fake_process_write(fake_process_at(3), 1, GREETING, strlen(GREETING));
    told("greeted n4|", "when one has answered");
    is_string("n65", hp_hosts_next(&hosts)->name, "there is room for the next");
    fake_process_exit(fake_process_at(5), 255 << 8);
    reap();
    told("over n6 early|", "and when one has ended");
    start_all();
    is_int(66, fake_processes, "for one more");
    ok(hp_host_is_silent(&hosts.host[0]) && !hp_host_is_silent(&hosts.host[3]) && !hp_host_is_silent(&hosts.host[69]),
       "only an agent that was started and has not answered is silent");
    end();
}

static void
check_spec(void)
{
    begin("n1:2,n2:2");
    run_all();
    const char *types = sent(0, 1);
    char last[16];
    snprintf(last, sizeof(last), "%d %d ", HP_MSG_GO, HP_MSG_PING);
    ok(strlen(types) > strlen(last) && strcmp(types + strlen(types) - strlen(last), last) == 0,
       "a spec ends with GO, and a ping is right behind it: no cut comes between: %s", types);
    sent(1, 1);
    hp_hosts_stdin(&hosts, (const uint8_t *)"x", 1);
    hp_hosts_stdin_end(&hosts);
    is_string("11 12 ", sent(0, 0), "standard input goes to rank 0's host");
    is_string("", sent(1, 0), "and to no other");
    hp_hosts_signal(&hosts, SIGUSR1);
    hp_hosts_resize(&hosts, (hp_winsize){10, 20});
    is_string("13 7 ", sent(1, 0), "signals and sizes go to all");
    hp_hosts_stop(&hosts, HP_SEC);
    is_string("13 7 14 ", sent(0, 0), "so does a stop");
    is_string("n2", hp_hosts_of(&hosts, 2)->name, "a rank's host");
    ok(!hp_hosts_of(&hosts, 4) && !hp_hosts_of(&hosts, -1), "what is no rank has none");
    end();
}

static void
check_reports(void)
{
    begin("n1:2,n2:2");
    run_all();
    reports_rank(1, HP_MSG_STARTED, 2, 811, 0, "");
    reports_rank(1, HP_MSG_OUTPUT, 3, 1, 0, "hello");
    reports_rank(1, HP_MSG_EXIT, 3, 812, 9, "");
    told("started n2 2 811|output 3 1 hello|exited n2 3 812 9 1500|", "reports of its ranks are passed on");
    reports_rank(1, HP_MSG_EXIT, 1, 812, 9, "");
    reports_rank(1, HP_MSG_EXIT, 4, 812, 9, "");
    reports_rank(1, HP_MSG_EXIT, 0xffffffff, 812, 9, "");
    told("", "those of other ranks are dropped");
    reports_rank(1, HP_MSG_OUTPUT, 3, 3, 0, "hello");
    told("", "so is output of a third stream");
    reports(0, HP_MSG_TAKEN, "\5\0\0\0", 4, "");
    told("taken 5|", "input that was taken");
    reports(0, HP_MSG_FAIL, "\176\0\0\0", 4, "cannot");
    told("failed n1 126 cannot|", "ranks that could not be started");
    reports(1, HP_MSG_DONE, "", 0, "");
    for (int i = 0; i < 2; i++) {
        fake_process_exit(fake_process_at(i), 0);
        reap();
        hear_all();
    }
    told("over n1 well|over n2 well|", "both of which end well");
    end();
}

/* A host is lost, and its rank is started again on one that had none. */
static void
check_again(void)
{
    hp_failure failure;
    ranks = 2;
    restarts = 1;
    begin("n1:1,n2:1,n3:1");
    hp_failure_open(&failure, ranks);
    failure.running = ranks;
    run_all();
    is_int(3, fake_processes, "a host without ranks has an agent, too");
    is_int(0, hp_host_lost(&hosts.host[1], &failure), "of a host that is lost no rank is lost for good");
    ok(failure.running == 1 && hp_host_has(&hosts.host[1], 1), "but it runs nowhere");
    is_int(1, hp_places_next(&hosts.places, hp_now()), "it is due");
    sent(2, 1);
    hp_hosts_again(&hosts, 1);
    ok(strstr(sent(2, 0), "17 "), "an agent is told to start it");
    is_string("n3", hp_hosts_of(&hosts, 1)->name, "it has another host");
    reports_rank(1, HP_MSG_STARTED, 1, 811, 0, "");
    reports_rank(2, HP_MSG_STARTED, 1, 911, 0, "");
    told("started n3 1 911|", "whose reports count");
    hosts.host[1].knocked = hosts.host[2].knocked = 0;
    hp_hosts_knocked(&hosts, 2);
    ok(!hosts.host[1].knocked && hosts.host[2].knocked, "an agent that had no ranks at first knocks, too");
    hp_failure_close(&failure);
    end();
    ranks = restarts = 0;
}

/* An agent may send flight recorders without end. */
static void
check_recorders(void)
{
    static union {
        hp_flight_word words[HP_FLIGHT_BYTES / 8];
        uint8_t bytes[HP_FLIGHT_BYTES];
    } file;
    static uint8_t message[12 + HP_FLIGHT_HEAD_BYTES + HP_FLIGHT_RECORD_BYTES]; /* more would fill the pipe */
    hp_flight_begin(file.words, &(hp_flight_head){.size = 1});
    memcpy(message + 12, file.bytes, sizeof(message) - 12);
    begin("n1:1");
    run_all();
    reports(0, HP_MSG_FLIGHT, "\2\0\0\0", 4, "12345678and more");
    is_uint(0, hosts.recorders.count, "what is no flight recorder is dropped");
    for (int i = 0; i < 258; i++)
        reports(0, HP_MSG_FLIGHT, message, sizeof(message), "");
    is_uint(256, hosts.recorders.count, "so are more than a rank can have");
    told("", "nobody hears of that");
    end();
}

/* The hosts are asked for their flight recorders. */
static void
check_look(void)
{
    begin("n1:2,n2:2");
    hp_hosts_look(&hosts);
    ok(!hp_hosts_asked(&hosts), "a host without its spec is not asked");
    run_all();
    hp_hosts_look(&hosts);
    is_string("n1", hp_hosts_asked(&hosts), "both are asked");
    reports(0, HP_MSG_LOOKED, "", 0, "");
    told("", "one has answered");
    is_string("n2", hp_hosts_asked(&hosts), "the other has not");
    reports(0, HP_MSG_LOOKED, "", 0, "");
    told("", "an answer without a question counts for nothing");
    fake_process_exit(fake_process_at(1), 0);
    reap();
    told("over n2 early|", "and one that is over need not answer");
    ok(!hp_hosts_asked(&hosts), "so all have answered");
    hp_hosts_look(&hosts);
    is_string("n1", hp_hosts_asked(&hosts), "it is not asked again");
    reports(0, HP_MSG_LOOKED, "", 0, "");
    ok(!hp_hosts_asked(&hosts), "a second look");
    end();
}

/* What an agent says of a process is no longer true some seconds after it has fallen silent. */
static void
check_process(void)
{
    begin("a:1,b:1");
    run_all();
    reports_rank(1, HP_MSG_STOPPED, 1, 77, 0, "");
    told("process b 1 77 0|", "an agent says that a process runs");
    reports_rank(1, HP_MSG_STOPPED, 1, 77, 1, "");
    told("process b 1 77 1|", "or is stopped");
    reports_rank(1, HP_MSG_STOPPED, 0, 77, 1, "");
    told("", "but not one of another host");
    end();
}

/* The agents hear now and then that the launcher lives. */
static void
check_pings(void)
{
    begin("n1:2,n2:2");
    start_all();
    fake_loop_advance(loop, 60 * HP_SEC);
    is_string("", sent(0, 0), "an agent without its spec is not pinged");
    end();
    begin("n1:2,n2:2");
    run_all();
    sent(0, 1);
    sent(1, 1);
    fake_loop_advance(loop, 0);
    is_string("16 ", sent(1, 0), "once more as soon as that is sent");
    fake_loop_advance(loop, 7 * HP_SEC);
    is_string("16 16 ", sent(1, 0), "and each three seconds, a tenth of the time-out");
    fake_process_exit(fake_process_at(0), 9);
    reap();
    fake_loop_advance(loop, 3 * HP_SEC);
    is_string("16 ", sent(1, 0), "also when another one is gone");
    reports(1, HP_MSG_LEASE, "\270\13\0\0", 4, ""); /* 3000 */
    fake_loop_advance(loop, HP_SEC - 1);
    is_string("16 16 16 ", sent(1, 0), "and more often where the ranks have a shorter time-out");
    end();
    begin("localhost:2");
    run_all();
    sent(0, 1);
    fake_loop_advance(loop, 60 * HP_SEC);
    is_string("", sent(0, 0), "this machine's own agent is not pinged");
    end();
}

/* An agent's answers to pings and its knocks count; what is not watched is never silent. */
static void
check_silence(void)
{
    begin("n1:2,n2:2,localhost:1");
    start_all();
    is_uint(0, hp_host_silence(&hosts.host[0]), "before it has its spec a host is not watched");
    end();
    begin("n1:2,n2:2,localhost:1");
    run_all();
    fake_loop_advance(loop, 9 * HP_SEC);
    is_uint(9 * HP_SEC, hp_host_silence(&hosts.host[1]), "nine seconds without a word");
    is_uint(0, hp_host_silence(&hosts.host[2]), "this machine's own agent is not watched");
    hp_hosts_knocked(&hosts, 1);
    hp_hosts_knocked(&hosts, 77);
    is_uint(0, hp_host_silence(&hosts.host[1]), "a knock");
    is_uint(9 * HP_SEC, hp_host_silence(&hosts.host[0]), "says nothing of another host");
    fake_loop_advance(loop, HP_SEC);
    reports_rank(0, HP_MSG_STOPPED, 0, 77, 0, "");
    is_uint(10 * HP_SEC, hp_host_silence(&hosts.host[0]), "a word, which may be one that TCP sends again and again");
    uint8_t now[8];
    hp_put64(now, hp_loop_now(loop) - HP_SEC);
    reports(0, HP_MSG_PONG, now, sizeof(now), "");
    is_uint(HP_SEC, hp_host_silence(&hosts.host[0]), "is no answer; that to a ping is, of the time of the ping");
    fake_loop_advance(loop, HP_SEC);
    sent(1, 1);
    hp_hosts_pause(&hosts, 1);
    hp_hosts_pause(&hosts, 0);
    is_string("19 19 ", sent(1, 0), "ranks that print much are held back by their agents");
    is_uint(2 * HP_SEC, hp_host_silence(&hosts.host[1]), "which are watched all the same");
    hp_host_give_up(&hosts.host[1]);
    is_string("9 ", fake_process_at(1)->signals, "the remote shell of a host that is given up is killed");
    is_uint(0, hp_host_silence(&hosts.host[1]), "and it is not watched any more");
    sent(1, 1);
    hp_hosts_stop(&hosts, HP_SEC);
    is_string("", sent(1, 0), "nor stopped");
    end();
}

static void
check_before_spec(void)
{
    begin("n1:2,n2:2");
    start_all();
    hp_hosts_signal(&hosts, SIGUSR1);
    fake_process_write(fake_process_at(0), 1, GREETING, strlen(GREETING));
    hear_all();
    reports_rank(0, HP_MSG_STARTED, 0, 811, 0, "");
    told("greeted n1|", "before it has its spec a host has no ranks to report");
    hp_hosts_stop(&hosts, HP_SEC);
    is_string("", fake_process_at(0)->signals, "a stop closes the input of one that has answered");
    is_string("9 ", fake_process_at(1)->signals, "and ends the remote shell of one that has not");
    hp_hosts_kill(&hosts);
    is_string("9 ", fake_process_at(0)->signals, "the last resort is KILL");
    end();
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    signal(SIGPIPE, SIG_IGN);
    check_starts();
    check_spec();
    check_reports();
    check_again();
    check_recorders();
    check_look();
    check_process();
    check_pings();
    check_silence();
    check_before_spec();
    return 0;
}
