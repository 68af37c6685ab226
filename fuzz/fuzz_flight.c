/* SPDX-License-Identifier: MIT */
/*
 * fuzz_flight: the file of a flight recorder that anything may have written, into hp_flight_get. Byte 0 of the input
 * chooses whether the head is corrected first, so that the records are reached, and whether the file is read twice. What
 * is believed is in order and in its place, and its texts are safe to print.
 */
#include "base/text.h"
#include "base/wire.h"
#include "flight/format.h"
#include "fuzz/fuzz.h"

#include <string.h>

const char fuzz_name[] = "flight";

enum { MEND = 1, TWICE = 2 };

static void
mend(uint8_t *bytes)
{
    memcpy(bytes, "hoop-flt", 8);
    hp_put32(bytes + 8, HP_FLIGHT_VERSION);
    hp_put32(bytes + 12, HP_FLIGHT_HEAD_BYTES);
    hp_put32(bytes + 16, HP_FLIGHT_RECORD_BYTES);
    hp_put32(bytes + 20, HP_FLIGHT_RECORDS);
}

static void
check_head(const hp_flight_head *head)
{
    fuzz_check(head->rank >= 0 && head->rank < head->size);
    fuzz_check(hp_text_is_tame(head->host, strlen(head->host), 0) && hp_text_is_tame(head->job, strlen(head->job), 0));
    fuzz_check(hp_text_is_tame(head->name, strlen(head->name), 0) &&
               hp_text_is_tame(head->error, strlen(head->error), 0));
}

static void
check_records(const hp_flight *flight, size_t places)
{
    fuzz_check(flight->count >= 0 && flight->torn >= 0 && (size_t)flight->count + (size_t)flight->torn <= places);
    for (int i = 0; i < flight->count; i++) {
        const char *name = flight->record[i].call.name;
        fuzz_check(!name || (*name && strlen(name) < HP_CALL_NAME_TEXT && hp_text_is_tame(name, strlen(name), 0)));
        fuzz_check((flight->record[i].number - 1) % HP_FLIGHT_RECORDS < places &&
                   (i == 0 || flight->record[i - 1].number < flight->record[i].number));
    }
}

/* The head in the input is short: what follows is there twice, as texts and names of the head and as records. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEAD = 64, RECORDS = 8, NAMES = HP_FLIGHT_HEAD_BYTES - HP_CALL_NAMES * HP_CALL_NAME_TEXT };
    static uint8_t bytes[HP_FLIGHT_HEAD_BYTES + RECORDS * HP_FLIGHT_RECORD_BYTES], later[sizeof(bytes)];
    static hp_flight flight;
    hoop_error error;
    if (size < 1 + HEAD || size - 1 - HEAD > RECORDS * HP_FLIGHT_RECORD_BYTES)
        return 0;
    size_t rest = size - 1 - HEAD, n = HP_FLIGHT_HEAD_BYTES + rest;
    memset(bytes, 0, sizeof(bytes));
    memcpy(bytes, data + 1, HEAD);
    memcpy(bytes + HEAD, data + 1 + HEAD, rest);
    memcpy(bytes + NAMES, data + 1 + HEAD, rest);
    memcpy(bytes + HP_FLIGHT_HEAD_BYTES, data + 1 + HEAD, rest);
    if (data[0] & MEND)
        mend(bytes);
    memcpy(later, bytes, sizeof(later));
    if (n > HP_FLIGHT_HEAD_BYTES)
        later[n - 1 - data[0] % (n - HP_FLIGHT_HEAD_BYTES)] ^= data[0];
    if (hp_flight_get(&flight, bytes, data[0] & TWICE ? later : NULL, n, &error) != HOOP_SUCCESS) {
        fuzz_check(error.code == HOOP_ERR_CORRUPT || error.code == HOOP_ERR_UNSUPPORTED);
        return 0;
    }
    check_head(&flight.head);
    check_records(&flight, rest / HP_FLIGHT_RECORD_BYTES);
    return 0;
}
