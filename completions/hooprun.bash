# SPDX-License-Identifier: MIT
# bash completion for hooprun(1): its options, files and folders for those that take them, then the program and its own
# completion.

_hooprun()
{
    local cur=${COMP_WORDS[COMP_CWORD]} i word
    local with_value='-n -np --np -H -host --host -f --hostfile --machinefile -N -ppn --ppn --npernode --nproc-per-node
        -x --wdir --output-dir --timeout --rsh --ssh-port --prefix'
    local alone='-l --tag-output --bind --map --dry-run -v --verbose --help --version'

    # The program is the first word that is neither an option nor an option's value.
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ " ${with_value//$'\n'/ } " == *" $word "* ]]; then
            ((i++))
        elif [[ $word == -- ]]; then
            ((i++))
            break
        elif [[ $word != -* ]]; then
            break
        fi
    done
    if ((i < COMP_CWORD)); then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$i"
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return
    fi

    case ${COMP_WORDS[COMP_CWORD - 1]} in
    -f | --hostfile | --machinefile) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    --wdir | --output-dir | --prefix) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    -H | -host | --host) mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur") ;;
    -x) mapfile -t COMPREPLY < <(compgen -e -- "$cur") ;;
    --rsh) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
    -n | -np | --np | -N | -ppn | --ppn | --npernode | --nproc-per-node | --timeout | --ssh-port) ;;
    *)
        if [[ $cur == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$with_value $alone" -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -c -f -- "$cur")
        fi
        ;;
    esac
}
complete -o filenames -F _hooprun hooprun
