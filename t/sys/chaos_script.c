/* SPDX-License-Identifier: MIT */
/* chaos_script: what happens in a run of t/sys/chaos.t, made of a seed alone; see chaos.h. */
#include "t/sys/chaos.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

/* While a script is written. */
typedef struct writer {
    chaos_script *script;
    uint64_t state;
    uint32_t here, lost;      /* guests that are in the ring; and those of them that are lost in this phase */
    int stops, cuts, rejoins; /* whether there are any */
} writer;

static const char *const kinds[] = {
    "dies", "is stopped", "freezes", "has a connection cut", "has the server stopped", "has the server killed"};
static const char *const moments[] = {"in operation", "in the shrink", "in the grow", "before it has a place"};

const char *
chaos_scene_name(chaos_scene scene)
{
    static const char *const names[] = {
        "ranks killed, shared memory",
        "ranks killed, TCP",
        "killed and stopped, server stopped",
        "connections cut and made again, killed",
        "killed, and new ranks",
        "all of these",
        "killed, new ranks, then the server and a rank",
        "stopped until the others have gone on",
        "killed, new ranks, the server killed and back",
    };
    return names[scene];
}

static unsigned
pick(writer *w, unsigned below)
{
    return (unsigned)(tap_mix(w->state++) >> 16) % below;
}

static int
count(uint32_t set)
{
    return __builtin_popcount(set);
}

static int
member(writer *w, uint32_t set)
{
    int guest = 0;
    for (unsigned skip = pick(w, (unsigned)count(set)); skip || !(set >> guest & 1); guest++)
        skip -= set >> guest & 1;
    return guest;
}

static chaos_fault *
add(writer *w, chaos_phase *p, chaos_kind kind, chaos_moment moment, int guest)
{
    chaos_fault *f = &p->fault[p->faults++];
    f->kind = kind;
    f->moment = moment;
    f->guest = guest;
    f->operation = (int)pick(w, 10);
    f->delay_us = pick(w, 3) ? pick(w, 3000) : pick(w, 30000);
    f->length_ms = 20 + pick(w, pick(w, 4) ? 200 : 1500);
    return f;
}

static void
lose(writer *w, chaos_phase *p, chaos_kind kind, chaos_moment moment, int guest)
{
    add(w, p, kind, moment, guest);
    w->lost |= 1U << guest;
}

/* A guest with a slot that nobody has, and none has had who is lost in this phase. -1: there is none. */
static int
arrive(writer *w, chaos_phase *p)
{
    chaos_script *s = w->script;
    unsigned used = 0;
    int slot = 0;
    for (int guest = 0; guest < s->guests; guest++)
        used |= (w->here | p->come) >> guest & 1 ? 1U << s->slot[guest] : 0;
    while (slot < CHAOS_SLOTS && used >> slot & 1)
        slot++;
    if (slot == CHAOS_SLOTS || s->guests == CHAOS_GUESTS)
        return -1;
    s->slot[s->guests] = slot;
    p->come |= 1U << s->guests;
    return s->guests++;
}

/* How many ranks may be lost in a phase: a server that comes back needs more than half of a ring to know it again. */
static int
bearable(const writer *w)
{
    int n = count(w->here);
    return w->script->scene == CHAOS_RETURNS ? (n - 1) / 2 : n - 1;
}

static void
write_losses(writer *w, chaos_phase *p)
{
    int most = bearable(w) < 3 ? bearable(w) : 3;
    int kills = most > 0 ? 1 + (int)pick(w, (unsigned)most) : 0;
    if ((w->rejoins && pick(w, 4) == 0) || (w->cuts && pick(w, 2)))
        kills = 0;
    if (w->script->scene == CHAOS_FROZEN && kills > 0) {
        lose(w, p, CHAOS_FREEZE, CHAOS_OPERATION, member(w, w->here));
        kills--;
    }
    for (int i = 0; i < kills; i++) {
        chaos_moment moment = w->lost && pick(w, 2) ? CHAOS_SHRINK : CHAOS_OPERATION;
        lose(w, p, CHAOS_KILL, moment, member(w, w->here & ~w->lost));
    }
}

/*
 * Newcomers have the slots of ranks that were lost before. One of them may die before it has a place, or an old rank may
 * while they come; but not behind a proxy, since nobody knows there before bootstrap_timeout_ms that it has died.
 */
static void
write_newcomers(writer *w, chaos_phase *p)
{
    int left = count(w->here & ~w->lost);
    int wanted = left < 4 ? 2 + (int)pick(w, 3) : (int)pick(w, 3);
    int guest;
    for (int i = 0; i < wanted && arrive(w, p) >= 0; i++)
        continue;
    if (w->cuts)
        return;
    if (p->come && left > 1 && count(w->lost) < bearable(w) && pick(w, 3) == 0)
        lose(w, p, CHAOS_KILL, CHAOS_GROW, member(w, w->here & ~w->lost));
    if (p->come && pick(w, 3) == 0 && (guest = arrive(w, p)) >= 0)
        lose(w, p, CHAOS_KILL, CHAOS_CREATE, guest);
}

static void
write_phase(writer *w, chaos_phase *p)
{
    w->lost = 0;
    write_losses(w, p);
    if (w->rejoins)
        write_newcomers(w, p);
    for (unsigned i = w->stops ? pick(w, 3) : 0; i > 0; i--)
        add(w, p, CHAOS_STOP, w->lost && pick(w, 3) == 0 ? CHAOS_SHRINK : CHAOS_OPERATION, member(w, w->here));
    if (w->stops && pick(w, 3) == 0)
        add(w, p, CHAOS_HUSH, w->lost && pick(w, 2) ? CHAOS_SHRINK : CHAOS_OPERATION, member(w, w->here));
    if (w->script->scene == CHAOS_RETURNS && pick(w, 2))
        add(w, p, CHAOS_DEATH, w->lost && pick(w, 2) ? CHAOS_SHRINK : CHAOS_OPERATION, member(w, w->here));
    for (unsigned i = w->cuts ? 1 + pick(w, 4) : 0; i > 0; i--)
        add(w, p, CHAOS_CUT, CHAOS_OPERATION, member(w, w->here));
    w->here = (w->here | p->come) & ~w->lost;
    p->here = w->here;
    p->quiet = 2 + (int)pick(w, 12);
}

void
chaos_write(chaos_script *s, uint64_t seed)
{
    static const char *const few[] = {"1", "1", "2"};
    *s = (chaos_script){.seed = seed, .scene = (chaos_scene)(seed % CHAOS_SCENES), .guests = CHAOS_SLOTS};
    writer w = {.script = s, .state = tap_mix(seed), .here = (1U << CHAOS_SLOTS) - 1};
    w.stops = s->scene == CHAOS_STOPS || s->scene == CHAOS_ALL;
    w.rejoins =
        s->scene == CHAOS_REJOINS || s->scene == CHAOS_ALL || s->scene == CHAOS_UNSERVED || s->scene == CHAOS_RETURNS;
    s->proxied = s->scene == CHAOS_CUTS || (s->scene == CHAOS_ALL && pick(&w, 2));
    w.cuts = s->proxied;
    s->shared = s->scene == CHAOS_KILLS_MEMORY || (s->scene != CHAOS_KILLS_TCP && !s->proxied && pick(&w, 2));
    s->stripes = few[pick(&w, 3)];
    s->channels = few[pick(&w, 3)];
    s->checksum = pick(&w, 2) ? "headers" : "payload";
    for (int slot = 0; slot < CHAOS_SLOTS; slot++)
        s->slot[slot] = slot;
    s->phases = s->scene == CHAOS_FROZEN ? 1 : 2 + (int)pick(&w, CHAOS_PHASES - 1);
    for (int i = 0; i < s->phases; i++)
        write_phase(&w, &s->phase[i]);
    s->host = s->proxied || s->scene == CHAOS_FROZEN || pick(&w, 2) ? 0 : 2 + (int)pick(&w, 2);
}

void
chaos_print(const chaos_script *s)
{
    diag(
        "%s: %d ranks, %d a host, %s, %s channel(s) of %s stripe(s), checksum %s; repeat it with HOOP_CHAOS_SEEDS=%llu",
        chaos_scene_name(s->scene), CHAOS_SLOTS, s->host ? s->host : CHAOS_SLOTS,
        s->proxied  ? "proxy"
        : s->shared ? "shared memory"
                    : "TCP",
        s->channels, s->stripes, s->checksum, (unsigned long long)s->seed);
    for (int i = 0; i < s->phases; i++) {
        const chaos_phase *p = &s->phase[i];
        diag("phase %d: guests %#x come; at its end guests %#x are there, and %d operations follow", i, p->come,
             p->here, p->quiet);
        for (int k = 0; k < p->faults; k++) {
            const chaos_fault *f = &p->fault[k];
            char which[16] = "";
            if (f->moment == CHAOS_OPERATION)
                snprintf(which, sizeof(which), " %d", f->operation);
            diag("phase %d: guest %d %s %s%s after %u us, for %u ms", i, f->guest, kinds[f->kind], moments[f->moment],
                 which, f->delay_us, f->length_ms);
        }
    }
}

static int
is_loss(const chaos_fault *f)
{
    return f->kind == CHAOS_KILL || f->kind == CHAOS_FREEZE;
}

uint32_t
chaos_lost_at(const chaos_script *s, int phase, chaos_moment moment)
{
    uint32_t lost = 0;
    for (int k = 0; k < s->phase[phase].faults; k++) {
        const chaos_fault *f = &s->phase[phase].fault[k];
        lost |= is_loss(f) && f->moment == moment ? 1U << f->guest : 0;
    }
    return lost;
}

uint32_t
chaos_lost(const chaos_script *s, int phase)
{
    uint32_t lost = 0;
    for (int i = 0; i <= phase && i < s->phases; i++)
        for (int moment = 0; moment < CHAOS_MOMENTS; moment++)
            lost |= chaos_lost_at(s, i, (chaos_moment)moment);
    return lost;
}

double
chaos_stopped(const chaos_script *s, int phase)
{
    double all = 0;
    for (int k = 0; k < s->phase[phase].faults; k++) {
        const chaos_fault *f = &s->phase[phase].fault[k];
        all += f->kind == CHAOS_STOP || f->kind == CHAOS_HUSH || f->kind == CHAOS_DEATH ? f->length_ms * 1e-3 : 0;
    }
    return all;
}
