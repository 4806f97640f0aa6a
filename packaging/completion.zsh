#compdef @PROGRAM@
# zsh completion for @PROGRAM@: its commands and options, as its help tells them.

local -a known offered
local command word

# The lines of the section "commands" of a help, or those of all options, as NAME:MEANING.
_mqkv_lines() {
    awk -v what="$1" '
        what == "commands" && $0 == "commands:" { inside = 1; next }
        what == "commands" && inside && !NF { exit }
        inside && /^  [^ -]/ || what == "options" && /^ +(-[A-Za-z0-9], )?--[a-z]/ {
            sub(/^ +(-[A-Za-z0-9], )?/, "")
            name = $1
            meaning = match($0, /  +/) ? substr($0, RSTART + RLENGTH) : ""
            sub(/=.*/, "", name)
            print name ":" meaning
        }'
}

known=(${(f)"$(@PROGRAM@ --help 2>/dev/null | _mqkv_lines commands)"})
for word in ${words[2,CURRENT-1]}; do
    if (( ${known[(I)${(b)word}:*]} )); then
        command=$word
        break
    fi
done
if [[ $PREFIX == -* && -n $command ]]; then
    offered=(${(f)"$(@PROGRAM@ help $command 2>/dev/null | _mqkv_lines options)"})
    _describe -o option offered
elif [[ $PREFIX == -* ]]; then
    offered=(${(f)"$(@PROGRAM@ --help 2>/dev/null | _mqkv_lines options)"})
    _describe -o option offered
elif [[ -z $command && $#known -gt 0 ]]; then
    _describe command known
else
    _files
fi
