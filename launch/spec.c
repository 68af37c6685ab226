/* SPDX-License-Identifier: MIT */
/*
 * spec: the encoder and the strict decoder. Before the agent acts on a spec, every string is checked for NUL bytes,
 * every rank for its range, and the whole for its size.
 */
#include "launch/spec.h"

#include "base/err.h"
#include "base/wire.h"
#include "launch/xalloc.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void
hp_strings_add(hp_strings *strings, char *word)
{
    strings->item = hp_xgrow(strings->item, &strings->room, strings->count + 2, sizeof(*strings->item));
    strings->item[strings->count++] = word;
    strings->item[strings->count] = NULL;
}

void
hp_strings_free(hp_strings *strings)
{
    for (size_t i = 0; i < strings->count; i++)
        free(strings->item[i]);
    free(strings->item);
    *strings = (hp_strings){0};
}

char *
hp_strings_join(char *const *item, size_t most)
{
    hp_buffer line = {0};
    for (size_t i = 0; i < most && item[i]; i++) {
        if (i > 0)
            hp_xbuffer_add(&line, " ", 1);
        hp_xbuffer_add(&line, item[i], strlen(item[i]));
    }
    hp_xbuffer_add(&line, "", 1);
    char *text = hp_xstrdup((const char *)hp_buffer_first(&line));
    hp_buffer_free(&line);
    return text;
}

/* --- the launcher's side --- */

static void
put_words(hp_buffer *out, hp_agent_msg_type type, const hp_strings *strings)
{
    for (size_t i = 0; i < strings->count; i++)
        hp_agent_msg_put(out, type, strings->item[i], strlen(strings->item[i]), NULL, 0);
}

static void
put_ranks(hp_buffer *out, const hp_spec *spec)
{
    uint8_t *payload = hp_xcalloc((size_t)spec->ranks + 1, 4);
    hp_put32(payload, (uint32_t)spec->world);
    for (int i = 0; i < spec->ranks; i++)
        hp_put32(payload + 4 * ((size_t)i + 1), (uint32_t)spec->rank[i]);
    hp_agent_msg_put(out, HP_MSG_RANKS, payload, 4 * ((size_t)spec->ranks + 1), NULL, 0);
    free(payload);
}

static const struct {
    const char *name;
    size_t field;
} agent_options[] = {
#define HP_AGENT_OPTION(field, kind, names, value, help) {#field, offsetof(hp_agent_options, field)},
#include "launch/options.def"
};

enum { AGENT_OPTIONS = sizeof(agent_options) / sizeof(agent_options[0]) };

/* The options that are not 0. */
static void
put_options(hp_buffer *out, const hp_agent_options *options)
{
    uint8_t value[4];
    for (size_t i = 0; i < AGENT_OPTIONS; i++) {
        const int *field = (const int *)((const char *)options + agent_options[i].field);
        hp_put32(value, (uint32_t)*field);
        if (*field != 0)
            hp_agent_msg_put(out, HP_MSG_OPTION, value, sizeof(value), agent_options[i].name,
                             strlen(agent_options[i].name));
    }
}

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
    const uint32_t local[] = {(uint32_t)spec->local_first, (uint32_t)spec->local_size};
    uint8_t required = (uint8_t)spec->dir_required;
    put_words(out, HP_MSG_ENV, &spec->variables);
    put_words(out, HP_MSG_ARG, &spec->argv);
    if (spec->dir)
        hp_agent_msg_put(out, HP_MSG_DIR, &required, 1, spec->dir, strlen(spec->dir));
    if (spec->home)
        hp_agent_msg_put(out, HP_MSG_HOME, spec->home, strlen(spec->home), NULL, 0);
    if (spec->prefix)
        hp_agent_msg_put(out, HP_MSG_PREFIX, spec->prefix, strlen(spec->prefix), NULL, 0);
    put_options(out, &spec->options);
    hp_winsize_put(out, spec->winsize);
    put_ranks(out, spec);
    hp_agent_msg_put_words(out, HP_MSG_LOCAL, local, 2);
    hp_agent_msg_put(out, HP_MSG_GO, NULL, 0, NULL, 0);
}

/* --- the agent's side --- */

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
take_local(hp_spec *spec, const hp_agent_msg *msg, hoop_error *error)
{
    uint64_t first = hp_get32(msg->payload), size = hp_get32(msg->payload + 4);
    if (spec->ranks == 0 || size > (uint64_t)spec->world || first + (uint64_t)spec->ranks > size)
        return wrong(error, "a local rank is out of range");
    spec->local_first = (int)first;
    spec->local_size = (int)size;
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

static hoop_result
take_go(hp_spec *spec, hoop_error *error)
{
    if (spec->argv.count == 0 || spec->ranks == 0 || spec->local_size == 0)
        return wrong(error, "a command or the ranks are missing");
    spec->complete = 1;
    return HOOP_SUCCESS;
}

hoop_result
hp_spec_take(hp_spec *spec, const hp_agent_msg *msg, hoop_error *error)
{
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
    case HP_MSG_LOCAL: return take_local(spec, msg, error);
    case HP_MSG_RANKS: return take_ranks(spec, msg, error);
    case HP_MSG_GO: return take_go(spec, error);
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
