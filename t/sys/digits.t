#!/bin/sh
# SPDX-License-Identifier: MIT
# Training on real data: what is learned, that every rank holds the same bits, and that the number of ranks changes
# nothing but rounding.
# time limit: 400
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/sys/training.sh"
bin=$abs_top_builddir/bin digits=$abs_top_builddir/examples/digits
export HOOP_DIGITS="$abs_top_srcdir/examples/digits.csv"
plan_lazy

# train NAME RANKS OPTION...: the output is in $tmp/NAME.
train()
{
    name=$1 n=$2
    shift 2
    "$bin/hooprun" -n "$n" "$digits" "$@" >"$tmp/$name" 2>"$tmp/$name.err"
}

# learn RANKS REFERENCE EPOCHS OPTION...
learn()
{
    ranks=$1 reference=$2 epochs=$3
    shift 3
    ok "$ranks ranks train" train $ranks $ranks --epochs $epochs "$@" || bail "$(tail -1 "$tmp/$ranks.err")"
    judge $ranks $reference 'one rank' 1e-5 $epochs
}
train one 1 --epochs $long $larger || bail "$(tail -1 "$tmp/one.err")"
learn 2 one $long $larger
for ranks in 1 3 4 7; do
    learn $ranks 1 $short
done

is '' "$(awk '$1 ~ /^[0-9]+$/ && NF == 9 && ($4 < -0.1 || $6 < -0.1 || $8 < -0.1 || ($4 + $6 + $8 - 100) ^ 2 > 0.1)' "$tmp/4")" \
    "an epoch's time is computing, waiting for the slowest rank and communicating"
is $short "$(awk '$1 ~ /^[0-9]+$/ && NF == 9' "$tmp/4" | wc -l)" '... in every epoch'

ok 'it runs alone, without a launcher' "$digits" --epochs 1
ok 'batches smaller than the ring' "$bin/hooprun" -n 3 "$digits" --epochs 1 --batch 2 --hidden 5
ok 'a hidden layer of one, a batch of all' "$bin/hooprun" -n 2 "$digits" --epochs 2 --batch 5000 --hidden 1

"$bin/hooprun" -n 2 "$digits" --epochs 2 --overlap >"$tmp/out" 2>"$tmp/err"
is 0 $? 'it measures what is hidden'
like '^overlap: a batch takes [0-9]+ us, waiting for each average at once [0-9]+ us, without communication [0-9]+ us: -?[0-9]+ % of' \
    "$(cat "$tmp/out")" '... and says so'
is "$(sed -n 's/^parameters: //p' "$tmp/out")" "$("$bin/hooprun" -n 2 "$digits" --epochs 2 | sed -n 's/^parameters: //p')" \
    '... which changes nothing that was learned'

# refused PATTERN ARGUMENT...: fails with one line on standard error, said once though two ranks run.
refused()
{
    pattern=$1
    shift
    "$bin/hooprun" -n 2 "$digits" "$@" >"$tmp/out" 2>"$tmp/err"
    is 1 $? "refused: $*"
    like "$pattern" "$(grep '^digits:' "$tmp/err")" '... with a sentence'
    is 1 "$(grep -c '^digits:' "$tmp/err")" '... said once'
}
refused '--help' --epochs 0
refused '--help' --nonsense
refused 'cannot read .*nowhere.csv.*--data.*No such file' --data "$tmp/nowhere.csv"
sed 's/,/;/' "$HOOP_DIGITS" | sed '1!b;s/;/,/' >"$tmp/broken.csv"
refused 'broken.csv, line 2: expected 64 pixels' --data "$tmp/broken.csv"
head -100 "$HOOP_DIGITS" >"$tmp/few.csv"
refused 'too few images' --data "$tmp/few.csv"
ok 'it helps' "$digits" --help
done_testing
