/* SPDX-License-Identifier: MIT */
/* bounded_wait: see bounded_wait.h. */
#include "lib/bounded_wait.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

enum { FIRST_MS = 5000 };

hp_bounded_wait
hp_bounded_wait_of(uint64_t limit_ns, int quiet)
{
    uint64_t now = hp_now();
    return (hp_bounded_wait){.began = now, .until = now + limit_ns, .next = now + FIRST_MS * HP_MS, .quiet = quiet};
}

static int
ms_until(uint64_t when)
{
    uint64_t now = hp_now();
    return when > now ? (int)((when - now) / HP_MS) + 1 : 0;
}

int
hp_bounded_wait_left_ms(const hp_bounded_wait *p)
{
    return ms_until(p->until);
}

int
hp_bounded_wait_ms(const hp_bounded_wait *p)
{
    int ms = ms_until(p->next < p->until ? p->next : p->until);
    return hp_interrupt_is_set() && ms > HP_INTERRUPT_MS ? HP_INTERRUPT_MS : ms;
}

int
hp_bounded_wait_ask(hp_bounded_wait *p, const char *what)
{
    uint64_t now = hp_now();
    if (now >= p->until || hp_interrupt_asks())
        return 0;
    if (now < p->next)
        return 1;
    if (!p->quiet)
        hp_log(HP_LOG_WARN, "waiting for %s (for %.1f s)", what, (double)(now - p->began) / 1e9);
    p->next = now + (now - p->began);
    return 1;
}
