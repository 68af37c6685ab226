# SPDX-License-Identifier: MIT
# training.sh: what the tests of training programs look at, for digits.t and digits_gpu.t: the output of a run, in a file.

# How many epochs two runs share, and the largest relative difference of their losses.
apart()
{
    awk '
        FNR == 1 { run++ }
        $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9.]+$/ { if (run == 1) loss[$1] = $2; else if ($1 in loss) {
            d = loss[$1] - $2; d = (d < 0 ? -d : d) / loss[$1]; if (d > most) most = d; n++ } }
        END { printf "%d %.9f\n", n, most }' "$1" "$2"
}

accuracy() { sed -n 's/^held-out accuracy: \([0-9.]*\) %.*/\1/p' "$1"; }
checksum() { sed -n 's/^parameters: bit-identical on all ranks (ranks [0-9]*, checksum \([0-9a-f]*\))$/\1/p' "$1"; }
