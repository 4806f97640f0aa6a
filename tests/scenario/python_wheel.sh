#!/usr/bin/env bash
# python_wheel: the wheel is complete, installs into an environment of its own, and works there.
# long: builds a wheel and installs it
. "$(dirname "$0")/lib.sh"

if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "a build with sanitizers is not one to make a wheel of"
    exit
fi
source_dir=$(cd "$library_dir/../.." && pwd)
python=$(command -v /usr/bin/python3 || command -v python3)
if ! "$python" -c 'import setuptools, wheel, pip, venv, ensurepip' 2>/dev/null; then
    skip "the wheel: pip, setuptools, wheel or venv is not there (tests/deps wheel, python3-venv)"
    exit
fi
if [ ! -e "$MQKV_BUILD/python/mqkv/_mqkv.abi3.so" ]; then
    skip "the wheel: Python's header is not there (python3-dev)"
    exit
fi

# pip builds beside the sources: in a copy, as a clone has it, since they may be another user's.
copy=$MQKV_TEST_DIR/source
mkdir -p "$copy" "$MQKV_TEST_DIR/wheel"
tar -C "$source_dir" --exclude=./build --exclude=./.git -c . | tar -x -C "$copy"
check_status 0 "the wheel is built in a clean clone" env -u MQKV_BUILD -u MAKEFLAGS -u CC \
    "$python" -m pip wheel --quiet --no-deps --no-index --no-build-isolation \
    --wheel-dir "$MQKV_TEST_DIR/wheel" "$copy/bridges/python"
wheel=$(echo "$MQKV_TEST_DIR"/wheel/*.whl)
check_match '/mqkv-[0-9.]+-cp311-abi3-linux_[a-z0-9_]+\.whl$' "$wheel" \
    "for Python 3.11 and all later versions"
check_equal "" "$("$python" -m zipfile -l "$wheel" | awk 'NR > 1 { print $1 }' |
    grep -vE '^mqkv/([a-z_]+\.pyi?|__init__\.py|_mqkv\.pyi|_mqkv\.abi3\.so|py\.typed)$' |
    grep -vE '^mqkv-[0-9.]+\.dist-info/')" "with the package and nothing else in it"
check_status 0 "an environment" "$python" -m venv "$MQKV_TEST_DIR/venv"
check_status 0 "into which it installs" "$MQKV_TEST_DIR/venv/bin/pip" install --quiet --no-deps \
    --no-index "$wheel"
mypy=$(command -v mypy)
if [ -n "$mypy" ]; then
    printf '%s\n' 'import asyncio, mqkv.aio, mqkv.redis, mqkv.dbm, mqkv.mapping' \
        'async def ask(client: mqkv.aio.Client) -> bool:' \
        '    return await asyncio.create_task(client.exists("k"))' \
        'def use(client: mqkv.Client, opened: mqkv.aio.Client) -> int:' \
        '    @client.transactional(tries=5)' \
        '    def size(t: mqkv.Transaction, key: str) -> int:' \
        '        return len(t.get(key, b""))' \
        '    @opened.transactional()' \
        '    async def copy(t: mqkv.aio.Transaction, key: str) -> None:' \
        '        t["copy"] = await t.get(key, b"")' \
        '    asyncio.run(copy("k"))' \
        '    return size("k")' \
        'def remember(cache: mqkv.Cache) -> "list[float]":' \
        '    @cache.memoize(expire=60)' \
        '    def half(number: int) -> float:' \
        '        return number / 2' \
        '    half("1")  # type: ignore[arg-type]  # mypy complains if this is right' \
        '    return [half(1)]' >"$MQKV_TEST_DIR/use.py"
    check_status 0 "its types are those that mypy --strict finds" "$mypy" --strict \
        --cache-dir="$MQKV_TEST_DIR/mypy" --python-executable "$MQKV_TEST_DIR/venv/bin/python" \
        -p mqkv "--config-file="
    check_status 0 "and a program's that uses it" "$mypy" --strict \
        --cache-dir="$MQKV_TEST_DIR/mypy" --python-executable "$MQKV_TEST_DIR/venv/bin/python" \
        --config-file= "$MQKV_TEST_DIR/use.py"
else
    skip "the wheel's types: mypy is not there"
fi
start_server
check_status 0 "and where it works" "$MQKV_TEST_DIR/venv/bin/python" -I -c "
import mqkv, mqkv.aio, mqkv.dbm
with mqkv.Client('$server_queue') as client:
    client.put('name', 'Ada')
    print(client.get('name').decode(), mqkv.__version__)"
check_equal "Ada $("$MQKV_BUILD/clientk" -V | sed 's/.* //')" "$output" "with the library's version"
check_equal Ada "$(client get name)" "so that others see it"
check_status 0 "mqkv-redis is there too" "$MQKV_TEST_DIR/venv/bin/mqkv-redis" --help
