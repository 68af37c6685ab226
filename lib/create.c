/* SPDX-License-Identifier: MIT */
/*
 * create: the life of a communicator, as hoop_comm_create(3) has it: created, split, shrunk, aborted, destroyed. What the
 * caller may have done wrong is checked here; join.c and leave.c do the rest.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/thread.h"
#include "gpu/cuda.h"
#include "lib/account.h"
#include "lib/comm.h"
#include "lib/entry.h"
#include "lib/environment.h"
#include "lib/group.h"
#include "lib/join.h"
#include "lib/progress.h"
#include "lib/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything that needs no other rank. */
static hoop_result
prepare(hoop_comm *comm, hoop_error *error)
{
    hp_plan_options *p = &comm->plan;
    hoop_result result;
    comm->forks = hp_registry_watch_forks();
    atomic_store(&comm->driver.op_timeout, (uint64_t)hp_config_number(&comm->config, HP_SET_op_timeout_ms) * HP_MS);
    p->slice_bytes = (uint32_t)hp_config_number(&comm->config, HP_SET_slice_bytes);
    p->channels = (uint32_t)hp_config_number(&comm->config, HP_SET_channels);
    p->stage_bytes = (uint32_t)hp_config_number(&comm->config, HP_SET_stage_bytes);
    p->halves_bytes = (uint32_t)hp_config_number(&comm->config, HP_SET_halves_bytes);
    hp_cuda_options options = {.device = (int)hp_config_number(&comm->config, HP_SET_cuda_device),
                               .blocks = (int)hp_config_number(&comm->config, HP_SET_cuda_blocks)};
    hp_cuda_configure(&options);
    result = hp_config_fits(&comm->config, error);
    if (result == HOOP_SUCCESS)
        result = hp_host_ops.open(&comm->device[0], NULL, error);
    return result;
}

/* Whatever a start that was interrupted has failed with, that is the reason. rank: as the program knows it; -1: not yet */
static hoop_result
name_interrupt(hoop_result result, int rank, hoop_error *error)
{
    if (!hp_interrupt_take() || result == HOOP_SUCCESS)
        return result;
    if (rank < 0)
        return hp_err_set(error, HOOP_ERR_ABORTED, "a rank without a number yet was interrupted");
    return hp_err_set(error, HOOP_ERR_ABORTED, "rank %d was interrupted", rank);
}

/* After a failed bring-up: reports the reason to the server, and frees everything. */
static hoop_result
give_up(hoop_comm *comm, const hoop_error *error)
{
    hoop_error cause_for_others = *error;
    cause_for_others.phase = HOOP_PHASE_BRINGUP;
    if (comm->client)
        hp_leave_failed(comm, &cause_for_others);
    hp_leave_free(comm);
    return hp_entry_fail(NULL, &cause_for_others);
}

hoop_result
hoop_comm_create(hoop_comm **out, const hoop_config *config)
{
    hoop_error error;
    hoop_comm *comm;
    hoop_result result;
    char text[512];
    hp_err_clear(&error);
    if (!out)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_comm_create: comm is NULL");
    *out = NULL;
    if (hp_entry_may_wait(NULL, "hoop_comm_create") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    comm = hp_alloc(1, sizeof(*comm));
    if (!comm)
        return hp_entry_refuse(NULL, HOOP_ERR_NO_MEMORY, "out of memory for a communicator");
    hp_limits_raise_descriptors(NULL);       /* the chords of a big ring need many */
    result = hp_progress_init(comm, &error); /* first, because give_up takes down what is there, whatever fails later */
    if (result == HOOP_SUCCESS)
        result = hp_config_resolve(&comm->config, config, &error);
    if (result == HOOP_SUCCESS) {
        hp_environment_log(&comm->config);
        if (hp_log_enabled(HP_LOG_INFO))
            hp_log(HP_LOG_INFO, "version %s; %s", PACKAGE_VERSION, hp_gpu_describe(text, sizeof(text)));
        hp_name_set(comm, hp_config_text(&comm->config, HP_SET_name));
    }
    if (result == HOOP_SUCCESS)
        result = prepare(comm, &error);
    if (result == HOOP_SUCCESS) { /* from settings, and what another launcher says, to a ring */
        uint64_t deadline = hp_join_deadline(comm);
        result = hp_bootstrap_run(comm, deadline, &error);
        if (result == HOOP_SUCCESS)
            result = hp_join_world(comm, deadline, &error);
        hp_bootstrap_end(comm, result == HOOP_SUCCESS);
        int rank = comm->order ? comm->rank : (int)hp_config_number(&comm->config, HP_SET_rank);
        result = name_interrupt(result, rank, &error);
    }
    if (result != HOOP_SUCCESS)
        return give_up(comm, &error);
    if (hp_log_enabled(HP_LOG_INFO)) {
        hp_config_describe(&comm->config, text, sizeof(text));
        hp_log(HP_LOG_INFO, "settings: %s", text);
    }
    hp_recorder_open(comm);
    hp_registry_add(comm);
    *out = comm;
    return HOOP_SUCCESS;
}

/* A rank of the new ring has the same number in the old one. */
static int
is_numbered_alike(const hoop_comm *comm, const hoop_comm *part, int rank)
{
    return rank < 0 || !part->ring ||
           (rank < comm->size && rank < part->ring->size &&
            hp_member_same(&comm->ring->members[rank], &part->ring->members[rank]));
}

/* A new communicator of ranks of this one. */
static hoop_result
derive(hoop_comm *comm, const hp_derivation *how, hoop_comm **out, hoop_error *error)
{
    hoop_comm *part = hp_alloc(1, sizeof(*part));
    hp_err_clear(error);
    if (!part)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for a communicator");
    part->config = comm->config;
    part->colocated = comm->colocated;
    part->host_ranks = comm->host_ranks;
    hoop_result result = hp_progress_init(part, error);
    if (result == HOOP_SUCCESS)
        result = prepare(part, error);
    if (result == HOOP_SUCCESS)
        result = name_interrupt(hp_join_derived(part, comm, how, error), comm->rank, error);
    if (result == HOOP_ERR_PEER_LOST && !how->shrink && is_numbered_alike(comm, part, error->rank))
        comm->lost_in_split = *error; /* which is told to all ranks of the old ring, if that is shrunk */
    if (result != HOOP_SUCCESS) {
        give_up(part, error);
    } else if (part->size == 0) {
        hp_leave_free(part);
    } else {
        hp_recorder_open(part);
        hp_registry_add(part);
        *out = part;
    }
    return result;
}

/* Of all ranks: a split, or a grow. */
static hoop_result
divide(hoop_comm *comm, hp_derivation how, hoop_comm **out)
{
    hoop_error error;
    how.within = hp_join_limit(comm);
    hp_err_clear(&comm->lost_in_split);
    comm->splits++; /* every call counts, also one that fails: the n-th calls of all ranks belong together */
    hp_recorder_split(comm, 1);
    if (derive(comm, &how, out, &error) == HOOP_SUCCESS) {
        hp_progress_placed(comm, comm->splits);
        return HOOP_SUCCESS;
    }
    /* the other ranks must not wait in a split for a rank whose call has failed; the server knows whether one does */
    hoop_error cause_for_others;
    char me[96];
    hp_err_set(&cause_for_others, HOOP_ERR_ABORTED, "%s could not take part in the %s: %.130s",
               hp_comm_name(comm, comm->rank, me), how.grow ? "grow" : "split", error.text);
    hp_progress_refuse(comm, comm->splits, &cause_for_others);
    return hp_entry_fail(comm, &error);
}

/* One thread after the other. */
static hoop_result
divide_in_turn(hoop_comm *comm, hp_derivation how, hoop_comm **out)
{
    const char *name = how.grow ? "hoop_comm_grow" : "hoop_comm_split";
    char why[64];
    snprintf(why, sizeof(why), out ? "%s cannot be called inside a group" : "%s: newcomm is NULL", name);
    if (!out)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT, why);
    *out = NULL;
    hoop_result result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        return result;
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, why);
    if (hp_entry_may_wait(comm, name) != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    hp_progress_depart(comm);
    pthread_mutex_lock(&comm->driver.splitting);
    result = hp_entry_check(comm);
    if (result == HOOP_SUCCESS)
        result = divide(comm, how, out);
    if (result == HOOP_SUCCESS)
        hp_recorder_split(comm, 0);
    pthread_mutex_unlock(&comm->driver.splitting);
    hp_progress_return(comm);
    return result;
}

hoop_result
hoop_comm_split(hoop_comm *comm, int color, int key, hoop_comm **out)
{
    return divide_in_turn(comm, (hp_derivation){.color = color, .key = key}, out);
}

hoop_result
hoop_comm_grow(hoop_comm *comm, hoop_comm **out)
{
    hoop_result result = divide_in_turn(comm, (hp_derivation){.grow = 1}, out);
    if (result == HOOP_SUCCESS && !*out) /* nobody waited */
        *out = comm;
    return result;
}

/* Ends the ring on every rank, and waits until all its operations have ended. 0: another thread is stuck in it. */
static int
end_ring(hoop_comm *comm)
{
    hoop_error error;
    char me[96];
    hp_err_set(&error, HOOP_ERR_ABORTED, "%s called hoop_comm_shrink", hp_comm_name(comm, comm->rank, me));
    error.rank = error.reporter = comm->rank;
    if (comm->lost_in_split.code) /* others may not have heard of it in their call of that split */
        error = comm->lost_in_split;
    return hp_progress_abort(comm, &error);
}

/* All ranks of the next ring see the same two sizes, and have one setting. */
static hoop_result
check_quorum(const hoop_comm *comm, hoop_error *error)
{
    if (!comm->left || !hp_config_number(&comm->config, HP_SET_quorum) || 2 * comm->left > comm->size)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_NO_QUORUM,
                      "hoop_comm_shrink: %d of %d ranks are left, and by quorum=majority more than half must be",
                      comm->left, comm->size);
}

/* A rank that is lost while the ring is being formed is left out, too: the others form it once more. */
static hoop_result
shrink(hoop_comm *comm, hoop_comm **out)
{
    hp_derivation how = {.shrink = 1};
    hoop_error error;
    if (comm->shrunk) {
        hp_err_set(&error, HOOP_ERR_INVALID_USAGE,
                   "hoop_comm_shrink: this communicator has been shrunk already; shrink the one that came of it");
        return hp_entry_fail_later(comm, &error);
    }
    hp_err_set(&error, HOOP_ERR_TIMEOUT, "hoop_comm_shrink: this process did not run for the whole bring-up time");
    uint64_t until = hp_now() + hp_join_limit(comm);
    hoop_result result = check_quorum(comm, &error) == HOOP_SUCCESS ? HOOP_ERR_PEER_LOST : HOOP_ERR_NO_QUORUM;
    for (uint64_t now; result == HOOP_ERR_PEER_LOST && (now = hp_now()) < until;) {
        how.within = until - now;
        result = derive(comm, &how, out, &error);
    }
    if (result == HOOP_SUCCESS) {
        comm->left = (*out)->size;
        result = check_quorum(comm, &error);
        if (result != HOOP_SUCCESS) {
            hoop_comm_destroy(*out);
            *out = NULL;
        }
    }
    comm->shrunk = result == HOOP_SUCCESS;
    return result == HOOP_SUCCESS ? result : hp_entry_fail_later(comm, &error);
}

static hoop_result
end_and_shrink(hoop_comm *comm, hoop_comm **out)
{
    if (!end_ring(comm))
        return hp_entry_refuse(comm, HOOP_ERR_BUSY,
                               "hoop_comm_shrink: another thread is stuck in this communicator, for instance in a "
                               "call into the CUDA driver");
    if (atomic_load(&comm->fault.on_stream) && !atomic_load(&comm->fault.seen))
        return hp_entry_refuse(
            comm, HOOP_ERR_INVALID_USAGE,
            "hoop_comm_shrink: an operation on a CUDA stream has failed, and no call has returned the "
            "error yet: wait for the stream, call hoop_comm_error, take the arrays from a copy, and "
            "shrink then");
    pthread_mutex_lock(&comm->driver.splitting);
    hoop_result result = shrink(comm, out);
    pthread_mutex_unlock(&comm->driver.splitting);
    return result;
}

hoop_result
hoop_comm_shrink(hoop_comm *comm, hoop_comm **out)
{
    if (!out)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT, "hoop_comm_shrink: newcomm is NULL");
    *out = NULL;
    if (!comm || comm->forks != hp_forks())
        return hp_entry_check(comm);
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, "hoop_comm_shrink cannot be called inside a group");
    if (hp_entry_may_wait(comm, "hoop_comm_shrink") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    hp_progress_depart(comm); /* nobody destroys it meanwhile */
    hoop_result result = end_and_shrink(comm, out);
    hp_progress_return(comm);
    return result;
}

uint64_t
hoop_comm_epoch(const hoop_comm *comm)
{
    return comm ? comm->epoch : 0;
}

hoop_result
hoop_comm_history(const hoop_comm *comm, uint64_t *least, uint64_t *most)
{
    if (!comm || !least || !most)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT, "hoop_comm_history: an argument is NULL");
    *least = comm->least;
    *most = comm->most;
    return HOOP_SUCCESS;
}

enum { WHY_MOST = 120 };

/* Whole characters of UTF-8, and no others than the ranks will get that are told. */
static void
take_reason(const char *why, char reason[WHY_MOST + 1])
{
    size_t n = strnlen(why, WHY_MOST + 1);
    for (n = n > WHY_MOST ? WHY_MOST : n; n > 0 && ((unsigned char)why[n] & 0xc0) == 0x80; n--)
        ;
    memcpy(reason, why, n);
    reason[n] = 0;
    hp_text_tame(reason, n, 0);
}

hoop_result
hoop_comm_abort(hoop_comm *comm, const char *why)
{
    hoop_error error;
    char me[96], reason[WHY_MOST + 1];
    hoop_result result = hp_entry_check(comm);
    if (!comm || comm->forks != hp_forks())
        return result;
    take_reason(why ? why : "", reason);
    hp_err_set(&error, HOOP_ERR_ABORTED, "%s aborted the job%s%s", hp_comm_name(comm, comm->rank, me), why ? ": " : "",
               reason);
    error.rank = error.reporter = comm->rank;
    if (hp_progress_abort(comm, &error))
        return HOOP_SUCCESS;
    return hp_entry_refuse(
        comm, HOOP_ERR_TIMEOUT,
        "another thread has been stuck in this communicator for 5 s, for instance in a call into the "
        "CUDA driver; the other ranks are told when it returns, and until then it may touch arrays");
}

hoop_result
hoop_comm_destroy(hoop_comm *comm)
{
    hoop_result result;
    if (!comm)
        return HOOP_SUCCESS;
    if (comm->forks != hp_forks())
        return hp_entry_check(comm);
    if (hp_group_open() == comm)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE,
                               "hoop_comm_destroy inside a group: call hoop_group_end first");
    if (hp_entry_may_wait(comm, "hoop_comm_destroy") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    if (!hp_progress_enter_alone(comm))
        return hp_entry_refuse(comm, HOOP_ERR_BUSY,
                               "hoop_comm_destroy: another thread is in a blocking call on this communicator; end that "
                               "one first, with hoop_comm_abort for instance");
    if (!hp_leave(comm)) {
        hp_progress_leave(comm);
        return hp_entry_refuse(comm, HOOP_ERR_BUSY,
                               "hoop_comm_destroy: another thread is stuck in this communicator, for instance in a "
                               "call into the CUDA driver; nothing was freed");
    }
    result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS) {
        hoop_error error;
        hp_entry_error(comm, &error);
        hp_entry_fail(NULL, &error);
    }
    hp_leave_free(comm);
    return result;
}
