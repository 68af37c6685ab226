/* SPDX-License-Identifier: MIT */
/*
 * err: see err.h. It leaves errno as it was, so that it can be called between a system call and the reader of its
 * errno.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *
hoop_strerror(hoop_result result)
{
    switch (result) {
    case HOOP_SUCCESS: return "success";
    case HOOP_ERR_CUDA: return "a CUDA driver call failed";
    case HOOP_ERR_SYSTEM: return "a system call failed";
    case HOOP_ERR_INTERNAL: return "internal error, a bug in hoop";
    case HOOP_ERR_INVALID_ARGUMENT: return "invalid argument";
    case HOOP_ERR_INVALID_USAGE: return "call not allowed at this moment";
    case HOOP_ERR_PEER_LOST: return "a rank died or left";
    case HOOP_IN_PROGRESS: return "still in progress";
    case HOOP_ERR_TIMEOUT: return "timed out without progress";
    case HOOP_ERR_MISMATCH: return "ranks called different operations";
    case HOOP_ERR_ABORTED: return "aborted by a rank";
    case HOOP_ERR_RENDEZVOUS: return "the ranks could not join";
    case HOOP_ERR_AUTH: return "shared secret missing, unreadable or wrong";
    case HOOP_ERR_VERSION: return "protocol versions differ";
    case HOOP_ERR_PROTOCOL: return "the other side violated the protocol";
    case HOOP_ERR_CORRUPT: return "bytes changed on the network";
    case HOOP_ERR_NO_MEMORY: return "out of memory";
    case HOOP_ERR_UNSUPPORTED: return "not supported by this build";
    case HOOP_ERR_BUSY: return "another thread is using the communicator";
    case HOOP_ERR_FORKED: return "the communicator belongs to the parent process";
    case HOOP_ERR_STALE_EPOCH: return "the other ranks continued without this one";
    case HOOP_ERR_NO_QUORUM: return "too few ranks are left";
    }
    return "unknown result code";
}

void
hp_err_clear(hoop_error *error)
{
    if (!error)
        return;
    memset(error, 0, sizeof(*error));
    error->size = sizeof(*error);
    error->code = HOOP_SUCCESS;
    error->rank = -1;
    error->reporter = -1;
}

__attribute__((format(printf, 3, 0))) static void
set_va(hoop_error *error, hoop_result code, const char *format, va_list ap)
{
    char text[sizeof(error->text)]; /* the new sentence may quote the old one */
    vsnprintf(text, sizeof(text), format, ap);
    hp_err_clear(error);
    error->code = code;
    memcpy(error->text, text, sizeof(text));
}

hoop_result
hp_err_set(hoop_error *error, hoop_result code, const char *format, ...)
{
    int saved = errno;
    va_list ap;
    if (!error)
        return code;
    va_start(ap, format);
    set_va(error, code, format, ap);
    va_end(ap);
    errno = saved;
    return code;
}

hoop_result
hp_err_sys(hoop_error *error, hoop_result code, int number, const char *format, ...)
{
    int saved = errno;
    char buffer[128];
    va_list ap;
    size_t used;
    if (!error)
        return code;
    va_start(ap, format);
    set_va(error, code, format, ap);
    va_end(ap);
    error->sys_errno = number;
    used = strlen(error->text);
    snprintf(error->text + used, sizeof(error->text) - used, ": %s%s", strerror_r(number, buffer, sizeof(buffer)),
             number == EFBIG ? " (raise \"ulimit -f\")" : "");
    errno = saved;
    return code;
}
