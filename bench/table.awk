# SPDX-License-Identifier: MIT
# table: Markdown tables from compare's sorted lines, which for every peer of a size come in this order:
#   RANKS BYTES PEER SECONDS m FIRST CPU PEAK_KB WIRE WRONG BEYOND_KB BEFORE_KB OPENING     a round: its median and the rest
#   RANKS BYTES PEER SECONDS s                                                              a sample, ascending
#   RANKS BYTES PEER ROUND x REASON...                                                      a round without a result
# `line` is the link's rate in bytes a second, empty on loopback; `passes` the arrays that a rank sends on long rings. Needs
# words.awk.

# limits move bytes only; shared memory is no TCP; an array in pieces is another task; hoop is hoop; all others are TCP peers.
function class(peer)
{
    if (peer ~ /^hoop:(.*,)?(fused|apart)/)
        return "pieces"
    return peer ~ /^limit_/ ? "limit" : peer ~ /_shm$/ ? "shm" : peer ~ /^hoop/ ? "hoop" : "tcp"
}

function close_peer()
{
    if (peer == "")
        return
    if (!samples) {
        lost = lost sprintf("| %s | no result: %s |\n", peer, reason)
        return
    }
    peers++
    name[peers] = peer
    median[peers] = (sample[int((samples + 1) / 2)] + sample[int(samples / 2) + 1]) / 2
    low[peers] = sample[1]
    high[peers] = sample[samples]
    cpu[peers] = cpu_sum / runs
    taken[peers] = samples
    firsts[peers] = first_sum / runs
    medians[peers] = each (reason == "" ? "" : " / " reason)
    peaks[peers] = peak
    beyonds[peers] = beyond
    befores[peers] = before
    wires[peers] = wire_sum / runs
    wrongs[peers] = wrong
}

function open_peer()
{
    samples = runs = cpu_sum = first_sum = wire_sum = wrong = peak = beyond = before = 0
    each = reason = ""
}

# The peers of one table in the order of their medians.
function order(    i, j, k)
{
    for (i = 1; i <= peers; i++) {
        for (j = i - 1; j >= 1 && median[at[j]] > median[i]; j--)
            at[j + 1] = at[j]
        at[j + 1] = i
    }
}

function ratio(i, other)
{
    return other ? sprintf("%.2f x %s", median[i] / median[other], name[other]) : "-"
}

function close_table(    i, k, best, bus)
{
    close_peer()
    if (!peers && lost == "")
        return
    order()
    split("", best)
    printf "\n### %d ranks, %s\n\n", ranks, in_size(bytes)
    printf "| peer | median | to the fastest | min | max | medians of the rounds | first | busbw GB/s |%s CPU s/op, all ranks | " \
        "peak RSS MiB | beyond the array MiB | before main MiB | wire bytes/op | samples | wrong |\n", line ? " of the line |" : ""
    printf "|---|---|---|---|---|---|---|---|%s---|---|---|---|---|---|---|\n", line ? "---|" : ""
    for (k = 1; k <= peers; k++) {
        i = at[k]
        bus = passes * (ranks - 1) / ranks * bytes / median[i]
        printf "| %s | %s | %.2f | %s | %s | %s | %s | %.3g |%s %.3g | %.0f | %.1f | %.1f | %.3g | %d | %d |\n", name[i],
            in_time(median[i]), median[i] / median[at[1]], in_time(low[i]), in_time(high[i]), medians[i],
            in_time(firsts[i]), bus / 1e9, line ? sprintf(" %.1f %% |", 100 * bus / line) : "", cpu[i],
            peaks[i] / 1024, beyonds[i] / 1024, befores[i] / 1024, wires[i], taken[i], wrongs[i]
        if (!(class(name[i]) in best))
            best[class(name[i])] = i
    }
    printf "%s", lost
    if (best["hoop"])
        summary = summary sprintf("| %d | %s | %s | %s | %s | %s | %s |\n", ranks, in_size(bytes), name[best["hoop"]],
            in_time(median[best["hoop"]]), ratio(best["hoop"], best["tcp"]), ratio(best["hoop"], best["shm"]),
            ratio(best["hoop"], best["limit"]))
}

$1 != ranks || $2 != bytes {
    close_table()
    ranks = $1
    bytes = $2
    peers = 0
    peer = lost = ""
}

$3 != peer {
    close_peer()
    peer = $3
    open_peer()
}

$5 == "m" {
    each = each (runs++ ? " / " : "") in_time($4)
    first_sum += $6
    cpu_sum += $7
    peak = $8 > peak ? $8 : peak
    before = $11 > beyond ? $12 : before
    beyond = $11 > beyond ? $11 : beyond
    wire_sum += $9
    wrong += $10
}

$5 == "x" {
    $1 = $2 = $3 = $4 = $5 = ""
    sub(/^ +/, "")
    reason = reason == "" ? $0 : reason " / " $0
}

$5 == "s" { sample[++samples] = $4 }

END {
    close_table()
    if (summary != "")
        printf "\n### hoop beside the fastest of each kind\n\n| ranks | size | hoop | median | TCP peer | shared memory | limit |\n" \
            "|---|---|---|---|---|---|---|\n%s", summary
}
