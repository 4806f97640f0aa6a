#!/usr/bin/env bash
# clientk_top: what top shows in a pipe, as JSON, and on a terminal
. "$(dirname "$0")/lib.sh"

start_server -d 3
client put a 1 >/dev/null
exec_client --timeout 20000 bench -t 20 --direct off --mix get=50,put=50 >/dev/null 2>&1 &
bench=$!

# In a pipe there is one report an interval, without any escapes.
report=$(client top -c 2 -i 300 --sort name)
check_equal 2 "$(grep -c 'per second' <<<"$report")" "a pipe gets a report an interval"
check_equal "" "$(tr -d '\n -~' <<<"$report")" "without escapes"
check_match '^put +[1-9][0-9]*\.[0-9] +[1-9][0-9]* +[0-9.]+ [num]?s' "$(sed 1,9d <<<"$report")" \
    "operations have rate, total and times"
check_equal "0 1 2" "$(sed 1,9d <<<"$report" | sed -nE 's|^([0-9])  .* (.*i)?B .*|\1|p' |
    sort -u | paste -sd' ')" "each data file has a row"
check_match 'sessions [1-9].* uid [0-9]+: [1-9]' "$report" "sessions are told by user"
check_equal 1 "$(client top -c 1 -i 100 --lines 1 | grep -cE '^(put|get|stats|batch) ')" \
    "--lines bounds the tables"

check_equal True "$(client --format json top -c 1 -i 300 | python3 -c '
import json, sys
report = json.loads(sys.stdin.readline())
print(report["operations"]["put"]["per_second"] > 0 and len(report["files"]) == 3
      and report["sessions"] >= 2 and report["disk_bytes"] > 0 and not sys.stdin.read())
')" "JSON has one object a line, with all of it"
check_status 2 "a wrong order is refused" client top --sort size
check_match 'not rate, total, latency or name' "$errors" "with those that there are"

# A terminal: keys, a new size, and what was there comes back.
check_equal "page keys narrow sorted left restored" "$(python3 - "$MQKV_BUILD/clientk" \
    "$server_queue" <<'END_OF_PYTHON'
import fcntl, os, pty, select, struct, sys, termios, time

clientk, queue = sys.argv[1:]


def size(rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def read_until(*wanted):
    """The text from the next page on until all of the words came; "" after 20 s."""
    text, end = "", time.monotonic() + 20
    while not all(word in text for word in wanted):
        if time.monotonic() > end:
            return ""
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                text += os.read(terminal, 65536).decode()
            except OSError:
                return ""
    return text


pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(clientk, [clientk, "-m", queue, "top", "-i", "200"])
size(30, 100)
before = termios.tcgetattr(terminal)
if read_until("\033[?1049h", "OPERATION", "DATA FILE"):
    print("page", end=" ")
os.write(terminal, b"h")
if read_until("q quit"):
    print("keys", end=" ")
size(10, 30)
end = time.monotonic() + 20
while time.monotonic() < end:
    page = read_until("\033[H", "\033[J").rpartition("\033[H")[2].partition("\033[J")[0]
    lines = page.replace("\033[K", "").replace("\r", "").split("\n")
    if 5 < len(lines) <= 10 and max(map(len, lines)) <= 30:
        print("narrow", end=" ")
        break
size(30, 100)
os.write(terminal, b"n")
if read_until("sorted by name"):
    print("sorted", end=" ")
os.write(terminal, b"q")
if read_until("\033[?1049l"):
    print("left", end=" ")
status = os.waitpid(pid, 0)[1]
print("restored" if status == 0 else status)
END_OF_PYTHON
)" "a terminal gets pages, follows keys and its size"

kill "$bench" 2>/dev/null
wait "$bench" 2>/dev/null
stop_server
check_status 3 "without a server top says so" client top -c 1
