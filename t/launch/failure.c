/* SPDX-License-Identifier: MIT */
/* Which rank's exit, and which sentence about the ring, is the cause; and what is written about it. */
#include "launch/rank_exit.h"

#include "base/err.h"
#include "net/loop.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
check_sentences(void)
{
    hp_rank_exit e = {.rank = 3, .pid = 811, .host = "node2", .program = "./train", .status = 9, .ms = 12449};
    char *sentence = hp_rank_exit_sentence(&e, 7, 0);
    is_string("rank 3 (node2, pid 811, ./train) killed by signal 9 (SIGKILL) after 12.4 s; stopping 7 others", sentence,
              "the verdict of the manual");
    free(sentence);
    e.status = 7 << 8;
    sentence = hp_rank_exit_sentence(&e, 1, 0);
    is_string("rank 3 (node2, pid 811, ./train) exited with status 7 after 12.4 s; stopping 1 other", sentence,
              "an exit status");
    free(sentence);
    sentence = hp_rank_exit_sentence(&e, 1, 1);
    is_string("rank 3 (node2, pid 811, ./train) exited with status 7 after 12.4 s; 1 other goes on", sentence,
              "the other goes on");
    free(sentence);
    snprintf(e.note, sizeof(e.note), "; it is started again (restart 1 of 3)");
    sentence = hp_rank_exit_sentence(&e, 1, 1);
    is_string(
        "rank 3 (node2, pid 811, ./train) exited with status 7 after 12.4 s; it is started again (restart 1 of 3); "
        "1 other goes on",
        sentence, "and it is started again");
    free(sentence);
    e.note[0] = '\0';
    e.status = 11 | 0x80;
    sentence = hp_rank_exit_sentence(&e, 0, 0);
    is_string("rank 3 (node2, pid 811, ./train) killed by signal 11 (SIGSEGV), core dumped, after 12.4 s", sentence,
              "the last one, with a core");
    free(sentence);
    is_int(7, hp_exit_status(7 << 8), "exit status 7");
    is_int(137, hp_exit_status(9), "128 + 9");
    ok(hp_rank_exit_precedes(9, 1 << 8) && !hp_rank_exit_precedes(1 << 8, 9) && !hp_rank_exit_precedes(9, 11),
       "a signal is the cause of an exit that comes with it");
}

/* --- why the ring failed --- */

static void
check_ring(void)
{
    hp_failure failure;
    hoop_error late, lost, changed, aborted, broken;
    hp_err_set(&late, HOOP_ERR_TIMEOUT, "rank 2 (b) has not entered operation 1");
    hp_err_set(&lost, HOOP_ERR_PEER_LOST, "rank 1 (a) vanished");
    hp_err_set(&changed, HOOP_ERR_MISMATCH, "rank 1 calls something else");
    hp_err_set(&aborted, HOOP_ERR_ABORTED, "rank 0 (a) aborted the job: step failed");
    hp_err_set(&broken, HOOP_ERR_SYSTEM, "rank 1 cannot go on");
    hp_failure_open(&failure, 3);
    hp_failure_ring_failed(&failure, NULL, &lost, 0);
    is_string(lost.text, failure.ring, "a rank that vanishes is the reason");
    hp_failure_ring_failed(&failure, NULL, &late, 0);
    is_string(late.text, failure.ring, "until there is a newer one");
    hp_failure_ring_failed(&failure, NULL, &lost, 0);
    is_string(late.text, failure.ring, "a rank that vanishes after that follows from it");
    hp_failure_ring_failed(&failure, NULL, &aborted, 0);
    is_string(late.text, failure.ring, "so does a rank that aborts after that");
    hp_failure_ring_failed(&failure, NULL, &changed, 0);
    is_string(late.text, failure.ring, "and another communicator's failure");
    hp_failure_close(&failure);
    hp_failure_open(&failure, 3);
    hp_failure_ring_failed(&failure, NULL, &aborted, 0);
    hp_failure_ring_failed(&failure, NULL, &broken, 0);
    is_string(broken.text, failure.ring, "of others the last one counts");
    hp_failure_ring_failed(&failure, NULL, &aborted, 0);
    is_string(broken.text, failure.ring, "unless a rank aborts because of it");
    hp_failure_close(&failure);
    hp_failure_open(&failure, 3);
    hp_failure_ring_failed(&failure, "split 1 colour 0", &late, 0);
    is_string("split 1 colour 0", failure.split, "a split's failure is told as that");
    hp_failure_ring_failed(&failure, NULL, &changed, 0);
    ok(failure.split && strcmp(failure.ring, late.text) == 0, "also if the job's ring fails after it");
    hp_failure_ring_failed(&failure, NULL, &late, 0);
    ok(!failure.split && strcmp(failure.ring, late.text) == 0, "unless that has the same sentence");
    hp_failure_close(&failure);
}

/* --- which exit is the first --- */

static hp_rank_exit
exited(int rank, int status)
{
    return (hp_rank_exit){
        .rank = rank, .pid = 800 + rank, .host = "node", .program = "./x", .status = status, .ms = 1500};
}

static int
end(hp_failure *failure, int rank, int status)
{
    const hp_rank_exit e = exited(rank, status);
    return hp_failure_exited(failure, &e, 0);
}

static void
start_all(hp_failure *failure, int size)
{
    hp_failure_open(failure, size);
    for (int i = 0; i < size; i++)
        hp_failure_started(failure, i, 800 + i);
    failure->running = size;
}

static void
check_first(void)
{
    hp_failure failure;
    start_all(&failure, 4);
    is_int(0, end(&failure, 3, 0), "a rank that ends well is no failure");
    ok(failure.first.rank == -1 && failure.running == 3, "three run on");
    is_int(1, end(&failure, 1, 1 << 8), "the first that fails is told apart");
    is_int(0, end(&failure, 2, 9), "the next one is not the first");
    is_int(2, failure.first.rank, "but a signal is the cause of an exit that comes with it");
    is_int(0, end(&failure, 0, 11), "a second signal");
    is_int(2, failure.first.rank, "is not");
    is_int(0, end(&failure, 2, 9), "an exit that is reported twice");
    is_int(0, failure.running, "counts once");
    hp_failure_close(&failure);
}

/* What the report writes to standard error, with the descriptor put back. */
static char *
report(hp_failure *failure, int hidden)
{
    static char text[8192];
    char path[512];
    snprintf(path, sizeof(path), "%s/stderr", tap_tmpdir());
    int old = dup(STDERR_FILENO), file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    hp_loop *loop = hp_loop_new();
    dup2(file, STDERR_FILENO);
    const hp_output_options options = {.size = failure->size};
    hp_output *output = hp_output_new(loop, &options, NULL);
    hp_failure_report(failure, output, hidden);
    hp_failure_report(failure, output, hidden);
    hp_output_all_ended(output);
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    hp_output_free(output);
    hp_loop_free(loop);
    dup2(old, STDERR_FILENO);
    close(old);
    close(file);
    return text;
}

/* The failure that would be reported now as the cause. */
static hp_rank_exit
cause_of(const hp_failure *failure)
{
    hp_failure copy = *failure;
    report(&copy, 0);
    return copy.first;
}

/* The rank that the ring lost may end behind one that failed because of it. */
static void
check_cause(void)
{
    hp_failure failure;
    hoop_error lost = {0}, late = {0};
    hp_err_set(&lost, HOOP_ERR_PEER_LOST, "rank 1 (node, pid 801) vanished during operation 7: it exited");
    lost.rank = 1;
    start_all(&failure, 3);
    end(&failure, 0, 1 << 8);
    hp_failure_ring_failed(&failure, NULL, &lost, 801);
    is_int(0, cause_of(&failure).rank, "while the lost rank's end is not known, the first one counts");
    end(&failure, 1, 3 << 8);
    end(&failure, 2, 11);
    is_int(1, cause_of(&failure).rank, "then its own does");
    is_int(3 << 8, cause_of(&failure).status, "with its status");
    hp_failure_close(&failure);
    start_all(&failure, 3);
    end(&failure, 0, 1 << 8);
    hp_failure_ring_failed(&failure, NULL, &lost, 801);
    end(&failure, 1, 0);
    is_int(0, cause_of(&failure).rank, "a rank that ended well is no failure");
    hp_failure_close(&failure);
    hp_err_set(&lost, HOOP_ERR_PEER_LOST, "rank 1 (node) vanished");
    lost.rank = 1;
    start_all(&failure, 3);
    end(&failure, 0, 1 << 8);
    end(&failure, 1, 1 << 8);
    end(&failure, 2, 3 << 8);
    hp_failure_ring_failed(&failure, "split 1 colour 0", &lost, 802);
    is_int(2, cause_of(&failure).rank, "the rank of a split is known by its process");
    failure.reported = 0;
    hp_failure_ring_failed(&failure, "split 1 colour 0", &lost, 0);
    is_int(2, cause_of(&failure).rank, "which a later one without does not change");
    hp_failure_close(&failure);
    start_all(&failure, 3);
    hp_failure_started(&failure, 0, 802); /* in another container than rank 2 */
    hp_failure_exited(&failure,
                      &(hp_rank_exit){.rank = 0, .pid = 802, .host = "node", .program = "x", .status = 1 << 8}, 0);
    end(&failure, 2, 9);
    hp_failure_ring_failed(&failure, "split 1 colour 0", &lost, 802);
    is_int(2, cause_of(&failure).rank,
           "a process number of two ranks tells nothing: the one that was killed is the cause");
    hp_failure_close(&failure);
    hp_err_set(&late, HOOP_ERR_TIMEOUT, "rank 1 (node, pid 801) has not entered operation 7");
    late.rank = 1;
    start_all(&failure, 3);
    end(&failure, 0, 1 << 8);
    end(&failure, 1, 1 << 8);
    hp_failure_ring_failed(&failure, NULL, &late, 801);
    is_int(0, cause_of(&failure).rank, "a late rank's own end follows from the verdict");
    hp_failure_close(&failure);
}

/* --- ranks that may fail --- */

static void
check_spare(void)
{
    hp_failure failure;
    hoop_error lost = {0};
    hp_err_set(&lost, HOOP_ERR_PEER_LOST, "rank 1 (node, pid 801) vanished during operation 7: it exited");
    lost.rank = 1;
    start_all(&failure, 6);
    failure.spare = 3;
    hp_failure_ring_failed(&failure, NULL, &lost, 801);
    is_int(HP_FAILURE_SPARED, end(&failure, 1, 9), "three of six may fail: one does");
    ok(failure.first.rank < 0 && failure.running == 5 && !failure.ring, "and is forgotten, with the ring that lost it");
    hp_failure_ring_failed(&failure, "epoch 1", &lost, 802); /* which is rank 1 there */
    ok(failure.ring != NULL, "the next ring fails, too");
    is_int(HP_FAILURE_NONE, end(&failure, 0, 0), "one that ends well is not counted");
    ok(hp_failure_lost(&failure, 2) && hp_failure_lost(&failure, 3) && !hp_failure_lost(&failure, 0) &&
           !hp_failure_lost(&failure, 1),
       "a host's ranks are lost, if they ran");
    is_int(0, hp_failure_spare(&failure, 3), "three more are too many");
    is_int(1, hp_failure_spare(&failure, 2), "two are not");
    ok(!failure.ring, "... and the ring that had lost one of them is forgotten");
    is_int(HP_FAILURE_NONE, end(&failure, 2, 9), "what is lost does not end again");
    hp_failure_ring_failed(&failure, NULL, &lost, 801);
    hp_failure_ring_failed(&failure, "epoch 1", &lost, 803);
    ok(!failure.ring, "a ring that has lost such a rank is no reason, when it is told late");
    is_int(HP_FAILURE_FIRST, end(&failure, 4, 1 << 8), "the next one fails the job");
    is_int(0, hp_failure_spare(&failure, 0), "after that nobody goes on");
    is_int(4, cause_of(&failure).rank, "it is the cause, whatever the ring has lost before");
    hp_failure_close(&failure);
    hp_failure_open(&failure, 4); /* their agents have said nothing yet */
    failure.running = 4;
    ok(hp_failure_lost(&failure, 2) && hp_failure_lost(&failure, 3),
       "ranks whose start was not reported are lost with their host");
    is_int(0, hp_failure_spare(&failure, 2), "... which ends a job of which none may fail");
    is_int(0, hp_failure_spare(&failure, 0), "... also a host whose ranks have all ended");
    hp_failure_close(&failure);
}

/* Those that are started again do not count as failed. */
static void
check_again(void)
{
    hp_failure failure;
    hp_rank_exit e = exited(1, 9);
    start_all(&failure, 3);
    failure.spare = 1;
    hp_failure_stderr(&failure, 1, (const uint8_t *)"first\n", 6, 0);
    for (int i = 0; i < 3; i++) {
        is_int(HP_FAILURE_SPARED, hp_failure_exited(&failure, &e, 1), "a rank fails, and is started again");
        ok(failure.spare == 1 && failure.running == 2 && failure.last == 137, "which takes nobody's place");
        hp_failure_again(&failure, 1);
        ok(failure.running == 3 && hp_buffer_size(&failure.rank[1].tail) == 0, "its process is another one");
    }
    hoop_error cause = {.rank = 2};
    hp_err_set(&cause, HOOP_ERR_PEER_LOST, "rank 2 (node) vanished");
    hp_failure_started(&failure, 1, 900);
    hp_failure_ring_failed(&failure, "epoch 4", &cause, 801);
    ok(!failure.ring,
       "that a ring has lost its last process is no reason, when it is told after the next one has started");
    hp_failure_ring_failed(&failure, "epoch 5", &cause, 900);
    ok(failure.ring != NULL, "that one has lost the next process is");
    is_int(HP_FAILURE_SPARED, end(&failure, 1, 3 << 8), "once more, and it is not");
    ok(failure.spare == 0 && failure.running == 2 && failure.last == 3, "nobody else may fail now");
    is_int(HP_FAILURE_NONE, end(&failure, 0, 0), "one ends well");
    is_int(1, failure.well, "and is counted");
    is_int(HP_FAILURE_FIRST, end(&failure, 2, 9), "the last one fails the job");
    hp_failure_close(&failure);
}

/* --- the report --- */

#define SENTENCE "hooprun: rank 1 (node, pid 801, ./x) exited with status 3 after 1.5 s; stopping 1 other\n"

static void
check_report(void)
{
    hp_failure failure;
    hoop_error error = {0};
    start_all(&failure, 2);
    hp_failure_stderr(&failure, 1, (const uint8_t *)"no such file\n", 13, 0);
    end(&failure, 1, 3 << 8);
    is_string(SENTENCE, report(&failure, 0), "the sentence, once; the last lines are on the screen already");
    hp_failure_close(&failure);
    start_all(&failure, 2);
    hp_failure_stderr(&failure, 1, (const uint8_t *)"no such file\n", 13, 0);
    end(&failure, 1, 3 << 8);
    hp_err_set(&error, HOOP_ERR_TIMEOUT, "rank 0 (node) is late");
    hp_failure_ring_failed(&failure, NULL, &error, 0);
    is_string(SENTENCE "[1] no such file\nhooprun: the ring had failed: rank 0 (node) is late\n", report(&failure, 1),
              "last lines that went to a file are repeated; the ring's failure comes last");
    hp_failure_close(&failure);
    start_all(&failure, 2);
    hp_err_set(&error, HOOP_ERR_PEER_LOST, "rank 1 (node) vanished");
    error.rank = 1;
    hp_failure_ring_failed(&failure, NULL, &error, 0);
    end(&failure, 1, 3 << 8);
    is_string(SENTENCE, report(&failure, 0), "a sentence about the rank itself adds nothing");
    hp_failure_close(&failure);
    start_all(&failure, 2);
    hp_err_set(&error, HOOP_ERR_TIMEOUT, "rank 1 (node) waits for rank 0");
    error.rank = 1;
    hp_failure_ring_failed(&failure, NULL, &error, 0);
    end(&failure, 1, 3 << 8);
    is_string(SENTENCE "hooprun: the ring had failed: rank 1 (node) waits for rank 0\n", report(&failure, 0),
              "but one about its wait does, though it begins with the rank");
    hp_failure_close(&failure);
    start_all(&failure, 2);
    hp_err_set(&error, HOOP_ERR_TIMEOUT, "rank 1 (node) is late");
    error.rank = 1;
    hp_failure_ring_failed(&failure, "split 2 colour 0", &error, 0);
    end(&failure, 1, 3 << 8);
    is_string(SENTENCE "hooprun: split 2 colour 0 had failed: rank 1 (node) is late\n", report(&failure, 0),
              "a split's ranks have other numbers, so one with this number is another, and the split is named");
    hp_failure_close(&failure);
    start_all(&failure, 2);
    hp_err_set(&error, HOOP_ERR_TIMEOUT, "rank 0 (node) has not joined");
    hp_failure_ring_failed(&failure, NULL, &error, 0);
    hp_failure_stderr(&failure, 1, (const uint8_t *)"x: rank 0 (node) has not joined\n", 32, 0);
    end(&failure, 1, 3 << 8);
    is_string(SENTENCE, report(&failure, 0), "nor does one that the rank itself has written");
    hp_failure_close(&failure);
}

static void
check_last_lines(void)
{
    hp_failure failure;
    char line[40];
    start_all(&failure, 2);
    for (int i = 0; i < 500; i++) {
        snprintf(line, sizeof(line), "line %d\n", i);
        hp_failure_stderr(&failure, 1, (const uint8_t *)line, strlen(line), 0);
    }
    is_uint(2048, hp_buffer_size(&failure.rank[1].tail), "what is kept is bounded");
    hp_failure_stderr(&failure, 1, (const uint8_t *)"the\x1b[31m end", 12, 0);
    end(&failure, 1, 3 << 8);
    is_string(SENTENCE "[1] line 491\n[1] line 492\n[1] line 493\n[1] line 494\n[1] line 495\n[1] line 496\n"
                       "[1] line 497\n[1] line 498\n[1] line 499\n[1] the?[31m end\n",
              report(&failure, 1), "the last ten lines, made harmless");
    hp_failure_close(&failure);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_sentences();
    check_ring();
    check_first();
    check_cause();
    check_spare();
    check_again();
    check_report();
    check_last_lines();
    return 0;
}
