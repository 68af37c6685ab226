/* SPDX-License-Identifier: MIT */
/*
 * server: the server and its clients over loopback, in one process: rings of 1 to 200, jobs that never mix, a server
 * that dies or comes late, and members that break the rules.
 */
#include "base/err.h"
#include "base/log.h"
#include "t/rendezvous/ranks.h"
#include "t/tap/tap.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static hp_client *clients[RANKS_MAX];

static void
join_all(meet *m, const char *job_id, hp_client **to, int n, int per_host, int patience_ms)
{
    for (int i = 0; i < n; i++) {
        hp_client_options o = rank_options(m, job_id, i, n, per_host, patience_ms);
        to[i] = rank_join(m, &o);
    }
}

static int
verdicts(hp_client **c, int n, int except, hoop_result code, int rank)
{
    int good = 0;
    hoop_error error;
    for (int i = 0; i < n; i++)
        good += i != except && hp_membership_verdict(hp_client_membership(c[i]), &error) && error.code == code &&
                error.rank == rank;
    return good;
}

/* Runs until all but one have heard a verdict. */
static void
await_verdicts(meet *m, hp_client **c, int n, int except, int ms)
{
    hoop_error error;
    for (int waited = 0; waited < ms; waited += 5) {
        int heard = 0;
        for (int i = 0; i < n; i++)
            heard += i == except || hp_membership_verdict(hp_client_membership(c[i]), &error);
        if (heard == n)
            return;
        meet_run(m, 5);
    }
}

static void
test_ring(int n)
{
    meet m;
    meet_open(&m);
    join_all(&m, "ring", clients, n, 3, SOON_MS);
    ok(ranks_go(&m, clients, n, SOON_MS), "%d ranks meet", n);
    const hp_ring *ring = hp_client_ring(clients[n - 1]);
    int good = ring->size == n && ring->rank == n - 1;
    for (int i = 0; good && i < n; i++)
        good = ring->order[i] == i && ring->members[i].rank == i && ring->members[i].pid == (uint32_t)(i + 800) &&
               hp_addr_port(&ring->members[i].addr) == i + 10000 && ring->comm == hp_client_ring(clients[0])->comm;
    ok(good, "and know each other");
    ranks_leave(&m, clients, n, 3);
    is_int(1, meet_said(&m, "over: "), "they leave in peace");
    is_int(0, meet_said(&m, "failed"), "nothing failed");
    is_int(0, hp_server_jobs(m.server), "the job is forgotten");
    meet_close(&m);
}

static void
test_verdicts(void)
{
    meet m;
    hoop_error error;
    meet_open(&m);
    join_all(&m, "loss", clients, 8, 4, SOON_MS);
    ranks_go(&m, clients, 8, SOON_MS);
    hp_report report = {.sequence = 17, .step = 1, .awaited = {HP_WAIT_PEER, 3}};
    hp_client_in_op(clients[4], &report);
    meet_run(&m, 20);
    hp_client_free(clients[3]);
    uint64_t before = hp_now();
    clients[3] = clients[7];
    await_verdicts(&m, clients, 7, -1, SOON_MS);
    is_int(7, verdicts(clients, 7, -1, HOOP_ERR_PEER_LOST, 3), "a rank that vanishes is named to the others");
    ok((double)(hp_now() - before) / 1e9 < 1 + tap_room(), "at once");
    hp_membership_verdict(hp_client_membership(clients[0]), &error);
    ok(strstr(error.text, "rank 3 (node1, pid 803) vanished") && error.sequence == 17, "%s", error.text);
    is_int(HP_CLIENT_GO, hp_client_status(clients[0]), "the state stays: the owner decides");
    ranks_free(clients, 7);
    join_all(&m, "loss", clients, 4, 4, SOON_MS);
    ranks_go(&m, clients, 4, SOON_MS);
    hp_err_set(&error, HOOP_ERR_ABORTED, "enough");
    error.rank = 2;
    hp_membership_abort(hp_client_membership(clients[2]), &error);
    await_verdicts(&m, clients, 4, 2, SOON_MS);
    is_int(3, verdicts(clients, 4, 2, HOOP_ERR_ABORTED, 2), "an abort reaches all others");
    hp_membership_verdict(hp_client_membership(clients[0]), &error);
    is_int(2, error.reporter, "with its reporter");
    ranks_free(clients, 4);
    meet_close(&m);
}

static void
test_two_jobs(void)
{
    meet m;
    hp_client *a[8], *b[8];
    meet_open(&m);
    for (int i = 0; i < 8; i++) {
        hp_client_options red = rank_options(&m, "red", 7 - i, 8, 4, SOON_MS);
        hp_client_options blue = rank_options(&m, "blue", i, 8, 4, SOON_MS);
        blue.pid += 1000;
        a[7 - i] = rank_join(&m, &red);
        b[i] = rank_join(&m, &blue);
    }
    ok(ranks_go(&m, a, 8, SOON_MS) && ranks_go(&m, b, 8, SOON_MS), "two jobs meet at one server");
    is_int(2, hp_server_jobs(m.server), "it knows both");
    int mixed = 0;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            mixed += hp_client_ring(a[i])->members[j].pid > 1800 || hp_client_ring(b[i])->members[j].pid < 1800;
    is_int(0, mixed, "they do not mix");
    hp_client_free(a[6]);
    a[6] = a[7];
    await_verdicts(&m, a, 7, -1, SOON_MS);
    meet_run(&m, 100);
    is_int(7, verdicts(a, 7, -1, HOOP_ERR_PEER_LOST, 6), "a loss in one");
    is_int(0, verdicts(b, 8, -1, HOOP_ERR_PEER_LOST, 6), "is none in the other");
    ranks_free(a, 7);
    ranks_leave(&m, b, 8, 1);
    meet_close(&m);
}

static void
test_server_dies(void)
{
    meet m;
    hoop_error error;
    meet_open(&m);
    join_all(&m, "dies", clients, 4, 2, SOON_MS);
    ranks_go(&m, clients, 4, SOON_MS);
    hp_server_free(m.server);
    ok(ranks_reach(&m, clients, 4, HP_CLIENT_GONE, SOON_MS),
       "the server dies after bring-up: the clients go on without");
    is_int(0, hp_membership_verdict(hp_client_membership(clients[0]), &error), "without a verdict");
    hp_report report = {.sequence = 1, .step = 1, .bytes = 1, .awaited = {HP_WAIT_PEER, 1}};
    hp_client_in_op(clients[0], &report);
    hp_membership_out(hp_client_membership(clients[0]), 1);
    hp_client_leave(clients[0], 1);
    ranks_free(clients, 4);
    meet_serve(&m);
    join_all(&m, "dies", clients, 3, 2, SOON_MS);
    hp_client_free(clients[2]);
    meet_run(&m, 100);
    hp_server_free(m.server);
    meet_run(&m, 150);
    meet_serve(&m);
    hp_client_options o = rank_options(&m, "dies", 2, 3, 2, SOON_MS);
    clients[2] = rank_join(&m, &o);
    ok(ranks_go(&m, clients, 3, SOON_MS), "the server is started again while ranks join: they meet all the same");
    ranks_leave(&m, clients, 3, 0);
    hp_server_free(m.server);
    join_all(&m, "dies", clients, 3, 2, SOON_MS);
    meet_run(&m, 400);
    meet_serve(&m);
    ok(ranks_go(&m, clients, 3, SOON_MS), "the server is started after the ranks: they meet");
    ranks_leave(&m, clients, 3, 0);
    hp_server_free(m.server);
    m.server = NULL;
    uint64_t before = hp_now();
    join_all(&m, "dies", clients, 1, 1, 500);
    ok(ranks_reach(&m, clients, 1, HP_CLIENT_FAILED, SOON_MS) && (double)(hp_now() - before) / 1e9 < 1.5 + tap_room(),
       "no server: %s", hp_client_error(clients[0])->text);
    ranks_free(clients, 1);
    meet_close(&m);
}

static void
test_split(void)
{
    meet m;
    hp_client *parts[6];
    meet_open(&m);
    join_all(&m, "split", clients, 6, 3, SOON_MS);
    ranks_go(&m, clients, 6, SOON_MS);
    for (int i = 0; i < 6; i++) {
        hp_client_options o = rank_options(&m, "split", i, 0, 3, SOON_MS);
        o.rank = -1;
        o.parent = hp_client_ring(clients[i])->comm;
        o.parent_rank = i;
        o.parent_size = 6;
        o.color = i == 5 ? -1 : i % 2;
        o.key = -i;
        parts[i] = rank_join(&m, &o);
    }
    ok(ranks_go(&m, parts, 6, SOON_MS), "six ranks split");
    const int ranks[6] = {2, 1, 1, 0, 0, -1}, sizes[6] = {3, 2, 3, 2, 3, 0};
    int good = 1;
    for (int i = 0; i < 6; i++)
        good &= case_int(ranks[i], hp_client_ring(parts[i])->rank, "the new rank of rank %d", i) &
                case_int(sizes[i], hp_client_ring(parts[i])->size, "the new size for rank %d", i);
    ok(good, "by colour and key, one takes no part");
    hp_client_free(parts[1]);
    parts[1] = parts[5];
    await_verdicts(&m, parts + 3, 1, -1, SOON_MS);
    is_int(1, verdicts(parts + 3, 1, -1, HOOP_ERR_PEER_LOST, 1), "a loss in one colour");
    is_int(0, verdicts(parts, 1, -1, HOOP_ERR_PEER_LOST, 1) + verdicts(clients, 6, -1, HOOP_ERR_PEER_LOST, 1),
           "is none in the other, nor in the parent");
    ranks_free(parts, 5);
    ranks_leave(&m, clients, 6, 0);
    meet_close(&m);
}

static int proven_fd;

static void
on_proven(void *arg, const hp_dial_result *result)
{
    proven_fd = result->fd;
}

/* A connection that knows the secret, and no more. */
static int
prove(meet *m, const char *job_id, int rank, int size)
{
    hp_client_options o = rank_options(m, job_id, rank, size, 1, SOON_MS);
    hp_hello hello = {.my_rank = (uint32_t)rank,
                      .your_rank = HP_RANK_SERVER,
                      .world = (uint32_t)size,
                      .role = HP_ROLE_CONTROL,
                      .ver_min = HP_WIRE_MIN,
                      .ver_max = HP_WIRE_MAX};
    memcpy(hello.job_id, o.keys->job_id, HP_JOB_ID_BYTES);
    proven_fd = -1;
    hp_dial *dial = hp_dial_new(m->loop, &o.server,
                                &(hp_dial_options){.what = "the server",
                                                   .keys = o.keys,
                                                   .hello = hello,
                                                   .sock = o.sock,
                                                   .deadline = o.deadline,
                                                   .fn = on_proven});
    for (tap_wait w = {0}; proven_fd < 0 && tap_waits(&w);)
        meet_run(m, 10);
    hp_dial_free(dial);
    return proven_fd;
}

/* Whether the server closes this connection within so many turns of 10 ms; reads nothing but the end. */
static int
closes(meet *m, int fd, int turns)
{
    struct pollfd end = {fd, POLLRDHUP, 0};
    for (; poll(&end, 1, 0) == 0 && turns > 0; turns--)
        meet_run(m, 10);
    return poll(&end, 1, 0) == 1;
}

static void
test_rude_members(void)
{
    meet m;
    uint8_t frame[HP_COMMON_BYTES + HP_CONTROL_MAX + 4];
    hp_log_level(HP_LOG_NONE);
    meet_open(&m);
    uint64_t before = hp_now();
    int fd = prove(&m, "rude", 0, 2);
    ok(fd >= 3, "a proven connection");
    ok(closes(&m, fd, SOON_MS / 10), "that says nothing is closed");
    double took = (double)(hp_now() - before) / 1e9;
    ok(took > 4.5 && took < 6.5 + tap_room(), "after 5 s: %.1f s", took);
    close(fd);
    for (int type = 0; type < 90; type++) {
        fd = prove(&m, "rude", 0, 2);
        size_t n = hp_frame_put_control(frame, (hp_frame_type)type, "rubbish", 7);
        if (send(fd, frame, n, MSG_NOSIGNAL) < 0 || !closes(&m, fd, 200))
            ok(0, "a frame of type %d without a JOIN is not punished", type);
        close(fd);
    }
    is_int(0, hp_server_jobs(m.server), "frames of every type before JOIN: closed, nothing is kept");
    join_all(&m, "rude", clients, 2, 2, SOON_MS);
    ok(ranks_go(&m, clients, 2, SOON_MS), "and the job meets as ever");
    ranks_leave(&m, clients, 2, 0);
    meet_close(&m);
}

static void
test_modes(void)
{
    hoop_error error;
    hp_loop *loop = hp_loop_new();
    hp_server_options options = {.mode = HP_MODE_NONE};
    hp_addr_parse(&options.listen, "0.0.0.0:0", &error);
    ok(!hp_server_new(loop, &options, &error) && error.code == HOOP_ERR_INVALID_ARGUMENT, "%s", error.text);
    options.mode = HP_MODE_TLS;
    ok(!hp_server_new(loop, &options, &error) && error.code == HOOP_ERR_UNSUPPORTED, "%s", error.text);
    hp_addr_parse(&options.listen, "127.0.0.1:0", &error);
    options.mode = HP_MODE_NONE;
    hp_server *server = hp_server_new(loop, &options, &error);
    ok(server != NULL, "mode none on loopback");
    hp_server_free(server);
    hp_loop_free(loop);
}

static void (*const tests[])(void) = {test_verdicts, test_two_jobs,     test_server_dies,
                                      test_split,    test_rude_members, test_modes};

static void
play(int scene)
{
    tests[scene]();
}

int
main(void)
{
    struct rlimit limit;
    plan_lazy();
    tap_limit(240);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    test_ring(1); /* not beside others, one of which wants a port again */
    test_ring(2);
    test_ring(8);
    test_ring(200);
    tap_scenes(sizeof(tests) / sizeof(tests[0]), play);
    return tap_failures() != 0;
}
