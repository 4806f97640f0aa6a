#!/usr/bin/env bash
# clientk_dump: dump and load bring every entry back byte for byte, and see a damaged dump.
. "$(dirname "$0")/lib.sh"

start_server
cd "$MQKV_TEST_DIR" || exit 2

# Enough for several pages of a scan, binary of all kinds, a big value, an expiry.
seq 1 5000 | sed 's/.*/PUT key& "value &"/' >puts
python3 - >>puts <<'END'
import random
random.seed(1)
for i in range(300):
    def escaped(size):
        return "".join("\\x%02x" % random.randrange(256) for _ in range(size))
    print('PUT "%s%d" "%s"' % (escaped(random.randrange(20)), i, escaped(random.randrange(200))))
END
client batch -q puts
check_equal 0 $? 'the store is filled'
head -c 500000 /dev/urandom >big.value
client put big - <big.value >/dev/null
client put brief x --expires-at 4102444800000 >/dev/null
client put empty '' >/dev/null

check_status 0 'dump' client dump first
check_match '^clientk: 5303 entries dumped$' "$errors" 'counts the entries'
check_equal 5303 \
    "$(grep '^PUT ' first | cut -d'"' -f2 | sort -u | wc -l)" 'each key stands there once'
check_match '^# mqkv dump 1, queue ' "$(head -n 1 first)" 'a header'
check_match '^# mqkv dump end: 5303 entries, checksum [0-9a-f]{16}$' "$(tail -n 1 first)" \
    'a trailer'
check_match '^PUT "brief" "x" --expires-at 4102444800000$' "$(grep '"brief"' first)" 'an expiry'
check_equal 600 "$(stat -c %a first)" 'the file is private'
check_status 2 'no file is overwritten' client dump first
check_status 0 'unless --force' client dump first --force
check_equal "$(sort first | grep '^PUT' | md5sum)" \
    "$(client dump - 2>/dev/null | sort | grep '^PUT' | md5sum)" \
    'dump - writes to stdout'
check_equal 1 "$(client dump - --prefix brief 2>/dev/null | grep -c '^PUT')" '--prefix picks'

# Into a fresh store.
stop_server
server_dir=$MQKV_TEST_DIR/data2
start_server
check_status 0 'load' client load first
check_match '^clientk: 5303 entries loaded, 0 failed$' "$errors" 'counts the entries'
check_status 0 'dump again' client dump second
check_equal "$(grep '^PUT' first | sort | md5sum)" "$(grep '^PUT' second | sort | md5sum)" \
    'both dumps hold the same'
client get big | cmp -s - big.value
check_equal 0 $? 'a big value came through'
check_match '[0-9]+ ms' "$(client ttl brief)" 'an expiry too'

check_status 0 'load - reads stdin' client load - <first
check_status 0 '--if-absent leaves keys alone' client load --if-absent first
check_match '0 entries loaded, 5303 skipped' "$errors" 'all of them'
check_status 0 'a dump is a batch, too' client batch -q first

# Compressed.
check_status 0 'dump to a name that ends with .zst' client dump third.zst
check_match '^clientk: 5303 entries dumped$' "$errors" 'counts the entries'
check_equal 28b52ffd "$(head -c 4 third.zst | od -An -tx1 | tr -d ' ')" 'compresses'
[ "$(stat -c %s third.zst)" -lt "$(stat -c %s second)" ]
check_equal 0 $? 'to less'
client dump - --compress zstd 2>/dev/null >fourth
check_status 0 'load recognises it, in a file of any name' client load fourth
check_match '^clientk: 5303 entries loaded, 0 failed$' "$errors" 'whole'
check_status 0 'and in a pipe' client load - <third.zst
client dump --compress none plain.zst 2>/dev/null
check_equal "$(grep '^PUT' second | sort | md5sum)" "$(grep '^PUT' plain.zst | sort | md5sum)" \
    '--compress none stands above the name'
check_status 0 'which load does not look at' client load plain.zst
head -c 20000 third.zst >cut.zst
check_status 4 'compressed data that were cut off' client load cut.zst
check_match 'cut off; nothing was loaded' "$errors" 'load nothing'
check_status 4 'in a pipe, too' client load - <cut.zst
check_match 'cut off' "$errors" 'they are told'
printf 'XXXX' | dd of=third.zst bs=1 seek=9000 conv=notrunc status=none
check_status 4 'damaged ones' client load third.zst
check_match 'nothing was loaded|was changed' "$errors" 'load nothing, too'
check_status 2 'a terminal gets none' script -qec \
    "$MQKV_BUILD/clientk -m $server_queue dump --compress zstd -" /dev/null

check_status 2 'a file that is not there is wrong usage' client load nosuch

# Damage.
head -n 100 first >short
check_status 4 'a cut dump is refused' client load short
check_match 'cut off after 99 entries; nothing was loaded' "$errors" 'says why'
check_status 0 'unless --force' client load --force short
check_status 4 'a cut stream is reported' client load - <short
sed 's/"key77"/"key78"/' first >changed
check_status 4 'a changed byte is seen' client load changed
check_match 'checksum' "$errors" 'by the checksum'
printf 'PUT good 1\nGET good\nPUT bad "\nPUT last 2\n' >lines
check_status 2 'lines that are no records fail' client load lines
check_match '^clientk: load: lines:2: load takes PUT lines only' "$errors" 'with their place'
check_match '^clientk: load: lines:3: column 9: this quote is never closed' "$errors" 'each of them'
check_match '2 entries loaded, 2 failed' "$errors" 'the others are loaded'
check_equal 2 "$(client get last)" 'to the last'
check_status 4 'a full disk is reported' client dump /dev/full --force

# What fails half-way leaves what was there, and nothing else.
limited() ( # a file takes 8 KiB
    trap '' XFSZ
    ulimit -f 8
    "$@"
)
before=$(md5sum <first)
mkdir room
mv first room/first
chmod 640 room/first
check_status 4 'a dump that finds no room' limited client dump room/first --force
check_match "^clientk: dump: writing .*: File too large" "$errors" 'says why'
check_status 4 'a new one, too' limited client dump room/new
check_equal first "$(ls room)" 'leaves no file'
check_equal "$before" "$(md5sum <room/first)" 'and the dump before it as it was'
check_status 0 'a whole one replaces it' client dump room/first --force --prefix brief
check_equal 'first 640' "$(ls room) $(stat -c %a room/first)" 'and keeps its mode'
ln -s first room/link
check_status 0 'a link is written through' client dump room/link --force
check_equal "$(client scan --count)" "$(grep -c '^PUT' room/first)" 'to its file'

# A scan that is cut short says so.
mkfifo pipe
stuff_pipe pipe
exec_client scan >pipe 2>reports &
scan=$!
wait_until 20 test -e full
check_equal 0 $? 'a scan fills a pipe that nobody reads'
kill -TERM "$scan"
wait_until 20 eval "! kill -0 $scan 2>/dev/null"
check_equal 0 $? 'a signal ends a scan whose lines nobody reads'
check_match '^clientk: scan: interrupted after [0-9]+ entries' "$(cat reports)" \
    'which says how far it came'
kill "$pipe_reader"
wait "$pipe_reader" "$scan" 2>/dev/null || true

# So does one that is ended while it waits for the next entries.
if [ -z "${MQKV_TEST_ENGINE:-}" ]; then
    exec_client --direct off --timeout 60000 scan >pipe 2>reports &
    scan=$!
    exec 9<pipe
    head -c 1000 <&9 >/dev/null
    hold_still "$server_pid"
    cat <&9 >rest &
    reader=$!
    sleep 0.5 # by when it most likely waits for the daemon; wherever it is, it says the same
    kill -TERM "$scan"
    wait "$scan"
    kill -CONT "$server_pid"
    exec 9<&-
    wait "$reader"
    check_match '^clientk: scan: interrupted after [0-9]+ entries' "$(cat reports)" \
        'a scan that waits for a daemon says how far it came'
fi
