/* SPDX-License-Identifier: MIT */
/* scene: a job that hangs, written down as recorders by hand, and what is told of it. */
#ifndef T_SCENE_H
#define T_SCENE_H

#include "base/clock.h"
#include "flight/story.h"

#define SCENE_NOW (100 * HP_SEC)                   /* when all recorders are read, */
#define SCENE_DATE (UINT64_C(1700000000) * HP_SEC) /* and 100 seconds before that */

#define SCENE_GO_ON "the ranks go on: they have called, or moved data, in the last second"
#define SCENE_CIRCLE "; the waits form a circle: make these calls in the same order on all ranks"

enum { RANKS = 8, WORLD = 77, OTHER = 78 };

extern hp_flight_collection scene_all;
extern hp_flight_story scene_story; /* what was told last */

void scene_begin(void); /* without recorders */

/* One more recorder: of a process that has the number of the rank, or another one. */
hp_flight *scene_rank(int rank, int size, uint64_t comm);
hp_flight *scene_process(int number, int rank, int size, uint64_t comm);

extern const hp_call scene_barrier;
hp_call scene_allreduce(uint64_t count);

/* Called `ago` seconds before SCENE_NOW; it lasted a second, unless it is open. */
hp_flight_record *scene_call(hp_flight *f, hp_call what, double ago, int open);

void scene_tell(void);

/* Two tests: the sentence, the plot, and the late rank. */
void scene_told(hp_flight_plot plot, int late, const char *text);

#endif
