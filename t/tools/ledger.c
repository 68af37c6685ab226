/* SPDX-License-Identifier: MIT */
/*
 * ledger: see ledger.h. The functions below take the place of the C library's in the whole process, because a program
 * goes before its libraries when names are bound; the memory is still the C library's, or a sanitizer's.
 */
#include "t/tools/ledger.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HERE __builtin_return_address(0)
#define OTHER(type, name, ...)                                                                                         \
    type __libc_##name(__VA_ARGS__);                                                                                   \
    type __interceptor_##name(__VA_ARGS__) __attribute__((weak))

OTHER(void *, malloc, size_t);
OTHER(void *, calloc, size_t, size_t);
OTHER(void *, realloc, void *, size_t);
OTHER(void *, memalign, size_t, size_t);
OTHER(void, free, void *);
void *__interceptor_mmap(void *, size_t, int, int, int, off_t) __attribute__((weak));
int __interceptor_munmap(void *, size_t) __attribute__((weak));

enum {
    FIRST = 6,
    EXTENSION_BYTES = 152 /* what the C library 2.36 adds to the attributes of a thread */
};

static atomic_int open_now, failed, fail_on;
static atomic_ulong taken, given, fail_from;
static atomic_long alive;
static struct {
    const char *how;
    size_t bytes;
    const void *caller;
} first[FIRST];

/*
 * AddressSanitizer asks for each new thread's stack, and ends the process if there is no memory for the answer. The C
 * library allocates for it in three functions, one of which has no name. Not inlined: an instrumented stack may not be
 * used before AddressSanitizer is ready, and enter() is.
 */
static __attribute__((noinline)) int
is_sanitizers(size_t bytes, const void *caller)
{
    Dl_info info;
    if (!__interceptor_malloc || !dladdr(caller, &info))
        return 0;
    if (!info.dli_sname)
        return bytes == EXTENSION_BYTES;
    return strcmp(info.dli_sname, "pthread_getattr_np") == 0 ||
           strcmp(info.dli_sname, "pthread_attr_setaffinity_np") == 0;
}

/* Enters one request; 0 when it shall fail. */
static int
enter(const char *how, size_t bytes, const void *caller)
{
    unsigned long number, from = atomic_load(&fail_from);
    if (!atomic_load(&open_now))
        return 1;
    number = atomic_fetch_add(&taken, 1) + 1;
    if (number <= FIRST) {
        first[number - 1].how = how;
        first[number - 1].bytes = bytes;
        first[number - 1].caller = caller;
    }
    if (!from || (atomic_load(&fail_on) ? number < from : number != from) || is_sanitizers(bytes, caller))
        return 1;
    atomic_store(&failed, 1);
    errno = ENOMEM;
    return 0;
}

static void
give(void)
{
    if (atomic_load(&open_now))
        atomic_fetch_add(&given, 1);
}

static void *
counted(void *memory)
{
    if (memory)
        atomic_fetch_add(&alive, 1);
    return memory;
}

void *
malloc(size_t bytes)
{
    if (!enter("malloc", bytes, HERE))
        return NULL;
    return counted(__interceptor_malloc ? __interceptor_malloc(bytes) : __libc_malloc(bytes));
}

void *
calloc(size_t count, size_t size)
{
    if (!enter("calloc", count * size, HERE))
        return NULL;
    return counted(__interceptor_calloc ? __interceptor_calloc(count, size) : __libc_calloc(count, size));
}

void *
realloc(void *memory, size_t bytes)
{
    void *moved;
    if (!enter("realloc", bytes, HERE))
        return NULL;
    moved = __interceptor_realloc ? __interceptor_realloc(memory, bytes) : __libc_realloc(memory, bytes);
    if (!memory)
        return counted(moved);
    if (!moved && bytes == 0)
        atomic_fetch_sub(&alive, 1);
    return moved;
}

void *
memalign(size_t alignment, size_t bytes)
{
    if (!enter("memalign", bytes, HERE))
        return NULL;
    return counted(__interceptor_memalign ? __interceptor_memalign(alignment, bytes)
                                          : __libc_memalign(alignment, bytes));
}

void *
aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int
posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    int kept = errno;
    void *made = memalign(alignment, bytes);
    errno = kept;
    if (!made)
        return ENOMEM;
    *memory = made;
    return 0;
}

void
free(void *memory)
{
    if (!memory)
        return;
    give();
    atomic_fetch_sub(&alive, 1);
    if (__interceptor_free)
        __interceptor_free(memory);
    else
        __libc_free(memory);
}

/* A sanitizer's own would not ask malloc. */
char *
strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void *
mmap(void *where, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if ((flags & MAP_ANONYMOUS) && !enter("mmap", bytes, HERE))
        return MAP_FAILED;
    if (__interceptor_mmap)
        return __interceptor_mmap(where, bytes, protection, flags, fd, offset);
    return (void *)(intptr_t)syscall(SYS_mmap, where, bytes, protection, flags, fd, offset);
}

int
munmap(void *where, size_t bytes)
{
    give();
    return __interceptor_munmap ? __interceptor_munmap(where, bytes) : (int)syscall(SYS_munmap, where, bytes);
}

/* --- the ledger's owner --- */

void
ledger_open(unsigned long from, int on)
{
    atomic_store(&taken, 0);
    atomic_store(&given, 0);
    atomic_store(&failed, 0);
    atomic_store(&fail_from, from);
    atomic_store(&fail_on, on);
    atomic_store(&open_now, 1);
}

ledger_sums
ledger_close(void)
{
    atomic_store(&open_now, 0);
    return (ledger_sums){.taken = atomic_load(&taken), .given = atomic_load(&given), .failed = atomic_load(&failed)};
}

const char *
ledger_first(void)
{
    static char text[400];
    size_t used = 0;
    text[0] = 0;
    for (unsigned long i = 0; i < FIRST && i < atomic_load(&taken); i++) {
        Dl_info info = {0};
        const char *file = "?";
        ptrdiff_t at = 0;
        if (dladdr(first[i].caller, &info) && info.dli_fname) {
            file = strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1 : info.dli_fname;
            at = (const char *)first[i].caller - (const char *)info.dli_fbase;
        }
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %zu at %s+%#tx", i ? "; " : "", first[i].how,
                                 first[i].bytes, file, at);
        if (used >= sizeof(text) - 1)
            break;
    }
    return text;
}

long
ledger_alive(void)
{
    return atomic_load(&alive);
}
