# SPDX-License-Identifier: MIT
# settings.awk: makes hoop_env(7) and hoop.conf(5) from lib/config.def and a template, so that the manual and the parser
# are one table.     awk -v style=env -f settings.awk config.def hoop_env.7.in
#
# A template's line @SETTINGS@ becomes the list of settings: style env with the names of the environment and what each
# means, style conf with keys, types, defaults and ranges alone. Every other line stays as it is.

# The next quoted string or bare word of `row`, which is shortened by it.
function field(    value)
{
    sub(/^[ \t,]*/, "", row)
    if (substr(row, 1, 1) == "\"") {
        match(row, /^"([^"\\]|\\.)*"/)
        value = substr(row, 2, RLENGTH - 2)
        gsub(/\\"/, "\"", value)
    } else {
        match(row, /^[^,)]*/)
        value = substr(row, 1, RLENGTH)
    }
    row = substr(row, RSTART + RLENGTH)
    return value
}

# "65536" -> "65536", but bytes of a round size -> "64 KiB".
function amount(number, type)
{
    if (type != "BYTES" || number == 0 || number % 1024)
        return number
    if (number % 1048576)
        return number / 1024 " KiB"
    return number % 1073741824 ? number / 1048576 " MiB" : number / 1073741824 " GiB"
}

# Prose as mdoc: one sentence a line, page(7) as a cross reference, ^ and ~ as themselves.
function prose(text, words, n, i, page, tail)
{
    gsub(/\^/, "\\(ha", text)
    gsub(/~/, "\\(ti", text)
    n = split(text, words, " ")
    for (i = 1; i <= n; i++) {
        if (match(words[i], /^[a-z][a-z0-9_.-]*\([1-8]\)/)) {
            page = substr(words[i], 1, RLENGTH)
            tail = substr(words[i], RLENGTH + 1)
            printf "%s.Xr %s %s%s\n", open ? "\n" : "", substr(page, 1, length(page) - 3),
                substr(page, length(page) - 1, 1), tail == "" ? "" : " " tail
            open = 0
            continue
        }
        printf "%s%s", open ? " " : "", words[i]
        open = 1
        if (words[i] ~ /[.:]$/ && i < n) {
            printf "\n"
            open = 0
        }
    }
    if (open)
        printf "\n"
    open = 0
}

function range(i)
{
    if (type[i] == "CHOICE")
        return "One of " choices(i)
    if (type[i] == "TEXT")
        return "Text"
    if (type[i] == "NAME")
        return "Text of at most " most[i] " bytes, UTF-8 without control characters"
    if (type[i] == "SECRET")
        return "64 hexadecimal digits, by the program only"
    return (type[i] == "BYTES" ? "Bytes, " : "") amount(least[i], type[i]) " to " amount(most[i], type[i])
}

function choices(i,    words)
{
    words = text[i]
    sub(/:.*/, "", words)
    gsub(/\|/, ", ", words)
    sub(/, [^,]*$/, " or&", words)
    sub(/ or, /, " or ", words)
    return words
}

function shown_default(i)
{
    return value[i] == "" ? "not set" : amount(value[i], type[i])
}

function describe(i,    sentence, first)
{
    sentence = text[i]
    if (type[i] == "CHOICE") {
        sub(/^[^:]*: */, "", sentence)
        first = sentence
        sub(/ .*/, "", first)
        if (index("|" text[i], "|" first "|") == 0 && index("|" text[i], "|" first ":") == 0)
            sentence = toupper(substr(sentence, 1, 1)) substr(sentence, 2)
    }
    prose(sentence)
}

function list(    i)
{
    print style == "env" ? ".Bl -tag -width Ds" : ".Bl -tag -width bootstrap_timeout_ms -compact"
    for (i = 1; i <= settings; i++) {
        if (style == "env")
            print ".It Ev HOOP_" toupper(key[i])
        else
            print ".It Cm " key[i]
        prose(range(i) "; default: " shown_default(i) (agree[i] == 1 ? "; the same on all ranks." : "."))
        if (style == "env")
            describe(i)
    }
    print ".El"
}

FNR == 1 { file++ }

file == 1 && /^HP_SETTING\(/ { row = ""; reading = 1 }
file == 1 && reading {
    row = row $0
    if ($0 !~ /\)[ \t]*$/)
        next
    reading = 0
    sub(/^HP_SETTING\(/, "", row)
    settings++
    key[settings] = field()
    type[settings] = field()
    value[settings] = field()
    least[settings] = field()
    most[settings] = field()
    agree[settings] = field()
    text[settings] = field()
}
file == 1 { next }

$0 == "@SETTINGS@" { list(); next }
{ print }
