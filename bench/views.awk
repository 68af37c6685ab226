# SPDX-License-Identifier: MIT
# views: Markdown tables that look at compare's sorted lines (see table.awk) from one side; the variable `views` names them:
#   growth   time over the number of ranks      steady   how far the single runs are from their median
#   fused    many small arrays against one large one
# Needs words.awk.

# The case that the samples so far belong to is complete.
function close_case(    i, t, off)
{
    if (!samples)
        return
    cases++
    t = (sample[int((samples + 1) / 2)] + sample[int(samples / 2) + 1]) / 2
    ranks[cases] = r
    bytes[cases] = b
    peer[cases] = p
    number[r, b, p] = cases
    median[cases] = t
    low[cases] = sample[1]
    high[cases] = sample[samples]
    taken[cases] = samples
    for (i = 1; i <= samples; i++) {
        off = sample[i] / t - 1
        outside[cases] += off > 0.02 || off < -0.02
    }
    firsts[cases] = first
    openings[cases] = opening
    cpu[cases] = cpu_sum / runs
}

$1 != r || $2 != b || $3 != p {
    close_case()
    r = $1
    b = $2
    p = $3
    samples = runs = cpu_sum = first = opening = 0
}

$5 == "m" {
    runs++
    first = $6 > first ? $6 : first
    cpu_sum += $7
    opening += $13
}

$5 == "s" { sample[++samples] = $4 }

function growth(    i, k, start, seen)
{
    printf "\n### Growth with the number of ranks\n\n"
    printf "| peer | size | ranks | median | to that of the fewest | bytes moved by all, GB/s | CPU s/op, all ranks |\n"
    printf "|---|---|---|---|---|---|---|\n"
    for (i = 1; i <= cases; i++) {
        if ((bytes[i], peer[i]) in seen)
            continue
        seen[bytes[i], peer[i]] = 1
        for (k = start = i; k <= cases; k++)
            if (bytes[k] == bytes[i] && peer[k] == peer[i])
                printf "| %s | %s | %d | %s | %.2f | %.3g | %.3g |\n", peer[k], in_size(bytes[k]), ranks[k], in_time(median[k]),
                    median[k] / median[start], passes * (ranks[k] - 1) * bytes[k] / median[k] / 1e9, cpu[k]
    }
}

function steady(    i)
{
    printf "\n### Steadiness\n\n| ranks | size | peer | runs | median | least | most | runs off by more than 2 %% | "
    printf "slowest first run to the median |\n|---|---|---|---|---|---|---|---|---|\n"
    for (i = 1; i <= cases; i++)
        printf "| %d | %s | %s | %d | %s | %s | %s | %d | %.2f%s |\n", ranks[i], in_size(bytes[i]), peer[i], taken[i],
            in_time(median[i]), in_percent(low[i], median[i]), in_percent(high[i], median[i]), outside[i],
            firsts[i] / median[i], openings[i] ? ", after bring-up" : ""
}

function beside(r, b, p, whole)
{
    if (!((r, b, p) in number))
        return " - | - |"
    return sprintf(" %s | %.2f |", in_time(median[number[r, b, p]]), median[number[r, b, p]] / median[whole])
}

function fused(    i)
{
    printf "\n### Tensors of 4 KiB in a group\n\n| ranks | size in all | tensors | hoop, one array | hoop:fused | to one array | "
    printf "hoop:apart | to one array |\n|---|---|---|---|---|---|---|---|\n"
    for (i = 1; i <= cases; i++)
        if (peer[i] == "hoop")
            printf "| %d | %s | %d | %s |%s%s\n", ranks[i], in_size(bytes[i]), int((bytes[i] + 4095) / 4096),
                in_time(median[i]), beside(ranks[i], bytes[i], "hoop:fused", i), beside(ranks[i], bytes[i], "hoop:apart", i)
}

END {
    close_case()
    if (cases && views ~ /growth/)
        growth()
    if (cases && views ~ /steady/)
        steady()
    if (cases && views ~ /fused/)
        fused()
}
