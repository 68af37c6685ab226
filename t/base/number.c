/* SPDX-License-Identifier: MIT */
/* number: a table of texts with what each parser makes of them, and the ends of each range. */
#include "base/number.h"

#include "t/tap/tap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { UNTOUCHED = -77 };

static const struct {
    const char *text;
    int plain, unit; /* whether it is a number, without and with units */
    int64_t value;
} texts[] = {{"0", 1, 1, 0},
             {"7", 1, 1, 7},
             {"-7", 1, 1, -7},
             {"+7", 1, 1, 7},
             {" \t12", 1, 1, 12},
             {"007", 1, 1, 7},
             {"9223372036854775807", 1, 1, INT64_MAX},
             {"-9223372036854775808", 1, 1, INT64_MIN},
             {"9223372036854775808", 0, 0, 0},
             {"-9223372036854775809", 0, 0, 0},
             {"99999999999999999999999", 0, 0, 0},
             {"", 0, 0, 0},
             {" ", 0, 0, 0},
             {"-", 0, 0, 0},
             {"--7", 0, 0, 0},
             {"- 7", 0, 0, 0},
             {"7 ", 1, 1, 7},
             {" 7\r\n", 1, 1, 7},
             {"7 7", 0, 0, 0},
             {"4k ", 0, 1, 4096},
             {"7x", 0, 0, 0},
             {"0x10", 0, 0, 0},
             {"1.5", 0, 0, 0},
             {"1e3", 0, 0, 0},
             {"k", 0, 0, 0},
             {"4k", 0, 1, 4096},
             {"4K", 0, 1, 4096},
             {"-4kB", 0, 1, -4096},
             {"3m", 0, 1, 3 << 20},
             {"3Mb", 0, 1, 3 << 20},
             {"2g", 0, 1, INT64_C(2) << 30},
             {"2GB", 0, 1, INT64_C(2) << 30},
             {"4kBB", 0, 0, 0},
             {"4kk", 0, 0, 0},
             {"4 k", 0, 0, 0},
             {"4b", 0, 0, 0},
             {"8589934591g", 0, 1, INT64_C(8589934591) << 30},
             {"8589934592g", 0, 0, 0},
             {"-8589934592g", 0, 1, INT64_MIN},
             {"-8589934593g", 0, 0, 0}};

static void
a_table(void)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int64_t plain = UNTOUCHED, unit = UNTOUCHED;
        int is_plain = hp_number_parse(texts[i].text, INT64_MIN, INT64_MAX, &plain);
        int is_unit = hp_number_parse_bytes(texts[i].text, INT64_MIN, INT64_MAX, &unit);
        ok(is_plain == texts[i].plain && plain == (is_plain ? texts[i].value : UNTOUCHED) && is_unit == texts[i].unit &&
               unit == (is_unit ? texts[i].value : UNTOUCHED),
           "\"%s\": %d %" PRId64 ", with units %d %" PRId64, texts[i].text, is_plain, plain, is_unit, unit);
    }
}

static void
ranges(void)
{
    int64_t value = UNTOUCHED;
    int number = UNTOUCHED;
    ok(!hp_number_parse("0", 1, 5, &value) && !hp_number_parse("6", 1, 5, &value) && value == UNTOUCHED,
       "a number out of range is refused, and the value is left alone");
    ok(hp_number_parse("1", 1, 5, &value) && value == 1 && hp_number_parse("5", 1, 5, &value) && value == 5,
       "both ends of a range are in it");
    ok(!hp_number_parse_bytes("2k", 0, 2047, &value) && hp_number_parse_bytes("2k", 0, 2048, &value) && value == 2048,
       "a range is compared with the unit applied");
    ok(!hp_number_parse_int("2147483648", INT32_MIN, INT32_MAX, &number) && number == UNTOUCHED &&
           hp_number_parse_int("-2147483648", INT32_MIN, INT32_MAX, &number) && number == INT32_MIN,
       "an int does not overflow");
}

static void
digits(void)
{
    static const char *const none[] = {"", "a", "-1", "+1", " 1", "1 ", "101", "4294967297", "18446744073709551617"};
    int value = UNTOUCHED;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        ok(!hp_number_parse_digits(none[i], strlen(none[i]), 100, &value) && value == UNTOUCHED,
           "\"%s\" is no number up to 100 of digits alone", none[i]);
    ok(hp_number_parse_digits("100x", 3, 100, &value) && value == 100, "a part of a text, up to the greatest");
    ok(hp_number_parse_digits("00000000000000000000012", 23, 100, &value) && value == 12, "with zeros in front");
    ok(hp_number_parse_digits("3", 1, 3, &value) && value == 3 && !hp_number_parse_digits("4", 1, 3, &value),
       "a greatest number below ten");
    ok(hp_number_parse_digits("2147483647", 10, INT32_MAX, &value) && value == INT32_MAX &&
           !hp_number_parse_digits("2147483648", 10, INT32_MAX, &value),
       "the greatest int");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    a_table();
    ranges();
    digits();
    return 0;
}
