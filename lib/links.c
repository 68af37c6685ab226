/* SPDX-License-Identifier: MIT */
/* links: see links.h. */
#include "lib/links.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "lib/fault.h"
#include "lib/messages.h"
#include "lib/ways.h"
#include "net/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ABSENT_MS = 500 }; /* how long a communicator must be absent to which a connection is made again */

/* --- which connection is for which link --- */

static int
distance_from(const hoop_comm *comm, int rank)
{
    return (comm->position - comm->position_of[rank] + comm->size) % comm->size;
}

/* The link that a connection is for; NULL: it is for none, or memory has run out. */
static hp_link *
link_for(hoop_comm *comm, const hp_hello *hello)
{
    int distance = distance_from(comm, (int)hello->my_rank), c = hello->channel & ~HP_EXCHANGE_CHANNEL;
    if (hello->channel == HP_MESSAGE_CHANNEL)
        return hp_messages_link(comm, (int)hello->my_rank, 0);
    return hello->channel & HP_EXCHANGE_CHANNEL ? hp_channel_from(comm->channel[c], distance)
                                                : hp_channel_in(comm->channel[c], distance);
}

static int
has_place(const hoop_comm *comm, const hp_hello *hello)
{
    uint32_t c = hello->channel & ~(uint32_t)HP_EXCHANGE_CHANNEL;
    if (hello->channel == HP_MESSAGE_CHANNEL)
        return hello->stripe == 0;
    return c < comm->channels &&
           hello->stripe < (hello->channel & HP_EXCHANGE_CHANNEL ? 1 : comm->channel[c]->o.stripes);
}

/* A connection that broke before it carried a byte is dialled as if it had never been. */
static int
may_come(const hp_link *link, const hp_hello *hello)
{
    return hello->generation ? hp_link_resumes(link, hello->stripe, hello->generation)
                             : hp_link_is_fresh(link, hello->stripe);
}

hp_status
hp_links_judge(hoop_comm *comm, const hp_hello *hello)
{
    hp_link *link;
    if (!comm->channels)
        return HP_LATE;
    if (hello->comm != comm->id || comm->state >= HP_COMM_FAILED)
        return HP_BAD_COMM;
    /*
     * the handshake may have begun before this rank had the roster; then it has echoed the epoch that the other rank
     * sent
     */
    if (hello->epoch != comm->epoch)
        return HP_BAD_EPOCH;
    if (hello->your_rank != (uint32_t)comm->rank || hello->my_rank == hello->your_rank)
        return HP_BAD_RANK;
    /* Of two ranks that exchange one dials: it must not be this one. Before any link is made for what a peer may send. */
    int c = hello->channel & ~HP_EXCHANGE_CHANNEL;
    if (hello->my_rank >= (uint32_t)comm->size || !has_place(comm, hello) ||
        (hello->channel != HP_MESSAGE_CHANNEL && (hello->channel & HP_EXCHANGE_CHANNEL) &&
         hp_channel_dials(comm->channel[c], comm->size - distance_from(comm, (int)hello->my_rank))))
        return HP_BAD_RANK;
    link = link_for(comm, hello);
    if (!link)
        return HP_BUSY;
    if (!may_come(link, hello))
        return HP_DUPLICATE;
    /* A rank may dial two addresses at once. Of these connections the second one waits: the first may have won. */
    return !hello->generation && hp_link_stands(link, hello->stripe) ? HP_BUSY : HP_OK;
}

static void
kick(void *arg)
{
    (void)arg; /* the driver runs the loop, and checks everything next */
}

static void
report_fault(hoop_comm *comm, hoop_error *error, const hp_link *link)
{
    /* Want of memory or descriptors on this rank is not the fault of the rank at the other end. */
    int ours = error->code == HOOP_ERR_NO_MEMORY || error->code == HOOP_ERR_SYSTEM;
    error->rank = ours ? comm->rank : link->peer;
    error->reporter = comm->rank;
    if (link->owner)
        error->sequence = HP_NO_OPERATION;
    error->phase = comm->state == HP_COMM_READY ? HOOP_PHASE_OPERATION : HOOP_PHASE_BRINGUP;
    hp_fault_report(comm, error, hp_loop_now(comm->loop));
}

/* --- memory that is shared within a host --- */

enum {
    SHM_RANKS = 16, /* of a host, between which memory is plentiful */
    SHM_RING = 512 << 10,
    SHM_EXCHANGES = 128 << 10,
    SHM_MESSAGES = 2 << 20,
    SHM_LEAST = 64 << 10
};

static int
is_here(const hoop_comm *comm, int rank)
{
    const hp_member *members = comm->ring->members;
    return hp_config_number(&comm->config, HP_SET_shm) && members[rank].host_id == members[comm->rank].host_id;
}

static int
directions(const hp_link *link)
{
    return link->twin ? 2 : 1;
}

static void
share(hp_link *link, int stripe, hp_shm **shm)
{
    if (*shm)
        hp_link_share(link, stripe, *shm);
    *shm = NULL;
}

/* The memory that the dialling rank offers; NULL: TCP it is. */
static hp_shm *
open_shm(hoop_comm *comm, const hp_hello *hello)
{
    const char *why;
    char name[96];
    if (!hello->memory_pid || !is_here(comm, (int)hello->my_rank))
        return NULL;
    hp_shm *shm = hp_shm_open(hello, directions(link_for(comm, hello)), &why);
    if (!shm && !comm->shm_told++)
        hp_log(HP_LOG_INFO, "%s is on this host, but its memory cannot be shared, so TCP is used: %s",
               hp_comm_name(comm, (int)hello->my_rank, name), why);
    return shm;
}

/* --- a connection takes its place --- */

int
hp_links_are_repaired(const hoop_comm *comm, int one_host)
{
    enum { HOSTS, ALL, NONE } which = (int)hp_config_number(&comm->config, HP_SET_link_repair);
    return which == ALL || (which == HOSTS && !one_host);
}

/* By the setting, and by the hosts of both ranks. */
static int
may_be_repaired(const hoop_comm *comm, const hp_link *link, int stripe)
{
    const hp_member *members = comm->ring->members;
    return hp_links_are_repaired(comm, members[link->peer].host_id == members[comm->rank].host_id) &&
           !link->stripe[stripe]->medium.shm;
}

/* The descriptor is the link's, and the memory is, if it is the first connection. */
static hoop_result
connect_stripe(hoop_comm *comm, hp_link *link, int stripe, int generation, int fd, hp_shm **shm, hoop_error *error)
{
    char peer[96];
    hoop_result result;
    hp_sock_set_congestion(fd, &comm->sock);
    if (generation) {
        result = hp_link_resume(link, stripe, fd, (uint16_t)generation, error);
        if (result != HOOP_SUCCESS)
            return result;
        hp_count_add(&comm->counters.repairs, 1);
        if (link->owner && !link->sending)
            hp_messages_again(comm, link->peer);
        hp_log(HP_LOG_INFO, "the connection to %s broke, and is there again (connection %d of this link)",
               hp_comm_name(comm, link->peer, peer), generation + 1);
        return result;
    }
    result = hp_link_attach(link, stripe, fd, comm->loop, kick, comm, error);
    if (result == HOOP_SUCCESS)
        share(link, stripe, shm);
    if (result == HOOP_SUCCESS && may_be_repaired(comm, link, stripe))
        result = hp_link_repair(link, stripe, error);
    return result;
}

/* --- connections that are accepted --- */

static void
attach(hoop_comm *comm, int fd, const hp_hello *hello, hp_shm *shm)
{
    hp_link *link = link_for(comm, hello);
    hoop_error error;
    hp_sock_tune(fd, &comm->sock);
    if (!may_come(link, hello))
        hp_socket_close(fd);
    else if (connect_stripe(comm, link, hello->stripe, hello->generation, fd, &shm, &error) != HOOP_SUCCESS)
        report_fault(comm, &error, link);
    hp_shm_free(shm);
}

/* A link from a neighbour that has not come; NULL: all have. */
static const hp_link *
awaited_neighbour(const hoop_comm *comm)
{
    for (uint32_t c = 0; c < comm->channels; c++)
        for (int i = 0; i < comm->channel[c]->links; i++)
            if (!comm->channel[c]->link[i]->dials && comm->channel[c]->link[i]->state < HP_LINK_OPEN)
                return comm->channel[c]->link[i];
    return NULL;
}

/*
 * This process is out of descriptors (EMFILE): an awaited neighbour could never connect, and would blame this
 * rank, so this rank fails. In all other cases the others dial again: what the whole machine lacks may be there
 * soon.
 */
static void
fail_without_descriptors(hoop_comm *comm, int number)
{
    const hp_link *awaited = number == EMFILE ? awaited_neighbour(comm) : NULL;
    hoop_error error;
    if (!awaited)
        return;
    hp_err_sys(&error, HOOP_ERR_SYSTEM, number, "cannot accept a neighbour's connection, raise \"ulimit -n\"");
    report_fault(comm, &error, awaited);
}

void
hp_links_receive(hoop_comm *comm)
{
    int number = 0;
    for (hp_candidate *candidate; (candidate = hp_listener_next(&comm->entry, &number));) {
        hp_hello hello = candidate->handshake.hello;
        if (hp_candidate_is_stale(candidate)) {
            hp_candidate_free(candidate);
            continue;
        }
        hp_status status = hp_links_judge(comm, &hello);
        hp_shm *shm = status == HP_OK ? open_shm(comm, &hello) : NULL;
        candidate->handshake.shares = shm != NULL;
        int fd = hp_candidate_answer(candidate, status, hello.my_rank);
        if (fd >= 0)
            attach(comm, fd, &hello, shm);
        else
            hp_shm_free(shm);
    }
    if (number)
        fail_without_descriptors(comm, number);
}

/* --- connections that are dialled --- */

static void
free_dialing(hp_dialing *d)
{
    hp_race_free(d->race);
    hp_shm_free(d->shm);
    free(d);
}

static void
dialled(void *arg, const hp_dial_result *result)
{
    hp_dialing *d = arg;
    hoop_comm *comm = d->comm;
    hoop_error error = result->error;
    hoop_result attached = HOOP_SUCCESS;
    int late = result->fd >= 0 && d->generation && !hp_link_resumes(d->link, d->stripe, d->generation);
    if (late) { /* the communicator has failed meanwhile */
        hp_socket_close(result->fd);
    } else if (result->fd >= 0) {
        hp_shm *none = NULL, **shm = result->shares ? &d->shm : &none;
        hp_ways_note(&comm->ring->members[d->link->peer], &result->to);
        attached = connect_stripe(comm, d->link, d->stripe, d->generation, result->fd, shm, &error);
    }
    /* No message goes or comes there; the connection was to tell of the rank's end, and its port does. */
    if (result->fd < 0 && d->link->owner && !comm->messages.peer[d->link->peer]->unfinished &&
        error.sys_errno == ECONNREFUSED)
        d->link->state = HP_LINK_LEFT;
    else if (result->fd < 0 && d->generation)
        hp_link_give_up(d->link,
                        error.sys_errno != ECONNREFUSED); /* else its process has ended, and waits for nobody */
    else if (result->fd < 0 || attached != HOOP_SUCCESS)
        report_fault(comm, &error, d->link);
    hp_dialing **at = &comm->dialing;
    while (*at && *at != d)
        at = &(*at)->next;
    if (*at)
        *at = d->next;
    free_dialing(d);
}

/*
 * The bytes of a ring: enough to keep two processes busy, and few enough to stay in a cache, and for many ranks. That of a
 * message holds all that a rank may send ahead to one that computes, with heads. TCP carries the data where too many pairs
 * of ranks may send messages, and on a host without memory for it, which is no fault.
 */
static hp_shm *
offer_shm(hoop_comm *comm, const hp_link *link, hp_hello *hello)
{
    int many = comm->host_ranks > SHM_RANKS, messages = hello->channel == HP_MESSAGE_CHANNEL;
    uint32_t bytes = messages                               ? SHM_MESSAGES
                     : many                                 ? SHM_LEAST
                     : hello->channel & HP_EXCHANGE_CHANNEL ? SHM_EXCHANGES
                                                            : SHM_RING;
    if (!is_here(comm, link->peer) || (many && messages))
        return NULL;
    hp_shm *shm = hp_shm_new(hello, bytes, directions(link));
    if (!shm && !comm->shm_told++)
        hp_log(HP_LOG_INFO, "no memory can be shared with the ranks of this host, so TCP is used: %s", strerror(errno));
    return shm;
}

static void
dial_stripe(hoop_comm *comm, int channel, hp_link *link, int stripe, int generation)
{
    hp_dialing *d = hp_alloc(1, sizeof(*d));
    /*
     * at a chord's other end the program may be computing, so the operation's own time-out judges. During bring-up this
     * rank knows the address and the reason, so it fails before the server's time-out
     */
    uint64_t deadline = comm->state == HP_COMM_READY ? HP_NEVER : comm->bringup_until;
    const hp_member *members = comm->ring->members;
    hoop_error error;
    char name[96];
    hp_hello hello = {.comm = comm->id, .epoch = comm->epoch, .my_rank = (uint32_t)comm->rank};
    memcpy(hello.job_id, comm->keys->job_id, HP_JOB_ID_BYTES);
    hello.your_rank = (uint32_t)link->peer;
    hello.world = (uint32_t)comm->size;
    hello.role = HP_ROLE_DATA;
    hello.mode = comm->keys->mode;
    hello.channel = (uint16_t)channel;
    hello.stripe = (uint16_t)stripe;
    hello.generation = (uint16_t)generation;
    hello.ver_min = HP_WIRE_MIN;
    hello.ver_max = HP_WIRE_MAX;
    if (d) {
        *d = (hp_dialing){.comm = comm, .link = link, .stripe = stripe, .next = comm->dialing};
        d->began = hp_loop_now(comm->loop);
        d->generation = hello.generation;
        d->shm = generation ? NULL : offer_shm(comm, link, &hello);
        hp_addr_list to = hp_ways_list(&members[link->peer], &members[comm->rank]);
        d->race = hp_race_new(comm->loop, &to,
                              &(hp_dial_options){.what = hp_comm_name(comm, link->peer, name),
                                                 .keys = comm->keys,
                                                 .hello = hello,
                                                 .sock = comm->sock,
                                                 .deadline = deadline,
                                                 .fn = dialled,
                                                 .arg = d});
    }
    if (d && d->race) {
        comm->dialing = d;
        return;
    }
    if (d)
        free_dialing(d);
    hp_err_set(&error, HOOP_ERR_NO_MEMORY, "out of memory while dialling %s", hp_comm_name(comm, link->peer, name));
    report_fault(comm, &error, link);
}

void
hp_links_dial(hoop_comm *comm, hp_channel *channel)
{
    channel->links_wanted = 0;
    for (int i = 0; i < channel->links; i++) {
        hp_link *link = channel->link[i];
        if (!link->sending || !link->dials || link->state != HP_LINK_WANTED)
            continue;
        link->state = HP_LINK_DIALING;
        if (link->twin)
            link->twin->state = HP_LINK_DIALING;
        for (int k = 0; k < link->stripes; k++)
            dial_stripe(comm, channel->o.index | (link->twin ? HP_EXCHANGE_CHANNEL : 0), link, k, 0);
    }
}

static int
is_dialled(const hoop_comm *comm, const hp_link *link, int stripe)
{
    const hp_dialing *d = comm->dialing;
    while (d && (d->link != link || d->stripe != stripe))
        d = d->next;
    return d != NULL;
}

static void
repair(hoop_comm *comm, int channel, hp_link *link)
{
    for (int k = 0; link->sending && link->dials && k < link->stripes; k++)
        if (hp_link_is_broken(link, k) && !is_dialled(comm, link, k))
            dial_stripe(comm, channel | (link->twin ? HP_EXCHANGE_CHANNEL : 0), link, k,
                        hp_link_next_generation(link, k));
}

/* Its communicator has left or failed, so it is not connected again; the server, or its neighbours, know why. */
static void
give_up_absent(hoop_comm *comm, uint64_t now)
{
    for (const hp_dialing *d = comm->dialing; d; d = d->next) {
        uint64_t absent = d->generation ? hp_race_absent_since(d->race) : 0;
        if (absent && now >= absent + ABSENT_MS * HP_MS)
            hp_link_give_up(d->link, 0);
    }
}

void
hp_links_give_up_closed(hoop_comm *comm, uint64_t now, uint64_t after)
{
    hoop_error error;
    for (const hp_dialing *d = comm->dialing; d; d = d->next)
        if (d->generation && now >= d->began + after && hp_race_explain(d->race, &error) && error.code == HOOP_ERR_AUTH)
            hp_link_give_up(d->link, 0);
}

void
hp_links_repair(hoop_comm *comm, uint64_t now)
{
    give_up_absent(comm, now);
    for (uint32_t c = 0; c < comm->channels; c++)
        for (int i = 0; i < comm->channel[c]->links; i++)
            repair(comm, (int)c, comm->channel[c]->link[i]);
    for (const hp_peer *peer = comm->messages.first; peer; peer = peer->next)
        if (peer->out)
            repair(comm, HP_MESSAGE_CHANNEL, peer->out);
}

void
hp_links_dial_messages(hoop_comm *comm)
{
    comm->messages.links_wanted = 0;
    for (const hp_peer *peer = comm->messages.first; peer; peer = peer->next) {
        if (!peer->out || peer->out->state != HP_LINK_WANTED)
            continue;
        peer->out->state = HP_LINK_DIALING;
        dial_stripe(comm, HP_MESSAGE_CHANNEL, peer->out, 0, 0);
    }
}

void
hp_links_warn(hoop_comm *comm, uint64_t after, uint64_t now)
{
    hoop_error error;
    char name[96];
    for (hp_dialing *d = comm->dialing; d; d = d->next) {
        if (d->told || d->stripe || now < d->began + after || !hp_race_explain(d->race, &error))
            continue;
        hp_log(HP_LOG_WARN, "no connection to %s (tried for %.1f s): %s", hp_comm_name(comm, d->link->peer, name),
               (double)(now - d->began) / 1e9, error.text);
        d->told = 1;
    }
}

void
hp_links_cancel(hoop_comm *comm)
{
    while (comm->dialing) {
        hp_dialing *d = comm->dialing;
        comm->dialing = d->next;
        free_dialing(d);
    }
}
