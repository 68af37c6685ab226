/* SPDX-License-Identifier: MIT */
/* terminal: see terminal.h. The ranks' end cannot be read: no input ever comes there, so a read would never return. */
#include "launch/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

int
hp_terminal_open(int pair[2], hp_winsize winsize)
{
    char name[64];
    struct termios settings;
    pair[1] = -1;
    pair[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (pair[0] < 0)
        return -1;
    if (grantpt(pair[0]) == 0 && unlockpt(pair[0]) == 0 && (errno = ptsname_r(pair[0], name, sizeof(name))) == 0)
        pair[1] = open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (pair[1] >= 0 && tcgetattr(pair[1], &settings) == 0) {
        cfmakeraw(&settings); /* no echo, no carriage returns added, no characters that mean anything */
        if (tcsetattr(pair[1], TCSANOW, &settings) == 0) {
            hp_terminal_resize(pair[0], winsize);
            return 0;
        }
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
