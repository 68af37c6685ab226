/* SPDX-License-Identifier: MIT */
/* line_writer: see line_writer.h. A line is written by one call, so that the lines of many processes do not mix. */
#include "base/line_writer.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 1400, NOTE_BYTES = 64 };

static int
takes_bytes(hp_line_writer *writer)
{
    uint64_t now = hp_now();
    struct pollfd end = {.fd = writer->fd, .events = POLLOUT};
    if (poll(&end, 1, now < writer->patient_from ? 0 : writer->patience_ms) > 0)
        return 1;
    writer->patient_from = now + HP_SEC;
    return 0;
}

/*
 * A pipe or a terminal may take fewer bytes than a line has, or another process that shares it may be faster. Opened
 * anew it can be written to without waiting, and for those that share it nothing changes. -1: it is a file or a socket,
 * or cannot be opened.
 */
static int
open_anew(int fd)
{
    char path[32];
    struct stat st;
    if (fstat(fd, &st) != 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void
write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t wrote = write(fd, bytes, n);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return; /* it is closed, or full: a lost line must not become an error */
        bytes += wrote;
        n -= (size_t)wrote;
    }
}

static void
put(hp_line_writer *writer, const char *line)
{
    char text[LINE_BYTES + NOTE_BYTES + 1], note[NOTE_BYTES] = "";
    if (!takes_bytes(writer)) {
        writer->lost++;
        return;
    }
    if (writer->lost)
        snprintf(note, sizeof(note), " (%u lines before it are lost: nobody read them)", writer->lost);
    writer->lost = 0;
    int length = snprintf(text, sizeof(text), "%.*s%s\n", LINE_BYTES, line, note);
    int fd = open_anew(writer->fd);
    write_all(fd < 0 ? writer->fd : fd, text, (size_t)length);
    if (fd >= 0)
        close(fd);
}

void
hp_line_writer_put(hp_line_writer *writer, const char *line)
{
    int kept = errno;
    put(writer, line);
    errno = kept;
}
