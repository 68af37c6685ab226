/* SPDX-License-Identifier: MIT */
/*
 * report: recorders go through a packed file and come back with the same bytes; the table and the time line have what the
 * recorders have.
 */
#include "flight/report.h"

#include "t/flight/scene.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
test_base64(void)
{
    static const char *const texts[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    int good = 0;
    for (size_t n = 0; n < 7; n++) {
        char out[16];
        uint8_t in[16];
        hp_base64_put(out, (const uint8_t *)"foobar", n);
        good += case_ok(strcmp(out, texts[n]) == 0 && strlen(out) == HP_BASE64_LENGTH(n) &&
                            hp_base64_get(in, n, out, strlen(out)) == (ptrdiff_t)n && memcmp(in, "foobar", n) == 0,
                        "%zu bytes", n);
    }
    is_int(7, good, "base64 has the texts of RFC 4648");
    uint8_t in[4];
    ok(hp_base64_get(in, 4, "Zm9v!", 5) == -1 && hp_base64_get(in, 2, "Zm9v", 4) == -1,
       "other texts, and longer ones, are refused");
}

static void
test_archive(void)
{
    static const hp_flight_story story;
    hp_flight_collection all = {0};
    static hp_flight_word file[HP_FLIGHT_BYTES / 8];
    hp_flight_collection again = {0};
    hoop_error error;
    char path[512];
    hp_flight_head head = {.pid = 9, .rank = 1, .size = 2, .comm = 5, .realtime = 1, .job = "a\"b", .host = "h"};
    hp_flight_begin(file, &head);
    for (uint64_t i = 1; i <= 3; i++)
        hp_flight_put(file, &(hp_flight_record){
                                .number = i, .sequence = i, .call = {.kind = HP_BARRIER, .root = -1}, .left = i < 3});
    for (int i = 0; i < 2; i++)
        if (hp_flight_add(&all, &(hp_flight_reading){(uint8_t *)file, NULL, sizeof(file), HP_FLIGHT_STOPPED, 123},
                          &error) != HOOP_SUCCESS)
            bail("%s", error.text);
    is_uint(HP_FLIGHT_HEAD_BYTES + 3 * HP_FLIGHT_RECORD_BYTES, all.entry[0].n,
            "only the records that were used are kept");
    snprintf(path, sizeof(path), "%s/x.flight.json", getenv("HOOP_TEST_TMP") ? getenv("HOOP_TEST_TMP") : "/tmp");
    FILE *to = fopen(path, "w");
    is_int(0, to ? hp_flight_write_json(to, &all, &story, HP_FLIGHT_PACKED) : -1, "a packed file is written");
    fclose(to);
    is_int(HOOP_SUCCESS, hp_flight_add_archive(&again, path, &error), "and read");
    ok(again.count == 2 && again.entry[1].state == HP_FLIGHT_STOPPED && again.entry[1].looked == 123 &&
           again.entry[1].n == all.entry[1].n && memcmp(again.entry[1].bytes, all.entry[1].bytes, all.entry[1].n) == 0,
       "with the same bytes");
    hp_flight_collection_free(&again);
    to = fopen(path, "w");
    fputs("{\"recorder\":\"stopped 12 Zm9v\"}", to);
    fclose(to);
    is_int(HOOP_ERR_CORRUPT, hp_flight_add_archive(&again, path, &error), "one with other bytes is refused: %s",
           error.text);
    to = fopen(path, "w");
    fputs("{}", to);
    fclose(to);
    is_int(HOOP_ERR_CORRUPT, hp_flight_add_archive(&again, path, &error), "and so is one without any: %s", error.text);
    to = fopen(path, "w");
    fputs("{\"version\":3,\"recorder\":\"stopped 12 Zm9v\"}", to);
    fclose(to);
    is_int(HOOP_ERR_UNSUPPORTED, hp_flight_add_archive(&again, path, &error), "one of another version, too");
    is_string(
        "it has version 3 of the format, and this program knows version 2: use the hoop-top of the same release as "
        "hooprun",
        error.text, "with a sentence");
    unlink(path);
    hp_flight_collection_free(&again);
    hp_flight_collection_free(&all);
}

/* --- the table and the time line --- */

static char printed[4096];

/* What is printed of the scene from this line on. */
static const char *
print_from(const char *line)
{
    FILE *to = fmemopen(printed, sizeof(printed), "w");
    scene_tell();
    hp_flight_print(to, &scene_story);
    fclose(to);
    const char *at = strstr(printed, line);
    return at ? at : printed;
}

#define LINE_HEAD "   operation  first by  last by, later        ended  call\n"

/* Ranks 1 and 2 call the first operation later than 0, and the last one ends it 1.5 s after the first has called it. */
static void
test_time_line(void)
{
    scene_begin();
    for (int rank = 0; rank < 3; rank++)
        scene_call(scene_rank(rank, 3, WORLD), scene_barrier, 32 - 0.25 * rank, 0);
    scene_call(scene_all.entry[1].flight, scene_allreduce(100), 20, 1);
    scene_call(scene_all.entry[2].flight, scene_allreduce(100), 20.125, 0);
    is_string(LINE_HEAD "           1         0        2  500.000 ms 1500.000 ms  barrier\n"
                        "           2         2        1  125.000 ms    1 of 3     allreduce of 100 x float32, sum\n",
              print_from(LINE_HEAD), "the time line has who called first and last, and when all had ended");
    ok(strstr(printed,
              "\n\n  rank  host                  pid  process   operation  its newest\n"
              "     0  node0                1000  running           1  barrier\n"
              "     1  node1                1001  running           2  allreduce of 100 x float32, sum, not ended\n"
              "     2  node2                1002  running           2  allreduce of 100 x float32, sum\n\n"),
       "and the table where each rank is");
}

/* Rank 1 is still in the third of 20 operations. */
static void
test_older_stuck(void)
{
    scene_begin();
    for (int rank = 0; rank < 2; rank++) {
        hp_flight *f = scene_rank(rank, 2, WORLD);
        for (int i = 0; i < 20; i++)
            scene_call(f, scene_barrier, 40 - i, rank == 1 && i == 2);
    }
    const char *line = print_from(LINE_HEAD);
    ok(strstr(line, LINE_HEAD "           3         0        0    0.000 ms    1 of 2     barrier\n         ...\n"
                              "           9         0        0    0.000 ms 1000.000 ms  barrier\n"),
       "an older operation in which a rank is stuck is shown before the newest ones");
    ok(strstr(line, "\n          20 "), "up to the last one");
    ok(!strstr(line, "\n           8 "), "and no other");
    scene_all.entry[1].flight->record[2].left = SCENE_NOW;
    ok(!strstr(print_from(LINE_HEAD), "..."), "one that has ended is not shown");
    scene_all.entry[1].flight->record[8].left = 0;
    ok(!strstr(print_from(LINE_HEAD), "..."), "and one of the newest ones only once");
}

/* What no rank writes, but a damaged file may have: an operation with the highest number that there is. */
static void
test_highest_number(void)
{
    scene_begin();
    scene_call(scene_rank(0, 2, WORLD), scene_barrier, 30, 0)->sequence = UINT64_MAX;
    ok(strstr(print_from(LINE_HEAD), "\n  18446744073709551615 "), "the highest number ends the time line");
}

static void
test_other_jobs(void)
{
    scene_begin();
    scene_call(scene_rank(0, 2, WORLD), scene_barrier, 30, 0);
    ok(!strstr(print_from("job "), "other job"), "one job is not named");
    scene_call(scene_process(7, 0, 2, OTHER), scene_barrier, 30, 0);
    scene_all.entry[1].state = HP_FLIGHT_ENDED;
    print_from("job ");
    ok(strstr(printed,
              "\njob train; recorders of 1 other job are here, too: --job or the names of the files choose one\n"),
       "with another one that has ended it is, and what chooses that");
}

/* Who is late is in the JSON, also one that is not in the communicator of the sentence. */
static void
test_json(void)
{
    static char json[400000];
    scene_begin();
    scene_call(scene_rank(0, 2, WORLD), scene_barrier, 30, 1);
    scene_rank(1, 2, WORLD);
    scene_call(scene_process(1, 0, 2, OTHER), scene_barrier, 30, 1);
    scene_process(4, 1, 2, OTHER);
    scene_tell();
    FILE *to = fmemopen(json, sizeof(json), "w");
    int status = hp_flight_write_json(to, &scene_all, &scene_story, HP_FLIGHT_DECODED);
    fclose(to);
    is_int(0, status, "JSON for programs is written");
    ok(strstr(json, "{\"version\":2,\"sentence\":\"rank 0 waits in ") == json, "it begins with version and sentence");
    ok(strstr(json, "\",\"job\":\"train\",\"communicator\":\"000000000000004d\",\"name\":null,\"late_rank\":-1,"
                    "\"late_host\":\"node4\",\"late_pid\":1004,\"first_difference\":0,\"recorders\":["),
       "and then the communicator, and who is late");
    scene_begin();
    scene_tell();
    to = fmemopen(json, sizeof(json), "w");
    hp_flight_write_json(to, &scene_all, &scene_story, HP_FLIGHT_DECODED);
    fclose(to);
    is_string("{\"version\":2,\"sentence\":\"there is no recorder\",\"job\":null,\"communicator\":null,\"name\":null,"
              "\"late_rank\":-1,\"late_host\":null,\"late_pid\":null,\"first_difference\":0,\"recorders\":[]}\n",
              json, "without recorders all members are there, too");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    test_base64();
    test_archive();
    test_time_line();
    test_older_stuck();
    test_highest_number();
    test_other_jobs();
    test_json();
    scene_begin();
    return 0;
}
