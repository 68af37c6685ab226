# SPDX-License-Identifier: MIT
# training.sh: what the tests of training programs look at, for digits.t and digits_gpu.t: the output of a run, in a file.

# A long training learns what the accuracy asks for, but not under a sanitizer. A short one shows all else.
short=4
case ${HOOP_TEST_SANITIZE:-no} in
no) long=60 ;;
*) long=$short ;;
esac

# Options of a training that recognises as many digits with a quarter of the batches, and so of the allreduces.
larger='--batch 128 --lr 0.3'

# How many epochs two runs share, and the largest relative difference of their losses.
apart()
{
    awk '
        FNR == 1 { run++ }
        $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9.]+$/ { if (run == 1) loss[$1] = $2; else if ($1 in loss) {
            d = loss[$1] - $2; d = (d < 0 ? -d : d) / loss[$1]; if (d > most) most = d; n++ } }
        END { printf "%d %.9f\n", n, most }' "$1" "$2"
}

# Of a rank 0 that was lost when it had printed its line, and of the next one: the last.
accuracy() { sed -n 's|^held-out accuracy: \([0-9.]*\) %.*|\1|p' "$1" | tail -n 1; }
checksum() { sed -n 's/^parameters: bit-identical on all ranks (ranks [0-9]*, checksum \([0-9a-f]*\))$/\1/p' "$1"; }

# judge RANKS REFERENCE WHOSE ROUNDING EPOCHS: $tmp/RANKS, a run of so many epochs, beside the run in $tmp/REFERENCE, WHOSE.
judge()
{
    epochs=$5
    is "$((epochs + 4))" "$(wc -l <"$tmp/$1")" '... and only rank 0 speaks'
    like "^parameters: bit-identical on all ranks \(ranks $1, checksum [0-9a-f]{16}\)\$" "$(tail -1 "$tmp/$1")" \
        '... all hold the same bits'
    apart=$(apart "$tmp/$2" "$tmp/$1") accuracy=$(accuracy "$tmp/$1")
    diag "$1 ranks: largest relative difference from the loss of $3: ${apart#* }"
    is $epochs "${apart% *}" '... every epoch has a loss'
    ok "... and the curve is that of $3, within float32 rounding" awk "BEGIN { exit !(${apart#* } < $4) }"
    [ $epochs -lt 60 ] ||
        ok "... which recognises 95 % of the held-out digits ($accuracy %)" awk "BEGIN { exit !($accuracy >= 95) }"
}
