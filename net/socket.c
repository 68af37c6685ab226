/* SPDX-License-Identifier: MIT */
/* socket: see socket.h. A bit for each descriptor, in an array that grows. */
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LOWEST_FD = 3, BITS = 64, AT_LEAST = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *noted;
static size_t words;

void
hp_socket_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void
hp_socket_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void
close_quietly(int fd)
{
    int kept = errno;
    close(fd);
    errno = kept;
}

/* A program may have closed descriptors 0 to 2; a socket there would receive what it prints. */
int
hp_socket_raise(int fd)
{
    if (fd < 0 || fd >= LOWEST_FD)
        return fd;
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
    close_quietly(fd);
    return higher;
}

/* Returns the descriptor; -1 where memory runs out, and it is closed. The caller has the lock, as in the next two. */
static int
note(int fd)
{
    size_t word = (size_t)fd / BITS, more = word < AT_LEAST ? AT_LEAST : word + word / 2 + 1;
    if (fd < 0)
        return -1;
    if (word >= words) {
        uint64_t *grown = realloc(noted, more * sizeof(*noted));
        if (!grown) {
            close_quietly(fd);
            return -1;
        }
        memset(grown + words, 0, (more - words) * sizeof(*noted));
        noted = grown;
        words = more;
    }
    noted[word] |= UINT64_C(1) << fd % BITS;
    return fd;
}

int
hp_socket_new(int family, int type, int protocol)
{
    hp_socket_lock();
    int fd = note(hp_socket_raise(socket(family, type | SOCK_CLOEXEC, protocol)));
    hp_socket_unlock();
    return fd;
}

int
hp_socket_accept(int listener, struct sockaddr *peer, socklen_t *length)
{
    hp_socket_lock();
    int fd = note(hp_socket_raise(accept4(listener, peer, length, SOCK_NONBLOCK | SOCK_CLOEXEC)));
    hp_socket_unlock();
    return fd;
}

/* Kernels before 6.3 do not know MFD_NOEXEC_SEAL, and later ones may be set to demand it. */
int
hp_socket_memory(const char *name)
{
    enum { NOEXEC_SEAL = 8 };
    hp_socket_lock();
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fd = note(hp_socket_raise(fd));
    hp_socket_unlock();
    return fd;
}

void
hp_socket_close(int fd)
{
    size_t word = (size_t)fd / BITS;
    if (fd < 0)
        return;
    hp_socket_lock();
    if (word < words)
        noted[word] &= ~(UINT64_C(1) << fd % BITS);
    close_quietly(fd);
    hp_socket_unlock();
}

void
hp_socket_forked(void)
{
    for (size_t word = 0; word < words; word++)
        for (int bit = 0; noted[word]; bit++, noted[word] >>= 1)
            if (noted[word] & 1)
                close((int)word * BITS + bit);
    hp_socket_unlock(); /* this thread has forked, and so has it */
}

/* Also when the library is unloaded; after all other destructors, of which one ends the thread of a server. */
__attribute__((destructor(101))) static void
forget_all(void)
{
    free(noted);
    noted = NULL;
    words = 0;
}
