/* SPDX-License-Identifier: MIT */
/*
 * server_search: a rank finds the server of its own job at one of a few ports, also where others have the first of them,
 * where the server comes late, and where a stranger takes a connection and says nothing. What is missing gets a sentence.
 */
#include "lib/server_search.h"

#include "base/clock.h"
#include "net/secret.h"
#include "rendezvous/registration.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"
#include "t/tools/served.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORTS = 3, SHORT_MS = 6000, LONG_MS = 60000 };

static int first; /* of the ports */
static char right[HOOP_SECRET_TEXT], other[HOOP_SECRET_TEXT];

/* --- what is at the ports --- */

/* A process that does so until it is killed, and has begun when this returns. */
static pid_t
begin(void (*serve)(int port, int tell, double after), int port, double after)
{
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        bail("no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(60);
        serve(port, ends[1], after);
        _exit(1);
    }
    close(ends[1]);
    if (after <= 0 && read(ends[0], &byte, 1) != 1)
        bail("nothing serves at port %d", port);
    close(ends[0]);
    return pid;
}

static void
end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void
serve_with(const char *secret, int port, int tell, double after)
{
    char address[32];
    party_nap(after);
    snprintf(served_secret, sizeof(served_secret), "%s", secret);
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    if (!served_start(address) || (after <= 0 && write(tell, "", 1) != 1))
        _exit(1);
    for (;;)
        pause();
}

static void
serve_job(int port, int tell, double after)
{
    serve_with(right, port, tell, after);
}

static void
serve_another_job(int port, int tell, double after)
{
    serve_with(other, port, tell, after);
}

static int
listen_at(int port, int tell)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0 || listen(fd, 8) != 0 || write(tell, "", 1) != 1)
        _exit(1);
    return fd;
}

static void
serve_pages(int port, int tell, double after)
{
    static const char page[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    int fd = listen_at(port, tell);
    for (;;) {
        int guest = accept(fd, NULL, NULL);
        if (guest >= 0 && write(guest, page, sizeof(page) - 1) < 0)
            _exit(1);
        close(guest);
    }
}

static void
say_nothing(int port, int tell, double after)
{
    listen_at(port, tell);
    for (;;)
        pause();
}

/* --- the search --- */

typedef struct finding {
    hoop_result result;
    int port;
    double seconds;
    hoop_error error;
} finding;

static finding
search(const char *where, int limit_ms)
{
    finding f = {.port = 0};
    hp_secret secret;
    uint8_t job[HP_JOB_ID_BYTES];
    hp_addr server;
    double began = party_clock();
    hp_loop *loop = hp_loop_new();
    hp_bounded_wait wait = hp_bounded_wait_of((uint64_t)limit_ms * HP_MS, 0);
    if (!loop || hp_job_id(job, "the job", &f.error) || hp_secret_parse(&secret, right, strlen(right), &f.error) ||
        hp_secret_of_job(&secret, &secret, job, &f.error))
        bail("no key: %s", f.error.text);
    hp_keys *keys = hp_keys_new(secret.key, job, HP_MODE_AUTH, &f.error);
    hp_hello hello = hp_registration_hello(&(hp_client_options){.rank = 1, .size = 2}, NULL);
    hp_server_search_options o = {.what = "the server of rank 0", .host = where, .hello = hello, .keys = keys};
    f.result =
        hp_server_search_ports(&server, (uint16_t)first, (uint16_t)(first + PORTS - 1), &o, loop, &wait, &f.error);
    f.port = f.result == HOOP_SUCCESS ? hp_addr_port(&server) - first : -1;
    f.seconds = party_clock() - began;
    hp_keys_drop(keys);
    hp_loop_free(loop);
    return f;
}

static void
finds(int port, const finding *f, const char *what)
{
    if (!is_int(port, f->port, "%s", what))
        diag("after %.1f s: %s", f->seconds, f->result ? f->error.text : "success");
}

static void
says(const finding *f, const char *part, const char *what)
{
    if (!ok(strstr(f->error.text, part) != NULL, "%s", what))
        diag("%s", f->error.text);
}

static void
test_first_port(void)
{
    pid_t server = begin(serve_job, first, 0);
    finding f = search("127.0.0.1", LONG_MS);
    finds(0, &f, "the server has the first port");
    end(server);
}

static void
test_strangers(void)
{
    pid_t stranger = begin(serve_pages, first, 0), job = begin(serve_another_job, first + 1, 0);
    pid_t server = begin(serve_job, first + 2, 0);
    finding f = search("127.0.0.1", LONG_MS);
    finds(2, &f, "another program has the first port, another job the second");
    end(server);
    end(stranger);
    stranger = begin(say_nothing, first, 0);
    server = begin(serve_job, first + 2, 0);
    f = search("127.0.0.1", LONG_MS);
    finds(2, &f, "who takes the connection and says nothing holds up no one");
    end(server);
    server = begin(serve_job, first + 2, 1.2);
    f = search("127.0.0.1", LONG_MS);
    finds(2, &f, "the server comes late, behind two strangers");
    end(server);
    end(stranger);
    end(job);
}

static void
test_nobody(void)
{
    char want[64];
    finding f = search("127.0.0.1", SHORT_MS);
    is_int(HOOP_ERR_RENDEZVOUS, f.result, "nobody is there");
    snprintf(want, sizeof(want), "at 127.0.0.1, ports %d to %d", first, first + PORTS - 1);
    says(&f, want, "the sentence has the ports");
    says(&f, "is rank 0 there", "and asks for rank 0");
    ok(f.seconds >= SHORT_MS / 1e3 - 0.1 && f.seconds < SHORT_MS / 1e3 + tap_room(), "in time");
}

static void
test_others_only(void)
{
    char want[64];
    pid_t job = begin(serve_another_job, first, 0);
    finding f = search("127.0.0.1", SHORT_MS);
    is_int(HOOP_ERR_RENDEZVOUS, f.result, "only another job is there");
    snprintf(want, sizeof(want), "at port %d something else answers", first);
    says(&f, want, "the sentence has its port");
    end(job);
}

static void
test_silence(void)
{
    char want[96];
    pid_t proxy = begin(say_nothing, first, 0);
    finding f = search("127.0.0.1", SHORT_MS);
    is_int(HOOP_ERR_RENDEZVOUS, f.result, "a proxy accepts, and nothing is behind it");
    snprintf(want, sizeof(want), "something accepts connections at 127.0.0.1:%d and does not answer", first);
    says(&f, want, "the sentence has its port");
    end(proxy);
}

static void
test_no_address(void)
{
    finding f = search("no-such-host.invalid", SHORT_MS);
    is_int(HOOP_ERR_RENDEZVOUS, f.result, "a host that has no address");
    says(&f, "the host of rank 0 (MASTER_ADDR)", "the sentence has the variable");
    says(&f, "no-such-host.invalid", "and the name");
}

/* Searches that find nothing end at their limits, side by side, each among ports of its own. */
static void
play(int scene)
{
    static void (*const searches[])(void) = {test_nobody, test_others_only, test_silence, test_no_address};
    first += scene * PORTS;
    searches[scene]();
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    first = party_ports(4 * PORTS);
    if (hoop_secret_new(right, sizeof(right)) || hoop_secret_new(other, sizeof(other)))
        bail("no secret");
    test_first_port();
    test_strangers();
    tap_scenes(4, play);
    return 0;
}
