/* SPDX-License-Identifier: MIT */
/*
 * Links with an owner, which posts a receive when its frame comes: every cut of a read at every byte, frames that the
 * owner refuses, and the credits that go back.
 */
#include "base/err.h"
#include "base/wire.h"
#include "t/net/rig.h"
#include "t/tap/tap.h"

#include <string.h>

enum { FRAMES = 5, LONG = 300000 };

static const uint32_t sizes[FRAMES] = {0, 23, 3000, LONG, 1};
static uint8_t from[LONG], to[FRAMES][LONG];

static struct {
    rig *r;
    int heads, refuse_at;
    uint64_t credits, last;
} seen;

static hoop_result
on_head(void *arg, const hp_frame *frame, hoop_error *error)
{
    int i = seen.heads++;
    if (i == seen.refuse_at || i >= FRAMES || hp_frame_payload(frame) != sizes[i])
        return hp_err_set(error, HOOP_ERR_MISMATCH, "the owner refuses frame %d", i);
    hp_link_post(seen.r->in, frame, to[i], sizes[i]);
    return HOOP_SUCCESS;
}

static hoop_result
on_credit(void *arg, const uint8_t payload[HP_CREDIT_BYTES], hoop_error *error)
{
    seen.credits++;
    if (hp_get64(payload) < seen.last)
        return hp_err_set(error, HOOP_ERR_PROTOCOL, "the owner refuses a credit");
    seen.last = hp_get64(payload);
    return HOOP_SUCCESS;
}

static const hp_link_owner owner = {.head = on_head, .credit = on_credit};

static void
begin(rig *r, int refuse_at)
{
    memset(&seen, 0, sizeof(seen));
    memset(to, 0, sizeof(to));
    seen.r = r;
    seen.refuse_at = refuse_at;
    rig_owner = &owner;
    rig_open(r, 1);
}

static void
send_all(rig *r, uint16_t flags)
{
    for (uint32_t i = 0; i < FRAMES; i++) {
        hp_frame frame = rig_frame(i + 1, 1, flags);
        hp_link_post(r->out, &frame, from, sizes[i]);
    }
}

static int
all_came(rig *r)
{
    int right = rig_until_done(r, r->in, FRAMES) && seen.heads == FRAMES;
    for (int i = 0; i < FRAMES && right; i++)
        right = memcmp(from, to[i], sizes[i]) == 0;
    return right;
}

static void
cuts(void)
{
    int good = 0, n = HP_DATA_HEAD_CALL + 30;
    for (int cut = 0; cut < n; cut++) {
        rig r;
        begin(&r, -1);
        rig_receiving = (rig_limit){.first = (size_t)cut, .others = (size_t)(1 + cut), .calls = 40};
        send_all(&r, HP_FRAME_CALL | HP_FRAME_PAYLOAD_CRC);
        good += case_ok(all_came(&r), "reads cut at byte %d", cut);
        rig_close(&r);
    }
    is_int(n, good, "frames without a post come to where the owner puts them, whatever a read brings");
}

static void
refusals(void)
{
    rig r;
    begin(&r, 2);
    send_all(&r, HP_FRAME_CALL);
    ok(rig_until_state(&r, r.in, HP_LINK_FAULT) && r.in->done == 2 && r.in->error.code == HOOP_ERR_MISMATCH &&
           r.in->error.rank == 0 && r.in->error.reporter == 1,
       "a frame that the owner refuses ends the link: %s", r.in->error.text);
    is_uint(HP_NO_OPERATION, r.in->error.sequence, "and its number is no operation's");
    rig_close(&r);
}

static void
credits(void)
{
    rig r;
    uint8_t payload[HP_CREDIT_BYTES] = {0};
    int sent = 0;
    begin(&r, -1);
    for (uint64_t i = 1; i <= 1000; i++) {
        hp_put64(payload, i);
        while (!hp_link_send_credit(r.in, payload) && sent < 100000) {
            rig_turn(&r);
            sent++;
        }
        if (i % 7 == 0)
            rig_turn(&r);
    }
    rig_settle(&r);
    ok(seen.credits == 1000 && seen.last == 1000, "credits come to the sender's owner, all and in order");
    hp_put64(payload, 3);
    hp_link_send_credit(r.in, payload);
    ok(rig_until_state(&r, r.out, HP_LINK_FAULT) && strstr(r.out->error.text, "refuses a credit"),
       "one that it refuses ends the link");
    rig_close(&r);
    rig_owner = NULL;
    rig_open(&r, 1);
    hp_link_send_credit(r.in, payload);
    ok(rig_until_state(&r, r.out, HP_LINK_FAULT) && r.out->error.code == HOOP_ERR_PROTOCOL,
       "a link of the belt takes no credit: %s", r.out->error.text);
    rig_close(&r);
}

int
main(void)
{
    plan(6);
    tap_limit(240);
    for (int i = 0; i < LONG; i++)
        from[i] = (uint8_t)((uint32_t)i * 2654435761U >> 11);
    cuts();
    refusals();
    credits();
    return 0;
}
