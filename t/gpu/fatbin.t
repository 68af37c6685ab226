#!/bin/sh
# SPDX-License-Identifier: MIT
# The kernels as nvcc built them: gpu/kernels.fatbin holds machine code for every chip that NVCC_FLAGS ask for, and their
# PTX, and in each chip's code is every kernel that gpu/cuda_launch.c looks for. The container's format is not documented: where
# it is another than the known one, or zstd is not there to unpack the code, that is skipped.
# time limit: 60
. "$abs_top_srcdir/t/tap/tap.sh"
fatbin=$abs_top_builddir/gpu/kernels.fatbin
[ -n "${NVCC:-}" ] || skip_all 'built without nvcc'
[ -e "$fatbin" ] || skip_all "$fatbin is not there"
flags=$(sed -n 's/^NVCC_FLAGS = //p' "$abs_top_builddir/Makefile")
# code=sm_75, code=[sm_75,compute_75], in quotes or not
asked=$(printf '%s\n' "$flags" | grep -o 'code=[^ ]*' | grep -oE '(sm|compute)_[0-9]+' | sort -u)
[ -n "$asked" ] || skip_all "NVCC_FLAGS name no code=: $flags"
plan_lazy

# number OFFSET BYTES
number() { od -A n -t u$2 -j $1 -N $2 "$fatbin" | tr -d ' '; }

# unpack FILE BYTES: of the entry's, if it is one of zstd; otherwise the file is not there afterwards.
unpack()
{
    [ "$(head -c 4 "$1" | tail -c 3)" != ELF ] || return
    mv "$1" "$1.packed"
    head -c $2 "$1.packed" | zstd -dcq >"$1" 2>/dev/null || rm -f "$1"
}

# A head: magic, version and length of the head (16 bits each), length of the rest. Then an entry each: kind (16 bits; 1
# PTX, 2 ELF), at 4 the length of its head, at 8 of the rest, at 16 what of that is
# packed code, at 28 the chip.
[ "$(number 0 4)" = 3126193488 ] || skip_all 'a container of another format'
at=$(number 6 2) found=
end=$((at + $(number 8 8)))
while [ $at -lt $end ]; do
    kind=$(number $at 2) head=$(number $((at + 4)) 4) bytes=$(number $((at + 8)) 8) chip=$(number $((at + 28)) 4)
    case $kind in
    1) found="$found compute_$chip" ;;
    2)
        found="$found sm_$chip"
        tail -c +$((at + head + 1)) "$fatbin" | head -c $bytes >"$tmp/sm_$chip.elf"
        unpack "$tmp/sm_$chip.elf" $(number $((at + 16)) 4)
        ;;
    *) found="$found kind-$kind" ;;
    esac
    at=$((at + head + bytes))
done
missing=
for code in $asked; do
    case " $found " in
    *" $code "*) ;;
    *) missing="$missing $code" ;;
    esac
done
is '' "$missing" "code for what NVCC_FLAGS ask for:$(printf ' %s' $asked)"
case $asked in
*compute_*) like compute_ "$found" '... PTX among it, for chips to come' ;;
*) skip 1 'no PTX was asked for' ;;
esac

# Every name of kernel_name() in gpu/cuda_launch.c, for the types of base/dtype.c.
types=$(sed -n '/ dtype_names\[/,/};/p' "$abs_top_srcdir/base/dtype.c" | grep -o '"[a-z0-9]*"' | tr -d '"')
{
    echo hp_wire hp_scaled hp_stamp hp_gate
    for size in 1 2 4 8; do
        echo hp_copy_$size hp_bits_$size
    done
    for type in $types; do
        case $type in
        float8* | *float16) echo hp_mean_$type ;;
        esac
        case $type in
        float8* | bool) echo hp_any_$type ;;
        *) echo hp_sum_$type hp_prod_$type hp_max_$type hp_min_$type ;;
        esac
    done
} | tr ' ' '\n' | sort >"$tmp/wanted"
is 67 "$(grep -c . "$tmp/wanted")" 'fifteen types, four operations, four types with a mean, bits of four sizes, blocks'

# names CHIP: of the kernels in its code.
names() { readelf -SW "$tmp/$1.elf" 2>/dev/null | grep -o '\.text\.hp_[a-z0-9_]*' | sed 's/^\.text\.//' | sort -u; }

for chip in $(printf '%s\n' $asked | grep '^sm_'); do
    if ! command -v readelf >/dev/null || [ ! -e "$tmp/$chip.elf" ]; then
        skip 1 "$chip: no readelf, or its code is packed in a way that zstd does not know"
    else
        is '' "$(names $chip | comm -23 "$tmp/wanted" - | paste -sd' ')" "$chip: every kernel is there"
    fi
done
done_testing
