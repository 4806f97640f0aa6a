#!/usr/bin/env bash
# install: what `make install` puts in place is complete and can be built against; `make uninstall`
# takes all of it away.
# long: installs, and builds against what is installed
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

# man_example PAGE: prints the program in the page's EXAMPLES.
man_example() {
    sed -n '/^\.Sh EXAMPLES/,/^\.Ed/p' "$source_dir/docs/$1" | sed -e '/^\./d' -e 's/\\e/\\/g'
}
man_example clientk.3 >"$MQKV_TEST_DIR/clientk_page.c"
man_example clientk_queue.3 >"$MQKV_TEST_DIR/clientk_queue_page.c"
man_example kvstore.3 >"$MQKV_TEST_DIR/kvstore_page.c"

if ! (umask 077 && make_target install); then
    not_ok "make install" "$(cat "$MQKV_TEST_DIR/make.log")"
    exit
fi
ok "make install"

check_equal "" "$(find "$root" -type f ! -perm -444)" "all may read what is installed"

# Completeness.
for file in bin/serverk bin/clientk bin/kvcheck \
    lib/libclientk.a lib/libclientk.so lib/libkvstore.a lib/libkvstore.so \
    include/mqkv/clientk.h include/mqkv/clientk_queue.h include/mqkv/kvstore.h \
    share/man/man1/serverk.1 share/man/man1/clientk.1 share/man/man1/kvcheck.1 \
    share/man/man3/clientk.3 share/man/man3/clientk_queue.3 share/man/man3/kvstore.3 \
    lib/systemd/system/serverk.service lib/systemd/system/serverk@.service \
    lib/systemd/system/kresp.service \
    lib/sysusers.d/mqkv.conf lib/tmpfiles.d/mqkv.conf share/doc/mqkv/examples/60-mqkv.conf \
    share/doc/mqkv/examples/mqkv-dashboard.json \
    etc/mqkv/serverk.conf etc/logrotate.d/mqkv; do
    check_file "$file"
done

# What shells other than bash complete comes from the help, too.
for program in clientk serverk kvcheck kresp; do
    check_file "share/zsh/site-functions/_$program"
    check_file "share/fish/vendor_completions.d/$program.fish"
done
# zsh_completes WORD...: what zsh proposes for the last word, with a stand-in for its _describe.
zsh_completes() {
    PATH=$installed/bin:$PATH zsh -f -c '
        _describe() { print -rl -- ${(P)@[-1]} }
        _files() { print files }
        words=("$@") CURRENT=$# PREFIX=$words[-1]
        . "$0"' "$installed/share/zsh/site-functions/_$1" "$@"
}
# fish_completes LINE: what fish proposes behind it.
fish_completes() {
    # shellcheck disable=SC2016
    PATH=$installed/bin:$PATH HOME=$MQKV_TEST_DIR fish --no-config -c '
        source $argv[1]; complete -C $argv[2]' \
        "$installed/share/fish/vendor_completions.d/${1%% *}.fish" "$1"
}
if [[ -n $(type -P zsh) ]]; then
    check_match 'put:store a value' "$(zsh_completes clientk -m /x p)" "zsh completes commands"
    check_match '--if-absent:only if' "$(zsh_completes clientk put --)" "and their options"
    check_match '--evict:none' "$(zsh_completes serverk --)" "and those of serverk"
    check_equal files "$(zsh_completes kvcheck --online /)" "and files"
else
    skip "zsh completes commands and options" "there is no zsh"
fi
if [[ -n $(type -P fish) ]]; then
    check_match $'put\tstore a value' "$(fish_completes 'clientk -m /x pu')" \
        "fish completes commands"
    check_match $'--if-absent\tonly if' "$(fish_completes 'clientk put --if')" "and their options"
    check_match $'--evict\tnone' "$(fish_completes 'serverk --ev')" "and those of serverk"
else
    skip "fish completes commands and options" "there is no fish"
fi

# completion_of PROGRAM WORD...: what its bash completion proposes for the last word.
completion_of() {
    (
        PATH=$installed/bin:$PATH
        # shellcheck source=/dev/null
        . "$installed/share/bash-completion/completions/$1" || exit
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        "_$1"
        echo "${COMPREPLY[*]}"
    )
}
check_equal "--sync" "$(completion_of serverk --sy)" "bash completes options of serverk"
check_equal "none interval always" "$(completion_of serverk --sync '')" "and the words they take"
check_equal "none ttl s3fifo" "$(completion_of serverk --evict '')" "digits and all"
check_equal "--spin --locking" \
    "$(completion_of serverk --spi) $(has_lab 'an option of the lab' >/dev/null &&
        completion_of serverk --lock || echo --locking)" "and options of each page of its help"
check_equal "tuning studies" "$(completion_of serverk -h '')" "which it knows"
check_equal "off" "$(completion_of clientk --direct of)" "words of clientk's options"
check_match "doctor" "$(completion_of clientk --direct off doct)" "which are no commands"
check_equal "put persist" "$(completion_of clientk transact --if-absent k -- p)" \
    "steps of a transaction"
check_equal "--no-create" "$(completion_of clientk transact -- put a 1 -- add n 1 --no)" \
    "and their options"
check_equal "--if-absent --if-present --if-value --if-version" \
    "$(completion_of clientk transact --if)" "as its guards"
check_equal "put peek" "$(completion_of clientk queue p)" "words of queue"
check_equal "leased later" "$(completion_of clientk queue list mail l)" "and states of jobs"
check_equal "--from" "$(completion_of clientk count --fr)" "options of ranges"
check_equal "--salvage" "$(completion_of kvcheck --s)" "options of kvcheck"
check_equal "text json" "$(completion_of kvcheck --format '')" "and the words they take"
check_equal "--socket" "$(completion_of kresp --so)" "options of kresp"
check_match "doctor" "$(completion_of clientk doct)" "and commands of clientk"
for program in serverk clientk kvcheck; do
    check_status 0 "installed $program starts" "$installed/bin/$program" -V
    check_equal "" "$(ldd "$installed/bin/$program" | grep 'not found')" \
        "$program finds its libraries"
done
check_status 0 "installed mqkv-redis starts" "$installed/bin/mqkv-redis" --help
version=$(pkg_config libclientk --modversion)
check_equal "$version" "$(pkg_config libkvstore --modversion)" "both packages have one version"
abi=$(sed -n 's/^LIBCLIENTK_ABI := //p' "$source_dir/Makefile")
check_match "SONAME.*\[libclientk\.so\.$abi\]" "$(readelf -d "$installed/lib/libclientk.so")" \
    "the shared library has the number of its interface in its soname"
abi=$(sed -n 's/^LIBKVSTORE_ABI := //p' "$source_dir/Makefile")
check_match "SONAME.*\[libkvstore\.so\.$abi\]" "$(readelf -d "$installed/lib/libkvstore.so")" \
    "and so has the storage engine's"

# What the headers declare is what the libraries export.
read -ra cflags < <(pkg_config libclientk --cflags)

# program_of HEADER FUNCTION...: prints a program that needs all of the functions.
program_of() {
    local header=$1
    shift
    printf '#include <mqkv/%s>\n#include <stdio.h>\n' "$header"
    printf 'int main(void)\n{\n    const void *volatile found = NULL;\n    int count = 0;\n'
    printf '    found = (const void *)&%s; count += found != NULL;\n' "$@"
    printf '    printf("%%d\\n", count);\n    return 0;\n}\n'
}

# check_all_of HEADER LIBRARY FLAG...: as C and as C++, against LIBRARY.so, if there is one, and
# LIBRARY.a.
check_all_of() {
    local header=$1 library=$2 functions kind language
    shift 2
    mapfile -t functions < <("$source_dir/tests/lint/abi" functions "$header")
    program_of "$header" "${functions[@]}" >"$MQKV_TEST_DIR/all.c"
    for kind in so a; do
        [ -e "$installed/lib/$library.$kind" ] || continue
        for language in c c++; do
            check_status 0 "every function of $header is in $library.$kind ($language)" \
                gcc -x "$language" -Wall -Wextra -Werror -Wno-address -o "$MQKV_TEST_DIR/all" \
                "${cflags[@]}" "$MQKV_TEST_DIR/all.c" -x none "-L$installed/lib" \
                "-l:$library.$kind" "$@"
        done
        check_equal "${#functions[@]}" "$(LD_LIBRARY_PATH=$installed/lib "$MQKV_TEST_DIR/all")" \
            "and the program runs"
    done
    [ -e "$installed/lib/$library.so" ] || return
    check_equal "$(printf '%s\n' "${functions[@]}")" \
        "$(nm -D --defined-only "$installed/lib/$library.so" |
            awk '$2 != "A" { sub("@.*", "", $3); print $3 }' | sort)" \
        "$library.so exports nothing else"
}

if [ "$(command -v clang)" ]; then
    check_all_of clientk_queue.h libclientk -pthread -lm
    check_all_of kvstore.h libkvstore -pthread -lxxhash -lm
    check_all_of allocator.h liballocator -pthread
else
    skip "without clang the functions of the headers are not known"
fi

# A program against the client library, shared and static.
abi=$(sed -n 's/^LIBCLIENTK_ABI := //p' "$source_dir/Makefile")
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
check_equal "get set reload" "$(completion_of clientk -m "$server_queue" config '')" \
    "bash completes the words of config"
check_equal "max-bytes max-value" "$(completion_of clientk -m "$server_queue" config set max-)" \
    "the settings that can be set while the server runs"
check_match "cpus" "$(completion_of clientk -m "$server_queue" config get c)" "and those to look at"
check_equal "files" "$(completion_of clientk -m "$server_queue" stats f)" "and sections of stats"
for kind in shared static; do
    check_status 0 "the $kind one talks to the installed daemon" \
        env LD_LIBRARY_PATH="$installed/lib" "$MQKV_TEST_DIR/client-$kind" "$server_queue"
    check_equal "done" "$output" "and says so"
done
stop_server

# A program against the storage engine, shared and static.
read -ra store_flags < <(pkg_config libkvstore --cflags --libs)
read -ra static_store_flags < <(pkg_config libkvstore --cflags --libs --static)
mkdir "$MQKV_TEST_DIR/store"
check_status 0 "a program links with the shared storage engine" compile store-shared \
    "${store_flags[@]}"
check_status 0 "and with the static one" \
    compile store-static "${static_store_flags[@]/#-lkvstore/-l:libkvstore.a}"
check_equal "" "$(ldd "$MQKV_TEST_DIR/store-static" | grep libkvstore)" "which needs no shared one"
for kind in shared static; do
    check_status 0 "the $kind one opens a store" \
        env LD_LIBRARY_PATH="$installed/lib" "$MQKV_TEST_DIR/store-$kind" "$MQKV_TEST_DIR/store"
done

# The examples of the man pages, and that the pages name every function.
check_status 0 "the example of kvstore(3) compiles" compile kvstore_page-shared "${store_flags[@]}"
mkdir "$MQKV_TEST_DIR/page"
check_status 0 "and runs" \
    env LD_LIBRARY_PATH="$installed/lib" "$MQKV_TEST_DIR/kvstore_page-shared" "$MQKV_TEST_DIR/page"
check_equal 'Hello, Ada!' "$output" "and says so"
check_status 0 "the example of clientk(3) compiles" \
    compile clientk_page-shared "${cflags[@]}" "${shared_libs[@]}"
check_status 0 "and that of clientk_queue(3)" \
    compile clientk_queue_page-shared "${cflags[@]}" "${shared_libs[@]}"
for library in clientk kvstore; do
    check_equal "" "$(nm -D --defined-only "$installed/lib/lib$library.so" |
        awk '$2 != "A" { sub("@.*", "", $3); print $3 }' |
        while read -r name; do
            grep -qs "^\.Fn $name " "$source_dir/docs/$library"{,_queue}.3 || echo "$name"
        done)" \
        "the manual has every function of lib$library"
done

check_status 0 "make uninstall" make_target uninstall
check_equal "" "$(find "$root" ! -type d)" "nothing is left of it"

# Where programs find the libraries: ldconfig knows the directory or not.
home=$MQKV_TEST_DIR/home

# install_home: as `make install PREFIX=$home` prints it, with an ldconfig that knows
# $ldconfig_knows.
install_home() {
    cat >"$MQKV_TEST_DIR/ldconfig" <<END
#!/bin/sh
if [ \$# -gt 0 ]; then echo '$ldconfig_knows/lib: (from test)'; exit; fi
echo ran >>'$MQKV_TEST_DIR/ldconfig.runs'
exit $ldconfig_status
END
    chmod +x "$MQKV_TEST_DIR/ldconfig"
    MAKEFLAGS='' make --no-print-directory -C "$source_dir" OUT="$MQKV_BUILD" PREFIX="$home" \
        LDCONFIG="$MQKV_TEST_DIR/ldconfig" install
}

ldconfig_knows=$home ldconfig_status=0
check_status 0 "an installation in a directory that the dynamic linker searches" install_home
check_equal ran "$(cat "$MQKV_TEST_DIR/ldconfig.runs")" "runs ldconfig"
ldconfig_status=1
check_status 0 "without the right to run it" install_home
check_match 'Run ldconfig as root' "$output" "says so"
ldconfig_knows=/nowhere
check_status 0 "an installation elsewhere" install_home
check_match "LD_LIBRARY_PATH=$home/lib" "$output" "says how programs find the libraries"

# The example, compiled as its comment and that sentence say.
cp "$source_dir/examples/hello.c" "$MQKV_TEST_DIR/hello.c"
server_program=$home/bin/serverk
sentence=$(printf '%s\n' "$output" | sed -n 's/^ *cc PROGRAM\.c //p')
start_server
check_status 0 "the example compiles as the sentence says" \
    sh -c "cc '$MQKV_TEST_DIR/hello.c' $sentence -o '$MQKV_TEST_DIR/hello'"
check_status 0 "and runs" env MQKV_QUEUE="$server_queue" "$MQKV_TEST_DIR/hello"
check_match '^Hello, Ada' "$output" "and greets"
