/* SPDX-License-Identifier: MIT */
/*
 * frame_check: the data frame that came against the one that must come: pure. Ranks that have called different things are
 * told so here, with both calls.
 */
#ifndef HP_FRAME_CHECK_H
#define HP_FRAME_CHECK_H

#include "net/frame.h"

/*
 * `want` and its payload are what rank `self` has posted; `got` came from rank `peer`. HOOP_SUCCESS, or the error,
 * filled but for its ranks: HOOP_ERR_MISMATCH (another call), HOOP_ERR_STALE_EPOCH, HOOP_ERR_PROTOCOL.
 */
hoop_result hp_frame_check(const hp_frame *got, const hp_frame *want, uint32_t payload, int self, int peer,
                           hoop_error *error);

#endif
