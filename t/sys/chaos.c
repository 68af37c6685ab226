/* SPDX-License-Identifier: MIT */
/*
 * Chaos with an oracle: eight ranks do operations of all kinds while ranks are killed and stopped, connections are cut, the
 * server is stopped or killed, and new ranks come, all by a seed. After each loss those that are left shrink the ring and
 * go on. Every result is compared with what it must be, and all must agree on who is left, and why.
 *
 *     HOOP_CHAOS_SEEDS="7 1234"   these seeds alone, which repeats what a report has
 *     HOOP_CHAOS_SECONDS=600      seeds for so long; with HOOP_TEST_FULL=1, as make check-faults sets it, 600
 *
 * t/FAULTS.md has the table of the last long run.
 */
#include "t/sys/chaos.h"

#include "t/tap/tap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LIMIT = 240 }; /* seconds of one run, and more than any may take */

/* One scene in all runs. */
typedef struct tally {
    int runs, failures, losses, shrinks;
    long long operations, worst;
} tally;

static tally tallies[CHAOS_SCENES];
static int
    least_pieces; /* of memory that a guest of any run has left over; it does not depend on how many rings it had */

/* --- one run --- */

/* A process that its script has stopped goes on when its time is over. Returns how many guests are left. */
typedef struct watch {
    party p;
    const chaos_script *script;
    long long stopped[CHAOS_GUESTS], hushed, died; /* when; 0: it runs */
    int gone[CHAOS_GUESTS], ended;
    long long moved;
} watch;

static int
has_stopped(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == pid;
}

static int
has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == pid;
}

/* All who are not lost have settled in the last phase. */
static int
have_gone_on(const watch *w)
{
    const chaos_script *s = w->script;
    int good = 1;
    for (int guest = 0; guest < s->guests; guest++)
        good &= !(s->phase[s->phases - 1].here >> guest & 1) || atomic_load(&chaos_shared->place[guest].settled) > 0;
    return good;
}

static void
wake(watch *w, int guest, long long now)
{
    pid_t pid = w->p.guest[guest].pid;
    int ms = atomic_load(&chaos_shared->place[guest].stop_ms);
    if (has_stopped(pid))
        w->stopped[guest] = now;
    if (!w->stopped[guest] || (ms < 0 ? !have_gone_on(w) : now - w->stopped[guest] < ms * 1000000LL))
        return;
    w->stopped[guest] = 0;
    kill(pid, SIGCONT);
}

static void
wake_server(watch *w, long long now)
{
    if (has_stopped(w->p.server))
        w->hushed = now;
    if (!w->hushed || now - w->hushed < atomic_load(&chaos_shared->hush_ms) * 1000000LL)
        return;
    w->hushed = 0;
    kill(w->p.server, SIGCONT);
}

/* Once its time is over; in the last scene nobody kills it for good. */
static void
serve_again(watch *w, long long now)
{
    if (w->script->scene != CHAOS_RETURNS)
        return;
    if (!w->died && has_ended(w->p.server))
        w->died = now;
    if (!w->died || now - w->died < atomic_load(&chaos_shared->hush_ms) * 1000000LL)
        return;
    w->died = 0;
    party_serve_again(&w->p);
    atomic_store(&chaos_shared->server, (int)w->p.server);
}

/* Until all have ended, or what is wrong is known. */
static void
follow(watch *w)
{
    long long now = chaos_now(), end = now + (long long)LIMIT * tap_time_factor() * 1000000000;
    while (w->ended < w->script->guests && !atomic_load(&chaos_shared->told) && now < end) {
        party_nap(0.001);
        now = chaos_now();
        wake_server(w, now);
        serve_again(w, now);
        for (int guest = 0; guest < w->script->guests; guest++) {
            if (w->gone[guest])
                continue;
            wake(w, guest, now);
            w->gone[guest] = has_ended(w->p.guest[guest].pid);
            w->ended += w->gone[guest];
        }
    }
    if (now >= end)
        snprintf(chaos_shared->what, sizeof(chaos_shared->what), "%d guests have not ended",
                 w->script->guests - w->ended);
    for (int guest = 0; guest < w->script->guests && w->ended < w->script->guests; guest++)
        kill(w->p.guest[guest].pid, SIGKILL);
    party_wait(&w->p);
}

static void
compare_memory(int guest, int pieces)
{
    enum { SPREAD = 16 };
    if (pieces && (!least_pieces || pieces < least_pieces))
        least_pieces = pieces;
    if (pieces > least_pieces + SPREAD)
        snprintf(chaos_shared->what, sizeof(chaos_shared->what),
                 "guest %d has %d pieces of memory left over, and another one had %d", guest, pieces, least_pieces);
}

static int
is_well(const watch *w)
{
    const chaos_script *s = w->script;
    uint32_t lost = chaos_lost(s, s->phases);
    for (int guest = 0; guest < s->guests && !chaos_shared->what[0]; guest++) {
        int status = w->p.guest[guest].status, dies = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        compare_memory(guest, atomic_load(&chaos_shared->place[guest].pieces));
        if (dies ? !atomic_load(&chaos_shared->place[guest].lost_at) : status)
            snprintf(chaos_shared->what, sizeof(chaos_shared->what), "guest %d has ended with %#x", guest,
                     (unsigned)status);
        else if (!dies && lost >> guest & 1 && s->scene != CHAOS_FROZEN)
            snprintf(chaos_shared->what, sizeof(chaos_shared->what), "guest %d has not died", guest);
    }
    return !chaos_shared->what[0];
}

static void
report(const watch *w)
{
    chaos_print(w->script);
    diag("wrong, found by guest %d: %s", atomic_load(&chaos_shared->wrong) - 1, chaos_shared->what);
    for (int guest = 0; guest < w->script->guests; guest++) {
        const chaos_place *place = &chaos_shared->place[guest];
        int events = atomic_load(&place->events), first = events < CHAOS_EVENTS ? 0 : events - CHAOS_EVENTS;
        diag("guest %d (pid %d, status %#x):", guest, (int)w->p.guest[guest].pid, (unsigned)w->p.guest[guest].status);
        for (int i = first; i < events; i++)
            diag("    %s", place->event[i % CHAOS_EVENTS]);
    }
}

static void
count(const watch *w, tally *t)
{
    for (int guest = 0; guest < w->script->guests; guest++) {
        chaos_place *place = &chaos_shared->place[guest];
        long long worst = atomic_load(&place->worst);
        t->worst = worst > t->worst ? worst : t->worst;
        t->operations += atomic_load(&place->done);
        t->shrinks += atomic_load(&place->shrinks);
        t->losses += atomic_load(&place->lost_at) != 0;
    }
}

static int
play(uint64_t seed)
{
    chaos_script script;
    chaos_write(&script, seed);
    watch w = {.script = &script};
    tally *t = &tallies[script.scene];
    memset(chaos_shared, 0, sizeof(*chaos_shared));
    chaos_shared->begun = chaos_now();
    (script.scene == CHAOS_RETURNS ? party_open_returning : party_open)(&w.p);
    atomic_store(&chaos_shared->server, (int)w.p.server);
    chaos_run run = {&script, script.proxied ? proxy_open() : NULL};
    party_start(&w.p, script.guests, chaos_live, &run, LIMIT);
    follow(&w);
    int good = is_well(&w);
    t->runs++;
    t->failures += !good;
    count(&w, t);
    if (!good)
        report(&w);
    if (run.proxy)
        proxy_close(run.proxy);
    party_close(&w.p);
    return good;
}

/* --- all runs --- */

/* The seeds of a list that is text; how many are good. */
static int
play_list(const char *text, int *runs)
{
    int good = 0;
    char *end;
    for (; *text; text = end) {
        uint64_t seed = strtoull(text, &end, 10);
        if (end == text)
            bail("HOOP_CHAOS_SEEDS has no number at '%s'", text);
        good += play(seed);
        ++*runs;
        while (*end == ' ')
            end++;
    }
    return good;
}

static int
play_for(double seconds, int *runs)
{
    double end = party_clock() + seconds;
    uint64_t first = tap_random() % 1000000 * CHAOS_SCENES;
    int good = 0;
    for (; party_clock() < end; ++*runs)
        good += play(first + (uint64_t)*runs);
    return good;
}

static void
print_table(void)
{
    diag("| case | runs | ranks lost | shrinks | operations | worst latency | failures |");
    for (int scene = 0; scene < CHAOS_SCENES; scene++) {
        const tally *t = &tallies[scene];
        if (t->runs)
            diag("| %s | %d | %d | %d | %lld | %.2f s | %d |", chaos_scene_name((chaos_scene)scene), t->runs, t->losses,
                 t->shrinks, t->operations, (double)t->worst * 1e-9, t->failures);
    }
}

/* A setting of this test, which the library does not know, and would warn of. NULL: it is not set. */
static char *
take_setting(const char *name)
{
    const char *value = getenv(name);
    char *copy = value ? strdup(value) : NULL;
    unsetenv(name);
    return copy;
}

int
main(void)
{
    char *seeds = take_setting("HOOP_CHAOS_SEEDS"), *seconds = take_setting("HOOP_CHAOS_SECONDS");
    int runs = 0, good;
    plan(1);
    chaos_shared = mmap(NULL, sizeof(*chaos_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (chaos_shared == MAP_FAILED)
        bail("no memory to share");
    if (seeds)
        good = play_list(seeds, &runs);
    else if (seconds || getenv("HOOP_TEST_FULL"))
        good = play_for(seconds ? atof(seconds) : 600, &runs);
    else
        good = play_list("0 1 2 3 4 6 8 10 17", &runs);
    print_table();
    free(seeds);
    free(seconds);
    is_int(runs, good, "ranks are lost and come, and all that is left is right");
    return tap_failures() != 0;
}
