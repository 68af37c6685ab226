/* SPDX-License-Identifier: MIT */
/* cuda_rank: see cuda_rank.h. */
#include "t/gpu/cuda_rank.h"

#include <stdlib.h>

enum { MOST = CUDA_RANK_BYTES };

int
cuda_rank_complain(const char *what)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(NULL, &error);
    party_note("%s: %s", what, error.text);
    return 1;
}

int
cuda_rank_enter(cuda_rank *r, int number, int size)
{
    *r = (cuda_rank){.rank = number, .size = size, .fake = cuda_test_driver()};
    if (hoop_comm_create(&r->comm, NULL) != HOOP_SUCCESS)
        return cuda_rank_complain("create");
    r->device = cuda_test_open();
    r->in = arena_new(r->device, ARENA_DEVICE, MOST);
    r->out = arena_new(r->device, ARENA_DEVICE, MOST);
    r->data = calloc(1, MOST);
    r->to = calloc(1, MOST);
    r->seen = calloc(1, MOST);
    return !r->data || !r->to || !r->seen;
}

int
cuda_rank_leave(cuda_rank *r)
{
    hoop_result result = hoop_comm_destroy(r->comm);
    arena_free(&r->in);
    arena_free(&r->out);
    r->device->ops->close(r->device);
    free(r->data);
    free(r->to);
    free(r->seen);
    if (result == HOOP_SUCCESS && r->fake && r->fake->live() != 0)
        party_note("%ld driver objects are left", r->fake->live());
    return result == HOOP_SUCCESS && r->fake && r->fake->live() != 0;
}

void
cuda_rank_party(party *p, int size, party_fn *fn, const char *what)
{
    int bad = party_run(p, size, fn, NULL, 60);
    ok(bad == 0, "%d ranks: %s", size, what);
    for (int i = 0; i < size && bad != 0; i++) {
        if (p->guest[i].status != 0)
            diag("rank %d, status %#x: %s", i, (unsigned)p->guest[i].status, p->guest[i].note);
    }
}
