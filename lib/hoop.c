/* SPDX-License-Identifier: MIT */
/*
 * hoop: the public entry points: membership, waits, groups and errors; collective.c has the collectives. Checks
 * arguments and state, writes the messages about the caller's mistakes, and passes on; decides nothing else.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gpu/cuda.h"
#include "lib/entry.h"
#include "lib/environment.h"
#include "lib/group.h"
#include "lib/join.h"
#include "lib/leave.h"
#include "lib/progress.h"
#include "lib/registry.h"
#include "lib/work_pool.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- errors --- */

hoop_result
hoop_comm_error(const hoop_comm *comm, hoop_error *error)
{
    hoop_error found;
    size_t size;
    if (!error || error->size < offsetof(hoop_error, text) + 1)
        return HOOP_ERR_INVALID_ARGUMENT;
    hp_entry_error(comm, &found);
    size = error->size < sizeof(found) ? error->size : sizeof(found);
    if (size < sizeof(found))
        ((char *)&found)[size - 1] = 0; /* a shorter text ends too */
    memcpy(error, &found, size);
    error->size = size;
    return HOOP_SUCCESS;
}

const char *
hoop_version(void)
{
    return PACKAGE_VERSION;
}

hoop_result
hoop_gpu_ordinal(int *ordinal)
{
    hoop_error error;
    if (!ordinal)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_gpu_ordinal: ordinal is NULL");
    *ordinal = -1;
    hp_err_clear(&error);
    if (hp_cuda_ordinal(ordinal, &error) == HOOP_SUCCESS)
        return HOOP_SUCCESS;
    *ordinal = -1;
    return hp_entry_fail(NULL, &error);
}

hoop_result
hoop_gpu_describe(char *text, size_t size)
{
    if (!text || size == 0)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_gpu_describe: there is no room for the text");
    hp_gpu_describe(text, size);
    return HOOP_SUCCESS;
}

hoop_result
hoop_config_set(hoop_config *config, const char *key, const char *value)
{
    hoop_error error;
    if (!config || !key || !value)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_config_set: a NULL argument");
    if (hp_config_put(config, key, value, HP_FROM_CALL, &error) == HOOP_SUCCESS)
        return HOOP_SUCCESS;
    return hp_entry_fail(NULL, &error);
}

/* --- membership --- */

static void
set_log(const hoop_comm *comm)
{
    char prefix[64], host[64];
    hp_environment_host(&comm->config, host);
    hp_log_level((int)hp_config_number(&comm->config, HP_SET_debug));
    snprintf(prefix, sizeof(prefix), "%.40s:%d [%d]", host, (int)getpid(),
             (int)hp_config_number(&comm->config, HP_SET_rank));
    hp_log_prefix(prefix);
}

static void
log_version(void)
{
    char gpu[320];
    if (hp_log_enabled(HP_LOG_INFO))
        hp_log(HP_LOG_INFO, "version %s; %s", PACKAGE_VERSION, hp_gpu_describe(gpu, sizeof(gpu)));
}

static void
log_settings(const hoop_comm *comm)
{
    char text[512];
    if (!hp_log_enabled(HP_LOG_INFO))
        return;
    hp_config_describe(&comm->config, text, sizeof(text));
    hp_log(HP_LOG_INFO, "settings: %s", text);
}

static void
configure_gpu(const hoop_config *config)
{
    hp_cuda_options options = {.device = (int)hp_config_number(config, HP_SET_cuda_device),
                               .blocks = (int)hp_config_number(config, HP_SET_cuda_blocks)};
    hp_cuda_configure(&options);
}

static hoop_result
check_window(const hoop_config *config, hoop_error *error)
{
    int64_t window = hp_config_number(config, HP_SET_window), slices = hp_config_number(config, HP_SET_slices);
    if (window == 1)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "window=1 is too small: use at least 2, or 0 for automatic");
    if (window == 0 || window > slices)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "window=%s is too small for slices=%s: a window below slices + 1 would deadlock the ring",
                      hp_config_text(config, HP_SET_window), hp_config_text(config, HP_SET_slices));
}

/* Everything that needs no other rank. */
static hoop_result
prepare(hoop_comm *comm, hoop_error *error)
{
    hp_plan_options *p = &comm->plan;
    hoop_result result;
    comm->forks = hp_registry_watch_forks();
    p->slice_bytes = (uint32_t)hp_config_number(&comm->config, HP_SET_slice_bytes) & ~4095U;
    p->channels = (uint32_t)hp_config_number(&comm->config, HP_SET_channels);
    p->stage_bytes = (uint32_t)hp_config_number(&comm->config, HP_SET_stage_bytes) & ~4095U;
    p->halves_bytes = (uint32_t)hp_config_number(&comm->config, HP_SET_halves_bytes);
    configure_gpu(&comm->config);
    result = check_window(&comm->config, error);
    if (result == HOOP_SUCCESS)
        result = hp_host_ops.open(&comm->device[0], NULL, error);
    return result;
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
    hp_err_clear(&error);
    if (!out)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_comm_create: comm is NULL");
    *out = NULL;
    comm = hp_alloc(1, sizeof(*comm));
    if (!comm)
        return hp_entry_refuse(NULL, HOOP_ERR_NO_MEMORY, "out of memory for a communicator");
    hp_environment_limits();
    result = hp_progress_init(comm, &error); /* first, because give_up takes down what is there, whatever fails later */
    if (result == HOOP_SUCCESS)
        result = hp_config_resolve(&comm->config, config, &error);
    if (result == HOOP_SUCCESS) {
        set_log(comm);
        log_version();
    }
    if (result == HOOP_SUCCESS)
        result = prepare(comm, &error);
    if (result == HOOP_SUCCESS)
        result = hp_join_world(comm, &error);
    if (result != HOOP_SUCCESS)
        return give_up(comm, &error);
    log_settings(comm);
    hp_registry_add(comm);
    *out = comm;
    return HOOP_SUCCESS;
}

/*
 * The other ranks must not wait in a split for a rank whose call has failed. The server knows whether one of them does.
 */
static void
refuse_split(hoop_comm *comm, const hoop_error *cause)
{
    hoop_error cause_for_others;
    char me[96];
    hp_err_set(&cause_for_others, HOOP_ERR_ABORTED, "%s could not take part in the split: %.130s",
               hp_comm_name(comm, comm->rank, me), cause->text);
    hp_progress_refuse(comm, comm->splits, &cause_for_others);
}

static hoop_result
split(hoop_comm *comm, int color, int key, hoop_comm **out)
{
    hoop_error error;
    hoop_comm *part = hp_alloc(1, sizeof(*part));
    hoop_result result;
    comm->splits++; /* every call counts, also one that fails: the n-th calls of all ranks belong together */
    hp_err_clear(&error);
    if (part) {
        part->config = comm->config;
        part->colocated = comm->colocated;
        result = hp_progress_init(part, &error);
        if (result == HOOP_SUCCESS)
            result = prepare(part, &error);
    } else {
        result = hp_err_set(&error, HOOP_ERR_NO_MEMORY, "out of memory for a communicator");
    }
    if (result == HOOP_SUCCESS)
        result = hp_join_split(part, comm, color, key, &error);
    if (result != HOOP_SUCCESS) {
        refuse_split(comm, &error);
        if (part)
            give_up(part, &error);
        return hp_entry_fail(comm, &error);
    }
    if (part->size == 0) {
        hp_leave_free(part);
    } else {
        hp_registry_add(part);
        *out = part;
    }
    return HOOP_SUCCESS;
}

hoop_result
hoop_comm_split(hoop_comm *comm, int color, int key, hoop_comm **out)
{
    hoop_result result;
    if (!out)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT, "hoop_comm_split: newcomm is NULL");
    *out = NULL;
    result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        return result;
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, "hoop_comm_split cannot be called inside a group");
    if (hp_progress_enter(comm) != HOOP_SUCCESS)
        return hp_entry_refuse(comm, HOOP_ERR_BUSY, "another thread is in a blocking call on this communicator");
    hp_progress_depart(comm);
    result = split(comm, color, key, out);
    hp_progress_return(comm);
    hp_progress_leave(comm);
    return result;
}

static hoop_result
not_built(const hoop_comm *comm, hoop_comm **out, const char *text)
{
    hoop_result result;
    if (out)
        *out = NULL;
    result = hp_entry_check(comm);
    return result == HOOP_SUCCESS ? hp_entry_refuse(comm, HOOP_ERR_UNSUPPORTED, text) : result;
}

hoop_result
hoop_comm_shrink(hoop_comm *comm, hoop_comm **out)
{
    return not_built(comm, out, "hoop_comm_shrink is not built yet: end the job and start it again with fewer ranks");
}

hoop_result
hoop_comm_grow(hoop_comm *comm, hoop_comm **out)
{
    return not_built(comm, out, "hoop_comm_grow is not built yet: end the job and start it again with more ranks");
}

hoop_result
hoop_comm_abort(hoop_comm *comm, const char *why)
{
    hoop_error error;
    char me[96];
    hoop_result result = hp_entry_check(comm);
    if (!comm || comm->forks != hp_forks())
        return result;
    hp_err_set(&error, HOOP_ERR_ABORTED, "%s aborted the job%s%.120s", hp_comm_name(comm, comm->rank, me),
               why ? ": " : "", why ? why : "");
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
    if (hp_progress_enter(comm) != HOOP_SUCCESS)
        return hp_entry_refuse(comm, HOOP_ERR_BUSY, "another thread is in a blocking call on this communicator");
    if (!hp_leave(comm)) {
        hp_progress_leave(comm);
        return hp_entry_refuse(comm, HOOP_ERR_BUSY,
                               "hoop_comm_destroy: another thread is stuck in this communicator, for instance in a "
                               "call into the CUDA driver; nothing was freed");
    }
    result = atomic_load(&comm->fault.known) ? comm->fault.error.code : HOOP_SUCCESS;
    if (result != HOOP_SUCCESS)
        hp_entry_fail(NULL, &comm->fault.error);
    hp_leave_free(comm);
    return result;
}

int
hoop_comm_rank(const hoop_comm *comm)
{
    return comm ? comm->rank : -1;
}

int
hoop_comm_size(const hoop_comm *comm)
{
    return comm ? comm->size : -1;
}

int
hoop_comm_local_rank(const hoop_comm *comm)
{
    return comm ? comm->local_rank : -1;
}

int
hoop_comm_local_size(const hoop_comm *comm)
{
    return comm ? comm->local_size : -1;
}

uint64_t
hoop_comm_completed(const hoop_comm *comm)
{
    return comm ? atomic_load(&((hoop_comm *)(uintptr_t)comm)->completed) : 0;
}

_Static_assert((int)HOOP_ADDRESS_TEXT >= INET6_ADDRSTRLEN + IF_NAMESIZE, "an address and its interface");

hoop_result
hoop_comm_local_address(const hoop_comm *comm, char *text, size_t size)
{
    char host[HP_ADDR_TEXT] = "";
    if (!comm || !text || size == 0)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT,
                               "hoop_comm_local_address: comm is NULL, or there is no room for the text");
    if (comm->entry.listener) /* chosen before hoop_comm_create returned; it changes no more */
        hp_addr_host(&comm->entry.addr, host);
    text[0] = '\0';
    if (strlen(host) >= size)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT,
                               "hoop_comm_local_address: size is too small: HOOP_ADDRESS_TEXT is enough");
    snprintf(text, size, "%s", host);
    return HOOP_SUCCESS;
}

/* --- waiting --- */

static hoop_result
check_wait(const hoop_work *work, const char *null)
{
    if (!work)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, null);
    if (work->comm->forks != hp_forks())
        return hp_entry_check(work->comm);
    if (hp_group_open())
        return hp_entry_refuse(work->comm, HOOP_ERR_INVALID_USAGE, "a wait inside a group: call hoop_group_end first");
    return HOOP_SUCCESS;
}

hoop_result
hoop_work_test(hoop_work *work, int *done)
{
    hoop_result result = check_wait(work, "hoop_work_test: work is NULL");
    if (result == HOOP_SUCCESS && !done)
        result = hp_entry_refuse(work->comm, HOOP_ERR_INVALID_ARGUMENT, "hoop_work_test: done is NULL");
    if (result != HOOP_SUCCESS)
        return result;
    if (!atomic_load(&work->done))
        hp_progress_poke(work->comm);
    *done = atomic_load(&work->done);
    return *done ? work->result : HOOP_SUCCESS;
}

hoop_result
hoop_work_wait(hoop_work *work, int timeout_ms)
{
    hoop_result result = check_wait(work, "hoop_work_wait: work is NULL");
    hoop_comm *comm;
    int done;
    if (result != HOOP_SUCCESS)
        return result;
    comm = work->comm;
    done = atomic_load(&work->done);
    if (!done) {
        if (hp_progress_enter(comm) != HOOP_SUCCESS)
            return hp_entry_refuse(comm, HOOP_ERR_BUSY, "another thread is in a blocking call on this communicator");
        done = hp_progress_wait(comm, work, timeout_ms < 0 ? HP_NEVER : hp_now() + (uint64_t)timeout_ms * HP_MS);
        hp_progress_leave(comm);
    }
    if (!done)
        return HOOP_IN_PROGRESS;
    result = work->result;
    hp_work_pool_give(comm, work);
    return result == HOOP_SUCCESS ? result : hp_entry_check(comm);
}

hoop_result
hoop_wait_all(hoop_work **works, size_t count)
{
    hoop_result first = HOOP_SUCCESS;
    if (!works && count)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_wait_all: works is NULL");
    for (size_t i = 0; i < count; i++) {
        hoop_result result = works[i] ? hoop_work_wait(works[i], -1) : HOOP_SUCCESS;
        if (first == HOOP_SUCCESS)
            first = result;
        if (result != HOOP_ERR_BUSY && result != HOOP_ERR_INVALID_USAGE && result != HOOP_ERR_FORKED)
            works[i] = NULL;
    }
    return first;
}

int
hoop_comm_fd(const hoop_comm *comm)
{
    hoop_error error;
    int fd;
    if (hp_entry_check(comm) != HOOP_SUCCESS)
        return -1;
    fd = hp_progress_fd((hoop_comm *)(uintptr_t)comm, &error);
    if (fd < 0)
        hp_entry_fail(comm, &error);
    return fd;
}

hoop_result
hoop_comm_progress(hoop_comm *comm)
{
    hoop_result result = hp_entry_check(comm);
    if (!comm || comm->forks != hp_forks())
        return result;
    hp_progress_poke(comm); /* also where the error is known: the driver may have yet to end the works */
    return hp_entry_check(comm);
}

/* --- groups --- */

hoop_result
hoop_group_start(hoop_comm *comm)
{
    hoop_result result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        return result;
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, "hoop_group_start inside a group: groups do not nest");
    if (!hp_group_begin(comm))
        return hp_entry_refuse(comm, HOOP_ERR_BUSY, "another thread has a group open on this communicator");
    return HOOP_SUCCESS;
}

static hoop_result
close_group(hoop_comm *comm, hoop_work **first, hoop_work **last)
{
    hoop_error error;
    hoop_result result;
    *first = *last = NULL;
    if (!comm || hp_group_open() != comm)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE, "hoop_group_end without hoop_group_start by this thread");
    hp_call refused = comm->group.head ? comm->group.head->call : comm->group.call; /* the first that is not started */
    result = hp_group_close(comm, first, last, &error);
    if (result != HOOP_SUCCESS)
        return hp_entry_unstarted(comm, &refused, hp_entry_fail(comm, &error));
    result = hp_entry_check(comm);
    for (hoop_work *work = *first, *next; work && result != HOOP_SUCCESS; work = next) {
        next = work->next;
        hp_work_pool_give(comm, work);
    }
    return result;
}

/* Starts what the group holds; *work is the last of it, which completes last. */
static hoop_result
start_group(hoop_comm *comm, int blocking, hoop_work **work)
{
    hoop_work *first, *last;
    hoop_result result = close_group(comm, &first, &last);
    hp_call call = first ? first->call : (hp_call){0};
    if (result == HOOP_SUCCESS && first)
        result = hp_entry_unstarted(comm, &call, hp_entry_order(comm, first));
    if (result != HOOP_SUCCESS)
        return result;
    if (!first) { /* an empty group is done before it starts */
        last = hp_work_pool_take(comm);
        if (!last)
            return hp_entry_refuse(comm, HOOP_ERR_NO_MEMORY, "out of memory for a group");
        last->comm = comm;
        atomic_store(&last->done, 1);
    } else {
        hp_progress_submit(comm, first, last, blocking);
    }
    *work = last;
    return HOOP_SUCCESS;
}

hoop_result
hoop_igroup_end(hoop_comm *comm, hoop_work **work)
{
    if (!work)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT, "hoop_igroup_end: work is NULL");
    *work = NULL;
    return start_group(comm, 0, work);
}

hoop_result
hoop_group_end(hoop_comm *comm)
{
    hoop_work *work = NULL;
    hoop_result result;
    int mine = comm && hp_group_open() == comm;
    if (mine && hp_progress_enter(comm) != HOOP_SUCCESS)
        return hp_entry_refuse(comm, HOOP_ERR_BUSY,
                               "another thread is in a blocking call on this communicator; the group stays open");
    result = start_group(comm, 1, &work);
    if (result == HOOP_SUCCESS) {
        hp_progress_wait(comm, work, HP_NEVER);
        result = work->result == HOOP_SUCCESS ? HOOP_SUCCESS : hp_entry_check(comm);
        hp_work_pool_give(comm, work);
    }
    if (mine)
        hp_progress_leave(comm);
    return result;
}
