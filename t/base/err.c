/* SPDX-License-Identifier: MIT */
/* err: what is filled in, what is reset, what happens at the edges. */
#include "base/err.h"

#include "t/tap/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void
check_set(void)
{
    hoop_error error;
    memset(&error, 0xaa, sizeof(error));
    hp_err_clear(&error);
    ok(error.size == sizeof(error) && error.code == HOOP_SUCCESS && error.rank == -1 && error.reporter == -1 &&
           error.sequence == 0 && error.sys_errno == 0 && error.phase == HOOP_PHASE_NONE && error.flags == 0,
       "clear resets every field");
    is_string("", error.text, "clear leaves no sentence");
    error.rank = 7;
    error.sys_errno = 9;
    errno = EAGAIN;
    is_int(HOOP_ERR_TIMEOUT, hp_err_set(&error, HOOP_ERR_TIMEOUT, "rank %d never %s", 5, "came"),
           "set returns its code");
    is_int(EAGAIN, errno, "set leaves errno alone");
    is_int(HOOP_ERR_TIMEOUT, error.code, "set keeps the code");
    is_string("rank 5 never came", error.text, "set words the sentence");
    ok(error.rank == -1 && error.sys_errno == 0, "set forgets the error before");
    hp_err_set(&error, HOOP_ERR_SYSTEM, "because %s", error.text);
    is_string("because rank 5 never came", error.text, "a sentence may quote the one it replaces");
}

static void
check_sys(void)
{
    hoop_error error;
    char wanted[128];
    errno = EINTR;
    is_int(HOOP_ERR_SYSTEM, hp_err_sys(&error, HOOP_ERR_SYSTEM, ENOENT, "cannot open %s", "hosts"),
           "sys returns its code");
    is_int(EINTR, errno, "sys leaves errno alone");
    is_int(ENOENT, error.sys_errno, "sys keeps the number");
    snprintf(wanted, sizeof(wanted), "cannot open hosts: %s", strerror(ENOENT));
    is_string(wanted, error.text, "sys appends what the number means");
}

static void
check_long(void)
{
    hoop_error error;
    char text[600];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    hp_err_sys(&error, HOOP_ERR_SYSTEM, ENOENT, "%s", text);
    is_uint(sizeof(error.text) - 1, strlen(error.text), "a sentence too long is cut, and ends");
    is_int(HOOP_ERR_SYSTEM, hp_err_set(NULL, HOOP_ERR_SYSTEM, "%s", "nobody listens"), "set to nobody");
    is_int(HOOP_ERR_SYSTEM, hp_err_sys(NULL, HOOP_ERR_SYSTEM, 1, "%s", "nobody listens"), "sys to nobody");
    hp_err_clear(NULL);
}

static void
check_phrases(void)
{
    static const int gap_low = HOOP_ERR_TIMEOUT + 1, gap_high = HOOP_ERR_MISMATCH - 1;
    const char *unknown = hoop_strerror((hoop_result)4711);
    int wrong = 0;
    for (int code = -1; code <= HOOP_ERR_NO_QUORUM + 1; code++) {
        const char *phrase = hoop_strerror((hoop_result)code);
        int known = code >= 0 && code <= HOOP_ERR_NO_QUORUM && (code < gap_low || code > gap_high);
        if (!phrase || *phrase == '\0' || (strcmp(phrase, unknown) == 0) == known) {
            diag("code %d: %s", code, !phrase ? "(null)" : phrase);
            wrong++;
        }
    }
    is_int(0, wrong, "every code has a phrase of its own, others have one in common");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_set();
    check_sys();
    check_long();
    check_phrases();
    return 0;
}
