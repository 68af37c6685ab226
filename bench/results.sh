# SPDX-License-Identifier: MIT
# results: what compare makes of the peers' lines: one on the screen as each comes, tables and pictures at the end. Read by
# compare. $scratch/raw has the lines, $scratch/failed for every size that a peer did not give a line
# RANKS BYTES PEER ROUND x REASON...

machine()
{
    echo "$(date -u +%F), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), kernel $(uname -r)," \
        "congestion control ${congestion:-$(cat /proc/sys/net/ipv4/tcp_congestion_control)}${network:+, namespaces x ranks: $map, at $rate}"
}

# Keeps the results among the lines that a peer prints, and shows each on the screen.
take_lines()
{
    : >"$scratch/lines"
    while IFS= read -r line; do
        case $line in
        *'RES peer='*) ;;
        *) continue ;;
        esac
        echo "RES peer=${line#*RES peer=}" | tee -a "$scratch/lines" >>"$scratch/raw"
        echo "${line%% samples=*}" | awk -f "$here/words.awk" -f "$here/show.awk" >&2
    done
}

# Notes the sizes without a line of peer $1 in this round: $2 says why.
note_failures()
{
    for size in $(echo "$bytes" | tr , ' '); do
        grep -q " bytes=$size " "$scratch/lines" || echo "$n $size $(label "$1") $round x $2" >>"$scratch/failed"
    done
}

# An allreduce brings the array past each rank twice, the others once.
passes=1 adds=' sum'
case $collective in
allreduce) passes=2 ;;
allgather) adds= ;;
esac

# Text in gnuplot's single quotes.
quoted()
{
    printf "'%s'" "$(echo "$1" | sed "s/'/''/g")"
}

# $1: the picture's name; $2: what is the same for all its points; $3: what is not; $4: for curves.awk. A picture of two:
# time and bus bandwidth, every peer a curve.
draw_one()
{
    awk -v "$4" -v passes=$passes -f "$here/curves.awk" "$scratch/sorted" >"$scratch/curves"
    [ -s "$scratch/curves" ] || return 0
    for kind in png svg; do
        gnuplot -e "kind = '$kind'; picture = $(quoted "$out/$1.$kind"); curves = $(quoted "$scratch/curves")" \
            -e "sets = $(grep -c '^"' "$scratch/curves"); what = '$2'; over = '$3'; collective = '$collective, float32$adds'; machine = $(quoted "$(machine)")" \
            "$here/curves.gp" 2>>"$scratch/errors" || echo 'compare: gnuplot failed; see errors.txt' >&2
    done
}

# Over the size for each number of ranks; for -g over the ranks for each size. Of a single point there is no picture.
draw()
{
    rm -f "$out"/[PS][0-9]*.png "$out"/[PS][0-9]*.svg # of a former run
    command -v gnuplot >/dev/null || { echo 'compare: gnuplot is not installed, no pictures' >&2; return; }
    case $bytes in
    *,*) for n in $ranks; do draw_one "P$n" "$n ranks" size "n=$n"; done ;;
    esac
    case $views in
    *growth*) for size in $(echo "$bytes" | tr , ' '); do draw_one "S$size" "$size bytes" ranks "size=$size"; done ;;
    esac
}

# A line of raw becomes one line a sample, RANKS BYTES PEER SECONDS s, and one of the round, m (see table.awk).
sort_lines()
{
    awk '{ split("", v)
        for (i = 1; i <= NF; i++) { at = index($i, "="); v[substr($i, 1, at - 1)] = substr($i, at + 1) }
        count = split(v["samples"], s, ",")
        for (i = 1; i <= count; i++) print v["ranks"], v["bytes"], v["peer"], s[i], "s"
        print v["ranks"], v["bytes"], v["peer"], v["median"], "m", v["first"], v["cpu"], v["peak_kb"], v["wire"], v["wrong"],
            v["beyond_kb"], v["before_kb"], v["opening"]
    }' "$scratch/raw" | cat - "$scratch/failed" | LC_ALL=C sort -k1,1n -k2,2n -k3,3 -k5,5 -k4,4g >"$scratch/sorted"
}

# $1: a sentence to stand above the tables, or nothing.
write_results()
{
    sort_lines
    {
        machine
        [ -z "$1" ] || printf '\n**%s**\n' "$1"
        awk -v line="$(line_rate)" -v passes=$passes -f "$here/words.awk" -f "$here/table.awk" "$scratch/sorted"
        [ -z "$views" ] || awk -v views="$views" -v passes=$passes -f "$here/words.awk" -f "$here/views.awk" "$scratch/sorted"
    } >"$out/table.md"
    cp "$scratch/raw" "$out/raw.txt"
    cp "$scratch/errors" "$out/errors.txt"
    draw
    cp "$scratch/errors" "$out/errors.txt"
}
