#!/usr/bin/env bash
# rebuilt_packages: `make deb` gives the same bytes to everybody, from git and from the tarball.
# long: builds the packages twice
. "$(dirname "$0")/lib.sh"
. "$library_dir/../support/rebuilt.sh"

if ! command -v dh dpkg-buildpackage >/dev/null; then
    skip "the Debian packages: debhelper is not installed (tests/deps deb)"
    exit
fi
# Without optimisation, which takes half of the time: rebuilt_release compares what the compiler
# makes of the same input, and debug information, of which the build-id tells. The packages' own
# tests have nothing to say here.
export DEB_BUILD_OPTIONS='nocheck noopt noautodbgsym'

take_tree
# Some files are older than the commit, as after a pull.
(umask 022 && unpack_commit "$here_dir" && touch -d 2020-01-01 -- *.md docs/*) >/dev/null || exit 2
git -C "$here_dir" -c tar.umask=0022 archive --prefix=mqkv/ --output="$common_dir/mqkv.tar" HEAD
chmod a+r "$common_dir/mqkv.tar"
run_quietly "the packages are built from git" "$here_dir/packaging/deb" build
run_quietly "and from the tarball, by another user, elsewhere and later" as_somebody_else \
    bash -c "mkdir -p '$there_dir' && tar -x -C '$there_dir' -f '$common_dir/mqkv.tar' &&
        '$there_dir/mqkv/packaging/deb' build"
told_what_differs

contents() {
    local each
    for each in "$1" "$2"; do
        mkdir -p "$MQKV_TEST_DIR/unpacked"
        dpkg-deb -R "$each" "$MQKV_TEST_DIR/unpacked" && dpkg-deb -c "$each" &&
            (cd "$MQKV_TEST_DIR/unpacked" && find . -type f -exec md5sum {} + | LC_ALL=C sort -k 2)
        rm -rf "$MQKV_TEST_DIR/unpacked"
    done >"$MQKV_TEST_DIR/contents"
    sort "$MQKV_TEST_DIR/contents" | uniq -u
}
first_difference=(contents)
for package in "$here_dir/build/deb/"*.deb; do
    name=$(basename "$package")
    check_same "$package" "$there_dir/mqkv/build/deb/$name" "$name is the same"
done
