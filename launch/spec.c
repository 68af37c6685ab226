/* SPDX-License-Identifier: MIT */
/*
 * orders: encoder and strict decoder side by side. Every string is checked for NUL bytes, every rank for its range, the
 * whole for size, before the agent acts on it.
 */
#include "launch/spec.h"

#include "base/err.h"
#include "base/wire.h"
#include "launch/xalloc.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void
hp_words_add(hp_words *words, char *word)
{
    words->word = hp_must_grow(words->word, &words->room, words->count + 2, sizeof(*words->word));
    words->word[words->count++] = word;
    words->word[words->count] = NULL;
}

void
hp_words_free(hp_words *words)
{
    size_t i;
    for (i = 0; i < words->count; i++)
        free(words->word[i]);
    free(words->word);
    *words = (hp_words){0};
}

/* --- the launcher's side --- */

static void
put_words(hp_bytes *out, hp_packet_type type, const hp_words *words)
{
    size_t i;
    for (i = 0; i < words->count; i++)
        hp_packet_put(out, type, words->word[i], strlen(words->word[i]), NULL, 0);
}

static void
put_ranks(hp_bytes *out, const hp_orders *orders)
{
    uint8_t *payload = hp_must_alloc((size_t)orders->ranks + 1, 4);
    int i;
    hp_put32(payload, (uint32_t)orders->world);
    for (i = 0; i < orders->ranks; i++)
        hp_put32(payload + 4 * ((size_t)i + 1), (uint32_t)orders->rank[i]);
    hp_packet_put(out, HP_PK_RANKS, payload, 4 * ((size_t)orders->ranks + 1), NULL, 0);
    free(payload);
}

static void
put_local(hp_bytes *out, const hp_orders *orders)
{
    uint8_t payload[8];
    hp_put32(payload, (uint32_t)orders->local_first);
    hp_put32(payload + 4, (uint32_t)orders->local_size);
    hp_packet_put(out, HP_PK_LOCAL, payload, sizeof(payload), NULL, 0);
}

static const struct {
    const char *name;
    size_t field;
} wishes[] = {
#define HP_AGENT_OPTION(field, kind, names, value, help) {#field, offsetof(hp_wish, field)},
#include "launch/options.def"
};

enum { WISHES = sizeof(wishes) / sizeof(wishes[0]) };

/* Those that are not 0. */
static void
put_wish(hp_bytes *out, const hp_wish *wish)
{
    uint8_t value[4];
    size_t i;
    for (i = 0; i < WISHES; i++) {
        const int *field = (const int *)((const char *)wish + wishes[i].field);
        hp_put32(value, (uint32_t)*field);
        if (*field != 0)
            hp_packet_put(out, HP_PK_OPTION, value, sizeof(value), wishes[i].name, strlen(wishes[i].name));
    }
}

void
hp_window_put(hp_bytes *out, hp_window window)
{
    hp_packet_put32(out, HP_PK_WINDOW, (uint32_t)window.rows << 16 | window.columns);
}

hp_window
hp_window_take(const hp_packet *packet)
{
    uint32_t both = hp_get32(packet->payload);
    return (hp_window){.rows = (uint16_t)(both >> 16), .columns = (uint16_t)both};
}

void
hp_orders_put(hp_bytes *out, const hp_orders *orders)
{
    uint8_t must = (uint8_t)orders->dir_must;
    put_words(out, HP_PK_ENV, &orders->variables);
    put_words(out, HP_PK_ARG, &orders->argv);
    if (orders->dir)
        hp_packet_put(out, HP_PK_DIR, &must, 1, orders->dir, strlen(orders->dir));
    if (orders->home)
        hp_packet_put(out, HP_PK_HOME, orders->home, strlen(orders->home), NULL, 0);
    if (orders->prefix)
        hp_packet_put(out, HP_PK_PREFIX, orders->prefix, strlen(orders->prefix), NULL, 0);
    put_wish(out, &orders->wish);
    hp_window_put(out, orders->window);
    put_ranks(out, orders);
    put_local(out, orders);
    hp_packet_put(out, HP_PK_GO, NULL, 0, NULL, 0);
}

/* --- the agent's side --- */

static hoop_result
wrong(hoop_error *error, const char *what)
{
    return hp_err_set(error, HOOP_ERR_PROTOCOL, "the launcher's orders make no sense: %s", what);
}

/* The payload from `skip` on as a string of its own; NULL when it holds a NUL. */
static char *
text_of(const hp_packet *packet, size_t skip)
{
    size_t size = packet->size - skip;
    if (size > 0 && memchr(packet->payload + skip, '\0', size))
        return NULL;
    return hp_must(strndup((const char *)packet->payload + skip, size));
}

static hoop_result
take_word(hp_words *words, const hp_packet *packet, hoop_error *error)
{
    char *word = text_of(packet, 0);
    const char *equals = word ? strchr(word, '=') : NULL;
    if (!word || (packet->type == HP_PK_ENV && (!equals || equals == word))) {
        free(word);
        return wrong(error, "a word or a variable is malformed");
    }
    hp_words_add(words, word);
    return HOOP_SUCCESS;
}

static hoop_result
take_text(char **text, const hp_packet *packet, size_t skip, hoop_error *error)
{
    if (*text)
        return wrong(error, "a folder is given twice");
    *text = text_of(packet, skip);
    return !*text ? wrong(error, "a folder is malformed") : HOOP_SUCCESS;
}

static hoop_result
take_ranks(hp_orders *orders, const hp_packet *packet, hoop_error *error)
{
    size_t count = packet->size / 4 - 1, i;
    int64_t last = -1;
    if (orders->rank || packet->size % 4 != 0 || count > HP_ORDERS_RANKS)
        return wrong(error, "the list of ranks is malformed");
    if (hp_get32(packet->payload) > INT32_MAX)
        return wrong(error, "the number of ranks is out of range");
    orders->world = (int)hp_get32(packet->payload);
    orders->rank = hp_must_alloc(count, sizeof(*orders->rank));
    for (i = 0; i < count; i++) {
        int64_t rank = hp_get32(packet->payload + 4 * (i + 1));
        if (rank <= last || rank >= orders->world)
            return wrong(error, "a rank is out of range or out of order");
        orders->rank[i] = (int)rank;
        last = rank;
    }
    orders->ranks = (int)count;
    return HOOP_SUCCESS;
}

static hoop_result
take_local(hp_orders *orders, const hp_packet *packet, hoop_error *error)
{
    uint64_t first = hp_get32(packet->payload), size = hp_get32(packet->payload + 4);
    if (orders->ranks == 0 || size > (uint64_t)orders->world || first + (uint64_t)orders->ranks > size)
        return wrong(error, "a local rank is out of range");
    orders->local_first = (int)first;
    orders->local_size = (int)size;
    return HOOP_SUCCESS;
}

static hoop_result
take_wish(hp_wish *wish, const hp_packet *packet, hoop_error *error)
{
    size_t i;
    for (i = 0; i < WISHES; i++)
        if (packet->size == 4 + strlen(wishes[i].name) &&
            memcmp(packet->payload + 4, wishes[i].name, packet->size - 4) == 0) {
            *(int *)((char *)wish + wishes[i].field) = (int)(hp_get32(packet->payload) & INT32_MAX);
            return HOOP_SUCCESS;
        }
    return wrong(error, "there is no such option");
}

static hoop_result
take_go(hp_orders *orders, hoop_error *error)
{
    if (orders->argv.count == 0 || orders->ranks == 0 || orders->local_size == 0)
        return wrong(error, "a command or the ranks are missing");
    orders->complete = 1;
    return HOOP_SUCCESS;
}

hoop_result
hp_orders_take(hp_orders *orders, const hp_packet *packet, hoop_error *error)
{
    orders->bytes += packet->size + sizeof(char *);
    if (orders->complete || orders->bytes > HP_ORDERS_BYTES)
        return wrong(error, orders->complete ? "they go on after their end" : "they are too long");
    switch (packet->type) {
    case HP_PK_ENV: return take_word(&orders->variables, packet, error);
    case HP_PK_ARG: return take_word(&orders->argv, packet, error);
    case HP_PK_DIR: orders->dir_must = packet->payload[0] != 0; return take_text(&orders->dir, packet, 1, error);
    case HP_PK_HOME: return take_text(&orders->home, packet, 0, error);
    case HP_PK_PREFIX: return take_text(&orders->prefix, packet, 0, error);
    case HP_PK_WINDOW: orders->window = hp_window_take(packet); return HOOP_SUCCESS;
    case HP_PK_OPTION: return take_wish(&orders->wish, packet, error);
    case HP_PK_LOCAL: return take_local(orders, packet, error);
    case HP_PK_RANKS: return take_ranks(orders, packet, error);
    case HP_PK_GO: return take_go(orders, error);
    default: return wrong(error, "input comes before there is anything to run");
    }
}

void
hp_orders_free(hp_orders *orders)
{
    hp_words_free(&orders->argv);
    hp_words_free(&orders->variables);
    free(orders->dir);
    free(orders->home);
    free(orders->prefix);
    free(orders->rank);
    *orders = (hp_orders){0};
}
