# SPDX-License-Identifier: MIT
# show: a line of results, without its samples, as one for the screen.
{
    for (i = 1; i <= NF; i++) {
        at = index($i, "=")
        v[substr($i, 1, at - 1)] = substr($i, at + 1)
    }
    printf "  %10s  median %-9s  first %-9s  %d samples%s\n", in_size(v["bytes"] + 0), in_time(v["median"] + 0), in_time(v["first"] + 0),
        v["n"], (v["wrong"] + 0 ? ", " v["wrong"] " elements WRONG" : "")
}
