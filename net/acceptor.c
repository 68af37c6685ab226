/* SPDX-License-Identifier: MIT */
/*
 * acceptor: see acceptor.h. A pending connection has a place in a fixed pool, which has room for the 144 bytes of its
 * HELLO. A right tag makes it a candidate, with a handshake on the heap. Only a finished handshake gives its socket
 * to the owner. All of them, the listener and the acceptor's clock are in one epoll set of the acceptor's own: a
 * loop, or several, watch one descriptor; a pending connection costs no allocation; hundreds of them cost one turn of
 * the loop.
 */
#include "net/acceptor.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/mem.h"
#include "net/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { PER_TURN = 16, ACCEPTS = 4, JOB_AT = 16 };
enum { CANDIDATES_MORE = 64, POOL_PART = 4, LACKING_MOST = 2 };

#define TIMEOUT (5 * HP_SEC)
#define PAUSE (100 * HP_MS)

struct hp_acceptor {
    hp_acceptor_owner owner;
    hp_sock_options options;
    hp_addr addr;
    uint64_t timeout;
    int epoll; /* the epoll set: the listener, the alarm, every incoming connection */
    int listener;
    hp_alarm alarm;          /* all deadlines here are by its clock; the owner's loop may not be driven for long */
    hp_watch *watch;         /* NULL: the owner watches hp_acceptor_fd */
    hp_log_queue *log_queue; /* set while hp_acceptor_serve runs: where its log lines go */
    uint64_t sweep;          /* when to check for missed deadlines */
    uint64_t resume;         /* when to accept again; HP_NEVER: accepting was not paused */
    int lacking;             /* accepts in a row that failed for want of descriptors or memory */
    hp_spare spare;          /* for an owner that has to tell the connection for which none is left */
    int inside, dead;        /* dead: freed inside an owner's function; taken down when that returns */
    int world, at_once;
    hp_candidates candidates;
    hp_pending_pool pending;
};

static void
log_closed(hp_acceptor *acceptor, const char *class_name, int level, const hp_incoming *incoming, const char *what)
{
    char text[HP_ADDR_TEXT];
    if (hp_log_enabled(level))
        hp_log_queue_add(acceptor->log_queue, class_name, level, "closed %s: %s", hp_addr_print(&incoming->peer, text),
                         what);
}

/* The alarm is set to the next deadline or the next accept, whichever is first. */
static void
set_alarm(hp_acceptor *acceptor)
{
    hp_alarm_set(&acceptor->alarm, acceptor->sweep < acceptor->resume ? acceptor->sweep : acceptor->resume);
}

/* Every source of events begins with its descriptor. Returns 0 if that is watched. */
static int
watch(const hp_acceptor *acceptor, void *source, int how, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(acceptor->epoll, how, *(int *)source, &event);
}

/* --- closing --- */

static void
close_incoming(hp_acceptor *acceptor, hp_incoming *incoming)
{
    epoll_ctl(acceptor->epoll, EPOLL_CTL_DEL, incoming->fd, NULL);
    hp_socket_close(incoming->fd);
    incoming->fd = -1;
}

/* Takes a candidate out of the acceptor; its connection stays open. */
static void
release(hp_acceptor *acceptor, hp_candidate *candidate)
{
    epoll_ctl(acceptor->epoll, EPOLL_CTL_DEL, candidate->incoming.fd, NULL);
    hp_candidates_remove(&acceptor->candidates, candidate);
}

static void
enter(hp_acceptor *acceptor, hp_candidate *candidate)
{
    hp_hello hello = candidate->handshake.hello;
    hp_addr peer = candidate->incoming.peer;
    uint64_t features = candidate->handshake.features;
    int fd = candidate->incoming.fd;
    release(acceptor, candidate);
    candidate->incoming.fd = -1;
    hp_candidate_free(candidate);
    hp_sock_tune(fd, &acceptor->options);
    acceptor->owner.enter(acceptor->owner.arg, fd, &hello, features, &peer);
}

/* --- candidates --- */

static const char *const too_many_handshakes = "too many handshakes are in progress";

/* The candidate is proven. Returns 1 if the owner has taken it. */
static int
taken(hp_acceptor *acceptor, hp_candidate *candidate)
{
    if (!acceptor->owner.take)
        return 0;
    release(acceptor, candidate);
    if (acceptor->owner.take(acceptor->owner.arg, candidate))
        return 1;
    watch(acceptor, &candidate->incoming, EPOLL_CTL_ADD, candidate->events);
    hp_candidates_add(&acceptor->candidates, candidate);
    return 0;
}

static void
refuse(hp_acceptor *acceptor, hp_candidate *candidate, const char *why)
{
    log_closed(acceptor, "acceptor: refused", HP_LOG_INFO, &candidate->incoming, why);
    close_incoming(acceptor, &candidate->incoming);
    hp_candidates_remove(&acceptor->candidates, candidate);
    hp_candidate_free(candidate);
}

static void
serve_candidate(hp_acceptor *acceptor, hp_candidate *candidate)
{
    hp_handshake *handshake = &candidate->handshake;
    int next = hp_handshake_io(handshake, candidate->incoming.fd, hp_alarm_time(&acceptor->alarm));
    if (next == HP_HANDSHAKE_IO_STOP && handshake->state == HP_HANDSHAKE_JUDGE) {
        if (taken(acceptor, candidate))
            return;
        uint32_t assigned = HP_RANK_UNKNOWN;
        hp_status status =
            acceptor->owner.judge(acceptor->owner.arg, &handshake->hello, &candidate->incoming.peer, &assigned);
        if (acceptor->dead)
            return;
        hp_handshake_judge(handshake, status, assigned);
        next = hp_handshake_io(handshake, candidate->incoming.fd, hp_alarm_time(&acceptor->alarm));
    }
    if (next == HP_HANDSHAKE_IO_LOST) {
        refuse(acceptor, candidate, "it went away during the handshake");
    } else if (next != HP_HANDSHAKE_IO_STOP) {
        uint32_t events = next == HP_READ ? EPOLLIN : EPOLLOUT;
        if (events != candidate->events)
            watch(acceptor, &candidate->incoming, EPOLL_CTL_MOD, events);
        candidate->events = events;
    } else if (handshake->state == HP_HANDSHAKE_DONE) {
        enter(acceptor, candidate);
    } else {
        refuse(acceptor, candidate, handshake->why);
    }
}

/*
 * At most as many candidates as the world has ranks (or as the HELLO says), as one of them makes at once, and 64 more may be in
 * the middle of their handshake. A
 * candidate that has sent something since it was served last stays, whatever it has waited.
 */
static int
has_room(hp_acceptor *acceptor, const hp_hello *hello)
{
    int world =
        hello->world > (uint32_t)acceptor->world && hello->world <= HP_WORLD_MOST ? (int)hello->world : acceptor->world;
    hp_candidate *goes;
    if (!hp_candidates_room(&acceptor->candidates, world + acceptor->at_once + CANDIDATES_MORE, hp_now(), &goes))
        return 0;
    if (goes && !goes->expendable && hp_candidate_has_input(goes))
        return 0;
    if (goes)
        refuse(acceptor, goes, too_many_handshakes);
    return 1;
}

/* The tag was right: the connection moves from the pool to the heap, and M2 is sent. */
static void
receive(hp_acceptor *acceptor, hp_pending *pending, const hp_keys *keys, const hp_handshake_policy *policy,
        int expendable)
{
    uint8_t nonce[32];
    hp_candidate *candidate = NULL;
    if (!acceptor->dead && hp_random(nonce, sizeof(nonce), NULL) == HOOP_SUCCESS)
        candidate = hp_candidate_new(&pending->incoming, keys, expendable);
    if (!candidate) {
        close_incoming(acceptor, &pending->incoming);
        return;
    }
    candidate->events = EPOLLIN;
    hp_candidates_add(&acceptor->candidates, candidate);
    watch(acceptor, &candidate->incoming, EPOLL_CTL_MOD, EPOLLIN);
    hp_handshake_accept(&candidate->handshake, keys, policy, nonce, candidate->incoming.deadline);
    candidate->handshake.hello_proven = 1;
    hp_handshake_feed(&candidate->handshake, pending->m1, sizeof(pending->m1), hp_alarm_time(&acceptor->alarm));
    pending->incoming.fd = -1;
    serve_candidate(acceptor, candidate);
}

/* --- pending connections --- */

static void
close_pending(hp_acceptor *acceptor, hp_pending *pending, const char *class_name, int level, const char *what)
{
    log_closed(acceptor, class_name, level, &pending->incoming, what);
    close_incoming(acceptor, &pending->incoming);
}

static void
close_with_bytes(hp_acceptor *acceptor, hp_pending *pending, const char *class_name, int level, const char *what,
                 size_t at)
{
    char text[HP_QUOTED];
    close_pending(acceptor, pending, class_name, level, hp_pending_quote(pending, what, at, text));
}

/* The HELLO is complete. Until its tag is found right, the owner is asked about its job only. */
static void
examine(hp_acceptor *acceptor, hp_pending *pending)
{
    hp_hello hello;
    hp_handshake_policy policy = {.busy = 0};
    const hp_acceptor_owner *owner = &acceptor->owner;
    const uint8_t *job_id = pending->m1 + JOB_AT;
    const hp_keys *keys = owner->keys(owner->arg, job_id);
    if (acceptor->dead)
        return;
    if (!keys) {
        close_with_bytes(acceptor, pending, "acceptor: job", HP_LOG_WARN, "it belongs to a job that is unknown here",
                         JOB_AT);
        return;
    }
    int right = hp_candidates_know(pending->m1, keys);
    if (right == 0) {
        int level = owner->mistrusted ? owner->mistrusted(owner->arg, job_id, &pending->incoming.peer) : HP_LOG_WARN;
        close_pending(acceptor, pending, "acceptor: secret", level,
                      "its secret is not this job's (check HOOP_SECRET_FILE on both sides)");
        return;
    }
    if (right < 0) {
        close_pending(acceptor, pending, "acceptor: memory", HP_LOG_WARN,
                      "no memory here to check its secret; it may try again");
        return;
    }
    int fits = hp_hello_get(&hello, pending->m1) ? owner->policy(owner->arg, &hello, &policy) : 0;
    if (acceptor->dead)
        return;
    if (!fits) {
        close_pending(acceptor, pending, "acceptor: hello", HP_LOG_INFO, "nothing here matches its greeting");
    } else if (!hp_candidates_note(&acceptor->candidates, pending->m1)) {
        close_pending(acceptor, pending, "acceptor: copy", HP_LOG_INFO, "its greeting is a copy of an earlier one");
    } else {
        policy.busy = !has_room(acceptor, &hello);
        if (policy.busy)
            log_closed(acceptor, "acceptor: candidates", HP_LOG_WARN, &pending->incoming, too_many_handshakes);
        receive(acceptor, pending, keys, &policy, policy.busy || fits == HP_ACCEPTOR_EXPENDABLE);
    }
}

static void
serve_pending(hp_acceptor *acceptor, hp_pending *pending)
{
    ssize_t n = recv(pending->incoming.fd, pending->m1 + pending->have, HP_M1 - pending->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close_pending(acceptor, pending, "acceptor: left", HP_LOG_TRACE, "it left before its greeting");
        return;
    }
    pending->have += (size_t)n;
    if (!hp_hello_begins(pending->m1, pending->have))
        close_with_bytes(acceptor, pending, "acceptor: garbage", HP_LOG_INFO, "it does not speak hoop's protocol", 0);
    else if (pending->have == HP_M1)
        examine(acceptor, pending);
}

/* --- deadlines --- */

/* Every deadline is one time-out after accept, so a new connection never ends before an older one. */
static uint64_t
close_late(hp_acceptor *acceptor, uint64_t now)
{
    hp_pending *pending;
    while ((pending = hp_pending_pool_oldest(&acceptor->pending)) && pending->incoming.deadline <= now)
        close_with_bytes(acceptor, pending, "acceptor: late", HP_LOG_INFO, "it sent no greeting in time", 0);
    uint64_t next = pending ? pending->incoming.deadline : HP_NEVER;
    for (hp_candidate *candidate = acceptor->candidates.first, *following; candidate && !acceptor->dead;
         candidate = following) {
        following = candidate->next;
        if (candidate->incoming.deadline <= now)
            refuse(acceptor, candidate, "it did not end the handshake in time");
        else if (candidate->incoming.deadline < next)
            next = candidate->incoming.deadline;
    }
    return next;
}

static void
on_alarm(hp_acceptor *acceptor)
{
    uint64_t now = hp_alarm_time(&acceptor->alarm);
    if (!hp_alarm_rang(&acceptor->alarm))
        return;
    if (now >= acceptor->resume) {
        acceptor->resume = HP_NEVER;
        watch(acceptor, &acceptor->listener, EPOLL_CTL_MOD, EPOLLIN);
    }
    if (now >= acceptor->sweep)
        acceptor->sweep = close_late(acceptor, now);
    if (!acceptor->dead)
        set_alarm(acceptor);
}

/* --- accepting --- */

static const char few_descriptors[] = "it is not authenticated, and few descriptors are left (raise \"ulimit -n\")";
static const char few_resources[] = "it is not authenticated, and this machine has no resources for more connections";

/* Closes a candidate that will be refused, else the oldest pending connection. Returns 0 if there is neither. */
static int
make_room(hp_acceptor *acceptor, const char *why)
{
    hp_candidate *expendable = hp_candidates_expendable(&acceptor->candidates);
    hp_pending *pending = hp_pending_pool_oldest(&acceptor->pending);
    if (expendable)
        refuse(acceptor, expendable, why);
    else if (pending)
        close_pending(acceptor, pending, "acceptor: full", HP_LOG_WARN, why);
    return expendable || pending;
}

/* Pending connections may hold a quarter of the descriptors that are left; the program may have taken some since. */
static void
admit(hp_acceptor *acceptor, int fd, const hp_addr *peer)
{
    int taken = hp_pending_pool_taken(&acceptor->pending) + acceptor->candidates.expendable;
    int spare = hp_sock_spare(fd);
    hp_pending_pool_limit(&acceptor->pending,
                          spare < HP_PENDING_MAX * POOL_PART ? (spare + taken) / POOL_PART : HP_PENDING_MAX);
    for (; taken > acceptor->pending.most; taken--)
        make_room(acceptor, few_descriptors);
    hp_pending *pending = hp_pending_pool_place(&acceptor->pending, peer);
    if (pending->incoming.fd >= 0)
        close_pending(acceptor, pending, "acceptor: full", HP_LOG_WARN, "too many unauthenticated connections");
    pending->incoming =
        (hp_incoming){.fd = fd, .deadline = hp_alarm_time(&acceptor->alarm) + acceptor->timeout, .peer = *peer};
    pending->have = 0;
    if (watch(acceptor, &pending->incoming, EPOLL_CTL_ADD, EPOLLIN) == 0)
        serve_pending(acceptor, pending);
    else
        close_incoming(acceptor, &pending->incoming);
}

/*
 * The process has no descriptor for the next connection. The oldest pending one is closed for it, or the spare one; if there
 * is none, the new one waits in the kernel's queue, and its rank sees a host that does not answer in time.
 */
static void
out_of_descriptors(hp_acceptor *acceptor, int number)
{
    if (make_room(acceptor, number == EMFILE ? few_descriptors : few_resources) ||
        hp_spare_give(&acceptor->spare, hp_alarm_time(&acceptor->alarm)))
        return;
    if (!acceptor->lacking)
        hp_log_queue_add(acceptor->log_queue, "acceptor: descriptors", HP_LOG_WARN,
                         "cannot accept a connection: %s; trying again each 100 ms%s", strerror(number),
                         number == EMFILE ? " (raise \"ulimit -n\")" : "");
    watch(acceptor, &acceptor->listener, EPOLL_CTL_MOD, 0);
    acceptor->resume = hp_alarm_time(&acceptor->alarm) + PAUSE;
    set_alarm(acceptor);
    if (++acceptor->lacking >= LACKING_MOST && acceptor->owner.starved)
        acceptor->owner.starved(acceptor->owner.arg, number);
}

/* An accept without a descriptor fails even if no connection waits, so only the first failure of a turn counts. */
static void
accept_some(hp_acceptor *acceptor)
{
    for (int i = 0; i < ACCEPTS && !acceptor->dead && acceptor->resume == HP_NEVER; i++) {
        hp_addr peer;
        int fd = hp_sock_accept(acceptor->listener, &peer);
        if (fd >= 0) {
            acceptor->lacking = 0;
            hp_spare_was_enough(&acceptor->spare);
            admit(acceptor, fd, &peer);
        } else if (i == 0 && hp_spare_is_short(errno)) {
            out_of_descriptors(acceptor, errno);
        } else if (errno == EAGAIN || hp_spare_is_short(errno)) {
            break;
        }
    }
    if (acceptor->sweep == HP_NEVER && !acceptor->dead) {
        acceptor->sweep = hp_alarm_time(&acceptor->alarm) + acceptor->timeout;
        set_alarm(acceptor);
    }
}

/* --- turns --- */

static void
take_down(hp_acceptor *acceptor)
{
    int fds[] = {acceptor->epoll, acceptor->alarm.fd, acceptor->spare.fd};
    hp_watch_free(acceptor->watch);
    hp_socket_close(acceptor->listener);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    for (hp_pending *pending; (pending = hp_pending_pool_oldest(&acceptor->pending)); pending->incoming.fd = -1)
        hp_socket_close(pending->incoming.fd);
    for (hp_candidate *candidate = acceptor->candidates.first, *following; candidate; candidate = following) {
        following = candidate->next;
        hp_candidate_free(candidate);
    }
    free(acceptor);
}

static void
serve_one(hp_acceptor *acceptor, void *source)
{
    if (source == &acceptor->listener)
        accept_some(acceptor);
    else if (source == &acceptor->alarm.fd)
        on_alarm(acceptor);
    else if (((hp_incoming *)source)->is_candidate)
        serve_candidate(acceptor, source);
    else
        serve_pending(acceptor, source);
}

/*
 * Takes one event at a time: serving one connection may close others, which a longer list of events would still name.
 */
void
hp_acceptor_serve(hp_acceptor *acceptor, hp_log_queue *log_queue)
{
    struct epoll_event event;
    hp_log_queue *others = acceptor->log_queue;
    acceptor->log_queue = log_queue;
    acceptor->inside++;
    for (int i = 0; i < PER_TURN && !acceptor->dead && epoll_wait(acceptor->epoll, &event, 1, 0) == 1; i++)
        serve_one(acceptor, event.data.ptr);
    acceptor->log_queue = others;
    if (--acceptor->inside == 0 && acceptor->dead)
        take_down(acceptor);
}

static void
on_ready(void *arg, int ready)
{
    hp_log_queue log_queue;
    (void)ready;
    log_queue.count = log_queue.more = 0;
    hp_acceptor_serve(arg, &log_queue);
    hp_log_queue_write(&log_queue);
}

/* Accepted sockets inherit these options, and TCP windows are scaled from the first SYN. */
void
hp_acceptor_tune(const hp_acceptor *acceptor)
{
    hp_sock_tune(acceptor->listener, &acceptor->options);
}

static hoop_result
set_up(hp_acceptor *acceptor, hp_loop *loop, const hp_addr *addr, const hp_ports *ports, hoop_error *error)
{
    static const hp_ports any;
    acceptor->listener = acceptor->options.listener;
    if (!acceptor->listener)
        acceptor->listener = hp_ports_listen(ports ? ports : &any, addr, HP_BACKLOG, error);
    if (acceptor->listener < 0)
        return HOOP_ERR_SYSTEM;
    if (loop)
        hp_acceptor_tune(acceptor);
    acceptor->epoll = hp_socket_raise(epoll_create1(EPOLL_CLOEXEC));
    if (acceptor->epoll < 0 || (acceptor->alarm.fd = hp_socket_raise(hp_alarm_open(&acceptor->alarm))) < 0)
        return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot open the descriptors that a listener needs");
    watch(acceptor, &acceptor->listener, EPOLL_CTL_ADD, EPOLLIN);
    watch(acceptor, &acceptor->alarm.fd, EPOLL_CTL_ADD, EPOLLIN);
    if (!acceptor->owner.starved)
        hp_spare_hold(&acceptor->spare);
    if (loop) {
        acceptor->watch = hp_watch_new(loop, acceptor->epoll, on_ready, acceptor);
        if (!acceptor->watch)
            return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
        if (hp_watch_set(acceptor->watch, HP_READ) != 0)
            return hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot watch a listener");
    }
    return hp_sock_name(acceptor->listener, &acceptor->addr, error);
}

void
hp_acceptor_expect(hp_acceptor *acceptor, int world, int at_once)
{
    acceptor->world = world > 0 ? world : 0;
    acceptor->at_once = at_once;
    hp_pending_pool_share(&acceptor->pending, world > at_once ? world : at_once);
}

hp_acceptor *
hp_acceptor_new(hp_loop *loop, const hp_addr *addr, const hp_ports *ports, const hp_sock_options *options,
                const hp_acceptor_owner *owner, int world, hoop_error *error)
{
    hp_acceptor *acceptor = hp_alloc(1, sizeof(*acceptor));
    if (!acceptor) {
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while opening a listener");
        return NULL;
    }
    acceptor->owner = *owner;
    if (options)
        acceptor->options = *options;
    acceptor->timeout = TIMEOUT;
    acceptor->sweep = acceptor->resume = HP_NEVER;
    acceptor->listener = acceptor->epoll = acceptor->alarm.fd = acceptor->spare.fd = -1;
    hp_pending_pool_init(&acceptor->pending, world);
    hp_acceptor_expect(acceptor, world, 0);
    if (set_up(acceptor, loop, addr, ports, error) == HOOP_SUCCESS)
        return acceptor;
    take_down(acceptor);
    return NULL;
}

int
hp_acceptor_fd(const hp_acceptor *acceptor)
{
    return acceptor->epoll;
}

const hp_addr *
hp_acceptor_addr(const hp_acceptor *acceptor)
{
    return &acceptor->addr;
}

uint64_t
hp_acceptor_lacks(hp_acceptor *acceptor)
{
    return hp_spare_lacking(&acceptor->spare, hp_alarm_time(&acceptor->alarm));
}

void
hp_acceptor_timeout(hp_acceptor *acceptor, uint64_t ns)
{
    acceptor->timeout = ns;
}

void
hp_acceptor_free(hp_acceptor *acceptor)
{
    if (!acceptor)
        return;
    acceptor->dead = 1;
    if (acceptor->inside == 0)
        take_down(acceptor);
}
