# SPDX-License-Identifier: MIT
# nccl_best.awk: tables of nccl_bench, all of one type and number of ranks, each behind a line "# NCCL: how it was set",
# and one of gloo_gpu.py, if there is one: for each size NCCL's best median of all settings and Gloo's median, beside the
# median of hoop's medians, as Markdown; then two verdicts: hoop is to be ahead of NCCL's best at every size from 64 KiB
# on, and no slower at 8 bytes.
#     awk -v title='4 ranks, float32' -f nccl_best.awk TABLE...
function median_of(size,    n, i, j, t, list) {
    n = runs[size]
    for (i = 1; i <= n; i++) {
        t = hoop[size, i]
        for (j = i - 1; j >= 1 && list[j] > t; j--)
            list[j + 1] = list[j]
        list[j + 1] = t
    }
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}
function beside(peer, ours) {
    return peer ? sprintf("%.1f | %.2f", peer, peer / ours) : "- | -"
}
function row(size, ours) {
    printf "| %d | %.1f | %s | %s | %s |\n", size, ours, beside(best[size], ours), size in how ? how[size] : "-", \
        beside(gloo[size, dtype], ours)
}
function judge(size, ours) {
    if (!(size in best))
        return
    if (size == 8)
        small = sprintf("at 8 bytes hoop takes %.1f us and NCCL's best %.1f: %s", ours, best[size], \
            ours <= best[size] ? "no worse, as wanted" : "MISSED, no worse is wanted")
    if (size < 65536)
        return
    behind += ours >= best[size]
    if (!judged++ || best[size] / ours < least) {
        least = best[size] / ours
        at = size
    }
}
/^# NCCL: / { set = substr($0, 9); next }
/^#/ || $1 !~ /^[0-9]+$/ { next }
NF == 3 && sub(/^torch\./, "", $2) { gloo[$1, $2] = $3 + 0 }
NF < 5 { next }
{
    dtype = $2
    if (!($1 in runs))
        size[++sizes] = $1
    hoop[$1, ++runs[$1]] = $3 + 0
}
NF >= 9 && (!($1 in best) || $6 + 0 < best[$1]) {
    best[$1] = $6 + 0
    how[$1] = set
    measured = 1
}
END {
    if (sizes) {
        printf "### NCCL's best and Gloo, %s\n\n", title
        print "| size | hoop, us | NCCL's best, us | NCCL/hoop | NCCL is set | Gloo, us | Gloo/hoop |\n|---|---|---|---|---|---|---|"
    }
    for (i = 1; i <= sizes; i++) {
        row(size[i], median_of(size[i]))
        judge(size[i], median_of(size[i]))
    }
    if (sizes)
        print ""
    printf "VERDICT, %s: %s\n", title, !measured ? "none, NCCL was not measured" : !judged ? "none, NCCL was measured at no size from 64 KiB on" : \
        sprintf("from 64 KiB on NCCL's best takes at least %.2f times as long as hoop (at %d bytes): %s", least, at, \
            behind ? "MISSED, hoop is to be ahead at every size and is not at " behind " of " judged : "hoop is ahead at every size, as wanted")
    if (measured)
        printf "VERDICT, %s: %s\n", title, small ? small : "none at 8 bytes, where NCCL was not measured"
}
