#!/usr/bin/env bash
# tests_run: tests/run counts checks of all kinds, names what was skipped, and ends with its line
. "$(dirname "$0")/lib.sh"

runner=$library_dir/../run
inner=$MQKV_TEST_DIR/inner
mkdir "$inner"

# make_test NAME < BODY: a test to be run.
make_test() {
    { echo '#!/usr/bin/env bash' && cat; } >"$inner/$1"
    chmod +x "$inner/$1"
}

# run_tests NAME...: as make test does; a directory of its own is for tests/run to give. The times
# of these tests are none of the build's.
run_tests() {
    (cd "$inner" &&
        env -u MQKV_TEST_DIR -u MQKV_TEST_QUEUE -u MQKV_VARIANT MQKV_BUILD=. \
            MQKV_TEST_TIMEOUT="${limit_s:-20}" "$runner" "$@")
}

unset MQKV_REPEAT_FAILED MQKV_TEST_PART
parts=

make_test good.sh <<'END'
echo 'ok - one'
echo 'ok - two'
END
make_test half.sh <<'END'
echo 'ok - one'
echo 'skip - full disks: mounts need root'
END
make_test unit_some <<'END'
[ "${1:-}" != --suites ] || exit 1
echo 'skip - at_night: it is day'
echo '75%: Checks: 4, Failures: 1, Errors: 0'
END
make_test none.sh <<'END'
echo 'skip - none: it is day'
END
make_test bad.sh <<'END'
echo 'not ok - three'
exit 1
END
make_test silent.sh <<'END'
exit 0
END
make_test dying.sh <<'END'
echo 'ok - as far as it came'
kill -9 $$
END
make_test leaving.sh <<'END'
echo 'ok - done'
sleep 300 &
END

check_status 2 'a fuzzer that is not there is an error' "$library_dir/../fuzz/run" fuzz_typo
check_match 'no fuzzer fuzz_typo' "$errors" 'which is named'

check_status 0 'good tests pass' run_tests ./good.sh -- ./half.sh
check_equal '3 passed, 0 failed' "$(tail -n 1 <<<"$output")" \
    'with their checks counted in the last line'
check_equal '1 skipped:
    half: full disks: mounts need root' "$(tail -n 3 <<<"$output" | head -n 2)" \
    'and what was skipped above it'

check_status 0 'a test that was skipped whole has not failed' run_tests ./good.sh ./none.sh
check_match '^skip none: none: it is day' "$output" 'nor passed'
check_equal '2 passed, 0 failed' "$(tail -n 1 <<<"$output")" 'and counts as nothing'

check_status 1 'a failed check of a unit binary is a failure' run_tests ./unit_some
check_equal '2 passed, 1 failed' "$(tail -n 1 <<<"$output")" 'and a skipped one is not passed'
check_match 'unit_some: at_night: it is day' "$output" 'but named'

check_status 1 'so is one of a scenario' run_tests ./bad.sh ./good.sh
check_equal '2 passed, 1 failed' "$(tail -n 1 <<<"$output")" 'the others are counted'
check_match '\| not ok - three' "$output" 'and its output is shown'
check_match '! not ok - three' "$output" 'and what failed first'
check_match '^    bad: not ok - three' "$output" 'and once more at the end'

check_status 1 'a test without a check fails' run_tests ./silent.sh
check_equal '0 passed, 1 failed' "$(tail -n 1 <<<"$output")" 'as one'
check_status 1 'one that dies fails' run_tests ./dying.sh
check_equal '1 passed, 1 failed' "$(tail -n 1 <<<"$output")" 'beside what it had checked'
check_status 1 'one that leaves a process fails' run_tests ./leaving.sh
check_match 'left behind: process [0-9]+ \(sleep 300 \)' "$output" 'which is named'

# Fails the first time, passes from then on.
make_test once.sh <<'END'
echo 'ok - one'
[ -e first ] || { touch first; echo 'not ok - two'; exit 1; }
echo 'ok - two'
END
check_status 1 'a test that fails once has failed' run_tests ./once.sh
check_equal '1 passed, 1 failed' "$(tail -n 1 <<<"$output")" 'and runs once'
check_equal '' "$(grep 'once more' <<<"$output")" 'and nothing runs again'

rm "$inner/first"
export MQKV_REPEAT_FAILED=yes
check_status 0 'where failed tests run once more, as in .ci/run, it passes' \
    run_tests ./good.sh ./once.sh
check_match '^in the first runs: 3 passed, 1 failed$' "$output" 'the first result is told'
check_match '^    once: not ok - two$' "$output" 'with what failed in it'
check_equal '4 passed, 0 failed' "$(tail -n 1 <<<"$output")" 'and the second is the last line'
check_status 1 'what fails twice has failed' run_tests ./good.sh ./bad.sh
check_equal '2 passed, 1 failed' "$(tail -n 1 <<<"$output")" 'and is counted once'
check_equal 2 "$(grep -c '^    bad: not ok - three$' <<<"$output")" 'and told for either run'
check_status 1 'where many fail, nothing runs again' \
    run_tests ./bad.sh ./silent.sh ./dying.sh ./leaving.sh
check_equal '' "$(grep 'once more' <<<"$output")" 'since that is no accident'

# What hangs is ended, however long its turn takes to come
make_test hanging.sh <<'END'
sleep 1000 &
wait
END
limit_s=3 check_status 1 'a test that hangs fails' run_tests ./hanging.sh
check_match 'no end after 3 s: terminated' "$output" 'after its limit'

# Parts: each test is in just one
for part in 1/2 2/2; do
    MQKV_TEST_PART=$part check_status 0 "part $part of three tests passes" \
        run_tests ./good.sh -- ./half.sh ./none.sh
    parts+=" $(tail -n 1 <<<"$output")"
done
check_equal ' 2 passed, 0 failed 1 passed, 0 failed' "$parts" 'and together they are all'
