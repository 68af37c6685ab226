/* SPDX-License-Identifier: MIT */
/*
 * The getters that write text: a rank's own address is the one at which it can be reached, in every form and size of
 * buffer; a ring of one has none. Without a GPU, its getters say why. (With one: t/sys/bench_gpu.t.)
 */
#include "gpu/cuda_launch.h"
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3 };

static void
misuse(const hoop_comm *comm)
{
    char text[HOOP_ADDRESS_TEXT] = "stale";
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_comm_local_address(NULL, text, sizeof(text)), "no communicator");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_comm_local_address(comm, NULL, sizeof(text)), "no buffer");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_comm_local_address(comm, text, 0), "a buffer of no size");
    is_string("stale", text, "nothing was written");
}

static void
alone(void)
{
    hoop_comm *comm;
    char text[HOOP_ADDRESS_TEXT] = "stale";
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        bail("no ring of one");
    is_int(HOOP_SUCCESS, hoop_comm_local_address(comm, text, sizeof(text)), "a ring of one may be asked");
    is_string("", text, "it has no address");
    is_int(HOOP_SUCCESS, hoop_comm_local_address(comm, text, 1), "one byte is enough for that");
    misuse(comm);
    hoop_comm_destroy(comm);
}

/* Notes the address, the sizes that were wrong, and the address after the communicator has failed. */
static int
tell(int rank, int size, void *arg)
{
    hoop_comm *comm;
    char text[HOOP_ADDRESS_TEXT] = "none", after[HOOP_ADDRESS_TEXT] = "none";
    int wrong = 0;
    if (arg)
        setenv("HOOP_SOCKET_IFNAME", arg, 1);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    hoop_comm_local_address(comm, text, sizeof(text));
    for (size_t room = 1; room <= strlen(text) + 1; room++) {
        char cut[HOOP_ADDRESS_TEXT + 1] = "stale";
        hoop_result result = hoop_comm_local_address(comm, cut, room);
        int fits = room == strlen(text) + 1;
        wrong += result != (fits ? HOOP_SUCCESS : HOOP_ERR_INVALID_ARGUMENT) || strcmp(cut, fits ? text : "") != 0;
    }
    hoop_barrier(comm);
    hoop_comm_abort(comm, "the test wants a failed communicator");
    wrong += hoop_comm_local_address(comm, after, sizeof(after)) != HOOP_SUCCESS;
    party_note("%s %d %s", text, wrong, after);
    hoop_comm_destroy(comm);
    return 0;
}

static void
in_a_ring(void)
{
    party p;
    party_open(&p);
    is_int(0, party_run(&p, RANKS, tell, NULL, 60), "a ring of three");
    for (int i = 0; i < RANKS; i++)
        is_string("127.0.0.1 0 127.0.0.1", p.guest[i].note,
                  "rank %d: its address, in buffers of every size, and after a failure", i);
    is_int(0, party_run(&p, RANKS, tell, "127.0.0.0/8", 60), "a ring on a network that was named");
    is_string("127.0.0.1 0 127.0.0.1", p.guest[0].note, "... has its address");
    party_close(&p);
}

static void
gpu(void)
{
    char text[256] = "", cut[6] = "stale";
    int ordinal = 7;
    hoop_error error = {.size = sizeof(error)};
    is_int(HOOP_SUCCESS, hoop_gpu_describe(text, sizeof(text)), "what there is for GPUs");
    ok(strncmp(text, "CUDA: ", 6) == 0, "... in a sentence: %s", text);
    is_int(HOOP_SUCCESS, hoop_gpu_describe(cut, sizeof(cut)), "... cut off where it must be");
    is_string("CUDA:", cut, "... and terminated");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_gpu_describe(NULL, 9), "no buffer");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_gpu_ordinal(NULL), "no place for the ordinal");
    if (hp_fatbin_size > 0)
        return skip(3, "this build has GPU kernels");
    is_int(HOOP_ERR_UNSUPPORTED, hoop_gpu_ordinal(&ordinal), "a build without GPU kernels has no GPU");
    is_int(-1, ordinal, "... no ordinal");
    hoop_comm_error(NULL, &error);
    ok(strstr(error.text, "built without nvcc") != NULL, "... and a sentence: %s", error.text);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    alone();
    in_a_ring();
    gpu();
    return 0;
}
