/* SPDX-License-Identifier: MIT */
/* option_list: names, letters, kinds; hidden options and second names are not listed. */
#include "base/option.h"

#include "t/tap/tap.h"

#include <stdio.h>

enum { OPT_PTY = 256 };

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},     {"rows", required_argument, NULL, 'r'},
    {"lines", required_argument, NULL, 'r'},      {"pty", required_argument, NULL, OPT_PTY},
    {"secret", optional_argument, NULL, 's'},     {"once", no_argument, NULL, '1'},
    {"complete-options", no_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};

static const hp_option_kind kinds[] = {
    {'o', "file", "FILE"}, {OPT_PTY, "choice", "auto|never"}, {'c', "hidden", ""}, {0, NULL, NULL}};

int
main(void)
{
    char text[300] = "";
    plan(1);
    FILE *printed = tmpfile();
    if (!printed)
        bail("no scratch file");
    hp_option_list(printed, options, "o1", kinds);
    rewind(printed);
    text[fread(text, 1, sizeof(text) - 1, printed)] = '\0';
    is_string("--output file FILE\n-o file FILE\n--rows text VALUE\n--pty choice auto|never\n--secret text VALUE\n"
              "--once flag \n-1 flag \n",
              text, "a line for each name");
    return 0;
}
