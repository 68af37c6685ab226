# SPDX-License-Identifier: MIT
# curves: gnuplot's data from compare's sorted lines (see table.awk): one data set a peer, titled with its name, of the lines
# X MICROSECONDS BUSBW, the median of all samples. X is the size for n ranks, or the number of ranks for `size` bytes.
# `passes` is as in table.awk.

function close_point()
{
    if (samples) {
        t = (sample[int((samples + 1) / 2)] + sample[int(samples / 2) + 1]) / 2
        points[peer] = points[peer] (size ? ranks : bytes) " " t * 1e6 " " passes * (ranks - 1) / ranks * bytes / t / 1e9 "\n"
    }
    samples = 0
}

(size ? $2 != size : $1 != n) || $5 == "x" { next }
$1 != ranks || $2 != bytes || $3 != peer {
    close_point()
    ranks = $1
    bytes = $2
    peer = $3
    if (!(peer in points))
        names[++count] = peer
}
$5 == "s" { sample[++samples] = $4 }

END {
    close_point()
    for (i = 1; i <= count; i++)
        printf "\"%s\"\n%s\n\n", names[i], points[names[i]]
}
