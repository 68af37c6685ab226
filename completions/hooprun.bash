# SPDX-License-Identifier: MIT
# bash completion for hooprun(1), hoop-bench(1), hoop-top(1) and hoop-rendezvous(8): a program's options, as itself lists
# them, words, files and folders for those that take them; for hooprun then the program and its own completion.

_hoop()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i word name kind value
    local -A kinds=() values=()

    while read -r name kind value; do
        kinds[$name]=$kind values[$name]=$value
    done < <("${COMP_WORDS[0]}" --complete-options 2>/dev/null)

    # hooprun's program is the first word that is neither an option nor an option's value.
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n ${values[$word]} ]]; then
            ((i++))
        elif [[ $word == -- ]]; then
            ((i++))
            break
        elif [[ $word != -* ]]; then
            break
        fi
    done
    if [[ ${COMP_WORDS[0]##*/} == hooprun ]] && ((i < COMP_CWORD)); then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$i"
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return
    fi

    [[ -n ${values[$prev]} ]] && kind=${kinds[$prev]} || kind=none
    [[ $kind != none || $cur == -* ]] || kind=${COMP_WORDS[0]##*/}
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
}
complete -o filenames -F _hoop hooprun hoop-bench hoop-top hoop-rendezvous
