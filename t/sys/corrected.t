#!/bin/sh
# SPDX-License-Identifier: MIT
# corrected.t: refusal.t's ranks that correct a refused call in time, which is a second: this runs alone.
exec "$abs_top_builddir/t/sys/refusal.t" corrected
