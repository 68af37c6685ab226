/* SPDX-License-Identifier: MIT */
/*
 * shm: two mappings of one memory, as two processes have them. What goes in comes out, whatever the parts, and round the
 * ring's end; who sleeps is woken once, at the count that it has asked for; counts that cannot be are found; and memory
 * that is not the one meant is not opened.
 */
#include "net/shm.h"

#include "t/net/pair.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALL = HP_SHM_LEAST, LARGE = 1 << 17, STREAM = 1 << 20, ROUNDS = 200 };

static const hp_hello plain = {.comm = 7, .epoch = 3, .my_rank = 1, .your_rank = 0, .channel = 2, .role = HP_ROLE_DATA};

typedef struct both {
    hp_shm *maker, *opener;
    hp_hello hello;
} both;

static both
share(uint32_t capacity, int directions)
{
    both b = {.hello = plain};
    const char *why = NULL;
    b.maker = hp_shm_new(&b.hello, capacity, directions);
    b.opener = b.maker ? hp_shm_open(&b.hello, directions, &why) : NULL;
    if (!b.opener)
        bail("no memory: %s", why ? why : "memfd");
    return b;
}

static void
end(both *b)
{
    hp_shm_free(b->maker);
    hp_shm_free(b->opener);
}

static uint8_t
byte_at(uint64_t i)
{
    return (uint8_t)(tap_mix(i / 8) >> i % 8 * 8);
}

/* --- streams --- */

/* Up to three places, one perhaps empty, of `n` bytes together. */
static int
cut(uint8_t *memory, size_t n, struct iovec places[3])
{
    size_t a = tap_pick(n + 1), b = a + tap_pick(n - a + 1);
    places[0] = (struct iovec){memory, a};
    places[1] = (struct iovec){memory + a, b - a};
    places[2] = (struct iovec){memory + b, n - b};
    return 3;
}

static uint64_t
put(hp_pipe *out, uint64_t sent, size_t n)
{
    static uint8_t memory[LARGE];
    struct iovec places[3];
    for (size_t i = 0; i < n; i++)
        memory[i] = byte_at(sent + i);
    return sent + (uint64_t)hp_pipe_move(out, places, cut(memory, n, places));
}

/* Returns the new count, or that which was, if a byte is wrong. */
static uint64_t
get(hp_pipe *in, uint64_t taken, size_t n)
{
    static uint8_t memory[LARGE];
    struct iovec places[3];
    memset(memory, 0xee, n);
    ssize_t got = hp_pipe_move(in, places, cut(memory, n, places));
    for (ssize_t i = 0; i < got; i++)
        if (memory[i] != byte_at(taken + (uint64_t)i))
            return taken;
    return taken + (uint64_t)got;
}

static void
stream(uint32_t capacity, hp_pipe *out, hp_pipe *in, const char *direction)
{
    uint64_t sent = 0, taken = 0, room = 1;
    for (int round = 0; round < 100000 && taken < STREAM; round++) {
        size_t most = capacity < LARGE ? capacity + 1 : LARGE;
        uint64_t before = sent;
        sent = put(out, sent, 1 + tap_pick(most - 1));
        room &= sent - taken <= capacity && sent >= before;
        taken = get(in, taken, 1 + tap_pick(most - 1));
    }
    ok(room && taken >= STREAM && taken <= sent, "%u bytes of memory, %s: a stream comes out as it went in", capacity,
       direction);
}

static void
streams(void)
{
    static const uint32_t capacities[] = {SMALL, 256, 4096, LARGE};
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        both b = share(capacities[i], 2);
        stream(capacities[i], &b.maker->out, &b.opener->in, "there");
        stream(capacities[i], &b.opener->out, &b.maker->in, "back");
        end(&b);
    }
}

static void
full_and_empty(void)
{
    both b = share(SMALL, 1);
    ok(!b.maker->in.bytes && !b.opener->out.bytes, "with one direction there is no other");
    ok(!hp_pipe_left(&b.opener->in) && get(&b.opener->in, 0, 8) == 0, "nothing comes before anything is sent");
    is_uint(SMALL, put(&b.maker->out, 0, SMALL + 1), "what does not fit in stays out");
    is_uint(SMALL, put(&b.maker->out, SMALL, 8), "and a full ring takes nothing");
    is_uint(0, hp_pipe_left(&b.maker->out), "it has no room");
    ok(hp_pipe_left(&b.opener->in), "the reader sees bytes");
    is_uint(5, get(&b.opener->in, 0, 5), "and takes some");
    is_uint(5, hp_pipe_left(&b.maker->out), "which is room again");
    end(&b);
}

/* --- who sleeps is woken --- */

static void
wishes(void)
{
    both b = share(SMALL, 1);
    hp_pipe *out = &b.maker->out, *in = &b.opener->in;
    ok(!hp_pipe_await(in, 4), "a reader may sleep until 4 bytes are there");
    put(out, 0, 3);
    ok(!hp_pipe_wakes_other(out), "3 do not wake it");
    put(out, 3, 1);
    ok(hp_pipe_wakes_other(out) && !hp_pipe_wakes_other(out), "the fourth does, once");
    ok(hp_pipe_await(in, 4), "it does not sleep where they are there already");
    get(in, 0, 4);
    hp_pipe_awake(in);
    put(out, 4, SMALL);
    ok(!hp_pipe_wakes_other(out), "a reader that is awake is not woken");
    ok(!hp_pipe_await(out, SMALL), "a writer sleeps until half a ring is free, though it wants a whole one");
    get(in, 4, SMALL / 2 - 1);
    ok(!hp_pipe_wakes_other(in), "a byte less does not wake it");
    get(in, 4 + SMALL / 2 - 1, 1);
    ok(hp_pipe_wakes_other(in) && !hp_pipe_wakes_other(in), "half a ring does, once");
    ok(hp_pipe_await(out, 1), "and it does not sleep where there is room");
    hp_pipe_awake(out);
    get(in, 4 + SMALL / 2, 8);
    ok(!hp_pipe_wakes_other(in), "nor is a writer woken that is awake");
    end(&b);
}

/* --- two processes --- */

static int
child_reads(const hp_hello *hello)
{
    const char *why;
    hp_shm *shm = hp_shm_open(hello, 1, &why);
    uint64_t taken = 0, before = 1;
    if (!shm)
        return 1;
    for (tap_wait w = {0}; taken < STREAM && tap_waits(&w);)
        for (before = taken + 1; taken < STREAM && before != taken;) {
            before = taken;
            taken = get(&shm->in, taken, 1 + tap_pick(LARGE - 1));
        }
    return taken < STREAM;
}

static void
processes(void)
{
    hp_hello hello = plain;
    hp_shm *shm = hp_shm_new(&hello, 4096, 1);
    uint64_t sent = 0;
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_reads(&hello));
    for (tap_wait w = {0}; sent < STREAM && tap_waits(&w);)
        sent = put(&shm->out, sent, sent + LARGE < STREAM ? 1 + tap_pick(LARGE - 1) : STREAM - sent);
    ok(waitpid(pid, &status, 0) == pid && status == 0, "another process reads what this one writes meanwhile");
    pid = fork();
    if (pid == 0) {
        unsigned char there;
        _exit(mincore(shm->memory, 1, &there) == 0); /* ENOMEM: nothing is mapped */
    }
    ok(waitpid(pid, &status, 0) == pid && status == 0, "a forked child has not inherited it");
    hp_shm_free(shm);
}

/* --- bad counts --- */

/* The 32 words of counts, wherever they lie in the first page. */
static void
spoil(uint8_t *memory)
{
    uint64_t *words = (uint64_t *)(void *)memory;
    int n = 1 + (int)tap_pick(4);
    for (int i = 0; i < n; i++)
        words[8 + tap_pick(40)] = tap_pick(2) ? tap_random() : tap_pick(3 * SMALL);
}

/* Whatever the other process writes there: no access outside the ring, as a sanitizer sees, and no loop without an end. */
static void
spoilt(void)
{
    int found = 0;
    for (int round = 0; round < ROUNDS; round++) {
        both b = share(SMALL, 2);
        uint8_t memory[2 * SMALL];
        struct iovec place = {memory, sizeof(memory)};
        put(&b.maker->out, 0, tap_pick(SMALL) + 1);
        for (int i = 0; i < 8; i++) {
            spoil(b.opener->memory);
            ssize_t wrote = hp_pipe_move(&b.maker->out, &place, 1), read = hp_pipe_move(&b.maker->in, &place, 1);
            found += (wrote < 0) + (read < 0);
            hp_pipe_wakes_other(&b.maker->out);
            hp_pipe_wakes_other(&b.maker->in);
            hp_pipe_await(&b.maker->in, 7);
            hp_pipe_await(&b.maker->out, 7);
        }
        end(&b);
    }
    ok(found > 0, "spoilt counts do no harm, and %d of %d are found", found, 16 * ROUNDS);
}

/* --- what is not opened --- */

static void
is_refused(hp_hello hello, int directions, const char *what)
{
    const char *why = NULL;
    hp_shm *shm = hp_shm_open(&hello, directions, &why);
    ok(!shm && why, "%s: %s", what, why ? why : "opened");
    hp_shm_free(shm);
}

/* A file of the size of a real one, with its bytes, that can shrink. */
static int
unsealed_copy(const hp_shm *shm)
{
    int fd = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || write(fd, shm->memory, shm->size) != (ssize_t)shm->size)
        bail("no copy");
    return fd;
}

static void
refusals(void)
{
    both b = share(4096, 1);
    const char *why;
    hp_hello other = b.hello;
    other.comm++;
    is_refused(other, 1, "another communicator's");
    other = b.hello;
    other.my_rank++;
    is_refused(other, 1, "another rank's");
    other = b.hello;
    other.stripe++;
    is_refused(other, 1, "another connection's");
    is_refused(b.hello, 2, "too few directions");
    int copy = unsealed_copy(b.maker), file = open("/dev/zero", O_RDWR | O_CLOEXEC), ends[2];
    other = b.hello;
    other.memory_fd = (uint16_t)copy;
    is_refused(other, 1, "memory that may shrink");
    other.memory_fd = (uint16_t)file;
    is_refused(other, 1, "a device");
    other.memory_fd = (uint16_t)(pipe(ends) == 0 ? ends[0] : 0);
    is_refused(other, 1, "a pipe");
    close(ends[0]);
    close(ends[1]);
    close(copy);
    close(file);
    other.memory_fd = (uint16_t)file;
    is_refused(other, 1, "a descriptor that is closed");
    hp_shm *again = hp_shm_open(&b.hello, 1, &why);
    ok(again && put(&b.maker->out, 0, 8) == 8 && get(&again->in, 0, 8) == 8,
       "what has carried nothing is opened again");
    hp_shm_free(again);
    hp_shm_opened(b.maker);
    is_refused(b.hello, 1, "one that the dialling rank has closed");
    end(&b);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    other.memory_pid = (uint32_t)pid;
    is_refused(other, 1, "that of a process that has ended");
}

/* --- the offer, in the handshake --- */

static int
may_offer(uint8_t role)
{
    hp_hello hello = {.role = role, .memory_pid = 1}, got;
    uint8_t bytes[HP_M1], nonce[32] = {0};
    hp_hello_put(bytes, &hello, nonce);
    return hp_hello_get(&got, bytes);
}

/* Rank 3 offers memory, and rank 4 says so many times that it has opened it. */
static hp_handshake_state
shared(int times, int *shares)
{
    pair p;
    set_up(&p);
    p.hello.memory_pid = 77;
    p.hello.memory_fd = 5;
    begin(&p);
    pass(&p.i, &p.r);
    pass(&p.r, &p.i);
    pass(&p.i, &p.r);
    ok(p.r.hello.memory_pid == 77 && p.r.hello.memory_fd == 5, "what is offered arrives");
    p.r.shares = times;
    hp_handshake_judge(&p.r, HP_OK, 3);
    hp_handshake_state state = pass(&p.r, &p.i);
    *shares = p.i.shares;
    return state;
}

static void
offers(void)
{
    int shares = 0;
    ok(may_offer(HP_ROLE_DATA) && !may_offer(HP_ROLE_CONTROL) && !may_offer(HP_ROLE_ASK), "only data has memory");
    ok(shared(1, &shares) == HP_HANDSHAKE_DONE && shares == 1, "both know that it is shared");
    ok(shared(0, &shares) == HP_HANDSHAKE_DONE && !shares, "or that it is not");
    is_int(HP_HANDSHAKE_BAD, shared(2, &shares), "more than once is BAD");
}

int
main(void)
{
    plan_lazy();
    tap_limit(60);
    streams();
    full_and_empty();
    wishes();
    processes();
    spoilt();
    refusals();
    offers();
    return tap_failures() != 0;
}
