/* SPDX-License-Identifier: MIT */
/*
 * inquiry: see inquiry.h. The path of a socket's address is short, so the socket is bound through a descriptor of its
 * folder.
 */
#include "rendezvous/inquiry.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/number.h"
#include "flight/folder.h"
#include "net/socket.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { GUESTS = 8, REQUEST = 32, LIMIT_MS = 2000, PAUSE_MS = 1000, NAME = 64, ROWS_MOST = 999999, COLUMNS_MOST = 9999 };

typedef struct guest {
    hp_inquiry *inquiry;
    int fd; /* -1: free */
    hp_watch *watch;
    hp_timer *limit;
    int of_job; /* it may hear of one job alone */
    uint8_t job_id[HP_JOB_ID_BYTES];
    char request[REQUEST];
    size_t n;
    hp_buffer answer;
} guest;

struct hp_inquiry {
    hp_inquiry_owner owner;
    hp_loop *loop;
    int fd;
    hp_watch *watch;
    hp_timer *pause; /* of a process that has no descriptor for a guest */
    char path[HP_INQUIRY_PATH];
    guest guests[GUESTS];
};

/* The address of a file in an open folder. */
static struct sockaddr_un
address_in(int folder, const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%.*s", folder, NAME, name);
    return at;
}

/* --- a guest --- */

static void
dismiss(guest *g)
{
    hp_watch_free(g->watch);
    hp_timer_free(g->limit);
    hp_socket_close(g->fd);
    hp_buffer_free(&g->answer);
    *g = (guest){.inquiry = g->inquiry, .fd = -1};
}

static void
too_slow(void *arg)
{
    dismiss(arg);
}

static void
send_answer(guest *g)
{
    while (hp_buffer_size(&g->answer) > 0) {
        ssize_t n = send(g->fd, hp_buffer_first(&g->answer), hp_buffer_size(&g->answer), MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN && hp_watch_set(g->watch, HP_WRITE) == 0)
            return;
        if (n < 0 && errno != EINTR)
            break;
        if (n > 0)
            hp_buffer_drop(&g->answer, (size_t)n);
    }
    dismiss(g);
}

/* How many rows a request of n bytes wants, and of what width (0: any); 0: JSON; -1: it is none. */
static int
rows_of(const char *request, size_t n, int *width)
{
    static const char table[] = "table ";
    size_t word = sizeof(table) - 1;
    const char *at = request + word, *blank;
    int rows;
    *width = 0;
    if (n == 4 && memcmp(request, "json", 4) == 0)
        return 0;
    if (n <= word || memcmp(request, table, word) != 0)
        return -1;
    blank = memchr(at, ' ', n - word);
    size_t digits = blank ? (size_t)(blank - at) : n - word;
    if (blank && !hp_number_parse_digits(blank + 1, n - word - digits - 1, COLUMNS_MOST, width))
        return -1;
    return hp_number_parse_digits(at, digits, ROWS_MOST, &rows) && rows > 0 ? rows : -1;
}

static void
read_request(guest *g)
{
    ssize_t n = recv(g->fd, g->request + g->n, REQUEST - 1 - g->n, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    g->n += n > 0 ? (size_t)n : 0;
    char *end = memchr(g->request, '\n', g->n);
    if (!end && n > 0 && g->n < REQUEST - 1)
        return;
    int width = 0, rows = end ? rows_of(g->request, (size_t)(end - g->request), &width) : -1;
    if (rows >= 0)
        g->inquiry->owner.answer(g->inquiry->owner.arg, g->of_job ? g->job_id : NULL, rows, width, &g->answer);
    send_answer(g);
}

static void
guest_ready(void *arg, int ready)
{
    guest *g = arg;
    if (ready & HP_WRITE)
        send_answer(g);
    else
        read_request(g);
}

/* Root may see all anyway. */
static int
is_ours(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

/* A free place; NULL: there is none. */
static guest *
find_place(const hp_inquiry *inquiry)
{
    for (int i = 0; i < GUESTS; i++)
        if (inquiry->guests[i].fd < 0)
            return (guest *)(uintptr_t)&inquiry->guests[i];
    return NULL;
}

static void
seat(guest *g, int fd)
{
    g->fd = fd;
    g->watch = hp_watch_new(g->inquiry->loop, fd, guest_ready, g);
    g->limit = hp_timer_new(g->inquiry->loop, too_slow, g);
    if (!g->watch || !g->limit || hp_watch_set(g->watch, HP_READ) < 0)
        dismiss(g);
    else
        hp_timer_set(g->limit, LIMIT_MS * HP_MS);
}

int
hp_inquiry_has_room(const hp_inquiry *inquiry)
{
    return find_place(inquiry) != NULL;
}

void
hp_inquiry_admit(hp_inquiry *inquiry, int fd, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    guest *g = find_place(inquiry);
    if (!g) {
        hp_socket_close(fd);
        return;
    }
    g->of_job = 1;
    memcpy(g->job_id, job_id, HP_JOB_ID_BYTES);
    seat(g, fd);
}

static void
guest_comes(void *arg, int ready)
{
    hp_inquiry *inquiry = arg;
    (void)ready;
    int fd = hp_socket_accept(inquiry->fd, NULL, NULL), number = errno;
    guest *g = find_place(inquiry);
    if (fd < 0 && number != EAGAIN && number != EINTR && number != ECONNABORTED) { /* it would come again at once */
        hp_watch_set(inquiry->watch, 0);
        hp_timer_set(inquiry->pause, PAUSE_MS * HP_MS);
    }
    if (fd >= 0 && g && is_ours(fd))
        seat(g, fd);
    else
        hp_socket_close(fd);
}

static void
pause_over(void *arg)
{
    hp_inquiry *inquiry = arg;
    hp_watch_set(inquiry->watch, HP_READ);
}

/* --- life --- */

/*
 * It gets its name when it listens: one that is bound and does not listen yet looks dead to others, who remove it. A
 * file of that name is of an earlier process with our pid.
 */
static int
listen_as(int fd, int folder, char name[NAME])
{
    static atomic_uint count;
    unsigned number = atomic_fetch_add(&count, 1) + 1;
    char early[NAME];
    snprintf(name, NAME, "%d-%u.socket", (int)getpid(), number);
    snprintf(early, NAME, ".%d-%u", (int)getpid(), number);
    struct sockaddr_un at = address_in(folder, early);
    unlinkat(folder, early, 0);
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
        return -1;
    if (listen(fd, GUESTS) == 0 && renameat(folder, early, folder, name) == 0)
        return 0;
    unlinkat(folder, early, 0);
    return -1;
}

static hoop_result
listen_in_folder(hp_inquiry *inquiry, hoop_error *error)
{
    char path[HP_FLIGHT_PATH], name[NAME];
    int folder = hp_flight_folder_make(path, error);
    if (folder < 0)
        return error->code;
    inquiry->fd = hp_socket_new(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (inquiry->fd >= 0 && listen_as(inquiry->fd, folder, name) == 0)
        snprintf(inquiry->path, sizeof(inquiry->path), "%s/%s", path, name);
    else
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot open a socket for hoop-top in %s", path);
    close(folder);
    return error->code;
}

hp_inquiry *
hp_inquiry_new(hp_loop *loop, const hp_inquiry_owner *owner, hoop_error *error)
{
    hp_inquiry *inquiry = hp_alloc(1, sizeof(*inquiry));
    hp_err_clear(error);
    if (!inquiry) {
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    inquiry->owner = *owner;
    inquiry->loop = loop;
    inquiry->fd = -1;
    for (int i = 0; i < GUESTS; i++)
        inquiry->guests[i] = (guest){.inquiry = inquiry, .fd = -1};
    if (listen_in_folder(inquiry, error) == HOOP_SUCCESS) {
        inquiry->watch = hp_watch_new(loop, inquiry->fd, guest_comes, inquiry);
        inquiry->pause = hp_timer_new(loop, pause_over, inquiry);
        if (!inquiry->watch || !inquiry->pause || hp_watch_set(inquiry->watch, HP_READ) < 0)
            hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "cannot watch the socket for hoop-top");
    }
    return inquiry;
}

void
hp_inquiry_free(hp_inquiry *inquiry)
{
    if (!inquiry)
        return;
    for (int i = 0; i < GUESTS; i++)
        dismiss(&inquiry->guests[i]);
    hp_watch_free(inquiry->watch);
    hp_timer_free(inquiry->pause);
    hp_socket_close(inquiry->fd);
    if (inquiry->path[0])
        unlink(inquiry->path);
    free(inquiry);
}
