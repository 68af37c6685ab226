/* SPDX-License-Identifier: MIT */
/* cut_off: see cut_off.h. */
#include "lib/cut_off.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "lib/messages.h"
#include "lib/ways.h"

#include <errno.h>

/* --- large packets --- */

/*
 * A look, once a second, at the awaited link that has been silent longest; NULL: none is. A path may drop large packets
 * alone, as one whose switch or tunnel has a smaller MTU than the hosts: small packets are answered, and no data is
 * acknowledged. The rank that sends says so in one WARN line.
 */
static void
check_large_packets(hoop_comm *comm, hp_link *link, uint64_t now)
{
    hp_large_packets *p = &comm->fault.large_packets;
    p->told = link && p->told;
    if (!link || p->told || !hp_config_number(&comm->config, HP_SET_warn_after_ms)) {
        hp_probe_stop(&p->probe);
        return;
    }
    int same = p->peer == link->peer;
    hp_probe_state state = hp_probe_poll(&p->probe);
    if (same && state == HP_PROBE_ASKED && now - p->asked < HP_TCP_ANSWER_MS * HP_MS)
        return;
    uint32_t size = hp_link_lost_size(link, same && state == HP_PROBE_ALIVE, now);
    if (size) {
        const hp_member *me = &comm->ring->members[comm->rank], *peer = &comm->ring->members[link->peer];
        hp_log(
            HP_LOG_WARN,
            "%s has heard no acknowledgement of what it sends to %s for 10 s and more, although that host answers "
            "small packets: do packets of %u bytes get lost between these two hosts? Compare the MTU "
            "of their interfaces (\"ip link\") with that of switches, tunnels and virtual private networks on the way",
            hp_member_name(me).text, hp_member_name(peer).text, size);
        p->told = 1;
    }
    hp_probe_stop(&p->probe);
    p->peer = link->peer;
    p->asked = now;
    if (!p->told)
        hp_probe_start(&p->probe, hp_ways_best(&comm->ring->members[link->peer]), &comm->sock);
}

/* --- hosts that acknowledge nothing --- */

enum {
    LOOK_MS = 1000,
    AGAIN_PART = 4, /* a host that answers after so much of peer_timeout may have forgotten the connection; */
    AGAIN_MS = 3000 /* at least, since a network may lose some packets in a row */
};

/* Whether an operation, or a message, cannot go on without it. */
static int
is_awaited(const hoop_comm *comm, const hp_link *link)
{
    return link->owner ? comm->messages.peer[link->peer]->unfinished > 0 : link->done < link->posted;
}

/* The awaited link that has been silent longest, open or still dialled. */
static hp_link *
most_silent(hoop_comm *comm, uint64_t now, uint64_t *longest)
{
    hp_link_walk at = hp_comm_links(comm);
    hp_link *most = NULL;
    *longest = 0;
    for (const hp_dialing *d = comm->dialing; d; d = d->next) {
        uint64_t since = hp_race_silent_since(d->race);
        if (since && now - since > *longest && is_awaited(comm, d->link)) {
            *longest = now - since;
            most = d->link;
        }
    }
    for (hp_link *link; (link = hp_link_next(&at));) {
        uint64_t silence = hp_link_silence(link, now);
        if (silence > *longest && is_awaited(comm, link)) {
            *longest = silence;
            most = link;
        }
    }
    return most;
}

/*
 * A link that nobody here waits for, and that has been silent for longer than any outage explains that may pass: the peer may
 * wait for what was sent on it, and have given it up already. NULL: there is none.
 */
static hp_link *
forgotten(hoop_comm *comm, uint64_t now, uint64_t *silence)
{
    uint64_t limit = comm->sock.peer_timeout, most = limit + (uint64_t)hp_tcp_silence_rto_max(limit) * HP_MS;
    hp_link_walk at = hp_comm_links(comm);
    for (hp_link *link; (link = hp_link_next(&at));)
        if (link->repaired && (*silence = hp_link_silence(link, now)) >= most)
            return link;
    return NULL;
}

/* From when on the host of a silent link is asked. */
static uint64_t
patience(const hoop_comm *comm, const hp_link *link)
{
    uint64_t limit = comm->sock.peer_timeout, part = limit / AGAIN_PART, most = limit + hp_tcp_silence_deference(limit);
    part = part < AGAIN_MS * HP_MS ? AGAIN_MS * HP_MS : part;
    return link->repaired && part < most ? part : most;
}

/*
 * One that refuses has no such process any more. If a host answers a new connection, a firewall or a translator of
 * addresses has forgotten the silent one, which is made again then; or the host is back, and that comes before TCP finds it
 * out. One that is not repaired is left to TCP.
 */
static void
ask(hoop_comm *comm, hp_link *link, uint64_t silence, uint64_t now)
{
    hp_cut_off *c = &comm->fault.cut_off;
    uint64_t limit = comm->sock.peer_timeout;
    char peer[96];
    if (!c->asked) {
        hp_probe_start(&c->probe, hp_ways_best(&comm->ring->members[link->peer]), &comm->sock);
        c->asked = now;
        c->peer = link->peer;
    }
    hp_probe_state state = hp_probe_poll(&c->probe);
    if (state == HP_PROBE_ASKED && now - c->asked < HP_TCP_ANSWER_MS * HP_MS)
        return;
    int last = silence >= limit + hp_tcp_silence_deference(limit) + (now - c->asked);
    hp_probe_stop(&c->probe);
    c->asked = 0;
    if (state == HP_PROBE_ALIVE && hp_link_cut_once(link))
        hp_log(HP_LOG_INFO, "a connection to %s has been silent for %.1f s, though its host answers: it is made again",
               hp_comm_name(comm, link->peer, peer), (double)silence / 1e9);
    if (last && is_awaited(comm, link) && state != HP_PROBE_ALIVE && state != HP_PROBE_NONE)
        hp_link_cut(link);
}

void
hp_cut_off_check(hoop_comm *comm, uint64_t now)
{
    hp_cut_off *c = &comm->fault.cut_off;
    uint64_t longest;
    if (!comm->ring || now - c->looked < LOOK_MS * HP_MS)
        return;
    c->looked = now;
    hp_link *link = most_silent(comm, now, &longest);
    check_large_packets(comm, longest >= LOOK_MS * HP_MS ? link : NULL, now);
    int lasts = link && longest >= patience(comm, link);
    if (!lasts) {
        link = forgotten(comm, now, &longest);
        lasts = link != NULL;
    }
    if (c->asked && (!lasts || link->peer != c->peer)) { /* the answer would be about another link, or another outage */
        hp_probe_stop(&c->probe);
        c->asked = 0;
    }
    if (lasts)
        ask(comm, link, longest, now);
}

int
hp_cut_off_took(const hp_link *link)
{
    int number = link->error.sys_errno;
    return link->state == HP_LINK_LOST && (number == ETIMEDOUT || number == EHOSTUNREACH || number == ENETUNREACH);
}

/* Whether a rank on another host, or the server, has acknowledged anything of late: else this host may be the one cut off. */
static int
hears_another(const hoop_comm *comm)
{
    hp_link_walk at = hp_comm_links(comm);
    const hp_member *members = comm->ring->members;
    for (const hp_link *link; (link = hp_link_next(&at));)
        if (members[link->peer].host_id != members[comm->rank].host_id &&
            hp_link_is_heard(link, comm->sock.peer_timeout))
            return 1;
    return comm->client && hp_client_is_heard(comm->client, comm->sock.peer_timeout);
}

void
hp_cut_off_error(const hoop_comm *comm, const hp_link *link, hoop_error *error)
{
    const hp_member *who = &comm->ring->members[link->peer], *me = &comm->ring->members[comm->rank];
    unsigned seconds = (unsigned)(comm->sock.peer_timeout / HP_SEC);
    int hears = hears_another(comm);
    if (hears)
        hp_err_set(error, HOOP_ERR_PEER_LOST,
                   "%s is cut off: its host has acknowledged nothing for more than %u s; look at its cable, its "
                   "switch and its firewall",
                   hp_member_process(who).text, seconds);
    else
        hp_err_set(
            error, HOOP_ERR_PEER_LOST,
            "%s has heard from no other host, %s for instance, for more than %u s: is this host cut off? Look at its "
            "cable, its switch and its firewall",
            hp_member_process(me).text, hp_member_name(who).text, seconds);
    error->rank = hears ? who->rank : -1;
    error->reporter = comm->rank;
    error->sys_errno = ETIMEDOUT;
}
