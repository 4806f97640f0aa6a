#!/usr/bin/env bash
# dashboard: every expression of the Grafana dashboard gives data in a real Prometheus
. "$(dirname "$0")/lib.sh"

dashboard=$library_dir/../../packaging/mqkv-dashboard.json
start_server -d 2 --cache 1M --sync interval:100
client put a 1 >/dev/null

# What the dashboard asks for is there, whether or not there is a Prometheus.
text=$(client metrics)
check_equal "" "$(python3 - "$dashboard" 3<<<"$text" <<'END_OF_PYTHON'
import json, re, sys
there = set(re.findall(r"^(mqkv_[a-z_]+)", "".join(open(3)), re.M))
dashboard = json.load(open(sys.argv[1]))
for panel in dashboard["panels"]:
    for target in panel.get("targets", []):
        for name in re.findall(r"mqkv_[a-z_]+", target["expr"]):
            if name not in there:
                print(panel["title"], name)
END_OF_PYTHON
)" "the server tells all metrics that the dashboard shows"

if ! command -v prometheus >/dev/null; then
    skip "prometheus: not installed"
    exit 0
fi

# A Prometheus that scrapes what clientk prints, twice a second; then every expression is asked for.
python3 - "$dashboard" "$MQKV_BUILD/clientk" "$server_queue" "$MQKV_TEST_DIR" \
    >"$MQKV_TEST_DIR/verdict" 2>"$MQKV_TEST_DIR/prometheus.log" <<'END_OF_PYTHON' &
import http.server, json, re, socket, subprocess, sys, threading, time, urllib.parse, urllib.request

dashboard, clientk, queue, folder = sys.argv[1:]


class Source(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        for command in ("--direct off get a", "put a 2", "put b", "--direct off get none"):
            subprocess.run([clientk, "-m", queue, *command.split()], capture_output=True)
        text = subprocess.run([clientk, "-m", queue, "metrics"], capture_output=True).stdout
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


source = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Source)
threading.Thread(target=source.serve_forever, daemon=True).start()
port = free_port()
with open(f"{folder}/prometheus.yml", "w") as config:
    config.write(f"""
global: {{scrape_interval: 500ms}}
scrape_configs:
  - job_name: mqkv
    metrics_path: /
    static_configs: [{{targets: ['127.0.0.1:{source.server_port}']}}]
""")
prometheus = subprocess.Popen(
    ["prometheus", f"--config.file={folder}/prometheus.yml",
     f"--storage.tsdb.path={folder}/prometheus", f"--web.listen-address=127.0.0.1:{port}"],
    stdout=sys.stderr, stderr=sys.stderr)


def data_of(expression):
    expression = expression.replace("$__rate_interval", "1m").replace("$__interval", "1m")
    expression = expression.replace("$instance", ".*")
    query = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}") as answer:
            found = json.load(answer)["data"]["result"]
            return [one for one in found if one["value"][1] != "NaN"]
    except OSError:
        return []


wanted = [(panel["title"], target["expr"]) for panel in json.load(open(dashboard))["panels"]
          for target in panel.get("targets", [])]
end = time.monotonic() + 60
while wanted and time.monotonic() < end:
    time.sleep(0.5)
    wanted = [one for one in wanted if not data_of(one[1])]
prometheus.terminate()
prometheus.wait()
for title, expression in wanted:
    print(f"no data: {title}: {expression}")
print("done")
END_OF_PYTHON
wait $!
check_equal "done" "$(cat "$MQKV_TEST_DIR/verdict")" \
    "Prometheus has data for all of its expressions"
stop_server
