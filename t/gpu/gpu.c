/* SPDX-License-Identifier: MIT */
/* gpu: host memory is the CPU's; each device's row of functions is complete; the description is a sentence. */
#include "gpu/gpu.h"

#include "base/mem.h"
#include "gpu/arith.h"
#include "t/tap/tap.h"

#include <stdlib.h>
#include <string.h>

static int
is_complete(const hp_device_ops *ops)
{
    return ops->name && ops->owns && ops->open && ops->close && ops->addressable && ops->pin && ops->unpin &&
           ops->queue_open && ops->queue_close && ops->submit && ops->done && ops->wake_fd && ops->wake_arm &&
           ops->drain && ops->status;
}

/* A device has all functions for callers' streams, or none of them. */
static int
streams(const hp_device_ops *ops)
{
    int has = ops->mark && ops->passed && ops->unmark && ops->gate_close && ops->gate_open && ops->release;
    return has                                                                                            ? 1
           : ops->mark || ops->passed || ops->unmark || ops->gate_close || ops->gate_open || ops->release ? -1
                                                                                                          : 0;
}

int
main(void)
{
    static int still;
    int local = 0;
    char *heap = malloc(100);
    void *pages = hp_pages(10000);
    char text[256] = "", tiny[8] = "";
    tap_limit(240);
    plan(12);
    ok(hp_device_of(NULL) == &hp_host_ops, "NULL");
    ok(hp_device_of(&still) == &hp_host_ops, "static memory");
    ok(hp_device_of(&local) == &hp_host_ops, "the stack");
    ok(hp_device_of(heap) == &hp_host_ops, "the heap");
    ok(hp_device_of(heap + 99) == &hp_host_ops, "the middle of something");
    ok(hp_device_of(pages) == &hp_host_ops, "pages of our own");
    is_string("cpu", hp_host_ops.name, "the host's name");
    ok(is_complete(&hp_host_ops) && streams(&hp_host_ops) == 0, "the host's row is complete, without streams");
    ok(is_complete(&hp_cuda_ops) && streams(&hp_cuda_ops) == 1, "and CUDA's, with them");
    ok(hp_gpu_describe(text, sizeof(text)) == text && strlen(text) > 10, "description: %s", text);
    ok(hp_gpu_describe(tiny, sizeof(tiny)) == tiny && strlen(tiny) < sizeof(tiny), "cut to the space there is");
    ok(hp_arith_best()->usable() && hp_arith_best() == hp_arith_best(), "loops in use: %s", hp_arith_best()->name);
    hp_pages_free(pages, 10000);
    free(heap);
    return 0;
}
