/* SPDX-License-Identifier: MIT */
/* columns: see columns.h. */
#include "rendezvous/columns.h"

#include <stdio.h>
#include <string.h>

enum { GAP = 2, LINE = HP_COLUMNS_MOST * (HP_CELL + GAP), INDENT = 2, ELASTIC_LEAST = 10 };

typedef struct layout {
    int columns, elastic, gap;
    int width[HP_COLUMNS_MOST];
} layout;

/* Where a text has to be broken to fit; its length if it fits. A word that is too long for a line is not broken. */
static size_t
break_at(const char *text, size_t room)
{
    size_t n = strlen(text), at = room;
    if (n <= room)
        return n;
    while (at > 0 && text[at] != ' ')
        at--;
    return at > 0 ? at : strcspn(text, " ");
}

void
hp_columns_say(const hp_line_sink *lines, const char *text)
{
    char line[LINE];
    int indent = 0;
    do {
        size_t room = lines->width ? (size_t)(lines->width > indent ? lines->width - indent : 1) : sizeof(line) - 1;
        size_t n = break_at(text, room);
        snprintf(line, sizeof(line), "%*s%.*s", indent, "", (int)n, text);
        lines->line(lines->arg, line);
        text += n;
        text += strspn(text, " ");
        indent = INDENT;
    } while (*text);
}

static int
total(const layout *l)
{
    int sum = (l->columns - 1) * l->gap;
    for (int c = 0; c < l->columns; c++)
        sum += l->width[c];
    return sum;
}

static layout
measure(const char *const *titles, int columns, int elastic, const hp_row *rows, int n, int width)
{
    layout l = {.columns = columns, .elastic = elastic, .gap = GAP};
    for (int c = 0; c < columns; c++) {
        l.width[c] = (int)strlen(titles[c]);
        for (int i = 0; i < n; i++)
            l.width[c] = (int)strlen(rows[i].cell[c]) > l.width[c] ? (int)strlen(rows[i].cell[c]) : l.width[c];
    }
    if (!width || total(&l) <= width)
        return l;
    int wanted = l.width[elastic];
    l.gap = 1;
    l.width[elastic] = wanted < ELASTIC_LEAST ? wanted : ELASTIC_LEAST;
    while (l.columns > elastic + 1 && total(&l) > width)
        l.columns--;
    int room = l.width[elastic] + width - total(&l);
    if (room > l.width[elastic])
        l.width[elastic] = room < wanted ? room : wanted;
    return l;
}

static void
print_row(const hp_line_sink *lines, const layout *l, const char *const *cell)
{
    char line[LINE + 1] = "";
    size_t at = 0;
    for (int c = 0; c < l->columns; c++) {
        int cut = (int)strlen(cell[c]) > l->width[c];
        at += (size_t)snprintf(line + at, sizeof(line) - at, "%*s%-*.*s%s", c ? l->gap : 0, "", l->width[c] - 2 * cut,
                               l->width[c] - 2 * cut, cell[c], cut ? ".." : "");
    }
    while (at > 0 && line[at - 1] == ' ')
        line[--at] = '\0';
    lines->line(lines->arg, line);
}

void
hp_columns_print(const hp_line_sink *lines, const char *const *titles, int columns, int elastic, const hp_row *rows,
                 int n)
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
