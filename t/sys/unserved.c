/* SPDX-License-Identifier: MIT */
/*
 * unserved: a server inside a program that ends: while ranks join, while a ring is up, with the rank that has it; whom
 * its ranks blame without it; and what ranks of the next start of the job make of the old one.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"
#include "t/tools/served.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Counted by the processes of one picture, which awaits so many before it goes on. */
static int *arrived;

static void
arrive(void)
{
    __atomic_add_fetch(arrived, 1, __ATOMIC_RELEASE);
}

static void
await_arrived(int n)
{
    while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < n)
        usleep(1000);
}

/* --- a stop --- */

/* The server's warning that only the last rank is missing: the others have joined. */
static void
on_line(void *arg, int level, const char *line)
{
    if (strstr(line, "rank 2 is missing"))
        arrive();
}

static int
wait_in_vain(int rank)
{
    hoop_comm *comm;
    double began = party_clock();
    hoop_result result = served_join(&comm, "incomplete", rank, 3);
    return !ok(result == HOOP_ERR_RENDEZVOUS && strstr(served_why(), "was stopped before all ranks had joined") &&
                   party_clock() - began < 5 + tap_room(),
               "rank %d after %.1f s: %s", rank, party_clock() - began, served_why());
}

static int
come_early(int rank)
{
    hoop_comm *comm = NULL;
    return !ok(served_join(&comm, "early", rank, 2) == HOOP_SUCCESS && served_adds_up(comm) == 0, "rank %d: %s", rank,
               served_why());
}

static void
test_stop_while_joining(void)
{
    pid_t pids[2] = {served_spawn(wait_in_vain, 0), served_spawn(wait_in_vain, 1)};
    hoop_log_to(on_line, NULL);
    hoop_server *server = served_start("127.0.0.1:0");
    served_go();
    await_arrived(1);
    hoop_log_to(NULL, NULL);
    ok(hoop_server_stop(server) == HOOP_SUCCESS && served_reap(pids, 2) == 0,
       "ranks that are joining hear of the stop");
    pids[0] = served_spawn(come_early, 0);
    pids[1] = served_spawn(come_early, 1);
    served_go();
    usleep(300000);
    server = served_start(served_address);
    ok(server && served_reap(pids, 2) == 0, "ranks that find no server wait for the next one");
    hoop_server_stop(server);
}

/* Waits for the byte that tells it that the server has stopped. */
static int steps[2];

static int
go_on(int rank)
{
    hoop_comm *comm = NULL, *part = NULL;
    char go;
    int sum = 1;
    close(steps[1]);
    bool good = ok(served_join(&comm, "goes on", rank, 2) == HOOP_SUCCESS, "rank %d: %s", rank, served_why());
    arrive();
    good = good && ok(read(steps[0], &go, 1) == 0, "the server has stopped");
    for (int i = 0; i < 100 && good; i++)
        good = hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_MAX, comm) == HOOP_SUCCESS;
    double began = party_clock();
    good = good && ok(hoop_comm_split(comm, 0, 0, &part) == HOOP_ERR_RENDEZVOUS &&
                          party_clock() - began < 6 + tap_room() && strstr(served_why(), "no longer be split"),
                      "rank %d, a split, after %.1f s: %s", rank, party_clock() - began, served_why());
    good = good && ok(hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS && sum == 2, "%s",
                      served_why());
    return !(good && served_adds_up(comm) == 0);
}

static void
test_stop_of_a_ring(void)
{
    if (pipe(steps))
        bail("pipe");
    pid_t pids[2] = {served_spawn(go_on, 0), served_spawn(go_on, 1)};
    hoop_server *server = served_start("127.0.0.1:0");
    served_go();
    await_arrived(2);
    hoop_server_stop(server);
    close(steps[1]);
    ok(served_reap(pids, 2) == 0, "a ring goes on without its server; a split of it fails soon");
    close(steps[0]);
}

/* Rank 0 serves, and is killed in the middle. */
static char *shared;
static int ranks, operations; /* that all of them have done before; without any not all connections are made */
static int receives;          /* then one that is no neighbour receives from rank 0, and the others from that one */

static int
lose_rank_0(int rank)
{
    hoop_comm *comm = NULL;
    int sum = 1;
    hoop_error e = {.size = sizeof(e)};
    if (rank == 0) {
        served_start("127.0.0.1:0");
        memcpy(shared + 1, served_address, sizeof(served_address));
        __atomic_store_n(shared, 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(shared, __ATOMIC_ACQUIRE))
        usleep(1000);
    memcpy(served_address, shared + 1, sizeof(served_address));
    if (!ok(served_join(&comm, "loses rank 0", rank, ranks) == HOOP_SUCCESS, "rank %d: %s", rank, served_why()))
        return 1;
    arrive();
    for (int i = 0; i < operations; i++)
        hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_MAX, comm);
    if (rank == 0) { /* once all others have their ring, too */
        await_arrived(ranks);
        raise(SIGKILL);
    }
    double began = party_clock();
    int far = ranks / 2;
    hoop_result result = receives ? hoop_recv(&sum, 1, HOOP_INT32, rank == far ? 0 : far, 0, comm)
                                  : hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_MAX, comm);
    hoop_comm_error(comm, &e);
    bool good = ok(result == HOOP_ERR_PEER_LOST && e.rank == 0 && strstr(e.text, "has ended") &&
                       party_clock() - began < 5 + tap_room(),
                   "rank %d after %.1f s: %s", rank, party_clock() - began, e.text);
    hoop_comm_destroy(comm);
    return !good;
}

static void
lose(int size, int before, const char *what)
{
    enum { MOST = 7 };
    pid_t pids[MOST];
    *shared = 0;
    *arrived = 0;
    ranks = size;
    operations = before;
    for (int i = 0; i < size; i++)
        pids[i] = served_spawn(lose_rank_0, i);
    served_go();
    ok(served_reap(pids, size) == 1, "rank 0 of %d serves and is killed %s: the others name it", size, what);
}

static void
test_rank_0(void)
{
    lose(3, 10, "between operations");
    for (int size = 3; size <= 7; size++)
        lose(size, 0, "before the first one");
    receives = 1;
    lose(6, 0, "before one that is no neighbour receives from it");
}

/* --- a process that ends, whose port answers after its connections have closed --- */

enum { TRIALS = 20 };
static int channel[2];
static struct slow_end {
    double killed;
    int rank;
    char text[512];
} * slow_end;

/* Gives the port at which this process listens to the test, which holds it open. */
static int
give_port(void)
{
    char byte = 0, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int listens = 0, port = 2;
    socklen_t n = sizeof(listens);
    while (!listens && ++port < 256)
        getsockopt(port, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &port, sizeof(port));
    return sendmsg(channel[1], &message, 0) == 1;
}

static int
take_port(void)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    int port = -1;
    if (recvmsg(channel[0], &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
        bail("no port");
    memcpy(&port, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(port));
    return port;
}

static int
end_slowly(int rank)
{
    hoop_comm *comm = NULL;
    int sum = 1;
    char go;
    hoop_error e = {.size = sizeof(e)};
    close(steps[1]);
    if (!ok(served_join(&comm, "ends slowly", rank, 2) == HOOP_SUCCESS, "rank %d: %s", rank, served_why()))
        return 1;
    for (int i = 0; i < 10; i++)
        hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_MAX, comm);
    arrive();
    if (read(steps[0], &go, 1) == 0 && rank == 1 && give_port()) {
        slow_end->killed = party_clock();
        raise(SIGKILL);
    }
    hoop_result result = hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_MAX, comm);
    hoop_comm_error(comm, &e);
    slow_end->rank = e.rank;
    snprintf(slow_end->text, sizeof(slow_end->text), "%s", e.text);
    hoop_comm_destroy(comm);
    return result != HOOP_ERR_PEER_LOST;
}

/*
 * Rank 1 of 2 ends, and rank 0 asks its port once before that closes. `accepted`: the question is accepted; else it is reset
 * when the port closes. Returns for how long the port was open: what is in time on a machine that runs all of them.
 */
static double
try_slow_end(int accepted)
{
    *arrived = 0;
    if (pipe(steps) || socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
        bail("no pipe");
    pid_t pids[2] = {served_spawn(end_slowly, 0), served_spawn(end_slowly, 1)};
    hoop_server *server = served_start("127.0.0.1:0");
    served_go();
    await_arrived(2);
    hoop_server_stop(server);
    close(steps[1]);
    struct pollfd port = {.fd = take_port(), .events = POLLIN};
    if (poll(&port, 1, SERVED_LIMIT * 1000) != 1)
        bail("nobody asks the port");
    int question = accepted ? accept(port.fd, NULL, NULL) : -1;
    close(port.fd);
    double open = party_clock() - slow_end->killed;
    if (question >= 0)
        close(question);
    served_reap(pids, 2);
    close(steps[0]);
    close(channel[0]);
    close(channel[1]);
    return open;
}

static void
test_slow_end(void)
{
    slow_end = mmap(NULL, sizeof(*slow_end), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (slow_end == MAP_FAILED)
        bail("no shared memory");
    for (int accepted = 0; accepted < 2; accepted++) {
        double open = try_slow_end(accepted);
        for (int i = 1; i < TRIALS && open > 0.5; i++)
            open = try_slow_end(accepted);
        ok(open > 0.5 || (slow_end->rank == 1 && strstr(slow_end->text, "has ended")),
           "a process ends, and its port %s a question: rank 0 says, %.3f s later: %s", accepted ? "accepts" : "resets",
           open, slow_end->text);
    }
}

/* --- a job that is started again --- */

static const char *attempt;

static int
join_attempt(int rank)
{
    hoop_comm *comm = NULL;
    setenv("HOOP_ATTEMPT", attempt, 1);
    return !ok(served_join(&comm, "again", rank, 2) == HOOP_SUCCESS && served_adds_up(comm) == 0,
               "rank %d, attempt %s: %s", rank, attempt, served_why());
}

static int
left_over(int rank)
{
    hoop_comm *comm;
    double began = party_clock();
    setenv("HOOP_ATTEMPT", attempt, 1);
    return !ok(served_join(&comm, "again", rank, 2) == HOOP_ERR_STALE_EPOCH && party_clock() - began < 3 + tap_room() &&
                   strstr(served_why(), "is that of attempt 1") && strstr(served_why(), "left over"),
               "rank %d of attempt %s: %s", rank, attempt, served_why());
}

static int
other_secret(int rank)
{
    hoop_comm *comm;
    double began = party_clock();
    hoop_secret_new(served_secret, sizeof(served_secret));
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "5000", 1);
    return !ok(served_join(&comm, "again", rank, 2) == HOOP_ERR_AUTH && strstr(served_why(), "wrong secret") &&
                   strstr(served_why(), "hoop_config_set"),
               "rank %d after %.1f s: %s", rank, party_clock() - began, served_why());
}

static void
test_started_again(void)
{
    attempt = "0";
    pid_t first[2] = {served_spawn(join_attempt, 0), served_spawn(join_attempt, 1)};
    hoop_server *server = served_start("127.0.0.1:0");
    served_go();
    ok(served_reap(first, 2) == 0, "a job on a server");
    ok(served_run(other_secret, 1, 1) == 0, "with a new served_secret, the next start does not join the old server");
    attempt = "1";
    pid_t pids[2] = {served_spawn(join_attempt, 0), served_spawn(join_attempt, 1)};
    served_go();
    usleep(700000);
    hoop_server_stop(server);
    setenv("HOOP_ATTEMPT", "1", 1);
    server = served_start(served_address);
    ok(served_reap(pids, 2) == 0, "with the same served_secret, the next attempt waits for its own server on the port");
    attempt = "0";
    ok(served_run(left_over, 1, 1) == 0, "a rank that is left over from before does not join that");
    hoop_server_stop(server);
    unsetenv("HOOP_ATTEMPT");
}

static void
play(int scene)
{
    static void (*const scenes[])(void) = {test_stop_while_joining, test_stop_of_a_ring, test_rank_0, test_slow_end,
                                           test_started_again};
    arrived = mmap(NULL, sizeof(*arrived), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arrived == MAP_FAILED)
        bail("no shared memory");
    scenes[scene]();
}

int
main(void)
{
    plan_lazy();
    tap_limit(SERVED_LIMIT);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || hoop_secret_new(served_secret, sizeof(served_secret)))
        bail("no shared memory, or no secret");
    tap_scenes(5, play);
    return tap_failures() != 0;
}
