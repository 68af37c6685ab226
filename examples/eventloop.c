/* SPDX-License-Identifier: MIT */
/*
 * eventloop: hoop inside a libevent loop of the program's own.     hooprun -n 3 eventloop
 *
 * The communicator has one descriptor. Whenever it is readable the loop calls hoop_comm_progress, which never blocks;
 * between the calls the loop serves whatever else the program has: here a timer that goes on ticking.
 */
#include <event2/event.h>
#include <hoop.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5, COUNT = 1000 * 1000 };

typedef struct program {
    struct event_base *base;
    hoop_comm *comm;
    hoop_work *work;
    int round, ticks;
    float *values;
} program;

static void
check(const program *p, hoop_result result)
{
    if (result == HOOP_SUCCESS)
        return;
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(p->comm, &error);
    fprintf(stderr, "eventloop: %s\n", error.text);
    exit(1);
}

static void
start_round(program *p)
{
    for (int i = 0; i < COUNT; i++)
        p->values[i] = (float)p->round;
    check(p, hoop_iallreduce(p->values, p->values, COUNT, HOOP_FLOAT32, HOOP_SUM, p->comm, &p->work));
}

static void
finish_round(program *p)
{
    check(p, hoop_work_wait(p->work, -1)); /* it has ended: this only fetches the result and frees the work */
    float expected = (float)(p->round * hoop_comm_size(p->comm));
    if (p->values[0] != expected || p->values[COUNT - 1] != expected) {
        fprintf(stderr, "eventloop: round %d gave %g instead of %g\n", p->round, (double)p->values[0],
                (double)expected);
        exit(1);
    }
    p->round++;
}

/* Starts and finishes rounds until there is nothing to do but wait. */
static void
go_on(program *p)
{
    int done = 1;
    check(p, hoop_comm_progress(p->comm));
    while (p->round <= ROUNDS) {
        if (!p->work)
            start_round(p);
        check(p, hoop_work_test(p->work, &done));
        if (!done)
            return;
        finish_round(p);
        p->work = NULL;
    }
    event_base_loopbreak(p->base);
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    go_on(arg);
}

static void
on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ((program *)arg)->ticks++;
}

static void
serve(program *p)
{
    struct timeval millisecond = {.tv_usec = 1000};
    struct event *readable = event_new(p->base, hoop_comm_fd(p->comm), EV_READ | EV_PERSIST, on_readable, p);
    struct event *tick = event_new(p->base, -1, EV_PERSIST, on_tick, p);
    if (!readable || !tick || event_add(readable, NULL) != 0 || event_add(tick, &millisecond) != 0) {
        fprintf(stderr, "eventloop: libevent cannot watch the communicator's descriptor\n");
        exit(1);
    }
    go_on(p);
    if (p->round <= ROUNDS)
        event_base_dispatch(p->base);
    event_free(readable);
    event_free(tick);
}

int
main(void)
{
    program p = {.base = event_base_new(), .round = 1, .values = calloc(COUNT, sizeof(float))};
    if (!p.base || !p.values) {
        fprintf(stderr, "eventloop: not enough memory\n");
        return 1;
    }
    check(&p, hoop_comm_create(&p.comm, NULL));
    serve(&p);
    if (hoop_comm_rank(p.comm) == 0)
        printf("%d rounds over %d ranks, served by the program's own loop, which ticked %d times meanwhile\n",
               (int)ROUNDS, hoop_comm_size(p.comm), p.ticks);
    check(&p, hoop_comm_destroy(p.comm));
    event_base_free(p.base);
    free(p.values);
    return 0;
}
