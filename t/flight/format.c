/* SPDX-License-Identifier: MIT */
/*
 * format: what was put is got, whole or not at all; what no writer can have written is refused. The bytes of one record
 * are written down here, so that a change of the format is seen.
 */
#include "flight/format.h"

#include "base/wire.h"
#include "t/tap/tap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORD_AT = HP_FLIGHT_HEAD_BYTES, MARK_AT = RECORD_AT };

static hp_flight_word file[HP_FLIGHT_BYTES / 8];
static uint8_t *const bytes = (uint8_t *)file;
static hp_flight flight;
static hoop_error error;

static const hp_flight_head head = {.pid = 4711,
                                    .rank = 3,
                                    .size = 8,
                                    .epoch = 2,
                                    .comm = 0x1122334455667788,
                                    .started = 99,
                                    .pid_space = 4026531836,
                                    .monotonic = 5000,
                                    .realtime = 1700000000000000000,
                                    .host = "node3",
                                    .job = "train",
                                    .name = "gradients"};

static const char other_name[] = "parameters that are sharded";

static hp_flight_record
record_of(uint64_t number)
{
    return (hp_flight_record){
        .number = number,
        .sequence = 2 * number,
        .call = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = 100},
        .entered = 10 * number,
        .first = 10 * number + 1,
        .last = 10 * number + 2,
        .left = 10 * number + 3,
        .calls = 2,
        .peer = -1,
        .result = 0,
        .wait = HP_WAIT_PEER,
        .awaited = 2,
        .waits_since = 10 * number + 1,
        .name = (uint32_t)(number % 3)};
}

static void
fill(uint64_t from, uint64_t to)
{
    memset(file, 0, sizeof(file));
    hp_flight_begin(file, &head);
    for (uint64_t number = from; number <= to; number++) {
        hp_flight_record record = record_of(number);
        hp_flight_put(file, &record);
    }
}

static hoop_result
get(const uint8_t *later)
{
    memset(&flight, 0xa5, sizeof(flight));
    return hp_flight_get(&flight, bytes, later, sizeof(file), &error);
}

static int
is_record(const hp_flight_record *seen, uint64_t number)
{
    hp_flight_record wanted = record_of(number);
    return seen->number == number && seen->sequence == wanted.sequence && hp_call_equal(&seen->call, &wanted.call) &&
           seen->entered == wanted.entered && seen->first == wanted.first && seen->last == wanted.last &&
           seen->left == wanted.left && seen->calls == 2 && seen->messages == 0 && seen->peer == -1 &&
           seen->result == 0 && seen->wait == wanted.wait && seen->awaited == 2 &&
           seen->waits_since == wanted.waits_since && seen->name == wanted.name;
}

static void
test_head(void)
{
    fill(1, 0);
    is_int(HOOP_SUCCESS, get(NULL), "a recorder without a record can be read");
    const hp_flight_head *h = &flight.head;
    ok(h->pid == 4711 && h->rank == 3 && h->size == 8 && h->epoch == 2 && h->comm == head.comm && h->started == 99 &&
           h->pid_space == head.pid_space && h->monotonic == 5000 && h->realtime == head.realtime,
       "its numbers are those that were put");
    is_string("node3 train gradients",
              (snprintf(error.text, sizeof(error.text), "%s %s %s", h->host, h->job, h->name), error.text),
              "and its texts");
    ok(h->called == 0 && h->split_at == 0 && h->error_code == 0 && *h->error == 0, "nothing has changed yet");
    hp_flight_put_called(file, 17);
    hp_flight_put_split(file, 4, 12345);
    hp_flight_put_error(file, HOOP_ERR_TIMEOUT, "rank 2 is \x1b[31mlate");
    get(NULL);
    ok(h->called == 17 && h->split == 4 && h->split_at == 12345 && h->error_code == HOOP_ERR_TIMEOUT,
       "what changes is read");
    is_string("rank 2 is ?[31mlate", h->error, "a text moves no cursor");
}

static void
test_ring(void)
{
    static const uint64_t counts[] = {1, 2, 1023, 1024, 1025, 5000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint64_t n = counts[i], kept = n < HP_FLIGHT_RECORDS ? n : HP_FLIGHT_RECORDS;
        int good = 1;
        fill(1, n);
        get(NULL);
        for (uint64_t k = 0; k < kept && (uint64_t)flight.count == kept; k++)
            good &= is_record(&flight.record[k], n - kept + k + 1);
        ok(good && (uint64_t)flight.count == kept && flight.torn == 0, "of %d records the last %d are there, in order",
           (int)n, (int)kept);
    }
    hp_flight_record old = record_of(5000 - HP_FLIGHT_RECORDS);
    hp_flight_put(file, &old);
    get(NULL);
    ok(is_record(&flight.record[1023], 5000), "an operation that ends late does not replace a newer record");
}

static int
is_named(const char *first, const char *second, const char *third)
{
    const hp_call *r[] = {&flight.record[0].call, &flight.record[1].call, &flight.record[2].call};
    const char *wanted[] = {first, second, third};
    int right = flight.count == 3;
    for (int i = 0; i < 3 && right; i++)
        right = wanted[i] ? r[i]->name && strcmp(r[i]->name, wanted[i]) == 0 : !r[i]->name;
    return right;
}

/* Records 1, 2 and 3 have the names 1, 2 and none. */
static void
test_names(void)
{
    fill(1, 3);
    get(NULL);
    ok(is_named(NULL, NULL, NULL), "a number without a name is none");
    hp_flight_put_call_name(file, 1, "gradients");
    hp_flight_put_call_name(file, 2, "thirty-one bytes, no more of it!");
    hp_flight_put_call_name(file, HP_CALL_NAMES, "last\x1b");
    get(NULL);
    ok(is_named("gradients", "thirty-one bytes, no more of it", NULL), "records have their names");
    is_blob("gradients\0", bytes + 1024, 10, "which are where the manual says");
    is_blob("\2\0\0\0", bytes + RECORD_AT + HP_FLIGHT_RECORD_BYTES + 104, 4, "and their numbers, too");
    hp_put32(bytes + RECORD_AT + 104, HP_CALL_NAMES);
    hp_put32(bytes + RECORD_AT + HP_FLIGHT_RECORD_BYTES + 104, HP_CALL_NAMES + 1);
    get(NULL);
    ok(is_named("last?", NULL, NULL), "the last name is printable, and there is none after it");
}

static void
test_bytes(void)
{
    static const uint8_t wanted[] = {2,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     1,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     2,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     HP_ALLREDUCE,
                                     HOOP_FLOAT32,
                                     HOOP_SUM,
                                     0,
                                     255,
                                     255,
                                     255,
                                     255,
                                     100,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     0,
                                     10};
    fill(1, 1);
    is_blob("hoop-flt\3\0\0\0\0\14\0\0\200\0\0\0\0\4\0\0", bytes, 24,
            "the first bytes of a recorder are those of the manual");
    is_blob(wanted, bytes + RECORD_AT, sizeof(wanted), "and those of a record");
}

static void
test_torn(void)
{
    static uint8_t later[sizeof(file)];
    fill(1, 3);
    hp_put64(bytes + MARK_AT, 3);
    get(NULL);
    ok(flight.torn == 1 && flight.count == 2 && is_record(&flight.record[0], 2), "a record with an odd mark is torn");
    fill(1, 3);
    memcpy(later, bytes, sizeof(later));
    get(later);
    ok(flight.torn == 0 && flight.count == 3, "a recorder that reads the same twice is whole");
    hp_flight_record again = record_of(2);
    hp_flight_put(file, &again);
    is_uint(4, hp_get64(bytes + RECORD_AT + HP_FLIGHT_RECORD_BYTES), "each time that a record is put raises its mark");
    get(later);
    ok(flight.torn == 1 && flight.count == 2, "a record that changed between two readings is torn");
    fill(1, 3);
    hp_put64(bytes + RECORD_AT + 8, 7);
    get(NULL);
    ok(flight.torn == 1 && flight.count == 2, "so is one whose number belongs elsewhere");
    fill(1, 3);
    memcpy(later, bytes, sizeof(later));
    hp_flight_put_name(file, other_name);
    get(later);
    is_string("", flight.head.name, "a name that changed between two readings is none");
    get(NULL);
    is_string(other_name, flight.head.name, "and then it is the new one");
}

static void
refused(size_t at, uint64_t value, hoop_result code, const char *what)
{
    fill(1, 1);
    hp_put64(bytes + at, value);
    is_int(code, get(NULL), "refused: %s (%s)", what, error.text);
}

static void
test_refused(void)
{
    refused(0, 0, HOOP_ERR_CORRUPT, "a head that is not whole");
    refused(8, (uint64_t)HP_FLIGHT_HEAD_BYTES << 32 | 1, HOOP_ERR_UNSUPPORTED, "another version");
    refused(8, (uint64_t)512 << 32 | 3, HOOP_ERR_CORRUPT, "another head");
    refused(16, (uint64_t)HP_FLIGHT_RECORDS << 32 | 64, HOOP_ERR_CORRUPT, "other records");
    refused(24, (uint64_t)8 << 32 | 1, HOOP_ERR_CORRUPT, "rank 8 of 8");
    refused(24, (uint64_t)UINT32_MAX << 32 | 1, HOOP_ERR_CORRUPT, "rank -1");
    fill(1, 1);
    is_int(HOOP_ERR_CORRUPT, hp_flight_get(&flight, bytes, NULL, HP_FLIGHT_HEAD_BYTES - 1, &error),
           "refused: half a head");
    is_int(HOOP_ERR_CORRUPT, hp_flight_get(&flight, bytes, NULL, HP_FLIGHT_BYTES - 8, &error),
           "refused: half a record");
    is_int(HOOP_SUCCESS, hp_flight_get(&flight, bytes, NULL, HP_FLIGHT_HEAD_BYTES + HP_FLIGHT_RECORD_BYTES, &error),
           "a recorder without its unused records is fine");
    is_int(1, flight.count, "and has the others");
}

/* --- killed at any instant --- */

/* What a process writes: a head, a record, one in its place, names, a split, an error. */
static void
write_all(hp_flight_word *shared)
{
    hp_flight_record record = record_of(1), next = record_of(1 + HP_FLIGHT_RECORDS);
    hp_flight_begin(shared, &head);
    hp_flight_put(shared, &record);
    record.left += 5;
    hp_flight_put(shared, &record);
    hp_flight_put_call_name(shared, 1, "gradients");
    hp_flight_put(shared, &next);
    hp_flight_put_name(shared, other_name);
    hp_flight_put_split(shared, 4, 12345);
    hp_flight_put_split(shared, 4, 0);
    hp_flight_put_name(shared, "short");
    hp_flight_put_error(shared, HOOP_ERR_TIMEOUT, "all of this sentence");
}

/* 1: what would be read now was so at some time. */
static int
is_sound(const hp_flight_word *shared)
{
    enum { ONE = HP_FLIGHT_HEAD_BYTES + HP_FLIGHT_RECORD_BYTES };
    if (hp_flight_get(&flight, (const uint8_t *)shared, NULL, ONE, &error) != HOOP_SUCCESS)
        return 1;
    const hp_flight_head *h = &flight.head;
    int good = h->pid == head.pid && h->realtime == head.realtime && strcmp(h->job, head.job) == 0;
    good &= !h->error_code || strcmp(h->error, "all of this sentence") == 0;
    good &= strcmp(h->name, head.name) == 0 || strcmp(h->name, other_name) == 0 || strcmp(h->name, "short") == 0 ||
            !h->name[0];
    good &= !h->split_at || (h->split_at == 12345 && h->split == 4);
    if (flight.count == 0)
        return good;
    hp_flight_record *r = &flight.record[0];
    if (r->number == 1 && r->left == record_of(1).left + 5)
        r->left -= 5;
    return good && is_record(r, r->number) && (r->number == 1 || r->number == 1 + HP_FLIGHT_RECORDS);
}

/* Runs the child one instruction further. 0: it has stopped itself, or ended. */
static int
step(pid_t child)
{
    int status;
    return ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child &&
           WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

static void
test_instants(void)
{
    hp_flight_word *shared = mmap(NULL, HP_FLIGHT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status, steps = 0, good = 0;
    pid_t child = getenv("HOOP_TEST_WRAP") || shared == MAP_FAILED ? -1 : fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(1);
        raise(SIGSTOP);
        write_all(shared);
        raise(SIGSTOP);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
        skip(2, "no process can be traced here");
        return;
    }
    while (step(child)) {
        steps++;
        good += case_ok(is_sound(shared), "after %d instructions", steps);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    ok(steps > 300, "a process writes a recorder in %d instructions", steps);
    is_int(steps, good, "and what it has written can be believed after each of them");
    munmap((void *)shared, HP_FLIGHT_BYTES);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    test_head();
    test_ring();
    test_names();
    test_bytes();
    test_torn();
    test_refused();
    test_instants();
    return 0;
}
