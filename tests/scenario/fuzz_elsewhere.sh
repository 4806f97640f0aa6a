#!/usr/bin/env bash
# fuzz_elsewhere: .clusterfuzzlite/build.sh builds all fuzzers as ClusterFuzzLite and OSS-Fuzz call
# it, without the network, and each runs on its seeds.
# long: builds the fuzzers with clang
. "$(dirname "$0")/lib.sh"

if [ "${MQKV_VARIANT:-release}" != release ] || ! command -v clang++ >/dev/null; then
    skip "fuzzers for others: they are built once, by clang"
    exit
fi
unset MAKEFLAGS MAKELEVEL MFLAGS
tree=$(realpath "$library_dir/../..")
out=$MQKV_TEST_DIR/out
mkdir "$MQKV_TEST_DIR"/{src,work,out}
ln -s "$tree" "$MQKV_TEST_DIR/src/mqkv"

alone=(unshare --net)
if ! "${alone[@]}" true 2>/dev/null; then
    skip "the build without the network: no network namespace can be had"
    alone=()
fi
flags='-O1 -fno-omit-frame-pointer -gline-tables-only'
flags+=' -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION -fsanitize=address'
flags+=' -fsanitize-address-use-after-scope -fsanitize=fuzzer-no-link'
check_status 0 "the fuzzers are built" "${alone[@]}" env CC=clang CXX=clang++ "CFLAGS=$flags" \
    "CXXFLAGS=$flags" LIB_FUZZING_ENGINE=-fsanitize=fuzzer "SRC=$MQKV_TEST_DIR/src" \
    "WORK=$MQKV_TEST_DIR/work" "OUT=$out" "$tree/.clusterfuzzlite/build.sh"
rm -r "$MQKV_TEST_DIR/work"
for source in "$tree"/tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    mkdir "$MQKV_TEST_DIR/$name"
    options=(-seed=1 -max_total_time=1 -timeout=25 -rss_limit_mb=2560)
    [ ! -e "$tree/tests/fuzz/$name.dict" ] || options+=("-dict=$out/$name.dict")
    python3 -m zipfile -e "$out/${name}_seed_corpus.zip" "$MQKV_TEST_DIR/$name"
    check_status 0 "$name runs on its seeds" "$out/$name" "${options[@]}" "$MQKV_TEST_DIR/$name"
    check_equal "" "$(ldd "$out/$name" | grep '=> /' | grep -vE \
        "=> $out/lib/|/lib(c|m|gcc_s|stdc\+\+|dl|rt|pthread|resolv)\.so")" \
        "$name brings its libraries"
done
