/* SPDX-License-Identifier: MIT */
/* inspection: see inspection.h. */
#include "launch/inspection.h"

#include "base/clock.h"
#include "launch/terminal.h"
#include "launch/xalloc.h"

#include <unistd.h>

enum { ANSWER_S = 5, PREFIX = 9 /* "hooprun: " */ };

/* --- the table --- */

typedef struct printer {
    hp_output *output;
    int left;
} printer;

static void
say(void *arg, const char *line)
{
    printer *p = arg;
    if (p->left-- > 0)
        hp_diag(p->output, "%s", line);
}

void
hp_inspection_table(const hp_job_server *server, hp_output *output, int most)
{
    printer p = {output, most};
    int width = hp_terminal_size(STDERR_FILENO).columns - PREFIX;
    const hp_table_options options = {
        .most = most, .lines = most, .width = width > 0 ? width : 0, .line = say, .arg = &p};
    if (server->server)
        hp_server_print(server->server, &options);
    if (p.left == most)
        hp_diag(output, "no rank is in a ring of hoop now");
}

int
hp_inspection_is_stalled(const hp_job_server *server)
{
    return server->server && hp_server_stalled(server->server) >= HP_SEC;
}

/* --- the flight recorders --- */

void
hp_inspection_cancel(hp_inspection *i)
{
    i->step = HP_INSPECTION_NONE;
    hp_timer_set(i->limit, HP_NEVER);
    hp_recorders_forget(&i->hosts->recorders);
}

static void
ask(hp_inspection *i, int step)
{
    hp_hosts_look(i->hosts);
    i->step = hp_hosts_asked(i->hosts) ? step : HP_INSPECTION_NONE;
    if (i->step)
        hp_timer_set(i->limit, ANSWER_S * HP_SEC);
}

void
hp_inspection_answered(hp_inspection *i)
{
    if (i->step == HP_INSPECTION_SECOND) {
        hp_recorders_report(&i->hosts->recorders, i->server->options->flight_dir, i->server->id, i->output);
        hp_inspection_cancel(i);
    }
    if (i->step != HP_INSPECTION_FIRST)
        return;
    hp_recorders_again(&i->hosts->recorders);
    i->step = HP_INSPECTION_PAUSE;
    hp_timer_set(i->limit, HP_FLIGHT_PAUSE);
}

static void
timed_out(void *arg)
{
    hp_inspection *i = arg;
    const char *silent = hp_hosts_asked(i->hosts);
    if (i->step == HP_INSPECTION_PAUSE) {
        ask(i, HP_INSPECTION_SECOND);
        return;
    }
    if (silent && !i->named)
        hp_diag(i->output, "%s has not sent its flight recorders within %d s; is its hooprun agent stopped?", silent,
                (int)ANSWER_S);
    i->named = 1;
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
    hp_inspection_table(i->server, i->output, HP_INSPECTION_ALL);
    if (i->step || hp_hosts_asked(i->hosts))
        return;
    i->named = 0;
    ask(i, HP_INSPECTION_FIRST);
}
