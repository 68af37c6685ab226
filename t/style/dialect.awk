# SPDX-License-Identifier: MIT
# dialect.awk: prints each place where a C source breaks a rule of t/style/dialect.t:
#     awk -f code.awk -f dialect.awk FILE...        prints  RULE FILE:LINE: TEXT
# The sources must be formatted (t/style/format.t): the body of a function begins with a line "{" and ends with a line
# "}", and the body of a loop is indented deeper than its "for".

function report(rule, line, text)
{
    print rule, file ":" line ": " text
}

# --- words and lines ---

function check_line()
{
    if (code ~ /(^|[^A-Za-z0-9_])sizeof[^A-Za-z0-9_(]/)
        report("sizeof", FNR, $0)
    if (body && $0 ~ /^[ \t]*$/)
        report("blank", FNR, "a blank line in the function that begins in line " body)
    if ($0 ~ /^[ \t]*\/\*[ \t]*[-=*~#][-=*~#]+([ \t\/]|$)/ && $0 !~ /^\/\* --- [^- ]([^-]|-[^-])*[^- ] --- \*\/$/)
        report("section", FNR, $0)
}

# --- comparisons with NULL ---
#
# "p == NULL" must be "!p". "p != NULL" must be "p" in a condition, and is right where a number is wanted: x = p != NULL.
# A statement may have several lines: they are joined in `statement` until it ends.

function check_null(    at, operator)
{
    if (code ~ /==[ \t]*NULL([^A-Za-z0-9_]|$)|(^|[^A-Za-z0-9_])NULL[ \t]*[!=]=/)
        report("null", FNR, $0)
    if (statement == "")
        statement_line = FNR
    statement = statement code "\n"
    if (code !~ /^#|[;{}:][ \t]*$/)
        return
    at = 1
    while (match(substr(statement, at), /!=[ \t]*NULL/)) {
        operator = at + RSTART - 1
        at += RSTART + RLENGTH - 1
        if (substr(statement, at, 1) !~ /[A-Za-z0-9_]/ && is_condition(boundary(operator) + 1, at))
            report("null", statement_line + newlines_before(operator), "!= NULL in a condition")
    }
    statement = ""
}

function newlines_before(at,    text)
{
    text = substr(statement, 1, at - 1)
    return gsub(/\n/, "", text)
}

# Whether an expression is a condition, by the text around it. It begins at `first`; `right` is the character after it.
# Parentheses around the whole expression are skipped.
function is_condition(first, right,    left, before)
{
    for (left = boundary(first);; left = boundary(first)) {
        while (substr(statement, right, 1) ~ /[ \t\n]/)
            right++
        if (substr(statement, right, 2) ~ /^(&&|\|\||\?)/)
            return 1
        if (substr(statement, right, 1) !~ /[]),;:}]/ || substr(statement, left + 1, first - left - 1) ~ /[^ \t\n]/)
            return 0 # another operator has the result
        if (substr(statement, left, 1) ~ /[&|]/)
            return 1
        if (substr(statement, right, 1) != ")")
            return substr(statement, right, 1) == ";" && substr(statement, left, 1) == ";"
        before = substr(statement, 1, left - 1)
        if (before ~ /(^|[^A-Za-z0-9_])(if|while)[ \t]*$|![ \t]*$/)
            return 1
        if (substr(statement, left, 1) != "(" || before ~ /[])A-Za-z0-9_][ \t]*$/)
            return 0 # an argument
        first = left
        right++
    }
}

# The place of the operator, "(" or separator before the operand that ends before `at`; 0: the statement begins with it.
function boundary(at,    c, deep)
{
    deep = 0
    while (--at > 0) {
        c = substr(statement, at, 1)
        if (c ~ /[])]/)
            deep++
        else if (c ~ /[([]/ && --deep < 0)
            return at
        else if (!deep && (c ~ /[,;?:{}]/ || substr(statement, at - 1, 2) ~ /^(&&|\|\|)$/ || is_assignment(at)))
            return at
    }
    return 0
}

function is_assignment(at)
{
    return substr(statement, at - 1, 3) ~ /[^=!<>]=[^=]/
}

# --- includes ---
#
# Blank lines separate the groups: a file's own header, the project's, the system's. Includes under a condition and
# includes after the first line of code are not checked.

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
    if (!included && own != "" && name != own && name != beside)
        report("include", FNR, "the first is not the file's own header, " own)
    else if (included == 1 && own != "" && !group_ended)
        report("include", FNR, "no blank line after the file's own header")
    else if (included && kind < last_kind)
        report("include", FNR, "a header of the project after one of the system: " name)
    else if (included && kind > last_kind && !group_ended)
        report("include", FNR, "no blank line before the system's headers")
    else if (included && kind == last_kind && group_ended && !may_be_separate())
        report("include", FNR, "a blank line inside a group, before " name)
    else if (included && kind == last_kind && !group_ended && name <= last_name)
        report("include", FNR, name " after " last_name)
}

# Whether a blank line may follow the first header: the file's own, or in a test the header that it is about.
function may_be_separate()
{
    return included == 1 && last_kind == 1 && (own != "" || is_test)
}

# --- names that only one place may have ---

function check_names(    name)
{
    if (is_header && code ~ /^#[ \t]*ifndef [A-Z0-9_]+_(CU)?H_*$/ && !guarded++) {
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
        report(rule, FNR, name " is also in " place_of[rule, name])
    else
        place_of[rule, name] = file ":" FNR
}

# --- loops ---
#
# A variable must be declared in its loop if it has no initial value and every use of it is in a loop that begins with
# "for (NAME = ". The lines of the function are in `kept`.

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
            if (words[j] !~ /[=([]/) {
                sub(/[ \t]+$/, "", words[j])
                sub(/.*[ *\t]/, "", words[j])
                if (words[j] ~ /^[A-Za-z_]/ && only_loops(words[j], i, end))
                    report("loop", i, words[j] " is declared before the loop, and only the loop uses it")
            }
    }
}

function indent_of(text)
{
    match(text, /^[ \t]*/)
    return RLENGTH
}

# Whether there is such a loop, and every use of the variable after line `from` is in one.
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
    is_header = file ~ /\.(h|cuh)$/
    is_test = file ~ /^t\//
    is_product = file ~ /^(include|base|flight|lib|net|gpu|rendezvous|launch|perf|top|bin)\//
    own = file
    if (!sub(/\.(c|cu)$/, ".h", own) || (getline unused <own) < 0)
        own = ""
    else
        close(own)
    beside = own
    sub(/.*\//, "", beside)
    statement = ""
    body = depth = included = includes_over = guarded = group_ended = last_kind = 0
    last_name = ""
}

{
    code = code_of($0)
    check_line()
    check_null()
    check_include()
    check_names()
    kept[FNR] = code
}

$0 == "{" && kept[FNR - 1] !~ /^(extern ""|namespace)[A-Za-z0-9_: \t]*$/ { body = FNR }

$0 == "}" && body {
    check_loops(FNR)
    body = 0
}
