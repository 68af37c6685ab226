# SPDX-License-Identifier: MIT
# fish completion for hooprun(1), hoop-bench(1), hoop-top(1) and hoop-rendezvous(8): a program's options, as itself lists
# them, words, files and folders for those that take them; for hooprun then the program and its own completion.
# fish reads this file by the name of the program that is completed.

function __hoop_options --argument-names program
    set -l with_value
    for line in ($program --complete-options 2>/dev/null)
        echo $line | read --local name kind value
        set -l option --old-option (string trim --left --chars=- -- $name)
        string match --quiet -- '--*' $name; and set option --long-option (string sub --start 3 -- $name)
        string match --quiet --regex -- '^-.$' $name; and set option --short-option (string sub --start 2 -- $name)
        test -z "$value"; or set --append with_value $name
        switch $kind
            case flag help version
                complete --command $program $option
            case file hostfile
                complete --command $program $option --require-parameter --force-files
            case folder
                complete --command $program $option --exclusive --arguments '(__fish_complete_directories)'
            case hosts
                complete --command $program $option --exclusive --arguments '(__fish_print_hostnames)'
            case variable
                complete --command $program $option --exclusive --arguments '(set --names --export)'
            case rsh
                complete --command $program $option --exclusive --arguments '(__fish_complete_command)'
            case choice
                complete --command $program $option --exclusive --arguments (string replace --all '|' ' ' -- $value)
            case '*'
                complete --command $program $option --exclusive
        end
    end
    switch $program
        case hooprun
            complete --command hooprun --exclusive --arguments "(__fish_complete_subcommand $with_value)"
        case hoop-bench hoop-rendezvous
            complete --command $program --no-files
    end
end

__hoop_options (basename (status filename) .fish)
