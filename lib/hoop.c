/* SPDX-License-Identifier: MIT */
/*
 * hoop: the public entry points for what a communicator is asked and told, and for settings; create.c has its life, wait.c
 * the waits, calls.c the operations. Checks arguments and state, writes the messages about the caller's mistakes, and
 * passes on; decides nothing else.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/thread.h"
#include "gpu/cuda.h"
#include "lib/comm.h"
#include "lib/entry.h"
#include "lib/group.h"
#include "lib/progress.h"
#include "lib/registry.h"
#include "lib/stats.h"

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
            comm, HOOP_ERR_INVALID_ARGUMENT,
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

/* --- what a communicator is asked --- */

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
