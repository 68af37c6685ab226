/* SPDX-License-Identifier: MIT */
/* Why the ring failed, where several sentences come: the cause, not what follows from it. */
#include "bin/jury.h"
#include "lib/base/err.h"
#include "t/tap/tap.h"

int
main(void)
{
    hp_jury jury;
    hoop_error late, lost, changed;

    plan(3);
    hp_err_set(&late, HOOP_ERR_TIMEOUT, "rank 2 (b) has not entered operation 1");
    hp_err_set(&lost, HOOP_ERR_PEER_LOST, "rank 1 (a) vanished");
    hp_err_set(&changed, HOOP_ERR_MISMATCH, "rank 1 calls something else");
    hp_jury_open(&jury, 3);
    hp_jury_ring_failed(&jury, &lost);
    is_string(lost.text, jury.ring, "a rank that vanishes is the reason");
    hp_jury_ring_failed(&jury, &late);
    is_string(late.text, jury.ring, "until there is a newer one");
    hp_jury_ring_failed(&jury, &lost);
    is_string(late.text, jury.ring, "who vanishes then does so because of it");
    hp_jury_ring_failed(&jury, &changed);
    hp_jury_close(&jury);
    return 0;
}
