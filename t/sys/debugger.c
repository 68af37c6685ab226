/* SPDX-License-Identifier: MIT */
/* debugger PID: holds that process as a debugger does that has attached to it, until this process is killed. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
    pid_t pid = argc > 1 ? (pid_t)atoi(argv[1]) : 0;
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, pid, 0, 0) != 0) {
        perror("debugger: cannot attach");
        return 1;
    }
    if (waitpid(pid, NULL, __WALL) != pid)
        return 1;
    puts("holds it");
    fflush(stdout);
    for (;;)
        pause();
}
