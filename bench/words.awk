# SPDX-License-Identifier: MIT
# words: figures as people read them, for the other awk programs here.

function in_time(t)
{
    return t < 1e-3 ? sprintf("%.1f us", t * 1e6) : t < 1 ? sprintf("%.2f ms", t * 1e3) : sprintf("%.3f s", t)
}

function in_size(b)
{
    return b < 1024 ? b " B" : b < 1048576 ? in_digits(b / 1024) " KiB" : in_digits(b / 1048576) " MiB"
}

function in_digits(x)
{
    return x == int(x) ? x "" : sprintf("%.4g", x)
}

# How far x is from the whole, in per cent, with its sign.
function in_percent(x, whole)
{
    return sprintf("%+.1f %%", 100 * (x - whole) / whole)
}
