/* SPDX-License-Identifier: MIT */
/* control: see control.h. */
#include "net/control.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { TICK_QUEUE = 4096 };

static int
is_stuffed(const hp_control *control, int fd)
{
    int queued = 0;
    return hp_control_waits(control) || (ioctl(fd, SIOCOUTQ, &queued) == 0 && queued > TICK_QUEUE);
}

/* Moves the unwritten bytes to the front: a peer may take a few bytes at a time and never all of them. */
static void
close_up(hp_control *control)
{
    if (control->out_at == 0)
        return;
    control->out_n -= control->out_at;
    memmove(control->out, control->out + control->out_at, control->out_n);
    control->out_at = 0;
}

int
hp_control_add(hp_control *control, int fd, hp_frame_type type, const void *payload, size_t n)
{
    close_up(control);
    if ((type == HP_TICK && is_stuffed(control, fd)) || (type == HP_CREDIT && control->out_n > HP_CONTROL_ROOM / 2) ||
        HP_CONTROL_ROOM - control->out_n < HP_COMMON_BYTES + n + 4)
        return 0;
    control->out_n += hp_frame_put_control(control->out + control->out_n, type, payload, n);
    return 1;
}

int
hp_control_write(hp_control *control, int fd)
{
    ssize_t n = send(fd, control->out + control->out_at, control->out_n - control->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
    int number = errno;
    if (n > 0)
        control->out_at += (size_t)n;
    if (control->out_at == control->out_n || (n < 0 && number != EAGAIN && number != EINTR))
        control->out_at = control->out_n = 0;
    return n < 0 && number == EAGAIN;
}
