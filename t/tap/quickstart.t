#!/bin/sh
# SPDX-License-Identifier: MIT
# quickstart check: what it counts and what it ends with, in a tree whose tests and tools are small scripts.
. "$abs_top_srcdir/t/tap/tap.sh"
plan_lazy
unset MAKEFLAGS MFLAGS MAKELEVEL
cd "$tmp" || bail 'no scratch folder'

# What quickstart calls: a configure that writes a Makefile, and an apt-get that installs nothing. A test is a script that
# prints the results of its checks.
mkdir -p bin tests && cp "$abs_top_srcdir/quickstart" . || bail 'no quickstart'
cat >configure <<'END'
#!/bin/sh
: >config.status
cat >Makefile <<'MAKE'
TESTS = $(notdir $(wildcard ../tests/*))
all:
check: $(addsuffix .log,$(TESTS))
%.log:
	@sh ../tests/$* >$@; status=$$?; sed 's/^/:test-result: /' $@ >$*.trs; touch ran-$*; exit $$status
MAKE
END
printf '#!/bin/sh\n' >bin/apt-get
chmod +x configure bin/apt-get

check()
{
    rm -rf build-check
    output=$(PATH="$tmp/bin:$PATH" sh ./quickstart check 2>&1)
    status=$?
}
last() { printf '%s\n' "$output" | tail -n 1; }

echo 'echo PASS 1; echo PASS 2; echo SKIP 3' >tests/good
check
is '0 2 passed, 0 failed, 1 skipped' "$status $(last)" 'all pass'
is '' "$(printf '%s\n' "$output" | grep -i unsteady)" 'and none is called unsteady'

echo 'echo PASS 1; echo FAIL the second; exit 1' >tests/bad
check
is '1 3 passed, 1 failed, 1 skipped' "$status $(last)" 'one fails, alone too'
like 'bad.t  *1 passed, 1 FAILED' "$output" 'its line says so'
like '^      FAIL the second' "$output" 'and its log is shown'

echo '[ -e ran-bad ] && { echo PASS 1; echo PASS 2; exit 0; }; echo FAIL the first; echo PASS 2; exit 1' >tests/bad
check
is '0 4 passed, 0 failed, 1 skipped' "$status $(last)" 'one fails beside others, and passes twice alone'
like 'bad.t  *2 passed, UNSTEADY: passed twice alone, and beside others 1 failed' "$output" 'its line says so'
like '^      FAIL the first' "$output" 'the log of its failure is shown'
like '^quickstart: unsteady.*: build-check/bad.t$' "$output" 'and the end names it'

echo 'echo x >>../runs; [ $(wc -l <../runs) -eq 2 ] && { echo PASS 1; exit 0; }; echo FAIL 1; exit 1' >tests/bad
rm -f runs
check
is '1 2 passed, 1 failed, 1 skipped' "$status $(last)" 'one passes alone once only'
is 3 "$(wc -l <runs | tr -d ' ')" 'it ran three times'

echo 'echo PASS 1; exit 1' >tests/bad
check
like '^1 3 passed, 1 failed' "$status $(last)" 'a suite that ends badly, and no check that failed'

for i in 1 2 3 4; do
    echo '[ -e ran-$(basename $0) ] && { echo PASS 1; exit 0; }; echo FAIL 1; exit 1' >"tests/bad$i"
done
rm tests/bad
check
is '1 5 passed, 1 failed, 1 skipped' "$status $(last)" 'four fail: the first three run again'

rm tests/*
check
like '^1 0 passed, 1 failed' "$status $(last)" 'no test at all'
done_testing
