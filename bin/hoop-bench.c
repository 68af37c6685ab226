/* SPDX-License-Identifier: MIT */
/* hoop-bench: times and checks the collectives, with nccl-tests' face. What it does is in perf/. */
#include "hoop.h"
#include "perf/options.h"
#include "perf/run.h"

#include <stdio.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
    perf_run run = {.report = {.argc = argc, .argv = argv}};
    char why[256], gpu[256] = "";
    int wanted = perf_options_read(&run.options, argc, argv, why, sizeof(why));
    if (wanted == PERF_HELP)
        return fputs(perf_options_help(), stdout) < 0;
    if (wanted == PERF_VERSION) {
        hoop_gpu_describe(gpu, sizeof(gpu));
        return printf("hoop-bench %s\nGPU: %s\n", hoop_version(), gpu) < 0;
    }
    if (wanted == PERF_LIST) {
        perf_options_list();
        return 0;
    }
    perf_need(&run, hoop_comm_create(&run.comm, NULL));
    run.rank = hoop_comm_rank(run.comm);
    run.ranks = run.report.ranks = hoop_comm_size(run.comm);
    run.terminal = isatty(STDERR_FILENO);
    run.report.options = &run.options;
    if (wanted == PERF_WRONG)
        perf_refuse(&run, 2, why);
    int failed = perf_run_all(&run);
    perf_need(&run, hoop_comm_destroy(run.comm));
    return failed;
}
