#!/usr/bin/env bash
# on_the_way: how many files a request visits is counted, and are no more than a reader can hold
. "$(dirname "$0")/lib.sh"
# long: builds programs that count their lines

if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "on_the_way: needs a build of its own, which the release build has"
    exit
fi
source_dir=$(cd "$library_dir/../.." && pwd)
coverage=$MQKV_BUILD/coverage
check_status 0 'the programs are built' env MAKEFLAGS='' make -s -j2 --no-print-directory \
    -C "$source_dir" VARIANT=coverage OUT="$coverage" \
    "$coverage"/{serverk,clientk,tests/microbench}

# check_way MOST SIDE KIND
check_way() {
    check_status 0 "$2 $3: what is counted is plausible" \
        env MQKV_COVERAGE_BUILD="$coverage" "$library_dir/../bench/on_the_way" "$2" "$3"
    local files
    files=$(sed -n 's/^\([0-9]*\) files, headers left out$/\1/p' <<<"$output")
    echo "# $2 $3: $files files"
    check_status 0 "$2 $3: at most $1 files" test "${files:-1000}" -le "$1"
}

check_way 10 client get
check_way 12 client put
# wire/wait.c is among them where the worker waits for each request.
check_way 15 daemon get
check_way 19 daemon put
check_way 6 direct get
