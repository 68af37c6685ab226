/* SPDX-License-Identifier: MIT */
/*
 * verdict: see verdict.h. Decides nothing about the job; job.c does.
 */
#include "launch/verdict.h"

#include "launch/xalloc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const struct {
    int number;
    const char *name;
} names[] = {
    {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"},
    {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"},
    {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"}, {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
    {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},
};

static const char *
signal_name(int number)
{
    size_t i;
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].number == number)
            return names[i].name;
    return "no common one";
}

int
hp_exit_status(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int
hp_rank_exit_precedes(int wait_status, int than)
{
    return WIFSIGNALED(wait_status) && !WIFSIGNALED(than);
}

char *
hp_rank_exit_sentence(const hp_rank_exit *e, int others)
{
    char how[80], then[40] = "";
    int number = WTERMSIG(e->status);
    if (WIFSIGNALED(e->status))
        snprintf(how, sizeof(how), "killed by signal %d (%s)%s", number, signal_name(number),
                 WCOREDUMP(e->status) ? ", core dumped," : "");
    else
        snprintf(how, sizeof(how), "exited with status %d", WEXITSTATUS(e->status));
    if (others > 0)
        snprintf(then, sizeof(then), "; stopping %d other%s", others, others == 1 ? "" : "s");
    return hp_xasprintf("rank %d (%s, pid %d, %s) %s after %llu.%llu s%s", e->rank, e->host, e->pid, e->program, how,
                        (unsigned long long)e->ms / 1000, (unsigned long long)e->ms / 100 % 10, then);
}

void
hp_tail_add(hp_buffer *words, const uint8_t *bytes, size_t n)
{
    size_t size;
    if (n > HP_TAIL_BYTES) {
        bytes += n - HP_TAIL_BYTES;
        n = HP_TAIL_BYTES;
    }
    hp_buffer_add(words, bytes, n);
    size = hp_buffer_size(words);
    if (size > HP_TAIL_BYTES)
        hp_buffer_drop(words, size - HP_TAIL_BYTES);
}

static void
each_line(char *text, size_t n, void (*fn)(void *arg, const char *line), void *arg)
{
    size_t i, begin = 0;
    for (i = 0; i <= n; i++) {
        if (i < n && text[i] != '\n') {
            if ((unsigned char)text[i] < ' ' && text[i] != '\t')
                text[i] = '?';
            continue;
        }
        text[i] = '\0';
        if (i > begin)
            fn(arg, text + begin);
        begin = i + 1;
    }
}

void
hp_tail_each_line(const hp_buffer *words, void (*fn)(void *arg, const char *line), void *arg)
{
    size_t size = hp_buffer_size(words), begin = size, lines = 0;
    const uint8_t *first = hp_buffer_first(words);
    char *text;
    while (begin > 0 && (first[begin - 1] != '\n' || begin == size || ++lines < HP_TAIL_LINES))
        begin--;
    if (size == 0)
        return;
    text = hp_xcalloc(size - begin + 1, 1);
    memcpy(text, first + begin, size - begin);
    each_line(text, size - begin, fn, arg);
    free(text);
}
