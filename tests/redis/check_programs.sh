#!/usr/bin/env bash
# check_programs: what programs and libraries of others do on kresp, each by what its users do with
# it; the table of docs/MIGRATING.md has what came of them.
# long: pip, npm and go install some sixty of them
. "$(dirname "$0")/../scenario/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

programs=$redis_tests/programs
installed=$(realpath "$MQKV_BUILD")/redis-clients/programs
page=$redis_tests/../../docs/MIGRATING.md
table=$MQKV_BUILD/redis-clients/programs.md
most_s=60 # for each
mkdir -p "$installed"
start_server
export KRESP_SOCKET=$kresp_socket KRESP_PORT=$((20000 + RANDOM % 20000))
start_kresp --allow-flush --port "$KRESP_PORT"

install() {
    install_once "$installed" "$@"
}

# In one go, but for those that want another redis-py than the others: they get that one.
install_python() {
    local packages pip=$installed/python/bin/pip
    mapfile -t packages < <(python3 "$programs/programs.py" list | cut -f2 | tr ' ' '\n' |
        grep -vx "arq\|taskiq-redis" | sort -u)
    python3 -m venv "$installed/python" && "$pip" install -q "${packages[@]}" &&
        "$pip" install -q --no-deps arq taskiq-redis
}

install_node() {
    # shellcheck disable=SC2046 # words
    npm install --silent --no-fund --no-audit --prefix "$installed/node" \
        $(node "$programs/programs.js" list | cut -f2 | tr ' ' '\n' | sort -u)
}

install_go() {
    cp -r "$programs/go" "$installed/" &&
        (cd "$installed/go" && GOFLAGS=-mod=mod go build -o "$installed/go_programs" .)
}

# needs REASON: what a program lacks, in short: the first command, or what its scripts call.
needs() {
    local lacks kind=
    lacks=$(grep -oiP "(unknown (sub)?command|kresp has no|global variable) '\K\w+" <<<"$1" |
        head -n 1)
    case ${lacks^^} in
    '')
        if [[ $1 == *"a script cannot call commands about the whole store"* ]]; then
            echo "needs \`KEYS\` in a script"
            return
        fi
        cut -c1-90 <<<"${1#*Error: }"
        return
        ;;
    CMSGPACK) ;;
    H*) kind="hashes: " ;;
    S*) kind="sets: " ;;
    Z*) kind="sorted sets: " ;;
    *) kind="lists: " ;;
    esac
    [[ $1 == *"global variable"* ]] || lacks=${lacks^^}
    echo "needs $kind\`$lacks\`"
}

# try_all LANGUAGE COMMAND...: all programs of the language.
try_all() {
    local language=$1 name row verdict
    shift
    while read -r name; do
        client clear --yes >/dev/null
        if timeout --kill-after=5 "$most_s" "$@" "$name" >"$MQKV_TEST_DIR/said" 2>&1 </dev/null
        then
            verdict=works
        else
            verdict=$(needs "$(tail -n 1 "$MQKV_TEST_DIR/said")")
        fi
        row="| $name | $language | $verdict |"
        echo "$row" >>"$table"
        if grep -qFx -- "$row" "$page"; then
            ok "$name: $verdict"
        else
            not_ok "$name: docs/MIGRATING.md has this row: $row" \
                "$(tail -n 5 "$MQKV_TEST_DIR/said")"
        fi
    done < <("$@" list | cut -f1)
}

: >"$table"
if install python install_python; then
    try_all Python "$installed/python/bin/python" "$programs/programs.py"
fi
if install node install_node; then
    export NODE_PATH=$installed/node/node_modules
    try_all Node.js node "$programs/programs.js"
fi
if install go install_go; then
    try_all Go "$installed/go_programs"
fi
for interpreter in "PHP php" "Ruby ruby" "Perl perl"; do
    read -r language command <<<"$interpreter"
    suffix=${command/perl/pl}
    suffix=${suffix/ruby/rb}
    if command -v "$command" >/dev/null; then
        try_all "$language" "$command" "$programs/programs.$suffix"
    else
        skip "programs of $language: it is not installed"
    fi
done
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
