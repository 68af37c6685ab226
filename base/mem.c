/* SPDX-License-Identifier: MIT */
/* mem: see mem.h. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

void *
hp_alloc(size_t count, size_t size)
{
    size_t bytes; /* calloc looks for an overflow, too, but a sanitizer ends the program there */
    return hp_mul(count, size, &bytes) ? calloc(bytes ? bytes : 1, 1) : NULL; /* NULL is out of memory, never 0 bytes */
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

/* --- for keys --- */

/*
 * A list of pages, each with a head and rooms of one size; a bit marks a room as taken. There is no mutex, because after a
 * fork in another thread the child would find it locked. A page that has come through a fork has a zeroed head, and is
 * skipped. Pages are never freed: there are as many as the most keys at a time needed.
 */
enum { ROOMS_MAX = 64 }; /* of a page, with its head */

typedef struct page {
    uint64_t alive;         /* 0 after a fork */
    _Atomic uint64_t taken; /* a bit for each room; the head's is always set */
    struct page *next;
} page;

static _Atomic(page *) pages;

static size_t
page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static unsigned
rooms(void)
{
    size_t n = page_size() / HP_SECMEM_MOST;
    return n < ROOMS_MAX ? (unsigned)n : ROOMS_MAX;
}

/* A protection that the kernel refuses or does not know is left out: a limit on locked memory is no reason to fail. */
static page *
new_page(void)
{
    size_t size = page_size();
    page *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, size, MADV_DONTDUMP);
    (void)madvise(p, size, MADV_WIPEONFORK);
    (void)mlock(p, size);
    p->alive = 1;
    return p;
}

/* Takes a free room of the page; NULL: there is none. */
static void *
take_room(page *p)
{
    uint64_t taken = atomic_load(&p->taken);
    for (unsigned room = 1; room < rooms(); room++)
        while (!(taken >> room & 1))
            if (atomic_compare_exchange_weak(&p->taken, &taken, taken | UINT64_C(1) << room))
                return (uint8_t *)p + (size_t)room * HP_SECMEM_MOST;
    return NULL;
}

void *
hp_secmem_new(size_t bytes)
{
    page *first = atomic_load(&pages), *fresh;
    void *room = NULL;
    if (bytes > HP_SECMEM_MOST)
        return NULL;
    for (page *p = first; p && p->alive && !room; p = p->next)
        room = take_room(p);
    if (room)
        return room;
    fresh = new_page();
    if (!fresh)
        return NULL;
    room = take_room(fresh);
    do
        fresh->next = first && first->alive ? first : NULL;
    while (!atomic_compare_exchange_weak(&pages, &first, fresh));
    return room;
}

void
hp_secmem_free(void *memory)
{
    if (!memory)
        return;
    size_t at = (uintptr_t)memory % page_size();
    page *p = (page *)((uint8_t *)memory - at);
    hp_wipe(memory, HP_SECMEM_MOST);
    atomic_fetch_and(&p->taken, ~(UINT64_C(1) << at / HP_SECMEM_MOST));
}

void
hp_secmem_hide_process(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0);
}
