"""as_diskcache: pytest's plugin that gives the tests of diskcache mqkv's Cache instead.

    pytest -p as_diskcache diskcache-5.6.3/tests/test_core.py

The file that $DISKCACHE_SKIPS names lists the tests that are skipped, each with its reason: a line
`FILE::TEST: why`.
"""

import os
import sys
import types

import pytest

import mqkv
from mqkv import cache, home

# Each test has a directory, and a user some ten daemons at once.
home.IDLE_EXIT = home.TEMPORARY_IDLE_EXIT = "100ms"


def module():
    """What a program has that imports diskcache."""
    made = types.ModuleType("diskcache")
    for name in ("Averager", "BoundedSemaphore", "Cache", "Deque", "FanoutCache", "Index", "Lock",
                 "RLock", "Timeout", "barrier", "memoize_stampede", "throttle"):
        setattr(made, name, getattr(mqkv, name))
    made.ENOVAL = cache.ENOVAL
    made.DEFAULT_SETTINGS = cache.DEFAULT_SETTINGS
    made.EVICTION_POLICY = {}
    made.UNKNOWN = None
    made.EmptyDirWarning = made.UnknownFileWarning = UserWarning
    made.Disk = made.JSONDisk = type("Disk", (), {})  # only in tests that are skipped
    made.core = types.ModuleType("diskcache.core")
    made.core.ENOVAL = cache.ENOVAL
    return made


sys.modules["diskcache"] = module()
sys.modules["diskcache.core"] = sys.modules["diskcache"].core


def skips():
    """The reasons, by test."""
    with open(os.environ["DISKCACHE_SKIPS"], encoding="utf-8") as lines:
        pairs = (line.rstrip("\n").partition(": ") for line in lines)
        return {name: why for name, _, why in pairs if name and not name.startswith("#")}


def pytest_collection_modifyitems(items):
    reasons = skips()
    for item in items:
        why = reasons.get(f"{item.path.name}::{item.originalname}")
        if why:
            item.add_marker(pytest.mark.skip(reason=why))
