/* SPDX-License-Identifier: MIT */
/*
 * columns: at every width no line is wider, text is cut between characters, and what is cut says so; names of many bytes a
 * character stand in their columns.
 */
#include "rendezvous/columns.h"

#include "base/text.h"
#include "t/rendezvous/lines.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { HOST = 1, CALL = 2, COLUMNS = 5 };

static const char *const titles[COLUMNS] = {"rank", "host", "operation", "waits for", "out"};

static hp_row
row(const char *rank, const char *host, const char *call, const char *waits)
{
    hp_row r = {.cell = {"", "", "", "", "0.00"}};
    snprintf(r.cell[0], HP_CELL, "%s", rank);
    snprintf(r.cell[HOST], HP_CELL, "%s", host);
    snprintf(r.cell[CALL], HP_CELL, "%s", call);
    snprintf(r.cell[3], HP_CELL, "%s", waits);
    return r;
}

static void
print(const hp_row *rows, int n, int width)
{
    const hp_line_sink sink = {.width = width, .line = keep};
    count = 0;
    hp_columns_print(&sink, titles, COLUMNS, 1U << HOST | 1U << CALL, rows, n);
}

static void
test_columns(void)
{
    const hp_row rows[] = {row("0", "node1", "17 allreduce of 4 x int32, sum", "data from rank 1"),
                           row("1", "ip-10-0-12-34.eu-central-1.compute.internal", "17 done", "")};
    print(rows, 2, 0);
    is_string(
        "rank  host                                         operation                       waits for         out",
        lines[0], "without a width all is shown");
    is_string(
        "1     ip-10-0-12-34.eu-central-1.compute.internal  17 done                                           0.00",
        lines[2], "blanks stand for what a row has not");
    print(rows, 2, 80);
    is_string("rank host                       operation                  waits for        out", lines[0],
              "a long host and a long call share what there is");
    is_string("0    node1                      17 allreduce of 4 x int3.. data from rank 1 0.00", lines[1],
              "the call is cut");
    is_string("1    ip-10-0-12-34.eu-central.. 17 done                                     0.00", lines[2],
              "and so is the host");
    print(rows, 2, 45);
    is_string("1    ip-10-0-1.. 17 done", lines[2], "both are cut to ten characters before a column is left out");
    ok(strstr(lines[1], "data from rank 1"), "which the last ones are: %s", lines[1]);
}

/* Letters of two, three and four bytes, and a word that is longer than most lines. */
static void
test_characters(void)
{
    const hp_row rows[] = {row("0", "n\xc3\xb6rdlich", "17 allreduce (\xce\xb1\xce\xb2\xce\xb3\xce\xb4)", "x"),
                           row("1", "\xe2\x82\xac\xf0\x9f\x98\x80-host", "17 allreduce (gradients)", "y")};
    const char *text = "job \xc3\xa4\xc3\xb6\xc3\xbc: rank 1 "
                       "(\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac) waits";
    print(rows, 2, 0);
    is_string("0     n\xc3\xb6rdlich  17 allreduce (\xce\xb1\xce\xb2\xce\xb3\xce\xb4)       x          0.00", lines[1],
              "a character is one column");
    int wide = 0, cut = 0;
    for (int width = 1; width <= 70; width++) {
        const hp_line_sink sink = {.width = width, .line = keep};
        print(rows, 2, width);
        hp_columns_say(&sink, text);
        for (int i = 0; i < count; i++) {
            wide += width > 2 && (int)hp_text_width(lines[i]) > width;
            cut += !hp_text_is_name(lines[i], strlen(lines[i]));
        }
    }
    is_int(0, wide, "no line is wider than the terminal");
    is_int(0, cut, "no character is cut");
}

static void
test_sentence(void)
{
    const hp_line_sink sink = {.width = 20, .line = keep};
    count = 0;
    is_int(3, hp_columns_say(&sink, "one two three four five six seven eight nine"), "so many lines");
    is_string("one two three four", lines[0], "broken at a blank");
    is_string("  five six seven", lines[1], "what goes on is indented");
    is_string("  eight nine", lines[2], "to the end");
    count = 0;
    is_int(2, hp_columns_say(&sink, "a-word-that-is-longer-than-it"), "a word that is too long");
    is_string("a-word-that-is-longe", lines[0], "is broken where the line ends");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_columns();
    test_characters();
    test_sentence();
    return tap_failures() != 0;
}
