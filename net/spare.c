/* SPDX-License-Identifier: MIT */
/* spare: see spare.h. */
#include "net/spare.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void
hp_spare_hold(hp_spare *spare)
{
    if (spare->fd < 0)
        spare->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int
hp_spare_give(hp_spare *spare, uint64_t now)
{
    if (spare->fd < 0)
        return 0;
    close(spare->fd);
    spare->fd = -1;
    if (!spare->since)
        spare->since = now;
    return 1;
}

int
hp_spare_is_short(int number)
{
    return number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS;
}

void
hp_spare_was_enough(hp_spare *spare)
{
    if (spare->fd >= 0)
        spare->since = 0;
}

uint64_t
hp_spare_lacking(hp_spare *spare, uint64_t now)
{
    hp_spare_hold(spare);
    if (spare->fd >= 0 || !spare->since)
        return 0;
    return now > spare->since ? now - spare->since : 1;
}
