#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual in HTML: an index in reading order with sections and every page, no dead link, and a style for code.
. "$abs_top_srcdir/t/tap/tap.sh"
command -v mandoc >/dev/null || skip_all 'mandoc is not installed (apt-get install mandoc)'
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan 11

pages="$(ls man/*.[1-8]) $abs_top_builddir/man/hoop.conf.5 $abs_top_builddir/man/hoop_env.7"
sh man/html.sh mandoc "$tmp/html" $pages >"$tmp/said" 2>&1
is "0 the manual begins at $tmp/html/index.html" "$? $(cat "$tmp/said")" 'it is made, and says where it begins'
contents=$abs_top_srcdir/man/contents
cd "$tmp/html" || bail 'there is no folder'

is "$(sed -n 's/^= //p' "$contents" | tr '\n' ';')All functions;" \
    "$(sed -n 's/.*<h2>\([^<]*\)<\/h2>.*/\1/p' index.html | tr '\n' ';')" 'the index has sections'
is "$(grep -v '^[#=]' "$contents" | tr ' ' '\n')" "$(sed -n 's/^<dt><a href="\([^"]*\)\.html">.*/\1/p' index.html)" \
    '... and the pages in reading order'
is '' "$(grep '<dd></dd>' index.html)" '... each with a line on what it is'
is hoop_comm_create.3.html "$(sed -n 's/^<li><a href="\(.*\)">hoop_comm_split<.*/\1/p' index.html)" \
    '... and every function with the page that it is on'
is '' "$(grep -oE 'href="[^"]*"' *.html | while IFS='"' read -r file link _; do
    file=${file%%:*} page=${link%%#*}
    case $link in
    http*) continue ;;
    '#'*) page=$file ;;
    esac
    [ -e "$page" ] || echo "$file: $link"
    case $link in
    *'#'*) grep -qF "id=\"${link#*#}\"" "$page" || echo "$file: $link" ;;
    esac
done)" 'no link is dead'
like '<a class="Xr" href="hoop_comm_create\.3\.html">hoop_comm_split\(3\)</a>' "$(cat hoop_env.7.html)" \
    'a reference to a function that shares a page leads there'
like '<span class="Xr">ssh\(1\)</span>' "$(cat hooprun.1.html)" 'a page of the system is no link'
is '' "$(grep -L 'href="hoop\.css"' *.html)" 'every page has the style'
like '^pre \{[^}]*background' "$(cat hoop.css)" '... which has one for code'
is '' "$(ls | grep -vE '\.(html|css)$')" 'nothing else is left'
