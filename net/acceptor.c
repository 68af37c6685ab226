/* SPDX-License-Identifier: MIT */
/*
 * acceptor: accepts, and lets nobody in who cannot prove the secret. A stranger has a place in a fixed pool and the 144
 * bytes of its greeting there; only a right tag makes it a caller with an hp_conn on the heap; only a whole handshake
 * makes its socket the owner's. All of them wait in an epoll set of the door's own, and so do the listener and the
 * door's clock: one descriptor is all that a loop, or several, have to watch, a stranger costs no allocation, and a
 * crowd of them takes one turn in the loop, not hundreds.
 */
#include "net/acceptor.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/alarm.h"
#include "net/handshake_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { PER_TURN = 16, ACCEPTS = 4, BACKLOG = 1024, JOB_AT = 16 };
enum { CALLERS_MORE = 64, POOL_PART = 4, LACKING_MOST = 2 };

#define PATIENCE (5 * HP_SEC)
#define PAUSE (100 * HP_MS)

struct hp_door {
    hp_door_owner owner;
    hp_sock_options options;
    hp_addr addr;
    uint64_t patience;
    int crowd; /* an epoll set with all that follows */
    int listener;
    hp_alarm alarm;      /* all times here are by it; nobody may run the owner's loop for long */
    hp_watch *watch;     /* NULL: the owner watches */
    hp_remarks *remarks; /* while it serves: of whoever called */
    uint64_t sweep;      /* when to look who is late, */
    uint64_t resume;     /* when to accept again; HP_NEVER: nothing to do then */
    int lacking;         /* accepts in a row for which nothing was left */
    int inside, dead;    /* freed inside an owner's function: taken down when that returns */
    int world;
    hp_callers callers;
    uint8_t header[16]; /* how every greeting begins */
    hp_pool strangers;
};

static void
tell(hp_door *door, const char *class_name, int level, const hp_visitor *visitor, const char *what)
{
    char text[HP_ADDR_TEXT];
    if (hp_log_enabled(level))
        hp_remark_add(door->remarks, class_name, level, "closed %s: %s", hp_addr_print(&visitor->peer, text), what);
}

/* When to look again: the sweep or the next accept. */
static void
set_alarm(hp_door *door)
{
    hp_alarm_set(&door->alarm, door->sweep < door->resume ? door->sweep : door->resume);
}

static void
listen_to(hp_door *door, int *fd, int how, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = fd};
    epoll_ctl(door->crowd, how, *fd, &event);
}

/* Going away. Taken out of epoll by hand: a forked child may still hold the descriptor. */

static void
close_visitor(hp_door *door, hp_visitor *visitor)
{
    epoll_ctl(door->crowd, EPOLL_CTL_DEL, visitor->fd, NULL);
    close(visitor->fd);
    visitor->fd = -1;
}

static void
dismiss(hp_door *door, hp_caller *caller)
{
    hp_hello hello = caller->conn.hello;
    int expected = caller->expected;
    close_visitor(door, &caller->visitor);
    hp_callers_remove(&door->callers, caller);
    hp_caller_free(caller);
    if (expected && door->owner.gone && !door->dead)
        door->owner.gone(door->owner.arg, &hello);
}

/* Out of the door with an open connection. */
static void
release(hp_door *door, hp_caller *caller)
{
    epoll_ctl(door->crowd, EPOLL_CTL_DEL, caller->visitor.fd, NULL);
    hp_callers_remove(&door->callers, caller);
}

static void
enter(hp_door *door, hp_caller *caller)
{
    hp_hello hello = caller->conn.hello;
    hp_addr peer = caller->visitor.peer;
    uint64_t features = caller->conn.features;
    int fd = caller->visitor.fd;
    release(door, caller);
    caller->visitor.fd = -1;
    hp_caller_free(caller);
    hp_sock_tune(fd, &door->options);
    door->owner.enter(door->owner.arg, fd, &hello, features, &peer);
}

/* Callers: the handshake after a right tag. */

static const char *const crowded = "too many connections are in the middle of their handshake";

static void
await(hp_door *door, hp_caller *caller, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = &caller->visitor};
    if (events != caller->events)
        epoll_ctl(door->crowd, EPOLL_CTL_MOD, caller->visitor.fd, &event);
    caller->events = events;
}

static void
judge(hp_door *door, hp_caller *caller)
{
    uint32_t assigned = HP_RANK_UNKNOWN;
    hp_status status = door->owner.judge(door->owner.arg, &caller->conn.hello, &caller->visitor.peer, &assigned);
    caller->expected = status == HP_OK;
    if (!door->dead)
        hp_conn_judge(&caller->conn, status, assigned);
}

/* Proven: 1 if the owner has taken it away. */
static int
taken(hp_door *door, hp_caller *caller)
{
    if (!door->owner.take)
        return 0;
    release(door, caller);
    if (door->owner.take(door->owner.arg, caller))
        return 1;
    struct epoll_event event = {.events = caller->events, .data.ptr = &caller->visitor};
    epoll_ctl(door->crowd, EPOLL_CTL_ADD, caller->visitor.fd, &event);
    hp_callers_add(&door->callers, caller);
    return 0;
}

static void
refuse(hp_door *door, hp_caller *caller, const char *why)
{
    tell(door, "door: refused", HP_LOG_INFO, &caller->visitor, why);
    dismiss(door, caller);
}

static void
serve_caller(hp_door *door, hp_caller *caller)
{
    hp_conn *conn = &caller->conn;
    int next = hp_shake(conn, caller->visitor.fd, hp_alarm_time(&door->alarm));
    if (next == HP_SHAKE_STOP && conn->state == HP_CONN_JUDGE) {
        if (taken(door, caller))
            return;
        judge(door, caller);
        if (door->dead)
            return;
        next = hp_shake(conn, caller->visitor.fd, hp_alarm_time(&door->alarm));
    }
    if (next == HP_SHAKE_LOST)
        refuse(door, caller, "it went away during the handshake");
    else if (next != HP_SHAKE_STOP)
        await(door, caller, next == HP_READ ? EPOLLIN : EPOLLOUT);
    else if (conn->state == HP_CONN_DONE)
        enter(door, caller);
    else
        refuse(door, caller, conn->why);
}

/* As many ranks as there are, or as the greeting says, may be in the middle of their handshake. Then who comes in vain goes;
 * where nobody does there is no room: whoever comes next dials again, and those who are here can end their handshake. */
static int
has_room(hp_door *door, const hp_hello *hello)
{
    int world = hello->world > (uint32_t)door->world && hello->world <= HP_WORLD_MOST ? (int)hello->world : door->world;
    hp_caller *vain = hp_callers_vain(&door->callers);
    if (door->callers.count < world + CALLERS_MORE)
        return 1;
    if (vain)
        refuse(door, vain, crowded);
    return vain != NULL;
}

/* The tag was right. Moves the connection from the pool to the heap and answers. */
static void
receive(hp_door *door, hp_stranger *stranger, const hp_keys *keys, const hp_conn_policy *policy, int vain)
{
    uint8_t nonce[32];
    struct epoll_event event = {.events = EPOLLIN};
    hp_caller *caller = door->dead ? NULL : hp_alloc(1, sizeof(*caller));
    if (!caller || hp_random(nonce, sizeof(nonce), NULL) != HOOP_SUCCESS) {
        free(caller);
        close_visitor(door, &stranger->visitor);
        return;
    }
    caller->visitor = stranger->visitor;
    caller->visitor.guest = 1;
    caller->greeted = hp_now();
    caller->vain = vain;
    caller->keys = hp_keys_hold(keys);
    caller->events = EPOLLIN;
    hp_callers_add(&door->callers, caller);
    event.data.ptr = &caller->visitor;
    epoll_ctl(door->crowd, EPOLL_CTL_MOD, caller->visitor.fd, &event);
    hp_conn_accept(&caller->conn, keys, policy, nonce, caller->visitor.deadline);
    hp_conn_feed(&caller->conn, stranger->m1, sizeof(stranger->m1), hp_alarm_time(&door->alarm));
    stranger->visitor.fd = -1;
    serve_caller(door, caller);
}

/* Strangers: the first 144 bytes. */

static void
turn_away(hp_door *door, hp_stranger *stranger, const char *class_name, int level, const char *what)
{
    tell(door, class_name, level, &stranger->visitor, what);
    close_visitor(door, &stranger->visitor);
}

static void
turn_away_with_bytes(hp_door *door, hp_stranger *stranger, const char *class_name, int level, const char *what,
                     size_t at)
{
    char text[HP_QUOTED];
    turn_away(door, stranger, class_name, level, hp_stranger_quote(stranger, what, at, text));
}

/* The greeting is whole: only now is anybody asked about it, and only about the job until the tag was found right. */
static void
examine(hp_door *door, hp_stranger *stranger)
{
    hp_hello hello;
    hp_conn_policy policy;
    const hp_keys *keys = door->owner.keys(door->owner.arg, stranger->m1 + JOB_AT);
    if (door->dead)
        return;
    if (!keys) {
        turn_away_with_bytes(door, stranger, "door: job", HP_LOG_WARN, "it belongs to a job that is unknown here",
                             JOB_AT);
        return;
    }
    int right = hp_callers_know(stranger->m1, keys);
    if (right <= 0) {
        turn_away(door, stranger, "door: secret", HP_LOG_WARN,
                  right < 0 ? "no memory here to check its secret; it may try again"
                            : "its secret is not this job's (check HOOP_SECRET_FILE on both sides)");
        return;
    }
    memset(&policy, 0, sizeof(policy));
    int fits = hp_hello_get(&hello, stranger->m1) ? door->owner.policy(door->owner.arg, &hello, &policy) : 0;
    if (door->dead)
        return;
    if (!fits) {
        turn_away(door, stranger, "door: hello", HP_LOG_INFO, "nothing here answers to its greeting");
    } else if (!has_room(door, &hello)) {
        turn_away(door, stranger, "door: callers", HP_LOG_WARN, crowded);
    } else if (!hp_callers_note(&door->callers, stranger->m1)) {
        turn_away(door, stranger, "door: copy", HP_LOG_INFO, "its greeting is the copy of one that was here before");
    } else {
        receive(door, stranger, keys, &policy, fits == HP_DOOR_VAIN);
    }
}

static int
begins_well(const hp_door *door, const hp_stranger *stranger)
{
    size_t n = stranger->have < sizeof(door->header) ? stranger->have : sizeof(door->header);
    return memcmp(stranger->m1, door->header, n) == 0;
}

static void
serve_stranger(hp_door *door, hp_stranger *stranger)
{
    ssize_t n = recv(stranger->visitor.fd, stranger->m1 + stranger->have, HP_M1 - stranger->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        turn_away(door, stranger, "door: left", HP_LOG_TRACE, "it left before it had greeted");
        return;
    }
    stranger->have += (size_t)n;
    if (!begins_well(door, stranger))
        turn_away_with_bytes(door, stranger, "door: garbage", HP_LOG_INFO, "it does not speak hoop's protocol", 0);
    else if (stranger->have == HP_M1)
        examine(door, stranger);
}

/* Time. All deadlines are one patience after accept, so a new one never comes before those that exist. */

static uint64_t
dismiss_late(hp_door *door, uint64_t now)
{
    hp_stranger *stranger;
    while ((stranger = hp_pool_oldest(&door->strangers)) && stranger->visitor.deadline <= now)
        turn_away_with_bytes(door, stranger, "door: late", HP_LOG_INFO, "it did not greet in time", 0);
    uint64_t next = stranger ? stranger->visitor.deadline : HP_NEVER;
    for (hp_caller *caller = door->callers.first, *following; caller && !door->dead; caller = following) {
        following = caller->next;
        if (caller->visitor.deadline <= now)
            refuse(door, caller, "it did not end the handshake in time");
        else if (caller->visitor.deadline < next)
            next = caller->visitor.deadline;
    }
    return next;
}

static void
ring(hp_door *door)
{
    uint64_t now = hp_alarm_time(&door->alarm);
    if (!hp_alarm_rang(&door->alarm))
        return;
    if (now >= door->resume) {
        door->resume = HP_NEVER;
        listen_to(door, &door->listener, EPOLL_CTL_MOD, EPOLLIN);
    }
    if (now >= door->sweep)
        door->sweep = dismiss_late(door, now);
    if (!door->dead)
        set_alarm(door);
}

/* Coming in. */

static const char *const few = "it proves nothing, and descriptors are few (raise \"ulimit -n\")";

/* The oldest of those who need not stay goes: who comes in vain, then a stranger. 0: there is none. */
static int
make_way(hp_door *door, const char *why)
{
    hp_caller *vain = hp_callers_vain(&door->callers);
    hp_stranger *stranger = hp_pool_oldest(&door->strangers);
    if (vain)
        refuse(door, vain, why);
    else if (stranger)
        turn_away(door, stranger, "door: full", HP_LOG_WARN, why);
    return vain || stranger;
}

/* A quarter of the descriptors that are left is for those who prove nothing; the program may have taken some since. */
static void
limit_strangers(hp_door *door, int newest)
{
    int taken = hp_pool_taken(&door->strangers) + door->callers.vain;
    int spare = hp_sock_spare(newest);
    hp_pool_limit(&door->strangers, spare < HP_STRANGERS * POOL_PART ? (spare + taken) / POOL_PART : HP_STRANGERS);
    for (; taken > door->strangers.most; taken--)
        make_way(door, few);
}

static void
admit(hp_door *door, int fd, const hp_addr *peer)
{
    limit_strangers(door, fd);
    hp_stranger *stranger = hp_pool_place(&door->strangers, peer);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &stranger->visitor};
    if (stranger->visitor.fd >= 0)
        turn_away(door, stranger, "door: full", HP_LOG_WARN, "too many connections that do not prove themselves");
    if (epoll_ctl(door->crowd, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        return;
    }
    stranger->visitor = (hp_visitor){.fd = fd, .deadline = hp_alarm_time(&door->alarm) + door->patience, .peer = *peer};
    stranger->have = 0;
    serve_stranger(door, stranger);
}

/* Nothing is left for one more connection: the oldest stranger goes for it; where there is none it waits in the kernel,
 * unanswered, which its other side takes for what it is: a host that has no time. */
static void
out_of_descriptors(hp_door *door, int number)
{
    static const char *const nothing = "it proves nothing, and this machine has nothing left for more connections";
    if (make_way(door, number == EMFILE ? few : nothing))
        return;
    hp_remark_add(door->remarks, "door: descriptors", HP_LOG_WARN,
                  "cannot accept a connection: %s; trying again in 100 ms%s", strerror(number),
                  number == EMFILE ? " (raise \"ulimit -n\")" : "");
    listen_to(door, &door->listener, EPOLL_CTL_MOD, 0);
    door->resume = hp_alarm_time(&door->alarm) + PAUSE;
    set_alarm(door);
    if (++door->lacking >= LACKING_MOST && door->owner.starved)
        door->owner.starved(door->owner.arg, number);
}

static int
is_short(int number)
{
    return number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS;
}

/* The kernel asks for a descriptor before it looks whether anybody waits: behind the first, nobody may. */
static void
accept_some(hp_door *door)
{
    for (int i = 0; i < ACCEPTS && !door->dead && door->resume == HP_NEVER; i++) {
        hp_addr peer;
        int fd = hp_sock_accept(door->listener, &peer);
        if (fd >= 0) {
            door->lacking = 0;
            admit(door, fd, &peer);
        } else if (i == 0 && is_short(errno)) {
            out_of_descriptors(door, errno);
        } else if (errno == EAGAIN || is_short(errno)) {
            break;
        }
    }
    if (door->sweep == HP_NEVER && !door->dead) {
        door->sweep = hp_alarm_time(&door->alarm) + door->patience;
        set_alarm(door);
    }
}

/* Turns. */

static void
close_own(const hp_door *door)
{
    int fds[] = {door->listener, door->crowd, door->alarm.fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void
take_down(hp_door *door)
{
    hp_watch_free(door->watch);
    close_own(door);
    for (hp_stranger *stranger; (stranger = hp_pool_oldest(&door->strangers)); stranger->visitor.fd = -1)
        close(stranger->visitor.fd);
    for (hp_caller *caller = door->callers.first, *following; caller; caller = following) {
        following = caller->next;
        hp_caller_free(caller);
    }
    free(door);
}

static void
serve_one(hp_door *door, void *who)
{
    if (who == &door->listener)
        accept_some(door);
    else if (who == &door->alarm.fd)
        ring(door);
    else if (((hp_visitor *)who)->guest)
        serve_caller(door, who);
    else
        serve_stranger(door, who);
}

/* One event at a time: what is served may close others, and a longer list would still name them. */
void
hp_door_serve(hp_door *door, hp_remarks *remarks)
{
    struct epoll_event event;
    hp_remarks *others = door->remarks;
    door->remarks = remarks;
    door->inside++;
    for (int i = 0; i < PER_TURN && !door->dead && epoll_wait(door->crowd, &event, 1, 0) == 1; i++)
        serve_one(door, event.data.ptr);
    door->remarks = others;
    if (--door->inside == 0 && door->dead)
        take_down(door);
}

static void
on_crowd(void *arg, int ready)
{
    hp_remarks remarks;
    (void)ready;
    remarks.count = remarks.more = 0;
    hp_door_serve(arg, &remarks);
    hp_remarks_say(&remarks);
}

/* Accepted sockets inherit it, and windows are scaled from the first SYN. */
void
hp_door_tune(const hp_door *door)
{
    hp_sock_tune(door->listener, &door->options);
}

static hoop_result
set_up(hp_door *door, hp_loop *loop, const hp_addr *addr, const hp_ports *ports, hoop_error *error)
{
    static const hp_ports any;
    door->listener = hp_ports_listen(ports ? ports : &any, addr, BACKLOG, error);
    if (door->listener < 0)
        return HOOP_ERR_SYSTEM;
    if (loop)
        hp_door_tune(door);
    door->crowd = hp_sock_raise(epoll_create1(EPOLL_CLOEXEC));
    if (door->crowd < 0 || hp_alarm_open(&door->alarm) < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot open the descriptors that a listener needs");
    listen_to(door, &door->listener, EPOLL_CTL_ADD, EPOLLIN);
    listen_to(door, &door->alarm.fd, EPOLL_CTL_ADD, EPOLLIN);
    if (loop) {
        door->watch = hp_watch_new(loop, door->crowd, on_crowd, door);
        if (!door->watch)
            return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
        if (hp_watch_set(door->watch, HP_READ) != 0)
            return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot watch a listener");
    }
    return hp_sock_name(door->listener, &door->addr, error);
}

void
hp_door_expect(hp_door *door, int world)
{
    door->world = world > 0 ? world : 0;
    hp_pool_share(&door->strangers, world);
}

hp_door *
hp_door_new(hp_loop *loop, const hp_addr *addr, const hp_ports *ports, const hp_sock_options *options,
            const hp_door_owner *owner, int world, hoop_error *error)
{
    static const uint8_t no_nonce[32];
    static const hp_hello no_hello;
    uint8_t greeting[HP_M1];
    hp_door *door = hp_alloc(1, sizeof(*door));
    if (!door) {
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
        return NULL;
    }
    door->owner = *owner;
    if (options)
        door->options = *options;
    door->patience = PATIENCE;
    door->sweep = door->resume = HP_NEVER;
    door->listener = door->crowd = door->alarm.fd = -1;
    hp_pool_init(&door->strangers, world);
    hp_door_expect(door, world);
    hp_hello_put(greeting, &no_hello, no_nonce);
    memcpy(door->header, greeting, sizeof(door->header));
    if (set_up(door, loop, addr, ports, error) == HOOP_SUCCESS)
        return door;
    take_down(door);
    return NULL;
}

int
hp_door_fd(const hp_door *door)
{
    return door->crowd;
}

const hp_addr *
hp_door_addr(const hp_door *door)
{
    return &door->addr;
}

void
hp_door_patience(hp_door *door, uint64_t ns)
{
    door->patience = ns;
}

void
hp_door_abandon(const hp_door *door)
{
    close_own(door);
    for (int i = 0; i < HP_STRANGERS; i++)
        if (door->strangers.places[i].visitor.fd >= 0)
            close(door->strangers.places[i].visitor.fd);
    for (const hp_caller *caller = door->callers.first; caller; caller = caller->next)
        if (caller->visitor.fd >= 0)
            close(caller->visitor.fd);
}

void
hp_door_free(hp_door *door)
{
    if (!door)
        return;
    door->dead = 1;
    if (door->inside == 0)
        take_down(door);
}
