/* SPDX-License-Identifier: MIT */
/* The command line: every spelling's value in its field, and mistakes with a sentence that names the option as written. */
#include "launch/options.h"

#include "base/clock.h"
#include "launch/rank_env.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 16 };

static char text[4096]; /* what the last command line wrote to standard error */

/* Parses "a b c" as hooprun's command line; the words stay in `line`. */
static int
parse(hp_options *options, char *line)
{
    static char *argv[WORDS + 1];
    int argc = 0, old = dup(STDERR_FILENO);
    char path[512];
    snprintf(path, sizeof(path), "%s/stderr", tap_tmpdir());
    int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    argv[argc++] = (char *)"hooprun";
    for (char *word = strtok_r(line, " ", &line); word && argc < WORDS; word = strtok_r(NULL, " ", &line))
        argv[argc++] = word;
    argv[argc] = NULL;
    dup2(file, STDERR_FILENO);
    int status = hp_options_parse(options, argc, argv);
    dup2(old, STDERR_FILENO);
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(old);
    close(file);
    return status;
}

/* --- values --- */

static int
takes(const char *command, hp_options *options)
{
    static char line[256]; /* options->argv points into it */
    snprintf(line, sizeof(line), "%s", command);
    int status = parse(options, line);
    ok(status == HP_OPTIONS_RUN, "%s", command);
    if (status != HP_OPTIONS_RUN)
        diag("%s", text);
    return status == HP_OPTIONS_RUN;
}

static void
check_numbers(void)
{
    static const char *const spellings[] = {"-n 4 x", "-n4 x", "-np 4 x", "--np=4 x", "-np=4 x"};
    hp_options o;
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        if (takes(spellings[i], &o))
            is_int(4, o.ranks, "is four ranks");
        hp_options_free(&o);
    }
    if (takes("-N 3 --timeout 0.5 --ssh-port=2222 --bind -l x", &o)) {
        is_int(3, o.per_host, "a number per host");
        is_uint(HP_SEC / 2, o.timeout, "half a second");
        is_int(2222, o.ssh_port, "a port");
        ok(o.agent.bind && o.label && !o.verbose && !o.tee, "flags that are given are set, others are not");
    }
    hp_options_free(&o);
    if (takes("--elastic 3 x", &o))
        ok(o.elastic.least == 3 && o.elastic.most == 0, "a least number alone");
    hp_options_free(&o);
    if (takes("--elastic=3:8 x", &o))
        ok(o.elastic.least == 3 && o.elastic.most == 8, "with the most");
    hp_options_free(&o);
    if (takes("--elastic 1 --max_restarts=3 x", &o))
        is_int(3, o.agent.max_restarts, "restarts, in torchrun's spelling");
    hp_options_free(&o);
    if (takes("--max-restarts 0 x", &o))
        is_int(0, o.agent.max_restarts, "none");
    hp_options_free(&o);
}

static void
check_words(void)
{
    hp_options o;
    setenv("SEEN", "here", 1);
    unsetenv("UNSEEN");
    if (takes("-x A=b=c -x SEEN -x UNSEEN --wdir there --prefix /opt/hoop x -n 4", &o)) {
        is_uint(2, o.variables.count, "-x of a variable that is not set adds nothing");
        is_string("A=b=c", o.variables.item[0], "a value may have a '='");
        is_string("SEEN=here", o.variables.item[1], "a name alone takes our value");
        ok(strstr(text, "-x UNSEEN: there is no such variable here"), "it is a warning");
        char wanted[512];
        snprintf(wanted, sizeof(wanted), "%s/there", o.here);
        is_string(wanted, o.wdir, "a folder is made absolute");
        is_string("/opt/hoop", o.prefix, "unless it is");
        ok(strcmp(o.argv[0], "x") == 0 && strcmp(o.argv[1], "-n") == 0 && o.ranks == 0,
           "options behind the program are its own");
    }
    hp_options_free(&o);
    if (takes("-- -x", &o))
        is_string("-x", o.argv[0], "after -- a program may look like an option");
    hp_options_free(&o);
}

static void
check_hosts(void)
{
    hp_options o;
    if (takes("-H a:2,b x", &o)) {
        ok(o.hosts.count == 2 && o.hosts.entry[0].slots == 2, "hosts and slots");
        ok(o.rsh.count == 1 && strcmp(o.rsh.item[0], "ssh") == 0, "ssh is the remote shell");
    }
    hp_options_free(&o);
    setenv("HOOP_RSH", "ip netns exec", 1);
    if (takes("-H a x", &o))
        ok(o.rsh.count == 3 && strcmp(o.rsh.item[2], "exec") == 0, "HOOP_RSH has a shell's words");
    hp_options_free(&o);
    if (takes("-H a --rsh=blaunch x", &o))
        ok(o.rsh.count == 1 && strcmp(o.rsh.item[0], "blaunch") == 0, "--rsh goes before it");
    hp_options_free(&o);
    unsetenv("HOOP_RSH");
}

static void
check_terminal(void)
{
    hp_options o;
    int pipe_fd[2], old = dup(STDOUT_FILENO);
    if (pipe(pipe_fd) < 0)
        bail("no pipe");
    char never[] = "x", always[] = "--pty=always x";
    dup2(pipe_fd[1], STDOUT_FILENO);
    parse(&o, never);
    int of_pipe = o.agent.pty;
    hp_options_free(&o);
    parse(&o, always);
    int wanted = o.agent.pty;
    hp_options_free(&o);
    dup2(old, STDOUT_FILENO);
    close(old);
    is_int(HP_PTY_NEVER, of_pipe, "without a terminal ranks get none");
    is_int(HP_PTY_ALWAYS, wanted, "unless it is asked for");
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

/* --- mistakes --- */

static void
check_mistakes(void)
{
    static const struct {
        const char *command, *sentence;
    } rows[] = {
        {"-n", "-n needs a value after it"},
        {"-n 0 x", "-n 0: write a whole number from 1 to 65536"},
        {"-n 65537 x", "-n 65537: write a whole number"},
        {"-n 4x x", "-n 4x: write a whole number"},
        {"--ssh-port 65536 x", "--ssh-port 65536: write a whole number from 1 to 65535"},
        {"--timeout -1 x", "--timeout -1: write a number of seconds"},
        {"--timeout 0 x", "--timeout 0: write a number of seconds above 0, as in --timeout 90 or"},
        {"--timeout nan x", "--timeout nan: write a number of seconds"},
        {"--elastic 0 x", "--elastic 0: write a whole number from 1 to 65536, or two of them, as in --elastic 2:4"},
        {"--elastic 2: x", "--elastic 2:: write a whole number"},
        {"--elastic :4 x", "--elastic :4: write a whole number"},
        {"--elastic 2:4:6 x", "--elastic 2:4:6: write a whole number"},
        {"--elastic 3:2 x", "--elastic 3:2: the first number is the least, the second the most; write --elastic 2:3"},
        {"--max-restarts 3 x",
         "--max-restarts 3 goes with --elastic: while a rank is started again, the others must go on "
         "without it, as with hoop_comm_shrink; write --elastic 1 --max-restarts 3"},
        {"--elastic 1 --max-restarts -1 x", "--max-restarts -1: write a whole number from 0 to 65536"},
        {"--bind=1 x", "--bind takes no value; write --bind alone"},
        {"--wdir= x", "--wdir needs a value that is not empty"},
        {"--pty=some x", "--pty=some: write one of auto|always|never"},
        {"--pty=al x", "--pty=al: write one of"},
        {"-x 1A=b x", "-x 1A=b: that is not the name of a variable"},
        {"-x =b x", "-x =b: that is not the name of a variable"},
        {"-H a -f b x", "the hosts are given twice"},
        {"-H , x", "-H names no host"},
        {"--hosfile b x", "there is no option --hosfile; the nearest one is --hostfile"},
        {"--oversubscribe x", "there is no option --oversubscribe; leave it out"},
        {"--rdzv-backend=c10d x", "there is no option --rdzv-backend; start hooprun once"},
        {"--tee x", "--tee goes with --output-dir"},
        {"--force x", "--force goes with --output-dir"},
        {"--rsh=a|b x", "--rsh a|b: the value is a program and its arguments, not a script of the shell"},
        {"--rsh='a x", "--rsh 'a: the quotes in it do not match"},
        {"-n 2 a : -n 2 b", "':' would start several programs"},
        {"-n 2", "there is no program to run"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hp_options o;
        char line[256];
        snprintf(line, sizeof(line), "%s", rows[i].command);
        int status = parse(&o, line);
        ok(status == 2 && strncmp(text, "hooprun: ", 9) == 0 && strstr(text, rows[i].sentence), "%s: %s",
           rows[i].command, rows[i].sentence);
        if (!strstr(text, rows[i].sentence))
            diag("status %d: %s", status, text);
        hp_options_free(&o);
    }
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    unsetenv("HOOP_HOSTFILE");
    unsetenv("HOOP_RSH");
    check_numbers();
    check_words();
    check_hosts();
    check_terminal();
    check_mistakes();
    return 0;
}
