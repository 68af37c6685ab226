/* SPDX-License-Identifier: MIT */
/* hash: the known answers of FNV-1a's authors, and that a hash can be continued. */
#include "base/wire.h"

#include "t/tap/tap.h"

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    ok(hp_hash_text(HP_HASH_START, "") == UINT64_C(0xcbf29ce484222325), "the empty string");
    ok(hp_hash_text(HP_HASH_START, "a") == UINT64_C(0xaf63dc4c8601ec8c), "one letter");
    ok(hp_hash_text(HP_HASH_START, "foobar") == UINT64_C(0x85944171f73967e8), "six letters");
    ok(hp_hash_bytes(HP_HASH_START, "\xff\x00\x00\x01", 4) == UINT64_C(0x6961196491cc682d),
       "bytes are unsigned, and 0 is one of them");
    ok(hp_hash_text(hp_hash_text(HP_HASH_START, "foo"), "bar") == hp_hash_text(HP_HASH_START, "foobar"),
       "in two parts");
    return 0;
}
