/* SPDX-License-Identifier: MIT */
/*
 * talker: a rank for t/sys/hooprun_terminal.t that leaves it to the C library when its lines are written. It says what
 * its standard output is, waits for the file "go", says what has become of it and kills itself: what is still in its
 * buffer then is lost.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

static volatile sig_atomic_t resized;

static void
note(int number)
{
    (void)number;
    resized = 1;
}

static void
say_size(const char *when)
{
    struct winsize size = {0};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    printf("%s: %d rows, %d columns\n", when, size.ws_row, size.ws_col);
}

int
main(void)
{
    signal(SIGWINCH, note);
    printf("standard output is %s\n", isatty(STDOUT_FILENO) ? "a terminal" : "none");
    printf("standard input is %s\n", isatty(STDIN_FILENO) ? "a terminal" : "none");
    say_size("first");
    while (access("go", F_OK) != 0) {
        usleep(10000);
        if (resized)
            say_size("later");
        resized = 0;
    }
    printf("last line\n");
    raise(SIGKILL);
    return 0;
}
