#!/bin/bash -eu
# build.sh: builds the fuzzers of tests/fuzz as ClusterFuzzLite and OSS-Fuzz want them, which set
# CC, CXX, CFLAGS, CXXFLAGS, LIB_FUZZING_ENGINE, SRC (with the tree in SRC/mqkv), WORK and OUT. Each
# has its seeds and its words beside it in OUT, and its libraries in OUT/lib, since it runs in
# another image. tests/scenario/fuzz_elsewhere.sh calls this as they do.
cd "$SRC/mqkv"
make -s -j"$(nproc)" OUT="$WORK/build" NATS= VARIANT=fuzz VARIANT_CFLAGS_fuzz= CC="$CC" \
    CFLAGS="$CFLAGS" LDFLAGS="-Wl,--disable-new-dtags,-rpath,'\$\$ORIGIN/lib'" \
    FUZZ_LINK="$CXX $CXXFLAGS $LIB_FUZZING_ENGINE" fuzz-binaries

mkdir -p "$OUT/lib"
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    cp "$WORK/build/tests/$name" "$OUT"
    [ ! -e "tests/fuzz/$name.dict" ] || cp "tests/fuzz/$name.dict" "$OUT"
    (cd "tests/fuzz/corpus/$name" && python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" ./*)
    ldd "$OUT/$name" | sed -n 's/.* => \(\/.*\) (.*/\1/p'
done | sort -u | grep -vE '/(libc|libm|libgcc_s|libstdc\+\+|libdl|librt|libpthread|libresolv)\.so' |
    xargs cp -t "$OUT/lib"
