# SPDX-License-Identifier: MIT
# blocks.awk: takes the literal blocks out of a manual page (mdoc) or of README.md, for tests that compile and run them.
#     awk -v folder=DIR -f blocks.awk PAGE
# writes each block to DIR/1, DIR/2 ... and prints "1 MARK", one line for each. The mark is the comment right in front of
# the block, .\" run  or  <!-- run -->; without one it is "none".

function begin(    file)
{
    blocks++
    file = folder "/" blocks
    printf "" >file
    print blocks, mark == "" ? "none" : mark
    inside = 1
    mark = ""
    return file
}

function plain(line)
{
    gsub(/\\\(aq/, "'", line)
    gsub(/\\\(ha/, "^", line)
    gsub(/\\\(ti/, "~", line)
    gsub(/\\\(ga/, "`", line)
    gsub(/\\\(en/, "-", line)
    gsub(/\\-/, "-", line)
    gsub(/\\&/, "", line)
    gsub(/\\e/, "\\", line)
    return line
}

BEGIN { readme = ARGV[1] ~ /\.md$/ }

!readme && /^\.Ed/ { inside = 0; next }
!readme && inside { print plain($0) >file; next }
!readme && /^\.Bd -literal/ { file = begin(); next }
!readme { mark = ""; if (/^\.\\" /) mark = substr($0, 5); next }

/^<!-- .* -->$/ { mark = substr($0, 6, length($0) - 9); inside = 0; next }
/^    / { if (!inside) file = begin(); print substr($0, 5) >file; next }
inside && /^$/ { print "" >file; next }
{ inside = 0 }
/[^ ]/ { mark = "" }
