/* SPDX-License-Identifier: MIT */
/* collection: how long ago something was does not depend on the clock that can be set; a signal costs no recorder. */
#include "flight/collection.h"

#include "flight/folder.h"
#include "flight/ring.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int interruptions; /* of posix_fallocate, still to come */

/* The one that folder.c calls. */
int
posix_fallocate(int fd, off_t offset, off_t n)
{
    if (interruptions-- > 0)
        return EINTR;
    return fallocate(fd, 0, offset, n) == 0 ? 0 : errno;
}

static hp_flight_file file;
static hoop_error error;

static void
make(void)
{
    if (hp_flight_file_make(&file, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
}

/* A recorder of this process, whose clock was an hour ahead, or behind, when it was made. Reads it. */
static double
ago(int64_t ahead)
{
    hp_flight_head head = {.rank = 0, .size = 1};
    hp_flight_collection all = {0};
    make();
    hp_flight_sign(&head);
    head.realtime += (uint64_t)ahead;
    hp_flight_begin(file.words, &head);
    if (hp_flight_add_file(&all, file.path, NULL, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    double seconds = hp_flight_ago(&all.entry[0], head.monotonic - 2 * HP_SEC);
    hp_flight_file_end(&file, 0);
    hp_flight_collection_free(&all);
    return seconds;
}

static void
test_clock_set(void)
{
    static const int64_t hours[] = {0, 1, -1};
    for (int i = 0; i < 3; i++) {
        double seconds = ago(hours[i] * 3600 * (int64_t)HP_SEC);
        ok(seconds >= 2 && seconds < 1000, "a clock set by %d hours: what was 2 s ago was %.1f s ago", (int)hours[i],
           seconds);
    }
}

/* Before a reboot the machine had run for longer than it has now; the process is known to have ended. */
static void
test_reboot(void)
{
    hp_flight_head head = {.rank = 0, .size = 1};
    hp_flight_collection all = {0};
    make();
    hp_flight_sign(&head);
    head.pid = 0;
    head.monotonic += 1000 * HP_SEC;
    head.realtime -= 60 * HP_SEC;
    hp_flight_begin(file.words, &head);
    if (hp_flight_add_file(&all, file.path, NULL, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    double seconds = hp_flight_ago(&all.entry[0], head.monotonic);
    is_int(HP_FLIGHT_ENDED, all.entry[0].state, "a process of before a reboot has ended");
    ok(seconds >= 60 && seconds < 1000, "what it did a minute ago was %.1f s ago", seconds);
    hp_flight_file_end(&file, 0);
    hp_flight_collection_free(&all);
}

static void
test_interrupted(void)
{
    interruptions = 3;
    make();
    is_int(-1, interruptions, "a reservation that a signal interrupts is tried again");
    hp_flight_file_end(&file, 0);
    is_int(-1, access(file.path, F_OK), "and the recorder is gone with its communicator");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    if (!getenv("HOOP_TEST_TMP"))
        skip_all("run it by make check, or by t/tools/run-test");
    test_clock_set();
    test_reboot();
    test_interrupted();
    return 0;
}
