#!/usr/bin/env bash
# dashboard: every expression of the Grafana dashboard gives data in a real Prometheus
. "$(dirname "$0")/lib.sh"

dashboard=$library_dir/../../packaging/mqkv-dashboard.json
alerts=$library_dir/../../packaging/mqkv-alerts.yml
printf '[quota a]\nmax-bytes = 1M\nmax-keys = 10\n' >"$MQKV_TEST_DIR/config"
start_server -d 2 --cache 1M --sync interval:100 --max-bytes 10M --evict s3fifo \
    -c "$MQKV_TEST_DIR/config"
client put a 1 >/dev/null
client backup "$MQKV_TEST_DIR/backup" 2>/dev/null

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

# So is what the alert rules ask for, but for the copy in a cluster and the file that is collected.
check_equal "mqkv_mirror_over_bound" "$(comm -23 \
    <(sed 's/#.*//' "$alerts" | grep -oE 'mqkv_[a-z_]+' | sort -u) \
    <(grep -oE '^mqkv_[a-z_]+' <<<"$text" | sort -u))" "and all that the alert rules ask for"
if command -v promtool >/dev/null; then
    check_status 0 "promtool finds the alert rules right" promtool check rules "$alerts"
    cat >"$MQKV_TEST_DIR/rules.yml" <<END_OF_FILE
rule_files: [$(realpath "$alerts")]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'mqkv_read_only_files{instance="a"}'
        values: '0 0 1 1'
      - series: 'mqkv_file_damaged_records{instance="a", file="2"}'
        values: '0 0 1 1'
      - series: 'mqkv_last_reload_success{instance="a"}'
        values: '1 1 0 0'
      - series: 'mqkv_quota_keys{instance="a", of="quota", name="q"}'
        values: '95+0x30'
      - series: 'mqkv_quota_max_keys{instance="a", of="quota", name="q"}'
        values: '100+0x30'
      - series: 'mqkv_last_backup_timestamp_seconds{instance="a", event="finished"}'
        values: '0+0x3000'
      - series: 'mqkv_last_backup_timestamp_seconds{instance="a", event="failed"}'
        values: '0+0x3000'
      - series: 'mqkv_start_time_seconds{instance="a"}'
        values: '0+0x3000'
    alert_rule_test:
      - {eval_time: 1m, alertname: MqkvTakesNoWrites}
      - eval_time: 3m
        alertname: MqkvTakesNoWrites
        exp_alerts: [{exp_labels: {severity: critical, instance: a}, exp_annotations: {
          summary: "1 data files on a take no writes after a failure",
          description: "A sync failed, or a file lost bytes: see the log."}}]
      - {eval_time: 1m, alertname: MqkvDamaged}
      - eval_time: 3m
        alertname: MqkvDamaged
        exp_alerts: [{exp_labels: {severity: critical, instance: a, file: "2"}, exp_annotations: {
          summary: "damaged records in data file 2 on a: 1 or more",
          description: "Reads or a compaction met them; clientk doctor --fix tells what to do."}}]
      - eval_time: 3m
        alertname: MqkvReloadFailed
        exp_alerts: [{exp_labels: {severity: warning, instance: a}, exp_annotations: {
          summary: "the last reload of serverk on a failed",
          description: "A mistake, or something that takes a restart: see the log."}}]
      - eval_time: 15m
        alertname: MqkvQuotaNearlyUsed
        exp_alerts: [{exp_labels: {severity: warning, instance: a, of: quota, name: q},
          exp_annotations: {summary: "95% of the quota of quota q is used on a"}}]
      - {eval_time: 35h, alertname: MqkvBackupOld}
      - {eval_time: 35h, alertname: MqkvBackupFailed}
      - eval_time: 37h
        alertname: MqkvBackupOld
        exp_alerts: [{exp_labels: {severity: warning, instance: a, event: finished},
          exp_annotations: {summary: "no backup of a was finished for 36 hours"}}]
END_OF_FILE
    check_status 0 "and they fire when they should" promtool test rules "$MQKV_TEST_DIR/rules.yml"
else
    skip "alert rules: promtool is not installed"
fi

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
