/* SPDX-License-Identifier: MIT */
/*
 * impossible_cause: a client at a server that has the right key and tells it impossible causes: ranks that the job has
 * not, codes that say that all is well with the communicator. A program must not get such things from the library.
 */
#include "base/err.h"
#include "base/wire.h"
#include "net/acceptor.h"
#include "rendezvous/control_conn.h"
#include "t/rendezvous/ranks.h"
#include "t/tap/tap.h"

#include <string.h>

typedef struct liar {
    hp_acceptor *acceptor;
    const hp_keys *keys;
    hp_loop *loop;
    hp_control_conn *line;
    int code, rank, reporter;
} liar;

static const hp_keys *
on_keys(void *arg, const uint8_t job_id[HP_JOB_ID_BYTES])
{
    const liar *l = arg;
    return l->keys;
}

static int
on_policy(void *arg, const hp_hello *hello, hp_handshake_policy *policy)
{
    *policy = (hp_handshake_policy){.my_rank = HP_RANK_SERVER, .role = HP_ROLE_CONTROL};
    return 1;
}

static hp_status
on_judge(void *arg, const hp_hello *hello, const hp_addr *from, uint32_t *assigned)
{
    *assigned = hello->my_rank;
    return HP_OK;
}

/* Whatever it says: an error of ours. */
static int
on_frame(void *arg, const hp_control_frame *frame, hoop_error *error)
{
    liar *l = arg;
    uint8_t bytes[HP_ABORT_BYTES];
    hoop_error cause;
    hp_err_set(&cause, HOOP_ERR_TIMEOUT, "rank %d stands still", l->rank);
    cause.rank = l->rank;
    cause.reporter = l->reporter;
    size_t size = hp_abort_put(bytes, &cause);
    hp_put32(bytes, (uint32_t)l->code);
    hp_control_conn_send(l->line, HP_REFUSED, bytes, size);
    return 0;
}

static void
on_room(void *arg)
{
}

static void
on_closed(void *arg, const hoop_error *error)
{
    liar *l = arg;
    hp_control_conn_free(l->line);
    l->line = NULL;
}

static void
on_enter(void *arg, int fd, const hp_hello *hello, uint64_t features, const hp_addr *from)
{
    liar *l = arg;
    hp_control_conn_owner owner = {l, on_frame, on_room, on_closed};
    hp_control_conn_free(l->line);
    l->line = hp_control_conn_new(l->loop, fd, &owner);
}

/* What a rank of four hears. */
static hoop_error
hear(meet *m, liar *l, int code, int rank, int reporter)
{
    hp_client_options o = rank_options(m, "lies", 0, 4, 1, SOON_MS);
    l->code = code;
    l->rank = rank;
    l->reporter = reporter;
    l->keys = o.keys;
    o.server = *hp_acceptor_addr(l->acceptor);
    hp_client *client = rank_join(m, &o);
    if (!ranks_reach(m, &client, 1, HP_CLIENT_FAILED, SOON_MS))
        bail("the client heard nothing");
    hoop_error heard = *hp_client_error(client);
    hp_client_free(client);
    return heard;
}

int
main(void)
{
    meet m;
    liar l = {0};
    hoop_error error;
    hp_addr any;
    hp_sock_options sock = {0};
    hp_acceptor_owner owner = {.arg = &l, .keys = on_keys, .policy = on_policy, .judge = on_judge, .enter = on_enter};
    tap_limit(240);
    plan_lazy();
    meet_open(&m);
    l.loop = m.loop;
    if (hp_addr_parse(&any, "127.0.0.1:0", &error) ||
        !(l.acceptor = hp_acceptor_new(m.loop, &any, NULL, &sock, &owner, 0, &error)))
        bail("no door");
    error = hear(&m, &l, HOOP_ERR_TIMEOUT, 3, 2);
    ok(error.code == HOOP_ERR_TIMEOUT && error.rank == 3 && error.reporter == 2, "a cause of the job's own");
    error = hear(&m, &l, HOOP_ERR_TIMEOUT, 4, 2);
    ok(error.code == HOOP_ERR_TIMEOUT && error.rank == -1 && error.reporter == 2, "rank 4 of 4 is nobody");
    error = hear(&m, &l, HOOP_ERR_TIMEOUT, INT32_MAX, INT32_MAX);
    ok(error.rank == -1 && error.reporter == -1, "nor is the largest number a rank");
    error = hear(&m, &l, HOOP_ERR_BUSY, 1, 1);
    is_int(HOOP_ERR_PROTOCOL, error.code, "BUSY ends no start: %s", error.text);
    hp_control_conn_free(l.line);
    hp_acceptor_free(l.acceptor);
    meet_close(&m);
    return 0;
}
