#!/bin/sh
# SPDX-License-Identifier: MIT
# The end of the interpreter: with works in flight, by an exception, by sys.exit, with a thread that waits, in the child of
# a fork. No program hangs or crashes, and the other ranks hear why.
# time limit: 200
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
plan_lazy
cd "$tmp" || bail 'no scratch folder'

# end_by WAY: exit status in $status, the ranks' lines in $said, all the rest in $errors.
end_by()
{
    ranks 2 ends.py "$1" >said 2>errors
    status=$?
    said=$(sort said) errors=$(cat errors)
}
both='rank 0: ends
rank 1: ends'

end_by in_flight
is "0 $both" "$status $said" 'works in flight, nobody waits'
is '' "$errors" '... and nothing is printed'
end_by status
is 3 "$status" 'sys.exit with a work in flight keeps its status'
end_by missing
is 'rank 1: ends' "$said" 'a rank that never enters what the other has started'
like 'hoop: .*rank 1' "$errors" '... is named when that ends'
HOOP_OP_TIMEOUT_MS=60000 end_by unmatched
like '^rank 0: HOOP_ERR_ABORTED of rank 1: .*leaves, and no rank has matched its recv of 1 x int32 .tag 7. from rank 0' \
    "$said" 'a receive that no rank matches ends, and the other rank is told'
like 'hoop: .*no rank has matched its recv' "$errors" '... and so is the user'
for way in uncaught uncaught_in_with uncaught_in_finally uncaught_in_atexit; do
    end_by $way
    is 1 "$status" "$way: the program fails"
    like "^rank 0: HOOP_ERR_ABORTED of rank 1: .*rank 1 ended with KeyError: 'a key of the program'" "$said" \
        '... and the other rank gets the reason'
    like "^\[?.*KeyError: 'a key of the program'" "$errors" '... beside the usual traceback'
done
end_by handled
is "0 $both" "$status $said" 'an exception that the program has handled'
is '' "$errors" '... ends no ring'
end_by caught
is "0 $both" "$status $said" 'an error that the program catches'
is '' "$errors" '... is not printed at the end'
end_by early
is 'rank 0: HOOP_ERR_PEER_LOST of rank 1' "$said" 'a rank that ends early, without destroying'
end_by daemon
is '0 rank 0: ends' "$status $(echo "$said" | sed -n 1p)" 'a thread waits when the interpreter ends'
end_by fork
is "0 $both" "$status $said" 'children of a fork harm nobody, and may not use what they inherit'
is '' "$errors" '... and nothing is printed'
end_by forked
like '^rank 0: no error$' "$said" 'a process that multiprocessing has forked leaves: what it has sent arrives' || diag "$errors"
like 'rank 0: HOOP_ERR_ABORTED of rank 1: .*rank 1 ended with KeyError' "$said" '... and its exception is told'
end_by interrupt
is "0 $both" "$status $said" 'a wait heeds Ctrl-C, and can be resumed'
end_by interrupted_call
like 'rank 0: ends.*rank 1: HOOP_ERR_ABORTED of rank 0: .*rank 0 was interrupted' "$(echo $said)" \
    'Ctrl-C ends a blocking call, and the other rank is told'
end_by decisions
is "0 $both" "$status $said" 'what a rank that leaves waits for, and what it tells'
done_testing
