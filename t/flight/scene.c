/* SPDX-License-Identifier: MIT */
/* scene: see scene.h. */
#include "t/flight/scene.h"

#include "base/mem.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hp_flight_collection scene_all;
hp_flight_story scene_story;

static hp_flight_rings rings;

hp_flight *
scene_rank(int rank, int size, uint64_t comm)
{
    hp_flight *f = hp_alloc(1, sizeof(*f));
    hp_flight_entry *grown = realloc(scene_all.entry, (scene_all.count + 1) * sizeof(*grown));
    if (!f || !grown)
        bail("out of memory");
    scene_all.entry = grown;
    scene_all.entry[scene_all.count++] =
        (hp_flight_entry){.flight = f, .state = HP_FLIGHT_RUNS, .looked = SCENE_DATE + SCENE_NOW};
    f->head = (hp_flight_head){.pid = 1000 + (uint32_t)rank,
                               .started = 5,
                               .pid_space = 6,
                               .rank = rank,
                               .size = size,
                               .comm = comm,
                               .realtime = SCENE_DATE,
                               .job = "train"};
    snprintf(f->head.host, sizeof(f->head.host), "node%d", rank);
    return f;
}

hp_flight *
scene_process(int number, int rank, int size, uint64_t comm)
{
    hp_flight *f = scene_rank(rank, size, comm);
    f->head.pid = 1000 + (uint32_t)number;
    snprintf(f->head.host, sizeof(f->head.host), "node%d", number);
    return f;
}

hp_call
scene_allreduce(uint64_t count)
{
    return (hp_call){.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = count};
}

const hp_call scene_barrier = {.kind = HP_BARRIER, .dtype = HOOP_UINT8, .op = HOOP_SUM, .root = -1};

hp_flight_record *
scene_call(hp_flight *f, hp_call what, double ago, int open)
{
    hp_flight_record *r = &f->record[f->count];
    uint64_t entered = SCENE_NOW - (uint64_t)(ago * 1e9);
    *r = (hp_flight_record){.number = (uint64_t)f->count + 1,
                            .sequence = (uint64_t)f->count + 1,
                            .call = what,
                            .entered = entered,
                            .left = open ? 0 : entered + HP_SEC,
                            .calls = 1,
                            .peer = -1,
                            .awaited = -1};
    f->count++;
    f->head.called++;
    return r;
}

void
scene_begin(void)
{
    hp_flight_rings_free(&rings);
    hp_flight_collection_free(&scene_all);
}

void
scene_tell(void)
{
    hp_flight_rings_free(&rings);
    if (!hp_flight_rings_make(&rings, &scene_all))
        bail("out of memory");
    hp_flight_tell(&rings, &scene_story);
}

void
scene_told(hp_flight_plot plot, int late, const char *text)
{
    scene_tell();
    is_string(text, scene_story.text, "%s", text);
    ok(scene_story.plot == plot && scene_story.late == late, "... plot %d, rank %d is late", (int)scene_story.plot,
       scene_story.late);
}
