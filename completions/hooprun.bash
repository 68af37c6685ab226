# SPDX-License-Identifier: MIT
# bash completion for hooprun(1), hoop-bench(1), hoop-top(1) and hoop-rendezvous(8): a program's options, as itself lists
# them, words, files and folders for those that take them; for hooprun then the program and its own completion.

# Sets words to the words of the line up to the cursor, and starts to where each begins in COMP_WORDS, which bash has also
# split around the : and = and @ within a word (COMP_WORDBREAKS).
_hoop_words()
{
    local rest=${COMP_LINE:0:COMP_POINT} gap piece before i n=-1

    words=() starts=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        gap=${rest%%[![:space:]]*}
        ((i < COMP_CWORD)) && piece=${COMP_WORDS[i]} || piece=${rest#"$gap"}
        if [[ -n $before && -z $gap && -n $piece && ($piece != *[!:=@]* || $before != *[!:=@]*) ]]; then
            words[n]+=$piece
        else
            ((++n))
            words[n]=$piece starts[n]=$i
        fi
        rest=${rest#*"$piece"} before=$piece
    done
}

_hoop()
{
    local words starts cur prev i word name kind value
    local -A kinds=() values=()

    while read -r name kind value; do
        kinds[$name]=$kind values[$name]=$value
    done < <("${COMP_WORDS[0]/#\~\//$HOME/}" --complete-options 2>/dev/null)
    _hoop_words
    cur=${words[${#words[@]} - 1]} prev=${words[${#words[@]} - 2]}

    # hooprun's program is the first word that is neither an option nor an option's value.
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        if [[ -n ${values[$word]} ]]; then
            ((i++))
        elif [[ $word == -- ]]; then
            ((i++))
            break
        elif [[ $word != -* ]]; then
            break
        fi
    done
    if [[ ${words[0]##*/} == hooprun ]] && ((i < ${#words[@]} - 1)); then
        if declare -F _command_offset >/dev/null; then
            _command_offset "${starts[i]}"
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$2")
        fi
        return
    fi

    if [[ $cur == -*=* ]]; then
        prev=${cur%%=*} cur=${cur#*=}
        [[ -n ${values[$prev]} ]] || return
    fi
    [[ -n ${values[$prev]} ]] && kind=${kinds[$prev]} || kind=none
    [[ $kind != none || $cur == -* ]] || kind=${words[0]##*/}
    case $kind in
    file | hostfile | hoop-top) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    folder) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    hosts) mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur") ;;
    variable) mapfile -t COMPREPLY < <(compgen -e -- "$cur") ;;
    rsh) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
    hooprun) mapfile -t COMPREPLY < <(compgen -c -f -- "$cur") ;;
    choice) mapfile -t COMPREPLY < <(compgen -W "${values[$prev]//|/ }" -- "$cur") ;;
    none) mapfile -t COMPREPLY < <(compgen -W "${!kinds[*]}" -- "$cur") ;;
    esac
    # Of the word bash replaces only $2, which is behind the last place where it splits.
    [[ $cur != *"$2" ]] || COMPREPLY=("${COMPREPLY[@]#"${cur%"$2"}"}")
}
complete -o filenames -F _hoop hooprun hoop-bench hoop-top hoop-rendezvous
