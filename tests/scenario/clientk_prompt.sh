#!/usr/bin/env bash
# clientk_prompt: at a terminal: editing, completion, history, Ctrl-C, Ctrl-D, failures and formats.
. "$(dirname "$0")/lib.sh"

start_server
cd "$MQKV_TEST_DIR" || exit 2
export HOME=$MQKV_TEST_DIR

cat >session.py <<'END'
"""Plays a session at a pseudo-terminal: sends keys, waits for what must appear, prints checks."""
import os
import pty
import re
import select
import signal
import sys
import time

def start(arguments):
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "vt100"
        os.execv(arguments[0], arguments)
    return pid, terminal

class Session:
    def __init__(self, arguments):
        self.pid, self.terminal = start(arguments)
        self.seen = ""

    def wait_for(self, pattern, seconds):
        """Whether the pattern is printed; then what was printed up to its end is gone."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            readable = select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0]
            try:
                data = os.read(self.terminal, 4096) if readable else b""
            except OSError:
                data = b""
            if not data:
                return False
            self.seen += data.decode(errors="replace")
        self.seen = self.seen[re.search(pattern, self.seen).end():]
        return True

    def expect(self, pattern, text):
        if not self.wait_for(pattern, 20):
            sys.exit("not ok - " + text + "\n    seen: " + repr(self.seen))
        print("ok - " + text)

    def keys(self, text):
        os.write(self.terminal, text.encode())

    def line(self, text, pattern, what):
        self.keys(text + "\r")
        self.expect(pattern + r".*\r\n", what)
        self.expect("> ", "the prompt comes back")

    def leave(self, keys, seconds=20):
        """Types the keys until the program has ended: typed in the moment between the prompt and
        the terminal's change of mode, a Ctrl-D is lost. The exit status; None if it stays."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.keys(keys)
            for _ in range(20):
                time.sleep(0.05)
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, 9)
        return None

def check_equal(expected, got, text):
    if expected != got:
        sys.exit(f"not ok - {text}\n    expected {expected}, got {got}")
    print("ok - " + text)

clientk, queue, server_pid = sys.argv[1], sys.argv[2], int(sys.argv[3])

def interrupted_wait(session, command, answer, what):
    """Types the command while the server stands still, then Ctrl-C; again, later, if that came
    before the command waited: then it cancels the line, and the terminal drops what is printed."""
    os.kill(server_pid, signal.SIGSTOP)
    try:
        answered, pause = False, 0.1
        while not answered and pause < 10:
            session.keys(command + "\r")
            session.wait_for(command + "\r\n", 5)
            time.sleep(pause)
            session.keys("\x03")
            answered = session.wait_for("(?s)" + answer + ".*> ", 5)
            pause *= 2
        check_equal(True, answered, "Ctrl-C ends the wait: " + what)
    finally:
        os.kill(server_pid, signal.SIGCONT)

session = Session([clientk, "-m", queue, "--timeout", "1h"])
session.expect(r"Connected to " + queue, "the greeting names the queue")
session.expect("> ", "a prompt")
session.line("PUT city Paris", "\nOK", "a command is executed")
session.line("get city", "\nParis", "letter case does not matter")
session.line("get nobody", "\nNOT FOUND", "a miss is an answer")
session.line("gte city", r"did you mean get\?", "a typo is helped")
session.line('put "a', "column 5: this quote is never closed", "a bad line names its column")
session.line('put bin "\\x00\\x1b[31m"', "\nOK", "binary can be typed")
session.line("get bin", r'\n"\\0\\x1b\[31m"', "and is printed safely")
session.line("bench", "from the shell only", "what does not work here says so")
session.keys("persi\tci\t\r")
session.expect("\nOK\r\n", "TAB completes a command and a key")
session.expect("> ", "the prompt comes back")
session.keys("put half a line\x03")
session.expect(r"\^C", "Ctrl-C cancels the line")
session.expect("> ", "the prompt comes back")
session.line("get put", "\nNOT FOUND", "and nothing of it was executed")
session.keys("\x1b[A\x1b[A\r")
session.expect("OK|Paris|NOT FOUND", "history is at the arrow keys")
session.expect("> ", "the prompt comes back")
session.line("timing on", r"\non", "timing can be switched on")
session.line("get city", r"\nParis\r\n\([0-9.]+ [mun]?s\)", "and tells how long it took")
session.line("format json", "", "another format")
session.line("get city", r'"value":"Paris"', "is used")
session.line("format text", "", "and left again")
session.line("transact --if-absent river -- put river Seine -- get city", r"\nOK\r\nParis",
             "a transaction in one line")
session.keys("begin --if-absent river\r")
session.expect(r"\.\.\. ", "one in several has a prompt of its own")
for line in ("put city Rome", "else", "get river"):
    session.keys(line + "\r")
    session.expect(r"\r\n.*\.\.\. ", line + " waits")
session.line("commit", r"\nSeine\r\nERROR version_mismatch: guard 1 does not hold",
             "for the commit")
session.keys("begin\r")
session.expect(r"\.\.\. ", "another")
session.keys("put city Rome\r")
session.expect(r"\r\n.*\.\.\. ", "which waits, too")
session.keys("\x03")
session.expect(r"\^C", "is given up by Ctrl-C")
session.expect("> ", "the prompt comes back")
session.line("commit", "no transaction has begun", "and cannot be done any more")
session.line("get city", r"\nParis", "nothing of both was done")
interrupted_wait(session, "put city Rome", "interrupted before an answer came; it may have been",
                 "a write, whose outcome is not known")
session.line("put city Paris", "\nOK", "the session goes on")
session.line("get city", "\nParis", "after what was interrupted")
interrupted_wait(session, "stats", "ERROR timeout: ", "another command")
session.keys("config ge\tmax-v\t\r")
session.expect("\n1M\r\n", "TAB completes words of config and names of settings")
session.expect("> ", "the prompt comes back")
session.keys("stats bou\t\r")
session.expect("fitting_bytes", "and sections of the statistics")
session.expect("> ", "the prompt comes back")
session.line("help touch", "DURATION", "help of a command")
check_equal(0, session.leave("\x04"), "Ctrl-D leaves with 0")

mode = os.stat(os.environ["HOME"] + "/.mqkv_history").st_mode & 0o777
check_equal("0o600", oct(mode), "the history is private")
again = Session([clientk, "-m", queue])
again.expect("> ", "a second session")
again.keys("\x1b[A\r")
again.expect("touch", "remembers the first")
check_equal(0, again.leave("quit\r"), "quit leaves with 0")

ended = Session([clientk, "-m", queue])
ended.expect("> ", "a third session")
os.kill(ended.pid, signal.SIGTERM)
check_equal(-signal.SIGTERM, ended.leave("half a line"), "is ended by SIGTERM")

lonely = Session([clientk, "-m", queue + ".none"])
lonely.expect("no server at queue", "without a server the prompt says so")
lonely.expect("> ", "and is there")
lonely.line("get x", "ERROR no_server: .*", "commands say so too")
lonely.keys("\x00") # as a Ctrl-D typed while a command runs arrives
check_equal(0, lonely.leave("\x04"), "and one can leave")
END
# libedit 3.1 never frees the two names of a function that was added to it (el_set, EL_ADDFN).
echo leak:wcsdup >suppressions
export LSAN_OPTIONS=suppressions=$PWD/suppressions:print_suppressions=0

python3 session.py "$MQKV_BUILD/clientk" "$server_queue" "$server_pid"
check_equal 0 $? 'the session ran to its end'
