/* SPDX-License-Identifier: MIT */
/* columns: text in columns, and sentences, for a terminal of a given width. Pure. */
#ifndef HP_COLUMNS_H
#define HP_COLUMNS_H

enum { HP_COLUMNS_MOST = 10, HP_CELL = 128 };

/* Where lines go. */
typedef struct hp_line_sink {
    int width; /* of a line: sentences are broken, and rows cut; 0: any */
    void (*line)(void *arg, const char *line);
    void *arg;
} hp_line_sink;

typedef struct hp_row {
    char cell[HP_COLUMNS_MOST][HP_CELL];
} hp_row;

/*
 * A sentence, broken at blanks where it is too long, and a word only where it is longer than a line; what goes on is
 * indented by two. Returns the number of lines.
 */
int hp_columns_say(const hp_line_sink *lines, const char *text);

/*
 * The titles, and n rows: each column as wide as what it holds. If a line is too long, the blanks between columns are cut to
 * one each, then the columns whose bits are in `elastic` are cut, down to ten characters, and end with two points where text
 * is left out; then the last columns behind those are left out, and at last the line is cut.
 */
void hp_columns_print(const hp_line_sink *lines, const char *const *titles, int columns, unsigned elastic,
                      const hp_row *rows, int n);

#endif
