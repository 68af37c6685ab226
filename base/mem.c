/* SPDX-License-Identifier: MIT */
/* mem: see mem.h. The caller owns the memory, and frees heap memory with free(), pages with hp_pages_free(). */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *
hp_alloc(size_t count, size_t size)
{
    size_t bytes;
    if (!hp_mul(count, size, &bytes))
        return NULL;
    return calloc(1, bytes ? bytes : 1); /* calloc(1, 0) may return NULL, which callers take for out of memory */
}

char *
hp_strdup(const char *text)
{
    return text ? strdup(text) : NULL;
}

void *
hp_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    /*
     * Pages that a GPU refers to must not become copy-on-write: after a fork the parent's next write would go to a new
     * copy, which the GPU does not see.
     */
    if (madvise(pages, bytes ? bytes : 1, MADV_DONTFORK) != 0) {
        hp_pages_free(pages, bytes);
        return NULL;
    }
    return pages;
}

void
hp_pages_free(void *pages, size_t bytes)
{
    if (pages)
        munmap(pages, bytes ? bytes : 1);
}

int
hp_mul(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

int
hp_overlap(const void *a, size_t na, const void *b, size_t nb)
{
    uintptr_t pa = (uintptr_t)a;
    uintptr_t pb = (uintptr_t)b;
    if (na == 0 || nb == 0)
        return 0;
    return pa <= pb ? pb - pa < na : pa - pb < nb;
}

void
hp_wipe(void *bytes, size_t length)
{
    if (length != 0)
        explicit_bzero(bytes, length);
}
