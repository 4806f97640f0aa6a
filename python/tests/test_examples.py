"""The examples do what they say."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
PRINTS = {
    "lock": "counted to 200\nthe token has grown: True\n"
            "the slow one has lost its lock, and deletes nobody else's\n",
    "rate_limiter": "allowed: 5 refused: 5\nthe other client: True 4\n",
    "web_sessions": "one browser: visit 3\nanother: visit 1\nends in half an hour: True\n",
    "work_queue": "workers that died: 1\nall squares are there: True\n",
}


@pytest.mark.parametrize("name", PRINTS)
def test_example(queue, name):
    done = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True,
                          timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (PRINTS[name], "", 0)


def test_all_examples_are_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTS)


def test_the_page_names_what_there_is(client):
    """The calls of python/README.md's table exist."""
    page = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| .*?`(\w+)\(.*\|", page, re.M)
    assert len(names) > 8
    for name in names:
        assert hasattr(client, name), name
