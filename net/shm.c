/* SPDX-License-Identifier: MIT */
/* shm: see shm.h. */
#include "net/shm.h"

#include "base/mem.h"
#include "net/sock.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
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
    TRIES = 10,
    TAKEN_AT_ONCE = 1 << 20,
    SPARE = 64, /* descriptors that are left for connections */
    SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW,
    OTHER_SEALS = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE
};

/* A process writes its count, and its wish, to a line of its own. */
typedef struct side {
    _Alignas(64) _Atomic uint64_t count;
    _Atomic uint64_t wish;
} side;

enum { WRITER, READER, SIDES };

/* At the start of the memory: which connection it is for. */
typedef struct head {
    char magic[8];
    uint8_t job_id[HP_JOB_ID_BYTES];
    uint64_t comm, network;
    uint32_t epoch, from, to;
    uint16_t channel, stripe;
    uint32_t capacity;
    int32_t directions;
    side sides[2][SIDES]; /* of each direction */
} head;

_Static_assert(sizeof(head) <= HEAD_BYTES, "the head fits");

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
    /*
     * Processes of one machine in different networks are taken for different hosts: where one of these is cut off, memory
     * would hide it.
     */
    struct stat st;
    h.network = stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
    memcpy(h.job_id, hello->job_id, sizeof(h.job_id));
    return h;
}

static hp_pipe
pipe_at(head *h, int direction, int as, uint32_t capacity, int directions)
{
    side *own = &h->sides[direction][as], *other = &h->sides[direction][!as];
    if (direction >= directions)
        return (hp_pipe){0};
    return (hp_pipe){.count = &own->count,
                     .other_count = &other->count,
                     .wish = &own->wish,
                     .other_wish = &other->wish,
                     .bytes = (uint8_t *)h + HEAD_BYTES + (size_t)direction * capacity,
                     .capacity = capacity,
                     .ahead = as == WRITER ? capacity : 0};
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
    shm->out = pipe_at(shm->memory, !dials, WRITER, capacity, directions);
    shm->in = pipe_at(shm->memory, dials, READER, capacity, directions);
    return shm;
}

/*
 * Small memory is taken now, and there is none if the system has none; large memory page by page, at the first use. Without
 * memory at all the kernel then ends a process, as for any page of it. Where memory is counted strictly, an access to a page
 * that was not taken before may end it, too (SIGBUS): there all is taken now.
 */
static int
set_size(int fd, off_t size)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < (rlim_t)size) {
        errno = EFBIG; /* ftruncate would end the process by SIGXFSZ */
        return 0;
    }
    char mode = '2';
    int counted = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (counted >= 0 && read(counted, &mode, 1) != 1)
        mode = '2';
    if (counted >= 0)
        close(counted);
    int whole = size <= TAKEN_AT_ONCE || mode == '2', tries = TRIES, failed;
    do /* a signal may undo it, and a timer's come again and again */
        failed = whole ? fallocate(fd, 0, 0, size) : ftruncate(fd, size);
    while (failed && errno == EINTR && --tries > 0);
    return !failed;
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
    else if (set_size(fd, size) && fcntl(fd, F_ADD_SEALS, SEALS) == 0) {
        hp_socket_lock(); /* a process that is forked meanwhile would keep the mapping */
        shm = map(fd, capacity, directions, 1);
        hp_socket_unlock();
    }
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
    if (memcmp(&found, &expected, offsetof(head, sides)) != 0 || n < HP_SHM_LEAST || n > MOST_BYTES || (n & (n - 1)) ||
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
    hp_socket_lock(); /* a process that is forked meanwhile would hold the memory for as long as it lives */
    int fd = open_offered(hello);
    *why = fd < 0 ? "it cannot be opened: is the other rank another user's, or in another container?" : NULL;
    if (fd >= 0)
        *why = examine(fd, hello, directions, &capacity);
    if (!*why && !(shm = map(fd, capacity, directions, 0)))
        *why = "out of memory";
    if (fd >= 0)
        close(fd);
    hp_socket_unlock();
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

static void
copy(const hp_pipe *p, uint8_t *place, size_t n)
{
    size_t at = p->own & (p->capacity - 1), first = p->capacity - at < n ? p->capacity - at : n;
    if (p->ahead) {
        memcpy(p->bytes + at, place, first);
        memcpy(p->bytes, place + first, n - first);
    } else {
        memcpy(place, p->bytes + at, first);
        memcpy(place + first, p->bytes, n - first);
    }
}

uint64_t
hp_pipe_left(hp_pipe *p)
{
    p->other = atomic_load_explicit(p->other_count, memory_order_acquire);
    return p->other + p->ahead - p->own;
}

ssize_t
hp_pipe_move(hp_pipe *p, const struct iovec *places, int n)
{
    ssize_t all = 0;
    for (int i = 0; i < n; i++)
        for (size_t at = 0; at < places[i].iov_len;) {
            uint64_t left = p->other + p->ahead - p->own;
            if (left == 0 && (left = hp_pipe_left(p)) == 0)
                return all;
            if (left > p->capacity)
                return -1;
            size_t piece = places[i].iov_len - at < PIECE ? places[i].iov_len - at : PIECE;
            piece = piece < left ? piece : left;
            copy(p, (uint8_t *)places[i].iov_base + at, piece);
            p->own += piece;
            at += piece;
            all += (ssize_t)piece;
            atomic_store_explicit(p->count, p->own, memory_order_release);
        }
    return all;
}

/* --- sleep and wake-up --- */

/*
 * One process writes its wish and then reads the count, the other one writes the count and then reads the wish. With a fence
 * between the two in each, one of them at least sees what the other has written.
 */
int
hp_pipe_await(hp_pipe *p, uint32_t n)
{
    n = n < 1 ? 1 : n < p->capacity / 2 ? n : p->capacity / 2;
    atomic_store_explicit(p->wish, p->own + n - p->ahead, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return hp_pipe_left(p) >= n;
}

void
hp_pipe_awake(hp_pipe *p)
{
    atomic_store_explicit(p->wish, 0, memory_order_relaxed);
}

int
hp_pipe_wakes_other(hp_pipe *p)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t wanted = atomic_load_explicit(p->other_wish, memory_order_relaxed);
    if (!wanted || p->own < wanted)
        return 0;
    atomic_store_explicit(p->other_wish, 0, memory_order_relaxed);
    return 1;
}
