/* SPDX-License-Identifier: MIT */
/* trial: see trial.h. */
#include "t/sys/trial.h"

#include "base/dtype.h"
#include "t/sim/forms.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, POISON = 0xa5 };

/* Elements of the two arrays, the caller's on every rank: what a root alone reads or writes is there on the others too. */
static void
measure(trial *t)
{
    size_t one = t->call.count, all = one * (size_t)t->size, own = (size_t)t->rank * one;
    t->elem = hp_dtype_size((hoop_dtype)t->call.dtype);
    t->sends = t->recvs = one;
    t->offset = 0;
    switch ((hp_kind)t->call.kind) {
    case HP_ALLGATHER:
    case HP_GATHER: t->recvs = all, t->offset = own; break;
    case HP_REDUCE_SCATTER:
    case HP_SCATTER: t->sends = all, t->offset = own; break;
    case HP_ALLTOALL: t->sends = t->recvs = all; break;
    case HP_ALLGATHERV:
    case HP_REDUCE_SCATTERV:
        all = sim_blocks(t->blocks, &t->call, t->rank, t->size);
        one = t->blocks[t->rank].count;
        t->offset = t->blocks[t->rank].at;
        t->sends = t->call.kind == HP_ALLGATHERV ? one : all;
        t->recvs = t->call.kind == HP_ALLGATHERV ? all : one;
        break;
    default: break;
    }
}

static int
sends_more(const trial *t)
{
    return t->call.kind == HP_REDUCE_SCATTER || t->call.kind == HP_SCATTER || t->call.kind == HP_REDUCE_SCATTERV;
}

static uint8_t *
poisoned(size_t bytes)
{
    uint8_t *array = malloc(bytes + GUARD);
    if (!array)
        bail("out of memory");
    memset(array, POISON, bytes + GUARD);
    return array;
}

static uint8_t *
copied(const uint8_t *array, size_t bytes)
{
    uint8_t *copy = poisoned(bytes);
    memcpy(copy, array, bytes + GUARD);
    return copy;
}

/* The whole array that recv is in. */
static uint8_t *
whole_recv(const trial *t, size_t *bytes)
{
    int inside = t->in_place && sends_more(t);
    *bytes = (inside ? t->sends : t->recvs) * t->elem;
    return inside ? t->send : t->recv;
}

void
trial_make(trial *t, const hoop_comm *comm)
{
    size_t bytes;
    t->rank = hoop_comm_rank(comm);
    t->size = hoop_comm_size(comm);
    measure(t);
    uint8_t *send = poisoned((t->in_place && !sends_more(t) ? t->recvs : t->sends) * t->elem);
    t->send = t->in_place && !sends_more(t) ? send + t->offset * t->elem : send;
    t->recv = !t->in_place ? poisoned(t->recvs * t->elem) : sends_more(t) ? send + t->offset * t->elem : send;
    sim_fill(&t->call, t->seed, t->rank, t->size, t->send);
    t->send_before = t->in_place ? NULL : copied(t->send, t->sends * t->elem);
    const uint8_t *all = whole_recv(t, &bytes);
    t->recv_before = copied(all, bytes);
}

void
trial_drop(trial *t)
{
    size_t bytes;
    if (!t->in_place)
        free(t->send);
    free(whole_recv(t, &bytes));
    free(t->send_before);
    free(t->recv_before);
}

hoop_result
trial_call(const trial *t, hoop_comm *comm, hoop_work **work)
{
    return sim_call(&t->call, t->send, t->recv, comm, work);
}

static int
complain(const trial *t, const char *what)
{
    char text[100];
    party_note("%s, seed %ju%s: %s", hp_call_print(&t->call, text, sizeof(text)), (uintmax_t)t->seed,
               t->in_place ? ", in place" : "", what);
    return 0;
}

int
trial_result_is_right(const trial *t)
{
    char why[200];
    return sim_answer_is_right(&t->call, t->seed, t->rank, t->size, t->recv, why, sizeof(why)) || complain(t, why);
}

/* Both copies get what had to be written; then nothing else differs. */
int
trial_is_untouched(const trial *t)
{
    size_t bytes, written = sim_recv_count(&t->call, t->rank, t->size) * t->elem;
    const uint8_t *all = whole_recv(t, &bytes);
    uint8_t *recv_before = t->recv_before + (t->recv - all);
    if (t->send_before && memcmp(t->send, t->send_before, t->sends * t->elem + GUARD) != 0)
        return complain(t, "the input was changed");
    if (t->call.kind != HP_ALLGATHERV)
        memcpy(recv_before, t->recv, written);
    for (int b = 0; b < t->size && t->call.kind == HP_ALLGATHERV; b++) {
        size_t at = t->blocks[b].at * t->elem;
        memcpy(recv_before + at, t->recv + at, t->blocks[b].count * t->elem);
    }
    return memcmp(all, t->recv_before, bytes + GUARD) == 0 || complain(t, "more was written than the result");
}

int
trial_succeeds(trial *t, hoop_comm *comm)
{
    hoop_error error = {.size = sizeof(error)};
    trial_make(t, comm);
    int good = trial_call(t, comm, NULL) == HOOP_SUCCESS;
    if (!good) {
        hoop_comm_error(comm, &error);
        complain(t, error.text);
    }
    int shared = t->call.kind == HP_ALLREDUCE || t->call.kind == HP_ALLGATHER || t->call.kind == HP_BROADCAST;
    if (shared && good && !trials_are_identical(t, 1, comm))
        good = complain(t, "ranks have other bits");
    int judges = !shared || t->seed % (uint64_t)t->size == (uint64_t)t->rank;
    good = good && (!judges || trial_result_is_right(t)) && trial_is_untouched(t);
    trial_drop(t);
    return good;
}

int
trials_are_identical(const trial *t, size_t trials, hoop_comm *comm)
{
    uint64_t sum = 0, word;
    for (size_t i = 0; i < trials; i++)
        for (size_t at = 0, bytes = t[i].recvs * t[i].elem; at < bytes; at += sizeof(word)) {
            word = 0;
            memcpy(&word, t[i].recv + at, bytes - at < sizeof(word) ? bytes - at : sizeof(word));
            sum = tap_mix(sum ^ word);
        }
    return party_agrees(comm, sum);
}
