/* SPDX-License-Identifier: MIT */
/* The ranks' output on its way out: to descriptors 1 and 2, held for a slow reader, to files, broken pipes. */
#include "launch/output.h"

#include "base/clock.h"
#include "t/launch/fake_loop.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static hp_loop *loop;
static hp_output *output;
static int reader[2]; /* of descriptors 1 and 2 while `redirected` */
static int kept[2];

/* As pipe() has them, a terminal and what reads what is written to it. */
static int
open_terminal(int fd[2])
{
    struct termios how;
    fd[0] = posix_openpt(O_RDWR | O_NOCTTY);
    if (fd[0] < 0 || grantpt(fd[0]) != 0 || unlockpt(fd[0]) != 0)
        return -1;
    fd[1] = open(ptsname(fd[0]), O_RDWR | O_NOCTTY);
    if (fd[1] < 0 || tcgetattr(fd[1], &how) != 0)
        return -1;
    how.c_oflag &= ~(tcflag_t)OPOST;
    return tcsetattr(fd[1], TCSANOW, &how);
}

/*
 * Descriptors 1 and 2 become pipes; checks must wait until they are back. same: one pipe for both; terminal: they are terminals.
 */
static void
redirect(int same, int terminal)
{
    for (int i = 0; i < 2; i++) {
        int fd[2];
        kept[i] = dup(i + 1);
        if (i == 1 && same) {
            dup2(1, 2);
            reader[1] = -1;
            return;
        }
        if ((terminal ? open_terminal(fd) : pipe(fd)) < 0)
            bail("no pipe, or no terminal");
        fcntl(fd[0], F_SETFL, O_NONBLOCK);
        dup2(fd[1], i + 1);
        close(fd[1]);
        reader[i] = fd[0];
    }
}

static void
restore(void)
{
    for (int i = 0; i < 2; i++) {
        if (kept[i] >= 0)
            dup2(kept[i], i + 1);
        close(kept[i]);
        if (reader[i] >= 0)
            close(reader[i]);
        reader[i] = -1;
    }
    if (output)
        hp_output_free(output);
    hp_loop_free(loop);
    output = NULL;
}

static hoop_result
begin(hp_output_options options, int same, hoop_error *error)
{
    loop = hp_loop_new();
    redirect(same, 0);
    output = hp_output_new(loop, &options, error);
    return output ? HOOP_SUCCESS : error->code;
}

/* What came out of descriptor 1 or 2; appended to `seen`. */
static void
see(int fd, char *seen, size_t size)
{
    size_t at = strlen(seen);
    ssize_t n = read(reader[fd - 1], seen + at, size - at - 1);
    seen[at + (n > 0 ? (size_t)n : 0)] = '\0';
}

static void
says(int rank, int stream, const char *text)
{
    hp_output_rank(output, rank, stream, (const uint8_t *)text, strlen(text));
}

static void
check_streams(void)
{
    char out[256] = "", err[256] = "", rest[256] = "";
    begin((hp_output_options){.size = 2, .label = 1}, 0, NULL);
    says(1, 1, "hello\nhalf");
    says(0, 2, "warning\n");
    hp_output_say(output, "hooprun: a word");
    see(1, out, sizeof(out));
    see(2, err, sizeof(err));
    int shown = (int)hp_output_shown(output);
    hp_output_ended(output, 1);
    see(1, rest, sizeof(rest));
    restore();
    is_string("[1] hello\n", out, "standard output, by whole lines, with labels");
    is_string("[0] warning\nhooprun: a word\n", err, "standard error, and the launcher's own lines");
    is_string("[1] half", rest, "an unfinished line when its rank has ended");
    is_int(1, shown, "chunks on standard error are counted");
}

static void
check_same(void)
{
    char out[256] = "";
    begin((hp_output_options){.size = 2}, 1, NULL);
    says(0, 1, "a\n");
    says(1, 2, "b\n");
    says(0, 1, "unfinished");
    hp_output_ended(output, 0);
    hp_output_say(output, "hooprun: stopping");
    see(1, out, sizeof(out));
    restore();
    is_string("a\nb\nunfinished\nhooprun: stopping\n", out, "one file for both is one stream of lines");
}

static void
check_slow_reader(int terminal)
{
    enum { LINES = 10000 };
    static char all[LINES * 20], line[32];
    const hp_output_options options = {.size = 2};
    size_t total = 0;
    all[0] = '\0';
    loop = hp_loop_new();
    redirect(0, terminal);
    output = hp_output_new(loop, &options, NULL);
    for (int i = 0; i < LINES; i++) {
        total += (size_t)snprintf(line, sizeof(line), "line %d\n", i);
        says(0, 1, line);
    }
    size_t held = hp_output_backlog(output);
    int flags = fcntl(1, F_GETFL);
    for (tap_wait w = {0}; strlen(all) < total && tap_waits(&w);) {
        see(1, all, sizeof(all));
        fake_loop_settle(loop);
    }
    size_t left = hp_output_backlog(output);
    restore();
    ok(held > 0, "what a slow %s does not take waits: %zu bytes", terminal ? "terminal" : "reader", held);
    ok(!(flags & O_NONBLOCK), "the descriptor's flags stay as they are");
    ok(left == 0, "when it reads it moves");
    int right = 1;
    char *at = all;
    for (int i = 0; i < LINES && right; i++) {
        size_t n = (size_t)snprintf(line, sizeof(line), "line %d\n", i);
        right = strncmp(at, line, n) == 0;
        at += n;
    }
    ok(right && *at == '\0', "every line came out, in order");
}

static void
check_broken(void)
{
    begin((hp_output_options){.size = 2}, 0, NULL);
    int before = hp_output_broken(output);
    close(reader[0]);
    reader[0] = -1;
    says(0, 1, "hello\n");
    says(0, 1, "again\n");
    int broken = hp_output_broken(output);
    size_t held = hp_output_backlog(output);
    restore();
    is_int(0, before, "output works");
    is_int(EPIPE, broken, "until its reader has gone");
    is_uint(0, held, "then nothing waits for it");
}

static void
check_files(void)
{
    char dir[400], path[512], out[64] = "", seen[64] = "";
    hoop_error error = {0};
    snprintf(dir, sizeof(dir), "%s/out", tap_tmpdir());
    begin((hp_output_options){.size = 2, .dir = dir}, 0, &error);
    restore();
    ok(access(dir, F_OK) < 0, "where no rank has run, no files are left");
    begin((hp_output_options){.size = 2, .dir = dir}, 0, &error);
    hp_output_keep(output);
    says(1, 1, "to a file\n");
    see(1, out, sizeof(out));
    restore();
    snprintf(path, sizeof(path), "%s/rank.1/stdout", dir);
    FILE *file = fopen(path, "re");
    ok(file && fgets(seen, sizeof(seen), file) && strcmp(seen, "to a file\n") == 0, "a rank's file has its output");
    if (file)
        fclose(file);
    is_string("", out, "which is not shown");
    hoop_result again = begin((hp_output_options){.size = 2, .dir = dir}, 0, &error);
    restore();
    is_int(HOOP_ERR_INVALID_ARGUMENT, again, "files of a former run are in the way");
    ok(strstr(error.text, "rank.0/stdout is there already"), "%s", error.text);
    begin((hp_output_options){.size = 2, .dir = dir, .force = 1, .tee = 1}, 0, &error);
    says(1, 1, "both\n");
    see(1, out, sizeof(out));
    restore();
    is_string("both\n", out, "with --force they are not, and --tee shows it as well");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    signal(SIGPIPE, SIG_IGN);
    check_streams();
    check_same();
    check_slow_reader(0);
    check_slow_reader(1);
    check_broken();
    check_files();
    return 0;
}
