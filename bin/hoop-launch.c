/* SPDX-License-Identifier: MIT */
/*
 * hoop-launch: the program behind hooprun(1), in three roles: the launcher, which places ranks and watches over them, with
 * --agent its hand on one host, and with --serve its rendezvous server. Here is only which of them, and how the program
 * ends.
 */
#include "base/err.h"
#include "base/mem.h"
#include "hoop.h"
#include "launch/agent.h"
#include "launch/rank_env.h"
#include "launch/recorders.h"
#include "launch/run.h"
#include "launch/server_process.h"
#include "launch/spawn.h"
#include "lib/config.h"
#include "lib/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ended by a signal, it dies of that signal, so that a shell's loop around it ends too. */
static int
die_of(int number)
{
    sigset_t set;
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    return 128 + number;
}

static const char *
look_up(const char *name)
{
    return getenv(name);
}

/* mpirun hooprun: each of several processes would be a launcher with a ring of its own. */
static hoop_result
refuse_to_be_many(hoop_error *error)
{
    const hp_launcher_settings settings = {.job = ""};
    hp_launcher l;
    if (hp_launcher_find(&l, &settings, look_up, error) != HOOP_SUCCESS || l.size <= 1)
        return HOOP_SUCCESS;
    return hp_err_set(
        error, HOOP_ERR_INVALID_USAGE,
        "%s has started hooprun %d times (%s), and each would start all ranks in a ring of its own; start "
        "hooprun once, outside of that launcher, or start the program itself with it, as hoop_launch(7) "
        "shows",
        getenv("HOOP_SECRET_FD") ? "hooprun" : l.name, l.size, l.size_name);
}

/* What is handed to all ranks: each of them would say the same of it. Settings files are those of their hosts. */
static hoop_result
check_settings(const hp_options *options, hoop_error *error)
{
    hp_strings words = {0};
    hp_rank_env_settings(&words, &options->variables);
    hoop_result result = hp_config_check(words.item, words.count, error);
    hp_strings_free(&words);
    return result;
}

static int
launch(int argc, char **argv)
{
    hp_options options;
    hp_mapping mapping = {0};
    hoop_error error;
    signal(SIGTTOU, SIG_IGN); /* in the background, under "stty tostop", it would be stopped without its agents */
    int status = hp_options_parse(&options, argc, argv), by_signal = 0;
    if (status == HP_OPTIONS_RUN &&
        (check_settings(&options, &error) != HOOP_SUCCESS ||
         hp_mapping_make(&mapping, &options, &error) != HOOP_SUCCESS || refuse_to_be_many(&error) != HOOP_SUCCESS ||
         hp_recorders_check(options.flight_dir, &error) != HOOP_SUCCESS)) {
        fprintf(stderr, "hooprun: %s\n", error.text);
        status = 2;
    }
    if (status == HP_OPTIONS_RUN)
        hp_mapping_announce(&mapping);
    if (status == HP_OPTIONS_RUN && (options.map || options.dry_run))
        hp_mapping_print(&mapping);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "hooprun: cannot write to standard output: %s\n", strerror(errno));
        status = 1;
    }
    if (status == HP_OPTIONS_RUN)
        status = options.dry_run ? 0 : hp_run_to_end(&options, &mapping, &by_signal);
    hp_mapping_free(&mapping);
    hp_options_free(&options);
    return by_signal ? die_of(by_signal) : status;
}

int
main(int argc, char **argv)
{
    int is_open = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    hp_secmem_hide_process(); /* a rank is another program, and is not hidden */
    signal(SIGXFSZ, SIG_IGN); /* a limit of file size (ulimit -f) is an error of the write */
    hp_spawn_fill_standard();
    hp_spawn_many_files();
    if (argc == 2 && strcmp(argv[1], "--agent") == 0)
        return hp_agent_main();
    if (argc == 2 && strcmp(argv[1], "--serve") == 0)
        return hp_server_process_main();
    if (!is_open)
        fprintf(stderr, "hooprun: standard output is closed; to drop what the ranks print, write >/dev/null\n");
    return is_open ? launch(argc, argv) : 2;
}
