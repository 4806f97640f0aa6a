# rebuilt.sh: what the scripts share that build the same tree twice and compare; they source it behind
# lib.sh. here_dir is the tree as this user has it now; there_dir, as somebody else has it elsewhere.
# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # variables of lib.sh

if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "a build with sanitizers is not one to release"
    exit
fi
unset MAKEFLAGS MAKELEVEL MFLAGS SOURCE_DATE_EPOCH
export CCACHE_DISABLE=1 # what is taken from a cache is not built
common_dir=$(mktemp -d /tmp/mqkv-rebuilt.XXXXXX) || exit 2 # which another user may enter
chmod 711 "$common_dir"
there_dir=$common_dir/elsewhere/and-deeper
here_dir=$common_dir/here

# take_tree: packs the files of the tree, committed or not, into $common_dir/tree.tar.
take_tree() {
    cd "$library_dir/../.." || exit 2
    local list=(find . -path ./build -prune -o -type f -print0)
    [ "$(git rev-parse --show-prefix 2>/dev/null || echo none)" != '' ] ||
        list=(git ls-files -z --deduplicate)
    "${list[@]}" | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done | tar -c --null -T - >"$common_dir/tree.tar"
    chmod a+r "$common_dir/tree.tar"
    cd "$MQKV_TEST_DIR" || exit 2
}

# unpack_commit DIR: the tree as a repository; everywhere and at all times the same commit.
unpack_commit() {
    mkdir -p "$1" && tar -x -C "$1" -f "$common_dir/tree.tar" && cd "$1" || return
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 \
        GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.org GIT_AUTHOR_DATE='1700000000 +0000' \
        GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.org \
        GIT_COMMITTER_DATE='1700000000 +0000'
    git init -q . && git add -A -f && git commit -qm tree
}

# as_somebody_else COMMAND...: another user, home, umask, language, time zone, host name, number of
# CPUs, and a time more than a year ahead, as far as this can be had here.
as_somebody_else() {
    local around=(env -i "PATH=$PATH" "HOME=$common_dir/elsewhere" USER=eve LC_ALL=tr_TR.UTF-8
        TZ=Pacific/Kiritimati LANGUAGE=tr CCACHE_DISABLE=1 "DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS:-}")
    mkdir -p "$common_dir/elsewhere"
    ! command -v faketime >/dev/null || around+=(faketime -f +400d)
    if [ "$(id -u)" = 0 ]; then
        local uid=${MQKV_TEST_UIDS:-40000}
        chown "$uid:$uid" "$common_dir/elsewhere"
        around=(unshare --uts sh -c 'hostname elsewhere; exec "$@"' sh
            setpriv "--reuid=$uid" "--regid=$uid" --clear-groups taskset -c 0 "${around[@]}")
    fi
    (umask 077 && "${around[@]}" "$@")
}

told_what_differs() {
    command -v faketime >/dev/null || skip "builds at two times: there is no faketime"
    [ "$(id -u)" = 0 ] || skip "builds by two users, on two hosts: that needs root"
}

# check_same FILE OTHER TEXT: the same bytes; if not, where the first difference is.
check_same() {
    if cmp -s "$1" "$2"; then
        ok "$3"
    else
        not_ok "$3" "$(cmp "$1" "$2" 2>&1; "${first_difference[@]:-true}" "$1" "$2" 2>&1 | head -n 20)"
    fi
}

# run_quietly TEXT COMMAND...: prints what it said only if it fails.
run_quietly() {
    local text=$1
    shift
    if "$@" >"$MQKV_TEST_DIR/quiet.log" 2>&1 </dev/null; then
        ok "$text"
    else
        not_ok "$text" "$(tail -n 30 "$MQKV_TEST_DIR/quiet.log")"
        exit 1
    fi
}
