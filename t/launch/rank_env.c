/* SPDX-License-Identifier: MIT */
/* A rank's environment: what is handed on and what stays behind, its own variables, folders and programs in other homes. */
#include "launch/rank_env.h"

#include "launch/xalloc.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int
has(const hp_strings *strings, const char *wanted)
{
    int found = 0;
    for (size_t i = 0; i < strings->count; i++)
        found += strcmp(strings->item[i], wanted) == 0;
    return found;
}

static const char *
value_of(char **variables, const char *name)
{
    size_t n = strlen(name);
    for (; *variables; variables++)
        if (strncmp(*variables, name, n) == 0 && (*variables)[n] == '=')
            return *variables + n + 1;
    return NULL;
}

static void
check_settings(void)
{
    hp_strings words = {0}, given = {0};
    setenv("HOOP_WINDOW", "8", 1);
    setenv("HOOP_RANK", "5", 1);
    setenv("HOOP_SECRET_FD", "3", 1);
    setenv("HOOP_SECURITY", "none", 1);
    setenv("HOOPLA", "x", 1);
    setenv("HOOP_HOSTID", "1", 1);
    setenv("HOOP_ADVERTISE", "192.0.2.1", 1);
    hp_rank_env_settings(&words, &given);
    is_int(1, has(&words, "HOOP_WINDOW=8"), "settings are handed on");
    ok(!has(&words, "HOOP_RANK=5") && !has(&words, "HOOP_SECRET_FD=3") && !has(&words, "HOOP_SECURITY=none"),
       "what belongs to one job or one rank is not");
    is_int(0, has(&words, "HOOPLA=x"), "nor is what is no setting");
    ok(!has(&words, "HOOP_HOSTID=1") && !has(&words, "HOOP_ADVERTISE=192.0.2.1"),
       "nor what is true for one host alone");
    ok(strncmp(words.item[words.count - 1], "HOOPRUN_TTY=", 12) == 0, "where the terminals are");
    hp_strings_add(&given, hp_xstrdup("HOOP_WINDOW=4"));
    hp_rank_env_settings(&words, &given);
    is_string("HOOP_WINDOW=4", words.item[words.count - 1], "what -x gives comes last, and wins");
    hp_strings_free(&given);
    hp_strings_free(&words);
}

static void
check_option(void)
{
    static const char *const wrong[] = {"", "=", "=x", "1A", "A-B=x", "A B", "\xc3\xa4=1"};
    hp_strings words = {0};
    hoop_error error;
    setenv("SET", "a=b", 1);
    unsetenv("UNSET");
    ok(hp_rank_env_option(&words, "_A1=x y", &error) == HOOP_SUCCESS && has(&words, "_A1=x y"), "NAME=value");
    ok(hp_rank_env_option(&words, "SET", &error) == HOOP_SUCCESS && has(&words, "SET=a=b"), "NAME");
    ok(hp_rank_env_option(&words, "UNSET", &error) == HOOP_SUCCESS && words.count == 2, "NAME that is not set");
    ok(hp_rank_env_option(&words, "EMPTY=", &error) == HOOP_SUCCESS && has(&words, "EMPTY="), "an empty value");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        is_int(HOOP_ERR_INVALID_ARGUMENT, hp_rank_env_option(&words, wrong[i], &error), "'%s' is refused", wrong[i]);
    hp_strings_free(&words);
}

static void
check_rank(void)
{
    int numbers[] = {4, 6};
    hp_spec spec = {.world = 9, .rank = numbers, .ranks = 2, .local_first = 2, .local_size = 5};
    setenv("RANK", "outer", 1);
    setenv("HOOP_JOB", "outer", 1);
    setenv("PYTHONUNBUFFERED", "0", 1);
    hp_strings_add(&spec.variables, hp_xstrdup("HOOP_JOB=inner"));
    hp_strings_add(&spec.variables, hp_xstrdup("LR=0.1"));
    hp_rank_env_adopt(&spec);
    is_string("inner", getenv("HOOP_JOB"), "the spec's variables are adopted");
    ok(!getenv("RANK"), "an outer job's rank is removed");
    is_string("0", getenv("PYTHONUNBUFFERED"), "PYTHONUNBUFFERED stays as it is set");
    char **variables = hp_rank_env_new(&spec, 1, 3);
    static const char *const rows[][2] = {
        {"HOOP_RANK", "6"},        {"HOOP_SIZE", "9"},      {"HOOP_LOCAL_RANK", "3"},
        {"HOOP_LOCAL_SIZE", "5"},  {"HOOP_SECRET_FD", "3"}, {"RANK", "6"},
        {"WORLD_SIZE", "9"},       {"LOCAL_RANK", "3"},     {"LOCAL_WORLD_SIZE", "5"},
        {"HOOP_SECURITY", "auth"}, {"LR", "0.1"},           {"HOOP_JOB", "inner"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_string(rows[i][1], value_of(variables, rows[i][0]), "%s", rows[i][0]);
    hp_rank_env_free(variables);
    variables = hp_rank_env_new(&spec, -1, 3);
    for (size_t i = 0; i < 9; i++)
        if (strcmp(rows[i][0], "HOOP_SECRET_FD") != 0)
            ok(!value_of(variables, rows[i][0]), "one that waits for a place has no %s", rows[i][0]);
    is_string("1", value_of(variables, "HOOP_JOIN"), "HOOP_JOIN");
    for (size_t i = 9; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_string(rows[i][1], value_of(variables, rows[i][0]), "%s", rows[i][0]);
    is_string("3", value_of(variables, "HOOP_SECRET_FD"), "and the secret");
    hp_rank_env_free(variables);
    unsetenv("PYTHONUNBUFFERED");
    hp_rank_env_adopt(&spec);
    is_string("1", getenv("PYTHONUNBUFFERED"), "PYTHONUNBUFFERED is 1 where it was not set");
    hp_strings_free(&spec.variables);
}

static void
check_library(void)
{
    char *prefix = hp_xasprintf("%s/opt", tap_tmpdir()), *lib = hp_xasprintf("%s/lib64", prefix);
    char *file = hp_xasprintf("%s/libhoop.so.1", lib), *both = hp_xasprintf("%s:/before", lib);
    setenv("LD_LIBRARY_PATH", "/before", 1);
    hp_rank_env_add_library(prefix);
    is_string("/before", getenv("LD_LIBRARY_PATH"), "a prefix without the library changes nothing");
    mkdir(prefix, 0700);
    mkdir(lib, 0700);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    hp_rank_env_add_library(prefix);
    is_string(both, getenv("LD_LIBRARY_PATH"), "the library's folder goes first");
    unsetenv("LD_LIBRARY_PATH");
    hp_rank_env_add_library(prefix);
    is_string(lib, getenv("LD_LIBRARY_PATH"), "or alone");
    free(prefix);
    free(lib);
    free(file);
    free(both);
}

static void
check_homes(void)
{
    char here[PATH_MAX], there[PATH_MAX], *home = hp_xasprintf("%s/home", tap_tmpdir()),
                                          *work = hp_xasprintf("%s/jobs", home);
    char *program = hp_xasprintf("%s/train", work);
    hp_spec spec = {.home = (char *)"/users/alice", .dir = (char *)"/users/alice/jobs"};
    mkdir(home, 0700);
    mkdir(work, 0700);
    close(open(program, O_CREAT | O_WRONLY, 0700));
    setenv("HOME", home, 1);
    is_int(0, hp_rank_env_enter_folder(&spec), "a folder in the user's home is found in ours");
    is_string(realpath(work, there), getcwd(here, sizeof(here)), "by the same name");
    spec.dir_required = 1;
    is_int(-1, hp_rank_env_enter_folder(&spec), "not if --wdir asked for it");
    char *similar = hp_xasprintf("%sice", home), *inside = hp_xasprintf("%s/jobs", similar);
    mkdir(similar, 0700);
    mkdir(inside, 0700);
    spec = (hp_spec){.home = (char *)"/users/al", .dir = (char *)"/users/alice/jobs"};
    is_int(-1, hp_rank_env_enter_folder(&spec), "nor if it lies in another user's");
    spec.dir = NULL;
    is_int(0, hp_rank_env_enter_folder(&spec), "without a folder ranks run where the agent is");
    spec.home = (char *)"/users/alice";
    hp_strings_add(&spec.argv, hp_xstrdup("/users/alice/jobs/train"));
    hp_rank_env_find_program(&spec);
    is_string(program, spec.argv.item[0], "so is a program");
    free(spec.argv.item[0]);
    spec.argv.item[0] = hp_xstrdup("/users/alice/none");
    hp_rank_env_find_program(&spec);
    is_string("/users/alice/none", spec.argv.item[0], "one that is in neither keeps its name");
    hp_strings_free(&spec.argv);
    free(similar);
    free(inside);
    free(home);
    free(work);
    free(program);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_settings();
    check_option();
    check_rank();
    check_library();
    check_homes();
    return 0;
}
