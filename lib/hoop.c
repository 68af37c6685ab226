/* SPDX-License-Identifier: MIT */
/*
 * hoop: the public entry points: membership and errors; group_call.c has those of groups, wait.c the waits, collective.c
 * the collectives. Checks arguments and state, writes the messages about the caller's mistakes, and passes on; decides
 * nothing else.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/thread.h"
#include "gpu/cuda.h"
#include "lib/bootstrap.h"
#include "lib/entry.h"
#include "lib/environment.h"
#include "lib/group.h"
#include "lib/join.h"
#include "lib/leave.h"
#include "lib/name.h"
#include "lib/progress.h"
#include "lib/recorder.h"
#include "lib/registry.h"
#include "lib/stats.h"
#include "lib/work_pool.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

hoop_result
hoop_comm_stats(const hoop_comm *comm, hoop_stats *stats)
{
    hoop_comm *mine = (hoop_comm *)(uintptr_t)comm; /* what was read is noted */
    hoop_stats found = {0};
    if (!comm || !stats || stats->size < offsetof(hoop_stats, operations) + sizeof(found.operations))
        return hp_entry_refuse(
            NULL, HOOP_ERR_INVALID_ARGUMENT,
            "hoop_comm_stats: comm or stats is NULL, or stats->size was not set to sizeof(hoop_stats)");
    hp_stats_fill(mine, &found);
    found.size = stats->size < sizeof(found) ? stats->size : sizeof(found);
    memcpy(stats, &found, found.size);
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
    atomic_store(&comm->driver.op_timeout, (uint64_t)hp_config_number(&comm->config, HP_SET_op_timeout_ms) * HP_MS);
    p->slice_bytes = (uint32_t)hp_config_number(&comm->config, HP_SET_slice_bytes);
    p->channels = (uint32_t)hp_config_number(&comm->config, HP_SET_channels);
    p->stage_bytes = (uint32_t)hp_config_number(&comm->config, HP_SET_stage_bytes) & ~4095U;
    p->halves_bytes = (uint32_t)hp_config_number(&comm->config, HP_SET_halves_bytes);
    configure_gpu(&comm->config);
    result = check_window(&comm->config, error);
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

/* From settings, and what another launcher says, to a ring. */
static hoop_result
enter_world(hoop_comm *comm, hoop_error *error)
{
    uint64_t deadline = hp_join_deadline(comm);
    hoop_result result = hp_bootstrap_run(comm, deadline, error);
    if (result == HOOP_SUCCESS)
        result = hp_join_world(comm, deadline, error);
    hp_bootstrap_forget(comm);
    return name_interrupt(result, comm->order ? comm->rank : (int)hp_config_number(&comm->config, HP_SET_rank), error);
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
    if (hp_entry_may_wait(NULL, "hoop_comm_create") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    comm = hp_alloc(1, sizeof(*comm));
    if (!comm)
        return hp_entry_refuse(NULL, HOOP_ERR_NO_MEMORY, "out of memory for a communicator");
    hp_environment_limits();
    result = hp_progress_init(comm, &error); /* first, because give_up takes down what is there, whatever fails later */
    if (result == HOOP_SUCCESS)
        result = hp_config_resolve(&comm->config, config, &error);
    if (result == HOOP_SUCCESS) {
        hp_environment_log(&comm->config);
        log_version();
        hp_name_set(comm, hp_config_text(&comm->config, HP_SET_name));
    }
    if (result == HOOP_SUCCESS)
        result = prepare(comm, &error);
    if (result == HOOP_SUCCESS)
        result = enter_world(comm, &error);
    if (result != HOOP_SUCCESS)
        return give_up(comm, &error);
    log_settings(comm);
    hp_recorder_open(comm);
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
    hp_recorder_split(comm, 1);
    hp_err_clear(&error);
    if (part) {
        part->config = comm->config;
        part->colocated = comm->colocated;
        part->host_ranks = comm->host_ranks;
        result = hp_progress_init(part, &error);
        if (result == HOOP_SUCCESS)
            result = prepare(part, &error);
    } else {
        result = hp_err_set(&error, HOOP_ERR_NO_MEMORY, "out of memory for a communicator");
    }
    if (result == HOOP_SUCCESS)
        result = name_interrupt(hp_join_split(part, comm, color, key, &error), comm->rank, &error);
    if (result != HOOP_SUCCESS) {
        refuse_split(comm, &error);
        if (part)
            give_up(part, &error);
        return hp_entry_fail(comm, &error);
    }
    if (part->size == 0) {
        hp_leave_free(part);
    } else {
        hp_recorder_open(part);
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
    if (hp_entry_may_wait(comm, "hoop_comm_split") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    hp_progress_depart(comm);
    pthread_mutex_lock(&comm->driver.splitting); /* one thread after the other */
    result = hp_entry_check(comm);
    if (result == HOOP_SUCCESS)
        result = split(comm, color, key, out);
    if (result == HOOP_SUCCESS)
        hp_recorder_split(comm, 0);
    pthread_mutex_unlock(&comm->driver.splitting);
    hp_progress_return(comm);
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

hoop_result
hoop_comm_set_timeout(hoop_comm *comm, int timeout_ms)
{
    const hp_setting_row *row = &hp_setting_table[HP_SET_op_timeout_ms];
    hoop_error error;
    hoop_result result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        return result;
    if (timeout_ms < row->least || timeout_ms > row->most) {
        hp_err_set(&error, HOOP_ERR_INVALID_ARGUMENT,
                   "hoop_comm_set_timeout: timeout_ms is %d: give %lld to %lld milliseconds, 0 for no limit",
                   timeout_ms, (long long)row->least, (long long)row->most);
        return hp_entry_fail(comm, &error);
    }
    atomic_store(&comm->driver.op_timeout, (uint64_t)timeout_ms * HP_MS);
    hp_loop_wake(comm->loop); /* a driver that sleeps for the old limit */
    return HOOP_SUCCESS;
}

/* A name in an array of `size` bytes. */
static hoop_result
check_name(const hoop_comm *comm, const char *function, const char *name, size_t size)
{
    hoop_error error;
    size_t n = strnlen(name, size);
    if (n < size && hp_text_is_name(name, n))
        return HOOP_SUCCESS;
    if (n == size)
        hp_err_set(&error, HOOP_ERR_INVALID_ARGUMENT, "%s: the name has more than %zu bytes: shorten it", function,
                   size - 1);
    else
        hp_err_set(&error, HOOP_ERR_INVALID_ARGUMENT,
                   "%s: the name has a control character, a newline for instance, or is not UTF-8", function);
    return hp_entry_fail(comm, &error);
}

hoop_result
hoop_comm_set_name(hoop_comm *comm, const char *name)
{
    hoop_result result = hp_entry_check(comm);
    if (result == HOOP_SUCCESS)
        result = check_name(comm, "hoop_comm_set_name", name ? name : "", HP_NAME_TEXT);
    if (result != HOOP_SUCCESS)
        return result;
    hp_name_set(comm, name ? name : "");
    hp_loop_wake(comm->loop);
    if (!hp_group_open())
        hp_progress_poke(comm); /* an idle communicator is not driven */
    return HOOP_SUCCESS;
}

/* A name that is refused leaves none: the former one would be a lie. */
hoop_result
hoop_comm_set_call_name(hoop_comm *comm, const char *name)
{
    hoop_result result = hp_entry_check(comm);
    if (result != HOOP_SUCCESS)
        return result;
    result = check_name(comm, "hoop_comm_set_call_name", name ? name : "", HP_CALL_NAME_TEXT);
    if (hp_name_set_calls(comm, name && result == HOOP_SUCCESS ? name : ""))
        return result;
    return hp_entry_refuse(comm, HOOP_ERR_INVALID_ARGUMENT,
                           "hoop_comm_set_call_name: this communicator has 64 names already: name kinds of calls, "
                           "\"gradients\" for instance, not each call");
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

/* --- a loop of the program --- */

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
hoop_comm_fd_close(hoop_comm *comm)
{
    hoop_result result = hp_entry_check(comm);
    if (!comm || comm->forks != hp_forks())
        return result;
    if (hp_entry_may_wait(comm, "hoop_comm_fd_close") != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_USAGE;
    if (!atomic_load(&comm->driver.manual))
        return result;
    if (!hp_progress_enter_alone(comm))
        return hp_entry_refuse(comm, HOOP_ERR_BUSY,
                               "hoop_comm_fd_close: another thread is in a blocking call on this communicator");
    int closed = hp_progress_fd_close(comm);
    hp_progress_leave(comm);
    if (!closed)
        return hp_entry_refuse(comm, HOOP_ERR_BUSY,
                               "hoop_comm_fd_close: another thread has not come back from this communicator for 5 s");
    return result;
}

hoop_result
hoop_comm_progress(hoop_comm *comm)
{
    hoop_result result = hp_entry_check(comm);
    if (!comm || comm->forks != hp_forks())
        return result;
    if (hp_group_open())
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE,
                               "hoop_comm_progress inside a group: call hoop_group_end first");
    hp_progress_poke(comm); /* also where the error is known: the driver may have yet to end the works */
    return hp_entry_check(comm);
}
