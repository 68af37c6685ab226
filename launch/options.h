/* SPDX-License-Identifier: MIT */
/*
 * options: hooprun's command line, in the dialects of several launchers, and the environment where the command line
 * says nothing. options.def has a row for every option.
 */
#ifndef HP_LAUNCH_OPTIONS_H
#define HP_LAUNCH_OPTIONS_H

#include "launch/agent_msg.h"
#include "launch/allocation.h"
#include "launch/hostfile.h"

/* What the fields of options.def are, by kind. */
typedef int hp_option_flag;
typedef int hp_option_count; /* 0: not given */
typedef int hp_option_port;  /* 0: not given */
typedef struct hp_option_range {
    int least, most; /* 0: not given */
} hp_option_range;
typedef uint64_t hp_option_seconds; /* in ns; 0: not given */
typedef char *hp_option_folder;     /* an absolute path; NULL: not given */

typedef struct hp_options {
#define HP_OPTION(field, kind, names, value, help) hp_option_##kind field;
#include "launch/options.def"
    hp_agent_options agent; /* the options that agents get */
    hp_host_list hosts;     /* from -H, the hostfile, or a batch system; none: this machine */
    hp_allocation allocation;
    int whole_allocation; /* the hosts are all of it: nothing lists any */
    int hostfile;         /* they came from a file, */
    int stdin_used;       /* which was standard input */
    hp_strings variables; /* NAME=value, of -x */
    hp_strings rsh;       /* the remote shell's words */
    char *here;           /* the folder hooprun was started in, as the user names it */
    char **argv;          /* the program */
} hp_options;

enum { HP_OPTIONS_RUN = -1 };

/* HP_OPTIONS_RUN; or the exit status: 0 after --help and its like, 2 after a sentence on standard error. */
int hp_options_parse(hp_options *options, int argc, char **argv);
void hp_options_free(hp_options *options);

#endif
