/* SPDX-License-Identifier: MIT */
/*
 * silence: see silence.h. At the end a host of a remote shell counts only: what runs on this machine is killed with its
 * agent (hp_hosts_kill).
 */
#include "launch/silence.h"

#include "base/clock.h"
#include "launch/diag.h"
#include "launch/xalloc.h"
#include "rendezvous/unreachable.h"

#include <stdlib.h>

enum { LIST_TEXT = 96 };

/* --- at the start --- */

static void
give_up(void *arg)
{
    hp_silence *s = arg;
    const hp_hosts *hosts = s->hosts;
    for (int i = 0; i < hosts->count; i++)
        if (hp_host_is_silent(&hosts->host[i]))
            hp_diag_agent_silent(s->output, hosts->host[i].name, hosts->host[i].conn, &hosts->mapping->host[i].call,
                                 (double)hp_hosts_answer_limit() / (double)HP_SEC);
    s->gave_up(s->arg);
}

void
hp_silence_begin(hp_silence *s)
{
    hp_timer_set(s->timer, hp_hosts_answer_limit());
}

void
hp_silence_end(hp_silence *s)
{
    hp_timer_set(s->timer, HP_NEVER);
}

/* --- at the end --- */

static void
report_host(const hp_silence *s, const hp_host *host)
{
    char list[LIST_TEXT];
    uint8_t *left = hp_xcalloc((size_t)s->hosts->mapping->ranks.size, 1);
    int count = 0;
    for (int rank = host->first; rank < host->first + host->count; rank++)
        count += left[rank] = !s->hosts->process[rank].ended;
    if (count > 0)
        hp_diag(s->output, "%s did not answer; rank%s %s may still run there", host->name, count == 1 ? "" : "s",
                hp_unreachable_list(left, s->hosts->mapping->ranks.size, list, sizeof(list)));
    free(left);
}

void
hp_silence_report(hp_silence *s)
{
    const hp_hosts *hosts = s->hosts;
    if (s->reported)
        return;
    s->reported = 1;
    for (int i = 0; i < hosts->count; i++)
        if (hosts->host[i].has_spec && !hosts->host[i].done && !hosts->mapping->host[i].here)
            report_host(s, &hosts->host[i]);
}

/* --- life --- */

void
hp_silence_open(hp_silence *s, hp_loop *loop, const hp_hosts *hosts, hp_output *output, void (*gave_up)(void *arg),
                void *arg)
{
    *s = (hp_silence){.hosts = hosts, .output = output, .gave_up = gave_up, .arg = arg};
    s->timer = hp_xcheck(hp_timer_new(loop, give_up, s));
}

void
hp_silence_close(hp_silence *s)
{
    hp_timer_free(s->timer);
}
