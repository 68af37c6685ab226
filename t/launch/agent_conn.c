/* SPDX-License-Identifier: MIT */
/* The launcher's connection to an agent: greeting behind a banner, messages cut anywhere, the second command, its end. */
#include "launch/agent_conn.h"

#include "base/clock.h"
#include "t/launch/fake_loop.h"
#include "t/launch/fake_process.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *call[] = {"ssh", "node1", "/opt/hoop-launch", "--agent", NULL};
static char *other[] = {"ssh", "node1", "hoop-launch", "--agent", NULL};

static hp_loop *loop;
static hp_agent_conn *conn;
static fake_process *agent;
static char heard[1024]; /* what has happened, in order */

static void
hear(void)
{
    hp_agent_msg msg;
    fake_loop_settle(loop);
    for (hp_agent_conn_news news; (news = hp_agent_conn_next(conn, &msg)) != HP_AGENT_CONN_NOTHING;)
        if (news == HP_AGENT_CONN_MESSAGE)
            snprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), "%d:%zu ", msg.type, msg.size);
        else
            strcat(heard, news == HP_AGENT_CONN_GREETING ? "greeted " : "over ");
}

static int
has(const hp_buffer *bytes, const char *text)
{
    return memmem(hp_buffer_first(bytes), hp_buffer_size(bytes), text, strlen(text)) != NULL;
}

static void
begin(char *const *second)
{
    heard[0] = '\0';
    loop = hp_loop_new();
    const hp_agent_call how = {.host = "node1", .argv = call, .other = second};
    conn = hp_agent_conn_new(loop, &how, NULL);
    agent = fake_process_at(0);
}

static void
end(void)
{
    hp_agent_conn_free(conn);
    hp_loop_free(loop);
    fake_process_forget();
}

static void
says(int fd, const char *text)
{
    fake_process_write(agent, fd, text, strlen(text));
    hear();
}

/* The agent's process is gone, and the launcher has reaped it. */
static void
dies(int wait_status)
{
    fake_process_exit(agent, wait_status);
    is_int(1, hp_agent_conn_reaped(conn, FAKE_PID + fake_processes - 1, wait_status), "the process is the agent's");
    hear();
}

static void
check_start(void)
{
    begin(NULL);
    is_string("ssh node1 /opt/hoop-launch --agent", agent->command, "the command is run");
    is_string(agent->command, conn->command, "and can be printed");
    is_int(SIGKILL, agent->death_signal, "a remote shell ends with the launcher");
    is_int(0, hp_agent_conn_reaped(conn, 4711, 0), "another process is none of its business");
    end();
}

static void
check_greeting(void)
{
    begin(NULL);
    says(1, "Welcome!\nHOOP-AG");
    is_string("", heard, "half a greeting is none");
    says(1, "ENT 3 0.1.0 192.0.2.7 and more\nHOOP-AGENT 10 0.1.0 192.0.2.7");
    is_string("", heard, "nor is a line that has more in it");
    says(1, "\n");
    is_string("greeted ", heard, "a whole line is");
    is_string("192.0.2.7", conn->seen_from, "it tells where the host sees us");
    ok(has(&conn->banner, "Welcome!"), "what came before is the banner");
    is_int(HP_AGENT_CONN_GREETED, conn->state, "the state");
    end();
    begin(NULL);
    says(1, "\n" HP_AGENT_GREETING "0.1.0 -\n");
    is_string("", conn->seen_from, "an agent may not know where it is seen from");
    end();
}

static void
check_other_version(void)
{
    begin(NULL);
    says(1, "Welcome!\nHOOP-AGENT 3 0.0.9 192.0.2.7\n");
    ok(strstr(conn->protocol_error, "its hoop-launch (0.0.9) sends other messages"),
       "an agent of another version is no banner: %s", conn->protocol_error);
    is_string("", heard, "it is not greeted");
    is_string("9 ", agent->signals, "and ended");
    end();
}

static void
check_messages(void)
{
    hp_buffer wire = {0};
    uint8_t sent[64];
    begin(NULL);
    says(1, "\n" HP_AGENT_GREETING "0.1.0 -\n");
    hp_agent_msg_put(&wire, HP_MSG_OUTPUT, "\0\0\0\0\1hello", 10, NULL, 0);
    hp_agent_msg_put32(&wire, HP_MSG_TAKEN, 5);
    for (size_t i = 0; i < hp_buffer_size(&wire); i++) {
        fake_process_write(agent, 1, hp_buffer_first(&wire) + i, 1);
        hear();
    }
    is_string("greeted 33:10 35:4 ", heard, "messages arrive whole, byte by byte");
    fake_process_write(agent, 1, hp_buffer_first(&wire), hp_buffer_size(&wire));
    hear();
    is_string("greeted 33:10 35:4 33:10 35:4 ", heard, "and together");
    hp_agent_msg_put32(&conn->out.buffer, HP_MSG_STOP, 7);
    is_uint(0, fake_process_read(agent, 0, sent, sizeof(sent)), "what is not pushed is not sent");
    hp_agent_conn_push(conn);
    is_uint(12, fake_process_read(agent, 0, sent, sizeof(sent)), "what is pushed is");
    hp_agent_conn_hang_up(conn);
    hp_agent_conn_push(conn);
    is_uint(0, fake_process_read(agent, 0, sent, sizeof(sent)), "nothing after it has hung up");
    hp_buffer_free(&wire);
    end();
}

static void
check_nonsense(void)
{
    begin(NULL);
    says(1, "\n" HP_AGENT_GREETING "0.1.0 -\nSegmentation fault\n");
    ok(strstr(conn->protocol_error, "not a hooprun message"), "text after the greeting is an error");
    is_string("9 ", agent->signals, "the agent is stopped");
    is_string("greeted ", heard, "it is not over before it is reaped");
    dies(15);
    is_string("greeted over ", heard, "then it is");
    is_int(15, conn->wait_status, "and its status is kept");
    end();
}

static void
check_second_command(void)
{
    begin(other);
    says(2, "bash: /opt/hoop-launch: No such file or directory\n");
    dies(127 << 8);
    is_int(2, fake_processes, "where hoop-launch is not found the second command is tried");
    agent = fake_process_at(1);
    is_string("ssh node1 hoop-launch --agent", agent->command, "which has no path");
    is_string("", heard, "it is not over");
    says(2, "bash: hoop-launch: command not found\n");
    dies(127 << 8);
    is_string("over ", heard, "there is no third");
    ok(conn->lacks_agent, "the host lacks the agent");
    ok(has(&conn->err, "command not found"), "the last words are the second's");
    end();
    begin(other);
    says(2, "Permission denied (publickey).\n");
    dies(255 << 8);
    is_int(1, fake_processes, "after another failure it is not tried");
    is_string("over ", heard, "then all is over");
    ok(!conn->lacks_agent, "for another reason");
    end();
}

/* A remote shell's master process may hold the pipe after the remote shell has ended. */
static void
check_held_pipe(void)
{
    begin(NULL);
    fake_process master = {.fd = {-1, -1, -1, -1}};
    master.fd[1] = agent->fd[1];
    agent->fd[1] = -1;
    dies(255 << 8);
    is_string("", heard, "while another process holds the pipe, more may come");
    fake_loop_advance(loop, HP_SEC);
    hear();
    is_string("over ", heard, "but a second is enough");
    close(master.fd[1]);
    end();
}

static void
check_not_started(void)
{
    const hp_agent_call how = {.host = "node1", .argv = call, .other = other};
    hoop_error error;
    loop = hp_loop_new();
    fake_process_fail(HP_SPAWN_EXEC, ENOENT);
    ok(!hp_agent_conn_new(loop, &how, &error), "a remote shell that is not there");
    is_string("there is no program ssh to reach node1 with; install it, or name another with --rsh", error.text,
              "is named");
    fake_process_fail(HP_SPAWN_FORK, EAGAIN);
    ok(!hp_agent_conn_new(loop, &how, &error), "no process can be started");
    ok(strstr(error.text, "cannot start ssh for node1: "), "is another sentence");
    hp_loop_free(loop);
    fake_process_forget();
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    signal(SIGPIPE, SIG_IGN);
    check_start();
    check_greeting();
    check_other_version();
    check_messages();
    check_nonsense();
    check_second_command();
    check_held_pipe();
    check_not_started();
    return 0;
}
