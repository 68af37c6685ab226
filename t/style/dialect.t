#!/bin/sh
# SPDX-License-Identifier: MIT
# One dialect of C in all sources, as far as clang-format does not check it. First each rule of dialect.awk is run on
# small samples and must report exactly their mistakes; then the rules are run on the sources.
. "$abs_top_srcdir/t/tap/tap.sh"
cd "$abs_top_srcdir" || bail "no $abs_top_srcdir"
plan_lazy

# check FILE...: prints a line for each place that breaks a rule.
check() { awk -f "$abs_top_srcdir/t/style/code.awk" -f "$abs_top_srcdir/t/style/dialect.awk" "$@"; }

# --- the rules themselves ---

mkdir -p "$tmp/lib" "$tmp/net" "$tmp/gpu" "$tmp/t" || bail "no folder in $tmp"

# sample FILE: writes standard input to that file in the scratch folder.
sample() { cat >"$tmp/$1"; }

# finds TEXT WANTED FILE...: the rules report exactly these places of the samples, "RULE LINE," for each.
finds()
{
    text=$1 wanted=$2
    shift 2
    is "$wanted" "$(cd "$tmp" && check "$@" | sed 's/^\([a-z]*\) [^:]*:\([0-9]*\): .*/\1 \2/' | tr '\n' ',')" "$text"
}

sample lib/good.h <<'END'
#ifndef HP_GOOD_H
#define HP_GOOD_H

#include "base/err.h"
#include "hoop.h"

#include <stddef.h>
#include <sys/types.h>

struct hp_good {
    int n;

    int m; /* a structure may have blank lines */
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
finds 'sources without a mistake pass' '' lib/good.h lib/good.c

sample lib/sizeof.c <<'END'
int a = sizeof x;
int b = sizeof (x);
int c = sizeof(x);
int d = my_sizeof + sizeof *p;
END
finds 'sizeof without parentheses' 'sizeof 1,sizeof 2,sizeof 4,' lib/sizeof.c

sample lib/null.c <<'END'
int a = p == NULL;
int b = NULL != p;
int c = p ==NULL;
void *d = NULL, *e = p == NULLABLE ? NULL : p, *f = q != NULLABLE ? p : q;
END
finds 'a comparison with NULL that !p replaces' 'null 1,null 2,null 3,' lib/null.c
sample lib/condition.c <<'END'
int
f(char *p, const char *q)
{
    if (p != NULL)
        p = g(p);
    while ((q = h(q, p)) != NULL)
        p++;
    for (char *r = p; r != NULL; r = next(r, "; != NULL"))
        p++;
    p = q[0] != NULL ? p : NULL;
    int a = (p != NULL) && *p, b = *p || p != NULL;
    int c = !(p != NULL);
    if (a && c &&
        strchr(p, ' ') != NULL)
        return i(p, (q != NULL
                     && a));
    j(p, a && q != NULL, "");
    return q != NULL
           ? 1 : 2;
}
END
finds '... a comparison in a condition' \
    'null 4,null 6,null 8,null 10,null 11,null 11,null 12,null 14,null 15,null 17,null 18,' lib/condition.c
sample lib/number.c <<'END'
#define HAS(p) ((p) != NULL)
static struct s s = {.b = getenv("B") != NULL, .c = 1, 0, q[0] != NULL};
int
f(char *p, const char *q)
{
    int a = p != NULL, b = (q != NULL), c = *p == '?' ? p != NULL : 2;
    a += strstr(p, q) != NULL;
    if (g(p != NULL, a) || (p != NULL) == b || a + (p != NULL) > 1)
        a |= p != NULL;
    for (a = p != NULL; a < 3; a++)
        return (q != NULL);
    while (a > 1 && g(c ? a : b,
                      p != NULL))
        a--;
    return strchr(p, *q) != NULL;
}
END
finds '... but not where a number is wanted' '' lib/number.c

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
sample gpu/brace.cu <<'END'
namespace
{
struct quad;

int a;
}

extern "C"
{
int b;

__global__ void
f(void)
{
    int a = 1;

    a++;
}
}

extern "C" __global__ void
g(void)
{

}
END
finds '... a namespace is not a function' 'blank 16,blank 24,' gpu/brace.cu

sample lib/section.c <<'END'
/* --- a part of its own --- */
/* ---- a part ---- */
/* --- a part -------------------------------- */
/* ==== a part ==== */
/*** a part ***/
/* a sentence -- with a dash */
/* --- an on-stream part --- */
/* --- a part --- and more */
/* --port is an option */
/* *address: a pointer */
/* --- a part of two lines
 */
/* ------- */
END
finds 'section comments of another form' \
    'section 2,section 3,section 4,section 5,section 8,section 11,section 13,' lib/section.c

sample net/own.h </dev/null
sample net/own.c <<'END'
#include "lib/good.h"
#include "net/own.h"
#include <errno.h>
END
finds 'includes: the own header is not the first, and no blank line is before the system' \
    'include 1,include 2,include 3,' net/own.c
sample net/order.c <<'END'
#include "lib/b.h"
#include "lib/a.h"

#include <string.h>
#include <stdio.h>
#include <stdio.h>

#include <errno.h>

#include "net/link.h"
END
finds '... unsorted, twice, in two groups, the project after the system' \
    'include 2,include 5,include 6,include 8,include 10,' net/order.c
sample net/beside.h </dev/null
sample net/beside.c <<'END'
#include "beside.h"

#include "lib/a.h"
END
finds '... a header may be included by its name alone' '' net/beside.c
sample net/late.c <<'END'
#include "lib/a.h"

int x;
enum {
#include "lib/config.def"
};
END
finds '... a table may be included in the middle of the code' '' net/late.c
sample t/about.c <<'END'
#include "lib/z.h"

#include "lib/a.h"
#include "t/tap/tap.h"

#include <stdio.h>
END
finds '... a test may begin with the header that it is about' '' t/about.c

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
finds '... but the structures of tests are not checked' '' lib/good.h t/good.c

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
finds 'a variable that only loops use, but declared above them' 'loop 4,loop 5,loop 6,' lib/loop.c

# --- the sources ---

# sources FOLDER...: prints the names of their sources; a folder may be missing.
sources()
{
    for folder; do
        [ ! -d "$folder" ] || find "$folder" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \)
    done | LC_ALL=C sort
}

# all_follow WHERE FOLDER...: checks all sources of the folders, with a line of TAP for each rule.
all_follow()
{
    where=$1
    shift
    check $(sources "$@") >"$tmp/places"
    while read -r rule text; do
        [ "$where $rule" != 'tests and examples tag' ] || continue # each source is a program of its own
        is '' "$(sed -n "s/^$rule //p" "$tmp/places" | head -n 40)" "$where: $text"
    done <<'END'
sizeof sizeof(x), with parentheses
null !p, not p == NULL; and p, not p != NULL, in a condition
blank no blank line inside a function
section a section comment is /* --- words --- */
include the own header, the project's, the system's: three groups, sorted, a blank line between them
guard no two headers have the same guard
tag no two structures of the product have the same tag
loop a variable that only a loop uses is declared in it
END
}

product='include base flight lib net gpu rendezvous launch perf top bin'
ok 'there are sources' test "$(sources $product | wc -l)" -gt 200
all_follow product $product
all_follow 'tests and examples' examples fuzz bench t
done_testing
