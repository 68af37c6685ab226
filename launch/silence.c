/* SPDX-License-Identifier: MIT */
/*
 * silence: see silence.h. While ranks run, and at the end, only hosts of a remote shell count: what runs on this machine
 * is killed with its agent (hp_hosts_kill).
 */
#include "launch/silence.h"

#include "base/clock.h"
#include "base/say.h"
#include "launch/xalloc.h"
#include "lib/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { NAMES_SHOWN = 8 };

#define FIRST_LINE (5 * HP_SEC)   /* at the start; the next ones come at doubling intervals */
#define QUIET_LIMIT (10 * HP_SEC) /* while ranks run: likewise, or after a third of the time-out */
#define LOOK (500 * HP_MS)

typedef int condition(const hp_host *host);

static int
count_hosts(const hp_hosts *hosts, condition *is)
{
    int count = 0;
    for (int i = 0; i < hosts->count; i++)
        count += is(&hosts->host[i]);
    return count;
}

/* "node1, node2 and 5 more", of the `count` hosts that fulfil the condition; free() it. */
static char *
list_hosts(const hp_hosts *hosts, condition *is, int count)
{
    char *list;
    size_t size;
    FILE *out = hp_xcheck(open_memstream(&list, &size));
    int named = 0;
    for (int i = 0; i < hosts->count && named < NAMES_SHOWN; i++)
        if (is(&hosts->host[i])) {
            fprintf(out, "%s%s", named == 0 ? "" : named + 1 == count ? " and " : ", ", hosts->host[i].name);
            named++;
        }
    if (named < count)
        fprintf(out, " and %d more", count - named);
    return fclose(out) == 0 ? list : hp_xcheck(NULL);
}

/* --- at the start --- */

/* For how long a host has not answered, since it was called; 0: it has, or was not called yet. */
static uint64_t
unanswered(const hp_host *host)
{
    return hp_host_is_silent(host) ? hp_loop_now(host->all->loop) - host->called : 0;
}

static int
is_late(const hp_host *host)
{
    return unanswered(host) >= FIRST_LINE;
}

static void
time_is_up(void *arg)
{
    hp_silence *s = arg;
    const hp_hosts *hosts = s->hosts;
    uint64_t longest = 0;
    for (int i = 0; i < hosts->count; i++) {
        const hp_host *host = &hosts->host[i];
        uint64_t lasts = unanswered(host);
        longest = lasts > longest ? lasts : longest;
        if (lasts >= s->limit) {
            hp_agent_conn_report_silence(host->conn, s->output, (double)s->limit / (double)HP_SEC);
            s->gave_up = 1;
        }
    }
    if (s->gave_up)
        return;
    if (longest >= s->line) {
        int count = count_hosts(hosts, is_late);
        char *list = list_hosts(hosts, is_late, count);
        hp_diag(s->output, "%s %s not answered for %s%.0f s; waiting up to %g s", list, count == 1 ? "has" : "have",
                count == 1 ? "" : "up to ", (double)longest / (double)HP_SEC, (double)s->limit / (double)HP_SEC);
        free(list);
        while (s->line <= longest)
            s->line *= 2;
    }
    uint64_t next = s->line < s->limit ? s->line : s->limit;
    hp_timer_set(s->timer, next - longest);
}

void
hp_silence_begin(hp_silence *s)
{
    s->line = FIRST_LINE;
    hp_timer_set(s->timer, FIRST_LINE < s->limit ? FIRST_LINE : s->limit);
}

/* --- while ranks run --- */

/* Those of a host that have not ended, as far as is known: "ranks 2-3", "no rank". Returns their number. */
static int
list_ranks(const hp_silence *s, const hp_host *host, char *out, size_t size)
{
    int count = 0, all = s->hosts->mapping->ranks.size;
    uint64_t *left = hp_xcalloc((size_t)all / 64 + 1, sizeof(*left));
    for (int rank = 0; rank < all; rank++)
        if (hp_host_has(host, rank) && !s->hosts->ended[rank]) {
            hp_rank_set_add(left, rank);
            count++;
        }
    snprintf(out, size, "%s", count > 0 ? hp_say_ranks(left, all, 1).text : "no rank");
    free(left);
    return count;
}

static int
is_away(const hp_host *host)
{
    return !host->done && hp_host_silence(host) >= host->lease.away;
}

static int
is_remote(const hp_host *host)
{
    return host->has_spec && !host->all->mapping->host[host->index].here;
}

/* If nobody else answers, the cable that was pulled may be this machine's. `first`: the one that is away for longest. */
static void
lose(hp_silence *s, const hp_host *first)
{
    int away = count_hosts(s->hosts, is_away), remote = count_hosts(s->hosts, is_remote), lost = 0;
    char ranks[HP_NOUN];
    list_ranks(s, first, ranks, sizeof(ranks));
    for (int i = 0; i < s->hosts->count; i++)
        if (is_away(&s->hosts->host[i]))
            lost += hp_host_lost(&s->hosts->host[i], s->failure);
    int go_on = hp_failure_spare(s->failure, lost);
    char *list = list_hosts(s->hosts, is_away, away);
    double seconds = (double)hp_host_silence(first) / (double)HP_SEC;
    const char *guess = away == 1        ? "; is it down, or the network to it?"
                        : away == remote ? ", nor has any other host: is the network of this machine cut?"
                                         : "; are they down, or the network to them?";
    hp_noun then = hp_say_others(s->failure->running, go_on);
    const char *rest = then.text + (then.text[0] == ';'); /* a question mark stands before it */
    if (away == 1)
        hp_diag(s->output, "%s (%s) is lost: it has not answered for %.1f s%s%s", list, ranks, seconds, guess, rest);
    else
        hp_diag(s->output, "%s are lost: they have not answered for %.1f s%s%s", list, seconds, guess, rest);
    free(list);
    for (int i = 0; i < s->hosts->count; i++)
        if (is_away(&s->hosts->host[i]))
            hp_host_give_up(&s->hosts->host[i]);
    if (!go_on)
        s->gave_up = 1;
}

static void
watch(void *arg)
{
    hp_silence *s = arg;
    hp_timer_set(s->look, LOOK);
    for (int i = 0; i < s->hosts->count; i++) {
        hp_host *host = &s->hosts->host[i];
        char ranks[HP_NOUN];
        hp_stall_warning *quiet = &s->quiet[i];
        uint64_t limit = host->lease.end / 3 < QUIET_LIMIT ? host->lease.end / 3 : QUIET_LIMIT;
        hp_stall_word word = HP_STALL_QUIET;
        if (!hp_host_is_watched(host) || list_ranks(s, host, ranks, sizeof(ranks)) == 0)
            *quiet = (hp_stall_warning){0};
        else
            word = hp_stall_warning_due(quiet, limit, 1, host->heard, hp_loop_now(s->hosts->loop));
        double seconds = (double)quiet->lasted / (double)HP_SEC;
        if (word == HP_STALL_WARN)
            hp_diag(s->output, "%s (%s) has sent nothing for %.1f s; is it down, or the network to it?", host->name,
                    ranks, seconds);
        else if (word == HP_STALL_OVER)
            hp_diag(s->output, "%s answers again after %.1f s", host->name, seconds);
        if (hp_host_silence(host) < host->lease.lost)
            continue;
        if (!host->done) {
            lose(s, host);
            return;
        }
        hp_host_give_up(host); /* all has ended there, but the remote shell has not heard of that */
    }
}

void
hp_silence_ring_failed(hp_silence *s, int rank)
{
    const hp_host *host = hp_hosts_of(s->hosts, rank);
    if (host && is_away(host))
        lose(s, host);
}

void
hp_silence_watch(hp_silence *s)
{
    int remote = 0;
    for (int i = 0; i < s->hosts->count; i++)
        remote |= s->hosts->host[i].conn && !s->hosts->mapping->host[i].here;
    hp_timer_set(s->timer, HP_NEVER);
    hp_timer_set(s->look, remote ? LOOK : HP_NEVER);
}

void
hp_silence_end(hp_silence *s)
{
    hp_timer_set(s->timer, HP_NEVER);
    hp_timer_set(s->look, HP_NEVER);
}

/* --- at the end --- */

static int
has_ended_ranks(const hp_host *host)
{
    const hp_agent_conn *conn = host->conn;
    return host->done || (conn->state == HP_AGENT_CONN_OVER && WIFEXITED(conn->wait_status) &&
                          WEXITSTATUS(conn->wait_status) == HP_AGENT_DESERTED);
}

void
hp_silence_report(hp_silence *s)
{
    const hp_hosts *hosts = s->hosts;
    if (s->reported)
        return;
    s->reported = 1;
    for (int i = 0; i < hosts->count; i++) {
        const hp_host *host = &hosts->host[i];
        char ranks[HP_NOUN];
        /* An agent that hears nothing ends its ranks when its lease is over, and so no later than this. */
        uint64_t now = hp_loop_now(s->hosts->loop), over = hp_host_alive(host) + host->lease.lost;
        if (is_remote(host) && !has_ended_ranks(host) && list_ranks(s, host, ranks, sizeof(ranks)) > 0 && now < over)
            hp_diag(s->output, "%s did not answer; %s may still run there, for up to %.0f s", host->name, ranks,
                    (double)(over - now) / (double)HP_SEC);
    }
}

/* --- life --- */

void
hp_silence_open(hp_silence *s, hp_hosts *hosts, hp_failure *failure, hp_output *output)
{
    *s = (hp_silence){.hosts = hosts, .failure = failure, .output = output};
    s->limit = (uint64_t)hp_config_glance_number(HP_SET_bootstrap_timeout_ms) * HP_MS;
    s->timer = hp_xcheck(hp_timer_new(hosts->loop, time_is_up, s));
    s->look = hp_xcheck(hp_timer_new(hosts->loop, watch, s));
    s->quiet = hp_xcalloc((size_t)hosts->count, sizeof(*s->quiet));
}

void
hp_silence_close(hp_silence *s)
{
    hp_timer_free(s->timer);
    hp_timer_free(s->look);
    free(s->quiet);
}
