/* SPDX-License-Identifier: MIT */
/* columns: see columns.h. A character is one column of the terminal, however many bytes it has. */
#include "rendezvous/columns.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { GAP = 2, LINE = HP_COLUMNS_MOST * (2 * HP_CELL + GAP), INDENT = 2, ELASTIC_LEAST = 10 };

typedef struct layout {
    int columns, gap;
    int width[HP_COLUMNS_MOST];
} layout;

/* Where a text has to be broken to fit; its length if it fits. */
static size_t
break_at(const char *text, size_t room)
{
    size_t n = hp_text_first(text, room), at = n;
    if (!text[n])
        return n;
    while (at > 0 && text[at] != ' ')
        at--;
    return at > 0 ? at : n;
}

int
hp_columns_say(const hp_line_sink *lines, const char *text)
{
    char line[LINE];
    int indent = 0, n = 0;
    do {
        size_t room = lines->width ? (size_t)(lines->width > indent ? lines->width - indent : 1) : sizeof(line) - 1;
        size_t bytes = break_at(text, room);
        snprintf(line, sizeof(line), "%*s%.*s", indent, "", (int)bytes, text);
        lines->line(lines->arg, line);
        text += bytes;
        text += strspn(text, " ");
        indent = INDENT;
        n++;
    } while (*text);
    return n;
}

static int
total(const layout *l)
{
    int sum = (l->columns - 1) * l->gap;
    for (int c = 0; c < l->columns; c++)
        sum += l->width[c];
    return sum;
}

static int
widest(const char *title, const hp_row *rows, int n, int c)
{
    size_t most = hp_text_width(title);
    for (int i = 0; i < n; i++)
        most = hp_text_width(rows[i].cell[c]) > most ? hp_text_width(rows[i].cell[c]) : most;
    return (int)most;
}

/* Gives the room that is left to the elastic columns that want more, the narrowest one first. */
static void
widen(layout *l, const int *wanted, int room)
{
    for (; room > 0; room--) {
        int narrowest = -1;
        for (int c = 0; c < l->columns; c++)
            if (l->width[c] < wanted[c] && (narrowest < 0 || l->width[c] < l->width[narrowest]))
                narrowest = c;
        if (narrowest < 0)
            return;
        l->width[narrowest]++;
    }
}

static layout
measure(const char *const *titles, int columns, unsigned elastic, const hp_row *rows, int n, int width)
{
    layout l = {.columns = columns, .gap = GAP};
    int wanted[HP_COLUMNS_MOST];
    for (int c = 0; c < columns; c++)
        l.width[c] = wanted[c] = widest(titles[c], rows, n, c);
    if (!width || total(&l) <= width)
        return l;
    l.gap = 1;
    for (int c = 0; c < columns; c++)
        if ((elastic >> c & 1) && wanted[c] > ELASTIC_LEAST)
            l.width[c] = ELASTIC_LEAST;
    while (l.columns > 1 && !(elastic >> (l.columns - 1) & 1) && total(&l) > width)
        l.columns--;
    widen(&l, wanted, width - total(&l));
    return l;
}

static void
print_row(const hp_line_sink *lines, const layout *l, const char *const *cell)
{
    char line[LINE + 1] = "";
    size_t at = 0;
    for (int c = 0; c < l->columns; c++) {
        int wide = (int)hp_text_width(cell[c]), cut = wide > l->width[c];
        size_t shown = hp_text_first(cell[c], (size_t)(l->width[c] - 2 * cut));
        at += (size_t)snprintf(line + at, sizeof(line) - at, "%*s%.*s%s%*s", c ? l->gap : 0, "", (int)shown, cell[c],
                               cut ? ".." : "", cut ? 0 : l->width[c] - wide, "");
    }
    while (at > 0 && line[at - 1] == ' ')
        line[--at] = '\0';
    if (lines->width)
        line[hp_text_first(line, (size_t)lines->width)] = '\0';
    lines->line(lines->arg, line);
}

void
hp_columns_print(const hp_line_sink *lines, const char *const *titles, int columns, unsigned elastic,
                 const hp_row *rows, int n)
{
    layout l = measure(titles, columns, elastic, rows, n, lines->width);
    print_row(lines, &l, titles);
    for (int i = 0; i < n; i++) {
        const char *cell[HP_COLUMNS_MOST];
        for (int c = 0; c < l.columns; c++)
            cell[c] = rows[i].cell[c];
        print_row(lines, &l, cell);
    }
}
