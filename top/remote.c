/* SPDX-License-Identifier: MIT */
/* remote: see remote.h. */
#include "top/remote.h"

#include "base/clock.h"
#include "base/err.h"
#include "net/dial.h"
#include "net/socket.h"
#include "top/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LIMIT_S = 5, REQUEST = 32 };

hoop_result
hp_top_remote_open(hp_top_remote *remote, const char *address, const hp_keys *keys, hoop_error *error)
{
    *remote = (hp_top_remote){.loop = hp_loop_new(), .keys = hp_keys_hold(keys), .address = address};
    if (!remote->loop)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "cannot make an event loop: out of memory or of descriptors");
    return hp_addr_find(&remote->server, address, remote->loop, hp_loop_now(remote->loop) + LIMIT_S * HP_SEC, error);
}

typedef struct dialling {
    int dialled;
    hp_dial_result result;
} dialling;

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    dialling *a = arg;
    a->dialled = 1;
    a->result = *result;
}

/* A proven connection; -1 with the error filled. */
static int
dial(const hp_top_remote *remote, hoop_error *error)
{
    const hp_sock_options sock = {0};
    dialling a = {.result.fd = -1};
    hp_hello hello = {.my_rank = HP_RANK_UNKNOWN,
                      .your_rank = HP_RANK_SERVER,
                      .role = HP_ROLE_ASK,
                      .mode = (uint8_t)remote->keys->mode,
                      .ver_min = HP_WIRE_MIN,
                      .ver_max = HP_WIRE_MAX};
    memcpy(hello.job_id, remote->keys->job_id, HP_JOB_ID_BYTES);
    hp_dial *dial = hp_dial_new(remote->loop, &remote->server, NULL, &sock, remote->keys, &hello,
                                "the rendezvous server", hp_loop_now(remote->loop) + LIMIT_S * HP_SEC, on_dialled, &a);
    if (dial)
        hp_dial_limit_closed(dial, 1);
    else
        hp_err_set(&a.result.error, HOOP_ERR_NO_MEMORY, "out of memory for a connection");
    while (dial && !a.dialled)
        hp_loop_run(remote->loop, HP_NEVER);
    hp_dial_free(dial);
    *error = a.result.error;
    return a.result.fd;
}

/* Adds the answer to a request. */
static hoop_result
ask(const hp_top_remote *remote, const char *request, hp_buffer *answer, hoop_error *error)
{
    int fd = dial(remote, error);
    if (fd < 0)
        return error->code;
    hp_err_clear(error);
    if (hp_top_converse(fd, request, answer) < 0)
        hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "the rendezvous server at %s does not answer; is it stopped?",
                   remote->address);
    hp_socket_close(fd);
    return error->code;
}

static int
add(hp_buffer *out, const char *text)
{
    return hp_buffer_add(out, text, strlen(text));
}

static int
add_text(hp_buffer *out, const char *address, const hp_buffer *answer)
{
    static const char none[] = "no rank of this job is in a ring now\n";
    size_t n = hp_buffer_size(answer);
    return add(out, address) || add(out, "\n") || (n ? hp_buffer_add(out, hp_buffer_first(answer), n) : add(out, none));
}

static int
add_json(hp_buffer *out, const char *address, const hp_buffer *answer)
{
    size_t n = hp_buffer_size(answer);
    return add(out, "[{\"version\":1,\"server\":\"") || add(out, address) || add(out, "\",\"pid\":null,\"rings\":") ||
           (n ? hp_buffer_add(out, hp_buffer_first(answer), n) : add(out, "null")) || add(out, "}]\n");
}

static int
tells_of_ring(const hp_buffer *answer)
{
    static const char no_rings[] = "[]";
    size_t n = hp_buffer_size(answer);
    return n > 0 && (n != sizeof(no_rings) - 1 || memcmp(hp_buffer_first(answer), no_rings, n) != 0);
}

hoop_result
hp_top_remote_ask(hp_top_remote *remote, int rows, int width, hp_buffer *out, hoop_error *error)
{
    char request[REQUEST], address[HP_ADDR_TEXT];
    hp_buffer answer = {0};
    snprintf(request, sizeof(request), rows ? "table %d %d" : "json", rows, width);
    hp_addr_print(&remote->server, address);
    if (ask(remote, request, &answer, error) == HOOP_SUCCESS &&
        (rows ? add_text(out, address, &answer) : add_json(out, address, &answer)) != 0)
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the answer");
    remote->found = tells_of_ring(&answer);
    hp_buffer_free(&answer);
    return error->code;
}

void
hp_top_remote_close(hp_top_remote *remote)
{
    hp_keys_drop(remote->keys);
    if (remote->loop)
        hp_loop_free(remote->loop);
    *remote = (hp_top_remote){0};
}
