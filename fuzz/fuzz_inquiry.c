/* SPDX-License-Identifier: MIT */
/*
 * fuzz_inquiry: programs of this user that ask a server what its jobs do (rendezvous/inquiry.h), over real sockets in a
 * folder of its own. The input is a script: programs connect, write whole requests, beginnings of them or any bytes, read
 * much, little or nothing, and go, while the server's loop turns now and then. Who wrote a right line gets its answer once
 * and whole, everybody else not a byte, and in the end nobody is connected.
 */
#include "fuzz/fuzz.h"
#include "rendezvous/inquiry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char fuzz_name[] = "inquiry";

enum {
    PROGRAMS = 12,
    PLACES = 8,
    LINE_MOST = 31,
    SENT_MAX = 64,
    ROUNDS = 2000,
    CHUNK = 997,
    CHUNKS = 400,
    PART = 50000
};
enum { CONNECT, WRITE, ASK, READ, END, CLOSE, TURN, COMMANDS };

/* A program as it sees its own connection. */
typedef struct program {
    int fd; /* -1: not connected */
    uint8_t sent[SENT_MAX];
    size_t sent_n, got_n;
    int ended;
} program;

static hp_loop *loop;
static hp_inquiry *inquiry;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char folder[] = "/tmp/fuzz_inquiry.XXXXXX";
static program programs[PROGRAMS];
static int connected;

static size_t
answer_bytes(int rows)
{
    return (size_t)(1 + rows % CHUNKS) * CHUNK;
}

static void
on_answer(void *arg, const uint8_t *job_id, int rows, int width, hp_buffer *out)
{
    static uint8_t bytes[CHUNK * CHUNKS];
    (void)arg;
    fuzz_check(!job_id && rows >= 0 && width >= 0 && width <= 9999 && hp_buffer_size(out) == 0);
    memset(bytes, rows & 0xff, answer_bytes(rows));
    fuzz_check(hp_buffer_add(out, bytes, answer_bytes(rows)) == 0);
}

static void
close_all(void)
{
    char path[64];
    hp_inquiry_free(inquiry);
    hp_loop_free(loop);
    snprintf(path, sizeof(path), "%s/hoop", folder);
    rmdir(path);
    rmdir(folder);
}

static void
open_once(void)
{
    const hp_inquiry_owner owner = {NULL, on_answer};
    hoop_error error;
    if (loop)
        return;
    fuzz_check(mkdtemp(folder) && setenv("XDG_RUNTIME_DIR", folder, 1) == 0);
    loop = hp_loop_new();
    inquiry = loop ? hp_inquiry_new(loop, &owner, &error) : NULL;
    fuzz_check(inquiry && atexit(close_all) == 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/hoop/%d-1.socket", folder, (int)getpid());
}

/* --- what is right --- */

/* A number of at most `most` at *at, which moves behind it; -1: there is none. */
static int
number(const uint8_t **at, const uint8_t *end, int most)
{
    const uint8_t *first = *at;
    long n = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
        n = n > most ? n : 10 * n + **at - '0';
    return *at > first && n <= most ? (int)n : -1;
}

/* The rows that these bytes ask for, 0 for JSON; -1: they are no request. Another reading than the server's. */
static int
rows_of(const uint8_t *sent, size_t n)
{
    const uint8_t *end = memchr(sent, '\n', n < LINE_MOST ? n : LINE_MOST), *at = sent + 6;
    size_t length = end ? (size_t)(end - sent) : 0;
    if (length == 4 && memcmp(sent, "json", 4) == 0)
        return 0;
    if (length < 7 || memcmp(sent, "table ", 6) != 0)
        return -1;
    int rows = number(&at, end, 999999);
    if (at < end && (*at++ != ' ' || number(&at, end, 9999) < 0 || at != end))
        return -1;
    return rows > 0 ? rows : -1;
}

static void
check_bytes(const program *p, const uint8_t *bytes, size_t n)
{
    int rows = rows_of(p->sent, p->sent_n);
    fuzz_check(rows >= 0 && p->got_n + n <= answer_bytes(rows));
    for (size_t i = 0; i < n; i++)
        fuzz_check(bytes[i] == (rows & 0xff));
}

/* More programs than there are places: some were closed at once. */
static void
check_end(const program *p)
{
    int rows = rows_of(p->sent, p->sent_n);
    if (rows >= 0 && (p->got_n > 0 || connected <= PLACES))
        fuzz_check(p->got_n == answer_bytes(rows));
}

/* --- what programs do --- */

static void
turn(void)
{
    for (int i = 0; i < 4; i++)
        hp_loop_run(loop, 0);
}

static void
start(program *p)
{
    if (p->fd >= 0)
        return;
    p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    fuzz_check(p->fd >= 0);
    if (connect(p->fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        fuzz_check(errno == EAGAIN); /* too many wait to be accepted */
        close(p->fd);
        p->fd = -1;
        return;
    }
    connected++;
}

static void
put(program *p, const void *bytes, size_t n)
{
    if (p->fd < 0 || n > SENT_MAX - p->sent_n)
        return;
    if (send(p->fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        return; /* the server has closed it */
    memcpy(p->sent + p->sent_n, bytes, n);
    p->sent_n += n;
}

static void
put_input(program *p, fuzz_script *s)
{
    uint8_t bytes[SENT_MAX / 2];
    size_t n = fuzz_next(s) % sizeof(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = fuzz_next(s);
    put(p, bytes, n);
}

/* A right line, or its first bytes. */
static void
ask(program *p, fuzz_script *s)
{
    char line[32];
    int rows = fuzz_next(s) << 8, cut;
    rows |= fuzz_next(s);
    cut = fuzz_next(s);
    int n = rows == 0 ? snprintf(line, sizeof(line), "json\n") : snprintf(line, sizeof(line), "table %d\n", rows);
    put(p, line, (size_t)(cut && cut < n ? cut : n));
}

static void
take(program *p, size_t most)
{
    static uint8_t bytes[PART];
    ssize_t n = p->fd < 0 || p->ended ? 0 : recv(p->fd, bytes, most < PART ? most : PART, 0);
    if (n > 0) {
        check_bytes(p, bytes, (size_t)n);
        p->got_n += (size_t)n;
    } else if (p->fd >= 0 && !p->ended && most > 0 && (n == 0 || errno != EAGAIN)) {
        p->ended = 1;
        check_end(p);
    }
}

/* One that goes early wants no answer. */
static void
leave(program *p)
{
    if (p->fd >= 0)
        close(p->fd);
    *p = (program){.fd = -1};
}

static void
run_command(fuzz_script *s)
{
    uint8_t code = fuzz_next(s);
    program *p = &programs[(code >> 3) % PROGRAMS];
    switch (code % 8 % COMMANDS) {
    case CONNECT: start(p); break;
    case WRITE: put_input(p, s); break;
    case ASK: ask(p, s); break;
    case READ: take(p, (size_t)fuzz_next(s) << 8); break;
    case END:
        if (p->fd >= 0)
            shutdown(p->fd, SHUT_WR);
        break;
    case CLOSE: leave(p); break;
    default: turn(); break;
    }
}

/* Everybody who is still here stops writing and reads on. */
static void
finish(void)
{
    int open = 1;
    for (int i = 0; i < PROGRAMS; i++)
        if (programs[i].fd >= 0)
            shutdown(programs[i].fd, SHUT_WR);
    for (int round = 0; open && round < ROUNDS; round++) {
        open = 0;
        turn();
        for (int i = 0; i < PROGRAMS; i++) {
            take(&programs[i], PART);
            open |= programs[i].fd >= 0 && !programs[i].ended;
        }
    }
    fuzz_check(!open);
    for (int i = 0; i < PROGRAMS; i++)
        leave(&programs[i]);
    for (int i = 0; i < PROGRAMS; i++)
        turn();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_script s = {data, size};
    open_once();
    connected = 0;
    for (int i = 0; i < PROGRAMS; i++)
        programs[i] = (program){.fd = -1};
    while (s.left > 0)
        run_command(&s);
    finish();
    return 0;
}
