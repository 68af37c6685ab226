/* SPDX-License-Identifier: MIT */
/*
 * tap.h - a small TAP producer for tests written in C.
 *
 * A test is a program: it calls plan() or plan_lazy() once, then ok() and its kin, and returns from main. Every check
 * returns whether it passed. Threads may check at the same time. A forked child keeps quiet: its passed checks print
 * nothing, its failed ones print a comment and count in tap_failures(), so that a child ends with _exit(tap_failures()
 * != 0) and the parent checks that status.
 */
#ifndef T_TAP_H
#define T_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* What a test hands to a party, to threads or to the library need not use all that it is called with. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* The number of checks to come, or: count them, and print the plan when the program ends. */
void plan(unsigned long count);
void plan_lazy(void);

/* Ends the program with status 0: nothing here can be tested, for this reason. Call it instead of plan(). */
void skip_all(const char *fmt, ...) TAP_PRINTF(1, 2) __attribute__((noreturn));

bool ok(bool condition, const char *fmt, ...) TAP_PRINTF(2, 3);
bool is_int(intmax_t wanted, intmax_t seen, const char *fmt, ...) TAP_PRINTF(3, 4);
bool is_uint(uintmax_t wanted, uintmax_t seen, const char *fmt, ...) TAP_PRINTF(3, 4);
bool is_string(const char *wanted, const char *seen, const char *fmt, ...) TAP_PRINTF(3, 4);
bool is_blob(const void *wanted, const void *seen, size_t bytes, const char *fmt, ...) TAP_PRINTF(4, 5);

/* One case of many that a single check sums up. True if it holds; otherwise a comment says which case it was, with the seed
 * if there is one, and what was wanted and seen. Each check prints twenty of these at most.
 *     good += case_int(n - 1, told, "rank %d of %d vanishes", victim, n);
 */
bool case_ok(bool holds, const char *fmt, ...) TAP_PRINTF(2, 3);
bool case_int(intmax_t wanted, intmax_t seen, const char *fmt, ...) TAP_PRINTF(3, 4);

/* In any thread and without a line: counts what does not hold; and how often that was so. */
void tap_note(bool holds);
int tap_noted(void);

/* Counts `count` checks as skipped, for this reason. */
void skip(unsigned long count, const char *fmt, ...) TAP_PRINTF(2, 3);

/* A comment line; and the end of the whole program because going on makes no sense. */
void diag(const char *fmt, ...) TAP_PRINTF(1, 2);
void bail(const char *fmt, ...) TAP_PRINTF(1, 2) __attribute__((noreturn));

/* Failed checks of this process so far. */
unsigned long tap_failures(void);

/* How many times as long as usual a test may wait: HOOP_TEST_TIME_FACTOR, for slow tools and busy machines; else 1. */
unsigned tap_time_factor(void);

/*
 * A loop that awaits something: for (tap_wait w = {0}; !there && tap_waits(&w);) look(). True for 30 s, times that factor,
 * after the first question: a process that is not run for seconds, since other tests run beside it, has not failed.
 */
typedef struct tap_wait {
    double end;
} tap_wait;
bool tap_waits(tap_wait *wait);

/* So many seconds later than promised may something be seen beside other tests: 5, times that factor. */
double tap_room(void);

/* Ends the program as failed after so many seconds, times that factor. 0: no limit any more. */
void tap_limit(unsigned seconds);

/*
 * Scenes that mostly sleep, side by side: play(0) to play(n - 1), each in a process of its own with a scratch folder and
 * random numbers of its own. Their checks are checks of this test, in the order in which they come. Returns when all have
 * ended.
 */
void tap_scenes(int n, void (*play)(int scene));

/* Whether this tree was configured with --enable-sanitize, as make check says in HOOP_TEST_SANITIZE. */
bool tap_sanitized(void);

/* The seed of this run, printed once as "# seed N"; HOOP_TEST_SEED sets it. tap_random draws from it (splitmix64). */
uint64_t tap_seed(void);
uint64_t tap_random(void);

/* From it: a number below `below`, and the numbers 0 to n - 1 in some order. */
uint64_t tap_pick(uint64_t below);
void tap_shuffle(int *order, int n);

/* A number that looks random, and is the same for the same x in every process (splitmix64, Steele et al. 2014). */
static inline uint64_t
tap_mix(uint64_t x)
{
    uint64_t z = x + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A fresh folder for this test: $HOOP_TEST_TMP, else one of its own that is removed when the program ends. */
const char *tap_tmpdir(void);

#endif
