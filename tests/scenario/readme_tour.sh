#!/usr/bin/env bash
# readme_tour: the commands of README's tour and its first program print what README says.
. "$(dirname "$0")/lib.sh"
if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "README's tour: a program that is built so cannot be linked with sanitizers"
    exit
fi

# The tour names no queue; here it has one of its own. What the daemon logs comes at any time.
mkdir "$MQKV_TEST_DIR/bin"
cat >"$MQKV_TEST_DIR/bin/serverk" <<W
#!/bin/sh
exec "$MQKV_BUILD/serverk" -m "$MQKV_TEST_QUEUE" "\$@" 2>>"$MQKV_TEST_DIR/serverk.log"
W
cat >"$MQKV_TEST_DIR/bin/kresp" <<W
#!/bin/sh
exec "$MQKV_BUILD/kresp" -m "$MQKV_TEST_QUEUE" "\$@" 2>>"$MQKV_TEST_DIR/kresp.log"
W
chmod +x "$MQKV_TEST_DIR/bin/serverk" "$MQKV_TEST_DIR/bin/kresp"
if redis_cli=$(command -v redis-cli); then # which prints for a terminal only there, or if told to
    printf '#!/bin/sh\nexec %s --no-raw "$@"\n' "$redis_cli" >"$MQKV_TEST_DIR/bin/redis-cli"
    chmod +x "$MQKV_TEST_DIR/bin/redis-cli"
else
    skip "README's commands with redis-cli: it is not installed"
fi
ln -s "$MQKV_BUILD/clientk" "$MQKV_BUILD/kvcheck" "$MQKV_TEST_DIR/bin"
server_logs[$server_log]=1
: >"$server_log"
export MQKV_QUEUE=$MQKV_TEST_QUEUE
readme=$(realpath "$library_dir/../../README.md")
ln -s "$(dirname "$readme")/include" "$MQKV_TEST_DIR/include"
ln -s "$MQKV_BUILD" "$MQKV_TEST_DIR/build"
cd "$MQKV_TEST_DIR" || exit 2

PATH=$MQKV_TEST_DIR/bin:$PATH python3 - "$readme" "$MQKV_TEST_DIR/serverk.log" <<'P'
import re, shutil, subprocess, sys, time

text = open(sys.argv[1]).read()
tour = text[text.index("\n## A tour\n") + 1:]
tour = tour[:tour.index("\n## How safe\n", 4)]
program = re.search(r"^    (#include <(?:    .*\n|\n|.*\n)*?    }\n)", tour, re.M).group(1)
open("hello.c", "w").write(re.sub("^    ", "", program, flags=re.M))
steps = []                                  # (command, expected lines)
for block in re.split(r"\n(?!    )", tour):  # text outside of examples ends one
    for line in re.findall(r"^    (.*)$", block, re.M):
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps and "$ " in block:
            steps[-1][1].append(line)

def pattern(line):
    """What differs from run to run: version, pids, times, places of keys, what is left out."""
    out = re.escape(line).replace(r"\.\.\.", ".*").replace("/serverk", ".*")
    if line.startswith("INFO"):
        out = re.sub(r"serverk\\ (\d|\\\.)+", r"serverk\\ [0-9.]+", out)
        out = r".*" + re.sub(r"\d+(?= |,|$)|\d+(?=\\ )", r"\\d+", out)
        out = out.replace("workers", "workers?") # as many as CPUs
    if line.startswith("data."):
        out = re.sub(r"(\\ )+\d+", r" +\\d+", out)
    if line.startswith("total"): # the size of files is a matter of time
        out = re.sub(r"(\\ )+\d+", r" +\\d+", out, count=1)
    out = re.sub(r"\d+\\\.\d+\\ s\\ \\\(\d+/s\\\)", r"[0-9.]+ s \\([0-9]+/s\\)", out)
    return out

shell = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)

def run(command):
    shell.stdin.write(command + "\nprintf '\\n@end@\\n'\n")
    shell.stdin.flush()
    lines = []
    while True:
        line = shell.stdout.readline()
        if not line:
            break
        if line == "@end@\n":
            break
        lines.append(line.rstrip("\n"))
    lines = [re.sub(r"bash: line \d+: +\d+ Killed .*", "", line) for line in lines]
    return [line for line in lines if line]

def logged(expected):
    for _ in range(600):
        with open(sys.argv[2]) as file:
            log = file.read()
        if re.search(pattern(expected), log):
            return [expected]
        time.sleep(0.05)
    return log.splitlines()

def same(expected, lines):
    """Each expected line in its turn; a line of dots stands for any number. When a message comes
    among what a batch prints is a matter of time: two files."""
    def in_order(some):
        return sorted(some, key=lambda line: line.startswith("clientk: "))

    expected, lines = in_order(expected), in_order(lines)
    regex = "".join("(.*\n)*" if line == "..." else pattern(line) + "\n" for line in expected)
    return re.fullmatch(regex, "".join(line + "\n" for line in lines)) is not None

failed = len(steps) < 15
print(("not ok" if failed else "ok") + f" - README's tour has its commands ({len(steps)})")
for command, expected in steps:
    if command.startswith("redis-cli") and not shutil.which("redis-cli"):
        continue
    lines = run(command)
    if expected and expected[0].startswith("INFO"):
        lines = logged(expected[0])
        good = lines == expected
    else:
        good = same(expected, lines)
    print(("ok" if good else "not ok") + f" - {command}")
    if not good:
        failed = True
        print("    README says:\n" + "\n".join("      " + line for line in expected))
        print("    it printed:\n" + "\n".join("      " + line for line in lines))
shell.stdin.write("kill $(jobs -p) 2>/dev/null; wait\n")
shell.stdin.close()
shell.wait()
sys.exit(failed)
P
status=$?
check_equal 0 "$status" "README's tour is as README says"

# The demo ends with what its few runs decide, or says that they do not.
effect() {
    "$library_dir/../../demo/effect"
}
check_equal 'eight workers serve ×7.6 to ×8.0 of what one does: decided, each run beats each' \
    "$(printf '50 380\n49 392\n' | effect)" 'the demo tells an effect'
check_equal 'eight workers serve ×0.9 to ×2.0 of what one does: not decided, the runs overlap' \
    "$(printf '50 100\n110 99\n' | effect)" 'and that there is none to be told'
check_status 1 'and no runs are none' effect </dev/null
