/* SPDX-License-Identifier: MIT */
/*
 * frame_check: compares the data frame that arrived with the awaited one. Pure. If two ranks have called different
 * collectives, its error names both calls.
 */
#ifndef HP_FRAME_CHECK_H
#define HP_FRAME_CHECK_H

#include "net/frame.h"

/*
 * `want` and `payload` are what rank `self` has posted; `got` came from rank `peer`. Returns HOOP_SUCCESS, or an
 * error that is filled except for its ranks: HOOP_ERR_MISMATCH (another call), HOOP_ERR_STALE_EPOCH,
 * HOOP_ERR_PROTOCOL.
 */
hoop_result hp_frame_check(const hp_frame *got, const hp_frame *want, uint32_t payload, int self, int peer,
                           hoop_error *error);

#endif
