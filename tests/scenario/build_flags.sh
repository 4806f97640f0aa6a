#!/usr/bin/env bash
# build_flags: what hardens a release and what makes a sanitizer build does not depend on CFLAGS and
# LDFLAGS in the environment.
. "$(dirname "$0")/lib.sh"

source_dir=$library_dir/../..

# compile_line VARIANT: the command that would compile a module, with a user's own CFLAGS in the
# environment.
compile_line() {
    MAKEFLAGS='' CFLAGS='-O2 -g3' LDFLAGS='-Wl,--as-needed' make --no-print-directory -n -C \
        "$source_dir" \
        "VARIANT=$1" OUT="$MQKV_TEST_DIR/$1" "$MQKV_TEST_DIR/$1/obj/common/time/clock.o"
}

# link_line VARIANT: likewise the one that would link the daemon.
link_line() {
    MAKEFLAGS='' CFLAGS='-O2 -g3' LDFLAGS='-Wl,--as-needed' make --no-print-directory -n -C \
        "$source_dir" \
        "VARIANT=$1" OUT="$MQKV_TEST_DIR/$1" "$MQKV_TEST_DIR/$1/serverk" | grep -- \
            "-o $MQKV_TEST_DIR/$1/serverk "
}

for variant in asan:address,undefined tsan:thread; do
    sanitizer=${variant#*:}
    variant=${variant%:*}
    check_match "-fsanitize=$sanitizer" "$(compile_line "$variant")" \
        "$variant compiles with its sanitizer under CFLAGS=-O2"
    check_match "-fsanitize=$sanitizer" "$(link_line "$variant")" \
        "$variant links with it under LDFLAGS"
done
release=$(compile_line release)
for flag in -fstack-protector-strong -fstack-clash-protection '-D_FORTIFY_SOURCE=[23]' \
    '-ffile-prefix-map=' -g3; do
    check_match "$flag" "$release" "a release compiles with $flag"
done
check_match "'-ffile-prefix-map=/a tree=\.'" "$(MAKEFLAGS='' make --no-print-directory -n -C \
    "$source_dir" CURDIR='/a tree' OUT="$MQKV_TEST_DIR/blank" \
    "$MQKV_TEST_DIR/blank/obj/common/time/clock.o")" "also in a directory with a blank in its name"
check_match '--as-needed' "$(link_line release)" "the user's LDFLAGS are heeded"

if [ "${MQKV_VARIANT:-release}" = release ]; then
    for program in serverk clientk kvcheck; do
        check_match 'Type: *DYN' "$(readelf -hW "$MQKV_BUILD/$program")" \
            "$program is position-independent"
        check_match 'BIND_NOW' "$(readelf -dW "$MQKV_BUILD/$program")" \
            "$program binds all symbols at start"
        check_match 'GNU_RELRO' "$(readelf -lW "$MQKV_BUILD/$program")" \
            "$program has read-only relocations"
    done
    check_equal '' \
        "$(strings "$MQKV_BUILD/serverk" | grep -F "$(realpath "$source_dir")/" | head -n 1)" \
        "no path of the building machine is in the daemon"
elif [ "$MQKV_VARIANT" = asan ] || [ "$MQKV_VARIANT" = tsan ]; then
    symbols=$(nm -D "$MQKV_BUILD/serverk" 2>/dev/null)
    check_match "__${MQKV_VARIANT}_" "$symbols" \
        "the daemon under test is built with the ${MQKV_VARIANT} sanitizer"
fi
