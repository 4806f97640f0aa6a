#!/usr/bin/env bash
# rebuilt_release: `make` and `make dist` give the same bytes to everybody; the bill of materials is
# valid; a signed release can be verified.
# long: builds all programs once more
. "$(dirname "$0")/lib.sh"
. "$library_dir/../support/rebuilt.sh"

take_tree
version=$("$MQKV_BUILD/serverk" --version | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)
programs=(serverk clientk kvcheck kresp "libclientk.so.1.$version" "libkvstore.so.1.$version")

# Here the programs are those under test, there they are built.
(umask 022 && unpack_commit "$here_dir") >/dev/null || exit 2
mkdir "$here_dir/build"
for file in "${programs[@]}" libclientk.a libkvstore.a; do
    cp -P "$MQKV_BUILD/$file" "$here_dir/build"
done
for file in libclientk libkvstore; do
    ln -s "$file.so.1.$version" "$here_dir/build/$file.so.1"
    ln -s "$file.so.1.$version" "$here_dir/build/$file.so"
done
run_quietly "the release is made" make -s -C "$here_dir" -o all dist
run_quietly "and made again, by another user, elsewhere and later" as_somebody_else \
    bash -c "common_dir='$common_dir'; $(declare -f unpack_commit)
        unpack_commit '$there_dir' && make -s -j2 dist"
told_what_differs

sections() { diff <(readelf -SW "$1") <(readelf -SW "$2"); }
first_difference=(sections)
for file in "${programs[@]}" libclientk.a libkvstore.a; do
    check_same "$here_dir/build/$file" "$there_dir/build/$file" "$file is the same"
done
first_difference=(diff)
check_same "$here_dir/build/mqkv-$version.spdx.json" "$there_dir/build/mqkv-$version.spdx.json" \
    "the bill of materials is the same"
listing() { diff <(tar -tvzf "$1") <(tar -tvzf "$2"); }
first_difference=(listing)
check_same "$here_dir/build/mqkv-$version.tar.gz" "$there_dir/build/mqkv-$version.tar.gz" \
    "the tarball is the same"

# The bill of materials: what tools ask for, and what readelf says.
bill=$here_dir/build/mqkv-$version.spdx.json
if command -v pyspdxtools >/dev/null; then
    check_status 0 "the SPDX tools accept the bill" pyspdxtools -i "$bill"
fi
# The time is that of the commit; a tarball's tree knows its own.
made_at=$(sed -n '/^\$/d; 2p' "$here_dir/packaging/COMMIT")
made_at=$(date -u -d "@${made_at:-1700000000}" +%Y-%m-%dT%H:%M:%SZ)
check_status 0 "the bill is SPDX 2.3, and has all that is linked" python3 - "$bill" "$made_at" \
    "${programs[@]/#/$here_dir/build/}" <<'END'
import hashlib, json, pathlib, re, subprocess, sys

bill, made_at, files = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3:]
assert bill["spdxVersion"] == "SPDX-2.3" and bill["dataLicense"] == "CC0-1.0"
assert bill["SPDXID"] == "SPDXRef-DOCUMENT" and "#" not in bill["documentNamespace"]
assert re.fullmatch(r"https?://\S+", bill["documentNamespace"])
assert bill["creationInfo"]["created"] == made_at, bill["creationInfo"]
for creator in bill["creationInfo"]["creators"]:
    assert re.match(r"(Person|Organization|Tool): \S", creator), creator
licences = {p["licenseDeclared"] for p in bill["packages"]}
words = {"MIT", "Apache-2.0", "LGPL-2.1-only", "LGPL-2.1-or-later", "GPL-2.0-only"}
words |= {"BSD-2-Clause", "BSD-3-Clause", "OR"}
assert {word for each in licences for word in each.split()} <= words, licences
every = bill["packages"] + bill["files"]
known = {each["SPDXID"] for each in every} | {"SPDXRef-DOCUMENT"}
assert len(known) == len(every) + 1
assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in known)
linked = set()
for r in bill["relationships"]:
    assert {r["spdxElementId"], r["relatedSpdxElement"]} <= known, r
    assert r["relationshipType"] in (
        "DESCRIBES CONTAINS DEPENDS_ON DYNAMIC_LINK STATIC_LINK").split(), r
    linked.add((r["spdxElementId"], r["relationshipType"], r["relatedSpdxElement"]))
for p in bill["packages"]:
    assert {"name", "SPDXID", "downloadLocation", "versionInfo"} <= set(p), p
    assert p["versionInfo"] not in ("", "NOASSERTION"), p
    for reference in p.get("externalRefs", []):
        assert re.fullmatch(r"pkg:deb/\w+/[^/@]+@[^?]+\?arch=\S+", reference["referenceLocator"])
sums = []
listed = {f["fileName"]: f for f in bill["files"]}
assert len(listed) == len(files) == len(bill["files"])
for file in map(pathlib.Path, files):
    entry, data = listed["./" + file.name], file.read_bytes()
    found = {c["algorithm"]: c["checksumValue"] for c in entry["checksums"]}
    assert found["SHA256"] == hashlib.sha256(data).hexdigest()
    sums.append(hashlib.sha1(data).hexdigest())
    assert found["SHA1"] == sums[-1]
    needed = subprocess.run(["readelf", "-dW", file], capture_output=True, text=True).stdout
    for library in re.findall(r"\(NEEDED\).*\[lib(\w+)\.so", needed):
        library = "c" if library == "m" else library
        found = [other for one, kind, other in linked
                 if one == entry["SPDXID"] and kind == "DYNAMIC_LINK"]
        assert any(re.search(rf"-lib{library}\d", other) for other in found), (file, library)
    assert any(one == entry["SPDXID"] and kind == "STATIC_LINK" for one, kind, _ in linked), file
code = hashlib.sha1("".join(sorted(sums)).encode()).hexdigest()
assert bill["packages"][0]["packageVerificationCode"] == {"packageVerificationCodeValue": code}
END

# The signature, with a key that is thrown away.
key=$MQKV_TEST_DIR/key signers=$MQKV_TEST_DIR/signers release=$here_dir/build/release
ssh-keygen -q -t ed25519 -N '' -C test -f "$key"
echo "mqkv-release namespaces=\"mqkv-release,git\" $(cat "$key.pub")" >"$signers"
sign() { make -s -C "$here_dir" release-sign "$@"; }
check_status 2 "without a key nothing is signed" sign
check_status 2 "nor with a key that nobody knows" sign "KEY=$key"
check_status 0 "a release is signed" sign "KEY=$key" "RELEASE_SIGNERS=$signers"
check_equal "SHA256SUMS SHA256SUMS.sig mqkv-$version.spdx.json mqkv-$version.tar.gz" \
    "$(cd "$release" && echo *)" "it has the tarball, the bill, their checksums and the signature"
# What SECURITY.md tells users to do, as it stands there.
mapfile -t commands < <(
    sed -n '/ssh-keygen -Y verify/,/sha256sum/s/^    //p' "$here_dir/SECURITY.md")
check_equal 3 ${#commands[@]} "SECURITY.md has the commands that verify it"
verify() {
    cp "$signers" "$release/release-signers"
    (cd "$release" && eval "$(printf '%s\n' "${commands[@]}")")
}
check_status 0 "which accept it" verify
echo >>"$release/mqkv-$version.tar.gz"
check_status 1 "but no other tarball" verify
sed -i '$d' "$release/SHA256SUMS"
check_status 255 "nor other checksums" verify

check_status 0 "a tag is signed" git -C "$here_dir" -c user.name=Ada -c user.email=ada@example.org \
    -c gpg.format=ssh -c "user.signingkey=$key" tag -s -m test v0.2.0
check_status 0 "and verified" git -C "$here_dir" -c "gpg.ssh.allowedSignersFile=$signers" \
    verify-tag v0.2.0

# The keys, and what is published of them.
grep -v '^#' "$here_dir/packaging/release-signers" | while read -r _ _ key; do
    echo "$key" >"$MQKV_TEST_DIR/published"
    fingerprint=$(ssh-keygen -lf "$MQKV_TEST_DIR/published" | cut -d' ' -f2)
    grep -qF "$fingerprint" "$here_dir/SECURITY.md" || echo "$fingerprint"
done >"$MQKV_TEST_DIR/unpublished"
check_equal "" "$(cat "$MQKV_TEST_DIR/unpublished")" "SECURITY.md has the fingerprint of each key"
