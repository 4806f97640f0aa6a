#!/usr/bin/env bash
# install: what `make install` puts in place is complete and can be built against; `make uninstall`
# takes all of it away.
. "$(dirname "$0")/lib.sh"

if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "a build with sanitizers is not one to install"
    exit
fi

root=$MQKV_TEST_DIR/root
prefix=/opt/mqkv
installed=$root$prefix
source_dir=$library_dir/../..

make_target() {
    MAKEFLAGS='' make --no-print-directory -C "$source_dir" OUT="$MQKV_BUILD" \
        DESTDIR="$root" PREFIX="$prefix" "$1" >"$MQKV_TEST_DIR/make.log" 2>&1
}

# pkg_config PACKAGE OPTION...: with the place below DESTDIR instead of the final one.
pkg_config() {
    local package=$1
    shift
    PKG_CONFIG_PATH=$installed/lib/pkgconfig \
        pkg-config "--define-variable=prefix=$installed" "$@" "$package"
}

# compile PROGRAM FLAG...: PROGRAM.c; warnings are errors.
compile() {
    local program=$1
    shift
    (cd "$MQKV_TEST_DIR" && gcc -std=c11 -Wall -Wextra -Werror -o "$program" "${program%-*}.c" "$@")
}

check_file() {
    if [ -s "$installed/$1" ]; then ok "$1 is there"; else not_ok "$1 is there"; fi
}

cat >"$MQKV_TEST_DIR/client.c" <<'END'
#include <mqkv/clientk.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct clientk *client;
    struct kv_error error = {0};
    struct clientk_options options = {.queue = argv[argc - 1]};
    if (clientk_open(&options, &client, &error) != KV_OK)
        return fprintf(stderr, "%s\n", error.text), 3;
    enum kv_status status =
        clientk_put(client, kv_slice_from_string("name"), kv_slice_from_string("Ada"), NULL, NULL);
    puts(kv_status_text(status));
    clientk_close(client);
    return status != KV_OK;
}
END

cat >"$MQKV_TEST_DIR/store.c" <<'END'
#include <mqkv/kvstore.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct kvstore *store;
    struct kv_error error = {0};
    struct kvstore_options options = {.create = true};
    if (kvstore_open(argv[argc - 1], &options, &store, &error) != KV_OK)
        return fprintf(stderr, "%s\n", error.text), 1;
    return kvstore_close(store, &error) != KV_OK;
}
END

if ! make_target install; then
    not_ok "make install" "$(cat "$MQKV_TEST_DIR/make.log")"
    exit
fi
ok "make install"

# Completeness.
for file in bin/serverk bin/clientk bin/kvcheck lib/libclientk.a lib/libclientk.so lib/libkvstore.a \
    include/mqkv/clientk.h include/mqkv/kvstore.h share/man/man1/serverk.1 \
    share/man/man1/clientk.1 share/man/man1/kvcheck.1 share/man/man3/clientk.3; do
    check_file "$file"
done
for program in serverk clientk kvcheck; do
    check_status 0 "installed $program starts" "$installed/bin/$program" -V
    check_equal "" "$(ldd "$installed/bin/$program" | grep 'not found')" "$program finds its libraries"
done
version=$(pkg_config libclientk --modversion)
check_equal "$version" "$(pkg_config libkvstore --modversion)" "both packages have one version"
abi=$(sed -n 's/^LIBCLIENTK_ABI := //p' "$source_dir/Makefile")
check_match "SONAME.*\[libclientk\.so\.$abi\]" "$(readelf -d "$installed/lib/libclientk.so")" \
    "the shared library has the number of its interface in its soname"
check_equal "" "$(nm -D --defined-only "$installed/lib/libclientk.so" | awk '$2 != "A" { sub("@.*", "", $3); print $3 }' |
    grep -vE '^(clientk|kv)_')" "the shared library exports clientk_ and kv_ names only"

# A program against the client library, shared and static.
read -ra cflags < <(pkg_config libclientk --cflags)
read -ra shared_libs < <(pkg_config libclientk --libs)
read -ra static_libs < <(pkg_config libclientk --libs --static)
check_status 0 "a program links with the shared library" \
    compile client-shared "${cflags[@]}" "${shared_libs[@]}"
check_status 0 "and with the static one" \
    compile client-static "${cflags[@]}" "${static_libs[@]/#-lclientk/-l:libclientk.a}"
check_match "$installed/lib/libclientk\.so\.$abi" \
    "$(LD_LIBRARY_PATH=$installed/lib ldd "$MQKV_TEST_DIR/client-shared")" \
    "the first loads the shared library"
check_equal "" "$(ldd "$MQKV_TEST_DIR/client-static" | grep libclientk)" "the second needs none"

server_program=$installed/bin/serverk
start_server
for kind in shared static; do
    check_status 0 "the $kind one talks to the installed daemon" \
        env LD_LIBRARY_PATH="$installed/lib" "$MQKV_TEST_DIR/client-$kind" "$server_queue"
    check_equal "done" "$output" "and says so"
done
stop_server

# A program against the storage engine.
read -ra store_flags < <(pkg_config libkvstore --cflags --libs --static)
mkdir "$MQKV_TEST_DIR/store"
check_status 0 "a program links with the storage engine" compile store-static "${store_flags[@]}"
check_status 0 "and opens a store" "$MQKV_TEST_DIR/store-static" "$MQKV_TEST_DIR/store"

check_status 0 "make uninstall" make_target uninstall
check_equal "" "$(find "$root" ! -type d)" "nothing is left of it"
