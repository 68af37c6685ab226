/* SPDX-License-Identifier: MIT */
/* agent_msg: one table of all messages, and the codec that it drives. */
#include "launch/agent_msg.h"

#include "base/err.h"
#include "base/wire.h"
#include "launch/xalloc.h"

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
    [HP_MSG_RANKS] = {HP_TO_AGENT, 8, HP_AGENT_MSG_MAX},
    [HP_MSG_LOCAL] = {HP_TO_AGENT, 8, 8},
    [HP_MSG_GO] = {HP_TO_AGENT, 0, 0},
    [HP_MSG_STDIN] = {HP_TO_AGENT, 1, HP_AGENT_MSG_TEXT},
    [HP_MSG_STDIN_END] = {HP_TO_AGENT, 0, 0},
    [HP_MSG_SIGNAL] = {HP_TO_AGENT, 4, 4},
    [HP_MSG_STOP] = {HP_TO_AGENT, 4, 4},
    [HP_MSG_LOOK] = {HP_TO_AGENT, 0, 0},
    [HP_MSG_PING] = {HP_TO_AGENT, 8, 8},
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
    int known = (type >= HP_MSG_ENV && type <= HP_MSG_PING) || (type >= HP_MSG_STARTED && type <= HP_MSG_PONG);
    if (!known || rules[type].side != side || head[5] != 0 || head[6] != 0 || head[7] != 0) {
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
