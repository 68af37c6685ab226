# SPDX-License-Identifier: MIT
# nccl_best.awk: tables of nccl_bench, all of one type and number of ranks, each behind a line "# NCCL: how it was set":
# for each size NCCL's best median of all settings, beside the median of hoop's medians, as Markdown.
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
/^# NCCL: / { set = substr($0, 9); next }
/^#/ || NF < 9 || $1 !~ /^[0-9]+$/ { next }
{
    if (!($1 in runs))
        size[++sizes] = $1
    hoop[$1, ++runs[$1]] = $3 + 0
    if (!($1 in best) || $6 + 0 < best[$1]) {
        best[$1] = $6 + 0
        how[$1] = set
    }
}
END {
    if (!sizes) {
        printf "%s: NCCL was not measured\n", title
        exit
    }
    printf "### NCCL's best, %s\n\n| size | NCCL's best, us | NCCL is set | hoop, us | NCCL/hoop |\n|---|---|---|---|---|\n", title
    for (i = 1; i <= sizes; i++)
        printf "| %d | %.1f | %s | %.1f | %.2f |\n", size[i], best[size[i]], how[size[i]], median_of(size[i]), \
            best[size[i]] / median_of(size[i])
}
