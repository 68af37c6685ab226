/* SPDX-License-Identifier: MIT */
/* collection: a signal costs no recorder. */
#include "flight/collection.h"

#include "flight/folder.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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
    tap_limit(60);
    plan_lazy();
    if (!getenv("HOOP_TEST_TMP"))
        skip_all("run it by make check, or by t/tools/run-test");
    test_interrupted();
    return 0;
}
