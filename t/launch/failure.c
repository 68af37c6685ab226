/* SPDX-License-Identifier: MIT */
/* Why the ring failed, where several sentences come: the cause, not what follows from it. */
#include "launch/failure.h"

#include "base/err.h"
#include "t/tap/tap.h"

int
main(void)
{
    hp_failure failure;
    hoop_error late, lost, changed, aborted, broken;
    plan(7);
    hp_err_set(&late, HOOP_ERR_TIMEOUT, "rank 2 (b) has not entered operation 1");
    hp_err_set(&lost, HOOP_ERR_PEER_LOST, "rank 1 (a) vanished");
    hp_err_set(&changed, HOOP_ERR_MISMATCH, "rank 1 calls something else");
    hp_err_set(&aborted, HOOP_ERR_ABORTED, "rank 0 (a) aborted the job: step failed");
    hp_err_set(&broken, HOOP_ERR_SYSTEM, "rank 1 cannot go on");
    hp_failure_open(&failure, 3);
    hp_failure_ring_failed(&failure, &lost);
    is_string(lost.text, failure.ring, "a rank that vanishes is the reason");
    hp_failure_ring_failed(&failure, &late);
    is_string(late.text, failure.ring, "until there is a newer one");
    hp_failure_ring_failed(&failure, &lost);
    is_string(late.text, failure.ring, "who vanishes then does so because of it");
    hp_failure_ring_failed(&failure, &aborted);
    is_string(late.text, failure.ring, "so does who ends the job then");
    hp_failure_ring_failed(&failure, &changed);
    is_string(late.text, failure.ring, "and another communicator's failure");
    hp_failure_close(&failure);
    hp_failure_open(&failure, 3);
    hp_failure_ring_failed(&failure, &aborted);
    hp_failure_ring_failed(&failure, &broken);
    is_string(broken.text, failure.ring, "of others the last one counts");
    hp_failure_ring_failed(&failure, &aborted);
    is_string(broken.text, failure.ring, "but for who ends the job because of it");
    hp_failure_close(&failure);
    return 0;
}
