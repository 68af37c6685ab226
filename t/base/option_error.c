/* SPDX-License-Identifier: MIT */
/* option_error: the sentence for each way in which getopt_long refuses an option. */
#include "base/option.h"

#include "t/tap/tap.h"

#include <stdint.h>

static const struct option options[] = {{"once", no_argument, NULL, 'o'},
                                        {"rows", required_argument, NULL, 'r'},
                                        {"json", no_argument, NULL, 'j'},
                                        {NULL, 0, NULL, 0}};

static void
says(const char *wanted, const char *word)
{
    char *argv[] = {(char *)(uintptr_t) "program", (char *)(uintptr_t)word, NULL}, text[200];
    opterr = 0;
    optind = 0; /* glibc: begin again */
    int refused = getopt_long(2, argv, ":h", options, NULL);
    is_string(wanted, hp_option_error(refused, argv[optind - 1], optopt, options, text, sizeof(text)), "%.60s", word);
}

int
main(void)
{
    plan(8);
    says("there is no option --onces; the nearest one is --once", "--onces");
    says("there is no option --ROW; the nearest one is --rows", "--ROW");
    says("there is no option --entirely-another", "--entirely-another");
    says("--rows needs a value", "--rows");
    says("--json takes no value", "--json=3");
    says("there is no option -x", "-x");
    says("there is no option -x", "-xyz"); /* getopt_long is not yet past this word */
    char text[24];
    is_string("there is no option --on",
              hp_option_error('?', "--onces-and-for-all-and-much-longer-than-any-name-of-an-option-can-be", 0, options,
                              text, sizeof(text)),
              "it is cut off where there is no room");
    return 0;
}
