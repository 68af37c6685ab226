/* SPDX-License-Identifier: MIT */
/*
 * recorder: what a process leaves behind that is killed at a random instant can be read, and its newest record can be
 * believed; a communicator that ends well leaves nothing. A recorder that cannot be made costs the recorder, no more.
 */
#include "flight/collection.h"
#include "flight/sweep.h"
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT = 60 };

static char folder[512]; /* of the recorders */
static party p;

/* --- looking --- */

static hp_flight_collection
look(void)
{
    hp_flight_collection all = {0};
    hoop_error error;
    if (access(folder, F_OK) == 0 && hp_flight_add_folder(&all, folder, NULL, &error) != HOOP_SUCCESS)
        diag("%s", error.text);
    return all;
}

static size_t
count_recorders(void)
{
    hp_flight_collection all = look();
    size_t n = all.count;
    hp_flight_collection_free(&all);
    return n;
}

static void
clean(void)
{
    char command[600];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command) != 0)
        bail("cannot remove %s", folder);
}

static const hp_flight_record *
newest(const hp_flight *flight)
{
    return flight->count ? &flight->record[flight->count - 1] : NULL;
}

/* --- a process that is killed --- */

static void
call_for_ever(int ready)
{
    float values[4] = {0};
    char job[32];
    hoop_comm *comm;
    snprintf(job, sizeof(job), "killed-%d", (int)getpid());
    setenv("HOOP_JOB", job,
           1); /* what is left of a job stays while another of that name goes on, wherever it keeps it */
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || write(ready, "", 1) != 1)
        _exit(1);
    for (uint64_t i = 0;; i++)
        if (hoop_allreduce(values, values, 1 + i % 4, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS)
            _exit(1);
}

/* The records follow each other without a gap, and each has what its number says. */
static int
is_believable(const hp_flight *flight)
{
    int good = flight->torn <= 1 && flight->head.called <= (newest(flight) ? newest(flight)->number : 0) + 1;
    for (int i = 0; i < flight->count; i++) {
        const hp_flight_record *r = &flight->record[i];
        int open = i == flight->count - 1;
        good &= r->sequence == r->number && r->call.kind == HP_ALLREDUCE && r->call.count == 1 + (r->number - 1) % 4;
        good &= r->entered > flight->head.monotonic && (r->left ? r->left >= r->entered && r->result == 0 : open);
        good &= i == 0 || (r->entered >= r[-1].left && (flight->torn || r->number == r[-1].number + 1));
    }
    return good;
}

static int
kill_one(int round)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        bail("no pipe");
    pid_t child = fork();
    if (child == 0)
        call_for_ever(ready[1]);
    close(ready[1]);
    if (round % 2 &&
        read(ready[0], &byte, 1) != 1) /* the other rounds kill it wherever it is, also before its first call */
        diag("round %d: no communicator", round);
    close(ready[0]);
    party_nap((double)(tap_random() % 4000) * 1e-6);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    hp_flight_collection all = look();
    int good = all.count <= 1;
    for (size_t i = 0; i < all.count; i++)
        good &= case_ok(all.entry[i].flight->head.pid == (uint32_t)child && all.entry[i].state == HP_FLIGHT_ENDED &&
                            is_believable(all.entry[i].flight),
                        "round %d: %d records, %d torn, %llu called", round, all.entry[i].flight->count,
                        all.entry[i].flight->torn, (unsigned long long)all.entry[i].flight->head.called);
    int seen = all.count == 1 && all.entry[0].flight->count > 0;
    hp_flight_collection_free(&all);
    hp_flight_sweep();
    good &= case_ok(rmdir(folder) == 0 || errno == ENOENT, "round %d: what is left is removed", round);
    return good ? 1 + seen : 0;
}

static void
test_kills(void)
{
    int rounds = party_rounds(1000), good = 0, seen = 0;
    for (int i = 0; i < rounds; i++) {
        int result = kill_one(i);
        good += result > 0;
        seen += result > 1;
    }
    is_int(rounds, good, "of %d processes that were killed each leaves what can be believed", rounds);
    ok(seen > rounds / 4, "%d of them had called", seen);
    clean();
}

/* --- ranks --- */

/* Rank 1 ends in silence after 5 operations; the others wait in the sixth. */
static int
die_after_five(int rank, int size, void *arg)
{
    float value = 1;
    hoop_comm *comm = party_join(5);
    if (rank == 1)
        raise(SIGKILL);
    hoop_result result = hoop_allreduce(&value, &value, 1, HOOP_FLOAT32, HOOP_SUM, comm);
    hoop_comm_destroy(comm);
    return result == HOOP_ERR_PEER_LOST ? 0 : 1;
}

static void
test_lost_rank(void)
{
    party_run(&p, 3, die_after_five, NULL, LIMIT);
    hp_flight_collection all = look();
    is_int(3, (intmax_t)all.count, "a rank that was killed and two that failed leave a recorder each");
    for (size_t i = 0; i < all.count; i++) {
        const hp_flight *f = all.entry[i].flight;
        const hp_flight_record *last = newest(f);
        if (f->head.rank == 1) {
            ok(last && last->number == 5 && last->left && !f->head.error_code,
               "the killed one has finished 5 operations");
            continue;
        }
        ok(last && last->number == 6 && last->left && last->result == HOOP_ERR_PEER_LOST && f->head.size == 3,
           "rank %d has failed in operation 6", f->head.rank);
        ok(f->head.error_code == HOOP_ERR_PEER_LOST && strstr(f->head.error, "rank 1"), "and says why: %s",
           f->head.error);
    }
    hp_flight_collection_free(&all);
    hp_flight_sweep();
    is_int(0, (intmax_t)count_recorders(), "they are removed once their processes have ended");
}

/* How many of the recorders show that rank 0 has left operation 2 and the others wait in operation 3. */
static int
all_wait(int size)
{
    int good = 0;
    hp_flight_collection all = look();
    for (size_t i = 0; i < all.count; i++) {
        const hp_flight_record *last = newest(all.entry[i].flight);
        if (all.entry[i].flight->head.rank == 0)
            good += last->number == 2 && last->left;
        else
            good += last->number == 3 && !last->left && last->wait == HP_WAIT_PEER && last->awaited >= 0 &&
                    last->awaited < size && last->waits_since >= last->entered;
    }
    hp_flight_collection_free(&all);
    return good;
}

/* Rank 0 looks at the recorders of all until they wait for it. */
static int
wait_for_zero(int rank, int size, void *arg)
{
    float value = 1;
    hoop_comm *comm = party_join(2);
    for (tap_wait w = {0}; rank == 0 && (all_wait(size) != size) && tap_waits(&w);)
        party_nap(0.05);
    if (rank == 0)
        party_note("%d recorders as they should be", all_wait(size));
    hoop_allreduce(&value, &value, 1, HOOP_FLOAT32, HOOP_SUM, comm);
    return hoop_comm_destroy(comm) == HOOP_SUCCESS ? 0 : 1;
}

static void
test_wait(void)
{
    party_run(&p, 3, wait_for_zero, NULL, LIMIT);
    is_string("3 recorders as they should be", p.guest[0].note, "while rank 0 is late, the others wait in operation 3");
    is_int(0, (intmax_t)count_recorders(), "ranks that end well leave no recorder");
}

/* Rank 0 awaits that rank 1 is in an operation, and has some of its data if it shall; and then a moment more. */
static void
await_entry(uint64_t number, int has_data)
{
    for (tap_wait w = {0}; tap_waits(&w);) {
        hp_flight_collection all = look();
        int there = 0;
        for (size_t i = 0; i < all.count; i++) {
            const hp_flight_record *last = newest(all.entry[i].flight);
            there +=
                all.entry[i].flight->head.rank == 1 && last && last->number == number && (!has_data || last->first);
        }
        hp_flight_collection_free(&all);
        if (there)
            break;
        party_nap(0.02);
    }
    party_nap(0.3);
}

/* Rank 0 broadcasts late. Then rank 1 waits for two messages at once, and a moment is between them. */
static hoop_result
send_slowly(int rank, hoop_comm *comm)
{
    float values[2] = {0};
    if (rank == 0)
        await_entry(2, 0);
    hoop_result result = hoop_broadcast(values, values, 2, HOOP_FLOAT32, 0, comm);
    if (rank == 0) {
        result = result ? result : hoop_send(&values[0], 1, HOOP_FLOAT32, 1, 7, comm);
        await_entry(3, 1);
        return result ? result : hoop_send(&values[1], 1, HOOP_FLOAT32, 1, 8, comm);
    }
    hoop_group_start(comm);
    hoop_recv(&values[0], 1, HOOP_FLOAT32, 0, 7, comm);
    hoop_recv(&values[1], 1, HOOP_FLOAT32, 0, 8, comm);
    return hoop_group_end(comm) || result ? HOOP_ERR_SYSTEM : HOOP_SUCCESS;
}

static int
tell_data_times(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    hoop_result result = send_slowly(rank, comm);
    hp_flight_collection all = look();
    for (size_t i = 0; i < all.count; i++) {
        const hp_flight *f = all.entry[i].flight;
        const hp_flight_record *m = newest(f), *r = m - 1;
        if (f->head.rank == 1 && f->count == 3)
            party_note(
                "broadcast %s, messages %s",
                r->first > r->entered + HP_SEC / 10 && r->last >= r->first && r->left >= r->last ? "late" : "wrong",
                m->first >= m->entered && m->last > m->first + HP_SEC / 10 && m->left >= m->last ? "apart" : "wrong");
    }
    hp_flight_collection_free(&all);
    hoop_barrier(comm);
    return hoop_comm_destroy(comm) == HOOP_SUCCESS && result == HOOP_SUCCESS ? 0 : 1;
}

static void
test_data_times(void)
{
    is_int(0, party_run(&p, 2, tell_data_times, NULL, LIMIT), "rank 0 sends slowly");
    is_string("broadcast late, messages apart", p.guest[1].note, "rank 1 has recorded when its data came");
}

/* Whether the recorder of rank 0 shows that it waits in its first split. */
static int
waits_in_split(void)
{
    int waits = 0;
    hp_flight_collection all = look();
    for (size_t i = 0; i < all.count; i++) {
        const hp_flight_head *head = &all.entry[i].flight->head;
        waits += head->rank == 0 && head->split == 1 && head->split_at;
    }
    hp_flight_collection_free(&all);
    return waits == 1;
}

/* What the recorders show: those that have done a barrier, and those that wait for the message. */
typedef struct sight {
    int all, parts, waits;
} sight;

static sight
see_message(void)
{
    hp_flight_collection all = look();
    sight s = {.all = (int)all.count};
    for (int i = 0; i < s.all; i++) {
        const hp_flight_record *last = newest(all.entry[i].flight);
        s.parts += last && last->call.kind == HP_BARRIER && last->left && !all.entry[i].flight->head.split_at;
        s.waits += last && last->call.kind == HP_RECV && !last->left && last->peer == 1 && last->call.root == 7 &&
                   last->messages == 1 && last->wait == HP_WAIT_PEER && last->awaited == 1;
    }
    hp_flight_collection_free(&all);
    return s;
}

/* Rank 0 waits in a split; then both have a second communicator. Then a message is awaited. */
static int
split_late(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1), *part = NULL;
    int8_t byte = 0;
    int in_split = 0;
    for (tap_wait w = {0}; rank == 1 && !(in_split = waits_in_split()) && tap_waits(&w);)
        party_nap(0.05);
    if (hoop_comm_split(comm, 0, rank, &part) != HOOP_SUCCESS)
        return 1;
    hoop_barrier(part);
    if (rank == 1) {
        sight s = see_message();
        for (tap_wait w = {0}; (!s.waits || s.parts < 2) && tap_waits(&w);
             s = see_message()) /* files are read in turn */
            party_nap(0.05);
        party_note("split 1 %s; %d recorders, %d with a barrier, %d that waits for a message",
                   in_split ? "waits" : "is not seen", s.all, s.parts, s.waits);
        hoop_send(&byte, 1, HOOP_INT8, 0, 7, comm);
    } else {
        hoop_recv(&byte, 1, HOOP_INT8, 1, 7, comm);
    }
    return hoop_comm_destroy(part) == HOOP_SUCCESS && hoop_comm_destroy(comm) == HOOP_SUCCESS ? 0 : 1;
}

static void
test_split(void)
{
    is_int(0, party_run(&p, 2, split_late, NULL, LIMIT), "two ranks split, and send a message");
    is_string("split 1 waits; 4 recorders, 2 with a barrier, 1 that waits for a message", p.guest[1].note,
              "the recorders show both");
    is_int(0, (intmax_t)count_recorders(), "and are gone");
}

/* --- no recorder --- */

/* A communicator of one rank; how many recorders it has, in the folder of this test. */
static intmax_t
recorders_of_one(const char *setting)
{
    hoop_config *config = hoop_config_new();
    hoop_comm *comm;
    float value = 1;
    hoop_config_set(config, "recorder", setting);
    if (hoop_comm_create(&comm, config) != HOOP_SUCCESS)
        return -1;
    hoop_config_free(config);
    intmax_t n = (intmax_t)count_recorders();
    if (hoop_allreduce(&value, &value, 1, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS)
        n = -2;
    hoop_comm_destroy(comm);
    return n;
}

static int warnings;
static char warning[512];

static void
note_warning(void *arg, int level, const char *line)
{
    if (level > 1)
        return;
    warnings++;
    snprintf(warning, sizeof(warning), "%s", line);
}

static void
test_none(void)
{
    struct rlimit old, small;
    char path[600];
    hoop_log_to(note_warning, NULL);
    is_int(1, recorders_of_one("1"), "a ring of one has a recorder");
    is_int(0, recorders_of_one("0"), "recorder=0: it has none");
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    is_int(0, recorders_of_one("1"), "a process that may write no large file has none, and lives");
    is_int(0, recorders_of_one("1"), "nor has its next communicator");
    setrlimit(RLIMIT_FSIZE, &old);
    ok(warnings == 1 && strstr(warning, "HOOP_RECORDER=0"), "one line says so: %s", warning);
    clean();
    snprintf(path, sizeof(path), "%s.elsewhere", folder);
    mkdir(path, 0700);
    if (symlink(path, folder) != 0)
        bail("cannot make a link");
    is_int(0, recorders_of_one("1"), "a link in the place of the folder is not followed");
    unlink(folder);
    mkdir(folder, 0700);
    chmod(folder, 0755);
    is_int(0, recorders_of_one("1"), "a folder that others may read is not used");
    rmdir(folder);
    setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
    is_int(0, recorders_of_one("1"), "without that folder another one is taken, or none");
    is_int(1, warnings, "none of these is worth a warning where there is /dev/shm");
    setenv("XDG_RUNTIME_DIR", getenv("HOOP_TEST_TMP"), 1);
    hoop_log_to(NULL, NULL);
}

/* --- the cost --- */

static unsigned long clock_reads;

/* The one that the library calls. */
int
clock_gettime(clockid_t clock, struct timespec *now)
{
    __atomic_add_fetch(&clock_reads, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_clock_gettime, clock, now);
}

enum { COUNTED = 1000 };

static unsigned long
reads_of(hoop_comm *comm)
{
    float value = 1;
    unsigned long before = clock_reads;
    for (int i = 0; i < COUNTED; i++)
        if (hoop_allreduce(&value, &value, 1, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS)
            bail("an allreduce of one rank fails");
    return clock_reads - before;
}

static void
test_clock_reads(void)
{
    unsigned long reads[2];
    for (int recorder = 0; recorder < 2; recorder++) {
        hoop_config *config = hoop_config_new();
        hoop_comm *comm;
        hoop_config_set(config, "recorder", recorder ? "1" : "0");
        if (hoop_comm_create(&comm, config) != HOOP_SUCCESS)
            bail("no communicator");
        hoop_config_free(config);
        reads_of(comm);
        reads[recorder] = reads_of(comm);
        hoop_comm_destroy(comm);
    }
    ok(reads[1] > reads[0] && reads[1] <= reads[0] + 2 * COUNTED,
       "%d operations read the clock %lu times without a recorder, and with one %lu times: at most two more for each",
       COUNTED, reads[0], reads[1]);
}

/* --- a fork --- */

static int
has_mapping(void)
{
    char line[1024];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        found |= strstr(line, ".flight") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static void
test_fork(void)
{
    hoop_comm *comm;
    float value = 1;
    int status = 0;
    hoop_comm_create(&comm, NULL);
    ok(has_mapping(), "a process that records has mapped its recorder");
    pid_t child = fork();
    if (child == 0) {
        int wrong = has_mapping();
        wrong += hoop_allreduce(&value, &value, 1, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_ERR_FORKED;
        hoop_comm_destroy(comm);
        _exit(wrong);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "its forked child has not, and calls nothing");
    hp_flight_collection all = look();
    ok(all.count == 1 && all.entry[0].flight->count == 0 && all.entry[0].state == HP_FLIGHT_RUNS,
       "the recorder is the parent's alone");
    hp_flight_collection_free(&all);
    hp_flight_sweep();
    is_int(1, (intmax_t)count_recorders(), "and is not removed while the parent lives");
    hoop_comm_destroy(comm);
    is_int(0, (intmax_t)count_recorders(), "but with its communicator");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    if (!getenv("HOOP_TEST_TMP"))
        skip_all("run it by make check, or by t/tools/run-test");
    snprintf(folder, sizeof(folder), "%s/hoop", getenv("XDG_RUNTIME_DIR"));
    party_open(&p);
    test_none();
    test_clock_reads();
    test_fork();
    test_kills();
    test_lost_rank();
    test_wait();
    test_data_times();
    test_split();
    party_close(&p);
    return 0;
}
