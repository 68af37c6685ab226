/* SPDX-License-Identifier: MIT */
/*
 * door: accepts, and lets nobody in who cannot prove the secret. A stranger has a place in a fixed pool and the 144
 * bytes of its greeting there; only a right tag makes it a guest with an hp_conn on the heap; only a whole handshake
 * makes its socket the owner's. All of them wait in an epoll set of the door's own, of which the loop watches one
 * descriptor: a stranger costs no allocation, and a crowd of them takes one turn in the loop, not hundreds.
 */
#include "net/door.h"

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "net/pool.h"
#include "net/shake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { PER_WAKEUP = 16, BACKLOG = 1024, GUESTS = 1024, TAGGED = HP_M1 - HP_MAC, JOB_AT = 16 };

#define PATIENCE (5 * HP_SEC)
#define PAUSE (100 * HP_MS)

/* A connection whose greeting has a right tag: replays of a greeting are among them, so it is not yet proven. */
struct guest {
    hp_visitor visitor;
    uint32_t events; /* as told to epoll */
    int expected;    /* judge said HP_OK: the owner keeps a place */
    hp_conn conn;
    struct guest *next, **link;
};

struct hp_door {
    hp_loop *loop;
    hp_door_owner owner;
    hp_sock_options options;
    hp_addr addr;
    uint64_t patience;
    int listener, crowd, reserve; /* socket, epoll, a descriptor to give up when there are no more */
    hp_watch *on_listener, *on_crowd;
    hp_timer *sweep, *pause;
    int inside, dead; /* freed inside an owner's function: taken down when that returns */
    int guest_count, guests_max;
    struct guest *guests;
    uint8_t header[16]; /* how every greeting begins */
    hp_pool strangers;
};

static void
tell(const char *class_name, int level, const hp_visitor *visitor, const char *what)
{
    char text[HP_ADDR_TEXT];
    if (hp_log_enabled(level))
        hp_log_class(class_name, level, "closed %s: %s", hp_addr_print(&visitor->peer, text), what);
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
discard_guest(struct guest *guest)
{
    hp_wipe(&guest->conn, sizeof(guest->conn));
    free(guest);
}

static void
forget_guest(hp_door *door, struct guest *guest)
{
    *guest->link = guest->next;
    if (guest->next)
        guest->next->link = guest->link;
    door->guest_count--;
    discard_guest(guest);
}

static void
dismiss_guest(hp_door *door, struct guest *guest)
{
    hp_hello hello = guest->conn.hello;
    int expected = guest->expected;
    close_visitor(door, &guest->visitor);
    forget_guest(door, guest);
    if (expected && door->owner.gone && !door->dead)
        door->owner.gone(door->owner.arg, &hello);
}

static void
enter(hp_door *door, struct guest *guest)
{
    hp_hello hello = guest->conn.hello;
    hp_addr peer = guest->visitor.peer;
    uint64_t features = guest->conn.features;
    int fd = guest->visitor.fd;
    epoll_ctl(door->crowd, EPOLL_CTL_DEL, fd, NULL);
    forget_guest(door, guest);
    hp_sock_tune(fd, &door->options);
    door->owner.enter(door->owner.arg, fd, &hello, features, &peer);
}

/* Guests: the handshake after a right tag. */

static void
await(hp_door *door, struct guest *guest, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = &guest->visitor};
    if (events != guest->events)
        epoll_ctl(door->crowd, EPOLL_CTL_MOD, guest->visitor.fd, &event);
    guest->events = events;
}

static void
judge(hp_door *door, struct guest *guest)
{
    uint32_t assigned = HP_RANK_UNKNOWN;
    hp_status status = door->owner.judge(door->owner.arg, &guest->conn.hello, &guest->visitor.peer, &assigned);
    guest->expected = status == HP_OK;
    if (!door->dead)
        hp_conn_judge(&guest->conn, status, assigned);
}

static void
refuse(hp_door *door, struct guest *guest, const char *why)
{
    tell("door: refused", HP_LOG_INFO, &guest->visitor, why);
    dismiss_guest(door, guest);
}

static void
serve_guest(hp_door *door, struct guest *guest)
{
    hp_conn *conn = &guest->conn;
    int next = hp_shake(conn, guest->visitor.fd);
    if (next == HP_SHAKE_STOP && conn->state == HP_CONN_JUDGE) {
        judge(door, guest);
        if (door->dead)
            return;
        next = hp_shake(conn, guest->visitor.fd);
    }
    if (next == HP_SHAKE_LOST)
        refuse(door, guest, "it went away during the handshake");
    else if (next != HP_SHAKE_STOP)
        await(door, guest, next == HP_READ ? EPOLLIN : EPOLLOUT);
    else if (conn->state == HP_CONN_DONE)
        enter(door, guest);
    else
        refuse(door, guest, conn->why);
}

/* Replayed greetings have right tags too; they must not fill the memory. The oldest has had the most time to answer. */
static void
make_room_for_guest(hp_door *door)
{
    struct guest *oldest = door->guests;
    if (door->guest_count < door->guests_max)
        return;
    for (struct guest *guest = door->guests; guest; guest = guest->next)
        if (guest->visitor.deadline < oldest->visitor.deadline)
            oldest = guest;
    tell("door: guests", HP_LOG_WARN, &oldest->visitor, "too many connections are in the middle of their handshake");
    dismiss_guest(door, oldest);
}

/* The tag was right. Moves the connection from the pool to the heap and answers. */
static void
receive_guest(hp_door *door, hp_stranger *stranger, const hp_keys *keys, const hp_conn_policy *policy)
{
    uint8_t nonce[32];
    struct epoll_event event = {.events = EPOLLIN};
    make_room_for_guest(door);
    struct guest *guest = door->dead ? NULL : hp_alloc(1, sizeof(*guest));
    if (!guest || hp_random(nonce, sizeof(nonce), NULL) != HOOP_SUCCESS) {
        free(guest);
        close_visitor(door, &stranger->visitor);
        return;
    }
    guest->visitor = stranger->visitor;
    guest->visitor.guest = 1;
    guest->events = EPOLLIN;
    guest->next = door->guests;
    guest->link = &door->guests;
    if (guest->next)
        guest->next->link = &guest->next;
    door->guests = guest;
    door->guest_count++;
    event.data.ptr = &guest->visitor;
    epoll_ctl(door->crowd, EPOLL_CTL_MOD, guest->visitor.fd, &event);
    hp_conn_accept(&guest->conn, keys, policy, nonce, guest->visitor.deadline);
    hp_conn_feed(&guest->conn, stranger->m1, sizeof(stranger->m1), hp_now());
    stranger->visitor.fd = -1;
    serve_guest(door, guest);
}

/* Strangers: the first 144 bytes. */

static void
turn_away(hp_door *door, hp_stranger *stranger, const char *class_name, int level, const char *what)
{
    tell(class_name, level, &stranger->visitor, what);
    close_visitor(door, &stranger->visitor);
}

/* "what (47 45 54 20)": at most 16 of the peer's bytes. */
static void
turn_away_with_bytes(hp_door *door, hp_stranger *stranger, const char *class_name, int level, const char *what,
                     size_t at)
{
    char text[160];
    size_t n = (size_t)snprintf(text, sizeof(text), "%.80s (", what);
    for (size_t i = at; i < stranger->have && i < at + 16; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, i == at ? "%02x" : " %02x", stranger->m1[i]);
    snprintf(text + n, sizeof(text) - n, ")");
    turn_away(door, stranger, class_name, level, text);
}

/* 1 or 0; -1 when this side could not compute it. */
static int
tag_is_right(const hp_stranger *stranger, const hp_keys *keys)
{
    uint8_t tag[HP_MAC];
    int right = -1;
    if (hp_mac(tag, keys->hello, stranger->m1, TAGGED, NULL, 0, NULL, 0) == HOOP_SUCCESS)
        right = hp_mac_equal(tag, stranger->m1 + TAGGED);
    hp_wipe(tag, sizeof(tag));
    return right;
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
    int right = tag_is_right(stranger, keys);
    if (right <= 0) {
        turn_away(door, stranger, "door: secret", HP_LOG_WARN,
                  right < 0 ? "no memory here to check its secret; it may try again"
                            : "its secret is not this job's (check HOOP_SECRET_FILE on both sides)");
        return;
    }
    memset(&policy, 0, sizeof(policy));
    int fits = hp_hello_get(&hello, stranger->m1) && door->owner.policy(door->owner.arg, &hello, &policy);
    if (door->dead)
        return;
    if (fits)
        receive_guest(door, stranger, keys, &policy);
    else
        turn_away(door, stranger, "door: hello", HP_LOG_INFO, "nothing here answers to its greeting");
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

/* One event at a time: what is served may close others, and a longer list would still name them. */
static void
serve_crowd(hp_door *door)
{
    struct epoll_event event;
    for (int i = 0; i < PER_WAKEUP && !door->dead; i++) {
        if (epoll_wait(door->crowd, &event, 1, 0) != 1)
            return;
        hp_visitor *visitor = event.data.ptr;
        if (visitor->guest)
            serve_guest(door, (struct guest *)visitor);
        else
            serve_stranger(door, (hp_stranger *)visitor);
    }
}

/* Time. All deadlines are one patience after accept, so a new one never comes before those that exist. */

static uint64_t
dismiss_late(hp_door *door, uint64_t now)
{
    hp_stranger *stranger;
    while ((stranger = hp_pool_oldest(&door->strangers)) && stranger->visitor.deadline <= now)
        turn_away_with_bytes(door, stranger, "door: late", HP_LOG_INFO, "it did not greet in time", 0);
    uint64_t next = stranger ? stranger->visitor.deadline : HP_NEVER;
    for (struct guest *guest = door->guests, *following; guest && !door->dead; guest = following) {
        following = guest->next;
        if (guest->visitor.deadline <= now)
            refuse(door, guest, "it did not end the handshake in time");
        else if (guest->visitor.deadline < next)
            next = guest->visitor.deadline;
    }
    return next;
}

/* Coming in. */

static void
admit(hp_door *door, int fd, const hp_addr *peer)
{
    hp_stranger *stranger = hp_pool_place(&door->strangers, peer);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &stranger->visitor};
    if (stranger->visitor.fd >= 0)
        turn_away(door, stranger, "door: full", HP_LOG_WARN, "too many connections that do not prove themselves");
    if (epoll_ctl(door->crowd, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        return;
    }
    stranger->visitor = (hp_visitor){.fd = fd, .deadline = hp_now() + door->patience, .peer = *peer};
    stranger->have = 0;
    serve_stranger(door, stranger);
}

/* No descriptor is left: one place is freed, by the oldest stranger or by the reserve, so that the queue moves on. */
static void
out_of_descriptors(hp_door *door, int number)
{
    hp_addr peer;
    hp_stranger *victim = hp_pool_oldest(&door->strangers);
    hp_log_class("door: descriptors", HP_LOG_WARN, "cannot accept a connection: %s; trying again in 100 ms%s",
                 strerror(number), number == EMFILE ? " (raise \"ulimit -n\")" : "");
    if (victim) {
        close_visitor(door, &victim->visitor);
    } else if (door->reserve >= 0) {
        close(door->reserve);
        int fd = hp_sock_accept(door->listener, &peer);
        if (fd >= 0)
            close(fd);
        door->reserve = hp_sock_raise(open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
    hp_watch_set(door->on_listener, 0);
    hp_timer_set(door->pause, PAUSE);
    if (door->owner.starved)
        door->owner.starved(door->owner.arg, number);
}

static void
accept_some(hp_door *door)
{
    int was_empty = !door->guests && !hp_pool_oldest(&door->strangers);
    for (int i = 0; i < PER_WAKEUP && !door->dead; i++) {
        hp_addr peer;
        int fd = hp_sock_accept(door->listener, &peer);
        if (fd >= 0) {
            admit(door, fd, &peer);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            out_of_descriptors(door, errno);
            break;
        }
    }
    if (was_empty && !door->dead)
        hp_timer_set(door->sweep, door->patience);
}

/* The loop's calls. */

static void
close_own(const hp_door *door)
{
    int fds[] = {door->listener, door->crowd, door->reserve};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void
take_down(hp_door *door)
{
    hp_watch_free(door->on_listener);
    hp_watch_free(door->on_crowd);
    hp_timer_free(door->sweep);
    hp_timer_free(door->pause);
    close_own(door);
    for (hp_stranger *stranger; (stranger = hp_pool_oldest(&door->strangers)); stranger->visitor.fd = -1)
        close(stranger->visitor.fd);
    for (struct guest *guest = door->guests, *following; guest; guest = following) {
        following = guest->next;
        close(guest->visitor.fd);
        discard_guest(guest);
    }
    free(door);
}

static void
leave(hp_door *door)
{
    if (--door->inside == 0 && door->dead)
        take_down(door);
}

static void
on_listener(void *arg, int ready)
{
    (void)ready;
    hp_door *door = arg;
    door->inside++;
    accept_some(door);
    leave(door);
}

static void
on_crowd(void *arg, int ready)
{
    (void)ready;
    hp_door *door = arg;
    door->inside++;
    serve_crowd(door);
    leave(door);
}

static void
on_sweep(void *arg)
{
    hp_door *door = arg;
    door->inside++;
    uint64_t now = hp_now(), next = dismiss_late(door, now);
    if (!door->dead)
        hp_timer_set(door->sweep, next == HP_NEVER ? HP_NEVER : next - now);
    leave(door);
}

static void
on_pause_over(void *arg)
{
    hp_door *door = arg;
    hp_watch_set(door->on_listener, HP_READ);
}

static hoop_result
set_up(hp_door *door, const hp_addr *addr, hoop_error *error)
{
    door->listener = hp_sock_listen(addr, BACKLOG, error);
    if (door->listener < 0)
        return HOOP_ERR_SYSTEM;
    hp_sock_tune(door->listener, &door->options); /* accepted sockets inherit; windows are scaled from the first SYN */
    door->crowd = hp_sock_raise(epoll_create1(EPOLL_CLOEXEC));
    door->reserve = hp_sock_raise(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (door->crowd < 0 || door->reserve < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot open the descriptors that a listener needs");
    door->on_listener = hp_watch_new(door->loop, door->listener, on_listener, door);
    door->on_crowd = hp_watch_new(door->loop, door->crowd, on_crowd, door);
    door->sweep = hp_timer_new(door->loop, on_sweep, door);
    door->pause = hp_timer_new(door->loop, on_pause_over, door);
    if (!door->on_listener || !door->on_crowd || !door->sweep || !door->pause)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
    if (hp_watch_set(door->on_listener, HP_READ) != 0 || hp_watch_set(door->on_crowd, HP_READ) != 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot watch a listener");
    return hp_sock_name(door->listener, &door->addr, error);
}

void
hp_door_expect(hp_door *door, int world)
{
    door->guests_max = GUESTS + (world > 0 ? world : 0);
    hp_pool_share(&door->strangers, world);
}

hp_door *
hp_door_new(hp_loop *loop, const hp_addr *addr, const hp_sock_options *options, const hp_door_owner *owner, int world,
            hoop_error *error)
{
    static const uint8_t no_nonce[32];
    static const hp_hello no_hello;
    uint8_t greeting[HP_M1];
    hp_door *door = hp_alloc(1, sizeof(*door));
    if (!door) {
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
        return NULL;
    }
    door->loop = loop;
    door->owner = *owner;
    if (options)
        door->options = *options;
    door->patience = PATIENCE;
    door->listener = door->crowd = door->reserve = -1;
    hp_pool_init(&door->strangers, world);
    hp_door_expect(door, world);
    hp_hello_put(greeting, &no_hello, no_nonce);
    memcpy(door->header, greeting, sizeof(door->header));
    if (set_up(door, addr, error) == HOOP_SUCCESS)
        return door;
    take_down(door);
    return NULL;
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
    for (const struct guest *guest = door->guests; guest; guest = guest->next)
        if (guest->visitor.fd >= 0)
            close(guest->visitor.fd);
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
