#!/bin/sh
# SPDX-License-Identifier: MIT
# What bash, zsh and fish complete for each program: options, choices, files, folders, hooprun's program; and that make
# install puts the files where the shells look for them.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
[ "${HOOP_TEST_SANITIZE:-no}" = no ] || skip_all 'what is completed is the same in a tree without sanitizers'
plan_lazy
cd "$tmp" || bail "no $tmp"
PATH=$abs_top_builddir/bin:$PATH
unset MAKEFLAGS MFLAGS MAKELEVEL
programs='hooprun hoop-bench hoop-top hoop-rendezvous'
mkdir afolder
: >afile

${MAKE:-make} -C "$abs_top_builddir" install-data DESTDIR="$tmp/root" >installed 2>&1 || bail "$(tail -n 3 installed)"
share=$(dirname "$(find root -path '*/share/bash-completion')")

# --- the lists ---
for program in $programs; do
    $program --complete-options >list
    is '' "$(grep -vE '^--?[A-Za-z][a-z_-]* [a-z]+ ' list)" "$program lists its options"
    cut -d ' ' -f 1 list >names
    is '' "$($program --help | grep -oE '^ *-[^ ,]*(, -[^ ,]*)?' | tr -d ' ' | tr , '\n' | grep -vxFf names)" \
        "$program lists all that --help shows"
done
is '' "$(hoop-bench --complete-options | sed -n 's/^-d choice //p' | tr '|' '\n' |
    while read -r type; do hoop-bench -d "$type" -b 8 -e 8 -n 1 >out 2>&1 || echo "$type"; done)" \
    'hoop-bench takes the types that it lists'
is 'float32 bfloat16 e4m3' "$(hoop-bench --complete-options | sed -n 's/^--wire choice //p' | tr '|' '\n' |
    while read -r type; do hoop-bench --wire "$type" -b 8 -e 8 -n 1 >out 2>&1 && echo "$type"; done | paste -sd ' ')" \
    '... and lists all wire types that it takes'

# completed SHELL LINE: what the shell offers for the last word of the line, one a line.
completed() { "in_$1" "$2" 2>err; }

# A shell at a terminal of its own, which writes down what is offered, and with Ctrl-T the line, and ends.
cat >complete.bash <<'END'
. "$share/bash-completion/completions/$program.bash"
noted() { _hoop "$@"; printf '%s\n' "${COMPREPLY[@]}" >offered; }
complete -o filenames -F noted "$program"
bind -x '"\C-t": printf "%s\n" "$READLINE_LINE" >line; exit'
PROMPT_COMMAND=': >ready'
END
in_bash()
{
    rm -f ready offered line
    {
        await test -e ready
        printf '%s\t\024' "$1"
        await test -s line
    } | share=$share program=${1%% *} script -qec 'exec bash --noprofile --rcfile complete.bash -i' bash.log >/dev/null 2>&1
    grep . offered
}

# A shell at a terminal of its own, whose compadd also writes into a file what fits.
cat >complete.zsh <<'END'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "fpath=($1/zsh/site-functions \$fpath); autoload -U compinit; compinit -D -u"
zpty -w shell 'compadd() { builtin compadd -O offered "$@"; print -rl -- $offered >>offered; builtin compadd "$@"; }'
zpty -w shell 'touch ready'
repeat 300; do [[ -e ready ]] && break; sleep 0.1; done
zpty -w -n shell "$2"$'\t'
repeat 300; do [[ -s offered ]] && break; sleep 0.1; done
sleep 0.2
zpty -d shell
END
in_zsh()
{
    rm -f ready
    : >offered
    zsh -f complete.zsh "$share" "$1" >zsh.log 2>&1 </dev/null
    grep . offered | LC_ALL=C sort -u
}

cat >complete.fish <<'END'
set --prepend fish_complete_path $argv[1]/fish/vendor_completions.d
complete --do-complete=$argv[2]
END
in_fish() { HOME=$tmp fish complete.fish "$share" "$1" | cut -f 1 | sed 's|/$||'; }

for shell in bash zsh fish; do
    if ! command -v $shell >/dev/null || ! { [ $shell != bash ] || bash -c 'complete -W x x && command -v script' >/dev/null 2>&1; }; then
        skip 16 "there is no $shell, or it cannot complete: apt-get install $shell bsdutils"
        continue
    fi
    is --bind "$(completed $shell 'hooprun --bi')" "$shell: an option"
    is never "$(completed $shell 'hooprun --pty nev')" "$shell: a choice"
    is afolder "$(completed $shell 'hooprun --wdir afo')" "$shell: a folder"
    is afile "$(completed $shell 'hooprun -n 4 -f afi')" "$shell: a file"
    like '^hoop-rendezvous$' "$(completed $shell 'hooprun -n 4 hoop-rend')" "$shell: hooprun's program"
    is --stepfactor "$(completed $shell 'hoop-bench --stepf')" "$shell: hoop-bench"
    is bfloat16 "$(completed $shell 'hoop-bench -d bfl')" "$shell: a type of hoop-bench"
    is --secret-file "$(completed $shell 'hoop-top --sec')" "$shell: hoop-top"
    is afile "$(completed $shell 'hoop-top --flight afi')" "$shell: a file of hoop-top"
    is none "$(completed $shell 'hoop-rendezvous --security no')" "$shell: hoop-rendezvous"
    is --timeout "$(completed $shell 'hooprun -H node1:4,node2:4 --time')" "$shell: behind a : in a word"
    is --timeout "$(completed $shell 'hooprun -H me@node1 --time')" "$shell: behind an @"
    is --timeout "$(completed $shell 'hooprun -x LR=0.1 --time')" "$shell: behind a ="
    is --timeout "$(completed $shell 'hooprun --pty=auto --time')" "$shell: behind an option with its value"
    is never "$(completed $shell 'hooprun --pty=nev' | sed 's/^--pty=//')" "$shell: a value behind a ="
    is '' "$(for program in $programs; do
        completed $shell "$program --" >offers
        $program --complete-options | cut -d ' ' -f 1 | grep -- -- | grep -vxFf offers
    done)" "$shell: all long options of all programs"
done

# typed LINE: what the shell makes of it
typed() { completed bash "$1" >offers; cat line; }
if [ -s line ]; then
    mkdir a:b=c
    : >a:b=c/d
    is 'hooprun --pty=never ' "$(typed 'hooprun --pty=nev')" 'bash writes the value behind the ='
    is 'hooprun --wdir=afolder/' "$(typed 'hooprun --wdir=afo')" '... a folder'
    is 'hooprun -f a:b=c/d ' "$(typed 'hooprun -f a:b=c/')" '... a name with both in it'
    is 'hooprun -H node1:4 -- hoop-rendezvous ' "$(typed 'hooprun -H node1:4 -- hoop-rend')" '... a program'
else
    skip 4 'bash has completed nothing'
fi
done_testing
