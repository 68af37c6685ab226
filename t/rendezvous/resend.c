/* SPDX-License-Identifier: MIT */
/*
 * resend: what a rank says to a control connection that is reset, and has not been seen to be, reaches the server all the
 * same when the rank is back; what no longer holds then does not.
 */
#include "rendezvous/registration.h"

#include "base/err.h"
#include "t/rendezvous/ranks.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

enum {
    N = 3,
    GUILTY = 1,
    DESCRIPTORS = 128,
    TURNS = 90 /* of 20 ms, once it is back: longer than the server weighs anything */
};

typedef enum event { ABORT, LOST, FOUND, UNSTARTED, STARTED, PASSED, REFUSED, NAMED, CALLS_NAMED } event;

static meet m;
static hp_client *clients[N];

/* A socket of this process that leads to the server and has a larger number than `above`. */
static int
line_above(int above)
{
    for (int fd = above + 1; fd < DESCRIPTORS; fd++) {
        struct sockaddr_in to = {0};
        socklen_t length = sizeof(to);
        if (getpeername(fd, (struct sockaddr *)&to, &length) == 0 && to.sin_port == m.addr.u.v4.sin_port)
            return fd;
    }
    return -1;
}

/* Returns the guilty one's socket. */
static int
start(void)
{
    int fd = -1;
    meet_open(&m);
    for (int i = 0; i < N; i++) {
        int rank = (i + GUILTY) % N; /* its line is the first one */
        hp_client_options o = rank_options(&m, "debt", rank, N, 1, SOON_MS);
        o.op_timeout = 60 * HP_SEC;
        o.listen = m.addr; /* there the server learns that the process lives, however late it comes back */
        clients[rank] = rank_join(&m, &o);
        while (i == 0 && (fd = line_above(2)) < 0)
            meet_run(&m, 10);
    }
    if (!ranks_go(&m, clients, N, SOON_MS))
        bail("no ring");
    return fd;
}

static hoop_error
cause_of(hoop_result code, const char *text)
{
    hoop_error error;
    hp_err_set(&error, code, "%s", text);
    error.rank = GUILTY;
    return error;
}

static void
say(event what)
{
    hp_client *c = clients[GUILTY];
    hoop_error cause = cause_of(HOOP_ERR_CUDA, "its GPU is out of order");
    hp_loss loss = {.peer = 2, .number = ECONNRESET, .sequence = 1};
    hp_unstarted refusal = {.sequence = 1, .cause = cause_of(HOOP_ERR_INVALID_ARGUMENT, "sendbuf is NULL")};
    hp_report report = {.sequence = 1, .awaited = {HP_WAIT_PEER, 0}};
    refusal.call = (hp_call){.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = 100};
    switch (what) {
    case ABORT: hp_membership_abort(hp_client_membership(c), &cause); break;
    case FOUND:
    case LOST: hp_membership_lost(hp_client_membership(c), &loss); break;
    case REFUSED: hp_membership_refuse(hp_client_membership(c), 1, &cause); break;
    case CALLS_NAMED: hp_membership_name(hp_client_membership(c), 1, "gradients"); break;
    case NAMED: hp_membership_name(hp_client_membership(c), 0, "dp"); break;
    default: hp_membership_unstarted(hp_client_membership(c), &refusal); break;
    }
    if (what == FOUND)
        hp_membership_found(hp_client_membership(c));
    if (what == STARTED)
        hp_client_started(c, &report);
}

/* The others wait in operation 1, and the guilty one comes back. */
static void
go_on(event what)
{
    hp_report report = {.sequence = 1, .awaited = {HP_WAIT_PEER, GUILTY}},
              own = {.sequence = 1, .awaited = {HP_WAIT_PEER, 0}, .call_name = 1};
    own.call.kind = HP_BARRIER;
    int turn = 0;
    for (tap_wait w = {0}; turn < TURNS && tap_waits(&w);) {
        int away = hp_membership_is_away(hp_client_membership(clients[GUILTY]));
        turn += !away;
        for (int i = 0; i < N; i++)
            if (i != GUILTY)
                hp_client_in_op(clients[i], &report);
        if (away)
            hp_client_return(clients[GUILTY], what == PASSED, what == PASSED);
        else if (what == CALLS_NAMED)
            hp_client_in_op(clients[GUILTY], &own);
        meet_run(&m, 20);
    }
}

static void
find_name(void *arg, const char *line)
{
    *(int *)arg |= strstr(line, " \"dp\", ring of") || strstr(line, "  barrier 1 (gradients)  ");
}

/* Whether the server's table has one of the names. */
static int
is_named(void)
{
    int found = 0;
    const hp_table_options options = {.most = N, .to = {.line = find_name, .arg = &found}};
    hp_server_print(m.server, &options);
    return found;
}

/* 1 if the others have been told this; "": nothing, though the guilty one is back. */
static int
is_told(event what, const char *part)
{
    hoop_error verdict = {0};
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    int fd = start();
    if (connect(fd, &nobody, sizeof(nobody)))
        bail("the connection cannot be reset");
    say(what);
    go_on(what);
    int told = hp_membership_verdict(hp_client_membership(clients[0]), &verdict);
    int good = *part ? told && strstr(verdict.text, part)
                     : !told && !hp_membership_is_away(hp_client_membership(clients[GUILTY]));
    if (what == REFUSED)
        good = meet_said(&m, part) == 1;
    if (what == NAMED || what == CALLS_NAMED)
        good = is_named();
    if (!good)
        diag("told: %s", told ? verdict.text : "nothing");
    ranks_free(clients, N);
    meet_close(&m);
    return good;
}

static const struct {
    event event;
    const char *verdict, *text;
} pictures[] = {
    {ABORT, "its GPU is out of order", "a cause told to a line that was reset is told again"},
    {LOST, "the connection between rank 1 (node2) and rank 2 (node3) broke", "so is a loss"},
    {FOUND, "", "unless the connection stands again"},
    {UNSTARTED, "rank 1 (node2) could not start operation 1", "so is a call that was refused"},
    {STARTED, "", "unless the rank has started one"},
    {PASSED, "", "even if nobody has said so"},
    {REFUSED, "its GPU is out of order", "so is a split that a rank does not come to"},
    {NAMED, "", "so is the communicator's name"},
    {CALLS_NAMED, "", "and so are names of calls"},
};

static void
play(int scene)
{
    ok(is_told(pictures[scene].event, pictures[scene].verdict), "%s", pictures[scene].text);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    tap_scenes(sizeof(pictures) / sizeof(pictures[0]), play);
    return tap_failures() != 0;
}
