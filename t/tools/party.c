/* SPDX-License-Identifier: MIT */
/* party: see party.h. The server runs in a process of its own, so that a test can kill it too. */
#include "t/tools/party.h"

#include "base/log.h"
#include "net/loop.h"
#include "rendezvous/server.h"
#include "t/tap/ports.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Shared with the ranks. */
typedef struct board {
    atomic_int created; /* ranks that have a communicator */
    atomic_int joined;  /* ranks whose party_join is done */
    atomic_int marks;
    char note[][PARTY_NOTE];
} board;

static board *shared;
static int notes_of, my_rank = -1;

static size_t
board_size(int ranks)
{
    return sizeof(board) + (size_t)ranks * PARTY_NOTE;
}

double
party_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void
party_nap(double seconds)
{
    if (seconds > 0)
        usleep((useconds_t)(seconds * 1e6));
}

int
party_rounds(int full)
{
    int few = full / 20 < 3 ? 3 : full / 20;
    return getenv("HOOP_TEST_FULL") ? full : few;
}

int
party_port_is_free(int port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    int good = bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(fd, 1) == 0;
    close(fd);
    return good;
}

int
party_ports(int n)
{
    int first = ports_hold(n);
    if (first < 0)
        bail("no %d free ports in a row", n);
    return first;
}

struct sockaddr_in
party_own_port(void)
{
    struct sockaddr_in sin = {0};
    for (int fd = 3; fd < 256; fd++) {
        int listens = 0;
        socklen_t length = sizeof(listens), room = sizeof(sin);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens)
            getsockname(fd, (struct sockaddr *)&sin, &room);
    }
    return sin;
}

void
party_note(const char *format, ...)
{
    va_list ap;
    if (my_rank < 0 || my_rank >= notes_of)
        return;
    va_start(ap, format);
    vsnprintf(shared->note[my_rank], PARTY_NOTE, format, ap);
    va_end(ap);
}

static void
give_up(const hoop_comm *comm, const char *what)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(comm, &error);
    party_note("%s: %s", what, error.text);
    exit(9);
}

static int
reaches(atomic_int *count, int n)
{
    for (tap_wait w = {0}; atomic_load(count) < n && tap_waits(&w);)
        party_nap(0.0005);
    return atomic_load(count) >= n;
}

/* A rank may be through its last allreduce while another is not; what it does next must not disturb that one. */
static void
await_others(const hoop_comm *comm)
{
    atomic_fetch_add(&shared->joined, 1);
    if (!reaches(&shared->joined, notes_of))
        give_up(comm, "waiting for the others' first allreduces");
}

void
party_mark(void)
{
    atomic_fetch_add(&shared->marks, 1);
}

int
party_has_marks(int n)
{
    return atomic_load(&shared->marks) >= n;
}

int
party_await_marks(int n)
{
    return reaches(&shared->marks, n);
}

hoop_result
party_create(hoop_comm **comm)
{
    hoop_result result = hoop_comm_create(comm, NULL);
    if (result == HOOP_SUCCESS)
        atomic_fetch_add(&shared->created, 1);
    return result;
}

hoop_comm *
party_join(int operations)
{
    float values[100] = {0};
    hoop_comm *comm;
    if (party_create(&comm) != HOOP_SUCCESS)
        give_up(NULL, "create");
    for (int i = 0; i < operations; i++)
        if (hoop_allreduce(values, values, 100, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS)
            give_up(comm, "the first allreduces");
    if (operations > 0)
        await_others(comm);
    return comm;
}

int
party_agrees(hoop_comm *comm, uint64_t value)
{
    int size = hoop_comm_size(comm);
    uint64_t *all = calloc((size_t)size, sizeof(*all));
    int same = all && hoop_allgather(&value, all, 1, HOOP_UINT64, comm) == HOOP_SUCCESS;
    for (int rank = 0; rank < size; rank++)
        same = same && all[rank] == value;
    free(all);
    return same;
}

void
party_set_host(int rank, int ranks)
{
    char host[16];
    snprintf(host, sizeof(host), "%d", rank / ranks);
    setenv("HOOP_HOSTID", host, 1);
    setenv("HOOP_LEVELS", "1", 1);
}

hoop_result
party_second_world(hoop_comm **out)
{
    hoop_config *config = hoop_config_new();
    hoop_config_set(config, "job", "the second world");
    hoop_result result = hoop_comm_create(out, config);
    hoop_config_free(config);
    return result;
}

static void
write_line(void *arg, hp_notice sort, const char *line)
{
    if (sort == HP_NOTICE_WARNING) {
        hp_log(HP_LOG_WARN, "%s", line);
        return;
    }
    FILE *f = fopen(arg, "a");
    if (!f)
        return;
    fprintf(f, "%s\n", line);
    fclose(f);
}

static void
serve(int tell, party *p, const char *at, int comes_back)
{
    hp_loop *loop = hp_loop_new();
    hp_server_options options = {
        .mode = HP_MODE_AUTH, .asked = 1, .starter = {.arg = p->log, .say = write_line}, .comes_back = comes_back};
    hoop_error error;
    char text[HP_ADDR_TEXT] = "";
    hp_secret secret;
    options.secret = &secret;
    if (hp_secret_from_file(&secret, p->secret_file, &error) != HOOP_SUCCESS ||
        hp_addr_parse(&options.listen, at, &error) != HOOP_SUCCESS)
        _exit(1);
    hp_server *server = hp_server_new(loop, &options, &error);
    if (!server)
        _exit(1);
    hp_addr_print(hp_server_addr(server), text);
    if (write(tell, text, sizeof(text)) != sizeof(text))
        _exit(1);
    for (;;)
        hp_loop_run(loop, UINT64_MAX);
}

static void
make_secret(party *p)
{
    hp_secret secret = {0};
    char text[HP_SECRET_TEXT];
    hoop_error error;
    int fd;
    snprintf(p->secret_file, sizeof(p->secret_file), "%s/secret", tap_tmpdir());
    if (hp_random(secret.key, HP_SECRET, &error) != HOOP_SUCCESS)
        bail("no random bytes: %s", error.text);
    hp_secret_format(text, &secret);
    fd = open(p->secret_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        bail("cannot write %s", p->secret_file);
    close(fd);
}

static void
start_server(party *p, const char *at, int comes_back)
{
    char text[HP_ADDR_TEXT];
    int tube[2];
    if (pipe2(tube, O_CLOEXEC) != 0)
        bail("no pipe");
    fflush(NULL);
    p->server = fork();
    if (p->server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(tube[1], p, at, comes_back);
    }
    close(tube[1]);
    if (read(tube[0], text, sizeof(text)) != sizeof(text))
        bail("the rendezvous server did not start");
    close(tube[0]);
    snprintf(p->address, sizeof(p->address), "%.63s", text);
}

static void
open_party(party *p, int comes_back)
{
    *p = (party){0};
    make_secret(p);
    snprintf(p->log, sizeof(p->log), "%s/server.log", tap_tmpdir());
    start_server(p, "127.0.0.1:0", comes_back);
}

void
party_open(party *p)
{
    open_party(p, 0);
}

void
party_open_returning(party *p)
{
    open_party(p, 1);
}

void
party_serve_again(party *p)
{
    char at[sizeof(p->address)];
    waitpid(p->server, NULL, 0);
    snprintf(at, sizeof(at), "%s", p->address);
    start_server(p, at, 1);
}

static void
be_rank(const party *p, int rank, party_fn *fn, void *arg, unsigned limit, unsigned number)
{
    char text[64];
    my_rank = rank;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tap_limit(limit);
    snprintf(text, sizeof(text), "%d", rank);
    setenv("HOOP_RANK", text, 1);
    snprintf(text, sizeof(text), "%d", p->size);
    setenv("HOOP_SIZE", text, 1);
    snprintf(text, sizeof(text), "party-%d-%u", (int)getppid(), number);
    setenv("HOOP_JOB", text, 0);
    setenv("HOOP_RENDEZVOUS", p->address, 1);
    setenv("HOOP_SECRET_FILE", p->secret_file, 0);
    setenv("HOOP_CONF_FILE", "", 1);
    exit(fn(rank, p->size, arg));
}

void
party_start(party *p, int size, party_fn *fn, void *arg, unsigned limit)
{
    static unsigned number;
    number++;
    shared = mmap(NULL, board_size(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    notes_of = size;
    p->size = size;
    free(p->guest);
    p->guest = calloc((size_t)size, sizeof(*p->guest));
    if (shared == MAP_FAILED || !p->guest)
        bail("out of memory");
    fflush(NULL);
    for (int rank = 0; rank < size; rank++) {
        p->guest[rank].pid = fork();
        if (p->guest[rank].pid == 0)
            be_rank(p, rank, fn, arg, limit, number);
        if (p->guest[rank].pid < 0)
            bail("cannot fork rank %d", rank);
    }
}

void
party_await(party *p)
{
    reaches(&shared->created, p->size);
}

void
party_wait(party *p)
{
    double begin = party_clock();
    for (int left = p->size; left > 0; left--) {
        int status;
        pid_t pid = -1;
        do { /* the server may end too */
            pid = wait(&status);
        } while (pid == p->server);
        for (int rank = 0; rank < p->size; rank++)
            if (p->guest[rank].pid == pid)
                p->guest[rank].status = status, p->guest[rank].gone = 1, p->guest[rank].seconds = party_clock() - begin;
    }
    for (int rank = 0; rank < p->size; rank++)
        memcpy(p->guest[rank].note, shared->note[rank], PARTY_NOTE);
    munmap(shared, board_size(p->size));
}

int
party_failed(const party *p)
{
    int bad = 0;
    for (int rank = 0; rank < p->size; rank++) {
        if (p->guest[rank].gone && p->guest[rank].status == 0)
            continue;
        bad++;
        diag("rank %d of %d ended with status %#x: %s", rank, p->size, (unsigned)p->guest[rank].status,
             p->guest[rank].note);
    }
    return bad;
}

int
party_run(party *p, int size, party_fn *fn, void *arg, unsigned limit)
{
    party_start(p, size, fn, arg, limit);
    party_wait(p);
    return party_failed(p);
}

void
party_expect(party *p, int size, party_fn *fn, void *arg, unsigned limit, const char *text)
{
    int bad = party_run(p, size, fn, arg, limit);
    for (int rank = 0; rank < size && bad; rank++)
        diag("rank %d: %s", rank, p->guest[rank].note);
    is_int(0, bad, "%s (%d ranks)", text, size);
}

int
party_says(const party *p, const char *part)
{
    char line[512];
    int n = 0;
    FILE *f = fopen(p->log, "r");
    while (f && fgets(line, sizeof(line), f))
        n += strstr(line, part) != NULL;
    if (f)
        fclose(f);
    return n;
}

void
party_close(party *p)
{
    if (p->server > 0) {
        kill(p->server, SIGKILL);
        waitpid(p->server, NULL, 0);
    }
    free(p->guest);
    p->guest = NULL;
}
