"""Settings for Django's own tests of caches and sessions, with kresp as its Redis."""
import os

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "unix://" + os.environ["KRESP_SOCKET"],
    }
}
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3"},
    "other": {"ENGINE": "django.db.backends.sqlite3"},
}
SECRET_KEY = "for the tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
