/* SPDX-License-Identifier: MIT */
/* Whether all that a rank that leaves waits for are receives of which nothing has come. */
#include "lib/message_waits.h"
#include "t/tap/tap.h"

static hp_message messages[3];
static hoop_work works[2];

/* Two works: one with two messages, one with one; all are receives that wait. */
static void
begin(void)
{
    for (int i = 0; i < 3; i++)
        messages[i] = (hp_message){.call.kind = HP_SEND, .peer = i};
    works[0] = (hoop_work){.messages = messages, .message_count = 2, .next = &works[1]};
    works[1] = (hoop_work){.messages = messages + 2, .message_count = 1};
}

int
main(void)
{
    plan_lazy();
    is_int(0, hp_message_waits_only_unmatched(NULL), "nothing is left");
    begin();
    is_int(1, hp_message_waits_only_unmatched(works), "receives of which nothing has come");
    messages[1].peer = HOOP_ANY_RANK;
    is_int(1, hp_message_waits_only_unmatched(works), "... one of them from any rank");
    messages[0].done = messages[0].sending = messages[2].done = messages[2].sending = 1;
    is_int(1, hp_message_waits_only_unmatched(works), "... beside messages that are complete");
    messages[1].done = 1;
    is_int(0, hp_message_waits_only_unmatched(works), "all are complete");
    for (int i = 0; i < 3; i++) {
        begin();
        messages[i].number = 1;
        is_int(0, hp_message_waits_only_unmatched(works), "message %d was offered, or comes", i);
        begin();
        messages[i].sending = 1;
        is_int(0, hp_message_waits_only_unmatched(works), "message %d is sent", i);
        begin();
        messages[i].held = 1;
        is_int(0, hp_message_waits_only_unmatched(works), "message %d waits for a stream", i);
        begin();
        messages[i].call.kind = HP_ALLTOALLV;
        is_int(0, hp_message_waits_only_unmatched(works), "message %d belongs to an operation of all ranks", i);
    }
    return tap_failures() != 0;
}
