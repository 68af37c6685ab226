/* SPDX-License-Identifier: MIT */
/* clock: CLOCK_MONOTONIC and nothing else. */
#ifndef HP_CLOCK_H
#define HP_CLOCK_H

#include <stdint.h>

#define HP_MS UINT64_C(1000000)     /* nanoseconds in a millisecond */
#define HP_SEC UINT64_C(1000000000) /* nanoseconds in a second */
#define HP_NEVER UINT64_MAX         /* a deadline that does not come */

uint64_t hp_now(void); /* nanoseconds */

#endif
