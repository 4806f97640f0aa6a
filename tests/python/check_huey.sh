#!/usr/bin/env bash
# check_huey: mqkv.huey is a storage for huey: tasks, schedules, results, locks
. "$(dirname "$0")/lib.sh"

environment huey huey || exit 0
start_server
work=$MQKV_TEST_DIR/work
mkdir -p "$work"
cat >"$work/tasks.py" <<PYTHON
from huey import Huey

from mqkv.huey import Storage

huey = Huey("tests", storage_class=Storage, queue="$server_queue")


@huey.task()
def add(a, b):
    return a + b


@huey.task(retries=2)
def fails_once():
    if huey.storage.incr("tries") == 1:
        raise ValueError("the first time")
    return "done"
PYTHON
cat >"$work/use.py" <<'PYTHON'
from huey.exceptions import TaskException
from tasks import add, fails_once

assert add(1, 2)(blocking=True, timeout=60) == 3
assert [result(blocking=True, timeout=60) for result in [add(i, i) for i in range(10)]] == [
    2 * i for i in range(10)]
result = fails_once()
try:
    answer = result.get(blocking=True, timeout=60)
except TaskException:  # of the first attempt
    result.reset()
    answer = result.get(blocking=True, timeout=60)
assert answer == "done"
assert add.schedule((5, 6), delay=1)(blocking=True, timeout=60) == 11
PYTHON
cat >"$work/alone.py" <<'PYTHON'
from datetime import datetime, timedelta, timezone

from huey.constants import EmptyData
from tasks import add, huey

storage = huey.storage
storage.flush_all()
add(1, 2)
add(3, 4)
assert huey.pending_count() == 2 and len(storage.enqueued_items(1)) == 1
storage.enqueue(b"urgent", priority=9)
assert storage.dequeue() == b"urgent"
storage.close()  # as huey does before it forks
storage.flush_queue()
assert storage.queue_size() == 0
now = datetime.now(timezone.utc).replace(tzinfo=None)
storage.add_to_schedule(b"later", now + timedelta(hours=1))
storage.add_to_schedule(b"due", now - timedelta(hours=1))
assert storage.read_schedule(now) in ([b"due"], [])
assert storage.schedule_size() >= 1 and b"later" in storage.scheduled_items()
storage.flush_schedule()
assert storage.schedule_size() == 0
assert storage.put_if_empty("k", b"v") and not storage.put_if_empty("k", b"w")
storage.put_data(b"other", b"x", is_result=True)
assert storage.peek_data("k") == b"v" and storage.peek_many(["k", "none"]) == {"k": b"v"}
assert storage.result_store_size() == 2 and storage.result_items() == {"k": b"v", "other": b"x"}
assert storage.pop_data("k") == b"v" and storage.pop_data("k") is EmptyData
assert storage.delete_data("other") and not storage.has_data_for_key("other")
assert storage.incr("n") == 1 and storage.incr("n", 4) == 5 and storage.delete_counter("n")
with huey.lock_task("lock"):
    assert huey.is_locked("lock")
assert not huey.is_locked("lock")
storage.flush_all()
PYTHON
cat >"$work/suite.py" <<PYTHON
import unittest

from huey import Huey
from huey.tests.base import BaseTestCase
from huey.tests.test_storage import StorageTests

from mqkv.huey import Storage


class TestStorage(StorageTests, BaseTestCase):
    def get_huey(self):
        return Huey("suite", storage_class=Storage, utc=False, queue="$server_queue",
                    read_timeout=0.1)


unittest.main()
PYTHON
cat >"$work/killed.py" <<'PYTHON'
import os
from datetime import datetime, timezone

from tasks import add, huey

storage = huey.storage
storage.flush_all()
now = datetime.now(timezone.utc)
for task in add.s(1, 2), add.s(3, 4):  # as a worker does with one whose time has not come
    storage.add_to_schedule(huey.serialize_task(task), now)
pid = os.fork()
if pid == 0:  # a scheduler that ends between the two
    first, second = huey.read_schedule()
    huey.enqueue(first)
    os._exit(0)
os.waitpid(pid, 0)
assert storage.queue_size() == 1, storage.queue_size()
assert huey.storage._schedule.lengths().leased == 1
PYTHON
cd "$work" || exit
export PYTHONPATH=$work
HUEY_SLOW_TESTS=yes check_status 0 "huey's own tests of a storage" "$environment_python" suite.py
check_match 'Ran 1[0-9] tests' "$errors" "all of them"
check_status 0 "a task leaves the schedule when it is queued" "$environment_python" killed.py
check_status 0 "queue, schedule, data, counters and locks" "$environment_python" alone.py
"$environment_python" -m huey.bin.huey_consumer tasks.huey --workers 2 --no-periodic \
    >"$MQKV_TEST_DIR/consumer.log" 2>&1 &
consumer=$!
check_status 0 "tasks are done, tried again and scheduled" "$environment_python" use.py
kill -INT "$consumer"
wait "$consumer"
check_equal 0 $? "the consumer ends when it is told to"
"$environment_python" -m huey.bin.huey_consumer tasks.huey --worker-type process --workers 2 \
    --no-periodic >>"$MQKV_TEST_DIR/consumer.log" 2>&1 &
consumer=$!
check_status 0 "workers that are processes do tasks" "$environment_python" -c "
from tasks import add
assert [result(blocking=True, timeout=60) for result in [add(i, i) for i in range(5)]] == [
    2 * i for i in range(5)]"
kill -INT "$consumer"
wait "$consumer"
[ "$failed_checks" = 0 ] || tail -n 40 "$MQKV_TEST_DIR/consumer.log"
