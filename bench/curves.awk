# SPDX-License-Identifier: MIT
# curves: gnuplot's data from compare's sorted lines (see table.awk): for n ranks one data set a peer, titled with its
# name, of the lines BYTES MICROSECONDS BUSBW, the median of all samples.

function close_point()
{
    if (samples) {
        t = (sample[int((samples + 1) / 2)] + sample[int(samples / 2) + 1]) / 2
        points[peer] = points[peer] bytes " " t * 1e6 " " 2 * (n - 1) / n * bytes / t / 1e9 "\n"
    }
    samples = 0
}

$1 != n { next }
$2 != bytes || $3 != peer {
    close_point()
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
