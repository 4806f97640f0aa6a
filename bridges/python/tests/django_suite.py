#!/usr/bin/env python3
"""django_suite [TEST]...: Django's own tests of caches and sessions, on mqkv.django.Cache.

DJANGO_SOURCE is an unpacked source distribution of Django, MQKV_QUEUE the queue of a daemon.
"""

import os
import sys

source = os.environ["DJANGO_SOURCE"]
sys.path[:0] = [source, os.path.join(source, "tests")]

import django  # noqa: E402
from django.conf import settings  # noqa: E402

settings.configure(
    ALLOWED_HOSTS=["*"],
    CACHES={"default": {"BACKEND": "mqkv.django.Cache", "LOCATION": ""}},
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3"},
               "other": {"ENGINE": "django.db.backends.sqlite3"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth",
                    "django.contrib.sessions", "cache", "sessions_tests"],
    SECRET_KEY="for the tests",
    USE_TZ=False,
)
django.setup()

from cache.tests import BaseCacheTests, caches_setting_for_tests  # noqa: E402
from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.test import SimpleTestCase, TestCase, override_settings  # noqa: E402
from django.test.utils import get_runner  # noqa: E402
from sessions_tests import tests as sessions_tests  # noqa: E402


@override_settings(CACHES=caches_setting_for_tests(
    base={"BACKEND": "mqkv.django.Cache"}, exclude=["cull", "zero_cull"], LOCATION=""))
class MqkvCacheTests(BaseCacheTests, TestCase):
    """All that Django asks of every cache. Nothing is culled: the store does not forget."""

    test_cull = test_zero_cull = test_cull_delete_when_store_empty = None

    def test_clear_leaves_what_is_not_its_own(self):
        import mqkv
        with mqkv.Client() as client:
            client.put("other", "1")
            cache.set("k", "v")
            cache.clear()
            self.assertIsNone(cache.get("k"))
            self.assertEqual(client.get("other"), b"1")


class MqkvSessionTests(sessions_tests.SessionTestsMixin, SimpleTestCase):
    """All that Django asks of every kind of session."""

    backend = SessionStore

    def test_create_and_save(self):
        self.session.create()
        self.session.save()
        self.assertIsNotNone(cache.get(self.session.cache_key))


if __name__ == "__main__":
    sys.modules["django_suite"] = sys.modules["__main__"]
    runner = get_runner(settings)(verbosity=1, interactive=False)
    sys.exit(bool(runner.run_tests(sys.argv[1:] or ["django_suite"])))
