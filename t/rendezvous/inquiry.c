/* SPDX-License-Identifier: MIT */
/*
 * inquiry: a server that has no descriptor left for hoop-top does not turn its loop in vain, and answers when it has one.
 */
#include "rendezvous/inquiry.h"

#include "base/clock.h"
#include "flight/folder.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT = 64, LOOK_MS = 400, FEW = 20 /* turns of the loop, and one more each second */ };

static void
answer(void *arg, const uint8_t *job_id, int rows, int width, hp_buffer *out)
{
    if (!job_id && rows == 0 && hp_buffer_add(out, "{}", 2) == 0)
        ++*(int *)arg;
}

/* A program that asks, of this process. */
static int
ask(void)
{
    char path[HP_FLIGHT_PATH], name[64], at[HP_SERVER_SOCKET_PATH];
    int folder = hp_flight_folder_make(path, NULL);
    snprintf(name, sizeof(name), "%d-1.socket", (int)getpid());
    int fd = hp_server_socket_connect(hp_server_socket_path(folder, name, at));
    if (fd < 0 || write(fd, "json\n", 5) != 5)
        bail("nobody listens at %s/%s", path, name);
    close(folder);
    return fd;
}

/* All descriptors that this process may have. Returns how many. */
static int
take_all(int taken[LIMIT])
{
    int n = 0;
    while (n < LIMIT && (taken[n] = dup(0)) >= 0)
        n++;
    return n;
}

int
main(void)
{
    const struct rlimit few = {LIMIT, LIMIT};
    int taken[LIMIT], asked = 0, n;
    char text[8];
    hoop_error error;
    tap_limit(60);
    plan_lazy();
    setenv("XDG_RUNTIME_DIR", tap_tmpdir(), 1);
    setrlimit(RLIMIT_NOFILE, &few);
    hp_loop *loop = hp_loop_new();
    hp_inquiry *inquiry = hp_inquiry_new(loop, &(hp_inquiry_owner){&asked, answer}, &error);
    if (!inquiry || error.code != HOOP_SUCCESS)
        bail("no socket: %s", error.text);
    int fd = ask();
    n = take_all(taken);
    uint64_t turns = 0, lasted = 0;
    for (uint64_t began = hp_now(); lasted < LOOK_MS * HP_MS; lasted = hp_now() - began, turns++)
        hp_loop_run(loop, LOOK_MS * HP_MS);
    ok(turns <= FEW + lasted / HP_SEC && !asked, "without a descriptor the loop waits");
    while (n > 0)
        close(taken[--n]);
    for (tap_wait w = {0}; !asked && tap_waits(&w);)
        hp_loop_run(loop, LOOK_MS * HP_MS);
    is_int(1, asked, "with one the guest is answered");
    for (tap_wait w = {0}; recv(fd, text, sizeof(text), MSG_DONTWAIT) != 2 && tap_waits(&w);)
        hp_loop_run(loop, HP_MS);
    ok(memcmp(text, "{}", 2) == 0, "and gets that");
    close(fd);
    hp_inquiry_free(inquiry);
    hp_loop_free(loop);
    return tap_failures() != 0;
}
