/* SPDX-License-Identifier: MIT */
/*
 * wait: the public functions of an operation that was started: look at it, wait for it or for one of several, be called
 * when it has ended, let it go, ask what it has received. Checks arguments and state, and passes on to progress.c and
 * works.c.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "lib/baton.h"
#include "lib/entry.h"
#include "lib/group.h"
#include "lib/progress.h"
#include "lib/registry.h"
#include "lib/works.h"

#include <sys/eventfd.h>

static int
is_done(hoop_work *work)
{
    return hp_work_is_done(atomic_load(&work->state));
}

/* A work that this process and this thread may use now. */
static hoop_result
check_work(const hoop_work *work, const char *null)
{
    if (!work)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, null);
    if (work->comm->forks != hp_forks())
        return hp_entry_check(work->comm);
    if (hp_group_open())
        return hp_entry_refuse(work->comm, HOOP_ERR_INVALID_USAGE,
                               "a wait, a test or hoop_work_on_done inside a group: call hoop_group_end first");
    return HOOP_SUCCESS;
}

/* The same for the call of this name, which waits; `null` says that its work is NULL. */
static hoop_result
check_wait(const hoop_work *work, const char *call, const char *null)
{
    hoop_result result = check_work(work, null);
    return result == HOOP_SUCCESS ? hp_entry_may_wait(work->comm, call) : result;
}

/* Frees a work that is done; its result. */
static hoop_result
take_result(hoop_work *work)
{
    hoop_comm *comm = work->comm;
    hoop_result result = work->result;
    hp_entry_note_received(work);
    hp_work_pool_give(comm, work);
    return result == HOOP_SUCCESS ? result : hp_entry_check(comm);
}

static uint64_t
deadline_of(int timeout_ms)
{
    return timeout_ms < 0 ? HP_NEVER : hp_now() + (uint64_t)timeout_ms * HP_MS;
}

hoop_result
hoop_work_test(hoop_work *work, int *done)
{
    if (done)
        *done = 0; /* also where the call is refused */
    hoop_result result = check_work(work, "hoop_work_test: work is NULL");
    if (result == HOOP_SUCCESS && !done)
        result = hp_entry_refuse(work->comm, HOOP_ERR_INVALID_ARGUMENT, "hoop_work_test: done is NULL");
    if (result != HOOP_SUCCESS)
        return result;
    if (!is_done(work))
        hp_progress_poke(work->comm);
    *done = is_done(work);
    return *done && work->result != HOOP_SUCCESS ? hp_entry_check(work->comm) : HOOP_SUCCESS;
}

hoop_result
hoop_work_wait(hoop_work *work, int timeout_ms)
{
    hoop_result result = check_wait(work, "hoop_work_wait", "hoop_work_wait: work is NULL");
    if (result != HOOP_SUCCESS)
        return result;
    int done = is_done(work);
    if (!done) {
        hp_progress_enter(work->comm);
        hp_waiter waiter = {.comm = work->comm, .works = &work, .count = 1};
        done = hp_entry_wait(&waiter, deadline_of(timeout_ms), 0);
        hp_progress_leave(work->comm);
    }
    return done ? take_result(work) : HOOP_IN_PROGRESS;
}

/* Within JUDGED_MS the driver, or the server, ends an operation that is overdue; meanwhile it may get on, so that messages remain. */
enum { JUDGED_MS = 10000, LOOK_MS = 100 };

/* The server judges what the work waits for. 1: it is done; *messages: it waits for messages by now, as hp_progress_awaits has it. */
static int
is_judged(hoop_work *work, uint64_t waited, hp_message *first, int *messages)
{
    hoop_comm *comm = work->comm;
    int judged = *messages == 0 && hp_progress_overdue(comm, work->sequence, waited);
    uint64_t until = deadline_of(JUDGED_MS);
    while (judged && *messages == 0 && hp_now() < until) {
        if (hp_progress_wait(comm, work, work->message_count ? deadline_of(LOOK_MS) : until))
            return 1;
        *messages = work->message_count ? hp_progress_awaits(comm, work, first) : 0;
    }
    return 0;
}

/*
 * The limit of a wait, which has lasted since then, is over. If the communicator is not ended within bounds, this
 * rank aborts it; not if only the work's function has to return. 1: the work is done; 0: another thread is stuck, and
 * the communicator has the error.
 */
static int
expire(hoop_work *work, uint64_t since)
{
    static const hp_call unknown;
    hoop_comm *comm = work->comm;
    hp_message first; /* is named */
    hoop_error error;
    char me[96], peer[96], call[192] = "";
    if (atomic_load(&work->state) & HP_WORK_ENDED)
        return hp_progress_wait(comm, work, HP_NEVER);
    int messages = work->message_count ? hp_progress_awaits(comm, work, &first) : 0;
    if (is_judged(work, hp_now() - since, &first, &messages))
        return 1;
    if (messages < 0)
        first = work->messages[0];
    if (messages)
        hp_message_print(&first, hp_comm_name(comm, first.peer, peer), call, sizeof(call));
    hp_err_set(&error, HOOP_ERR_TIMEOUT, "%s has waited %.1f s %s %s%s, which was the limit of that wait",
               hp_comm_name(comm, comm->rank, me), (double)(hp_now() - since) / 1e9, messages ? "in" : "for",
               messages ? call : hp_say_operation(work->sequence, work->message_count ? &unknown : &work->call).text,
               work->message_count > 1 ? " and others of one call" : "");
    error.rank = !messages ? comm->rank : messages == 1 ? first.peer : -1;
    error.reporter = comm->rank;
    error.sequence = messages ? HP_NO_OPERATION : work->sequence;
    hp_progress_abort(comm, &error);
    return is_done(work);
}

hoop_result
hoop_work_wait_or_fail(hoop_work *work, int timeout_ms)
{
    hoop_result result = check_wait(work, "hoop_work_wait_or_fail", "hoop_work_wait_or_fail: work is NULL");
    if (result != HOOP_SUCCESS)
        return result;
    hoop_comm *comm = work->comm;
    uint64_t since = hp_now();
    int done = is_done(work);
    if (!done) {
        hp_waiter waiter = {.comm = comm, .works = &work, .count = 1};
        hp_progress_enter(comm);
        done = hp_entry_wait(&waiter, deadline_of(timeout_ms), 1) || expire(work, since);
        hp_progress_leave(comm);
    }
    return done ? take_result(work) : hp_entry_check(comm);
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
        if (result != HOOP_ERR_INVALID_USAGE && result != HOOP_ERR_FORKED)
            works[i] = NULL;
    }
    return first;
}

/* --- one of several --- */

/* The index of the first that is done; count: none is. */
static size_t
first_done(hoop_work **works, size_t count)
{
    size_t i = 0;
    while (i < count && !(works[i] && is_done(works[i])))
        i++;
    return i;
}

/* The communicator of works[i], if no work before it has the same one; else NULL. */
static hoop_comm *
new_comm(hoop_work **works, size_t i)
{
    if (!works[i])
        return NULL;
    for (size_t k = 0; k < i; k++)
        if (works[k] && works[k]->comm == works[i]->comm)
            return NULL;
    return works[i]->comm;
}

/*
 * This thread drives the first communicator, or sleeps while another one does. The background threads of the others
 * drive those meanwhile, as during a split, unless threads wait there. Whoever ends an operation wakes this thread.
 */
static void
wait_for_one(hoop_work **works, size_t count, uint64_t deadline)
{
    hp_waiter waiter = {.works = works, .count = count};
    for (size_t i = 0; i < count; i++) {
        hoop_comm *comm = new_comm(works, i);
        if (comm && !waiter.comm) {
            waiter.comm = comm;
            hp_progress_enter(comm);
        } else if (comm) {
            waiter.several = 1;
            hp_progress_depart(comm);
        }
    }
    hp_entry_wait(&waiter, deadline, 0);
    for (size_t i = 0; i < count; i++) {
        hoop_comm *comm = new_comm(works, i);
        if (comm == waiter.comm)
            hp_progress_leave(comm);
        else if (comm)
            hp_progress_return(comm);
    }
}

static hoop_result
check_works(hoop_work **works, size_t count, const size_t *index)
{
    hoop_result result = HOOP_SUCCESS;
    if ((!works && count) || !index)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_wait_any: works or index is NULL");
    for (size_t i = 0; i < count && result == HOOP_SUCCESS; i++)
        if (works[i])
            result = check_work(works[i], "");
    return result == HOOP_SUCCESS ? hp_entry_may_wait(NULL, "hoop_wait_any") : result;
}

hoop_result
hoop_wait_any(hoop_work **works, size_t count, int timeout_ms, size_t *index)
{
    size_t left = 0;
    hoop_result result = check_works(works, count, index);
    if (result != HOOP_SUCCESS)
        return result;
    for (size_t i = 0; i < count; i++)
        left += works[i] != NULL;
    *index = first_done(works, count);
    if (left > 0 && *index == count) {
        wait_for_one(works, count, deadline_of(timeout_ms));
        *index = first_done(works, count);
    }
    if (*index == count)
        return left > 0 ? HOOP_IN_PROGRESS : HOOP_SUCCESS;
    hoop_work *ended = works[*index];
    works[*index] = NULL;
    return take_result(ended);
}

/* --- callbacks --- */

hoop_result
hoop_work_on_done(hoop_work *work, hoop_done_fn *fn, void *arg)
{
    hoop_result result = check_work(work, "hoop_work_on_done: work is NULL");
    if (result == HOOP_SUCCESS && !fn)
        result = hp_entry_refuse(work->comm, HOOP_ERR_INVALID_ARGUMENT, "hoop_work_on_done: fn is NULL");
    if (result != HOOP_SUCCESS)
        return result;
    hoop_comm *comm = work->comm;
    if (atomic_fetch_or(&work->state, HP_WORK_CLAIMED) & HP_WORK_CLAIMED)
        return hp_entry_refuse(comm, HOOP_ERR_INVALID_USAGE,
                               "hoop_work_on_done: this operation has a function already, and can have only one");
    work->fn = fn;
    work->fn_arg = arg;
    if (atomic_fetch_or(&work->state, HP_WORK_CALLS) & HP_WORK_ENDED) {
        atomic_fetch_add(&comm->driver.outstanding, 1);
        hp_callback_queue(comm, work);
        hp_callback_run(comm);
    }
    return HOOP_SUCCESS;
}

/* When the result is stored, the signal may be gone. */
void
hoop_signal_done(void *signal, hoop_result result)
{
    hoop_signal *s = signal;
    int fd = s->fd;
    __atomic_store_n(&s->result, result, __ATOMIC_RELEASE);
    if (fd >= 0 && eventfd_write(fd, 1) != 0)
        hp_log(HP_LOG_WARN, "hoop_signal_done: descriptor %d is no eventfd, or was closed before its operation ended",
               fd);
}

hoop_result
hoop_work_free(hoop_work *work)
{
    if (!work)
        return HOOP_SUCCESS;
    hoop_comm *comm = work->comm;
    if (comm->forks != hp_forks())
        return hp_entry_check(comm);
    if (hp_work_is_done(atomic_fetch_or(&work->state, HP_WORK_FREED)))
        hp_work_pool_give(comm, work);
    return HOOP_SUCCESS;
}

/* --- what has come --- */

static void
hand_out(const hp_receipt *received, int *peer, size_t *count)
{
    if (peer)
        *peer = received->peer;
    if (count)
        *count = received->count;
}

hoop_result
hoop_received(int *peer, size_t *count)
{
    const hp_receipt *received = hp_entry_received();
    if (!received->known)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_USAGE,
                               "hoop_received: this thread has seen the end of no receive yet, by hoop_recv outside a "
                               "group, or by a wait for hoop_irecv");
    hand_out(received, peer, count);
    return HOOP_SUCCESS;
}

hoop_result
hoop_work_received(const hoop_work *work, int *peer, size_t *count)
{
    hp_receipt received;
    if (!work)
        return hp_entry_refuse(NULL, HOOP_ERR_INVALID_ARGUMENT, "hoop_work_received: work is NULL");
    if (!(atomic_load(&work->state) & HP_WORK_ENDED) || work->result != HOOP_SUCCESS ||
        !hp_entry_receives(work, &received))
        return hp_entry_refuse(work->comm, HOOP_ERR_INVALID_USAGE,
                               "hoop_work_received: the work is not of hoop_irecv, has not ended, or has failed");
    hand_out(&received, peer, count);
    return HOOP_SUCCESS;
}
