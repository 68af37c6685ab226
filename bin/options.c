/* SPDX-License-Identifier: MIT */
/*
 * options: getopt_long and a check of every value. Sentences name the option as a user of hooprun writes it.
 */
#include "bin/options.h"

#include "bin/must.h"
#include "bin/variables.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECONDS_MAX = 1000000000 };

static const struct option known[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"hosts", required_argument, NULL, 'H'},
    {"hostfile", required_argument, NULL, 'f'},
    {"per-host", required_argument, NULL, 'N'},
    {"env", required_argument, NULL, 'x'},
    {"wdir", required_argument, NULL, 'd'},
    {"label", no_argument, NULL, 'l'},
    {"output-dir", required_argument, NULL, 'o'},
    {"timeout", required_argument, NULL, 't'},
    {"rsh", required_argument, NULL, 'r'},
    {"ssh-port", required_argument, NULL, 'p'},
    {"prefix", required_argument, NULL, 'P'},
    {"bind", no_argument, NULL, 'b'},
    {"map", no_argument, NULL, 'm'},
    {"dry-run", no_argument, NULL, 'D'},
    {"verbose", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};

static hoop_result
take_number(int *number, const char *option, const char *text, long most, hoop_error *error)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || value < 1 || value > most)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s %.40s: write a whole number from 1 to %ld", option,
                          text, most);
    *number = (int)value;
    return HOOP_SUCCESS;
}

static hoop_result
take_timeout(uint64_t *timeout, const char *text, hoop_error *error)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value > 0) || value > SECONDS_MAX)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "--timeout %.40s: write a number of seconds, as in --timeout 90 or --timeout 0.5", text);
    *timeout = (uint64_t)(value * (double)HP_SEC);
    return HOOP_SUCCESS;
}

/* PWD rather than getcwd where both mean the same: hosts that share a name often do not share what is behind it. */
static char *
own_folder(void)
{
    const char *pwd = getenv("PWD");
    struct stat a, b;
    char *here;

    if (pwd != NULL && pwd[0] == '/' && stat(pwd, &a) == 0 && stat(".", &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        return hp_must(strdup(pwd));
    here = getcwd(NULL, 0);
    return here ? here : hp_must(strdup("/"));
}

/* Folders are said relative to where the user is. */
static char *
absolute(const hp_options *options, const char *path)
{
    if (path[0] == '/')
        return hp_must(strdup(path));
    return hp_must_print("%s/%s", options->here, path);
}

static hoop_result
take_variable(hp_options *options, const char *wish, hoop_error *error)
{
    size_t before = options->variables.count;
    hoop_result result = hp_variables_wish(&options->variables, wish, error);

    if (result == HOOP_SUCCESS && options->variables.count == before)
        fprintf(stderr,
                "hooprun: -x %s: there is no such variable here, so the ranks do not get it; write -x %s=VALUE\n", wish,
                wish);
    return result;
}

static hoop_result
said_twice(hoop_error *error)
{
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "the hosts are given twice; write one of -H and --hostfile");
}

static hoop_result
take_hostfile(hp_options *options, const char *path, hoop_error *error)
{
    if (options->hosts.count > 0)
        return said_twice(error);
    options->hostfile = 1;
    options->stdin_used = strcmp(path, "-") == 0;
    return hp_hosts_read(&options->hosts, path, error);
}

static hoop_result
take_hosts(hp_options *options, const char *list, hoop_error *error)
{
    hoop_result result;

    if (options->hostfile)
        return said_twice(error);
    result = hp_hosts_parse(&options->hosts, "-H", 0, list, strlen(list), error);
    if (result == HOOP_SUCCESS && options->hosts.count == 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "-H names no host; write -H node1:2,node2:2");
    return result;
}

static hoop_result
take_text(char **text, char *value)
{
    free(*text);
    *text = value;
    return HOOP_SUCCESS;
}

static hoop_result
take(hp_options *o, int option, char *value, hoop_error *error)
{
    switch (option) {
    case 'n': return take_number(&o->ranks, "-n", value, 65536, error);
    case 'N': return take_number(&o->per_host, "-N", value, 65536, error);
    case 'p': return take_number(&o->ssh_port, "--ssh-port", value, 65535, error);
    case 'H': return take_hosts(o, value, error);
    case 'f': return take_hostfile(o, value, error);
    case 'x': return take_variable(o, value, error);
    case 't': return take_timeout(&o->timeout, value, error);
    case 'd': return take_text(&o->wdir, absolute(o, value));
    case 'o': return take_text(&o->output_dir, absolute(o, value));
    case 'P': return take_text(&o->prefix, absolute(o, value));
    case 'r': hp_words_add(&o->rsh, hp_must(strdup(value))); break;
    case 'l': o->label = 1; break;
    case 'b': o->bind = 1; break;
    case 'm': o->map = 1; break;
    case 'D': o->dry_run = 1; break;
    case 'v': o->verbose = 1; break;
    default:
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "hoop-launch takes its options from hooprun; start programs with hooprun");
    }
    return HOOP_SUCCESS;
}

int
hp_options_parse(hp_options *options, int argc, char **argv)
{
    hoop_error error;
    int option;

    *options = (hp_options){.here = own_folder()};
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+", known, NULL)) != -1)
        if (take(options, option, optarg, &error) != HOOP_SUCCESS) {
            fprintf(stderr, "hooprun: %s\n", error.text);
            return 2;
        }
    if (optind == argc) {
        fprintf(stderr,
                "hooprun: there is no program to run; write it behind the options, as in: hooprun -n 4 ./train\n");
        return 2;
    }
    if (options->rsh.count == 0)
        hp_words_add(&options->rsh, hp_must(strdup("ssh")));
    options->argv = argv + optind;
    return 0;
}

void
hp_options_free(hp_options *options)
{
    hp_hosts_free(&options->hosts);
    hp_words_free(&options->variables);
    hp_words_free(&options->rsh);
    free(options->wdir);
    free(options->here);
    free(options->output_dir);
    free(options->prefix);
}
