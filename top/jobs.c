/* SPDX-License-Identifier: MIT */
/* jobs: see jobs.h. A server that does not answer is shown with the reason: it may be stopped. */
#include "top/jobs.h"

#include "top/ask.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PROGRAM = 32, LINE = 256 };

typedef struct collector {
    hp_buffer *out;
    int rows, width; /* rows 0: JSON */
    int servers, failed;
} collector;

static void add(collector *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
add(collector *c, const char *format, ...)
{
    char line[LINE];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    c->failed |= hp_buffer_add(c->out, line, strlen(line)) != 0;
}

/* The name of the program, which may be any text; what JSON or a terminal could take for more is left out. */
static void
find_program(int pid, char out[PROGRAM])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(out, 1, PROGRAM - 1, file) : 0;
    if (file)
        fclose(file);
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    for (char *c = out; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '?';
    if (strcmp(out, "hoop-launch") == 0)
        snprintf(out, PROGRAM, "hooprun");
}

static void
add_text(collector *c, const char *path, const char *program, int pid)
{
    char request[LINE];
    size_t before = hp_buffer_size(c->out);
    add(c, "%s%s, pid %d\n", c->servers++ ? "\n" : "", program, pid);
    size_t empty = hp_buffer_size(c->out);
    snprintf(request, sizeof(request), "table %d %d", c->rows, c->width);
    if (hp_top_ask(path, request, c->out) < 0)
        add(c, "its server does not answer (%s); is it stopped?\n", strerror(errno));
    else if (before < empty && hp_buffer_size(c->out) == empty)
        add(c, "no rank is in a ring now\n");
}

static void
add_json(collector *c, const char *path, const char *program, int pid)
{
    hp_buffer rings = {0};
    add(c, "%s{\"version\":1,\"server\":\"%s\",\"pid\":%d,\"rings\":", c->servers++ ? "," : "", program, pid);
    if (hp_top_ask(path, "json", &rings) == 0 && hp_buffer_size(&rings) > 0)
        c->failed |= hp_buffer_add(c->out, hp_buffer_first(&rings), hp_buffer_size(&rings)) != 0;
    else
        add(c, "null");
    add(c, "}");
    hp_buffer_free(&rings);
}

static void
ask(void *arg, const char *path, int pid)
{
    collector *c = arg;
    char program[PROGRAM];
    find_program(pid, program);
    if (c->rows > 0)
        add_text(c, path, program, pid);
    else
        add_json(c, path, program, pid);
}

int
hp_top_jobs_text(hp_buffer *out, int rows, int width)
{
    collector c = {.out = out, .rows = rows, .width = width};
    hp_top_servers(ask, &c);
    return c.failed ? -1 : c.servers;
}

int
hp_top_jobs_json(hp_buffer *out)
{
    collector c = {.out = out};
    add(&c, "[");
    hp_top_servers(ask, &c);
    add(&c, "]\n");
    return c.failed ? -1 : c.servers;
}
