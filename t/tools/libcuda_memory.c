/* SPDX-License-Identifier: MIT */
/* libcuda_memory: the stand-in driver's memory: addresses that fault when the host accesses them, and their bytes. */
#include "t/tools/libcuda_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static range *
find(const void *memory, size_t size, int as_host)
{
    for (range *r = fake.ranges; r; r = r->next) {
        const char *start = as_host ? r->bytes : r->seen;
        size_t offset = (size_t)((const char *)memory - start);
        if ((!as_host || r->host) && (const char *)memory >= start && offset < r->size && size <= r->size - offset)
            return r;
    }
    return NULL;
}

/* The bytes of a device address; NULL if the range is not all inside one allocation that kernels can access. */
void *
fake_bytes_at(const void *memory, size_t size)
{
    range *r = find(memory, size, 0);
    return r && !r->apart ? r->bytes + ((const char *)memory - r->seen) : NULL;
}

static range *
new_range(size_t size, int ordinal)
{
    range *r = calloc(1, sizeof(*r));
    size_t span = (size + 8191) & ~(size_t)4095; /* a page more than needed: ranges are never adjacent */
    if (!r)
        return NULL;
    r->size = size;
    r->ordinal = ordinal;
    r->seen = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->seen == MAP_FAILED) {
        free(r);
        return NULL;
    }
    r->next = fake.ranges;
    fake.ranges = r;
    fake.live++;
    return r;
}

static void
drop_range(range *gone)
{
    range **at = &fake.ranges;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    munmap(gone->seen, (gone->size + 8191) & ~(size_t)4095);
    if (!gone->host)
        free(gone->bytes);
    free(gone);
    fake.live--;
}

/*
 * From the heap, so that a sanitizer finds a kernel's wrong access; filled with NaN, as new memory may hold anything.
 */
static char *
new_bytes(size_t size)
{
    void *bytes = NULL;
    if (posix_memalign(&bytes, 256, size) != 0)
        return NULL;
    memset(bytes, 0xff, size);
    return bytes;
}

EXPORT int
cuMemAlloc_v2(address *out, size_t size)
{
    int error = fake_unsafe(fake_begin_current("cuMemAlloc"));
    if (error == OK)
        fake_drain();
    range *r = error == OK && size > 0 ? new_range(size, current->ordinal) : NULL;
    if (error != OK || !r)
        return fake_end(error != OK ? error : size == 0 ? INVALID_VALUE : OUT_OF_MEMORY);
    r->apart = fake.apart;
    r->bytes = new_bytes(size);
    if (!r->bytes) {
        drop_range(r);
        return fake_end(OUT_OF_MEMORY);
    }
    *out = (address)(size_t)r->seen;
    return fake_end(OK);
}

EXPORT int
cuMemFree_v2(address memory)
{
    int error = fake_unsafe(fake_begin_current("cuMemFree"));
    range *r = find((void *)(size_t)memory, 1, 0);
    if (!r || r->host || r->seen != (char *)(size_t)memory)
        return fake_end(error != OK ? error : INVALID_VALUE);
    fake_drain();
    drop_range(r);
    return fake_end(error);
}

EXPORT int
cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    int error = fake_unsafe(fake_begin_current("cuMemHostRegister"));
    if (error != OK || size == 0 || flags != 3)
        return fake_end(error != OK ? error : INVALID_VALUE);
    for (range *r = fake.ranges; r; r = r->next) {
        if (r->host && (char *)memory < r->bytes + r->size && r->bytes < (char *)memory + size)
            return fake_end(ALREADY_REGISTERED);
    }
    fake_drain();
    range *r = new_range(size, current->ordinal);
    if (!r)
        return fake_end(OUT_OF_MEMORY);
    r->host = 1;
    r->bytes = memory;
    return fake_end(OK);
}

EXPORT int
cuMemHostUnregister(void *memory)
{
    int error = fake_unsafe(fake_begin_current("cuMemHostUnregister"));
    range *r = find(memory, 1, 1);
    if (!r || r->bytes != memory)
        return fake_end(error != OK ? error : NOT_REGISTERED);
    fake_drain();
    drop_range(r);
    return fake_end(error);
}

EXPORT int
cuMemHostGetDevicePointer_v2(address *out, void *memory, unsigned flags)
{
    int error = fake_begin_current("cuMemHostGetDevicePointer");
    range *r = find(memory, 1, 1);
    if (error != OK || !r || flags != 0)
        return fake_end(error != OK ? error : INVALID_VALUE);
    *out = (address)(size_t)(r->seen + ((char *)memory - r->bytes));
    return fake_end(OK);
}

EXPORT int
cuPointerGetAttributes(unsigned count, int *attributes, void **values, address memory)
{
    int error = fake_begin("cuPointerGetAttributes");
    void *pointer = (void *)(size_t)memory;
    range *r = find(pointer, 1, 0);
    if (error != OK)
        return fake_end(error);
    if (!r)
        r = find(pointer, 1, 1);
    for (unsigned i = 0; i < count; i++) {
        switch (attributes[i]) {
        case 1:
            *(context **)values[i] = !r ? NULL : r->apart ? &fake.private_context : &fake.contexts[r->ordinal];
            break;
        case 2: *(unsigned *)values[i] = !r ? 0 : r->host ? 1 : 2; break;
        case 3:
            *(address *)values[i] = !r        ? 0
                                    : r->host ? (address)(size_t)(r->seen + ((char *)pointer - r->bytes))
                                              : memory;
            break;
        case 9: *(int *)values[i] = r ? r->ordinal : -2; break;
        default: return fake_end(INVALID_VALUE);
        }
    }
    return fake_end(OK);
}

/* The bytes of an address in a copy: a device address, else a host address. */
void *
fake_any_bytes(address memory, size_t size)
{
    void *pointer = (void *)(size_t)memory;
    void *inside = fake_bytes_at(pointer, size);
    return inside ? inside : !find(pointer, 1, 0) ? pointer : NULL;
}

typedef enum memory_place { ON_DEVICE, PINNED, PAGEABLE } memory_place;

static memory_place
place_of(address memory)
{
    void *pointer = (void *)(size_t)memory;
    const range *r = find(pointer, 1, 0);
    if (!r)
        r = find(pointer, 1, 1);
    return !r ? PAGEABLE : r->host ? PINNED : ON_DEVICE;
}

int
fake_copy_is_synchronous(address to, address from)
{
    pthread_mutex_lock(&fake.lock);
    memory_place target = place_of(to), source = place_of(from);
    pthread_mutex_unlock(&fake.lock);
    return target == PAGEABLE || source == PAGEABLE || (target == PINNED && source == PINNED);
}
