#!/usr/bin/env bash
# check_celery: Celery runs on mqkv, as broker and for its results; a worker that dies loses no
# task, and leaves nothing behind. CELERY names another release.
. "$(dirname "$0")/lib.sh"

celery=${CELERY:-5.7.0}
environment "celery-$celery" "celery==$celery" pytest || exit 0
start_server
work=$MQKV_TEST_DIR/work
mkdir -p "$work"
cat >"$work/tasks.py" <<PYTHON
import os
import signal

from celery import Celery
from celery.exceptions import Reject

import mqkv.kombu

app = Celery("tasks", broker="mqkv://$server_queue", backend="mqkv.celery:Backend://$server_queue")
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, task_reject_on_worker_lost=True,
                broker_transport_options={"visibility_timeout": 5}, result_expires=3600,
                broker_connection_retry_on_startup=True, task_queue_max_priority=9)


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3, default_retry_delay=0.1)
def fails_once(self):
    if self.request.retries == 0:
        raise self.retry()
    return self.request.retries


@app.task
def fails():
    raise ValueError


@app.task(bind=True, acks_late=True)
def requeues(self):  # as in Celery's guide
    if not self.request.delivery_info["redelivered"]:
        raise Reject("no reason", requeue=True)
    return "received two times"


@app.task(bind=True)
def dies_once(self, file):
    if not os.path.exists(file):
        open(file, "w").close()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return self.request.delivery_info.get("redelivered")
PYTHON
cat >"$work/use.py" <<'PYTHON'
import sys

from celery import chain, chord, group
from tasks import add, app, fails_once, requeues, total

assert add.delay(1, 2).get(timeout=120) == 3
assert group(add.s(i, i) for i in range(20))().get(timeout=120) == [2 * i for i in range(20)]
assert chain(add.s(1, 2), add.s(10))().get(timeout=120) == 13
assert chord((add.s(i, 0) for i in range(10)), total.s())().get(timeout=120) == 45
assert add.apply_async((1, 1), countdown=1, priority=9).get(timeout=120) == 2
assert fails_once.delay().get(timeout=120) == 1
assert requeues.delay().get(timeout=120) == "received two times"
answers = app.control.ping(timeout=20, limit=1)
assert len(answers) == 1 and list(answers[0].values()) == [{"ok": "pong"}], answers
PYTHON
cat >"$work/dies.py" <<'PYTHON'
import sys

from tasks import dies_once

print(dies_once.delay(sys.argv[1]).id)
PYTHON
cat >"$work/sleeps.py" <<PYTHON
# A consumer that would look again in an hour has what comes at once.
import socket
import threading

import kombu

import mqkv.kombu

URL = "mqkv://$server_queue"
queues = [kombu.Queue(name, kombu.Exchange(name), routing_key=name) for name in ("sleeps", "other")]


def put(*bodies):
    with kombu.Connection(URL) as connection:
        for body in bodies:
            connection.Producer().publish(body, exchange=queues[0].exchange, declare=queues,
                                          routing_key="sleeps")


with kombu.Connection(URL, transport_options={"polling_interval": 3600}) as connection:
    got = []
    with connection.Consumer(queues, prefetch_count=1,
                             callbacks=[lambda body, message: got.append((body, message))]):
        try:
            connection.drain_events(timeout=0.2)
            raise SystemExit("something came from nowhere")
        except socket.timeout:
            pass
        threading.Timer(0.3, put, ("first", "second")).start()
        connection.drain_events(timeout=60)
        assert got[0][0] == "first", got
        threading.Timer(0.3, got[0][1].ack).start()  # then there is room for another one
        connection.drain_events(timeout=60)
        assert got[1][0] == "second", got
        got[1][1].ack()
PYTHON
cd "$work" || exit
check_status 0 "a consumer sleeps until a message comes, or there is room for one" \
    "$environment_python" sleeps.py
export PYTHONPATH=$work
start_worker() {
    "$environment_python" -m celery -A tasks worker --concurrency 2 --loglevel info \
        >>"$MQKV_TEST_DIR/worker.log" 2>&1 &
    worker=$!
}
start_worker
check_status 0 "tasks, groups, chains, chords, countdowns, retries and remote control" \
    "$environment_python" use.py
check_match "^ready 0" "$(client queue length celery)" "and nothing is left in the queue"
check_status 0 "a task kills its worker" "$environment_python" dies.py "$work/died"
id=$output
wait "$worker" 2>/dev/null
start_worker
check_status 0 "another worker does it when its time is over" "$environment_python" -c "
from tasks import app
print(app.AsyncResult('$id').get(timeout=120))"
check_equal True "$output" "and is told that it is delivered again"
cat >"$work/settings.py" <<'PYTHON'
import sys

from celery import chord
from tasks import add, app, total

app.conf.result_expires = None if sys.argv[1] == "None" else 0
app.conf.result_failure_expires = 50
app.conf.result_compression = "zlib"
assert chord((add.s(i, i) for i in range(4)), total.s())().get(timeout=120) == 12
result = add.delay(["a"] * 9, ["b"])
assert result.get(timeout=120) == ["a"] * 9 + ["b"]
backend = app.backend
backend._set_with_state("expires", "1", "FAILURE")
assert 40 < backend.client.ttl("expires") <= 50
backend._set_with_state("expires", "1", "SUCCESS")
assert backend.client.ttl("expires") is None
backend.expire("expires", 30)
assert backend.client.ttl("expires") <= 30
backend.expire("expires", app.conf.result_expires)
assert backend.client.ttl("expires") is None
PYTHON
check_status 0 "results that never end, and those of failures" \
    "$environment_python" settings.py None
check_status 0 "the same, told by 0" "$environment_python" settings.py 0
kill "$worker"
wait "$worker"
check_equal 0 $? "a worker ends when it is told to"
check_equal "" "$(client scan --keys kombu:queue)" "and leaves no queue or binding of its own"

# A worker is killed and told something; one of the same name starts.
start_named() {
    "$environment_python" -m celery -A tasks worker --pool solo --hostname w1@h --loglevel info \
        >"$1" 2>&1 &
    named=$!
}
is_ready() {
    grep -q "w1@h ready" "$1"
}
start_named "$MQKV_TEST_DIR/first.log"
wait_until 60 is_ready "$MQKV_TEST_DIR/first.log"
"$environment_python" -m celery -A tasks events --dump >"$MQKV_TEST_DIR/events.log" 2>&1 &
monitor=$!
bound_monitor() {
    client scan --keys kombu:queue:celeryev | grep -q .
}
wait_until 60 bound_monitor
monitor_queue=$(client scan --keys kombu:queue:celeryev | sed 's/.*queue://' | head -n 1)
for _ in 1 2 3; do
    "$environment_python" -m celery -A tasks inspect ping >"$MQKV_TEST_DIR/ping.log" 2>&1
done
check_match "pong" "$(cat "$MQKV_TEST_DIR/ping.log")" "inspect is answered"
check_equal "" "$(client scan --keys queue: | grep reply)" "and leaves nothing"
kill -KILL "$named" "$monitor"
wait "$named" "$monitor" 2>/dev/null
"$environment_python" -m celery -A tasks control shutdown >"$MQKV_TEST_DIR/shutdown.log" 2>&1
start_named "$MQKV_TEST_DIR/second.log"
wait_until 60 is_ready "$MQKV_TEST_DIR/second.log"
check_status 0 "a worker does not obey what was said to one before it" "$environment_python" -c "
from tasks import add, app
assert add.delay(1, 2).get(timeout=120) == 3
assert app.control.ping(timeout=20, limit=1)"
check_equal 0 "$(client scan --keys "kombu:queue:$monitor_queue" | grep -c .)" \
    "the queue of a monitor that was killed is gone"
kill "$named"
wait "$named"
check_equal "" "$(client scan --keys kombu:queue)" "nothing of all that is left"
[ "$failed_checks" = 0 ] || tail -n 40 "$MQKV_TEST_DIR/worker.log"
