/* SPDX-License-Identifier: MIT */
/* forms: the public function of a call's kind, in each of its three forms. Counts are those of t/sim/blocks.h. */
#ifndef T_SIM_FORMS_H
#define T_SIM_FORMS_H

#include "base/call.h"

/* Blocking, or non-blocking if `work` is not NULL. The caller's counts and displacements are gone when it returns. */
hoop_result sim_call(const hp_call *c, const void *from, void *to, hoop_comm *comm, hoop_work **work);

hoop_result sim_call_on_stream(const hp_call *c, const void *from, void *to, hoop_comm *comm, void *stream);

#endif
