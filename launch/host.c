/* SPDX-License-Identifier: MIT */
/*
 * party: what a host's agent says, checked and passed on: output to the screen, deaths to the jury, failures to the
 * job. An agent that ends before it has said that all is over is a failure of its host.
 */
#include "launch/host.h"

#include "base/clock.h"
#include "base/wire.h"
#include "launch/diag.h"
#include "launch/local_addr.h"

#include <signal.h>

enum {
    CALLS_AT_ONCE = 64,         /* remote shells that have not answered yet */
    BACKLOG_STOPPING = 16 << 20 /* output of stopping ranks beyond this is thrown away: nobody is held any more */
};

const char *
hp_party_name(const hp_party *party)
{
    const hp_layout *layout = party->job->layout;
    return layout->alone.count > 0 ? hp_meet_own_name() : layout->hosts->host[party->host].name;
}

/* --- what it says --- */

static void
greeted(void *arg, hp_contact *contact)
{
    hp_party *p = arg;
    hp_job *j = p->job;
    if (j->options->verbose) {
        hp_notice(j->output, "%s has answered", hp_party_name(p));
        hp_notice_quote(j->output, hp_party_name(p), hp_contact_noise(contact));
        hp_notice_quote(j->output, hp_party_name(p), hp_contact_words(contact));
    }
    if (j->phase == HP_CALLING)
        hp_job_greeted(j, p);
    else
        hp_contact_hang_up(contact);
}

static int
rank_of(const hp_job *j, int host, uint32_t rank)
{
    int first = j->layout->place.first[host];
    return rank >= (uint32_t)first && rank < (uint32_t)(first + j->layout->place.count[host]) ? (int)rank : -1;
}

static void
take_output(hp_job *j, int rank, int stream, const uint8_t *bytes, size_t n)
{
    if (j->phase == HP_STOPPING && hp_output_backlog(j->output) > BACKLOG_STOPPING)
        return;
    hp_output_rank(j->output, rank, stream, bytes, n);
    if (stream == 2)
        hp_jury_heard(&j->jury, rank, bytes, n, hp_output_shown(j->output));
}

static void
rank_ended(hp_party *p, int rank, const uint8_t *bytes)
{
    hp_job *j = p->job;
    hp_ending ending = {.rank = rank,
                        .pid = (int)hp_get32(bytes + 4),
                        .host = hp_party_name(p),
                        .program = j->options->argv[0],
                        .status = (int)hp_get32(bytes + 8),
                        .ms = hp_get64(bytes + 12)};
    hp_output_ended(j->output, rank);
    /* After another status the job is stopped, and what the others say of it would only hide the cause. */
    if (ending.status == 0)
        hp_task_rank_ended(&j->task, rank, hp_party_name(p));
    if (hp_jury_ended(&j->jury, &ending) && j->phase != HP_STOPPING)
        hp_job_deliberate(j);
}

static void
host_failed(hp_party *p, const hp_packet *packet)
{
    hp_job *j = p->job;
    if (j->phase != HP_STOPPING)
        hp_notice(j->output, "%s: %.*s", hp_party_name(p), (int)(packet->size - 4), (const char *)packet->payload + 4);
    p->done = 1;
    j->jury.running -= j->layout->place.count[p->host];
    hp_job_stop(j, (int)(hp_get32(packet->payload) & 255), HP_GRACE);
}

/* What concerns one rank; a rank that is not on that host is none of its business. */
static void
take_rank_packet(hp_party *p, const hp_packet *packet)
{
    hp_job *j = p->job;
    const uint8_t *bytes = packet->payload;
    int rank = rank_of(j, p->host, hp_get32(bytes));
    if (rank < 0)
        return;
    if (packet->type == HP_PK_STARTED) {
        hp_jury_started(&j->jury, rank);
        if (j->options->verbose)
            hp_notice(j->output, "rank %d runs on %s, pid %u", rank, hp_party_name(p), hp_get32(bytes + 4));
    } else if (packet->type == HP_PK_OUTPUT && (bytes[4] == 1 || bytes[4] == 2)) {
        take_output(j, rank, bytes[4], bytes + 5, packet->size - 5);
        hp_job_check_output(j);
    } else if (packet->type == HP_PK_EXIT) {
        rank_ended(p, rank, bytes);
    }
}

static void
take_packet(void *arg, hp_contact *contact, const hp_packet *packet)
{
    hp_party *p = arg;
    (void)contact;
    if (!p->ordered && packet->type != HP_PK_FAIL)
        return;
    switch (packet->type) {
    case HP_PK_TAKEN:
        if (p->job->input)
            hp_input_taken(p->job->input, hp_get32(packet->payload));
        break;
    case HP_PK_FAIL: host_failed(p, packet); break;
    case HP_PK_DONE: p->done = 1; break;
    default: take_rank_packet(p, packet);
    }
}

/* --- its beginning and end --- */

static void
contact_over(void *arg, hp_contact *contact)
{
    hp_party *p = arg;
    hp_job *j = p->job;
    j->over++;
    if (!p->done && j->jury.verdict.rank >= 0)
        hp_job_pronounce(j);
    if (!p->done && j->phase != HP_STOPPING && j->phase != HP_FINISHED) {
        hp_notice_ended(j->output, hp_party_name(p), contact, &j->layout->site[p->host].call,
                        p->ordered ? j->jury.running : -1);
        hp_job_stop(j, 1, HP_GRACE);
    }
    if (j->phase == HP_CALLING)
        hp_party_call_more(j);
    if (j->over == j->called && j->jury.verdict.rank >= 0)
        hp_job_pronounce(j);
    hp_job_finish(j);
}

static void
call_host(hp_party *p)
{
    const hp_contact_owner owner = {p, greeted, take_packet, contact_over};
    const hp_site *site = &p->job->layout->site[p->host];
    hp_job *j = p->job;
    hoop_error error;
    p->contact =
        hp_contact_new(j->loop, hp_party_name(p), site->call.word, site->other.word, site->here, &owner, &error);
    if (!p->contact) {
        hp_notice(j->output, "%s", error.text);
        hp_job_stop(j, 1, HP_GRACE);
        return;
    }
    j->called++;
    if (j->options->verbose)
        hp_notice(j->output, "calling %s: %s", hp_party_name(p), hp_contact_command(p->contact));
}

void
hp_party_call_more(hp_job *j)
{
    int i;
    for (i = 0; i < j->hosts; i++) {
        if (j->called - j->greeted - j->over >= CALLS_AT_ONCE || j->phase != HP_CALLING)
            return;
        if (j->layout->place.count[i] > 0 && !j->party[i].contact)
            call_host(&j->party[i]);
    }
}

void
hp_party_order(hp_party *p)
{
    hp_task_put(&p->job->task, p->host, hp_contact_out(p->contact));
    p->ordered = 1;
    hp_contact_push(p->contact);
}

void
hp_party_signal(hp_party *p, int number)
{
    if (!p->ordered)
        return;
    hp_packet_put32(hp_contact_out(p->contact), HP_PK_SIGNAL, (uint32_t)number);
    hp_contact_push(p->contact);
}

void
hp_party_window(hp_party *p)
{
    if (!p->ordered)
        return;
    hp_window_put(hp_contact_out(p->contact), p->job->task.window);
    hp_contact_push(p->contact);
}

void
hp_party_stop(hp_party *p, uint64_t grace)
{
    if (!p->contact || hp_contact_status(p->contact) == HP_CONTACT_OVER)
        return;
    if (!p->ordered) {
        hp_contact_hang_up(p->contact);
        if (hp_contact_status(p->contact) == HP_CONTACT_CALLING)
            hp_contact_kill(p->contact, SIGTERM);
        return;
    }
    hp_contact_pause(p->contact, 0);
    hp_packet_put32(hp_contact_out(p->contact), HP_PK_STOP, (uint32_t)(grace / HP_MS));
    hp_contact_push(p->contact);
}
