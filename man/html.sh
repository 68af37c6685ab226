#!/bin/sh
# SPDX-License-Identifier: MIT
# html.sh MANDOC FOLDER PAGE...: the manual as web pages in FOLDER, with an index.html.
mandoc=$1 folder=$2
shift 2
mkdir -p "$folder" || exit 1
for page; do
    "$mandoc" -Thtml -O 'toc,man=%N.%S.html' "$page" >"$folder/${page##*/}.html" || exit 1
done
{
    echo '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>hoop: manual</title><h1>hoop: manual</h1><ul>'
    for page; do
        name=${page##*/}
        sed -n "s|^\\.Nd \\(.*\\)|<li><a href=\"$name.html\">${name%.*}(${name##*.})</a> \\1</li>|p" "$page"
    done
    echo '</ul></html>'
} >"$folder/index.html"
echo "the manual begins at $folder/index.html"
