/* SPDX-License-Identifier: MIT */
/* ring_names: the names that ranks give their calls, byte for byte, and how many of them the server keeps. */
#include "rendezvous/ring_names.h"

#include "base/err.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
test_call_name(void)
{
    static const uint8_t golden[] = {64, 'l', 0xc3, 0xb6, 's', 's'};
    char longest[] = "thirty-one bytes, no more of it", name[HP_CALL_NAME_TEXT] = "before";
    uint8_t bytes[HP_CALL_NAME_BYTES + 1];
    int number = 0, refused = 1;
    is_uint(sizeof(golden), hp_call_name_put(bytes, 64, "l\xc3\xb6ss"), "CALL_NAME is a number and its text");
    is_blob(golden, bytes, sizeof(golden), "byte for byte");
    ok(hp_call_name_get(&number, name, golden, sizeof(golden)) && number == 64 && strcmp(name, "l\xc3\xb6ss") == 0,
       "and is read back");
    ok(hp_call_name_get(&number, name, bytes, hp_call_name_put(bytes, 1, longest)) && strcmp(name, longest) == 0,
       "31 bytes");
    static const struct {
        const char *text;
        size_t n;
    } wrong[] = {{"\0a", 2}, {"\101a", 2}, {"\1", 1}, {"", 0}, {"\1a\x1b", 3}, {"\1a\0b", 4}, {"\1\xff", 2}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        refused &= !hp_call_name_get(&number, name, (const uint8_t *)wrong[i].text, wrong[i].n);
    memset(bytes, 'n', sizeof(bytes));
    bytes[0] = 1;
    refused &= !hp_call_name_get(&number, name, bytes, sizeof(bytes));
    ok(refused && number == 1 && strcmp(name, longest) == 0,
       "numbers 0 and 65, no text, too much of it and what is no name are refused, and change nothing");
    ok(!hp_message_fits(HP_CALL_NAME, 0, HP_AT_RUNNING, 1) && hp_message_fits(HP_CALL_NAME, 0, HP_AT_RUNNING, 32) &&
           !hp_message_fits(HP_CALL_NAME, 0, HP_AT_RUNNING, 33) &&
           !hp_message_fits(HP_CALL_NAME, 0, HP_AT_LINKING, 2) && !hp_message_fits(HP_CALL_NAME, 1, HP_AT_RUNNING, 2),
       "at most 31 bytes, from a member after GO");
}

/* The number of a call's name is beside the bit that says that it is fused. */
static void
test_call_number(void)
{
    uint8_t bytes[HP_UNSTARTED_BYTES];
    int right = 1;
    for (int i = 0; i <= 2 * HP_CALL_NAMES + 1; i++) {
        hp_call call = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .fused = i & 1, .root = -1, .count = 9};
        hp_report report = {.sequence = 1, .call_name = i >> 1, .call = call}, got;
        hp_unstarted refused = {.sequence = 1, .call_name = i >> 1, .call = call}, again;
        hp_report_put(bytes, &report);
        right &= bytes[HP_REPORT_BYTES - HP_CALL_BYTES + 3] == i && hp_report_get(&got, bytes, HP_REPORT_BYTES) &&
                 got.call_name == i >> 1 && hp_call_equal(&got.call, &call);
        hp_err_set(&refused.cause, HOOP_ERR_ABORTED, "why");
        size_t n = hp_unstarted_put(bytes, &refused);
        right &= bytes[8 + 3] == i && hp_unstarted_get(&again, bytes, n) && again.call_name == i >> 1 &&
                 hp_call_equal(&again.call, &call);
    }
    ok(right, "reports and refused calls have the number of the call's name");
}

/* Each of 9 ranks has 64 names of its own: the ring has room for 255. */
static void
test_many_names(void)
{
    char text[32], wanted[40];
    int named = 0;
    hp_ring_names *names = NULL;
    for (int i = 0; i < 9 * HP_CALL_NAMES; i++) {
        snprintf(text, sizeof(text), "%c%d", i % HP_CALL_NAMES + 1, i);
        if (!hp_ring_names_take(&names, 9, i / HP_CALL_NAMES, (const uint8_t *)text, strlen(text)))
            bail("a name is refused");
    }
    for (int i = 0; i < 9 * HP_CALL_NAMES; i++) {
        hp_call call = {.kind = HP_BARRIER};
        snprintf(wanted, sizeof(wanted), "%d", i);
        hp_ring_names_fill(names, i / HP_CALL_NAMES, i % HP_CALL_NAMES + 1, &call);
        named += call.name && strcmp(call.name, wanted) == 0;
    }
    is_int(255, named, "the first names are kept, the others forgotten");
    free(names);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_call_name();
    test_call_number();
    test_many_names();
    return tap_failures() != 0;
}
