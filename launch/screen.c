/* SPDX-License-Identifier: MIT */
/*
 * screen: see screen.h. A writer's unfinished line is held; `shown` is how much of it is on the screen already.
 */
#include "launch/screen.h"

#include "base/clock.h"
#include "launch/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_WRITER = -1 };

typedef struct writer {
    hp_screen *screen;
    hp_buffer held; /* until the newline comes: at most HP_SCREEN_LINE bytes and those of one feed */
    size_t shown;   /* of it */
    uint64_t since; /* when the rest of it began to wait; 0: nothing waits */
} writer;

struct hp_screen {
    hp_screen_options options;
    writer *writer;
    int open;     /* whose line the cursor is in; NO_WRITER: it is at the beginning of one */
    int bar;      /* whose progress bar is shown; NO_WRITER: none */
    int returned; /* a carriage return was the last byte of the open line */
    int waiting;  /* writers with since != 0 */
    /* Lazy labels: the first writer, and its first output, which is held until `decided`. */
    int labels; /* 1: lines are labelled */
    int first, first_ended;
    uint64_t decided; /* when it is clear that it is alone; 0: nothing is held */
    hp_buffer early;
};

/* --- bytes out --- */

static void
put(hp_screen *s, const uint8_t *bytes, size_t n)
{
    hp_xbuffer_add(s->options.out, bytes, n);
}

/* Continues the open line of that writer, or begins one. */
static void
put_lines(hp_screen *s, int number, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        /* The cursor's line is cut behind a newline, and on a terminal behind a carriage return. */
        const uint8_t *newline = memchr(bytes, '\n', n), *back = NULL;
        size_t part = newline ? (size_t)(newline - bytes) + 1 : n;
        char label[16];
        if (s->options.live && (back = memchr(bytes, '\r', part)))
            part = (size_t)(back - bytes) + 1;
        if (s->labels && (s->open == NO_WRITER || (s->returned && bytes[0] != '\n' && bytes[0] != '\r')))
            put(s, (uint8_t *)label, (size_t)snprintf(label, sizeof(label), "[%d] ", number / s->options.per_label));
        put(s, bytes, part);
        s->open = bytes[part - 1] == '\n' ? NO_WRITER : number;
        s->returned = s->options.live && bytes[part - 1] == '\r';
        bytes += part;
        n -= part;
    }
}

static void
end_line(hp_screen *s)
{
    if (s->open != NO_WRITER)
        put(s, (const uint8_t *)"\n", 1);
    s->open = NO_WRITER;
    s->returned = 0;
}

/* --- progress bars --- */

/* Where the last state of a line begins, behind its last carriage return; 0: it has none. */
static size_t
last_state(const uint8_t *bytes, size_t n)
{
    while (n > 0 && (bytes[n - 1] == '\r' || bytes[n - 1] == '\n'))
        n--;
    const uint8_t *back = memrchr(bytes, '\r', n);
    return back ? (size_t)(back - bytes) + 1 : 0;
}

/* Puts whole lines, each without the states that its carriage returns overwrite. */
static void
put_last_states(hp_screen *s, int number, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        const uint8_t *newline = memchr(bytes, '\n', n);
        size_t line = newline ? (size_t)(newline - bytes) + 1 : n, skip = last_state(bytes, line);
        put_lines(s, number, bytes + skip, line - skip);
        bytes += line;
        n -= line;
    }
}

/* --- writers --- */

static int
number_of(const writer *w)
{
    return (int)(w - w->screen->writer);
}

static void
wait(writer *w, uint64_t since)
{
    w->screen->waiting += (since != 0) - (w->since != 0);
    w->since = since;
}

/* Takes whole lines, a piece of a very long one, or the rest of a writer that ends. */
static void
emit(writer *w, const uint8_t *bytes, size_t n)
{
    hp_screen *s = w->screen;
    int number = number_of(w);
    size_t skip = w->shown < n ? w->shown : n, rest = n - skip;
    int ends = (rest == 1 || (rest == 2 && bytes[skip] == '\r')) && bytes[n - 1] == '\n'; /* of its line, no more */
    if (bytes[n - 1] == '\n' && s->bar == number)
        s->bar = NO_WRITER;
    w->shown = 0;
    if (s->options.live && skip > 0 && s->open != number && ends)
        return; /* another writer's line has ended this one already */
    if (s->open == number) {
        put_lines(s, number, bytes + skip, n - skip);
        return;
    }
    end_line(s);
    if (s->options.live)
        put_last_states(s, number, bytes + skip, n - skip);
    else
        put_lines(s, number, bytes + skip, n - skip);
}

/* Whether the writer's unfinished line may be shown now. */
static int
may_show(const writer *w, uint64_t now)
{
    const hp_screen *s = w->screen;
    int number = number_of(w);
    if (s->open != NO_WRITER)
        return s->open == number;
    if (memchr(hp_buffer_first(&w->held), '\r', hp_buffer_size(&w->held)))
        return s->bar == NO_WRITER || s->bar == number;
    return now - w->since >= HP_SCREEN_WAIT;
}

static void
look(writer *w, uint64_t now)
{
    hp_screen *s = w->screen;
    if (hp_buffer_size(&w->held) <= w->shown) {
        wait(w, 0);
        return;
    }
    if (w->since == 0)
        wait(w, now);
    if (may_show(w, now)) {
        if (memchr(hp_buffer_first(&w->held), '\r', hp_buffer_size(&w->held)))
            s->bar = number_of(w);
        const uint8_t *rest = hp_buffer_first(&w->held) + w->shown;
        size_t left = hp_buffer_size(&w->held) - w->shown;
        size_t skip = s->open == number_of(w) ? 0 : last_state(rest, left);
        put_lines(s, number_of(w), rest + skip, left - skip);
        w->shown += left;
        wait(w, 0);
    }
    /* A bar that is not shown keeps its last state only. */
    size_t old = last_state(hp_buffer_first(&w->held), hp_buffer_size(&w->held));
    if (old <= 1)
        return;
    hp_buffer_drop(&w->held, old - 1);
    w->shown -= old - 1 < w->shown ? old - 1 : w->shown;
}

/*
 * How many of the held bytes may go now: up to the last newline of the first 64 KiB, or a full piece without one. A writer
 * that is alone holds nothing back.
 */
static size_t
cut(const writer *w)
{
    size_t size = hp_buffer_size(&w->held), window = size < HP_SCREEN_LINE ? size : HP_SCREEN_LINE;
    const uint8_t *first = hp_buffer_first(&w->held);
    if (size == 0 || w->screen->options.writers == 1)
        return window;
    const uint8_t *newline = memrchr(first, '\n', window);
    if (newline)
        return (size_t)(newline - first) + 1;
    return window == HP_SCREEN_LINE ? window : 0;
}

/* --- lazy labels --- */

static void
feed(hp_screen *s, int number, const uint8_t *bytes, size_t n, uint64_t now)
{
    writer *w = &s->writer[number];
    hp_xbuffer_add(&w->held, bytes, n);
    for (size_t ready; (ready = cut(w)) > 0; hp_buffer_drop(&w->held, ready))
        emit(w, hp_buffer_first(&w->held), ready);
    if (s->options.live)
        look(w, now);
}

static void
end(hp_screen *s, int number)
{
    writer *w = &s->writer[number];
    int bar = s->bar == number;
    size_t left = hp_buffer_size(&w->held);
    if (left > w->shown)
        emit(w, hp_buffer_first(&w->held), left);
    hp_buffer_free(&w->held);
    w->shown = 0;
    wait(w, 0);
    if (bar)
        s->bar = NO_WRITER;
}

/* Puts out the held bytes, with labels or without. */
static void
release(hp_screen *s, uint64_t now)
{
    if (s->decided == 0)
        return;
    s->decided = 0;
    feed(s, s->first, hp_buffer_first(&s->early), hp_buffer_size(&s->early), now);
    hp_buffer_free(&s->early);
    if (s->first_ended)
        end(s, s->first);
}

/* Holds the bytes of the first writer until it is clear whether others write, too. 1: held. */
static int
hold(hp_screen *s, int number, const uint8_t *bytes, size_t n, uint64_t now)
{
    int label = number / s->options.per_label;
    if (s->first == NO_WRITER) {
        s->first = number;
        s->decided = now + HP_SCREEN_WAIT;
    }
    s->labels = label != s->first / s->options.per_label;
    if (s->decided != 0 && number == s->first && now < s->decided && hp_buffer_size(&s->early) + n < HP_SCREEN_LINE) {
        hp_xbuffer_add(&s->early, bytes, n);
        return 1;
    }
    release(s, now);
    return 0;
}

/* --- the owner's side --- */

hp_screen *
hp_screen_new(const hp_screen_options *options)
{
    hp_screen *s = hp_xcalloc(1, sizeof(*s));
    *s = (hp_screen){.options = *options, .open = NO_WRITER, .bar = NO_WRITER, .first = NO_WRITER};
    s->labels = options->per_label > 0 && !options->lazy;
    s->options.live = options->live && options->writers > 1;
    s->options.lazy = options->lazy && options->per_label > 0;
    s->writer = hp_xcalloc((size_t)options->writers, sizeof(*s->writer));
    for (int i = 0; i < options->writers; i++)
        s->writer[i] = (writer){.screen = s};
    return s;
}

void
hp_screen_feed(hp_screen *s, int number, const uint8_t *bytes, size_t n, uint64_t now)
{
    if (s->labels || !s->options.lazy || !hold(s, number, bytes, n, now))
        feed(s, number, bytes, n, now);
}

void
hp_screen_end(hp_screen *s, int number)
{
    if (s->decided != 0 && number == s->first)
        s->first_ended = 1;
    else
        end(s, number);
}

void
hp_screen_done(hp_screen *s)
{
    release(s, s->decided);
}

void
hp_screen_say(hp_screen *s, const char *line)
{
    hp_screen_done(s);
    end_line(s);
    put(s, (const uint8_t *)line, strlen(line));
    put(s, (const uint8_t *)"\n", 1);
}

uint64_t
hp_screen_due(hp_screen *s, uint64_t now)
{
    if (s->decided != 0 && now < s->decided)
        return s->decided;
    release(s, now);
    for (int i = 0; i < s->options.writers && s->waiting > 0 && s->open == NO_WRITER; i++)
        if (s->writer[i].since != 0)
            look(&s->writer[i], now);
    return s->waiting > 0 && s->open == NO_WRITER ? now + HP_SCREEN_WAIT : HP_NEVER;
}

void
hp_screen_free(hp_screen *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->options.writers; i++)
        hp_buffer_free(&s->writer[i].held);
    hp_buffer_free(&s->early);
    free(s->writer);
    free(s);
}
