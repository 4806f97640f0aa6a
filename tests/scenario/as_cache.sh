#!/usr/bin/env bash
# as_cache: one switch makes a cache: it stays within its size, is warm after a restart, and what
# contradicts it is refused
. "$(dirname "$0")/lib.sh"

config=$MQKV_TEST_DIR/serverk.conf
size=8388608

stat_of() { # SECTION MEMBER
    client stats "$1" --format json | grep -oE "\"$2\":[0-9]+" | tail -1 | cut -d: -f2
}

is_within() { # NUMBER MOST
    [ "$1" -gt 0 ] && [ "$1" -le "$2" ] && echo yes
}

start_server --as-cache 8M
check_equal "sync none true as-cache
as-cache 8M true command line
max-bytes 8M true as-cache
evict s3fifo false as-cache" "$(client config get | tr -s ' ' |
    grep -E '^(as-cache|max-bytes|evict|sync) ')" "config get shows what it stands for"
check_equal off "$(client config get direct)" "and reads are seen by the policy"

# 40 MB of values, five times the bound, while some keys are read again and again.
client put hot yes >/dev/null
use_hot() {
    printf 'GET hot\nGET hot\nGET hot\n' | client batch - 2>/dev/null | paste -s -d ' '
}
use_hot >/dev/null
for round in 1 2 3 4 5; do
    check_status 0 "puts go on beyond the bound" client bench --mix put --keys 1000000 \
        --dist sequential --value-size 1000 -n 1 -c 8000 --prefix "$round:"
    check_equal "yes yes yes" "$(use_hot)" "what is used stays"
done
check_equal yes "$([ "$(stat_of bound evictions)" -gt 20000 ] && echo yes)" "others were evicted"
check_equal yes "$(is_within "$(stat_of bound live_bytes)" $size)" "live records are within it"
client compact >/dev/null
check_equal yes "$(is_within "$(($(du -s -k "$server_dir" | cut -f1) * 1024))" $((size * 4)))" \
    "and so is the disk: $(du -s -k "$server_dir" | cut -f1) KiB"

# A cache that is restarted is warm: nothing is thrown away, nor after kill -9.
keys=$(client count)
stop_server
start_server --as-cache 8M
check_equal "$keys yes" "$(client count) $(client get hot)" "a restart keeps what was there"
kill_server
start_server --as-cache 8M
check_equal "$keys yes" "$(client count) $(client get hot)" "kill -9, too"
stop_server

# The same as a key of the configuration file, and smaller: the start evicts.
cat >"$config" <<'END'
[store]
as-cache = 4M
evict = ttl
END
check_match "as-cache = 4M ; $config:2
; max-bytes = 4M ; as-cache
evict = ttl ; $config:3" "$("$server_program" -c "$config" -m "$server_queue" -f "$server_dir" \
    --check)" "--check tells what is given and what follows"
check_match "; sync = none ; as-cache" "$("$server_program" -c "$config" -m "$server_queue" \
    -f "$server_dir" --check)" "each with the option that it follows from"
sed -i /evict/d "$config"
start_server -c "$config"
check_equal yes "$(is_within "$(stat_of bound live_bytes)" $((size / 2)))" \
    "a start with a smaller bound evicts"

# Another size while it runs.
check_status 0 "config set changes the size" client config set as-cache 2M
check_equal "2M 2M" "$(client config get as-cache) $(client config get max-bytes)" "and the bound"
check_equal yes "$(is_within "$(stat_of bound live_bytes)" $((size / 4)))" "at once"
check_status 0 "a durability of its own" client config set sync always
check_status 0 "and another size" client config set as-cache 3M
check_equal "always 3M" "$(client config get sync) $(client config get max-bytes)" "both stay"
check_status 2 "config set of another bound beside it" client config set max-bytes 1M
check_match "max-bytes 1M contradicts --as-cache 3M" "$errors" "is refused with both"
sed -i 's/4M/6M/' "$config"
check_status 0 "a reload takes a new size" client config reload
check_equal "6M none" "$(client config get max-bytes) $(client config get sync)" "with the rest"
sed -i 's/as-cache = 6M/max-bytes = 6M/' "$config"
check_status 4 "a cache does not become a store" client config reload
check_match "as-cache stays 6M: .*not come or go" "$errors" "and the reload says so"
check_equal none "$(client config get sync)" "nor in part"
stop_server

# What contradicts it
for words in "--max-bytes 1G" "--max-bytes 0" "--evict none"; do
    # shellcheck disable=SC2086 # an option and its value
    check_status 2 "$words is refused" "$server_program" -m "$server_queue" -f "$server_dir" \
        --as-cache 8M $words
    check_match "^serverk: $words contradicts --as-cache 8M.*leave out one" "$errors" "with both"
done
check_status 2 "a bound of the file is, too" "$server_program" -m "$server_queue" \
    -f "$server_dir" -c "$config" --as-cache 8M
check_match "max-bytes 6M contradicts --as-cache 8M" "$errors" "with both"
check_status 0 "--as-cache 0 is none" "$server_program" -m "$server_queue" -f "$server_dir" \
    -c "$config" --as-cache 0 --check
