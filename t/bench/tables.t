#!/bin/sh
# SPDX-License-Identifier: MIT
# The tables that bench/compare makes of samples: growth, steadiness, fusion, who is compared with whom. Peers whose figures
# are known stand in for the real ones.
. "$abs_top_srcdir/t/tap/tap.sh"
compare=$abs_top_srcdir/bench/compare
unset HOOP_PREFIX HOOP_BUILD BENCH_CAP
plan_lazy
cd "$tmp" || bail "no $tmp"

# peer NAME FIRST SAMPLES: a peer whose samples of a size take so many times ranks milliseconds.
peer()
{
    cat >"$1" <<END
#!/bin/sh
[ "\$BENCH_RANK" = 0 ] || exit 0
for bytes in \$(echo \$BENCH_SIZES | tr , ' '); do
    awk -v ranks="\$BENCH_RANKS" -v label="\$BENCH_LABEL" -v bytes="\$bytes" -v first="$2" -v list="$3" 'BEGIN {
        n = split(list, s, ",")
        printf "RES peer=%s ranks=%d bytes=%d n=%d first=%.4f median=%.6f cpu=0.5 peak_kb=2048 beyond_kb=1024 before_kb=512 " \
            "wrong=0 wire=9 opening=1 samples=", label, ranks, bytes, n, first * ranks / 1000, s[int((n + 1) / 2)] * ranks / 1000
        for (i = 1; i <= n; i++) printf "%s%.6f", (i > 1 ? "," : ""), s[i] * ranks / 1000
        print ""
    }'
done
END
    chmod +x "$1"
}
peer hoop 13 9.7,9.9,10,10.1,10.5
peer hoop:fused 20 12,12,12
peer hoop:apart 50 40
peer gloo_ring 30 20
peer limit_ring 8 5
peer ompi_shm 8 4

# The cells of a table's rows, with commas in between, without its head.
rows() { awk -v title="### $2" '/^### / { here = $0 == title; n = 0 } here && /^\|/ && ++n > 2 { gsub(/^\| | \|$/, ""); gsub(/ \| /, ","); print }' "$1/table.md"; }

"$compare" -g -p '2 4 8' -r 1 -o grown ./hoop ./gloo_ring >/dev/null 2>err </dev/null
is 0 $? 'growth' || diag "$(cat err)"
is 'gloo_ring,1 MiB,2,40.00 ms,1.00,0.0524,0.5
gloo_ring,1 MiB,4,80.00 ms,2.00,0.0786,0.5
gloo_ring,1 MiB,8,160.00 ms,4.00,0.0918,0.5
hoop,1 MiB,2,20.00 ms,1.00,0.105,0.5
hoop,1 MiB,4,40.00 ms,2.00,0.157,0.5
hoop,1 MiB,8,80.00 ms,4.00,0.184,0.5' "$(rows grown 'Growth with the number of ranks')" 'each peer over the ranks, with the bytes that all move'
if command -v gnuplot >/dev/null; then
    is 'S1048576.png S1048576.svg' "$(echo $(cd grown && ls | grep -E 'png|svg'))" '... and a picture of it'
    like '>1048576 bytes' "$(tr -d '\n' <grown/S1048576.svg | sed 's/allreduce, float32 sum in place, //')" '... for its size'
else
    skip 2 'gnuplot is not installed'
fi
nok '... and no other view' grep -qE '^### (Steadiness|Tensors)' grown/table.md

"$compare" -y -p 2 -o calm ./hoop ./hoop:fused >/dev/null 2>err </dev/null
is '2,64 MiB,hoop,5,20.00 ms,-3.0 %,+5.0 %,2,1.30, after bring-up
2,64 MiB,hoop:fused,3,24.00 ms,+0.0 %,+0.0 %,0,1.67, after bring-up' "$(rows calm Steadiness)" \
    'steadiness: least and most, how many are off, the first after bring-up'
is 'round 1 of 1, 2 ranks, ./hoop' "$(sed -n '1s/ (.*//p' err)" '... by default in one round'

"$compare" -f -p 2 -r 1 -o many ./hoop ./hoop:fused ./hoop:apart >/dev/null 2>err </dev/null
is '2,3.906 MiB,1000,20.00 ms,24.00 ms,1.20,80.00 ms,4.00' "$(rows many 'Tensors of 4 KiB in a group')" \
    'fusion: a thousand tensors against one array'
"$compare" -f -p 2 -r 1 -o few ./hoop ./hoop:fused >/dev/null 2>err </dev/null
is '2,3.906 MiB,1000,20.00 ms,24.00 ms,1.20,-,-' "$(rows few 'Tensors of 4 KiB in a group')" '... of what there is'

"$compare" -p 2 -r 1 -s 1m -o beside ./hoop ./hoop:fused ./gloo_ring ./limit_ring ./ompi_shm >/dev/null 2>err </dev/null
is '2,1 MiB,hoop,20.00 ms,0.50 x gloo_ring,2.50 x ompi_shm,2.00 x limit_ring' \
    "$(rows beside 'hoop beside the fastest of each kind')" 'hoop beside the fastest of each kind'
is 'ompi_shm limit_ring hoop hoop:fused gloo_ring' "$(echo $(rows beside '2 ranks, 1 MiB' | sed 's/,.*//'))" \
    'the fastest stands first'
peer hoop:fused 1 1
"$compare" -p 2 -r 1 -s 1m -o beside ./hoop ./hoop:fused ./gloo_ring >/dev/null 2>err </dev/null
like '^2,1 MiB,hoop,' "$(rows beside 'hoop beside the fastest of each kind')" 'an array in pieces is no competitor of whole ones'
done_testing
