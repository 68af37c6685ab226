/* SPDX-License-Identifier: MIT */
/* Packets and spec: what the launcher writes the agent reads, cut anywhere; what is malformed is refused. */
#include "launch/agent_msg.h"

#include "base/err.h"
#include "base/wire.h"
#include "launch/xalloc.h"
#include "t/tap/tap.h"

#include <stdlib.h>
#include <string.h>

static hp_spec
example(void)
{
    hp_spec o = {.dir = strdup("/home/alice/work"),
                 .dir_required = 1,
                 .home = strdup("/home/alice"),
                 .prefix = strdup("/opt/hoop"),
                 .options.bind = 1,
                 .world = 9,
                 .ranks = 3,
                 .local_first = 1,
                 .local_size = 5,
                 .host = 2,
                 .winsize = {24, 80}};
    hp_strings_add(&o.argv, strdup("./train"));
    hp_strings_add(&o.argv, strdup(""));
    hp_strings_add(&o.argv, strdup("a b'c\n\xff"));
    hp_strings_add(&o.variables, strdup("HOOP_JOB=x"));
    hp_strings_add(&o.variables, strdup("EMPTY="));
    o.rank = malloc(3 * sizeof(*o.rank));
    o.rank[0] = 2;
    o.rank[1] = 3;
    o.rank[2] = 8;
    return o;
}

static int
take_all(hp_spec *spec, hp_buffer *in, hoop_error *error)
{
    hp_agent_msg msg;
    int got, result = 0;
    while (result == 0 && (got = hp_agent_msg_get(in, HP_TO_AGENT, &msg, error)) != 0) {
        result = got < 0 ? -1 : hp_spec_take(spec, &msg, error) == HOOP_SUCCESS ? 0 : -1;
        if (got > 0)
            hp_agent_msg_done(in, &msg);
    }
    return result;
}

static void
check_round_trip(size_t step)
{
    hp_spec sent = example(), got = {0};
    hp_buffer wire = {0}, in = {0};
    hoop_error error;
    int result = 0;
    hp_spec_put(&wire, &sent);
    for (size_t at = 0; at < hp_buffer_size(&wire) && result == 0; at += step) {
        size_t left = hp_buffer_size(&wire) - at;
        hp_xbuffer_add(&in, hp_buffer_first(&wire) + at, left < step ? left : step);
        result = take_all(&got, &in, &error);
    }
    ok(result == 0 && got.complete, "spec in pieces of %zu are complete", step);
    ok(got.argv.count == 3 && strcmp(got.argv.item[2], "a b'c\n\xff") == 0 && got.argv.item[1][0] == '\0' &&
           !got.argv.item[3],
       "the command");
    ok(got.variables.count == 2 && strcmp(got.variables.item[1], "EMPTY=") == 0, "the variables");
    ok(got.dir_required && strcmp(got.dir, sent.dir) == 0 && strcmp(got.home, sent.home) == 0 &&
           strcmp(got.prefix, sent.prefix) == 0,
       "the folders");
    is_int(1, got.options.bind, "that ranks keep to their shares");
    ok(got.world == 9 && got.ranks == 3 && memcmp(got.rank, sent.rank, 3 * sizeof(*got.rank)) == 0, "the ranks");
    ok(got.local_first == 1 && got.local_size == 5 && got.host == 2, "their local ranks, and the number of the host");
    ok(got.winsize.rows == 24 && got.winsize.columns == 80, "the window");
    hp_spec_free(&sent);
    hp_spec_free(&got);
    hp_buffer_free(&wire);
    hp_buffer_free(&in);
}

/* One msg with this payload, into empty spec. */
static int
takes(int type, const void *payload, size_t n)
{
    hp_spec spec = {0};
    hp_buffer in = {0};
    hoop_error error;
    int result;
    hp_agent_msg_put(&in, (hp_agent_msg_type)type, payload, n, NULL, 0);
    result = take_all(&spec, &in, &error);
    hp_spec_free(&spec);
    hp_buffer_free(&in);
    return result;
}

static int
takes_ranks(uint32_t world, uint32_t a, uint32_t b)
{
    uint8_t payload[12];
    hp_put32(payload, world);
    hp_put32(payload + 4, a);
    hp_put32(payload + 8, b);
    return takes(HP_MSG_RANKS, payload, sizeof(payload));
}

static void
check_malformed(void)
{
    is_int(0, takes(HP_MSG_ENV, "A=b", 3), "a variable");
    is_int(-1, takes(HP_MSG_ENV, "Ab", 2), "a variable without '='");
    is_int(-1, takes(HP_MSG_ENV, "=b", 2), "a variable without a name");
    is_int(-1, takes(HP_MSG_ENV, "A=\0b", 4), "a variable with a NUL");
    is_int(-1, takes(HP_MSG_ARG, "a\0b", 3), "a word with a NUL");
    is_int(-1, takes(HP_MSG_LOCAL, "\0\0\0\0\1\0\0\0\0\0\0\0", 12), "local ranks before there are ranks");
    is_int(-1, takes(HP_MSG_GO, "", 0), "GO before anything else");
    is_int(-1, takes(HP_MSG_STDIN, "x", 1), "input before GO");
    is_int(0, takes_ranks(4, 1, 3), "ranks");
    is_int(-1, takes_ranks(4, 3, 1), "ranks that fall");
    is_int(-1, takes_ranks(4, 1, 1), "a rank twice");
    is_int(-1, takes_ranks(4, 1, 4), "a rank out of range");
    is_int(-1, takes_ranks(UINT32_MAX, 1, 4), "a world out of range");
    is_int(0, takes(HP_MSG_OPTION, "\1\0\0\0bind", 8), "an option");
    is_int(-1, takes(HP_MSG_OPTION, "\1\0\0\0bin", 7), "one that there is not");
    is_int(-1, takes(HP_MSG_OPTION, "\1\0\0\0bindx", 9), "nor this");
    is_int(-1, takes(HP_MSG_RANKS, "123456789", 9), "ranks of nine bytes");
    is_int(-1, takes(HP_MSG_DONE, "", 0), "what only agents say");
    is_int(-1, takes(0, "", 0), "type 0");
    is_int(-1, takes(200, "", 0), "type 200");
}

/* An agent without ranks waits for those that are started again. */
static void
check_without_ranks(void)
{
    for (int restarts = 0; restarts < 2; restarts++) {
        hp_spec sent = {.world = 4, .options.max_restarts = restarts}, got = {0};
        hp_buffer wire = {0};
        hoop_error error;
        hp_strings_add(&sent.argv, strdup("./train"));
        hp_spec_put(&wire, &sent);
        is_int(restarts ? 0 : -1, take_all(&got, &wire, &error), "no ranks, and %d restarts", restarts);
        is_int(restarts, got.complete, "make %s spec", restarts ? "a" : "no");
        hp_spec_free(&sent);
        hp_spec_free(&got);
        hp_buffer_free(&wire);
    }
}

static void
check_heads(void)
{
    static const uint8_t heads[][HP_AGENT_MSG_HEAD] = {
        {4, 0, 0, 0, HP_MSG_STOP, 1, 0, 0},       {4, 0, 0, 0, HP_MSG_STOP, 0, 1, 0},
        {4, 0, 0, 0, HP_MSG_STOP, 0, 0, 1},       {3, 0, 0, 0, HP_MSG_STOP, 0, 0, 0},
        {5, 0, 0, 0, HP_MSG_STOP, 0, 0, 0},       {255, 255, 255, 255, HP_MSG_ARG, 0, 0, 0},
        {'H', 'T', 'T', 'P', '/', '1', '.', '1'},
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        hp_buffer in = {0};
        hp_agent_msg msg;
        hp_xbuffer_add(&in, heads[i], HP_AGENT_MSG_HEAD);
        is_int(-1, hp_agent_msg_get(&in, HP_TO_AGENT, &msg, NULL), "head %zu is refused before its payload has come",
               i);
        hp_buffer_free(&in);
    }
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_round_trip(1);
    check_round_trip(7);
    check_round_trip(100000);
    check_malformed();
    check_without_ranks();
    check_heads();
    return 0;
}
