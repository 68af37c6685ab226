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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_SHOWN = 8, LIST_TEXT = 96 };

#define FIRST_LINE (5 * HP_SEC) /* the next ones come at doubling intervals */

/* --- at the start --- */

static int
count_silent(const hp_hosts *hosts)
{
    int count = 0;
    for (int i = 0; i < hosts->count; i++)
        count += hp_host_is_silent(&hosts->host[i]);
    return count;
}

/* "node1, node2 and 5 more"; free() it. */
static char *
list_silent(const hp_hosts *hosts, int count)
{
    char *list = hp_xstrdup("");
    int named = 0;
    for (int i = 0; i < hosts->count && named < NAMES_SHOWN; i++) {
        if (!hp_host_is_silent(&hosts->host[i]))
            continue;
        const char *join = named == 0 ? "" : named + 1 == count ? " and " : ", ";
        char *longer = hp_xasprintf("%s%s%s", list, join, hosts->host[i].name);
        free(list);
        list = longer;
        named++;
    }
    if (named == count)
        return list;
    char *whole = hp_xasprintf("%s and %d more", list, count - named);
    free(list);
    return whole;
}

static void
say_who_is_silent(const hp_silence *s)
{
    int count = count_silent(s->hosts);
    if (count == 0)
        return;
    char *list = list_silent(s->hosts, count);
    hp_diag(s->output, "%s %s not answered for %g s; waiting up to %g s", list, count == 1 ? "has" : "have",
            (double)s->waited / (double)HP_SEC, (double)hp_hosts_answer_limit() / (double)HP_SEC);
    free(list);
}

static void
give_up(hp_silence *s)
{
    const hp_hosts *hosts = s->hosts;
    for (int i = 0; i < hosts->count; i++)
        if (hp_host_is_silent(&hosts->host[i]))
            hp_diag_agent_silent(s->output, hosts->host[i].name, hosts->host[i].conn, &hosts->mapping->host[i].call,
                                 (double)s->waited / (double)HP_SEC);
    s->gave_up(s->arg);
}

static void
wait_until(hp_silence *s, uint64_t time)
{
    uint64_t limit = hp_hosts_answer_limit(), next = time < limit ? time : limit;
    hp_timer_set(s->timer, next - s->waited);
    s->waited = next;
}

static void
time_is_up(void *arg)
{
    hp_silence *s = arg;
    if (s->waited >= hp_hosts_answer_limit()) {
        give_up(s);
        return;
    }
    say_who_is_silent(s);
    wait_until(s, 2 * s->waited);
}

void
hp_silence_begin(hp_silence *s)
{
    s->waited = 0;
    wait_until(s, FIRST_LINE);
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
    s->timer = hp_xcheck(hp_timer_new(loop, time_is_up, s));
}

void
hp_silence_close(hp_silence *s)
{
    hp_timer_free(s->timer);
}
