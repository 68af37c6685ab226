/* SPDX-License-Identifier: MIT */
/* chaos_board: what guests of t/sys/chaos.t tell each other and the test; see chaos.h. */
#include "t/sys/chaos.h"
#include "t/tap/tap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

chaos_board *chaos_shared;
int chaos_guest = -1;

long long
chaos_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void
add_event(const char *format, va_list ap)
{
    chaos_place *p = &chaos_shared->place[chaos_guest];
    char *line = p->event[atomic_load(&p->events) % CHAOS_EVENTS];
    long long now = chaos_now();
    int n = snprintf(line, CHAOS_LINE, "%.3f phase %d epoch %d: ", (double)(now - chaos_shared->begun) * 1e-9,
                     atomic_load(&p->phase), atomic_load(&p->epoch));
    vsnprintf(line + n, (size_t)(CHAOS_LINE - n), format, ap);
    atomic_store(&p->since, now);
    atomic_fetch_add(&p->events, 1);
}

void
chaos_say(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    add_event(format, ap);
    va_end(ap);
}

static int
has_gathered(const chaos_ring *ring, long long moment)
{
    int all = 1;
    for (int rank = 0; rank < ring->size; rank++)
        all &= atomic_load(&chaos_shared->place[ring->guest[rank]].moment) >= moment;
    return all;
}

void
chaos_gather(const chaos_ring *ring, int step)
{
    long long moment = ring->moment + step;
    atomic_store(&chaos_shared->place[chaos_guest].moment, moment);
    for (tap_wait w = {0}; ring->proxied && !has_gathered(ring, moment); party_nap(0.001)) {
        if (!tap_waits(&w))
            chaos_wrong("some ranks do not end an operation that this one has ended");
        hoop_comm_progress(ring->comm);
    }
}

void
chaos_part(void)
{
    int epoch = atomic_load(&chaos_shared->place[chaos_guest].epoch);
    atomic_store(&chaos_shared->apart[epoch % CHAOS_EPOCHS], 1);
}

void
chaos_wrong(const char *format, ...)
{
    va_list ap;
    int none = 0;
    if (atomic_compare_exchange_strong(&chaos_shared->wrong, &none, chaos_guest + 1)) {
        va_start(ap, format);
        vsnprintf(chaos_shared->what, sizeof(chaos_shared->what), format, ap);
        va_end(ap);
        atomic_store(&chaos_shared->told, 1);
    }
    for (;;)
        pause();
}
