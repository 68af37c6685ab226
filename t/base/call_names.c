/* SPDX-License-Identifier: MIT */
/* call_names: each name once, in its place, up to the last there is room for. */
#include "base/call.h"

#include "t/tap/tap.h"

#include <stdio.h>

int
main(void)
{
    static hp_call_names names;
    char name[HP_CALL_NAME_TEXT];
    int right = 1;
    tap_limit(240);
    plan_lazy();
    is_int(1, hp_call_names_add(&names, "gradients"), "the first name is number 1");
    const char *first = hp_call_names_get(&names, 1);
    is_string("gradients", first, "and can be read");
    is_int(2, hp_call_names_add(&names, "loss"), "the second is number 2");
    is_int(1, hp_call_names_add(&names, "gradients"), "a name is kept once");
    for (int i = 3; i <= HP_CALL_NAMES; i++) {
        snprintf(name, sizeof(name), "%031d", i);
        right &= hp_call_names_add(&names, name) == i;
    }
    ok(right, "there is room for %d, of 31 bytes each", HP_CALL_NAMES);
    is_int(0, hp_call_names_add(&names, "one more"), "and for no more");
    is_int(2, hp_call_names_add(&names, "loss"), "those that are there can still be set");
    ok(hp_call_names_get(&names, 1) == first, "none has moved");
    is_string("0000000000000000000000000000064", hp_call_names_get(&names, HP_CALL_NAMES), "the last one is whole");
    ok(!hp_call_names_get(&names, 0) && !hp_call_names_get(&names, HP_CALL_NAMES + 1), "there are no others");
    for (int i = 0; i <= HP_CALL_NAMES; i++)
        right &= hp_call_names_number(&names, hp_call_names_get(&names, i)) == i;
    ok(right, "a name tells its number");
    return tap_failures() != 0;
}
