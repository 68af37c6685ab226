# SPDX-License-Identifier: MIT
# code.awk: code_of(LINE) is a line of C without comments, with every string and character emptied. Read it before another
# awk program (awk -f code.awk -f other.awk FILE...), and call it once for each line, in order: a comment may be open.

FNR == 1 { code_in_comment = 0 }

function code_of(line,    out, end)
{
    out = ""
    while (line != "") {
        if (code_in_comment) {
            end = index(line, "*/")
            if (!end)
                return out
            line = substr(line, end + 2)
            code_in_comment = 0
        } else if (match(line, /^[^"'\/]+/)) {
            out = out substr(line, 1, RLENGTH)
            line = substr(line, RLENGTH + 1)
        } else if (match(line, /^"([^"\\]|\\.)*"/) || match(line, /^'([^'\\]|\\.)*'/)) {
            line = substr(line, RLENGTH + 1)
            out = out "\"\""
        } else if (substr(line, 1, 2) == "/*") {
            line = substr(line, 3)
            code_in_comment = 1
        } else if (substr(line, 1, 2) == "//") {
            return out
        } else {
            out = out substr(line, 1, 1)
            line = substr(line, 2)
        }
    }
    return out
}
