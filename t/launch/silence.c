/* SPDX-License-Identifier: MIT */
/*
 * Which hosts are lost, when, and what the user hears of it: one of several, several, all of them, one that the server has
 * lost as well. The agents are fake processes that say nothing unless the test does it for them.
 */
#include "launch/silence.h"

#include "base/clock.h"
#include "t/launch/fake_loop.h"
#include "t/launch/fake_process.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GREETING "\n" HP_AGENT_GREETING "0.1.0 -\n"

static char *program[] = {"./train", NULL};
static hp_loop *loop;
static hp_options options;
static hp_mapping mapping;
static hp_hosts hosts;
static hp_output *output;
static hp_failure failure;
static hp_silence silence;
static int ranks, restarts; /* of the options */
static char said[4096];     /* on standard error */
static int kept, file;

static void
open_hosts(const char *list)
{
    hoop_error error;
    options = (hp_options){.argv = program, .here = strdup("/work"), .ranks = ranks, .agent.max_restarts = restarts};
    hp_strings_add(&options.rsh, strdup("ssh"));
    if (hp_hostfile_parse(&options.hosts, "-H", 0, list, strlen(list), &error) != HOOP_SUCCESS ||
        hp_mapping_make(&mapping, &options, &error) != HOOP_SUCCESS)
        bail("no mapping: %s", error.text);
    hp_hosts_open(&hosts, loop, &mapping);
}

static void
start_ranks(void)
{
    hp_job_server server;
    hoop_error error;
    for (hp_host *host; (host = hp_hosts_next(&hosts));)
        if (hp_host_start(host, &error) != HOOP_SUCCESS)
            bail("%s", error.text);
    for (int i = 0; i < fake_processes; i++)
        fake_process_write(fake_process_at(i), 1, GREETING, strlen(GREETING));
    fake_loop_settle(loop);
    hp_job_server_open(&server, loop, &options, &mapping, NULL);
    for (int i = 0; i < hosts.count; i++)
        hp_host_send_spec(&hosts.host[i], &server, (hp_winsize){24, 80});
    hp_job_server_close(&server);
}

/* Standard error goes to a file. */
static void
open_all(const char *list)
{
    char path[512];
    hoop_error error;
    loop = hp_loop_new();
    open_hosts(list);
    snprintf(path, sizeof(path), "%s/said", tap_tmpdir());
    kept = dup(2);
    file = open(path, O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0600);
    dup2(file, 2);
    output = hp_output_new(loop, &(hp_output_options){.size = mapping.ranks.size}, &error);
    if (!output)
        bail("%s", error.text);
    hp_failure_open(&failure, mapping.ranks.size);
    failure.running = mapping.ranks.size;
    hp_silence_open(&silence, &hosts, &failure, output);
}

/* Every host has its spec, and hooprun watches them. */
static void
begin(const char *list)
{
    open_all(list);
    start_ranks();
    hp_silence_watch(&silence);
}

static void
end(void)
{
    fake_loop_settle(loop);
    dup2(kept, 2);
    close(kept);
    ssize_t n = pread(file, said, sizeof(said) - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    close(file);
    hp_silence_close(&silence);
    hp_failure_close(&failure);
    hp_hosts_close(&hosts);
    hp_output_free(output);
    hp_mapping_free(&mapping);
    hp_options_free(&options);
    hp_loop_free(loop);
    fake_process_forget();
}

/* These hosts say something each second for so long; all others are silent. */
static void
pass(uint64_t ns, const char *living)
{
    for (uint64_t end_of = hp_now() + ns; hp_now() < end_of;) {
        fake_loop_advance(loop, HP_SEC);
        for (int i = 0; i < hosts.count; i++)
            if (strchr(living, 'a' + i))
                hosts.host[i].heard = hosts.host[i].answered = hp_now();
    }
}

static int
says(const char *wanted)
{
    int found = strstr(said, wanted) != NULL;
    if (!found)
        diag("it wrote: %s", said);
    return found;
}

static void
call_next(void)
{
    hoop_error error;
    if (hp_host_start(hp_hosts_next(&hosts), &error) != HOOP_SUCCESS)
        bail("%s", error.text);
}

/* Of many hosts some are called late: each has its own time to answer. */
static void
check_answers(void)
{
    open_all("a:1,b:1");
    hp_silence_begin(&silence);
    call_next();
    pass(50 * HP_SEC, "");
    call_next();
    pass(9 * HP_SEC, "");
    is_int(0, silence.gave_up, "two hosts were called 59 and 9 s ago, and have not answered");
    pass(2 * HP_SEC, "");
    is_int(1, silence.gave_up, "60 s: that is too long");
    end();
    ok(says("hooprun: a has not answered within 60 s: ") && !strstr(said, "b has not answered within"),
       "the one that was called before is named");
    ok(says("hooprun: a has not answered for 5 s; waiting up to 60 s\n") && says(" a has not answered for 40 s;"),
       "lines before say who is awaited");
}

static void
check_one(void)
{
    begin("a:1,b:2,c:1");
    pass(41 * HP_SEC, "ac");
    is_int(0, silence.gave_up, "one of three hosts is cut off: after 41 s that is no loss");
    pass(2 * HP_SEC, "ac");
    is_int(1, silence.gave_up, "after 42 s it is");
    is_string("9 ", fake_process_at(1)->signals, "its remote shell is killed");
    is_string("", fake_process_at(0)->signals, "no other is");
    end();
    ok(says("hooprun: b (ranks 1-2) is lost: it has not answered for 42.") &&
           says(" s; is it down, or the network to it? stopping 2 others\n"),
       "said");
}

static void
check_several(void)
{
    begin("a:1,b:2,c:1");
    pass(10 * HP_SEC, "abc");
    pass(10 * HP_SEC, "bc");
    pass(40 * HP_SEC, "b");
    is_int(1, silence.gave_up, "two of three, ten seconds apart");
    end();
    ok(says("hooprun: a and c are lost: they have not answered for 42.") &&
           says(" s; are they down, or the network to them? stopping 2 others\n"),
       "are lost together");
}

/* With --elastic the others go on, while enough are left. */
static void
check_elastic(void)
{
    begin("a:1,b:2,c:1,d:1");
    failure.spare = 2;
    pass(44 * HP_SEC, "acd");
    is_int(0, silence.gave_up, "a host is lost whose ranks may fail");
    is_string("9 ", fake_process_at(1)->signals, "its remote shell is killed");
    pass(44 * HP_SEC, "ad");
    is_int(1, silence.gave_up, "one more is too much");
    end();
    ok(says("hooprun: b (ranks 1-2) is lost: it has not answered for 42.") &&
           says(" s; is it down, or the network to it? 3 others go on\n"),
       "who goes on is said");
    ok(says("hooprun: c (rank 3) is lost: it has not answered for 42.") && says("stopping 2 others\n"),
       "and who is stopped");
}

/* Ranks that are started again elsewhere have not failed. */
static void
check_again(void)
{
    ranks = 3;
    restarts = 2;
    begin("a:2,b:1,c:1");
    failure.spare = 0;
    pass(44 * HP_SEC, "ac");
    is_int(0, silence.gave_up, "a host is lost, whose rank may be started again");
    ok(hosts.places.rank[2].state == HP_PLACE_DUE && hosts.places.rank[2].next == 2, "on another one");
    pass(44 * HP_SEC, "a");
    is_int(1, silence.gave_up, "that one, too, and there is no other");
    end();
    ok(says("hooprun: b (rank 2) is lost: it has not answered for 42.") && says("2 others go on\n"), "said");
    ok(says("hooprun: c (no rank) is lost: it has not answered for 42.") && says("stopping 2 others\n"), "both times");
    ranks = restarts = 0;
}

/* Then it is probably this machine that is cut off. */
static void
check_all(void)
{
    begin("a:1,b:2,localhost:1");
    pass(44 * HP_SEC, "");
    is_int(1, silence.gave_up, "all other hosts");
    end();
    ok(says("hooprun: a and b are lost: they have not answered for 42.") &&
           says(", nor has any other host: is the network of this machine cut? stopping 1 other\n"),
       "point at this machine's network");
}

static void
check_knocks(void)
{
    begin("a:1,b:2");
    for (int i = 0; i < 30; i++) {
        pass(3 * HP_SEC, "a");
        hp_hosts_knocked(&hosts, 1);
    }
    is_int(0, silence.gave_up, "a host that knocks is not lost, however silent it is");
    pass(44 * HP_SEC, "a");
    is_int(1, silence.gave_up, "until it knocks no more");
    end();
    ok(says("b (ranks 1-2) is lost"), "said");
}

/* The server finds out first, because it hears the ranks themselves. */
static void
check_ring_failed(void)
{
    begin("a:1,b:2");
    pass(10 * HP_SEC, "a");
    hp_silence_ring_failed(&silence, 2);
    is_int(0, silence.gave_up, "a ring loses a rank whose host was heard ten seconds ago: it may have ended by itself");
    hp_silence_ring_failed(&silence, -1);
    hp_silence_ring_failed(&silence, 0);
    pass(6 * HP_SEC, "a");
    hp_silence_ring_failed(&silence, 0);
    is_int(0, silence.gave_up, "one whose host is heard has");
    hp_silence_ring_failed(&silence, 2);
    is_int(1, silence.gave_up, "one whose host has been silent for half of the time-out is lost with it, at once");
    hp_silence_end(&silence);
    hp_silence_report(&silence);
    end();
    ok(says("b (ranks 1-2) is lost: it has not answered for 16."), "said");
    ok(says("hooprun: b did not answer; ranks 1-2 may still run there, for up to 26 s\n"),
       "and for how long its ranks may run");
}

int
main(void)
{
    tap_limit(60);
    plan_lazy();
    signal(SIGPIPE, SIG_IGN);
    check_answers();
    check_one();
    check_several();
    check_elastic();
    check_again();
    check_all();
    check_knocks();
    check_ring_failed();
    return 0;
}
