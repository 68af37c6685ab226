/* SPDX-License-Identifier: MIT */
/*
 * options: finds each word's row in options.def; the kind of the row says how the value is read and checked. Messages name the
 * option as the user wrote it. --help, the list for the shell's completion, and advice for unknown options come from the
 * same rows.
 */
#include "launch/options.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/number.h"
#include "base/option.h"
#include "launch/rank_env.h"
#include "launch/xalloc.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wordexp.h>

enum { SECONDS_MAX = 1000000000, RANKS_MAX = 65536, PORT_MAX = 65535, GO_ON = HP_OPTIONS_RUN };
enum { NAME_SIZE = 40, COLUMN = 32 };

/* One option of the command line: its row, and where its value goes. */
typedef struct given {
    hp_options *options;
    void *field;
    const char *option, *value; /* as the user wrote them */
    const char *words;          /* of a choice */
    int status;                 /* GO_ON, or the exit status */
} given;

/* --- kinds of values --- */

/* The position of the word among the row's. */
static hoop_result
take_choice(given *g, hoop_error *error)
{
    const char *word = g->words;
    size_t n = strlen(g->value);
    int number = 0;
    while (strncmp(word, g->value, n) != 0 || (word[n] != '|' && word[n] != '\0')) {
        word = strchr(word, '|');
        if (!word)
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s=%.40s: write one of %s", g->option, g->value,
                              g->words);
        word++;
        number++;
    }
    *(int *)g->field = number;
    return HOOP_SUCCESS;
}

static hoop_result
take_number(given *g, int least, int most, hoop_error *error)
{
    if (!hp_number_parse_int(g->value, least, most, g->field))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s %.40s: write a whole number from %d to %d", g->option,
                          g->value, least, most);
    return HOOP_SUCCESS;
}

/* MIN or MIN:MAX. */
static hoop_result
take_range(given *g, int most, hoop_error *error)
{
    hp_option_range *range = g->field;
    const char *colon = strchr(g->value, ':');
    char *first = hp_xstrndup(g->value, strcspn(g->value, ":"));
    *range = (hp_option_range){0};
    int fits = hp_number_parse_int(first, 1, most, &range->least) &&
               (!colon || hp_number_parse_int(colon + 1, 1, most, &range->most));
    free(first);
    if (!fits)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%s %.40s: write a whole number from 1 to %d, or two of them, as in %s 2:4", g->option,
                          g->value, most, g->option);
    if (range->most > 0 && range->most < range->least)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%s %d:%d: the first number is the least, the second the most; write %s %d:%d", g->option,
                          range->least, range->most, g->option, range->most, range->least);
    return HOOP_SUCCESS;
}

static hoop_result
take_seconds(given *g, hoop_error *error)
{
    char *end;
    double value = strtod(g->value, &end);
    if (end == g->value || *end != '\0' || !(value * (double)HP_SEC >= 1) || value > SECONDS_MAX)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%s %.40s: write a number of seconds above 0, as in %s 90 or %s 0.5", g->option, g->value,
                          g->option, g->option);
    *(uint64_t *)g->field = (uint64_t)(value * (double)HP_SEC);
    return HOOP_SUCCESS;
}

static hoop_result
take_variable(given *g, hoop_error *error)
{
    hp_strings *variables = &g->options->variables;
    size_t before = variables->count;
    hoop_result result = hp_rank_env_option(variables, g->value, error);
    if (result == HOOP_SUCCESS && variables->count == before)
        fprintf(stderr,
                "hooprun: -x %s: there is no such variable here, so the ranks do not get it; write -x %s=VALUE\n",
                g->value, g->value);
    return result;
}

static hoop_result
read_hostfile(hp_options *options, const char *path, hoop_error *error)
{
    options->hostfile = 1;
    options->stdin_used = strcmp(path, "-") == 0;
    return hp_hostfile_read(&options->hosts, path, error);
}

static hoop_result
take_hosts(given *g, int from_file, hoop_error *error)
{
    hp_host_list *hosts = &g->options->hosts;
    if (from_file ? hosts->count > 0 : g->options->hostfile)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "the hosts are given twice; write one of -H and --hostfile");
    if (from_file)
        return read_hostfile(g->options, g->value, error);
    hoop_result result = hp_hostfile_parse(hosts, "-H", 0, g->value, strlen(g->value), error);
    if (result == HOOP_SUCCESS && hosts->count == 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "-H names no host; write -H node1:2,node2:2");
    return result;
}

/* A shell's words: --rsh "ssh -F 'my config'". */
static hoop_result
read_rsh(hp_strings *rsh, const char *command, hoop_error *error)
{
    wordexp_t words;
    int result = wordexp(command, &words, 0);
    if (result == WRDE_NOSPACE)
        hp_xcheck(NULL);
    if (result == WRDE_BADCHAR)
        return hp_err_set(
            error, HOOP_ERR_INVALID_ARGUMENT,
            "--rsh %.100s: the value is a program and its arguments, not a script of the shell; put quotes "
            "around | & ; < > ( ) { }",
            command);
    if (result != 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "--rsh %.100s: the quotes in it do not match", command);
    hp_strings_free(rsh);
    for (size_t i = 0; i < words.we_wordc; i++)
        hp_strings_add(rsh, hp_xstrdup(words.we_wordv[i]));
    wordfree(&words);
    if (rsh->count > 0)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "--rsh %.100s: the command is empty", command);
}

/* --- the rows of options.def --- */

enum value_kind {
    KIND_flag,
    KIND_choice,
    KIND_count,
    KIND_number,
    KIND_port,
    KIND_range,
    KIND_seconds,
    KIND_folder,
    KIND_hosts,
    KIND_hostfile,
    KIND_variable,
    KIND_rsh,
    KIND_help,
    KIND_version,
    KIND_completion
};

static const struct row {
    enum value_kind kind;
    const char *word, *names, *value, *help;
    size_t field;
} rows[] = {
#define HP_OPTION(field, kind, names, value, help)                                                                     \
    {KIND_##kind, #kind, names, value, help, offsetof(hp_options, field)},
#define HP_AGENT_OPTION(field, kind, names, value, help)                                                               \
    {KIND_##kind, #kind, names, value, help, offsetof(hp_options, agent.field)},
#define HP_OTHER_OPTION(kind, names, value, help) {KIND_##kind, #kind, names, value, help, 0},
#include "launch/options.def"
};

static const struct {
    const char *names, *advice;
} foreign[] = {
#define HP_FOREIGN(names, advice) {names, advice},
#include "launch/options.def"
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]), FOREIGN = sizeof(foreign) / sizeof(foreign[0]) };

static const char *
bare(const char *word)
{
    return word + (word[0] == '-') + (word[0] == '-' && word[1] == '-');
}

/* Copies the next name of a list; returns the rest of the list, or NULL: no more names. */
static const char *
next_name(const char *names, char name[NAME_SIZE])
{
    names += strspn(names, " |");
    size_t n = strcspn(names, " ");
    snprintf(name, NAME_SIZE, "%.*s", (int)n, names);
    return n > 0 ? names + n : NULL;
}

/* Whether `word`, without its dashes, is among the names. */
static int
has_name(const char *names, const char *word)
{
    char name[NAME_SIZE];
    while ((names = next_name(names, name)))
        if (strcmp(bare(name), bare(word)) == 0)
            return 1;
    return 0;
}

static void
print_usage(FILE *to)
{
    fprintf(to,
            "Usage: hooprun [-n RANKS] [-H HOST:SLOTS,... | --hostfile FILE] [OPTION...] PROGRAM [ARGUMENT...]\n\n");
    for (size_t i = 0; i < ROWS; i++) {
        char line[256] = "", name[NAME_SIZE];
        const char *names = rows[i].names, *end = strchr(names, '|');
        size_t n = 0;
        while (n < sizeof(line) && (names = next_name(names, name)) && (!end || names <= end))
            n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%s",
                                  n                        ? ", "
                                  : strncmp(name, "--", 2) ? "  "
                                                           : "      ",
                                  name);
        if (n == 0 || n >= sizeof(line))
            continue; /* no name is shown */
        snprintf(line + n, sizeof(line) - n, " %s", rows[i].value);
        fprintf(to, "%-*s%s\n", COLUMN - 1, line, rows[i].help);
    }
    fprintf(to, "\n  hooprun -n 4 ./train                     four ranks here\n"
                "  hooprun --hostfile hosts -x LR=0.1 ./train\n");
}

/* For the shell's completion: a line for every name, with its kind and its value. */
static void
list_names(void)
{
    char name[NAME_SIZE];
    for (size_t i = 0; i < ROWS; i++) {
        const char *names = rows[i].names;
        while (names[0] != '|' && (names = next_name(names, name)))
            printf("%s %s %s\n", name, rows[i].word, rows[i].value);
    }
}

/* The nearest known name; none, if too much of the word differs. */
static int
nearest(const char *word, char best[NAME_SIZE])
{
    hp_nearest search = hp_nearest_of(bare(word));
    char name[NAME_SIZE];
    best[0] = '\0';
    for (size_t i = 0; i < ROWS; i++) {
        const char *names = rows[i].names;
        while ((names = next_name(names, name)))
            if (hp_nearest_try(&search, bare(name)))
                memcpy(best, name, NAME_SIZE);
    }
    return best[0] != '\0';
}

static hoop_result
unknown(const char *name, hoop_error *error)
{
    static const char where[] = "hooprun --help lists them all";
    const char *advice = NULL; /* of an option of another launcher */
    char best[NAME_SIZE], pattern[NAME_SIZE];
    for (size_t i = 0; i < FOREIGN && !advice; i++) {
        const char *names = foreign[i].names;
        while (!advice && (names = next_name(names, pattern)))
            advice = fnmatch(pattern, bare(name), 0) == 0 ? foreign[i].advice : NULL;
    }
    if (advice)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "there is no option %.60s; %s. %s", name, advice, where);
    if (nearest(name, best))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "there is no option %.60s; the nearest one is %s. %s", name,
                          best, where);
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "there is no option %.60s. %s", name, where);
}

/* --- the command line --- */

/* The value of an option, by its kind. */
static hoop_result
take_value(given *g, enum value_kind kind, hoop_error *error)
{
    char **folder = g->field;
    switch (kind) {
    case KIND_flag: *(int *)g->field = 1; break;
    case KIND_choice: return take_choice(g, error);
    case KIND_count: return take_number(g, 1, RANKS_MAX, error);
    case KIND_number: return take_number(g, 0, RANKS_MAX, error);
    case KIND_port: return take_number(g, 1, PORT_MAX, error);
    case KIND_range: return take_range(g, RANKS_MAX, error);
    case KIND_seconds: return take_seconds(g, error);
    case KIND_hosts:
    case KIND_hostfile: return take_hosts(g, kind == KIND_hostfile, error);
    case KIND_variable: return take_variable(g, error);
    case KIND_rsh: return read_rsh(&g->options->rsh, g->value, error);
    case KIND_folder: /* relative to where the user is */
        free(*folder);
        *folder = g->value[0] == '/' ? hp_xstrdup(g->value) : hp_xasprintf("%s/%s", g->options->here, g->value);
        break;
    case KIND_help: print_usage(stdout); break;
    case KIND_completion: list_names(); break;
    case KIND_version:
        printf("hooprun (hoop) %d.%d.%d\n", HOOP_VERSION_MAJOR, HOOP_VERSION_MINOR, HOOP_VERSION_PATCH);
        break;
    }
    if (kind >= KIND_help)
        g->status = 0;
    return HOOP_SUCCESS;
}

/* Takes the option at argv[*at]; *at moves behind it and its value. */
static hoop_result
take_option(hp_options *options, char **argv, int *at, int *status, hoop_error *error)
{
    char *name = hp_xstrdup(argv[*at]), *joined = NULL, *equals = strchr(name, '=');
    /* --name=value and -n4 are cut to the name. */
    if ((strncmp(name, "-n", 2) == 0 || strncmp(name, "-N", 2) == 0) && isdigit((unsigned char)name[2])) {
        joined = hp_xstrdup(name + 2);
        name[2] = '\0';
    } else if (equals) {
        joined = hp_xstrdup(equals + 1);
        *equals = '\0';
    }
    const struct row *row = NULL;
    given g = {.options = options, .option = name, .value = joined, .status = GO_ON};
    hoop_result result;
    for (size_t i = 0; i < ROWS && !row; i++)
        row = has_name(rows[i].names, name) ? &rows[i] : NULL;
    *at += 1;
    if (row && row->value[0] != '\0' && !joined && argv[*at])
        g.value = argv[(*at)++];
    if (!row) {
        result = unknown(name, error);
    } else if (row->value[0] == '\0' && joined) {
        result = hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s takes no value; write %s alone", name, name);
    } else if (row->value[0] != '\0' && !g.value) {
        result =
            hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s needs a value after it; hooprun --help shows which", name);
    } else if (row->value[0] != '\0' && g.value[0] == '\0') {
        result = hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s needs a value that is not empty", name);
    } else {
        g.field = (char *)options + row->field;
        g.words = row->value;
        result = take_value(&g, row->kind, error);
    }
    *status = g.status;
    free(joined);
    free(name);
    return result;
}

/* --- the environment --- */

/* The batch system's hosts: all of them, or those that the user lists. */
static hoop_result
take_allocation(hp_options *options, int listed, hoop_error *error)
{
    hp_allocation *allocation = &options->allocation;
    if (hp_allocation_find(allocation, error) != HOOP_SUCCESS)
        return error->code;
    if (!allocation->reach)
        return HOOP_SUCCESS;
    if (options->rsh.count == 0 && options->ssh_port == 0 &&
        read_rsh(&options->rsh, allocation->reach, error) != HOOP_SUCCESS)
        return error->code;
    if (listed)
        return hp_allocation_narrow(allocation, &options->hosts, error);
    options->hosts = allocation->hosts;
    allocation->hosts = (hp_host_list){0};
    options->whole_allocation = 1;
    return HOOP_SUCCESS;
}

/* A user who lists the hosts and names the remote shell needs nothing of a batch system. */
static hoop_result
take_environment(hp_options *options, hoop_error *error)
{
    static const char everybody[] = "/etc/mpi/hostfile";
    const char *hostfile = getenv("HOOP_HOSTFILE"), *rsh = getenv("HOOP_RSH");
    int listed = options->hosts.count > 0 || options->hostfile; /* the user lists the hosts */
    hoop_result result = HOOP_SUCCESS;
    if (!listed && hostfile && hostfile[0] != '\0') {
        listed = 1;
        result = read_hostfile(options, hostfile, error);
    }
    if (result == HOOP_SUCCESS && options->rsh.count == 0 && rsh && rsh[0] != '\0')
        result = read_rsh(&options->rsh, rsh, error);
    if (result == HOOP_SUCCESS && !(listed && (options->rsh.count > 0 || options->ssh_port > 0)))
        result = take_allocation(options, listed, error);
    if (result == HOOP_SUCCESS && options->rsh.count == 0)
        result = read_rsh(&options->rsh, "ssh", error);
    if (result == HOOP_SUCCESS && !listed && !options->whole_allocation && access(everybody, R_OK) == 0)
        result = read_hostfile(options, everybody, error);
    return result;
}

static hoop_result
take_program(hp_options *options, char **argv, hoop_error *error)
{
    int marked = argv[0] && strcmp(argv[0], "--") == 0;
    argv += marked;
    /* Open MPI and MPICH separate programs by ':'; here the second would become arguments of the first. */
    for (int i = 1; !marked && argv[0] && argv[i]; i++)
        if (strcmp(argv[i], ":") == 0 && argv[i + 1])
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                              "':' would start several programs, and hooprun starts one; let a script choose by "
                              "$HOOP_RANK, or write -- before the program if ':' is an argument of it");
    if (!argv[0])
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "there is no program to run; write it after the options, as in: hooprun -n 4 ./train");
    if (!argv[0][0])
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "the name of the program is empty; is a variable of the shell not set?");
    if ((options->tee || options->force) && !options->output_dir)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "--%s goes with --output-dir DIR, the folder for the ranks' files",
                          options->tee ? "tee" : "force");
    if (options->agent.max_restarts > 0 && options->elastic.least == 0)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "--max-restarts %d goes with --elastic: while a rank is started again, the others must go on "
                          "without it, as with hoop_comm_shrink; write --elastic 1 --max-restarts %d",
                          options->agent.max_restarts, options->agent.max_restarts);
    options->argv = argv;
    /* With --pty=auto ranks get a terminal if their output is shown on one. */
    if (options->agent.pty == HP_PTY_AUTO && !(isatty(STDOUT_FILENO) && (!options->output_dir || options->tee)))
        options->agent.pty = HP_PTY_NEVER;
    return take_environment(options, error);
}

int
hp_options_parse(hp_options *options, int argc, char **argv)
{
    hoop_result result = HOOP_SUCCESS;
    int at = 1, status = GO_ON;
    hoop_error error;
    /*
     * PWD rather than getcwd if both are the same folder: other hosts may have the same path, but not the folder that a
     * link leads to here. The kernel marks a folder that was deleted; no rank can change into it.
     */
    const char *pwd = getenv("PWD");
    char here[PATH_MAX] = "/";
    struct stat a, b;
    if (!pwd || pwd[0] != '/' || stat(pwd, &a) < 0 || stat(".", &b) < 0 || a.st_dev != b.st_dev ||
        a.st_ino != b.st_ino) {
        ssize_t n = readlink("/proc/self/cwd", here, sizeof(here) - 1);
        here[n > 0 ? n : 1] = '\0';
        pwd = here;
    }
    *options = (hp_options){.here = hp_xstrdup(pwd)};
    if (argc == 1) {
        print_usage(stderr);
        return 2;
    }
    while (result == HOOP_SUCCESS && status == GO_ON && at < argc && argv[at][0] == '-' && argv[at][1] != '\0' &&
           strcmp(argv[at], "--") != 0)
        result = take_option(options, argv, &at, &status, &error);
    if (result == HOOP_SUCCESS && status == GO_ON)
        result = take_program(options, argv + at, &error);
    if (result == HOOP_SUCCESS)
        return status;
    fprintf(stderr, "hooprun: %s\n", error.text);
    return 2;
}

void
hp_options_free(hp_options *options)
{
    hp_hostfile_free(&options->hosts);
    hp_allocation_free(&options->allocation);
    hp_strings_free(&options->variables);
    hp_strings_free(&options->rsh);
    free(options->wdir);
    free(options->here);
    free(options->output_dir);
    free(options->flight_dir);
    free(options->prefix);
}
