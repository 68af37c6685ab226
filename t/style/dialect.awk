# SPDX-License-Identifier: MIT
# dialect.awk: where C sources leave the dialect of the house (HACKING), one line for each place:
#     awk -f code.awk -f dialect.awk FILE...        prints  RULE FILE:LINE: what is there
# The sources are formatted (t/style/format.t): the body of a function begins with a line "{" and ends with a line "}",
# and what belongs to a loop is indented deeper than its "for". t/style/dialect.t says what each rule asks for.

function breach(rule, line, text)
{
    print rule, file ":" line ": " text
}

# --- words and lines ---

function check_line()
{
    if (code ~ /(^|[^A-Za-z0-9_])sizeof[^A-Za-z0-9_(]/)
        breach("sizeof", FNR, $0)
    if (code ~ /[!=]= *NULL([^A-Za-z0-9_]|$)|(^|[^A-Za-z0-9_])NULL *[!=]=/)
        breach("null", FNR, $0)
    if (body && $0 ~ /^[ \t]*$/)
        breach("blank", FNR, "a blank line in the function that begins in line " body)
    if ($0 ~ /^[ \t]*\/\*[ \t]*(--|==|\*)/ && $0 !~ /^\/\* --- [^- ]([^-]|-[^-])*[^- ] --- \*\/$/)
        breach("section", FNR, $0)
}

# --- includes ---
#
# Groups are told apart by blank lines: a file's own header, the project's, the system's. What is included under a
# condition, or after the first line of code, has its reasons and is left alone.

function check_include(    kind, name)
{
    if ($0 ~ /^[ \t]*$/) {
        group_ended = 1
        return
    }
    if ($0 ~ /^#[ \t]*if/)
        depth++
    else if ($0 ~ /^#[ \t]*endif/)
        depth--
    else if ($0 !~ /^#/ && code ~ /[^ \t]/)
        includes_over = 1
    if ($0 !~ /^#[ \t]*include/ || depth > is_header || includes_over)
        return
    kind = index($0, "<") ? 2 : 1
    name = $0
    sub(/^#[ \t]*include[ \t]*["<]/, "", name)
    sub(/[">].*/, "", name)
    check_group(kind, name)
    last_name = name
    last_kind = kind
    group_ended = 0
    included++
}

function check_group(kind, name)
{
    if (!included && own != "" && name != own)
        breach("include", FNR, "the first is not the file's own header, " own)
    else if (included == 1 && own != "" && !group_ended)
        breach("include", FNR, "no blank line after the file's own header")
    else if (included && kind < last_kind)
        breach("include", FNR, "a header of the project after one of the system: " name)
    else if (included && kind > last_kind && !group_ended)
        breach("include", FNR, "no blank line before the system's headers")
    else if (included && kind == last_kind && group_ended && !may_stand_apart())
        breach("include", FNR, "a blank line inside a group, before " name)
    else if (included && kind == last_kind && !group_ended && name <= last_name)
        breach("include", FNR, name " after " last_name)
}

# Behind the first header of all: the file's own, or what a test is about.
function may_stand_apart()
{
    return included == 1 && last_kind == 1 && (own != "" || is_test)
}

# --- names that must be there once ---

function check_names(    name)
{
    if (is_header && code ~ /^#[ \t]*ifndef [A-Z0-9_]+_H_*$/ && !guarded++) {
        name = code
        sub(/.*ifndef /, "", name)
        once("guard", name)
    }
    if (is_product && code ~ /(^|[ \t])(struct|union|enum) [A-Za-z0-9_]+ *\{/) {
        name = code
        sub(/ *\{.*/, "", name)
        sub(/.* /, "", name)
        once("tag", name)
    }
}

function once(rule, name)
{
    if ((rule, name) in place_of)
        breach(rule, FNR, name " is also in " place_of[rule, name])
    else
        place_of[rule, name] = file ":" FNR
}

# --- loops ---
#
# A variable that is declared without a value, and of which every use lies in a loop that begins with "for (NAME = ",
# belongs into those loops. The lines of the function are kept until it ends.

function check_loops(end,    i, j, n, words, text)
{
    for (i = body + 1; i < end; i++) {
        text = kept[i]
        if (text !~ /^[ \t]+[A-Za-z_][A-Za-z0-9_ ]*[ *]+[A-Za-z_][A-Za-z0-9_]*(,.*|\[.*|=.*| =.*)?;$/ || text ~ /\(.*,.*\)/)
            continue
        if (text ~ /^[ \t]*(return|goto|else|typedef|extern|static|break|continue|case) ?/)
            continue
        sub(/;$/, "", text)
        n = split(text, words, ",")
        for (j = 1; j <= n; j++)
            if (words[j] !~ /[=\[(]/) {
                sub(/[ \t]+$/, "", words[j])
                sub(/.*[ *\t]/, "", words[j])
                if (words[j] ~ /^[A-Za-z_]/ && only_loops(words[j], i, end))
                    breach("loop", i, words[j] " is declared before the loop, and only the loop uses it")
            }
    }
}

function indent_of(text)
{
    match(text, /^[ \t]*/)
    return RLENGTH
}

# Whether every use of the variable behind its declaration is in such a loop, and there is one.
function only_loops(name, from, end,    i, deep, at, inside, loops, level)
{
    level = indent_of(kept[from])
    for (i = from + 1; i < end; i++) {
        if (kept[i] !~ /[^ \t]/)
            continue
        deep = indent_of(kept[i])
        if (deep < level && kept[i] !~ /^[ \t]*(#|[A-Za-z_0-9 ]+:$)/)
            break
        if (inside && (deep > at || (deep == at && kept[i] ~ /^[ \t]*}$/)))
            continue
        inside = 0
        if (kept[i] ~ "^[ \t]*for \\(" name " = ") {
            inside = 1
            at = deep
            loops++
        } else if ((" " kept[i] " ") ~ "[^A-Za-z0-9_.>]" name "[^A-Za-z0-9_]")
            return 0
    }
    return loops > 0
}

FNR == 1 {
    file = FILENAME
    sub(/^\.\//, "", file)
    is_header = file ~ /\.h$/
    is_test = file ~ /^t\//
    is_product = file ~ /^(include|base|lib|net|gpu|rendezvous|launch|perf|bin)\//
    own = file
    if (!sub(/\.(c|cu)$/, ".h", own) || (getline unused <own) < 0)
        own = ""
    else
        close(own)
    body = depth = included = includes_over = guarded = group_ended = last_kind = 0
    last_name = ""
}

{
    code = code_of($0)
    check_line()
    check_include()
    check_names()
    kept[FNR] = code
}

$0 == "{" { body = FNR }

$0 == "}" && body {
    check_loops(FNR)
    body = 0
}
