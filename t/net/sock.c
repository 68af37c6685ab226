/* SPDX-License-Identifier: MIT */
/*
 * sock: options as the kernel reports them, sentences for what goes wrong, no descriptor below 3, no connection of a
 * socket to itself.
 */
#include "net/sock.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/tcp.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char log_text[512];
static int log_lines;

static void
on_log(void *arg, int level, const char *line)
{
    snprintf(log_text, sizeof(log_text), "%s", line);
    log_lines++;
}

static int
option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);
    getsockopt(fd, level, name, &value, &length);
    return value;
}

static int
wait_for(int fd, short events)
{
    struct pollfd poller = {.fd = fd, .events = events};
    return poll(&poller, 1, 10000) == 1;
}

static void
check_options(const char *who, int fd, int idle, int interval, int probes)
{
    ok(fd >= 3 && (fcntl(fd, F_GETFL) & O_NONBLOCK) && (fcntl(fd, F_GETFD) & FD_CLOEXEC),
       "%s: 3 or higher, non-blocking, closed on exec", who);
    is_int(1, option(fd, IPPROTO_TCP, TCP_NODELAY), "%s: TCP_NODELAY", who);
    is_int(1, option(fd, SOL_SOCKET, SO_KEEPALIVE), "%s: keepalive", who);
    is_int(idle, option(fd, IPPROTO_TCP, TCP_KEEPIDLE), "%s: its idle time", who);
    is_int(interval, option(fd, IPPROTO_TCP, TCP_KEEPINTVL), "%s: its interval", who);
    is_int(probes, option(fd, IPPROTO_TCP, TCP_KEEPCNT), "%s: its probes", who);
    is_int(0, option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), "%s: no user timeout", who);
}

static void
test_pair(const char *where)
{
    hp_addr any, addr, peer, local;
    hoop_error error;
    hp_addr_parse(&any, where, NULL);
    int listener = hp_sock_listen(&any, 16, &error);
    if (listener < 0) {
        skip(1, "%s cannot be used here: %s", where, error.text);
        return;
    }
    is_int(HOOP_SUCCESS, hp_sock_name(listener, &addr, &error), "%s: a listener's name", where);
    ok(hp_addr_port(&addr) != 0 && hp_addr_same_host(&addr, &any), "with a port of its own");
    is_int(-1, hp_sock_accept(listener, &peer), "nobody to accept");
    ok(errno == EAGAIN, "errno says so");
    hp_sock_options options = {.sndbuf = 50000, .rcvbuf = 60000, .keepalive = {7, 3, 4}};
    int fd = hp_sock_connect(&addr, &any, &options, &error);
    ok(fd >= 0 && wait_for(fd, POLLOUT), "connects, from an address of ours");
    is_int(1, hp_sock_connected(fd, &error), "connected");
    ok(wait_for(listener, POLLIN), "the listener sees it");
    int accepted = hp_sock_accept(listener, &peer);
    hp_sock_name(fd, &local, NULL);
    ok(hp_addr_same_host(&peer, &local) && hp_addr_port(&peer) == hp_addr_port(&local), "the peer's name is right");
    check_options("dialler", fd, 7, 3, 4);
    is_int(100000, option(fd, SOL_SOCKET, SO_SNDBUF), "the send buffer (Linux doubles it)");
    is_int(120000, option(fd, SOL_SOCKET, SO_RCVBUF), "the receive buffer");
    hp_sock_tune(accepted, NULL);
    check_options("accepted", accepted, 4, 5, 7);
    ok(hp_sock_has_one_address(fd) && hp_sock_has_one_address(accepted), "both ends have one address");
    is_int(0, hp_sock_has_one_address(listener), "a listener has one end");
    usleep(100000);
    ok(hp_tcp_is_heard(fd, 3600 * HP_SEC), "the other end was heard within an hour");
    ok(!hp_tcp_is_heard(fd, HP_MS), "but not within a millisecond");
    close(fd);
    close(accepted);
    close(listener);
}

static void
test_sentences(void)
{
    hp_addr any, addr;
    hoop_error error;
    char wanted[128];
    hp_addr_parse(&any, "127.0.0.1:0", NULL);
    int listener = hp_sock_listen(&any, 1, &error);
    hp_sock_name(listener, &addr, NULL);
    is_int(-1, hp_sock_listen(&addr, 1, &error), "a port that is in use");
    snprintf(wanted, sizeof(wanted), "port %u on 127.0.0.1 is in use by another program; choose another, or 0 for any",
             hp_addr_port(&addr));
    is_string(wanted, error.text, "the sentence");
    is_int(EADDRINUSE, error.sys_errno, "and the number");
    close(listener);
    int fd = hp_sock_connect(&addr, NULL, NULL, &error);
    ok(fd >= 0 && wait_for(fd, POLLOUT), "connecting to a closed port");
    is_int(-1, hp_sock_connected(fd, &error), "fails");
    ok(error.sys_errno == ECONNREFUSED && strstr(error.text, "nothing listens there"), "%s", error.text);
    close(fd);
    hp_addr_parse(&addr, "192.0.2.77:0", NULL); /* RFC 5737: nobody's */
    is_int(-1, hp_sock_listen(&addr, 1, &error), "an address that is not ours");
    ok(error.code == HOOP_ERR_INVALID_ARGUMENT && strstr(error.text, "192.0.2.77 is not an address of this machine"),
       "%s", error.text);
    is_int(-1, hp_sock_connect(&any, &addr, NULL, &error), "connecting from an address that is not ours");
    ok(strstr(error.text, "192.0.2.77 is not an address of this machine") != NULL, "%s", error.text);
}

static int
connect_once(const hp_sock_options *options)
{
    hp_addr addr;
    hp_addr_parse(&addr, "127.0.0.1:9", NULL);
    int fd = hp_sock_connect(&addr, NULL, options, NULL);
    hp_sock_set_congestion(fd, options);
    return fd;
}

static void
test_congestion(void)
{
    char name[16] = "";
    socklen_t length = sizeof(name);
    hp_sock_options options = {.congestion = "reno"};
    int fd = connect_once(&options);
    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length);
    is_string("reno", name, "congestion control as asked for");
    close(fd);
    options.near_only = 1;
    fd = connect_once(&options);
    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length);
    is_string("reno", name, "... also where it is for near hosts only");
    close(fd);
    ok(hp_sock_is_near(0) && hp_sock_is_near(5000) && !hp_sock_is_near(5001), "which are 5 ms away at most");
    is_int(0, log_lines, "in silence");
    snprintf(options.congestion, sizeof(options.congestion), "no-such-one");
    for (int i = 0; i < 3; i++) {
        fd = connect_once(&options);
        ok(fd >= 3, "one that the kernel does not have is no error");
        close(fd);
    }
    is_int(1, log_lines, "and warned of once");
    ok(strstr(log_text, "no-such-one") && strstr(log_text, "/proc/sys/net/ipv4/tcp_allowed_congestion_control"), "%s",
       log_text);
    snprintf(options.congestion, sizeof(options.congestion), "another-no-such"); /* fills the field to its last byte */
    close(connect_once(&options));
    is_int(2, log_lines, "another name is another warning");
}

static void
test_two_hosts(void)
{
    hp_addr any, other, addr;
    hp_addr_parse(&any, "127.0.0.1:0", NULL);
    hp_addr_parse(&other, "127.0.0.2:0", NULL);
    int listener = hp_sock_listen(&any, 1, NULL);
    hp_sock_name(listener, &addr, NULL);
    int fd = hp_sock_connect(&addr, &other, NULL, NULL);
    ok(fd >= 0 && wait_for(fd, POLLOUT) && hp_sock_connected(fd, NULL) == 1, "connects from another address");
    is_int(0, hp_sock_has_one_address(fd), "that may be another host");
    close(fd);
    close(listener);
}

/* A socket bound to a port that connects to that port is connected to itself: TCP allows it. */
static void
test_self(void)
{
    hp_addr any, addr;
    hoop_error error;
    hp_addr_parse(&any, "127.0.0.1:0", NULL);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &any.u.any, any.length) != 0)
        bail("no socket: %s", strerror(errno));
    hp_sock_name(fd, &addr, NULL);
    is_int(0, connect(fd, &addr.u.any, addr.length), "the kernel connects a socket to itself");
    is_int(-1, hp_sock_connected(fd, &error), "which is not taken for a connection");
    is_int(ECONNREFUSED, error.sys_errno, "but for a refused one");
    close(fd);
}

/* In a child: what happens where descriptors 0 to 2 are free, and where none is. */
static void
test_low(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        hp_addr any, addr, peer;
        close_low();
        hp_addr_parse(&any, "127.0.0.1:0", NULL);
        int listener = hp_sock_listen(&any, 1, NULL);
        hp_sock_name(listener, &addr, NULL);
        int fd = hp_sock_connect(&addr, NULL, NULL, NULL);
        int called = wait_for(listener, POLLIN);
        int accepted = hp_sock_accept(listener, &peer), good = low_is_closed();
        good &= case_ok(called, "no connection arrives");
        good &=
            case_ok(listener >= 3 && fd >= 3 && accepted >= 3, "the sockets are %d, %d and %d", listener, fd, accepted);
        _exit(!good);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "no socket below 3");
    child = fork();
    if (child == 0) {
        hp_addr any;
        hoop_error error;
        allow_descriptors(3);
        hp_addr_parse(&any, "127.0.0.1:1", NULL);
        int good = case_ok(hp_sock_listen(&any, 1, &error) == -1, "a socket that listens is made");
        good &= case_int(EMFILE, error.sys_errno, "errno of listen");
        good &= case_ok(hp_sock_connect(&any, NULL, NULL, &error) == -1, "a socket that connects is made");
        good &= case_int(EMFILE, error.sys_errno, "errno of connect");
        good &= case_ok(error.code == HOOP_ERR_SYSTEM && strstr(error.text, "ulimit -n"), "error %d: %s", error.code,
                        error.text);
        _exit(!good);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "no descriptor left: HOOP_ERR_SYSTEM with EMFILE");
}

/* A proxy accepts at once: what it does with the connection then is the answer. */
static void
test_probe_of_proxy(void)
{
    hoop_error error;
    hp_addr addr;
    hp_probe probe = {.proxied = 1};
    hp_addr_parse(&addr, "127.0.0.1:0", NULL);
    int listener = hp_sock_listen(&addr, 4, &error);
    hp_sock_name(listener, &addr, NULL);
    hp_probe_start(&probe, &addr, NULL);
    for (tap_wait w = {0}; hp_probe_poll(&probe) == HP_PROBE_ASKED && tap_waits(&w);)
        ;
    wait_for(listener, POLLIN);
    int accepted = accept(listener, NULL, NULL);
    is_int(HP_PROBE_HELD, hp_probe_poll(&probe), "what a proxy accepts is held");
    is_int(1, (int)send(accepted, "x", 1, 0), "it sends a byte");
    wait_for(probe.fd, POLLIN);
    is_int(HP_PROBE_HELD, hp_probe_poll(&probe), "which it would not do for a process that has ended");
    close(accepted);
    hp_probe_start(&probe, &addr, NULL);
    wait_for(listener, POLLIN);
    close(accept(listener, NULL, NULL));
    for (tap_wait w = {0}; hp_probe_poll(&probe) != HP_PROBE_ENDED && tap_waits(&w);)
        ;
    is_int(HP_PROBE_ENDED, hp_probe_poll(&probe), "one that it closes tells that nothing is behind it");
    close(listener);
    hp_probe_start(&probe, &addr, NULL);
    for (tap_wait w = {0}; hp_probe_poll(&probe) == HP_PROBE_ASKED && tap_waits(&w);)
        ;
    is_int(HP_PROBE_ENDED, hp_probe_poll(&probe), "and so does a port that refuses");
    hp_probe_stop(&probe);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    hoop_log_to(on_log, NULL);
    test_pair("127.0.0.1:0");
    test_pair("[::1]:0");
    test_sentences();
    test_congestion();
    test_two_hosts();
    test_self();
    test_low();
    test_probe_of_proxy();
    return 0;
}
