/* SPDX-License-Identifier: MIT */
/* inspection: see inspection.h. */
#include "launch/inspection.h"

#include "base/clock.h"
#include "launch/diag.h"
#include "launch/job_table.h"
#include "launch/xalloc.h"

enum { ANSWER_S = 5 };

void
hp_inspection_cancel(hp_inspection *i)
{
    i->open = 0;
    hp_timer_set(i->limit, HP_NEVER);
}

void
hp_inspection_answered(hp_inspection *i)
{
    if (!i->open)
        return;
    hp_inspection_cancel(i);
    hp_recorders_report(&i->hosts->recorders, i->server->options->flight_dir, i->server->id, i->output);
}

static void
timed_out(void *arg)
{
    hp_inspection *i = arg;
    const char *silent = hp_hosts_asked(i->hosts);
    if (silent)
        hp_diag(i->output, "%s has not sent its flight recorders within %d s; is its hooprun agent stopped?", silent,
                (int)ANSWER_S);
    hp_inspection_answered(i);
}

void
hp_inspection_open(hp_inspection *i, hp_loop *loop, hp_hosts *hosts, const hp_job_server *server, hp_output *output)
{
    *i = (hp_inspection){.hosts = hosts, .server = server, .output = output};
    i->limit = hp_xcheck(hp_timer_new(loop, timed_out, i));
}

void
hp_inspection_close(hp_inspection *i)
{
    hp_timer_free(i->limit);
}

void
hp_inspection_begin(hp_inspection *i)
{
    hp_job_table_print(i->server, i->output, HP_JOB_TABLE_ALL);
    if (i->open || hp_hosts_asked(i->hosts))
        return;
    hp_hosts_look(i->hosts);
    i->open = !!hp_hosts_asked(i->hosts);
    if (i->open)
        hp_timer_set(i->limit, ANSWER_S * HP_SEC);
}
