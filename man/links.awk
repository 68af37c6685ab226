# SPDX-License-Identifier: MIT
# links.awk: awk -f links.awk NAMES PAGE.html: references to other pages lead where NAMES ("name.section page", a line
# each) says; those to names that are not there lose their link and keep their words.
FNR == NR { page[$1] = $2; next }
{
    line = $0
    out = ""
    while (match(line, /<a class="Xr" href="[^"]*\.html"[^>]*>[^<]*<\/a>/)) {
        link = substr(line, RSTART, RLENGTH)
        out = out substr(line, 1, RSTART - 1)
        line = substr(line, RSTART + RLENGTH)
        name = link
        sub(/^<a class="Xr" href="/, "", name)
        sub(/\.html".*/, "", name)
        words = link
        sub(/^[^>]*>/, "", words)
        sub(/<\/a>$/, "", words)
        if (name in page)
            out = out "<a class=\"Xr\" href=\"" page[name] ".html\">" words "</a>"
        else
            out = out "<span class=\"Xr\">" words "</span>"
    }
    print out line
}
