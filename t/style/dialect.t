#!/bin/sh
# SPDX-License-Identifier: MIT
# One dialect of C in the whole house (HACKING): what clang-format does not see. First every rule of dialect.awk finds what
# it is for in a small sample, and nothing else; then the sources are asked.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan_lazy

# look FILE...: a line for each place that a rule forbids.
look() { awk -f "$abs_top_srcdir/t/style/code.awk" -f "$abs_top_srcdir/t/style/dialect.awk" "$@"; }

# --- the rules themselves ---

mkdir -p "$tmp/lib" "$tmp/net" "$tmp/t" || bail "no folder in $tmp"

# sample FILE: standard input, below the scratch folder.
sample() { cat >"$tmp/$1"; }

# finds TEXT WANTED FILE...: what the rules say of the samples, "RULE LINE" for each, one behind the other.
finds()
{
    text=$1 wanted=$2
    shift 2
    is "$wanted" "$(cd "$tmp" && look "$@" | sed 's/^\([a-z]*\) [^:]*:\([0-9]*\): .*/\1 \2/' | tr '\n' ',')" "$text"
}

sample lib/good.h <<'END'
#ifndef HP_GOOD_H
#define HP_GOOD_H

#include "hoop.h"
#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

struct hp_good {
    int n;

    int m; /* a blank line in a structure is no matter */
};

#endif
END
sample lib/good.c <<'END'
/* SPDX-License-Identifier: MIT */
/* good: sizeof x and p == NULL in a comment are words. -- So are dashes. */
#include "lib/good.h"

#include "base/mem.h"
#include "net/link.h"

#include <errno.h>
#include <sys/socket.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

/* --- first part --- */

static const char *const text = "sizeof x, p != NULL, /* --- */";

int
good(const int *p)
{
    int i, used;
    for (int k = 0; k < 3; k++)
        used = k + (int)sizeof(*p);
    for (i = 0; i < 3; i++)
        used += p ? p[i] : 0;
    for (i = 3; i > 0; i--) {
        used -= !p;
    }
    return used + i;
}
END
finds 'what is as it should be passes' '' lib/good.h lib/good.c

sample lib/sizeof.c <<'END'
int a = sizeof x;
int b = sizeof (x);
int c = sizeof(x);
int d = my_sizeof + sizeof *p;
END
finds 'sizeof without its parentheses' 'sizeof 1,sizeof 2,sizeof 4,' lib/sizeof.c

sample lib/null.c <<'END'
int a = p == NULL;
int b = NULL != p && q;
int c = p ==NULL;
void *d = NULL, *e = p == NULLABLE ? NULL : p;
END
finds 'a comparison with NULL' 'null 1,null 2,null 3,' lib/null.c

sample lib/blank.c <<'END'
struct s {
    int a;

    int b;
};

int
f(void)
{
    int a = 1;

    return a;
}

int
g(void)
{
    return 1;
}
END
finds 'a blank line in a function' 'blank 11,' lib/blank.c

sample lib/section.c <<'END'
/* --- a part of its own --- */
/* ---- a part ---- */
/* --- a part -------------------------------- */
/* ==== a part ==== */
/*** a part ***/
/* a sentence -- with a dash */
/* --- an on-stream part --- */
/* --- a part --- and more */
END
finds 'section comments of another form' 'section 2,section 3,section 4,section 5,section 8,' lib/section.c

sample net/own.h </dev/null
sample net/own.c <<'END'
#include "lib/good.h"
#include "net/own.h"
#include <errno.h>
END
finds 'includes: the own header is not first, and the system is not apart' 'include 1,include 2,include 3,' net/own.c
sample net/order.c <<'END'
#include "lib/b.h"
#include "lib/a.h"

#include <string.h>
#include <stdio.h>
#include <stdio.h>

#include <errno.h>

#include "net/link.h"
END
finds '... not sorted, twice, in two groups, the project behind the system' \
    'include 2,include 5,include 6,include 8,include 10,' net/order.c
sample net/late.c <<'END'
#include "lib/a.h"

int x;
enum {
#include "lib/config.def"
};
END
finds '... a table that is included in the code is no matter' '' net/late.c
sample t/about.c <<'END'
#include "lib/z.h"

#include "lib/a.h"
#include "t/tap/tap.h"

#include <stdio.h>
END
finds '... a test may have the header that it is about in front' '' t/about.c

sample net/good.h <<'END'
#ifndef HP_GOOD_H
#define HP_GOOD_H
struct hp_other {
    struct hp_good *good;
};
typedef struct hp_good {
    int n;
} hp_good;
#endif
END
finds 'two headers with one guard, and two structures with one tag' 'guard 1,tag 6,' lib/good.h net/good.h
sample t/good.c <<'END'
struct hp_good {
    int n;
};
END
finds '... but tests have structures of their own' '' lib/good.h t/good.c

sample lib/loop.c <<'END'
int
f(int n)
{
    int i, last;
    size_t k, sum = 0;
    const char *c;
    for (i = 0; i < n; i++)
        sum++;
    for (i = 0; i < n; i++) {
        if (sum)
            sum += i;
    }
    for (k = 0; k < 3; k++)
        sum++;
    for (c = "x"; *c; c++)
        sum += p->k;
    for (last = 0; last < n; last++)
        sum++;
    if (n)
        goto out;
out:
    return last;
}
END
finds 'a variable that only loops use, declared above them' 'loop 4,loop 5,loop 6,' lib/loop.c

# --- the sources ---

# sources FOLDER...: those of the folders that are there.
sources()
{
    for folder; do
        [ ! -d "$folder" ] || find "$folder" \( -name '*.[ch]' -o -name '*.cu' \)
    done | LC_ALL=C sort
}

# all_follow WHERE FOLDER...
all_follow()
{
    where=$1
    shift
    look $(sources "$@") >"$tmp/places"
    while read -r rule text; do
        [ "$where $rule" != 'tests and examples tag' ] || continue # each of them is a program of its own
        is '' "$(sed -n "s/^$rule //p" "$tmp/places" | head -n 40)" "$where: $text"
    done <<'END'
sizeof sizeof(x), with parentheses
null p and !p, no comparison with NULL
blank no blank line inside a function
section a section comment is /* --- words --- */
include a file's own header, the project's, the system's: sorted, and a blank line between them
guard no two headers have the same guard
tag no two structures of the product have the same tag
loop a variable that only a loop uses is declared in it
END
}

product='include base lib net gpu rendezvous launch perf bin'
ok 'there are sources' test "$(sources $product | wc -l)" -gt 200
all_follow product $product
all_follow 'tests and examples' examples fuzz bench t
done_testing
