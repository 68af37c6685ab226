/* SPDX-License-Identifier: MIT */
/* mem: zeroed, aligned, absent in children; sizes that overflow are noticed. */
#include "base/mem.h"

#include "t/tap/tap.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int
all_zero(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != 0)
            return 0;
    }
    return 1;
}

static void
check_heap(void)
{
    volatile size_t huge = SIZE_MAX / 2 + 1; /* volatile: compilers warn of what is meant here */
    char *some = hp_alloc(100, 7);
    char *none = hp_alloc(0, 8);
    char *copy = hp_strdup("hoop");
    ok(some && all_zero(some, 700), "memory is zeroed");
    ok(none != NULL, "nothing is not the same as no memory");
    ok(!hp_alloc(huge, 2), "an overflowing size is no memory");
    is_string("hoop", copy, "strdup copies");
    ok(!hp_strdup(NULL), "strdup of NULL is NULL");
    free(some);
    free(none);
    free(copy);
}

/* mincore fails for an address that is not mapped. */
static int
is_mapped(void *page)
{
    unsigned char resident;
    return mincore(page, 1, &resident) == 0;
}

static void
check_pages(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = hp_pages(3 * page + 1);
    int status = -1;
    pid_t child;
    ok(pages && (uintptr_t)pages % page == 0, "pages are aligned to pages");
    ok(all_zero(pages, 3 * page + 1), "pages are zeroed");
    memset(pages, 1, 3 * page + 1);
    child = fork();
    if (child == 0)
        _exit(is_mapped(pages));
    waitpid(child, &status, 0);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child does not have them");
    hp_pages_free(pages, 3 * page + 1);
    ok(!is_mapped(pages) && !is_mapped(pages + 3 * page), "free gives all of them back");
    ok(!hp_pages(SIZE_MAX - page), "too many pages are NULL");
    hp_pages_free(NULL, 5);
    pages = hp_pages(0);
    ok(pages != NULL, "no bytes still have an address");
    hp_pages_free(pages, 0);
}

static void
check_sizes(void)
{
    size_t product = 5;
    ok(hp_mul(6, 7, &product) && product == 42, "6 x 7");
    ok(hp_mul(0, SIZE_MAX, &product) && product == 0, "0 x the largest");
    ok(hp_mul(SIZE_MAX, 1, &product) && product == SIZE_MAX, "1 x the largest");
    ok(!hp_mul(SIZE_MAX / 2 + 1, 2, &product), "2^64 overflows");
    ok(!hp_mul((size_t)1 << 33, (size_t)1 << 33, &product), "2^66 overflows");
}

static void
check_overlap(void)
{
    char a[64];
    ok(hp_overlap(a, 10, a, 10), "equal ranges overlap");
    ok(hp_overlap(a, 10, a + 9, 10) && hp_overlap(a + 9, 10, a, 10), "ranges that share a byte overlap");
    ok(!hp_overlap(a, 10, a + 10, 10) && !hp_overlap(a + 10, 10, a, 10), "neighbours do not");
    ok(hp_overlap(a, 64, a + 30, 1) && hp_overlap(a + 30, 1, a, 64), "one inside the other");
    ok(!hp_overlap(a, 0, a, 10) && !hp_overlap(a + 5, 0, a, 10), "an empty range overlaps nothing");
    ok(!hp_overlap((void *)(UINTPTR_MAX - 1), 2, (void *)1, 10), "the top of the address space is not its bottom");
}

static void
check_wipe(void)
{
    char secret[32];
    memset(secret, 's', sizeof(secret));
    hp_wipe(secret, 31);
    ok(all_zero(secret, 31) && secret[31] == 's', "wipe overwrites what it is told to");
    hp_wipe(NULL, 0);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_heap();
    check_pages();
    check_sizes();
    check_overlap();
    check_wipe();
    return 0;
}
