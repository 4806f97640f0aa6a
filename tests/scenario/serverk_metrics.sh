#!/usr/bin/env bash
# serverk_metrics: statistics for Prometheus, by the command and in a file
. "$(dirname "$0")/lib.sh"

metrics=$MQKV_TEST_DIR/mqkv.prom
umask 077 # as units have it
true >"$MQKV_TEST_DIR/serverk.conf"
start_server -d 3 --cache 1M --metrics "$metrics" -c "$MQKV_TEST_DIR/serverk.conf"
umask 022
wait_until 20 test -s "$metrics"
check_match '^mqkv_operations_total\{operation="put"\} 0$' "$(cat "$metrics")" \
    "the file is there when the daemon is ready"
check_equal 644 "$(stat -c %a "$metrics")" "a collector may read it"

client put a 1 >/dev/null
client get a >/dev/null
client --direct off get b >/dev/null
text=$(client metrics)
for line in 'operations_total\{operation="put"\} 1' 'errors_total\{status="not_found"\} [1-9]' \
    'stage_seconds_bucket\{stage="work",le="1e-06"\} [0-9]+' \
    'stage_seconds_bucket\{stage="work",le="10"\} [1-9]' \
    'stage_seconds_bucket\{stage="work",le="\+Inf"\} [1-9]' 'sessions\{uid="[0-9]+"\} 1' \
    'cache_max_bytes 1048576' 'resident_memory_bytes [1-9][0-9]{6,}' 'disk_free_bytes [0-9]+' \
    'open_fds [1-9][0-9]*' 'max_fds [1-9][0-9]*' 'cpu_seconds_total\{mode="user"\} [0-9.]+' \
    'shm_free_bytes [0-9]+' 'queue_messages\{kind="lane"\} [0-9]+' \
    'queue_capacity\{kind="lane"\} [1-9][0-9]*' 'sessions_refused_total\{reason="denied"\} 0' \
    'last_reload_success 1' 'last_reload_timestamp_seconds 0.000' 'audit_lost_records_total 0' \
    'last_backup_timestamp_seconds\{event="finished"\} 0.000' \
    'start_time_seconds 1[0-9]{9}\.[0-9]+' 'read_only_files 0' \
    "info\{version=\"[0-9.]+\",queue=\"$server_queue\",dir=\"$server_dir\"\} 1"; do
    check_match "^mqkv_$line$" "$text" "metrics has $line"
done
check_equal 1 "$(awk '/^mqkv_file_keys\{/ { sum += $NF } END { print sum }' <<<"$text")" \
    "the keys of the files add up"

# Reads in place: while the session lasts, of all threads, and after it.
reads_told() { # sums of hits, misses, and those of them without a message
    client metrics | sed -n -E 's/^mqkv_(direct_reads_total|reads_total.*) ([0-9]+)$/\2/p' | xargs
}
read -r hits misses in_place < <(reads_told)
for _ in {1..500}; do printf 'GET a\nGET none\nEXISTS a\n'; done | client batch -q - >/dev/null 2>&1
check_equal "$((hits + 1000)) $((misses + 500)) $((in_place + 1500))" "$(reads_told)" \
    "reads in place are counted when their session has ended"
exec_client bench -t 30 -n 2 --mix get=100 --keys 10 >/dev/null 2>&1 &
bench_pid=$!
told_more() {
    local now
    read -r _ _ now < <(reads_told)
    [ "$now" -gt $((in_place + 100000)) ]
}
check_status 0 "and while it lasts" wait_until 20 told_more
kill -9 "$bench_pid"
wait "$bench_pid" 2>/dev/null
check_status 0 "and when its process was killed" told_more
read -r _ _ in_place < <(reads_told)
told=$(client --format json stats operations | grep -oE '"direct_reads": ?[0-9]+' |
    grep -oE '[0-9]+$')
check_status 0 "stats has them, too" test "$told" -ge "$in_place"
check_match ' dead_bytes  +spare_bytes .* compaction_failing  nameless  damaged_at$' \
    "$(client stats files)" "and a column for each figure of the data files"
MQKV_REPLIES=queue client get a >/dev/null
check_equal "$in_place" "$(reads_told | cut -d' ' -f3)" "who has a reply queue tells nothing"

# The format: each sample belongs to the family announced before it, no family comes twice, each
# sample is a number, and the buckets of a histogram grow.
check_format() {
    check_equal "read to the end" "$(python3 - 3<<<"$1" <<'END'
import re
seen, family, last = set(), None, {}
for line in open(3):
    if line.startswith("# HELP "):
        continue
    if line.startswith("# TYPE "):
        family, kind = line.split()[2:]
        if family in seen or kind not in ("gauge", "counter", "histogram"):
            print("family", line)
        if (kind == "counter") != family.endswith("_total"):
            print("name", line)
        seen.add(family)
        continue
    sample = re.fullmatch(r'([a-z_]+)(\{[^}]*\})? (-?[0-9.e+]+)\n', line)
    if not sample or not sample[1].startswith(family):
        print("sample", line)
        continue
    if sample[1].endswith("_bucket"):
        stage = re.search('{([a-z]+="[a-z_]+")', line)[1]
        if float(sample[3]) < last.get(stage, 0):
            print("bucket", line)
        last[stage] = float(sample[3])
print("read to the end")
END
)" "$2"
}
check_format "$text" "the text is as Prometheus reads it"
if command -v promtool >/dev/null; then
    check_status 0 "promtool finds nothing" promtool check metrics <<<"$text"
else
    skip "promtool: not installed"
fi

# What became of reloads and backups
check_status 0 "a backup" client backup "$MQKV_TEST_DIR/backup"
text=$(client metrics)
for line in 'backups_total\{event="begun"\} 1' 'backups_total\{event="finished"\} 1' \
    'backups_total\{event="failed"\} 0' \
    'last_backup_timestamp_seconds\{event="finished"\} 1[0-9]{9}\.[0-9]+'; do
    check_match "^mqkv_$line$" "$text" "then metrics has $line"
done
mkdir "$MQKV_TEST_DIR/other" && : >"$MQKV_TEST_DIR/other/file"
client backup "$MQKV_TEST_DIR/other" >/dev/null 2>&1
dropped() {
    client metrics | grep -q '^mqkv_backups_total{event="failed"} 1$'
}
client backup - >/dev/full 2>"$MQKV_TEST_DIR/unfinished"
check_match 'cannot write the backup' "$(cat "$MQKV_TEST_DIR/unfinished")" "a backup that fails"
check_status 0 "is told" wait_until 20 dropped
check_status 0 "a reload" client config reload
text=$(client metrics)
check_match '^mqkv_last_reload_timestamp_seconds 1[0-9]{9}\.[0-9]+$' "$text" "its time is told"

# The file is written again and again, and goes with the daemon.
wait_until 30 grep -q 'operation="put"} 1' "$metrics"
check_match 'operation="put"\} 1' "$(cat "$metrics")" "the file is kept up to date"
check_equal "" "$(find "$MQKV_TEST_DIR" -name '*.new')" "nothing is left beside it"
stop_server
check_status 1 "it goes with the daemon" test -e "$metrics"

check_status 4 "a file in no directory is a failure to start" \
    "$server_program" -m "$server_queue" -f "$server_dir" --metrics "$MQKV_TEST_DIR/no/m"
check_match "no/m.new: cannot be written" "$errors" "that is named"

server_dir=$MQKV_TEST_DIR/many
start_server -d 300
check_format "$(client metrics)" "of 300 data files, too, it is as Prometheus reads it"
stop_server
