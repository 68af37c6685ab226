/* SPDX-License-Identifier: MIT */
/*
 * tap: the helper itself. Each case runs in a forked child whose output is caught in a pipe, because a helper that
 * reports its own failures as passes would hide every other test's. Hence this test prints its TAP by hand.
 */
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int number;

static void
report(bool passed, const char *what)
{
    printf("%s %d - %s\n", passed ? "ok" : "not ok", ++number, what);
    fflush(stdout);
}

/* Runs `body` in a child; its output goes to out, its exit status is returned. */
static int
caught(void (*body)(void), char *out, size_t size)
{
    int fds[2], status = 0;
    if (pipe(fds) != 0)
        exit(99);
    pid_t child = fork();
    if (child == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        body();
        exit(0);
    }
    close(fds[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(fds[0], out + used, size - 1 - used)) > 0;)
        used += (size_t)n;
    out[used] = '\0';
    close(fds[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
expect(void (*body)(void), int status, const char *wanted, const char *what)
{
    char seen[4096];
    int got = caught(body, seen, sizeof(seen));
    bool passed = got == status && strcmp(seen, wanted) == 0;
    report(passed, what);
    if (!passed)
        fprintf(stderr, "# wanted status %d and\n%s# saw status %d and\n%s", status, wanted, got, seen);
}

static void
passes(void)
{
    plan(5);
    ok(true, "yes");
    is_int(-3, -3, "int");
    is_uint(UINT64_MAX, UINT64_MAX, "uint");
    is_string("a", "a", "string %d", 7);
    is_blob("ab", "ab", 2, "blob");
}

static void
fails(void)
{
    plan_lazy();
    ok(false, "no # todo");
    is_int(1, 2, "int");
    is_string("a", NULL, "string");
    is_blob("abc", "aXY", 3, "blob");
}

static void
skips(void)
{
    plan(2);
    skip(2, "no %s", "GPU");
}

static void
skips_all(void)
{
    skip_all("needs root");
}

static void
too_few(void)
{
    plan(2);
    ok(true, "one");
}

static void
child_fails(void)
{
    int status = 0;
    plan(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        close(STDERR_FILENO);
        close(STDOUT_FILENO);
        ok(true, "quiet");
        ok(false, "loud");
        _exit(tap_failures() == 1 ? 7 : 8);
    }
    waitpid(child, &status, 0);
    is_int(7, WEXITSTATUS(status), "child");
}

static void
takes_too_long(void)
{
    plan(1);
    tap_limit(1);
    for (;;)
        pause();
}

static void
random_from_seed(void)
{
    setenv("HOOP_TEST_SEED", "1", 1);
    plan(3);
    is_uint(0x910a2dec89025cc1u, tap_mix(1), "mixed");
    is_uint(0x910a2dec89025cc1u, tap_random(), "first");
    is_uint(0xbeeb8da1658eec67u, tap_random(), "second");
}

static void
notes(void)
{
    plan(1);
    tap_note(true);
    tap_note(false);
    tap_note(false);
    is_int(2, tap_noted(), "two did not hold");
}

static void
cases_of_one_check(void)
{
    int good = 0;
    plan_lazy();
    good += case_ok(true, "case %d", 0);
    good += case_int(4, 4, "case %d", 1);
    good += case_ok(false, "case %d", 2);
    setenv("HOOP_TEST_SEED", "7", 1);
    tap_seed();
    good += case_int(1, -2, "case %d", 3);
    is_int(4, good, "all cases");
}

static void
many_cases(void)
{
    plan_lazy();
    for (int i = 0; i < 1000; i++)
        case_ok(false, "%d", i);
    ok(true, "one");
}

static void
bails(void)
{
    plan(1);
    bail("no %s", "way");
}

/* The scenes run at the same time: the first one, which prints later, awaits the second. */
static int order[2];

static void
act(int scene)
{
    char byte;
    if (scene == 0 && read(order[0], &byte, 1) != 1)
        bail("nobody writes");
    ok(scene == 1, "scene %d", scene);
    diag("of scene %d", scene);
    if (scene == 0)
        _exit(3);
    if (write(order[1], "", 1) != 1)
        bail("cannot write");
}

static void
in_scenes(void)
{
    setenv("HOOP_TEST_SEED", "7", 1);
    plan_lazy();
    ok(pipe(order) == 0, "before");
    tap_scenes(2, act);
    is_int(2, (int)tap_failures(), "failures");
}

static void
sanitizers(void)
{
    plan(4);
    setenv("HOOP_TEST_SANITIZE", "no", 1);
    ok(!tap_sanitized(), "no");
    setenv("HOOP_TEST_SANITIZE", "", 1);
    ok(!tap_sanitized(), "empty");
    setenv("HOOP_TEST_SANITIZE", "thread", 1);
    ok(tap_sanitized(), "thread");
    unsetenv("HOOP_TEST_SANITIZE");
    ok(!tap_sanitized(), "none");
}

static void
own_folder(void)
{
    char path[512];
    unsetenv("HOOP_TEST_TMP");
    plan(1);
    snprintf(path, sizeof(path), "%s/file", tap_tmpdir());
    FILE *file = fopen(path, "w");
    ok(file && fclose(file) == 0, "file in it");
}

int
main(void)
{
    unsetenv("HOOP_TEST_TIME_FACTOR");
    printf("1..15\n");
    fflush(stdout);
    expect(passes, 0, "1..5\nok 1 - yes\nok 2 - int\nok 3 - uint\nok 4 - string 7\nok 5 - blob\n", "passing checks");
    expect(fails, 1,
           "not ok 1 - no   todo\nnot ok 2 - int\n# wanted 1, saw 2\nnot ok 3 - string\n# wanted \"a\"\n# saw    "
           "\"(null)\"\n"
           "not ok 4 - blob\n# 2 of 3 bytes differ; the first at 1: wanted 62, saw 58\n1..4\n# 4 of 4 failed\n",
           "failing checks, with what was wanted and seen");
    expect(skips, 0, "1..2\nok 1 # SKIP no GPU\nok 2 # SKIP no GPU\n", "skip");
    expect(skips_all, 0, "1..0 # SKIP needs root\n", "skip_all");
    expect(too_few, 1, "1..2\nok 1 - one\n# planned 2 checks, ran 1\n# 0 of 1 failed\n", "a plan that is not kept");
    expect(child_fails, 0, "1..1\nok 1 - child\n", "a child is quiet and counts its failures");
    expect(takes_too_long, 124, "1..1\nBail out! the time limit of this test has passed\n", "time limit");
    expect(random_from_seed, 0, "1..3\nok 1 - mixed\n# seed 1\nok 2 - first\nok 3 - second\n",
           "random numbers follow the seed");
    expect(notes, 0, "1..1\nok 1 - two did not hold\n", "what is only noted is counted, without a line");
    expect(cases_of_one_check, 1,
           "# failed: case 2\n# seed 7\n# failed, seed 7: case 3: wanted 1, saw -2\nnot ok 1 - all cases\n"
           "# wanted 4, saw 2\n1..1\n# 1 of 1 failed\n",
           "cases that fail are named, with the seed");
    char twenty[1024] = "";
    for (int i = 0; i < 20; i++)
        snprintf(twenty + strlen(twenty), 64, "# failed: %d%s\n", i, i == 19 ? " (no further cases are printed)" : "");
    strcat(twenty, "ok 1 - one\n1..1\n");
    expect(many_cases, 0, twenty, "twenty of them at most");
    expect(bails, 255, "1..1\nBail out! no way\n", "bail");
    expect(in_scenes, 1,
           "ok 1 - before\n# seed 7\nok 2 - scene 1\n# of scene 1\nnot ok 3 - scene 0\n# of scene 0\n"
           "not ok 4 - scene 0 ended with status 0x300\nok 5 - failures\n1..5\n# 2 of 5 failed\n",
           "scenes, side by side, whose lines are numbered anew");
    expect(sanitizers, 0, "1..4\nok 1 - no\nok 2 - empty\nok 3 - thread\nok 4 - none\n", "sanitized trees");
    expect(own_folder, 0, "1..1\nok 1 - file in it\n", "scratch folder");
    return 0;
}
