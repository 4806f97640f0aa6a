# fish completion for @PROGRAM@: its commands and options, as its help tells them.

# The lines of the section "commands" of a help, or those of all options, as NAME, tab, MEANING.
function __@PROGRAM@_lines --argument-names what
    awk -v what=$what '
        what == "commands" && $0 == "commands:" { inside = 1; next }
        what == "commands" && inside && !NF { exit }
        inside && /^  [^ -]/ || what == "options" && /^ +(-[A-Za-z0-9], )?--[a-z]/ {
            sub(/^ +(-[A-Za-z0-9], )?/, "")
            name = $1
            meaning = match($0, /  +/) ? substr($0, RSTART + RLENGTH) : ""
            sub(/=.*/, "", name)
            print name "\t" meaning
        }'
end

function __@PROGRAM@_commands
    @PROGRAM@ --help 2>/dev/null | __@PROGRAM@_lines commands
end

# The command among the words before the cursor, if there is one.
function __@PROGRAM@_command
    set -l known (__@PROGRAM@_commands | string replace -r '\t.*' '')
    for word in (commandline -opc)[2..-1]
        if contains -- $word $known
            echo $word
            return
        end
    end
end

function __@PROGRAM@_options
    set -l command (__@PROGRAM@_command)
    if test -n "$command"
        @PROGRAM@ help $command 2>/dev/null | __@PROGRAM@_lines options
    else
        @PROGRAM@ --help 2>/dev/null | __@PROGRAM@_lines options
    end
end

function __@PROGRAM@_wants_command
    not string match -q -- '-*' (commandline -ct)
    and test -z (__@PROGRAM@_command)""
    and test (count (__@PROGRAM@_commands)) -gt 0
end

complete -c @PROGRAM@ -n "string match -q -- '-*' (commandline -ct)" -f -a '(__@PROGRAM@_options)'
complete -c @PROGRAM@ -n __@PROGRAM@_wants_command -f -a '(__@PROGRAM@_commands)'
