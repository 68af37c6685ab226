/* SPDX-License-Identifier: MIT */
/* message_fits: which frame may come when, and how long it is; see message.h. */
#include "rendezvous/message.h"

enum { JOIN_LEAST = 139, PART_HEAD = 28 };

int
hp_message_fits(int type, int from_server, int where, size_t n)
{
    enum { MEMBER = HP_AT_LINKING | HP_AT_RUNNING | HP_AT_END, RAN = HP_AT_RUNNING | HP_AT_END };
    enum { ANY = HP_JOINING | HP_RECALLED | MEMBER };
    static const struct {
        uint8_t type, from_server, where;
        uint16_t least, most;
    } table[] = {
        {HP_JOIN, 0, HP_BEFORE_JOIN, JOIN_LEAST, HP_CONTROL_MAX},
        {HP_SHRINK, 0, HP_BEFORE_JOIN, JOIN_LEAST, HP_CONTROL_MAX},
        {HP_GROW, 0, HP_BEFORE_JOIN, JOIN_LEAST, HP_CONTROL_MAX},
        {HP_RECALL, 0, ANY, HP_RECALL_BYTES, HP_RECALL_BYTES}, /* the ring may be known by then */
        {HP_ROSTER, 0, ANY, PART_HEAD, HP_CONTROL_MAX},
        {HP_READY, 0, MEMBER | HP_RECALLED, 0, 0},
        {HP_IN_OP, 0, RAN, HP_REPORT_BYTES, HP_REPORT_BYTES},
        {HP_PROGRESS, 0, RAN, HP_REPORT_BYTES, HP_REPORT_BYTES},
        {HP_OUT, 0, RAN, HP_COUNT_BYTES, HP_COUNT_BYTES},
        {HP_ABORT, 0, ANY, 1, HP_ABORT_BYTES},
        {HP_REFUSED, 0, RAN, 5, HP_REFUSAL_BYTES},
        {HP_LOST, 0, MEMBER, HP_LOSS_BYTES, HP_LOSS_BYTES},
        {HP_FOUND, 0, MEMBER, HP_FOUND_BYTES, HP_FOUND_BYTES},
        {HP_UNSTARTED, 0, RAN, HP_UNSTARTED_BYTES - HP_ABORT_BYTES + 1, HP_UNSTARTED_BYTES},
        {HP_NAME, 0, RAN, 0, HP_NAME_TEXT - 1},
        {HP_CALL_NAME, 0, RAN, 2, HP_CALL_NAME_BYTES},
        {HP_CLOCK, 0, RAN, HP_QUESTION_BYTES, HP_QUESTION_BYTES},
        {HP_STATS, 0, RAN, HP_VITALS_BYTES, HP_VITALS_BYTES},
        {HP_WAITING, 0, RAN, HP_WAITING_BYTES, HP_WAITING_BYTES},
        {HP_LEAVE, 0, ANY, HP_COUNT_BYTES, HP_COUNT_BYTES},
        {HP_ROSTER, 1, HP_JOINING, PART_HEAD, HP_CONTROL_MAX},
        {HP_RECALL, 1, HP_JOINING | HP_AT_LINKING | HP_AT_END, 1, 1},
        {HP_GO, 1, HP_AT_LINKING | HP_AT_END, 0, 0},
        {HP_ABORT, 1, HP_JOINING | MEMBER, 1, HP_ABORT_BYTES},
        {HP_REFUSED, 1, HP_JOINING | MEMBER, 1, HP_ABORT_BYTES},
        {HP_CLOCK, 1, RAN, HP_ANSWER_BYTES, HP_ANSWER_BYTES},
        {HP_PING, 1, HP_JOINING | MEMBER, 0, 0},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].type == type && table[i].from_server == from_server && (table[i].where & where))
            return n >= table[i].least && n <= table[i].most;
    return 0;
}
