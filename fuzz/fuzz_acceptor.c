/* SPDX-License-Identifier: MIT */
/*
 * fuzz_acceptor: strangers, members and broken members at an acceptor (net/acceptor.c and all below it), over socket
 * pairs, with a clock, a random source, a supply of descriptors and addresses of its own (fake_net.h). The input is a
 * list of commands. Whatever they do: not a byte goes to a peer whose HELLO had no right tag, no HELLO is answered
 * twice, the owner hears of proven peers only, what is late is closed, and at the end a rank still gets in.
 */
#include "base/clock.h"
#include "base/log.h"
#include "fuzz/fake_net.h"
#include "fuzz/fuzz.h"
#include "net/acceptor.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

const char fuzz_name[] = "acceptor";

enum { PEERS = 100, SENT_MAX = 256, WORLD = 8, COMM = 5, TURNS = 40 };
enum { CONNECT, HELLO, COPY, FLUSH, RAW, READ, DROP, PASS, SERVE, SHORT, SPARE, EXPECT, OWNER, ANSWER, MEMBER, FLOOD };
enum { FREE_NOWHERE, FREE_IN_KEYS, FREE_IN_POLICY, FREE_IN_JUDGE, FREE_IN_ENTER, FREE_PLACES };

/* One connection as its dialling end sees it. */
typedef struct peer {
    int fd, accepted; /* this end, -1: closed; the acceptor's end */
    hp_addr addr;
    hp_handshake handshake;
    uint8_t sent[SENT_MAX], got[SENT_MAX];
    size_t sent_n, got_n;
    int tag;                   /* of its HELLO: 1 right, -1 wrong, 0 not looked at yet */
    int entered, taken, ended; /* ended: the acceptor has closed it */
} peer;

static hp_keys *keys[3]; /* the job's; of another secret; of another job */
static peer peers[PEERS + 1];
static int count; /* of peers */
static uint64_t nonces;
static hp_acceptor *acceptor;

/* the owner */
static hp_status verdict;
static int takes, frees, holds;
static hp_candidate *held[PEERS];

/* --- what a peer has proven --- */

static int
is_mac(const uint8_t *mac, const uint8_t *key, const peer *p, size_t from_got, size_t more)
{
    uint8_t right[HP_MAC], all[HP_M1 + HP_M2 + HP_M3];
    size_t first = more ? HP_M1 : HP_M1 - HP_MAC;
    memcpy(all, p->sent, first);
    memcpy(all + first, p->got, from_got);
    memcpy(all + first + from_got, p->sent + HP_M1, more);
    fuzz_check(hp_mac(right, key, all, first + from_got + more) == HOOP_SUCCESS);
    return memcmp(mac, right, HP_MAC) == 0;
}

static int
has_greeted(peer *p)
{
    if (p->sent_n >= HP_M1 && !p->tag)
        p->tag = is_mac(p->sent + HP_M1 - HP_MAC, keys[0]->hello, p, 0, 0) ? 1 : -1;
    return p->tag == 1;
}

static int
is_proven(peer *p)
{
    return has_greeted(p) && p->got_n >= HP_M2 && p->sent_n >= HP_M1 + HP_M3 &&
           is_mac(p->sent + HP_M1 + HP_M3 - HP_MAC, keys[0]->init, p, HP_M2, HP_M3 - HP_MAC);
}

static int
has_hello(const peer *p, const hp_hello *hello)
{
    hp_hello own;
    return p->sent_n >= HP_M1 && hp_hello_get(&own, p->sent) && own.my_rank == hello->my_rank &&
           own.comm == hello->comm && own.world == hello->world && own.role == hello->role;
}

/* The number of a descriptor may have been another's before. */
static peer *
peer_of(int fd)
{
    int i = fake_net_accepted - 1;
    while (i >= 0 && peers[i].accepted != fd)
        i--;
    fuzz_check(i >= 0);
    return &peers[i];
}

/* --- the owner --- */

static void
maybe_free(int place)
{
    if (frees != place)
        return;
    hp_acceptor_free(acceptor);
    acceptor = NULL;
}

static const hp_keys *
on_keys(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    (void)arg;
    maybe_free(FREE_IN_KEYS);
    return memcmp(job_id, keys[0]->job_id, HP_JOB_ID_BYTES) == 0 ? keys[0] : NULL;
}

static int
on_policy(void *arg, const hp_hello *hello, hp_handshake_policy *policy)
{
    int known = 0;
    (void)arg;
    for (int i = fake_net_accepted - 1; i >= 0 && !known; i--)
        known = has_hello(&peers[i], hello) && has_greeted(&peers[i]);
    fuzz_check(known);
    maybe_free(FREE_IN_POLICY);
    *policy = (hp_handshake_policy){.my_rank = 4, .world = WORLD, .role = HP_ROLE_DATA, .mode = HP_MODE_AUTH};
    policy->comm = hello->comm == COMM ? COMM : 0;
    return hello->comm == COMM ? 1 : hello->comm ? HP_ACCEPTOR_EXPENDABLE : 0;
}

static hp_status
on_judge(void *arg, const hp_hello *hello, const hp_addr *addr, uint32_t *assigned)
{
    int known = 0;
    (void)arg, (void)addr;
    for (int i = fake_net_accepted - 1; i >= 0 && !known; i--)
        known = has_hello(&peers[i], hello) && !peers[i].entered && is_proven(&peers[i]);
    fuzz_check(known);
    maybe_free(FREE_IN_JUDGE);
    *assigned = hello->my_rank;
    return verdict;
}

static void
on_enter(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *addr)
{
    peer *p = peer_of(fd);
    (void)arg, (void)features;
    fuzz_check(is_proven(p) && has_hello(p, hello) && !p->entered && !p->taken && verdict == HP_OK);
    fuzz_check(memcmp(addr, &p->addr, sizeof(*addr)) == 0);
    p->entered = 1;
    close(fd);
    maybe_free(FREE_IN_ENTER);
}

static void
on_starved(void *arg, int number)
{
    (void)arg;
    fuzz_check(number == fake_net_shortage && fake_net_failures >= 2);
}

static int
on_take(void *arg, hp_candidate *candidate)
{
    (void)arg;
    if (!takes || holds == PEERS)
        return 0;
    peer *p = peer_of(candidate->incoming.fd);
    fuzz_check(is_proven(p) && !p->entered && !p->taken);
    p->taken = 1;
    held[holds++] = candidate;
    return 1;
}

static void
answer(int i, hp_status status)
{
    if (i >= holds)
        return;
    int fd = hp_candidate_answer(held[i], status, 1);
    fuzz_check(status == HP_OK || fd < 0);
    if (fd >= 0)
        close(fd);
    held[i] = held[--holds];
}

static void
serve(int turns)
{
    for (int i = 0; i < turns && acceptor; i++) {
        hp_log_queue queue;
        queue.count = queue.more = 0;
        fake_net_ring();
        hp_acceptor_serve(acceptor, &queue);
        fuzz_check(queue.count <= HP_LOG_LINES);
        for (int k = 0; k < queue.count; k++)
            fuzz_check(memchr(queue.of[k].text, 0, HP_LOG_LINE));
    }
}

/* --- peers --- */

static hp_addr
address(uint8_t code)
{
    hp_addr addr;
    memset(&addr, 0, sizeof(addr));
    addr.u.v4.sin_family = AF_INET;
    addr.u.v4.sin_addr.s_addr = htonl(code < 128 ? INADDR_LOOPBACK : 0x0a000000u + (code & 3));
    addr.length = sizeof(addr.u.v4);
    if (code >= 192) {
        memset(&addr, 0, sizeof(addr));
        addr.u.v6.sin6_family = AF_INET6;
        memcpy(&addr.u.v6.sin6_addr, (uint8_t[]){0x20, 1, 0xd, 0xb8, 0, 0, 0, code & 1, code}, 9);
        addr.length = sizeof(addr.u.v6);
    }
    return addr;
}

static peer *
connect_peer(uint8_t code)
{
    peer *p = &peers[count];
    int ends[2];
    fuzz_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    memset(p, 0, sizeof(*p));
    p->fd = ends[0];
    p->accepted = ends[1];
    p->addr = address(code);
    count++;
    fake_net_connect(p->accepted, &p->addr);
    return p;
}

static void
say(peer *p, const uint8_t *bytes, size_t n)
{
    if (n > SENT_MAX - p->sent_n)
        n = SENT_MAX - p->sent_n;
    ssize_t put = p->fd >= 0 ? send(p->fd, bytes, n, MSG_NOSIGNAL) : 0;
    if (put > 0)
        memcpy(p->sent + p->sent_n, bytes, (size_t)put);
    p->sent_n += put > 0 ? (size_t)put : 0;
}

/* Writes up to n bytes of its handshake, the first of them changed. */
static void
flush(peer *p, size_t n, uint8_t change)
{
    uint8_t bytes[HP_M1];
    n = n < p->handshake.out_n ? n : p->handshake.out_n;
    if (n == 0)
        return;
    memcpy(bytes, p->handshake.out, n);
    bytes[0] ^= change;
    hp_handshake_wrote(&p->handshake, n);
    say(p, bytes, n);
}

/* Begins a handshake, right or wrong in one way. */
static void
greet(peer *p, uint8_t how)
{
    hp_hello hello = {.comm = COMM, .my_rank = 3, .your_rank = 4, .world = WORLD, .role = HP_ROLE_DATA};
    const hp_keys *own = how % 4 == 2 ? keys[1] : how % 4 == 3 ? keys[2] : keys[0];
    uint8_t nonce[32] = {0xa5};
    hello.ver_min = how & 4 ? HP_WIRE_MAX + 1 : HP_WIRE_MIN;
    hello.ver_max = how & 4 ? HP_WIRE_MAX + 1 : HP_WIRE_MAX;
    hello.comm = how & 8 ? COMM + 1 : how & 16 ? 0 : COMM;
    hello.world = how & 32 ? 70000 : WORLD;
    hello.my_rank = how & 64 ? HP_RANK_UNKNOWN : 3;
    hello.role = how & 128 ? HP_ROLE_CONTROL : HP_ROLE_DATA;
    memcpy(hello.job_id, own->job_id, HP_JOB_ID_BYTES);
    memcpy(nonce + 1, &(uint64_t){++nonces}, 7);
    if (p->handshake.keys || p->sent_n > 0)
        return;
    hp_handshake_start(&p->handshake, own, &hello, nonce, HP_NEVER);
}

/* Takes what has come. Nobody gets a byte before its tag was right, nor the last message before it has proven itself. */
static void
take_in(peer *p)
{
    uint8_t bytes[SENT_MAX];
    ssize_t n = p->fd >= 0 && !p->ended ? recv(p->fd, bytes, sizeof(bytes), 0) : -1;
    if (n == 0 || (n < 0 && p->fd >= 0 && errno == ECONNRESET))
        p->ended = 1;
    if (n <= 0)
        return;
    fuzz_check(has_greeted(p) && p->got_n + (size_t)n <= HP_M2 + HP_M4);
    memcpy(p->got + p->got_n, bytes, (size_t)n);
    p->got_n += (size_t)n;
    fuzz_check(p->got_n <= HP_M2 || is_proven(p));
    size_t want = hp_handshake_want(&p->handshake);
    if (p->handshake.keys && want > 0)
        hp_handshake_feed(&p->handshake, bytes, (size_t)n < want ? (size_t)n : want, 0);
}

/* A whole handshake. */
static void
visit(peer *p, uint8_t how)
{
    greet(p, how);
    for (int i = 0; i < 3; i++) {
        flush(p, HP_M1, 0);
        serve(TURNS);
        take_in(p);
    }
}

static void
raw(peer *p, fuzz_script *s)
{
    size_t n = fuzz_next(s);
    n = n < s->left ? n : s->left;
    say(p, s->at, n);
    s->at += n;
    s->left -= n;
}

static void
drop(peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

static void
flood(int n, uint8_t how)
{
    for (; n > 0 && count < PEERS; n--) {
        peer *p = connect_peer(how);
        greet(p, how & 0xfc);
        flush(p, how & 2 ? HP_M1 : 20, 0);
    }
}

static void
set_owner(uint8_t how)
{
    verdict = (hp_status)(how % HP_STATUSES);
    takes = how >> 4 & 1;
    frees = (how >> 5) % FREE_PLACES;
}

static void
act(fuzz_script *s)
{
    static const int shortages[] = {0, EMFILE, ENFILE, ENOMEM};
    int command = fuzz_next(s) & 15;
    uint8_t which = fuzz_next(s), second = fuzz_next(s);
    peer *p = &peers[count ? which % count : 0], *other = &peers[count ? second % count : 0];
    switch (count == 0 && command != FLOOD ? CONNECT : command) {
    case CONNECT:
        if (count < PEERS)
            connect_peer(which);
        break;
    case HELLO:
        greet(p, fuzz_next(s));
        flush(p, HP_M1, 0);
        break;
    case COPY: say(p, other->sent, other->sent_n < HP_M1 ? other->sent_n : HP_M1); break;
    case FLUSH: flush(p, fuzz_next(s), fuzz_next(s)); break;
    case RAW: raw(p, s); break;
    case READ: take_in(p); break;
    case DROP: drop(p); break;
    case PASS: fake_net_now += which * 50 * HP_MS; break;
    case SERVE: serve(1 + which % 4); break;
    case SHORT: fake_net_shortage = shortages[which & 3]; break;
    case SPARE: fake_net_spare = which & 128 ? FAKE_NET_PLENTY : which; break;
    case EXPECT:
        if (acceptor)
            hp_acceptor_expect(acceptor, which, which / 16);
        break;
    case OWNER: set_owner(which); break;
    case ANSWER: answer(which % PEERS, (hp_status)(fuzz_next(s) % HP_STATUSES)); break;
    case MEMBER: visit(p, which & 128 ? fuzz_next(s) : 0); break;
    default: flood(which, fuzz_next(s));
    }
}

/* --- from the beginning to the end --- */

static void
open_all(void)
{
    static const hp_acceptor_owner owner = {NULL, on_keys, on_policy, on_judge, on_enter, on_starved, on_take, NULL};
    hp_addr any = address(0);
    hoop_error error;
    for (uint8_t i = 0; i < 3 && !keys[i]; i++) {
        uint8_t secret[HP_SECRET] = {i == 1}, job_id[HP_JOB_ID_BYTES] = {1, i == 2};
        keys[i] = hp_keys_new(secret, job_id, HP_MODE_AUTH, &error);
        fuzz_check(keys[i]);
    }
    hp_log_level(HP_LOG_TRACE);
    fake_net_reset();
    count = holds = 0;
    nonces = 0;
    set_owner(HP_OK);
    acceptor = hp_acceptor_new(NULL, &any, NULL, NULL, &owner, WORLD, &error);
    fuzz_check(acceptor);
}

/* After its time and after the acceptor's, a connection that was not handed over is closed. */
static void
check_closed(void)
{
    for (int i = 0; i < fake_net_accepted; i++) {
        peer *p = &peers[i];
        for (int k = 0; k < 3; k++)
            take_in(p);
        fuzz_check(p->fd < 0 || p->ended || p->taken);
    }
}

static void
check_answers(void)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            fuzz_check(peers[i].got_n < HP_M2 || peers[k].got_n < HP_M2 ||
                       memcmp(peers[i].sent + HP_M1_NONCE, peers[k].sent + HP_M1_NONCE, 32) != 0);
}

/* Whatever was before, a rank gets in once the others' time is over. */
static void
check_a_rank(void)
{
    fake_net_shortage = 0;
    fake_net_spare = FAKE_NET_PLENTY;
    set_owner(HP_OK);
    fake_net_now += HP_SEC;
    serve(TURNS);
    fake_net_now += 6 * HP_SEC;
    serve(TURNS);
    check_closed();
    fuzz_check(fake_net_accepted == count);
    peer *p = connect_peer(128);
    visit(p, 0);
    fuzz_check(p->entered && p->handshake.state == HP_HANDSHAKE_DONE);
}

static void
close_all(void)
{
    int was_open = acceptor != NULL;
    hp_acceptor_free(acceptor);
    acceptor = NULL;
    check_closed();
    fuzz_check(!was_open || fake_net_accepted == count);
    while (holds > 0)
        answer(0, HP_FULL);
    for (int i = 0; i < count; i++) {
        drop(&peers[i]);
        if (i >= fake_net_accepted)
            close(peers[i].accepted);
    }
}

static int
lowest_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    close(fd);
    return fd;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_script s = {data, size};
    int before = lowest_descriptor();
    open_all();
    while (s.left > 0 && acceptor)
        act(&s);
    if (acceptor)
        check_a_rank();
    check_answers();
    close_all();
    fuzz_check(lowest_descriptor() == before);
    return 0;
}
