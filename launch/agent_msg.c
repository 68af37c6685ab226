/* SPDX-License-Identifier: MIT */
/*
 * agent_msg: one table of all messages, the codec that it drives, and the strict decoder of a spec: before the agent acts
 * on it, every string is checked for NUL bytes, every rank for its range, and the whole for its size.
 */
#include "launch/agent_msg.h"

#include "base/err.h"
#include "base/wire.h"
#include "launch/xalloc.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct rule {
    hp_agent_msg_side side;
    uint32_t least, most;
} rule;

static const rule rules[] = {
    [HP_MSG_ENV] = {HP_TO_AGENT, 2, HP_AGENT_MSG_MAX},
    [HP_MSG_ARG] = {HP_TO_AGENT, 0, HP_AGENT_MSG_MAX},
    [HP_MSG_DIR] = {HP_TO_AGENT, 2, 1 + 4096},
    [HP_MSG_HOME] = {HP_TO_AGENT, 1, 4096},
    [HP_MSG_PREFIX] = {HP_TO_AGENT, 1, 4096},
    [HP_MSG_OPTION] = {HP_TO_AGENT, 5, 4 + 64},
    [HP_MSG_WINDOW] = {HP_TO_AGENT, 4, 4},
    [HP_MSG_RANKS] = {HP_TO_AGENT, 4, HP_AGENT_MSG_MAX},
    [HP_MSG_LOCAL] = {HP_TO_AGENT, 12, 12},
    [HP_MSG_GO] = {HP_TO_AGENT, 0, 0},
    [HP_MSG_STDIN] = {HP_TO_AGENT, 1, HP_AGENT_MSG_TEXT},
    [HP_MSG_STDIN_END] = {HP_TO_AGENT, 0, 0},
    [HP_MSG_SIGNAL] = {HP_TO_AGENT, 4, 4},
    [HP_MSG_STOP] = {HP_TO_AGENT, 4, 4},
    [HP_MSG_LOOK] = {HP_TO_AGENT, 0, 0},
    [HP_MSG_PING] = {HP_TO_AGENT, 8, 8},
    [HP_MSG_AGAIN] = {HP_TO_AGENT, 4, 4},
    [HP_MSG_RELET] = {HP_TO_AGENT, 4, 4},
    [HP_MSG_PAUSE] = {HP_TO_AGENT, 4, 4},
    [HP_MSG_STARTED] = {HP_TO_LAUNCHER, 8, 8},
    [HP_MSG_OUTPUT] = {HP_TO_LAUNCHER, 6, 5 + HP_AGENT_MSG_TEXT},
    [HP_MSG_EXIT] = {HP_TO_LAUNCHER, 24, 24},
    [HP_MSG_TAKEN] = {HP_TO_LAUNCHER, 4, 4},
    [HP_MSG_FAIL] = {HP_TO_LAUNCHER, 5, 4 + 2048},
    [HP_MSG_DONE] = {HP_TO_LAUNCHER, 0, 0},
    [HP_MSG_FLIGHT] = {HP_TO_LAUNCHER, 12, HP_AGENT_MSG_MAX},
    [HP_MSG_LOOKED] = {HP_TO_LAUNCHER, 0, 0},
    [HP_MSG_STOPPED] = {HP_TO_LAUNCHER, 12, 12},
    [HP_MSG_LEASE] = {HP_TO_LAUNCHER, 4, 4},
    [HP_MSG_PONG] = {HP_TO_LAUNCHER, 8, 8},
    [HP_MSG_SERVE] = {HP_TO_SERVER, 1, 4096},
    [HP_MSG_SERVED_RANK] = {HP_TO_SERVER, 16, 16 + 4096},
    [HP_MSG_TABLE] = {HP_TO_SERVER, 16, 16},
    [HP_MSG_SUM_UP] = {HP_TO_SERVER, 4, 4},
    [HP_MSG_LINE] = {HP_FROM_SERVER, 2, 1 + HP_AGENT_MSG_TEXT},
    [HP_MSG_SAID] = {HP_FROM_SERVER, 4, 4},
    [HP_MSG_RING_FAILED] = {HP_FROM_SERVER, sizeof(hoop_error) + 6, sizeof(hoop_error) + 6 + 4096},
    [HP_MSG_KNOCKED] = {HP_FROM_SERVER, 4, 4},
    [HP_MSG_STRANDED] = {HP_FROM_SERVER, 4, 4},
    [HP_MSG_PEER_TIMEOUT] = {HP_FROM_SERVER, 4, 4},
};

void
hp_agent_msg_put(hp_buffer *out, hp_agent_msg_type type, const void *a, size_t na, const void *b, size_t nb)
{
    uint8_t head[HP_AGENT_MSG_HEAD] = {0};
    hp_put32(head, (uint32_t)(na + nb));
    head[4] = (uint8_t)type;
    hp_xbuffer_add(out, head, sizeof(head));
    hp_xbuffer_add(out, a, na);
    hp_xbuffer_add(out, b, nb);
}

void
hp_agent_msg_put32(hp_buffer *out, hp_agent_msg_type type, uint32_t value)
{
    hp_agent_msg_put_words(out, type, &value, 1);
}

void
hp_agent_msg_put_words(hp_buffer *out, hp_agent_msg_type type, const uint32_t *words, size_t n)
{
    uint8_t payload[4 * HP_AGENT_MSG_WORDS];
    for (size_t i = 0; i < n; i++)
        hp_put32(payload + 4 * i, words[i]);
    hp_agent_msg_put(out, type, payload, 4 * n, NULL, 0);
}

int
hp_agent_msg_get(const hp_buffer *in, hp_agent_msg_side side, hp_agent_msg *msg, hoop_error *error)
{
    const uint8_t *head = hp_buffer_first(in);
    if (hp_buffer_size(in) < HP_AGENT_MSG_HEAD)
        return 0;
    uint32_t length = hp_get32(head);
    uint8_t type = head[4];
    int known = type < sizeof(rules) / sizeof(*rules) && rules[type].side == side;
    if (!known || head[5] != 0 || head[6] != 0 || head[7] != 0) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "received data that is not a hooprun message (type %u)", type);
        return -1;
    }
    if (length < rules[type].least || length > rules[type].most) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "received a hooprun message of type %u that claims to have %u bytes", type,
                   length);
        return -1;
    }
    if (hp_buffer_size(in) - HP_AGENT_MSG_HEAD < length)
        return 0;
    *msg = (hp_agent_msg){.type = type, .payload = head + HP_AGENT_MSG_HEAD, .size = length};
    return 1;
}

void
hp_agent_msg_done(hp_buffer *in, const hp_agent_msg *msg)
{
    hp_buffer_drop(in, HP_AGENT_MSG_HEAD + msg->size);
}

/* --- the spec: the launcher's side --- */

static void
put_words(hp_buffer *out, hp_agent_msg_type type, const hp_strings *strings)
{
    for (size_t i = 0; i < strings->count; i++)
        hp_agent_msg_put(out, type, strings->item[i], strlen(strings->item[i]), NULL, 0);
}

static const struct {
    const char *name;
    size_t field;
} agent_options[] = {
#define HP_AGENT_OPTION(field, kind, names, value, help) {#field, offsetof(hp_agent_options, field)},
#include "launch/options.def"
};

enum { AGENT_OPTIONS = sizeof(agent_options) / sizeof(agent_options[0]) };

void
hp_winsize_put(hp_buffer *out, hp_winsize winsize)
{
    hp_agent_msg_put32(out, HP_MSG_WINDOW, (uint32_t)winsize.rows << 16 | winsize.columns);
}

hp_winsize
hp_winsize_take(const hp_agent_msg *msg)
{
    uint32_t both = hp_get32(msg->payload);
    return (hp_winsize){.rows = (uint16_t)(both >> 16), .columns = (uint16_t)both};
}

void
hp_spec_put(hp_buffer *out, const hp_spec *spec)
{
    const uint32_t local[] = {(uint32_t)spec->local_first, (uint32_t)spec->local_size, (uint32_t)spec->host};
    uint8_t required = (uint8_t)spec->dir_required, value[4];
    size_t size = 4 * ((size_t)spec->ranks + 1);
    uint8_t *ranks = hp_xcalloc(size, 1);
    hp_put32(ranks, (uint32_t)spec->world);
    for (int i = 0; i < spec->ranks; i++)
        hp_put32(ranks + 4 * ((size_t)i + 1), (uint32_t)spec->rank[i]);
    put_words(out, HP_MSG_ENV, &spec->variables);
    put_words(out, HP_MSG_ARG, &spec->argv);
    if (spec->dir)
        hp_agent_msg_put(out, HP_MSG_DIR, &required, 1, spec->dir, strlen(spec->dir));
    if (spec->home)
        hp_agent_msg_put(out, HP_MSG_HOME, spec->home, strlen(spec->home), NULL, 0);
    if (spec->prefix)
        hp_agent_msg_put(out, HP_MSG_PREFIX, spec->prefix, strlen(spec->prefix), NULL, 0);
    for (size_t i = 0; i < AGENT_OPTIONS; i++) {
        int number = *(const int *)((const char *)&spec->options + agent_options[i].field);
        hp_put32(value, (uint32_t)number);
        if (number != 0)
            hp_agent_msg_put(out, HP_MSG_OPTION, value, sizeof(value), agent_options[i].name,
                             strlen(agent_options[i].name));
    }
    hp_winsize_put(out, spec->winsize);
    hp_agent_msg_put(out, HP_MSG_RANKS, ranks, size, NULL, 0);
    free(ranks);
    hp_agent_msg_put_words(out, HP_MSG_LOCAL, local, 3);
    hp_agent_msg_put(out, HP_MSG_GO, NULL, 0, NULL, 0);
}

/* --- the spec: the agent's side --- */

static hoop_result
wrong(hoop_error *error, const char *what)
{
    return hp_err_set(error, HOOP_ERR_PROTOCOL, "the launcher sent an invalid spec: %s", what);
}

/* The payload from `skip` on as a string; NULL: it has a NUL. */
static char *
text_of(const hp_agent_msg *msg, size_t skip)
{
    size_t size = msg->size - skip;
    if (size > 0 && memchr(msg->payload + skip, '\0', size))
        return NULL;
    return hp_xstrndup((const char *)msg->payload + skip, size);
}

static hoop_result
take_word(hp_strings *strings, const hp_agent_msg *msg, hoop_error *error)
{
    char *word = text_of(msg, 0);
    const char *equals = word ? strchr(word, '=') : NULL;
    if (!word || (msg->type == HP_MSG_ENV && (!equals || equals == word))) {
        free(word);
        return wrong(error, "a word or a variable is malformed");
    }
    hp_strings_add(strings, word);
    return HOOP_SUCCESS;
}

static hoop_result
take_text(char **text, const hp_agent_msg *msg, size_t skip, hoop_error *error)
{
    if (*text)
        return wrong(error, "a folder is given twice");
    *text = text_of(msg, skip);
    return !*text ? wrong(error, "a folder is malformed") : HOOP_SUCCESS;
}

static hoop_result
take_ranks(hp_spec *spec, const hp_agent_msg *msg, hoop_error *error)
{
    size_t count = msg->size / 4 - 1;
    int64_t last = -1;
    if (spec->rank || msg->size % 4 != 0 || count > HP_SPEC_RANKS)
        return wrong(error, "the list of ranks is malformed");
    if (hp_get32(msg->payload) > INT32_MAX)
        return wrong(error, "the number of ranks is out of range");
    spec->world = (int)hp_get32(msg->payload);
    spec->rank = hp_xcalloc(count, sizeof(*spec->rank));
    for (size_t i = 0; i < count; i++) {
        int64_t rank = hp_get32(msg->payload + 4 * (i + 1));
        if (rank <= last || rank >= spec->world)
            return wrong(error, "a rank is out of range or out of order");
        spec->rank[i] = (int)rank;
        last = rank;
    }
    spec->ranks = (int)count;
    return HOOP_SUCCESS;
}

static hoop_result
take_option(hp_agent_options *options, const hp_agent_msg *msg, hoop_error *error)
{
    for (size_t i = 0; i < AGENT_OPTIONS; i++)
        if (msg->size == 4 + strlen(agent_options[i].name) &&
            memcmp(msg->payload + 4, agent_options[i].name, msg->size - 4) == 0) {
            *(int *)((char *)options + agent_options[i].field) = (int)(hp_get32(msg->payload) & INT32_MAX);
            return HOOP_SUCCESS;
        }
    return wrong(error, "there is no such option");
}

hoop_result
hp_spec_take(hp_spec *spec, const hp_agent_msg *msg, hoop_error *error)
{
    uint64_t first, size;
    spec->bytes += msg->size + sizeof(char *);
    if (spec->complete || spec->bytes > HP_SPEC_BYTES)
        return wrong(error, spec->complete ? "it continues after its end" : "it is too long");
    switch (msg->type) {
    case HP_MSG_ENV: return take_word(&spec->variables, msg, error);
    case HP_MSG_ARG: return take_word(&spec->argv, msg, error);
    case HP_MSG_DIR: spec->dir_required = msg->payload[0] != 0; return take_text(&spec->dir, msg, 1, error);
    case HP_MSG_HOME: return take_text(&spec->home, msg, 0, error);
    case HP_MSG_PREFIX: return take_text(&spec->prefix, msg, 0, error);
    case HP_MSG_WINDOW: spec->winsize = hp_winsize_take(msg); return HOOP_SUCCESS;
    case HP_MSG_OPTION: return take_option(&spec->options, msg, error);
    case HP_MSG_RANKS: return take_ranks(spec, msg, error);
    case HP_MSG_LOCAL:
        first = hp_get32(msg->payload);
        size = hp_get32(msg->payload + 4);
        if (!spec->rank || size > (uint64_t)spec->world || first + (uint64_t)spec->ranks > size)
            return wrong(error, "a local rank is out of range");
        spec->local_first = (int)first;
        spec->local_size = (int)size;
        spec->host = (int)(hp_get32(msg->payload + 8) & INT32_MAX);
        return HOOP_SUCCESS;
    case HP_MSG_GO:
        if (spec->argv.count == 0 || !spec->rank || spec->local_size < spec->ranks ||
            (spec->ranks == 0 && spec->options.max_restarts == 0))
            return wrong(error, "a command or the ranks are missing");
        spec->complete = 1;
        return HOOP_SUCCESS;
    default: return wrong(error, "input arrived before the program");
    }
}

void
hp_spec_free(hp_spec *spec)
{
    hp_strings_free(&spec->argv);
    hp_strings_free(&spec->variables);
    free(spec->dir);
    free(spec->home);
    free(spec->prefix);
    free(spec->rank);
    *spec = (hp_spec){0};
}
