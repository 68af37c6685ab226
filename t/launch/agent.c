/* SPDX-License-Identifier: MIT */
/*
 * An agent's conversation with its launcher: greeting, secret, spec, reports, and its end, also when the launcher is
 * gone or sends nonsense. The test is the launcher; the ranks are fake processes.
 */
#include "launch/agent.h"

#include "base/clock.h"
#include "base/wire.h"
#include "launch/agent_msg.h"
#include "net/secret.h"
#include "net/sock.h"
#include "net/socket.h"
#include "t/launch/fake_loop.h"
#include "t/launch/fake_process.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *script; /* what the launcher and the ranks do, a letter an act; see act() */
static int to_agent, from_agent;
static int deaf; /* the launcher reads nothing */
static hp_buffer in;
static char heard[4096]; /* what the agent reported */
static size_t output_bytes, flooded;
static int pongs, restarts;
static const char *variable; /* the spec has it; NULL: none */

/* --- the launcher's side --- */

static void
say(const hp_buffer *bytes)
{
    if (write(to_agent, hp_buffer_first(bytes), hp_buffer_size(bytes)) < 0)
        bail("cannot write to the agent");
}

static void
say_msg(hp_agent_msg_type type, const char *payload, size_t n)
{
    hp_buffer out = {0};
    hp_agent_msg_put(&out, type, payload, n, NULL, 0);
    say(&out);
    hp_buffer_free(&out);
}

/* Ranks 0 and 1 of 2. */
static void
say_spec(void)
{
    hp_spec spec = {.world = 2, .ranks = 2, .local_size = 2, .options.pty = 2, .options.max_restarts = restarts};
    hp_secret secret = {.of_job = 1};
    char line[HP_SECRET_TEXT];
    hp_buffer out = {0};
    spec.rank = calloc(2, sizeof(*spec.rank));
    spec.rank[1] = 1;
    hp_strings_add(&spec.argv, strdup("./train"));
    if (variable)
        hp_strings_add(&spec.variables, strdup(variable));
    hp_secret_format(line, &secret);
    if (hp_buffer_add(&out, line, sizeof(line) - 1) < 0)
        bail("no memory");
    hp_spec_put(&out, &spec);
    say(&out);
    hp_buffer_free(&out);
    hp_spec_free(&spec);
}

/* Lets so much time pass; 1: it has passed. */
static int
pass(uint64_t ns)
{
    static uint64_t end;
    end = end ? end : hp_now() + ns;
    if (hp_now() < end)
        return 0;
    end = 0;
    return 1;
}

static void
note_msg(const hp_agent_msg *msg)
{
    char *at = heard + strlen(heard);
    size_t room = sizeof(heard) - strlen(heard);
    switch (msg->type) {
    case HP_MSG_STARTED: snprintf(at, room, "started %u|", hp_get32(msg->payload)); break;
    case HP_MSG_OUTPUT:
        output_bytes += msg->size - 5;
        if (msg->size < 100)
            snprintf(at, room, "output %u %d %.*s|", hp_get32(msg->payload), msg->payload[4], (int)msg->size - 5,
                     (const char *)msg->payload + 5);
        break;
    case HP_MSG_EXIT: snprintf(at, room, "exit %u %u|", hp_get32(msg->payload), hp_get32(msg->payload + 8)); break;
    case HP_MSG_TAKEN: snprintf(at, room, "taken %u|", hp_get32(msg->payload)); break;
    case HP_MSG_FAIL:
        snprintf(at, room, "fail %u %.*s|", hp_get32(msg->payload), (int)msg->size - 4, (const char *)msg->payload + 4);
        break;
    case HP_MSG_STOPPED: break; /* it comes now and then */
    case HP_MSG_PONG: pongs += memcmp(msg->payload, "pingpong", 8) == 0; break;
    case HP_MSG_LEASE: snprintf(at, room, "lease %u|", hp_get32(msg->payload)); break;
    case HP_MSG_DONE: snprintf(at, room, "done|"); break;
    default: snprintf(at, room, "type %d|", msg->type);
    }
}

/* Reads what the agent has written; 1 if that was anything. */
static int
hear(void)
{
    static uint8_t bytes[65536];
    struct pollfd p = {.fd = from_agent, .events = POLLIN};
    hp_agent_msg msg;
    hoop_error error;
    if (deaf || poll(&p, 1, 0) <= 0)
        return 0;
    ssize_t n = read(from_agent, bytes, sizeof(bytes));
    if (n <= 0)
        return 0;
    if (hp_buffer_add(&in, bytes, (size_t)n) < 0)
        bail("no memory");
    if (heard[0] == '\0') {
        const char *line = (const char *)hp_buffer_first(&in);
        snprintf(heard, sizeof(heard), "%.*s|", (int)strcspn(line + 1, "0123456789"), line + 1);
        hp_buffer_drop(&in, 1 + strcspn(line + 1, "\n") + 1);
    }
    while (hp_agent_msg_get(&in, HP_TO_LAUNCHER, &msg, &error) > 0) {
        note_msg(&msg);
        hp_agent_msg_done(&in, &msg);
    }
    return 1;
}

/* Writes until the rank's pipe takes nothing more, because the agent holds it back. */
static int
flood(void)
{
    static char bytes[4096];
    struct pollfd p = {.fd = fake_process_at(0)->fd[1], .events = POLLOUT};
    if (poll(&p, 1, 0) <= 0)
        return 0;
    fake_process_write(fake_process_at(0), 1, bytes, sizeof(bytes));
    flooded += sizeof(bytes);
    return flooded < 16 << 20;
}

static int
act(void)
{
    if (hear())
        return 1;
    switch (*script) {
    case '\0': return 0; /* time goes on */
    case 's': say_spec(); break;
    case 'b': say_msg(HP_MSG_STDIN, "in", 2); break;
    case 'u': say_msg(HP_MSG_SIGNAL, "\12\0\0\0", 4); break; /* 10: USR1 */
    case 'l': say_msg(HP_MSG_PING, "pingpong", 8); break;
    case 'Z': say_msg(HP_MSG_SIGNAL, "\23\0\0\0", 4); break; /* 19: STOP */
    case 'C': say_msg(HP_MSG_SIGNAL, "\22\0\0\0", 4); break; /* 18: CONT */
    case 'P': say_msg(HP_MSG_PAUSE, "\1\0\0\0", 4); break;
    case 'G': say_msg(HP_MSG_PAUSE, "\0\0\0\0", 4); break;
    case 'm':
        if (!pass(60 * HP_SEC))
            return 0;
        break;
    case 'a': say_msg(HP_MSG_AGAIN, "\1\0\0\0", 4); break;
    case 'A': say_msg(HP_MSG_AGAIN, "\2\0\0\0", 4); break; /* there is no such rank */
    case '2': fake_process_exit(fake_process_at(2), 0); break;
    case 'p': say_msg(HP_MSG_STOP, "\0\0\0\0", 4); break;
    case 'c': close(to_agent); break;
    case 'n': say_msg(HP_MSG_TAKEN, "\0\0\0\0", 4); break; /* which only agents send */
    case 'N':
        if (write(to_agent,
                  "no secret at all, no secret at all, no secret at all, no secret at all, no secret at all, "
                  "no secret at all, no secret at all.",
                  125) < 0)
            bail("cannot write");
        break;
    case 't': raise(SIGTERM); break;
    case 'o': fake_process_write(fake_process_at(1), 2, "oh", 2); break;
    case '0': fake_process_exit(fake_process_at(0), 0); break;
    case '1': fake_process_exit(fake_process_at(1), 9); break;
    case 'F': fake_process_fail(HP_SPAWN_EXEC, ENOENT); break;
    case 'D': deaf = 1; break;
    case 'H': deaf = 0; break;
    case 'w':
        if (flood())
            return 1;
        break;
    default: bail("no such act: %s", script);
    }
    script++;
    return 1;
}

static int on_socket; /* the agent writes to a socket */

/* Runs an agent that reads and writes pipes; its exit status. */
static int
play(const char *acts)
{
    int a[2], b[2], kept[2] = {dup(0), dup(1)};
    if (pipe(a) < 0 || (on_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, b) : pipe(b)) < 0)
        bail("no pipe");
    fake_process_forget();
    script = acts;
    fake_loop_next = act;
    heard[0] = '\0';
    deaf = 0;
    output_bytes = flooded = 0;
    to_agent = a[1];
    from_agent = b[0];
    dup2(a[0], 0);
    dup2(b[1], 1);
    close(a[0]);
    close(b[1]);
    int status = hp_agent_main();
    for (int i = 0; i < 2; i++) {
        dup2(kept[i], i);
        close(kept[i]);
    }
    while (hear())
        continue;
    if (!strchr(acts, 'c'))
        close(to_agent);
    close(from_agent);
    hp_buffer_free(&in);
    return status;
}

#define GREETED "HOOP-AGENT |"
#define LEASED GREETED "lease 30000|"
#define RUNNING LEASED "started 0|started 1|"

static void
check_life(void)
{
    is_int(0, play("sobu01"), "an agent's life");
    is_string(RUNNING "output 1 2 oh|taken 2|exit 0 0|exit 1 9|done|", heard, "is what it reports, in order");
    is_string("10 ", fake_process_at(0)->signals, "a signal is passed on");
    is_string("./train", fake_process_at(1)->command, "ranks run the spec's command");
}

static void
check_stopped(void)
{
    is_int(0, play("sp"), "a stop without a grace");
    is_string(RUNNING "exit 0 9|exit 1 9|done|", heard, "kills the ranks");
}

static void
check_alone(void)
{
    is_int(0, play("sc"), "a launcher that is gone");
    ok(strncmp(fake_process_at(0)->signals, "15 18 9 ", 8) == 0, "ranks get TERM, and KILL after a grace: %s",
       fake_process_at(0)->signals);
    is_int(0, play("c"), "one that is gone before the spec");
    is_int(0, fake_processes, "starts nothing");
    is_int(0, play("st"), "TERM for the agent");
    ok(strncmp(fake_process_at(1)->signals, "15 18 9 ", 8) == 0, "is the same");
}

static void
check_again(void)
{
    restarts = 1;
    is_int(0, play("s1aA02mp"), "an agent that starts a rank again");
    is_string(RUNNING "exit 1 9|started 1|exit 0 0|exit 1 0|done|", heard, "stays until it is stopped");
    is_int(3, fake_processes, "a rank that there is not is not started");
    restarts = 0;
}

/* The same, while standard error goes to a file; its text is in `said`. */
static char said[1024];

static int
play_and_read(const char *acts)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/said", tap_tmpdir());
    int kept = dup(2), file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    dup2(file, 2);
    int status = play(acts);
    dup2(kept, 2);
    close(kept);
    ssize_t n = pread(file, said, sizeof(said) - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    close(file);
    return status;
}

/* Pings come only from a launcher behind a network, which can be cut without an end of the input. */
static void
check_silent_launcher(void)
{
    uint64_t began = hp_now();
    is_int(HP_AGENT_DESERTED, play_and_read("sl"), "a launcher that was heard, and falls silent");
    ok(strncmp(fake_process_at(0)->signals, "15 18 9 ", 8) == 0, "counts as gone: %s", fake_process_at(0)->signals);
    ok(hp_now() >= began + 36 * HP_SEC && hp_now() <= began + 42 * HP_SEC,
       "after the lease, before hooprun counts on it");
    is_string(RUNNING, heard, "it is not told of ends that it has not caused");
    ok(strstr(said, "received nothing from hooprun for 3") && strstr(said, "not answered either"), "it says why: %s",
       said);
    is_int(0, play_and_read("sm01"), "one that has never pinged");
    is_string("", fake_process_at(0)->signals, "may be silent");
    is_int(0, play_and_read("slZm01"), "one that has stopped the ranks");
    is_string("19 ", fake_process_at(0)->signals, "may be silent, too");
    is_int(HP_AGENT_DESERTED, play_and_read("slZmC"), "until it continues them");
    ok(strncmp(fake_process_at(0)->signals, "19 18 15 18 9 ", 14) == 0, "then they end as well: %s",
       fake_process_at(0)->signals);
    variable = "HOOP_PEER_TIMEOUT_MS=120000";
    pongs = 0;
    is_int(0, play_and_read("sllm01"), "a longer time-out, of the ranks' own variables");
    ok(strstr(heard, "lease 120000|"), "is a longer lease, and the launcher is told");
    is_int(2, pongs, "each ping is answered, with what came in it");
    unsetenv("HOOP_PEER_TIMEOUT_MS");
    variable = NULL;
}

/* The launcher is silent, and its machine accepts new connections: another program's, or the kernel for a stopped one. */
static void
check_knocks(void)
{
    char text[128], address[HP_ADDR_TEXT];
    hp_addr local;
    hoop_error error;
    int listener = -1;
    if (hp_addr_parse(&local, "127.0.0.1:0", &error) == HOOP_SUCCESS)
        listener = hp_sock_listen(&local, 128, &error);
    if (listener < 0 || hp_sock_name(listener, &local, &error) != HOOP_SUCCESS)
        bail("no listener: %s", error.text);
    snprintf(text, sizeof(text), "HOOP_RENDEZVOUS=%s", hp_addr_print(&local, address));
    variable = text;
    is_int(0, play_and_read("slm01"), "a launcher that is silent, but accepts connections");
    is_string("", fake_process_at(0)->signals, "may be silent for longer");
    is_string(RUNNING "exit 0 0|exit 1 9|done|", heard, "and hears all of it then");
    uint64_t began = hp_now();
    is_int(HP_AGENT_DESERTED, play_and_read("sl"), "but not for ever");
    ok(hp_now() >= began + 96 * HP_SEC && hp_now() <= began + 102 * HP_SEC, "three times the time-out");
    ok(strstr(said, "a new connection to it is accepted"), "its agent says so: %s", said);
    hp_socket_close(listener);
    is_int(HP_AGENT_DESERTED, play_and_read("slm"), "once it accepts none, it is gone");
    variable = NULL;
}

static void
check_nonsense(void)
{
    play("sn");
    ok(strncmp(fake_process_at(0)->signals, "15 18 9 ", 8) == 0, "a launcher that sends nonsense counts as gone");
    play("ss");
    ok(strncmp(fake_process_at(0)->signals, "15 18 9 ", 8) == 0, "so does one that sends a second spec");
    play("N");
    ok(strncmp(heard, GREETED "fail 1 ", strlen(GREETED "fail 1 ")) == 0, "a secret that is none: %s", heard);
    is_int(0, fake_processes, "starts nothing");
}

static void
check_not_started(void)
{
    is_int(0, play("Fs"), "a program that is not there");
    ok(strncmp(heard, LEASED "fail 127 there is no program ./train", strlen(LEASED "fail 127 there")) == 0, "%s",
       heard);
}

static void
check_slow_launcher(void)
{
    is_int(0, play("sDwH01"), "a launcher that does not read");
    ok(flooded > 512 * 1024 && flooded < 2 << 20, "holds the ranks back: %zu bytes", flooded);
    is_uint(flooded, output_bytes, "nothing is lost");
    ok(strstr(heard, "exit 0 0|exit 1 9|done|"), "and the end is reported after it");
    is_int(0, play("sPw1mG0"), "the launcher reads, and asks to hold the ranks back");
    ok(flooded > 0 && flooded <= 128 * 1024, "they are: %zu bytes", flooded);
    is_uint(flooded, output_bytes, "nothing is lost");
    ok(strstr(heard, "exit 1 9|exit 0 0|done|"), "the end of one is reported meanwhile: %s", heard);
}

/* What has not arrived on the other side of a socket is lost when the socket is closed and the launcher pings. */
static void
check_last_words(void)
{
    on_socket = 1;
    is_int(0, play("sD01mH"), "an agent whose last words do not arrive for a minute");
    is_string("", script, "waits for that");
    is_string(RUNNING "exit 0 0|exit 1 9|done|", heard, "and they arrive");
    uint64_t began = hp_now();
    is_int(HP_AGENT_DESERTED, play_and_read("slD01"), "if the launcher is silent, too,");
    ok(hp_now() >= began + 36 * HP_SEC && hp_now() <= began + 42 * HP_SEC, "it waits until its lease is over");
    ok(strstr(said, "its ranks have ended"), "and says that nothing is left: %s", said);
    on_socket = 0;
}

/* A file in place of a pipe: nobody talks to this agent. */
static void
check_no_pipes(void)
{
    int kept[3] = {dup(0), dup(1), dup(2)}, null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    int status = hp_agent_main();
    for (int i = 0; i < 3; i++) {
        dup2(kept[i], i);
        close(kept[i]);
    }
    close(null);
    is_int(1, status, "an agent without pipes ends at once");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    signal(SIGPIPE, SIG_IGN);
    check_life();
    check_stopped();
    check_again();
    check_alone();
    check_silent_launcher();
    check_knocks();
    check_nonsense();
    check_not_started();
    check_slow_launcher();
    check_last_words();
    check_no_pipes();
    fake_process_forget();
    return 0;
}
