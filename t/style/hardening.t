#!/bin/sh
# SPDX-License-Identifier: MIT
# What the hardening flags promised is in the files: read-only relocations, bound at start, no executable stack, programs
# that can be loaded anywhere.
. "$abs_top_srcdir/t/tap/tap.sh"
command -v readelf >/dev/null || skip_all 'readelf is not installed (apt-get install binutils)'
plan_lazy
cd "$abs_top_builddir" || bail "no $abs_top_builddir"
for file in .libs/libhoop.so bin/hoop-rendezvous bin/hoop-launch bin/hoop-bench bin/hoop-top; do
    if [ ! -e "$file" ]; then
        skip 1 "no $file in this tree"
        continue
    fi
    segments=$(readelf -W -l "$file")
    dynamic=$(readelf -W -d "$file")
    header=$(readelf -h "$file")
    like 'GNU_RELRO' "$segments" "$file has read-only relocations"
    like 'BIND_NOW|FLAGS.* NOW' "$dynamic" "$file is bound at start"
    like 'GNU_STACK .* RW ' "$segments" "$file has no executable stack"
    like 'Type: +DYN' "$header" "$file can be loaded anywhere"
    nok "$file has no relocations in its text" grep -q TEXTREL <<EOT
$dynamic
EOT
done
done_testing
