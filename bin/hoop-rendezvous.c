/* SPDX-License-Identifier: MIT */
/*
 * hoop-rendezvous: the rendezvous server as a program of its own, for ranks that are started by hand or by another
 * launcher; hooprun has a server of its own. It serves any number of jobs. This file has options, secrets and signals;
 * rendezvous/server.c is the server.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/option.h"
#include "hoop.h"
#include "lib/config.h"
#include "lib/secret_file.h"
#include "net/interface.h"
#include "rendezvous/server.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_UNWRITTEN = 1, EXIT_USAGE = 2 };

typedef struct settings {
    const char *host, *interface, *secret_file, *new_secret, *job, *job_secret;
    int port; /* -1: not given */
    int mode, comes_back;
} settings;

static hp_loop *loop;
static volatile sig_atomic_t stop;
static hp_line_writer standard_output = {.fd = STDOUT_FILENO}, standard_error = {.fd = STDERR_FILENO};

static const char help[] = "Usage: hoop-rendezvous [options]\n"
                           "Rendezvous server for the ranks of hoop jobs. hooprun has its own; this program is for\n"
                           "ranks started by hand or by another launcher. It serves several jobs at once.\n"
                           "  --port N            port to listen on, 0: any free port (default: the first free\n"
                           "                      port of HOOP_PORT_RANGE, or any); the port is printed\n"
                           "  --host ADDR         address to listen on (default 127.0.0.1: this machine only)\n"
                           "  --interface NAMES   listen on the address of an interface instead, for instance\n"
                           "                      eth0, =eth0, ^docker or 10.0.0.0/8 (as HOOP_SOCKET_IFNAME)\n"
                           "  --secret-file FILE  the secret that every rank must know (default: that of\n"
                           "                      HOOP_SECRET_FD or HOOP_SECRET_FILE)\n"
                           "  --new-secret [FILE] write a new secret to a new file (~/.config/hoop/secret), and exit\n"
                           "  --job NAME          serve only the job of this name, which its ranks have in HOOP_JOB\n"
                           "  --job-secret FILE   write the key of --job's job to a new file: it opens no other\n"
                           "  --security MODE     auth (default), or none: no secret, no --job, 127.0.0.1 only\n"
                           "  --comes-back        it is started again when it has died: ranks wait for it\n"
                           "  --help, --version\n"
                           "\n"
                           "Example, a ring of two programs started by hand:\n"
                           "  hoop-rendezvous --new-secret ring.secret\n"
                           "  hoop-rendezvous --port 5801 --secret-file ring.secret &\n"
                           "  export HOOP_RENDEZVOUS=127.0.0.1:5801 HOOP_SECRET_FILE=$PWD/ring.secret HOOP_SIZE=2\n"
                           "  HOOP_RANK=0 ./program & HOOP_RANK=1 ./program\n"
                           "\n"
                           "Exit status: 0 after SIGINT or SIGTERM; 1 if it cannot print; 2 if it cannot start.\n";

static void
on_signal(int number)
{
    (void)number;
    stop = 1;
    hp_loop_wake(loop);
}

static int
complain(const hoop_error *error)
{
    fprintf(stderr, "hoop-rendezvous: %s\n", error->text);
    return EXIT_USAGE;
}

/* What was printed so far, at the end: 0, or EXIT_UNWRITTEN and a sentence. */
static int
end_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "hoop-rendezvous: cannot write to standard output: %s\n", strerror(errno));
    return EXIT_UNWRITTEN;
}

/* The secret to serve with; with --job, that job's own key. */
static hoop_result
find_secret(hp_secret *secret, const settings *s, hoop_error *error)
{
    const char *fd = getenv("HOOP_SECRET_FD"), *file = s->secret_file;
    uint8_t job[HP_JOB_ID_BYTES];
    hoop_result result;
    int number;
    if (!file && !(fd && *fd))
        file = getenv("HOOP_SECRET_FILE");
    if (file && (*file || s->secret_file))
        result = hp_secret_from_file(secret, file, error);
    else if (!fd || !*fd)
        result = hp_err_set(error, HOOP_ERR_AUTH,
                            "no secret: make one with \"hoop-rendezvous --new-secret FILE\", then give it here with "
                            "--secret-file FILE and to every rank as HOOP_SECRET_FILE=FILE");
    else if (hp_number_parse_int(fd, 0, 1 << 20, &number))
        result = hp_secret_from_fd(secret, number, error);
    else
        result = hp_err_set(error, HOOP_ERR_AUTH, "HOOP_SECRET_FD is \"%s\", which is no descriptor number", fd);
    if (result || !s->job)
        return result;
    result = hp_job_id(job, s->job, error);
    if (!result && secret->of_job && memcmp(secret->job_id, job, sizeof(job)) != 0)
        result = hp_err_set(error, HOOP_ERR_AUTH, "the secret is the key of another job than \"%.64s\"", s->job);
    return result ? result : hp_secret_of_job(secret, secret, job, error);
}

static int
write_secret(const char *path, const hp_secret *secret)
{
    hoop_error error;
    return hp_secret_file_new(path, secret, &error) == HOOP_SUCCESS ? 0 : complain(&error);
}

/* Without a path: the user's own file, which ranks read that have no other secret. */
static int
write_new_secret(const char *path, hp_secret *secret)
{
    char own[HP_SECRET_PATH];
    hoop_error error;
    if (hp_random(secret->key, sizeof(secret->key), &error))
        return complain(&error);
    if (*path)
        return write_secret(path, secret);
    if (hp_secret_file_own(own, 1, &error))
        return complain(&error);
    int status = write_secret(own, secret);
    if (status)
        return status;
    printf("hoop-rendezvous: wrote a new secret to %s; every host needs the same file\n", own);
    return end_output();
}

static hoop_result
find_address(hp_addr *addr, const settings *s, hoop_error *error)
{
    char text[300];
    hoop_result result;
    const char *host = s->host ? s->host : "127.0.0.1";
    int port = s->port > 0 ? s->port : 0;
    if (s->interface) {
        result = hp_interface_choose_as("--interface ", addr, s->interface, error);
        hp_addr_set_port(addr, (uint16_t)port);
        return result;
    }
    int bare_v6 = strchr(host, ':') && host[0] != '[';
    snprintf(text, sizeof(text), bare_v6 ? "[%s]:%d" : "%s:%d", host, port);
    return hp_addr_parse(addr, text, error);
}

/* Many a host has its own name for a loopback address, in /etc/hosts. */
static void
warn_of_loopback(const hp_addr *listen, const char *host)
{
    char text[HP_ADDR_TEXT];
    int is_name = host && !strchr(host, ':') && !isdigit((unsigned char)host[0]) && strcmp(host, "localhost") != 0;
    if (is_name && hp_addr_is_loopback(listen))
        fprintf(stderr,
                "hoop-rendezvous: %s is %s on this host, which others cannot reach: give --interface, or the address "
                "that they use\n",
                host, hp_addr_host(listen, text));
}

/*
 * Warnings go to standard error, so that a user who reads no log sees them. The server waits for nobody who should read a
 * line: jobs need it.
 */
static void
say(void *arg, hp_notice sort, const char *line)
{
    char text[500];
    (void)arg;
    snprintf(text, sizeof(text), "hoop-rendezvous: %s", line);
    if (sort == HP_NOTICE_WARNING)
        hp_line_writer_put(&standard_error, text);
    else
        hp_line_writer_put(&standard_output, line);
}

static int
serve(const settings *s, hp_secret *secret)
{
    struct sigaction action = {.sa_handler = on_signal};
    char listening[HP_ADDR_TEXT], range[HP_VALUE_TEXT] = "";
    hoop_error error;
    hp_server_options options = {
        .mode = s->mode, .starter.say = say, .secret = secret, .asked = 1, .comes_back = s->comes_back};
    hoop_result result = find_address(&options.listen, s, &error);
    if (s->port < 0) /* --port wins over HOOP_PORT_RANGE */
        hp_config_glance(HP_SET_port_range, range);
    if (!result)
        result = hp_ports_parse(&options.ports, range, &error);
    if (!result && s->mode == HP_MODE_AUTH)
        result = find_secret(secret, s, &error);
    if (result)
        return complain(&error);
    if (s->mode == HP_MODE_AUTH) /* the other one is for this host alone */
        warn_of_loopback(&options.listen, s->host);
    hp_limits_raise_descriptors(NULL); /* each rank needs one */
    loop = hp_loop_new();
    if (!loop) {
        hp_err_sys(&error, HOOP_ERR_SYSTEM, errno, "cannot make an event loop");
        return complain(&error);
    }
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    hp_server *server = hp_server_new(loop, &options, &error);
    hp_wipe(secret, sizeof(*secret)); /* the server has a copy */
    if (!server) {
        hp_loop_free(loop);
        return complain(&error);
    }
    printf("hoop-rendezvous: listening on %s\n", hp_addr_print(hp_server_addr(server), listening));
    fflush(stdout);
    while (!stop)
        hp_loop_run(loop, HP_NEVER);
    hp_server_free(server);
    hp_loop_free(loop);
    return 0;
}

static int
misuse(const char *problem, const char *value)
{
    fprintf(stderr, "hoop-rendezvous: %s%s; see hoop-rendezvous --help\n", problem, value);
    return EXIT_USAGE;
}

/* Runs with the secret in memory that is in no core file. */
static int
run(const settings *s)
{
    hp_secret *secret = hp_secmem_new(sizeof(*secret));
    hoop_error error;
    int status;
    if (!secret) {
        fprintf(stderr, "hoop-rendezvous: out of memory\n");
        return EXIT_USAGE;
    }
    if (s->new_secret)
        status = write_new_secret(s->new_secret, secret);
    else if (!s->job_secret)
        status = serve(s, secret);
    else
        status = find_secret(secret, s, &error) ? complain(&error) : write_secret(s->job_secret, secret);
    hp_secmem_free(secret);
    return status;
}

/* -1: go on and serve; anything else is the exit status. */
static int
take_option(int option, settings *s)
{
    switch (option) {
    case 'p':
        return hp_number_parse_int(optarg, 0, 65535, &s->port)
                   ? -1
                   : misuse("--port wants a number from 0 to 65535, not ", optarg);
    case 'H': s->host = optarg; return -1;
    case 'i': s->interface = optarg; return -1;
    case 's': s->secret_file = optarg; return -1;
    case 'j': s->job = optarg; return -1;
    case 'J': s->job_secret = optarg; return -1;
    case 'n': s->new_secret = optarg ? optarg : ""; return -1;
    case 'm':
        if (strcmp(optarg, "auth") != 0 && strcmp(optarg, "none") != 0)
            return misuse("--security is auth or none, not ", optarg);
        s->mode = strcmp(optarg, "none") == 0 ? HP_MODE_NONE : HP_MODE_AUTH;
        return -1;
    case 'b': s->comes_back = 1; return -1;
    case 'h': fputs(help, stdout); return end_output();
    case 'V': printf("hoop-rendezvous %s\n", hoop_version()); return end_output();
    default: return -1;
    }
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {{"port", required_argument, NULL, 'p'},
                                            {"host", required_argument, NULL, 'H'},
                                            {"bind", required_argument, NULL, 'H'},
                                            {"interface", required_argument, NULL, 'i'},
                                            {"secret-file", required_argument, NULL, 's'},
                                            {"new-secret", optional_argument, NULL, 'n'},
                                            {"job", required_argument, NULL, 'j'},
                                            {"job-secret", required_argument, NULL, 'J'},
                                            {"security", required_argument, NULL, 'm'},
                                            {"comes-back", no_argument, NULL, 'b'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"h", no_argument, NULL, 'h'},
                                            {"complete-options", no_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    static const hp_option_kind kinds[] = {{'s', "file", "FILE"},        {'n', "file", "FILE"}, {'J', "file", "FILE"},
                                           {'m', "choice", "auth|none"}, {'c', "hidden", ""},   {0, NULL, NULL}};
    settings s = {.mode = HP_MODE_AUTH, .port = -1};
    char wrong[256];
    int option;
    hp_secmem_hide_process();
    signal(SIGXFSZ, SIG_IGN); /* a limit of file size (ulimit -f) is an error of the write */
    opterr = 0;
    while ((option = getopt_long_only(argc, argv, ":", options, NULL)) != -1) {
        if (option == '?' || option == ':')
            return misuse(hp_option_error(option, argv[optind - 1], optopt, options, wrong, sizeof(wrong)), "");
        if (option == 'c') {
            hp_option_list(stdout, options, "", kinds);
            return end_output();
        }
        int status = take_option(option, &s);
        if (status >= 0)
            return status;
    }
    if (s.new_secret && !*s.new_secret && optind < argc)
        s.new_secret = argv[optind++]; /* getopt takes an optional argument only behind an = */
    if (optind < argc)
        return misuse("unexpected argument ", argv[optind]);
    if (s.host && s.interface)
        return misuse("give --host or --interface, not both", "");
    if (s.job && s.mode == HP_MODE_NONE)
        return misuse("--job does not go with --security none: other jobs are rejected by the job's key", "");
    if (s.job_secret && !s.job)
        return misuse("--job-secret wants the job's name too: --job NAME --job-secret ", s.job_secret);
    return run(&s);
}
