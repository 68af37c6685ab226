/* SPDX-License-Identifier: MIT */
/*
 * Many threads of each rank on one communicator: they send, receive, wait, call collectives, split and end groups at the
 * same time. One drives, the others sleep; nobody is refused, is woken too late, or is forgotten. What is misuse is
 * refused. HOOP_TEST_SEED repeats the random part. Run under TSan by check-threads.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { THREADS = 8, SIGNALS = 3000, MOST = 4096 };

/* In this time threads mostly are in their calls: no verdict depends on it, but the case might not be met otherwise. */
static const double MOMENT = 0.1;

/* A thread of a rank, with what it needs, and what it returns: 0, or the line that went wrong. */
typedef struct job {
    pthread_t thread;
    hoop_comm *comm, *other;
    int number, tag, peer, rounds;
    uint64_t random;
    hoop_work *work;
    hoop_result result;
    int failed;
} job;

#define CHECK(holds)                                                                                                   \
    do {                                                                                                               \
        if (!(holds)) {                                                                                                \
            hoop_error why_ = {.size = sizeof(why_)};                                                                  \
            hoop_comm_error(NULL, &why_);                                                                              \
            party_note("line %d: %s", __LINE__, why_.text);                                                            \
            return __LINE__;                                                                                           \
        }                                                                                                              \
    } while (0)

static void
start(job *j, void *(*run)(void *arg))
{
    pthread_create(&j->thread, NULL, run, j);
}

static int
join(job *j, int count)
{
    int failed = 0;
    for (int i = 0; i < count; i++) {
        pthread_join(j[i].thread, NULL);
        failed = failed ? failed : j[i].failed;
    }
    return failed;
}

static hoop_result
send_one(hoop_comm *comm, int peer, int tag, int32_t value)
{
    return hoop_send(&value, 1, HOOP_INT32, peer, tag, comm);
}

/* What comes, or below 0 if nothing does. */
static int32_t
receive_one(hoop_comm *comm, int peer, int tag)
{
    int32_t value = -1;
    hoop_result result = hoop_recv(&value, 1, HOOP_INT32, peer, tag, comm);
    return result == HOOP_SUCCESS ? value : -1000 - (int32_t)result;
}

/* The thread receives one message, blocking. */
static void *
receive(void *arg)
{
    job *j = arg;
    int32_t value = receive_one(j->comm, j->peer, j->tag);
    j->result = value < 0 ? (hoop_result)(-1000 - value) : HOOP_SUCCESS;
    j->failed = value != j->tag;
    return NULL;
}

/* --- messages around a ring, each thread with a tag of its own --- */

static int
pass_on(job *j, size_t count, int round)
{
    int rank = hoop_comm_rank(j->comm), n = hoop_comm_size(j->comm), before = (rank + n - 1) % n;
    int32_t out[MOST], in[MOST];
    hoop_work *work;
    for (size_t i = 0; i < count; i++)
        out[i] = rank * 1000000 + j->tag * 10000 + round + (int32_t)i;
    CHECK(hoop_isend(out, count, HOOP_INT32, (rank + 1) % n, j->tag, j->comm, &work) == HOOP_SUCCESS);
    CHECK(hoop_recv(in, count, HOOP_INT32, before, j->tag, j->comm) == HOOP_SUCCESS);
    CHECK(hoop_work_wait(work, -1) == HOOP_SUCCESS);
    for (size_t i = 0; i < count; i++)
        CHECK(in[i] == before * 1000000 + j->tag * 10000 + round + (int32_t)i);
    return 0;
}

static void *
pass_messages(void *arg)
{
    job *j = arg;
    for (int round = 0; round < j->rounds && !j->failed; round++)
        j->failed = pass_on(j, round % 7 ? 3 : MOST, round);
    return NULL;
}

static int
messages(int rank, int size, void *arg)
{
    job jobs[THREADS];
    hoop_comm *comm = party_join(1);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.comm = comm, .tag = i, .rounds = 100};
        start(&jobs[i], pass_messages);
    }
    CHECK(join(jobs, THREADS) == 0);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- collectives beside waits for works whose functions are slow --- */

static void
be_slow(void *arg, hoop_result result)
{
    usleep(2000);
    atomic_store((atomic_int *)arg, 1);
}

static void *
wait_for_functions(void *arg)
{
    job *j = arg;
    int rank = hoop_comm_rank(j->comm), n = hoop_comm_size(j->comm);
    for (int round = 0; round < j->rounds && !j->failed; round++) {
        atomic_int called = 0;
        int32_t out = round, in = -1;
        hoop_work *works[2];
        size_t index;
        hoop_isend(&out, 1, HOOP_INT32, (rank + 1) % n, j->tag, j->comm, &works[0]);
        hoop_irecv(&in, 1, HOOP_INT32, (rank + n - 1) % n, j->tag, j->comm, &works[1]);
        hoop_work_on_done(works[1], be_slow, &called);
        hoop_result result = hoop_wait_any(works, 2, -1, &index);
        if (result == HOOP_SUCCESS)
            result =
                round % 2 ? hoop_wait_all(works, 2) : hoop_work_wait_or_fail(works[!index], 60000); /* the other one */
        j->failed = result != HOOP_SUCCESS || in != round || !atomic_load(&called);
    }
    return NULL;
}

static int
slow_functions(int rank, int size, void *arg)
{
    job jobs[THREADS - 1];
    hoop_comm *comm = party_join(1);
    for (int i = 0; i < THREADS - 1; i++) {
        jobs[i] = (job){.comm = comm, .tag = i, .rounds = 20};
        start(&jobs[i], wait_for_functions);
    }
    for (int32_t round = 0; round < 500; round++) {
        int32_t sum = 0;
        CHECK(hoop_allreduce(&round, &sum, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS && sum == size * round);
    }
    CHECK(join(jobs, THREADS - 1) == 0);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- the eventfd of hoop_work_wait(3): a thread that waits for ended works beside blocking calls --- */

typedef struct mailbox {
    hoop_signal signal;
    _Atomic(hoop_work *) work;
    int32_t out;
} mailbox;

static mailbox boxes[SIGNALS];

static void *
wait_for_signals(void *arg)
{
    job *j = arg;
    for (int i = 0; i < SIGNALS && !j->failed; i++) {
        struct pollfd ready = {.fd = j->number, .events = POLLIN};
        eventfd_t more;
        while (__atomic_load_n(&boxes[i].signal.result, __ATOMIC_ACQUIRE) == HOOP_IN_PROGRESS ||
               !atomic_load(&boxes[i].work))
            if (poll(&ready, 1, 1) == 1)
                eventfd_read(j->number, &more);
        hoop_result result = hoop_work_wait(atomic_load(&boxes[i].work), -1);
        j->failed = result != HOOP_SUCCESS || boxes[i].out != hoop_comm_size(j->comm);
    }
    return NULL;
}

static int
signals(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    job j = {.comm = comm, .number = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    const int32_t one = 1;
    for (int i = 0; i < SIGNALS; i++)
        boxes[i].signal = (hoop_signal){.fd = j.number, .result = HOOP_IN_PROGRESS};
    start(&j, wait_for_signals);
    for (int i = 0; i < SIGNALS; i++) {
        hoop_work *work;
        int32_t sum = 0;
        CHECK(hoop_iallreduce(&one, &boxes[i].out, 1, HOOP_INT32, HOOP_SUM, comm, &work) == HOOP_SUCCESS);
        CHECK(hoop_work_on_done(work, hoop_signal_done, &boxes[i].signal) == HOOP_SUCCESS);
        atomic_store(&boxes[i].work, work);
        CHECK(hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS && sum == size);
    }
    CHECK(join(&j, 1) == 0);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- who is woken, and when --- */

/*
 * The thread that waits first drives, and gets its message last: rank 1 sends it when the other threads have answered.
 * So each must be woken when its own message has come.
 */
static int
driver_is_last(int rank, int size, void *arg)
{
    enum { SLEEPERS = 3 };
    hoop_comm *comm = party_join(1);
    job jobs[1 + SLEEPERS];
    if (rank == 1) {
        for (int tag = SLEEPERS; tag > 0; tag--) {
            CHECK(send_one(comm, 0, tag, tag) == HOOP_SUCCESS);
            CHECK(receive_one(comm, 0, tag) == tag);
        }
        CHECK(send_one(comm, 0, 0, 0) == HOOP_SUCCESS);
        return hoop_comm_destroy(comm) != HOOP_SUCCESS;
    }
    for (int i = 0; i <= SLEEPERS; i++) {
        jobs[i] = (job){.comm = comm, .peer = 1, .tag = i};
        start(&jobs[i], receive);
        party_nap(MOMENT);
    }
    for (int tag = SLEEPERS; tag > 0; tag--) {
        CHECK(join(&jobs[tag], 1) == 0);
        CHECK(send_one(comm, 1, tag, tag) == HOOP_SUCCESS);
    }
    CHECK(join(jobs, 1) == 0);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* The messages come in the order in which the threads wait, so that whoever drives leaves first, and another takes over. */
static int
driver_is_first(int rank, int size, void *arg)
{
    enum { ALL = 4 };
    hoop_comm *comm = party_join(1);
    job jobs[ALL];
    for (int i = 0; i < ALL; i++) {
        jobs[i] = (job){.comm = comm, .peer = 1, .tag = i};
        if (rank == 0)
            start(&jobs[i], receive);
        party_nap(MOMENT);
    }
    for (int i = 0; i < ALL && rank == 1; i++) {
        CHECK(send_one(comm, 0, i, i) == HOOP_SUCCESS);
        party_nap(MOMENT);
    }
    CHECK(rank == 1 || join(jobs, ALL) == 0);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* Limits of waits pass while another thread drives; one of them ends the communicator, for all threads. */
static int
limits(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    job driver = {.comm = comm, .peer = 1, .tag = 1};
    int32_t in = -1;
    hoop_work *work;
    if (rank == 1) {
        CHECK(receive_one(comm, 0, 2) == 2);
        CHECK(send_one(comm, 0, 3, 3) == HOOP_SUCCESS);
        CHECK(receive_one(comm, 0, 9) == -1000 - HOOP_ERR_TIMEOUT);
        return hoop_comm_destroy(comm) != HOOP_ERR_TIMEOUT;
    }
    start(&driver, receive);
    party_nap(MOMENT);
    CHECK(hoop_irecv(&in, 1, HOOP_INT32, 1, 3, comm, &work) == HOOP_SUCCESS);
    for (int i = 0; i < 5; i++) {
        double begin = party_clock();
        CHECK(hoop_work_wait(work, i * 20) == HOOP_IN_PROGRESS);
        CHECK(party_clock() - begin >= i * 0.02);
    }
    CHECK(send_one(comm, 1, 2, 2) == HOOP_SUCCESS);
    CHECK(hoop_work_wait_or_fail(work, 60000) == HOOP_SUCCESS && in == 3);
    CHECK(hoop_irecv(&in, 1, HOOP_INT32, 1, 4, comm, &work) == HOOP_SUCCESS);
    CHECK(hoop_work_wait_or_fail(work, 100) == HOOP_ERR_TIMEOUT);
    join(&driver, 1);
    CHECK(driver.result == HOOP_ERR_TIMEOUT);
    return hoop_comm_destroy(comm) != HOOP_ERR_TIMEOUT;
}

/* --- several communicators --- */

static void *
wait_for_any(void *arg)
{
    job *j = arg;
    int32_t in[2];
    for (int round = 0; round < j->rounds && !j->failed; round++) {
        hoop_work *works[3] = {0};
        size_t index, last;
        hoop_irecv(&in[0], 1, HOOP_INT32, 1, j->tag, j->comm, &works[0]);
        hoop_irecv(&in[1], 1, HOOP_INT32, 1, j->tag, j->other, &works[2]);
        hoop_result result = hoop_wait_any(works, 3, -1, &index);
        if (result == HOOP_SUCCESS)
            result = hoop_wait_any(works, 3, -1, &last);
        j->failed = result != HOOP_SUCCESS || index + last != 2 || in[0] != round || in[1] != round;
    }
    return NULL;
}

/* Rank 0 waits with four threads for the works of two communicators, and with one for each; rank 1 sends to all. */
static int
several(int rank, int size, void *arg)
{
    enum { ANY = 4, ROUNDS = 50 };
    hoop_comm *comm = party_join(1), *other;
    job jobs[ANY + 2];
    CHECK(hoop_comm_split(comm, 0, 0, &other) == HOOP_SUCCESS);
    for (int i = 0; i < ANY + 2 && rank == 0; i++) {
        jobs[i] = (job){.comm = i % 2 ? other : comm, .other = i % 2 ? comm : other, .tag = i, .rounds = ROUNDS};
        jobs[i].peer = 1;
        start(&jobs[i], i < ANY ? wait_for_any : receive);
    }
    for (int k = 0; k < ANY * ROUNDS && rank == 1; k++) {
        int tag = k % ANY, later = k % 3 == 0;
        CHECK(send_one(later ? other : comm, 0, tag, k / ANY) == HOOP_SUCCESS);
        CHECK(send_one(later ? comm : other, 0, tag, k / ANY) == HOOP_SUCCESS);
    }
    for (int tag = ANY; tag < ANY + 2 && rank == 1; tag++)
        CHECK(send_one(tag % 2 ? other : comm, 0, tag, tag) == HOOP_SUCCESS);
    CHECK(rank == 1 || join(jobs, ANY + 2) == 0);
    return hoop_comm_destroy(other) != HOOP_SUCCESS || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static void *
split_it(void *arg)
{
    job *j = arg;
    hoop_comm *part = NULL;
    j->failed = hoop_comm_split(j->comm, 0, 0, &part) || hoop_barrier(part) || hoop_comm_destroy(part);
    return NULL;
}

/* Two threads split beside two that wait, and others that pass messages. */
static int
splits(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    job waiting[2], passing[2], splitting[2];
    for (int i = 0; i < 2; i++) {
        waiting[i] = (job){.comm = comm, .peer = (rank + 1) % size, .tag = 50 + i};
        passing[i] = (job){.comm = comm, .tag = i, .rounds = 200};
        splitting[i] = (job){.comm = comm};
        start(&waiting[i], receive);
        start(&passing[i], pass_messages);
        start(&splitting[i], split_it);
    }
    CHECK(join(splitting, 2) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(send_one(comm, (rank + size - 1) % size, 50 + i, 50 + i) == HOOP_SUCCESS);
    CHECK(join(passing, 2) == 0 && join(waiting, 2) == 0);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- the end --- */

static void *
wait_for_ever(void *arg)
{
    job *j = arg;
    hoop_work *works[1] = {j->work};
    size_t index;
    int32_t one = 1, sum;
    switch (j->number) {
    case 0: j->result = hoop_work_wait(j->work, -1); break;
    case 1: j->result = hoop_wait_any(works, 1, -1, &index); break;
    case 2: j->result = hoop_wait_all(works, 1); break;
    case 3: j->result = hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, j->comm); break;
    default: j->result = hoop_work_wait_or_fail(j->work, 600000);
    }
    return NULL;
}

/* Rank 0 has five threads that wait for rank 1, each in another way; rank 1 aborts, or rank 0 itself. */
static int
aborted(int rank, int size, void *arg)
{
    enum { WAITERS = 5 };
    const int aborter = *(const int *)arg;
    hoop_comm *comm = party_join(1);
    hoop_error error = {.size = sizeof(error)};
    job jobs[WAITERS];
    int32_t in[WAITERS];
    for (int i = 0; i < WAITERS && rank == 0; i++) {
        jobs[i] = (job){.comm = comm, .number = i};
        if (i != 3)
            CHECK(hoop_irecv(&in[i], 1, HOOP_INT32, 1, i, comm, &jobs[i].work) == HOOP_SUCCESS);
        start(&jobs[i], wait_for_ever);
    }
    party_nap(0.3);
    CHECK(rank != aborter || hoop_comm_abort(comm, "enough of it") == HOOP_SUCCESS);
    if (rank == 0)
        join(jobs, WAITERS);
    for (int i = 0; i < WAITERS && rank == 0; i++)
        CHECK(jobs[i].result == HOOP_ERR_ABORTED);
    CHECK(rank == aborter || receive_one(comm, aborter, 99) == -1000 - HOOP_ERR_ABORTED);
    hoop_comm_error(comm, &error);
    CHECK(strstr(error.text, "enough of it"));
    return hoop_comm_destroy(comm) != HOOP_ERR_ABORTED;
}

/* What must not be called while threads wait has no effect then; what may, has. */
static int
refused(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    job jobs[2] = {{.comm = comm, .peer = 1, .tag = 1}, {.comm = comm, .peer = 1, .tag = 2}};
    if (rank == 1) {
        CHECK(receive_one(comm, 0, 3) == 3);
        CHECK(send_one(comm, 0, 1, 1) == HOOP_SUCCESS && send_one(comm, 0, 2, 2) == HOOP_SUCCESS);
        return hoop_comm_destroy(comm) != HOOP_SUCCESS;
    }
    for (int i = 0; i < 2; i++)
        start(&jobs[i], receive);
    do /* until one waits, or the test's time is over */
        CHECK(hoop_comm_fd(comm) >= 0);
    while (hoop_comm_fd_close(comm) == HOOP_SUCCESS);
    CHECK(hoop_comm_fd_close(comm) == HOOP_ERR_BUSY);
    CHECK(hoop_comm_progress(comm) == HOOP_SUCCESS);
    CHECK(hoop_comm_destroy(comm) == HOOP_ERR_BUSY);
    CHECK(send_one(comm, 1, 3, 3) == HOOP_SUCCESS);
    CHECK(join(jobs, 2) == 0);
    CHECK(hoop_comm_fd_close(comm) == HOOP_SUCCESS);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- at random --- */

/* The same numbers on all ranks for one thread, for they say what it does with the others. */
static unsigned
draw(job *j, unsigned below)
{
    j->random = j->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(j->random >> 33) % below;
}

/* How often the thread asks differs between ranks, so it draws from a copy. */
static int
await(const job *j, hoop_work *work)
{
    job copy = *j;
    hoop_result result = HOOP_IN_PROGRESS;
    int done = 0;
    switch (draw(&copy, 4)) {
    case 0:
        while (result == HOOP_IN_PROGRESS)
            result = hoop_work_wait(work, (int)draw(&copy, 3));
        return result != HOOP_SUCCESS;
    case 1:
        while (!done && hoop_work_test(work, &done) == HOOP_SUCCESS)
            continue;
        return hoop_work_wait(work, -1) != HOOP_SUCCESS;
    case 2: return hoop_work_wait_or_fail(work, 60000) != HOOP_SUCCESS;
    default: return hoop_wait_all(&work, 1) != HOOP_SUCCESS;
    }
}

/* All ranks: some elements to the next one, in a group or not, and what the one before sends; then a wait of any kind. */
static int
exchange(job *j, int round)
{
    int rank = hoop_comm_rank(j->comm), n = hoop_comm_size(j->comm), before = (rank + n - 1) % n;
    size_t count = 1 + draw(j, draw(j, 4) ? 20 : MOST);
    int32_t out[MOST], in[MOST];
    hoop_work *work;
    for (size_t i = 0; i < count; i++)
        out[i] = rank + round + (int32_t)i;
    if (draw(j, 2))
        return pass_on(j, count, round);
    CHECK(hoop_group_start(j->comm) == HOOP_SUCCESS);
    CHECK(hoop_send(out, count, HOOP_INT32, (rank + 1) % n, j->tag, j->comm) == HOOP_SUCCESS);
    CHECK(hoop_recv(in, count, HOOP_INT32, before, j->tag, j->comm) == HOOP_SUCCESS);
    if (draw(j, 2)) {
        CHECK(hoop_group_end(j->comm) == HOOP_SUCCESS);
    } else {
        CHECK(hoop_igroup_end(j->comm, &work) == HOOP_SUCCESS);
        CHECK(await(j, work) == 0);
    }
    CHECK(in[0] == before + round && in[count - 1] == before + round + (int32_t)count - 1);
    return 0;
}

static int
collective(job *j, int32_t round)
{
    int n = hoop_comm_size(j->comm);
    size_t count = 1 + draw(j, draw(j, 4) ? 50 : MOST);
    int32_t in[MOST], out[MOST];
    hoop_work *work;
    for (size_t i = 0; i < count; i++)
        in[i] = round + (int32_t)i;
    if (draw(j, 3) == 0)
        return hoop_barrier(j->comm) != HOOP_SUCCESS;
    if (draw(j, 2)) {
        CHECK(hoop_allreduce(in, out, count, HOOP_INT32, HOOP_SUM, j->comm) == HOOP_SUCCESS);
    } else {
        CHECK(hoop_iallreduce(in, out, count, HOOP_INT32, HOOP_SUM, j->comm, &work) == HOOP_SUCCESS);
        CHECK(await(j, work) == 0);
    }
    CHECK(out[0] == n * round && out[count - 1] == n * (round + (int32_t)count - 1));
    return 0;
}

static void *
do_anything(void *arg)
{
    job *j = arg;
    for (int round = 0; round < j->rounds && !j->failed; round++)
        j->failed = j->number == 0 ? collective(j, round) : exchange(j, round);
    return NULL;
}

static int
at_random(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.comm = comm, .number = i, .tag = i, .rounds = 150, .random = *(uint64_t *)arg + (uint64_t)i};
        start(&jobs[i], do_anything);
    }
    CHECK(join(jobs, THREADS) == 0);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static void
tell(party *p, int size, party_fn *fn, void *arg, const char *what)
{
    int failed = party_run(p, size, fn, arg, 60);
    is_int(0, failed, "%d ranks: %s", size, what);
    for (int i = 0; i < size && failed; i++)
        diag("rank %d: %s", i, p->guest[i].note);
}

int
main(void)
{
    party p;
    uint64_t seed = tap_seed();
    tap_limit(250);
    plan_lazy();
    party_open(&p);
    tell(&p, 2, messages, NULL, "eight threads send and receive");
    tell(&p, 4, messages, NULL, "eight threads send and receive");
    tell(&p, 3, slow_functions, NULL, "collectives beside waits for works whose functions are slow");
    tell(&p, 2, signals, NULL, "an eventfd tells a second thread of 3000 works beside blocking calls");
    tell(&p, 2, driver_is_last, NULL, "who sleeps is woken when its own work has ended");
    tell(&p, 2, driver_is_first, NULL, "who sleeps drives when the driver has gone");
    tell(&p, 2, limits, NULL, "limits of waits pass while another thread drives");
    tell(&p, 2, several, NULL, "threads wait for one of the works of two communicators");
    tell(&p, 3, splits, NULL, "two threads split beside others that wait");
    tell(&p, 2, refused, NULL, "what is refused while threads wait");
    tell(&p, 2, aborted, &(int){0}, "an abort ends five waits");
    tell(&p, 2, aborted, &(int){1}, "an abort of the other rank ends five waits");
    for (int size = 2; size <= 4; size++)
        tell(&p, size, at_random, &seed, "eight threads each, at random");
    party_close(&p);
    return tap_failures() != 0;
}
