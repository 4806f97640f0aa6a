#!/usr/bin/env bash
# stock_server: the example's batch and session give what its files say; orders that cannot be
# filled change nothing, and show sees what was sold.
. "$(dirname "$0")/lib.sh"

example=$(cd "$library_dir/../../examples/stock-server" && pwd)
start_server -d 1

# One-shot: the bound holds either way, exit status 1, nothing changed.
client put stock:1 10 >/dev/null
check_status 0 'an order that can be filled' client add stock:1 -4 --min 0 --max 10 --no-create
check_equal 6 "$output" 'tells what is left'
check_status 1 'buying more than is left fails' client add stock:1 -7 --min 0 --max 10 --no-create
check_match 'add stock:1: the sum would leave its bounds; nothing changed' "$errors" 'and says why'
check_status 1 'so does giving back too much' client add stock:1 5 --min 0 --max 10 --no-create
check_equal 6 "$(client get stock:1)" 'and nothing changed'
check_status 0 'show lists it' client scan stock: --atomic
check_equal 'stock:1 6' "$output" 'with its number'
check_status 0 'keys alone' client scan stock: --atomic --keys
check_equal 'stock:1' "$output" 'can be listed'
check_status 2 'an atomic scan has no limit' client scan stock: --atomic --limit 3
check_match '--limit' "$errors" 'and says so'
client del stock:1 >/dev/null

# The batch.
check_status 1 'the batch: some orders could not be filled' client batch "$example/day.batch"
check_equal 2 "$(grep -c 'out_of_bounds' <<<"$output")" 'two for want of stock'
check_equal 1 "$(grep -c 'NOT FOUND' <<<"$output")" 'one for want of such a stock'
check_match '3 not found or condition not met, 0 failed' "$errors" 'which the summary counts'
check_equal 40 "$(grep -c '^stock:' <<<"$output")" 'show lists all twenty, twice'
check_equal 20 "$(tail -n 1 <<<"$output")" 'their number ends the day'
check_equal '50 3 2' "$(client get stock:3) $(client get stock:4) $(client get stock:9)" \
    'the books are right'
expected=$(sed -n 's/^PUT \(stock:[0-9]* [0-9]*\)$/\1/p' "$example/day.batch" | sort)
check_equal "$expected" "$(grep '^stock:' <<<"$output" | head -n 20 | sort)" \
    'the first show is what was put'

# The session, at a pseudo-terminal, on a server without stocks.
client scan stock: --keys | sed 's/^/DEL /' | client batch --quiet - 2>/dev/null
cat >"$MQKV_TEST_DIR/replay.py" <<'END'
"""Types the lines of a transcript that begin with "> " and prints what a terminal then shows."""
import os
import pty
import re
import select
import sys
import time

transcript, arguments = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "dumb"
    os.execv(arguments[0], arguments)
seen = ""

def until_prompt():
    """What was printed before the next prompt."""
    global seen
    end = time.monotonic() + 60
    while not re.search(r"(^|\n)[^\n]*> $", seen):
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            sys.exit("no prompt within a minute, but: " + repr(seen))
        seen += os.read(terminal, 4096).decode().replace("\r", "")
    shown, seen = seen[: seen.rindex("\n") + 1] if "\n" in seen else "", ""
    return shown

until_prompt()
for line in open(transcript, encoding="utf-8"):
    if not line.startswith("> "):
        continue
    command = line[2:].rstrip("\n")
    os.write(terminal, command.encode() + b"\r")
    shown = until_prompt().splitlines()
    # What is typed before the editor has the terminal is echoed twice.
    while any(one.endswith(command) for one in shown):
        shown.pop(0)
    print(line, end="")
    print("\n".join(sorted(shown) if command.startswith("scan") else shown))
os.write(terminal, b"quit\r")
end = time.monotonic() + 60
while time.monotonic() < end and os.waitpid(pid, os.WNOHANG) == (0, 0):
    time.sleep(0.02)
END
export HOME=$MQKV_TEST_DIR \
    LSAN_OPTIONS=suppressions=$MQKV_TEST_DIR/suppressions:print_suppressions=0
echo leak:wcsdup >"$MQKV_TEST_DIR/suppressions" # libedit 3.1, as in clientk_prompt.sh
check_status 0 'the session is played' python3 "$MQKV_TEST_DIR/replay.py" "$example/session.txt" \
    "$MQKV_BUILD/clientk" -m "$server_queue"
check_equal "$(cat "$example/session.txt")" "$output" \
    'and the terminal shows what the transcript says'
