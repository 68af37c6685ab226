#!/bin/sh
# SPDX-License-Identifier: MIT
# html.sh MANDOC FOLDER PAGE...: the manual as web pages in FOLDER, with an index.html in the order of man/contents. A
# reference to a name that shares a page leads to that page; one to a page of the system is words without a link.
mandoc=$1 folder=$2
shift 2
source=$(dirname "$0")
mkdir -p "$folder" || exit 1
rm -f "$folder"/*.html
cp "$source/hoop.css" "$folder/hoop.css" || exit 1

# name.section and the page it is on: pages by their own names, then those that share one.
{
    for page; do
        echo "${page##*/} ${page##*/}"
    done
    awk -f "$source/names.awk" "$@" | sed 's/^\([^ ]*\) \([^ ]*\) \(.*\)/\1.\2 \3.\2/'
} >"$folder/names"

for page; do
    "$mandoc" -Thtml -O 'toc,style=hoop.css,man=%N.%S.html' "$page" >"$folder/page" &&
        awk -f "$source/links.awk" "$folder/names" "$folder/page" >"$folder/${page##*/}.html" || exit 1
done

description()
{
    for page; do
        [ "${page##*/}" != "$name" ] || sed -n 's/^\.Nd //p' "$page"
    done
}

entry() { echo "<dt><a href=\"$2.html\">${1%.*}(${1##*.})</a></dt>"; }

{
    cat <<'END'
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>hoop: manual</title>
<link rel="stylesheet" href="hoop.css"></head>
<body>
<h1>hoop: manual</h1>
END
    grep -v '^#' "$source/contents" | while read -r first rest; do
        if [ "$first" = = ]; then
            echo "${open:+</dl>}<h2>$rest</h2><dl>"
            open=1
            continue
        fi
        for name in $first $rest; do
            entry "$name" "$name"
            echo "<dd>$(description "$@")</dd>"
        done
    done
    echo '</dl><h2>All functions</h2><ul class="names">'
    grep '^hoop_.*\.3 ' "$folder/names" | LC_ALL=C sort | while read -r name page; do
        echo "<li><a href=\"$page.html\">${name%.3}</a></li>"
    done
    echo '</ul></body></html>'
} >"$folder/index.html"
rm "$folder/names" "$folder/page"
echo "the manual begins at $folder/index.html"
