/* SPDX-License-Identifier: MIT */
/* proxy: see proxy.h. One poll loop; a connection is two tubes, one for each direction, with a buffer of its own. */
#include "t/tools/proxy.h"

#include "t/tap/tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 256, BUFFER = 64 << 10, PIECES = 64, LOOK_MS = 2 };

typedef struct tube {
    int from, to;
    uint8_t buffer[BUFFER];
    size_t head, tail;
    uint64_t seen; /* bytes read from `from` */
    int ended, told;
} tube;

typedef struct connection {
    proxy_door *door;
    tube way[2]; /* 0: towards the target, 1: back */
    uint64_t began;
} connection;

static uint64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static struct sockaddr_in
loopback(int port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sin;
}

/* --- the ranks' side --- */

static proxy_door *before_me;

/* Takes the place of the C library's in the whole program: tells the door where a rank listens. */
int
listen(int fd, int backlog)
{
    struct sockaddr_in sin = {0};
    socklen_t n = sizeof(sin);
    int result = (int)syscall(SYS_listen, fd, backlog);
    if (result == 0 && before_me && getsockname(fd, (struct sockaddr *)&sin, &n) == 0 && sin.sin_family == AF_INET)
        atomic_store(&before_me->target, ntohs(sin.sin_port));
    return result;
}

void
proxy_stand_before(proxy *x, int door)
{
    char text[32];
    before_me = &x->door[door];
    snprintf(text, sizeof(text), "127.0.0.1:%d", atomic_load(&before_me->port));
    setenv("HOOP_ADVERTISE", text, 1);
}

/* --- connections that lead nowhere --- */

static struct {
    int fd;
    proxy_door *door; /* NULL: a free place */
} lost[CONNECTIONS];

static void
close_hard(int fd)
{
    const struct linger hard = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
}

static void
turn_away(int fd, proxy_door *door)
{
    int place = 0;
    atomic_fetch_add(&door->turned_away, 1);
    while (place < CONNECTIONS && lost[place].door)
        place++;
    if (place == CONNECTIONS || atomic_load(&door->shut) == PROXY_CLOSES) {
        close(fd);
        return;
    }
    lost[place].fd = fd;
    lost[place].door = door;
}

static void
serve_lost(int drop)
{
    static const char sorry[] = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 19\r\n\r\nno healthy upstream";
    char bytes[512];
    for (int i = 0; i < CONNECTIONS; i++) {
        int shut = lost[i].door ? atomic_load(&lost[i].door->shut) : 0;
        ssize_t n = lost[i].door ? recv(lost[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT) : 0;
        if (!lost[i].door || (!drop && n < 0 && errno == EAGAIN) || (!drop && n > 0 && shut == PROXY_IGNORES))
            continue;
        if (shut == PROXY_ANSWERS)
            send(lost[i].fd, sorry, sizeof(sorry) - 1, MSG_NOSIGNAL);
        if (shut == PROXY_RESETS_LATER)
            close_hard(lost[i].fd);
        else
            close(lost[i].fd);
        lost[i].door = NULL;
    }
}

/* --- a connection --- */

static connection *all[CONNECTIONS];

static void
drop(int i, int reset)
{
    for (int k = 0; k < 2; k++)
        if (reset)
            close_hard(all[i]->way[k].from);
        else
            close(all[i]->way[k].from);
    free(all[i]);
    all[i] = NULL;
}

static void
welcome(int listener, proxy_door *door)
{
    struct sockaddr_in to = loopback(atomic_load(&door->target));
    int one = 1, place = 0, near = accept4(listener, NULL, NULL, SOCK_CLOEXEC), far;
    if (near < 0)
        return;
    if (now_ns() < atomic_load(&door->opens_at)) {
        turn_away(near, door);
        return;
    }
    far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (place < CONNECTIONS && all[place])
        place++;
    if (place == CONNECTIONS || connect(far, (struct sockaddr *)&to, sizeof(to)) != 0) {
        close(near);
        close(far);
        return;
    }
    connection *c = calloc(1, sizeof(*c));
    if (!c)
        abort();
    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c->door = door;
    c->began = now_ns();
    c->way[0].from = c->way[1].to = near;
    c->way[0].to = c->way[1].from = far;
    all[place] = c;
}

/* Whether the door's act is still to come on this tube. */
static int
is_marked(const connection *c, int back)
{
    const proxy_door *d = c->door;
    return atomic_load(&d->act) != PROXY_PASS && !atomic_load(&d->done) && atomic_load(&d->back) == back;
}

/* How many bytes may be read now: no further than the act, no faster than the rate. */
static size_t
may_read(const connection *c, int back, uint64_t now)
{
    const proxy_door *d = c->door;
    const tube *t = &c->way[back];
    uint64_t most = BUFFER - t->tail, rate = atomic_load(&d->rate), at = atomic_load(&d->at);
    if (t->ended)
        return 0;
    if (is_marked(c, back) && at >= t->seen && at - t->seen < most)
        most = at - t->seen + (atomic_load(&d->act) == PROXY_FLIP);
    if (rate && rate * ((now - c->began) / 1000) / 1000000 < t->seen)
        most = 0;
    else if (rate && most > 1 + rate / 100)
        most = 1 + rate / 100;
    return (size_t)most;
}

static void
pull(connection *c, int back, size_t most)
{
    proxy_door *d = c->door;
    tube *t = &c->way[back];
    ssize_t n = recv(t->from, t->buffer + t->tail, most, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        t->ended = 1;
    if (n <= 0)
        return;
    if (is_marked(c, back) && atomic_load(&d->act) == PROXY_FLIP && atomic_load(&d->at) < t->seen + (uint64_t)n &&
        atomic_load(&d->at) >= t->seen) {
        t->buffer[t->tail + (size_t)(atomic_load(&d->at) - t->seen)] ^= (uint8_t)(1 << atomic_load(&d->bit));
        atomic_store(&d->done_at, now_ns());
        atomic_store(&d->done, 1);
    }
    t->seen += (uint64_t)n;
    t->tail += (size_t)n;
    if (t->seen > atomic_load(&d->passed[back]))
        atomic_store(&d->passed[back], t->seen);
}

static void
push(connection *c, int back)
{
    tube *t = &c->way[back];
    unsigned segment = atomic_load(&c->door->segment);
    for (int i = 0; i < PIECES && t->head < t->tail; i++) {
        size_t n = t->tail - t->head;
        if (segment && n > segment)
            n = 1 + (size_t)rand() % segment;
        ssize_t sent = send(t->to, t->buffer + t->head, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            sent = (ssize_t)(t->tail - t->head); /* nobody is there any more */
        if (sent < 0)
            return;
        t->head += (size_t)sent;
    }
    if (t->head == t->tail)
        t->head = t->tail = 0;
    if (t->ended && t->head == t->tail && !t->told) {
        shutdown(t->to, SHUT_WR);
        t->told = 1;
    }
}

/* The act, once all bytes before it have gone on. 1: the connection is no more. */
static int
act(int i, int back)
{
    connection *c = all[i];
    proxy_door *d = c->door;
    const tube *t = &c->way[back];
    int what = atomic_load(&d->act);
    if (!is_marked(c, back) || what == PROXY_FLIP || t->seen < atomic_load(&d->at) || t->head < t->tail)
        return 0;
    if (what == PROXY_STALL) {
        atomic_exchange(&d->done_at, atomic_load(&d->done_at) ? atomic_load(&d->done_at) : now_ns());
        return 0; /* may_read gives nothing more as long as it is marked */
    }
    atomic_store(&d->done_at, now_ns());
    atomic_store(&d->done, atomic_fetch_sub(&d->times, 1) <= 1);
    drop(i, what == PROXY_RESET);
    return 1;
}

static void
serve(int i, uint64_t now)
{
    for (int back = 0; back < 2; back++) {
        size_t most = may_read(all[i], back, now);
        if (most)
            pull(all[i], back, most);
        push(all[i], back);
        if (act(i, back))
            return;
    }
    if (all[i]->way[0].told && all[i]->way[1].told)
        drop(i, 0);
}

/* --- the process --- */

/* Waits until something can move; what is stalled or marked is not looked at, and rates are kept by looking often. */
static void
wait_a_little(const int listeners[PROXY_DOORS], uint64_t now)
{
    struct pollfd fds[PROXY_DOORS + 2 * CONNECTIONS];
    nfds_t n = 0;
    for (int d = 0; d < PROXY_DOORS; d++)
        fds[n++] = (struct pollfd){.fd = listeners[d], .events = POLLIN};
    for (int i = 0; i < CONNECTIONS; i++)
        for (int k = 0; all[i] && k < 2; k++) {
            const tube *t = &all[i]->way[k], *other = &all[i]->way[!k];
            short events = (short)((may_read(all[i], k, now) ? POLLIN : 0) | (other->head < other->tail ? POLLOUT : 0));
            int stalled = atomic_load(&all[i]->door->stalled);
            fds[n++] = (struct pollfd){.fd = stalled || !events ? -1 : t->from, .events = events};
        }
    poll(fds, n, LOOK_MS);
}

static void
run(proxy *x, const int listeners[PROXY_DOORS])
{
    for (;;) {
        uint64_t now = now_ns();
        wait_a_little(listeners, now);
        for (int i = 0; i < CONNECTIONS; i++)
            if (all[i] && atomic_load(&x->drop))
                drop(i, atomic_load(&x->drop) == 1);
            else if (all[i] && !atomic_load(&all[i]->door->stalled))
                serve(i, now);
        serve_lost(atomic_load(&x->drop));
        atomic_store(&x->drop, 0);
        for (int d = 0; d < PROXY_DOORS; d++) {
            struct pollfd one = {.fd = listeners[d], .events = POLLIN};
            if (poll(&one, 1, 0) == 1 && !atomic_load(&x->door[d].stalled))
                welcome(listeners[d], &x->door[d]);
        }
    }
}

static int
open_door(proxy_door *door)
{
    struct sockaddr_in sin = loopback(0);
    socklen_t n = sizeof(sin);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&sin, &n) != 0)
        bail("no listener for the proxy");
    atomic_store(&door->port, ntohs(sin.sin_port));
    return fd;
}

proxy *
proxy_open(void)
{
    int listeners[PROXY_DOORS];
    proxy *x = mmap(NULL, sizeof(*x), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (x == MAP_FAILED)
        bail("no memory to share");
    setenv("HOOP_SHM", "0", 1); /* the ranks are on one host, and memory would pass by the proxy */
    for (int d = 0; d < PROXY_DOORS; d++)
        listeners[d] = open_door(&x->door[d]);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        bail("no process for the proxy");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(x, listeners);
    }
    x->pid = pid;
    for (int d = 0; d < PROXY_DOORS; d++)
        close(listeners[d]);
    proxy_reset(x);
    return x;
}

void
proxy_drop_all(proxy *x, int how)
{
    atomic_store(&x->drop, how);
    for (tap_wait w = {0}; atomic_load(&x->drop) && tap_waits(&w);)
        usleep(500);
}

void
proxy_reset(proxy *x)
{
    for (int d = 0; d < PROXY_DOORS; d++) {
        proxy_door *door = &x->door[d];
        atomic_store(&door->act, PROXY_PASS);
        atomic_store(&door->opens_at, 0);
        atomic_store(&door->stalled, 0);
        atomic_store(&door->segment, 0);
        atomic_store(&door->rate, 0);
    }
    proxy_drop_all(x, 1);
    for (int d = 0; d < PROXY_DOORS; d++) {
        proxy_door *door = &x->door[d];
        atomic_store(&door->turned_away, 0);
        atomic_store(&door->times, 0);
        atomic_store(&door->done, 0);
        atomic_store(&door->done_at, 0);
        atomic_store(&door->passed[0], 0);
        atomic_store(&door->passed[1], 0);
    }
}

void
proxy_shut_for(proxy_door *door, proxy_shut how, double seconds)
{
    atomic_store(&door->shut, (int)how);
    atomic_store(&door->opens_at, seconds > 0 ? now_ns() + (uint64_t)(seconds * 1e9) : 0);
}

void
proxy_close(proxy *x)
{
    kill(x->pid, SIGKILL);
    waitpid(x->pid, NULL, 0);
    munmap(x, sizeof(*x));
    unsetenv("HOOP_SHM");
}
