# SPDX-License-Identifier: MIT
# names.awk: the further names of manual pages, one a line as "name section page": those of the NAME section that are not
# the page's own. make install makes each of them a page that reads the other, so that man hoop_barrier finds it.
FNR == 1 {
    page = FILENAME
    sub(/.*\//, "", page)
    section = page
    sub(/.*\./, "", section)
    sub(/\.[^.]*$/, "", page)
}
/^\.Sh / { inside = $2 == "NAME" }
inside && $1 == ".Nm" && $2 != page { print $2, section, page }
