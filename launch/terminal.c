/* SPDX-License-Identifier: MIT */
/* terminal: see terminal.h. The ranks' end cannot be read: no input ever comes there, so a read would never return. */
#include "launch/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* No echo, no carriage returns added, no characters that mean anything. */
static int
make_raw(int fd)
{
    struct termios settings;
    if (tcgetattr(fd, &settings) < 0)
        return -1;
    cfmakeraw(&settings);
    return tcsetattr(fd, TCSANOW, &settings);
}

static int
open_ranks_end(int fd)
{
    char name[64];
    if (grantpt(fd) < 0 || unlockpt(fd) < 0)
        return -1;
    if ((errno = ptsname_r(fd, name, sizeof(name))) != 0)
        return -1;
    return open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

int
hp_terminal_open(int pair[2], hp_winsize winsize)
{
    pair[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (pair[0] < 0)
        return -1;
    pair[1] = open_ranks_end(pair[0]);
    if (pair[1] >= 0 && make_raw(pair[1]) == 0) {
        hp_terminal_resize(pair[0], winsize);
        return 0;
    }
    int number = errno;
    if (pair[1] >= 0)
        close(pair[1]);
    close(pair[0]);
    errno = number;
    return -1;
}

hp_winsize
hp_terminal_size(int fd)
{
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) < 0)
        return (hp_winsize){0};
    return (hp_winsize){size.ws_row, size.ws_col};
}

void
hp_terminal_resize(int fd, hp_winsize winsize)
{
    const struct winsize size = {.ws_row = winsize.rows, .ws_col = winsize.columns};
    if (winsize.rows > 0 || winsize.columns > 0)
        (void)ioctl(fd, TIOCSWINSZ, &size); /* on failure programs assume 80 columns */
}
