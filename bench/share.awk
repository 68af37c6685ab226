# SPDX-License-Identifier: MIT
# share.awk: two tables of hoop-bench, arrays in host memory, then on the GPU: for each size the GPU's bus bandwidth by
# the host's, as Markdown, and one line that says whether it is 95 % from 4 MiB on.
#     awk -v ranks=N -f share.awk HOST_TABLE GPU_TABLE
FNR == 1 { file++ }
/^#/ || NF < 13 { next }
file == 1 { out_of_place[$1] = $8; in_place[$1] = $12; next }
!($1 in out_of_place) || out_of_place[$1] <= 0 || in_place[$1] <= 0 { next }
{
    first = $8 / out_of_place[$1]
    second = $12 / in_place[$1]
    row[++rows] = sprintf("| %d | %s | %s | %.1f %% | %s | %s | %.1f %% |", $1, out_of_place[$1], $8, 100 * first, \
        in_place[$1], $12, 100 * second)
    if ($1 < 4194304)
        next
    share = first < second ? first : second
    if (!judged++ || share < worst) {
        worst = share
        at = $1
    }
}
END {
    if (rows) {
        print "| size | host, GB/s | GPU, GB/s | share | in place: host | GPU | share |\n|---|---|---|---|---|---|---|"
        for (i = 1; i <= rows; i++)
            print row[i]
        print ""
    }
    if (!judged)
        printf "VERDICT, %d ranks: none, no size from 4 MiB on was measured with both\n", ranks
    else
        printf "VERDICT, %d ranks: from 4 MiB on the GPU's bus bandwidth is at least %.1f %% of the host's (at %d bytes): %s\n", \
            ranks, 100 * worst, at, (worst >= 0.95 ? "the 95 % wanted are reached" : "MISSED, 95 % are wanted")
}
