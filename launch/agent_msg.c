/* SPDX-License-Identifier: MIT */
/*
 * packet: the one table of what may travel between launcher and agent, and the codec driven by it. Does no input or
 * output and keeps nothing.
 */
#include "launch/agent_msg.h"

#include "base/err.h"
#include "base/wire.h"

#include <string.h>

typedef struct rule {
    hp_packet_side side;
    uint32_t least, most;
} rule;

static const rule rules[] = {
    [HP_PK_ENV] = {HP_TO_AGENT, 2, HP_PACKET_MAX},
    [HP_PK_ARG] = {HP_TO_AGENT, 0, HP_PACKET_MAX},
    [HP_PK_DIR] = {HP_TO_AGENT, 2, 1 + 4096},
    [HP_PK_HOME] = {HP_TO_AGENT, 1, 4096},
    [HP_PK_PREFIX] = {HP_TO_AGENT, 1, 4096},
    [HP_PK_OPTION] = {HP_TO_AGENT, 5, 4 + 64},
    [HP_PK_WINDOW] = {HP_TO_AGENT, 4, 4},
    [HP_PK_RANKS] = {HP_TO_AGENT, 8, HP_PACKET_MAX},
    [HP_PK_LOCAL] = {HP_TO_AGENT, 8, 8},
    [HP_PK_GO] = {HP_TO_AGENT, 0, 0},
    [HP_PK_STDIN] = {HP_TO_AGENT, 1, HP_PACKET_TEXT},
    [HP_PK_STDIN_END] = {HP_TO_AGENT, 0, 0},
    [HP_PK_SIGNAL] = {HP_TO_AGENT, 4, 4},
    [HP_PK_STOP] = {HP_TO_AGENT, 4, 4},
    [HP_PK_STARTED] = {HP_TO_LAUNCHER, 8, 8},
    [HP_PK_OUTPUT] = {HP_TO_LAUNCHER, 6, 5 + HP_PACKET_TEXT},
    [HP_PK_EXIT] = {HP_TO_LAUNCHER, 20, 20},
    [HP_PK_TAKEN] = {HP_TO_LAUNCHER, 4, 4},
    [HP_PK_FAIL] = {HP_TO_LAUNCHER, 5, 4 + 2048},
    [HP_PK_DONE] = {HP_TO_LAUNCHER, 0, 0},
};

static int
known(uint8_t type)
{
    return (type >= HP_PK_ENV && type <= HP_PK_STOP) || (type >= HP_PK_STARTED && type <= HP_PK_DONE);
}

void
hp_packet_put(hp_bytes *out, hp_packet_type type, const void *a, size_t na, const void *b, size_t nb)
{
    uint8_t head[HP_PACKET_HEAD] = {0};
    hp_put32(head, (uint32_t)(na + nb));
    head[4] = (uint8_t)type;
    hp_bytes_add(out, head, sizeof(head));
    hp_bytes_add(out, a, na);
    hp_bytes_add(out, b, nb);
}

void
hp_packet_put32(hp_bytes *out, hp_packet_type type, uint32_t value)
{
    uint8_t payload[4];
    hp_put32(payload, value);
    hp_packet_put(out, type, payload, sizeof(payload), NULL, 0);
}

int
hp_packet_get(const hp_bytes *in, hp_packet_side side, hp_packet *packet, hoop_error *error)
{
    const uint8_t *head = hp_bytes_first(in);
    uint32_t length;
    if (hp_bytes_size(in) < HP_PACKET_HEAD)
        return 0;
    length = hp_get32(head);
    if (!known(head[4]) || rules[head[4]].side != side || head[5] != 0 || head[6] != 0 || head[7] != 0) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "bytes came that are no packet of hooprun (type %u)", head[4]);
        return -1;
    }
    if (length < rules[head[4]].least || length > rules[head[4]].most) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "a packet of type %u says it has %u bytes", head[4], length);
        return -1;
    }
    if (hp_bytes_size(in) - HP_PACKET_HEAD < length)
        return 0;
    *packet = (hp_packet){.type = head[4], .payload = head + HP_PACKET_HEAD, .size = length};
    return 1;
}

void
hp_packet_done(hp_bytes *in, const hp_packet *packet)
{
    hp_bytes_drop(in, HP_PACKET_HEAD + packet->size);
}
