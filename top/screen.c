/* SPDX-License-Identifier: MIT */
/* screen: see screen.h. */
#include "top/screen.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int
hp_top_screen_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

#ifdef HAVE_NCURSES
#include <curses.h>
#include <locale.h>
#include <stdlib.h>
#include <wchar.h>

enum { REFRESH_MS = 1000 };

/* How many bytes of a line fit, in whole characters; ncurses would go on in the next line. */
static int
fitting(const char *line, int n)
{
    mbstate_t state = {0};
    wchar_t letter;
    int at = 0, columns = 0;
    while (at < n) {
        size_t bytes = mbrtowc(&letter, line + at, (size_t)(n - at), &state);
        int known = bytes > 0 && bytes <= (size_t)(n - at), width = known ? wcwidth(letter) : 1;
        columns += width < 0 ? 1 : width;
        if (columns > COLS)
            break;
        at += known ? (int)bytes : 1;
        if (!known)
            state = (mbstate_t){0};
    }
    return at;
}

/* Draws from line `first` on, as much as there is room for. Returns the number of lines. */
static int
draw(const hp_buffer *text, int first)
{
    const char *at = (const char *)hp_buffer_first(text), *end = at ? at + hp_buffer_size(text) : NULL;
    int line = 0;
    erase();
    for (; at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        int n = (int)((newline ? newline : end) - at);
        if (line >= first && line - first < LINES)
            mvaddnstr(line - first, 0, at, fitting(at, n));
        at = newline ? newline + 1 : end;
    }
    refresh();
    return line;
}

/* By how many lines a key moves the text up. */
static int
step_of(int key)
{
    return key == KEY_DOWN                  ? 1
           : key == KEY_UP                  ? -1
           : key == KEY_NPAGE || key == ' ' ? LINES
           : key == KEY_PPAGE               ? -LINES
                                            : 0;
}

int
hp_top_screen_show(void (*fill)(hp_buffer *out, int lines, int columns))
{
    int key = 0, first = 0, all = 0; /* first: the line at the top */
    setlocale(LC_CTYPE, "");         /* names may have any letters */
    SCREEN *terminal = newterm(NULL, stdout, stdin);
    if (!terminal)
        return -1;
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    timeout(REFRESH_MS);
    while (key != 'q') {
        hp_buffer text = {0};
        all = step_of(key) > 0 || (all && (first > 0 || step_of(key) == 0));
        fill(&text, all ? 0 : LINES, COLS);
        int lines = draw(&text, first), last = lines > LINES ? lines - LINES : 0;
        first += step_of(key);
        first = first > last ? last : first < 0 ? 0 : first;
        draw(&text, first);
        hp_buffer_free(&text);
        key = getch();
    }
    endwin();
    delscreen(terminal);
    return 0;
}

#else

int
hp_top_screen_show(void (*fill)(hp_buffer *out, int lines, int columns))
{
    (void)fill;
    return -1;
}

#endif
