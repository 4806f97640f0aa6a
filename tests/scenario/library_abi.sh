#!/usr/bin/env bash
# library_abi: a header that changes what programs were built with is noticed, and the check says
# what to do.
# long: compiles the headers with each change
. "$(dirname "$0")/lib.sh"

abi=$library_dir/../lint/abi
if ! [ "$(command -v clang)" ]; then
    skip "the check of the binary interface needs clang"
    exit
fi

# check_change STATUS PATTERN WHAT SED: as `abi check` judges headers that SED has changed.
check_change() {
    rm -rf "$MQKV_TEST_DIR/include"
    cp -r "$library_dir/../../include" "$MQKV_TEST_DIR/include"
    sed -i "$4" "$MQKV_TEST_DIR"/include/mqkv/*.h
    check_status "$1" "$3" "$abi" check "$MQKV_TEST_DIR/include"
    check_match "$2" "$output" "the check says what to do"
}

check_change 0 'keep their binary interfaces' "headers as they are" ''
check_change 1 'raise LIBCLIENTK_ABI' "a member in the middle" \
    's/^    uint32_t timeout_ms;/    uint64_t more; &/'
check_change 1 'raise LIBKVSTORE_ABI' "a function that is gone" '/^uint32_t kvstore_datafiles(/d'
check_change 1 'raise LIBCLIENTK_ABI' "another number" 's/CLIENTK_GET = 1/CLIENTK_GET = 2/'
check_change 1 'has grown' "a new function" 's/^struct clientk;/&\nvoid clientk_more(void);/'
