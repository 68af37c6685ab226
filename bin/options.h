/* SPDX-License-Identifier: MIT */
/*
 * options: hoop-launch's command line, the one canonical form that hooprun turns every dialect into. Not meant to be
 * typed:
 *
 *     hoop-launch [--ranks N] [--hosts LIST]... [--hostfile FILE] [--per-host N] [--env NAME[=VALUE]]... [--wdir DIR]
 *         [--label] [--output-dir DIR] [--timeout SECONDS] [--rsh WORD]... [--ssh-port N] [--prefix DIR] [--bind]
 *         [--map] [--dry-run] [--verbose] -- PROGRAM [ARGUMENT...]
 */
#ifndef HP_OPTIONS_H
#define HP_OPTIONS_H

#include "bin/hostfile.h"
#include "bin/orders.h"

typedef struct hp_options {
    int ranks, per_host; /* 0: not said */
    hp_hosts hosts;      /* of --hosts and --hostfile; none: this machine */
    int hostfile;        /* they came from a file, */
    int stdin_used;      /* which was standard input */
    hp_words variables;  /* NAME=value, of --env */
    char *wdir;          /* absolute, or NULL */
    char *here;          /* the folder we were started in, as the user calls it */
    int label;
    char *output_dir;
    uint64_t timeout; /* ns; 0: none */
    hp_words rsh;     /* the remote shell's words */
    int ssh_port;     /* 0: not said */
    char *prefix;
    int bind, map, dry_run, verbose;
    char **argv; /* the program */
} hp_options;

/* 0, or the exit status after a sentence on standard error: 2. */
int hp_options_parse(hp_options *options, int argc, char **argv);
void hp_options_free(hp_options *options);

#endif
