#!/usr/bin/env bash
# file_kinds: a store whose files are links, FIFOs, sockets, devices or directories is refused by
# name or served without them, at once; what a link points to is neither read for one nor changed
. "$(dirname "$0")/../scenario/lib.sh"

genuine=$MQKV_TEST_DIR/genuine
victim=$MQKV_TEST_DIR/victim
server_dir=$genuine
start_server -d 2
seq 1 200 | sed 's/.*/PUT key& value&/' | client batch -q - 2>/dev/null
stop_server
cp "$genuine/data.0000" "$victim"
printf 'not for others\n' >>"$victim"
victim_before=$(sha256sum "$victim")

make_link() { ln -s "$victim" "$1"; }
make_dangling_link() { ln -s "$MQKV_TEST_DIR/created-through-a-link" "$1"; }
make_hard_link_out() { ln "$victim" "$1"; }
make_fifo() { mkfifo "$1"; }
make_directory() { mkdir "$1"; }
make_link_to_zeros() { ln -s /dev/zero "$1"; }
make_socket() { python3 -c 'import os, socket, sys
os.chdir(os.path.dirname(sys.argv[1]))
socket.socket(socket.AF_UNIX).bind(os.path.basename(sys.argv[1]))' "$1"; }

# ended TEXT ALLOWED COMMAND...: it ends by itself, at once, with one of these statuses.
ended() {
    local text=$1 allowed=$2 status
    shift 2
    timeout -k 1 30 "$@" >"$MQKV_TEST_DIR/.said" 2>&1 </dev/null
    status=$?
    if [[ " $allowed " == *" $status "* ]]; then
        return 0
    fi
    not_ok "$text: $(basename "$1") ends with one of $allowed" "exit status $status
$(tail -n 20 "$MQKV_TEST_DIR/.said")"
    return 1
}

# serve TEXT FILE: a start answers, or ends with status 4 and the file's name. What is served is
# what was stored.
serve() {
    local text=$1 file=$2 status=0
    "$server_program" -m "$server_queue" -f "$server_dir" >"$server_log" 2>&1 </dev/null &
    server_pid=$!
    if ! wait_until 30 server_answers_or_is_gone; then
        not_ok "$text: a start answers or ends" "$(tail -n 20 "$server_log")"
        kill_server
        return 1
    fi
    if kill -0 "$server_pid" 2>/dev/null; then
        [ "$(client get key77)" = value77 ] || { not_ok \
            "$text: what is served is what was stored" && status=1; }
        stop_server || { not_ok "$text: it stops cleanly" && status=1; }
    else
        wait "$server_pid"
        status=$?
        if [ $status != 4 ] || ! grep -q "$file" "$server_log"; then
            not_ok "$text: a refused start names the file" "exit status $status
$(tail -n 20 "$server_log")"
            return 1
        fi
        status=0
    fi
    return $status
}

server_dir=$MQKV_TEST_DIR/store
for file in data.0000 data.0001.index data.0000.new data.0001.index.tmp data.0002 lock; do
    for kind in link dangling_link hard_link_out fifo directory link_to_zeros socket; do
        rm -rf "$server_dir"
        cp -r --sparse=always "$genuine" "$server_dir"
        rm -f "${server_dir:?}/$file"
        "make_$kind" "$server_dir/$file"
        text="$file is a ${kind//_/ }"
        if ended "$text" "0 1 4" "$MQKV_BUILD/kvcheck" "$server_dir" &&
            ended "$text" "0 4" "$server_program" --check -m "$server_queue" -f "$server_dir" &&
            serve "$text" "$file"
        then
            ok "$text: refused by name, or served without it"
        fi
        if [ "$kind" != hard_link_out ] && [ "$victim_before" != "$(sha256sum "$victim")" ]; then
            not_ok "$text: what it points to is left alone"
            break 2
        fi
        if [ -e "$MQKV_TEST_DIR/created-through-a-link" ]; then
            not_ok "$text: nothing is created through a link"
            break 2
        fi
        if [ "$kind" = hard_link_out ]; then \
            # the same file under two names: no link that could be told
            rm -f "$victim"
            cp "$genuine/data.0000" "$victim"
            printf 'not for others\n' >>"$victim"
        fi
    done
done
ok "nothing behind a link was changed or created"
