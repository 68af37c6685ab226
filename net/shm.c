/* SPDX-License-Identifier: MIT */
/* shm: see shm.h. */
#include "net/shm.h"

#include "base/mem.h"
#include "net/sock.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

enum {
    HEAD_BYTES = 4096, /* in front of the rings */
    MOST_BYTES = 64 << 20,
    PIECE = 32 << 10, /* the other process begins with a piece while the next one is copied */
    TAKEN_AT_ONCE = 1 << 20,
    SPARE = 64, /* descriptors that are left for connections */
    SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW,
    OTHER_SEALS = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE
};

/* Each process writes to lines of its own. A wish is a count of the other process; 0: none. */
struct hp_pipe_counts {
    _Alignas(64) _Atomic uint64_t written;
    _Atomic uint64_t room_wish; /* the writer sleeps until so much is taken */
    _Alignas(64) _Atomic uint64_t taken;
    _Atomic uint64_t bytes_wish; /* the reader sleeps until so much is written */
};

/* At the start of the memory: which connection it is for. */
typedef struct head {
    char magic[8];
    uint8_t job_id[HP_JOB_ID_BYTES];
    uint64_t comm, network;
    uint32_t epoch, from, to;
    uint16_t channel, stripe;
    uint32_t capacity;
    int32_t directions;
    struct hp_pipe_counts counts[2];
} head;

_Static_assert(sizeof(head) <= HEAD_BYTES, "the head fits");

/*
 * The network that this process is in. Processes of one machine in different networks are taken for different hosts: where
 * one of these is cut off, memory would hide it.
 */
static uint64_t
own_network(void)
{
    struct stat st;
    return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

static head
head_of(const hp_hello *hello, uint32_t capacity, int directions)
{
    head h = {.magic = "HOOPSHM",
              .comm = hello->comm,
              .epoch = hello->epoch,
              .from = hello->my_rank,
              .to = hello->your_rank,
              .channel = hello->channel,
              .stripe = hello->stripe,
              .capacity = capacity,
              .directions = directions};
    h.network = own_network();
    memcpy(h.job_id, hello->job_id, sizeof(h.job_id));
    return h;
}

static hp_pipe
pipe_at(head *h, int direction, uint32_t capacity, int directions)
{
    uint8_t *rings = (uint8_t *)h + HEAD_BYTES;
    if (direction >= directions)
        return (hp_pipe){0};
    return (hp_pipe){
        .counts = &h->counts[direction], .bytes = rings + (size_t)direction * capacity, .capacity = capacity};
}

/* Maps what fd is; the one who dials writes in direction 0. The memory is of no use to a forked child. */
static hp_shm *
map(int fd, uint32_t capacity, int directions, int dials)
{
    hp_shm *shm = hp_alloc(1, sizeof(*shm));
    if (!shm)
        return NULL;
    *shm = (hp_shm){.size = HEAD_BYTES + (size_t)directions * capacity, .fd = fd};
    shm->memory = mmap(NULL, shm->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shm->memory == MAP_FAILED) {
        free(shm);
        return NULL;
    }
    madvise(shm->memory, shm->size, MADV_DONTFORK);
    shm->out = pipe_at(shm->memory, !dials, capacity, directions);
    shm->in = pipe_at(shm->memory, dials, capacity, directions);
    return shm;
}

/* Where memory is counted strictly, an access to a page that was not taken before may end the process (SIGBUS). */
static int
is_counted_strictly(void)
{
    char mode = 0;
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, &mode, 1) : 0;
    if (fd >= 0)
        close(fd);
    return n != 1 || mode == '2';
}

/*
 * Small memory is taken now, and there is none if the system has none; large memory page by page, at the first use. Without
 * memory at all the kernel then ends a process, as for any page of it.
 */
static int
set_size(int fd, off_t size)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < (rlim_t)size) {
        errno = EFBIG; /* ftruncate would end the process by SIGXFSZ */
        return 0;
    }
    return (size <= TAKEN_AT_ONCE || is_counted_strictly() ? fallocate(fd, 0, 0, size) : ftruncate(fd, size)) == 0;
}

hp_shm *
hp_shm_new(hp_hello *hello, uint32_t capacity, int directions)
{
    off_t size = HEAD_BYTES + (off_t)capacity * directions;
    int fd = hp_socket_memory("hoop");
    hp_shm *shm = NULL;
    if (fd < 0)
        return NULL;
    if (fd > UINT16_MAX || hp_sock_spare(fd) < SPARE)
        errno = EMFILE; /* connections need descriptors more */
    else if (set_size(fd, size) && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        shm = map(fd, capacity, directions, 1);
    if (!shm) {
        hp_socket_close(fd);
        return NULL;
    }
    *(head *)shm->memory = head_of(hello, capacity, directions);
    hello->memory_pid = (uint32_t)getpid();
    hello->memory_fd = (uint16_t)fd;
    return shm;
}

/* NULL: the descriptor is what the HELLO says it is, and *capacity is set. */
static const char *
examine(int fd, const hp_hello *hello, int directions, uint32_t *capacity)
{
    struct stat st;
    head found;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & (SEALS | OTHER_SEALS)) != SEALS || fstat(fd, &st) != 0)
        return "it is not sealed";
    if (pread(fd, &found, sizeof(found), 0) != sizeof(found))
        return "it is too small";
    uint32_t n = found.capacity;
    head expected = head_of(hello, n, directions);
    if (memcmp(&found, &expected, offsetof(head, counts)) != 0 || n < HP_SHM_LEAST || n > MOST_BYTES || (n & (n - 1)) ||
        st.st_size != HEAD_BYTES + (off_t)n * directions)
        return "it is not the memory of this connection";
    *capacity = n;
    return NULL;
}

/* What the HELLO names may be anything, such as a device that does something when it is opened: only memory is opened. */
static int
open_offered(const hp_hello *hello)
{
    char path[64];
    struct stat st;
    struct statfs fs;
    snprintf(path, sizeof(path), "/proc/%u/fd/%u", hello->memory_pid, hello->memory_fd);
    int seen = open(path, O_PATH | O_CLOEXEC), fd = -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", seen);
    if (seen >= 0 && fstat(seen, &st) == 0 && S_ISREG(st.st_mode) && fstatfs(seen, &fs) == 0 &&
        fs.f_type == TMPFS_MAGIC)
        fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (seen >= 0)
        close(seen);
    return fd;
}

hp_shm *
hp_shm_open(const hp_hello *hello, int directions, const char **why)
{
    uint32_t capacity;
    hp_shm *shm = NULL;
    int fd = open_offered(hello);
    *why = fd < 0 ? "it cannot be opened: is the other rank another user's, or in another container?" : NULL;
    if (fd >= 0)
        *why = examine(fd, hello, directions, &capacity);
    if (!*why && !(shm = map(fd, capacity, directions, 0)))
        *why = "out of memory";
    if (fd >= 0)
        close(fd);
    if (shm)
        shm->fd = -1;
    return shm;
}

void
hp_shm_opened(hp_shm *shm)
{
    if (shm->fd >= 0)
        hp_socket_close(shm->fd);
    shm->fd = -1;
}

void
hp_shm_free(hp_shm *shm)
{
    if (!shm)
        return;
    hp_shm_opened(shm);
    munmap(shm->memory, shm->size);
    free(shm);
}

/* --- streams --- */

/* Copies one piece between the ring, from this count on, and a place. */
static void
copy_in(const hp_pipe *p, const uint8_t *from, size_t n)
{
    size_t at = p->own & (p->capacity - 1), first = p->capacity - at < n ? p->capacity - at : n;
    memcpy(p->bytes + at, from, first);
    memcpy(p->bytes, from + first, n - first);
}

static void
copy_out(const hp_pipe *p, uint8_t *to, size_t n)
{
    size_t at = p->own & (p->capacity - 1), first = p->capacity - at < n ? p->capacity - at : n;
    memcpy(to, p->bytes + at, first);
    memcpy(to + first, p->bytes, n - first);
}

static size_t
least(size_t a, size_t b, size_t c)
{
    a = a < b ? a : b;
    return a < c ? a : c;
}

uint64_t
hp_pipe_room(hp_pipe *p)
{
    p->other = atomic_load_explicit(&p->counts->taken, memory_order_acquire);
    return p->capacity - (p->own - p->other);
}

/* The bytes that have come; more than the capacity if the writer's count cannot be. */
static uint64_t
bytes(hp_pipe *p)
{
    p->other = atomic_load_explicit(&p->counts->written, memory_order_acquire);
    return p->other - p->own;
}

ssize_t
hp_pipe_write(hp_pipe *p, const struct iovec *places, int n)
{
    ssize_t all = 0;
    for (int i = 0; i < n; i++)
        for (size_t at = 0; at < places[i].iov_len;) {
            uint64_t left = p->capacity - (p->own - p->other);
            if (left == 0 && (left = hp_pipe_room(p)) == 0)
                return all;
            if (left > p->capacity)
                return -1;
            size_t piece = least(places[i].iov_len - at, left, PIECE);
            copy_in(p, (const uint8_t *)places[i].iov_base + at, piece);
            p->own += piece;
            at += piece;
            all += (ssize_t)piece;
            atomic_store_explicit(&p->counts->written, p->own, memory_order_release);
        }
    return all;
}

ssize_t
hp_pipe_read(hp_pipe *p, const struct iovec *places, int n)
{
    ssize_t all = 0;
    for (int i = 0; i < n; i++)
        for (size_t at = 0; at < places[i].iov_len;) {
            uint64_t left = p->other - p->own;
            if (left == 0 && (left = bytes(p)) == 0)
                return all;
            if (left > p->capacity)
                return -1;
            size_t piece = least(places[i].iov_len - at, left, PIECE);
            copy_out(p, (uint8_t *)places[i].iov_base + at, piece);
            p->own += piece;
            at += piece;
            all += (ssize_t)piece;
            atomic_store_explicit(&p->counts->taken, p->own, memory_order_release);
        }
    return all;
}

int
hp_pipe_has_bytes(hp_pipe *p)
{
    return p->other != p->own || bytes(p) != 0;
}

/* --- sleep and wake-up --- */

/*
 * One process writes its wish and then reads the count, the other one writes the count and then reads the wish. With a fence
 * between the two in each, one of them at least sees what the other has written.
 */
static int
await(_Atomic uint64_t *wish, uint64_t count, hp_pipe *p, uint64_t (*have)(hp_pipe *p), uint32_t n)
{
    atomic_store_explicit(wish, count, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return have(p) >= n;
}

static uint32_t
at_most_half(const hp_pipe *p, uint32_t n)
{
    return n < 1 ? 1 : n < p->capacity / 2 ? n : p->capacity / 2;
}

int
hp_pipe_await_bytes(hp_pipe *in, uint32_t n)
{
    n = at_most_half(in, n);
    return await(&in->counts->bytes_wish, in->own + n, in, bytes, n);
}

int
hp_pipe_await_room(hp_pipe *out, uint32_t n)
{
    n = at_most_half(out, n);
    return await(&out->counts->room_wish, out->own + n - out->capacity, out, hp_pipe_room, n);
}

void
hp_pipe_awake_reader(hp_pipe *in)
{
    atomic_store_explicit(&in->counts->bytes_wish, 0, memory_order_relaxed);
}

void
hp_pipe_awake_writer(hp_pipe *out)
{
    atomic_store_explicit(&out->counts->room_wish, 0, memory_order_relaxed);
}

static int
is_due(_Atomic uint64_t *wish, uint64_t count)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t wanted = atomic_load_explicit(wish, memory_order_relaxed);
    if (!wanted || count < wanted)
        return 0;
    atomic_store_explicit(wish, 0, memory_order_relaxed);
    return 1;
}

int
hp_pipe_wakes_reader(hp_pipe *out)
{
    return is_due(&out->counts->bytes_wish, out->own);
}

int
hp_pipe_wakes_writer(hp_pipe *in)
{
    return is_due(&in->counts->room_wish, in->own);
}
