"""Programs and libraries of Python that use Redis, each doing on kresp what its users do with it.

    programs.py list        their names, with what pip installs for each
    programs.py NAME        runs one; the last line of a failure is the reason
"""
import asyncio
import os
import sys
import threading
import time

SOCKET = os.environ.get("KRESP_SOCKET", "")
PORT = int(os.environ.get("KRESP_PORT", "0"))
UNIX_URL = "unix://" + SOCKET
TCP_URL = f"redis://127.0.0.1:{PORT}/0"
PROGRAMS = {}


def program(name, packages):
    def add(function):
        PROGRAMS[name] = (packages, function)
        return function
    return add


def client(**options):
    import redis
    return redis.Redis(unix_socket_path=SOCKET, **options)


def eventually(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


@program("redis-py", "redis")
def redis_py():
    r = client(decode_responses=True)
    assert r.set("k", "v", ex=60) and r.get("k") == "v" and r.incr("n") == 1
    with r.pipeline() as pipe:
        pipe.watch("n")
        pipe.multi()
        assert pipe.set("n", 5).get("n").execute() == [True, "5"]
    with r.lock("lock", timeout=5):
        assert not r.lock("lock", blocking=False).acquire()
    heard = r.pubsub()
    heard.subscribe("channel")
    assert heard.get_message(timeout=10)["type"] == "subscribe"
    assert r.publish("channel", "hello") == 1
    assert heard.get_message(timeout=10)["data"] == "hello"


@program("Django: cache, sessions", "django")
def django_cache():
    import django
    from django.conf import settings
    settings.configure(
        CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache",
                            "LOCATION": UNIX_URL}},
        INSTALLED_APPS=["django.contrib.sessions"],
        SESSION_ENGINE="django.contrib.sessions.backends.cache")
    django.setup()
    from django.contrib.sessions.backends.cache import SessionStore
    from django.core.cache import cache
    cache.set_many({"a": 1, "b": [2]}, 60)
    assert cache.get_many(["a", "b"]) == {"a": 1, "b": [2]} and cache.incr("a") == 2
    session = SessionStore()
    session["user"] = "ada"
    session.save()
    assert SessionStore(session.session_key)["user"] == "ada"


@program("django-redis", "django django-redis")
def django_redis():
    import django
    from django.conf import settings
    settings.configure(CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache",
                                           "LOCATION": UNIX_URL}})
    django.setup()
    from django.core.cache import cache
    cache.set("a", 1, 60)
    assert cache.incr("a") == 2 and cache.ttl("a") > 50 and cache.delete_pattern("a*") == 1
    with cache.lock("lock", timeout=5):
        pass


@program("cachelib", "cachelib redis")
def cachelib():
    from cachelib import RedisCache
    cache = RedisCache(client(), key_prefix="lib:")
    assert cache.set("a", {"b": 1}, 60) and cache.get("a") == {"b": 1}
    assert cache.add("n", 1) and not cache.add("n", 2) and cache.inc("n", 4) == 5
    assert cache.set_many({"x": 1, "y": 2}) and cache.get_many("x", "y") == [1, 2]
    assert cache.delete("a") and cache.clear()


@program("Flask-Session", "flask flask-session redis msgspec")
def flask_session():
    from flask import Flask, session
    from flask_session import Session
    app = Flask("app")
    app.config.update(SESSION_TYPE="redis", SESSION_REDIS=client())
    Session(app)

    @app.route("/")
    def count():
        session["n"] = session.get("n", 0) + 1
        return str(session["n"])

    browser = app.test_client()
    assert [browser.get("/").text for _ in range(3)] == ["1", "2", "3"]


@program("Flask-Caching", "flask Flask-Caching redis")
def flask_caching():
    from flask import Flask
    from flask_caching import Cache
    app = Flask("app")
    cache = Cache(app, config={"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": UNIX_URL})
    calls = []

    @cache.memoize(60)
    def work(n):
        calls.append(n)
        return 2 * n

    with app.app_context():
        assert [work(4), work(4)] == [8, 8] and calls == [4]
        cache.delete_memoized(work)
        assert work(4) == 8 and len(calls) == 2


@program("Flask-Limiter, limits", "limits[redis]")
def limits():
    from limits import parse, storage, strategies
    store = storage.storage_from_string(f"redis+unix://{SOCKET}")
    for kind in (strategies.FixedWindowRateLimiter, strategies.SlidingWindowCounterRateLimiter):
        limiter = kind(store)
        per_hour = parse("3/hour")
        assert [limiter.hit(per_hour, kind.__name__) for _ in range(4)] == [True] * 3 + [False]


@program("limits: moving window", "limits[redis]")
def limits_moving():
    from limits import parse, storage, strategies
    limiter = strategies.MovingWindowRateLimiter(
        storage.storage_from_string(f"redis+unix://{SOCKET}"))
    assert limiter.hit(parse("3/hour"), "moving")


@program("dogpile.cache", "dogpile.cache redis")
def dogpile():
    from dogpile.cache import make_region
    region = make_region().configure("dogpile.cache.redis", expiration_time=60, arguments={
        "url": UNIX_URL, "distributed_lock": True, "thread_local_lock": False})
    calls = []

    @region.cache_on_arguments()
    def work(n):
        calls.append(n)
        return 2 * n

    assert [work(4), work(4)] == [8, 8] and calls == [4]
    region.set_multi({"a": 1, "b": 2})
    assert region.get_multi(["a", "b"]) == [1, 2]


@program("aiocache", "aiocache[redis]")
def aiocache():
    from aiocache import RedisCache

    async def main():
        try:
            cache = RedisCache(endpoint="127.0.0.1", port=PORT, namespace="aio")
        except TypeError:
            import redis.asyncio
            cache = RedisCache(redis.asyncio.Redis(port=PORT), namespace="aio")
        async with cache:
            await cache.set("a", "1", ttl=60)
            assert await cache.get("a") == "1" and await cache.increment("n", 2) == 2
            assert await cache.multi_set([["x", "1"], ["y", "2"]])
            assert await cache.multi_get(["x", "y"]) == ["1", "2"]
            assert await cache.clear("aio")

    asyncio.run(main())


@program("cashews", "cashews[redis]")
def cashews():
    from cashews import cache

    async def main():
        cache.setup(TCP_URL)
        calls = []

        @cache(ttl="10m", key="work:{n}")
        async def work(n):
            calls.append(n)
            return 2 * n

        assert [await work(4), await work(4)] == [8, 8] and calls == [4]
        async with cache.lock("lock", expire="10s"):
            await cache.set("a", 1, expire=60)
        assert await cache.incr("a") == 2
        await cache.delete_match("work:*")

    asyncio.run(main())


@program("python-redis-lock", "python-redis-lock redis")
def python_redis_lock():
    import redis_lock
    with redis_lock.Lock(client(), "name", expire=10):
        pass


@program("pottery: Redlock", "pottery")
def pottery_redlock():
    from pottery import Redlock
    lock = Redlock(key="lock", masters={client()}, auto_release_time=10)
    with lock:
        assert lock.locked()
    assert not lock.locked()


@program("fastapi-cache2", "fastapi-cache2 redis")
def fastapi_cache():
    import redis.asyncio
    from fastapi_cache import FastAPICache
    from fastapi_cache.backends.redis import RedisBackend
    from fastapi_cache.decorator import cache

    async def main():
        FastAPICache.init(RedisBackend(redis.asyncio.Redis(unix_socket_path=SOCKET)), prefix="f")
        calls = []

        @cache(expire=60)
        async def work(n: int):
            calls.append(n)
            return 2 * n

        assert [await work(4), await work(4)] == [8, 8] and calls == [4]

    asyncio.run(main())


@program("fastapi-cache2: clear()", "fastapi-cache2 redis")
def fastapi_cache_clear():
    import redis.asyncio
    from fastapi_cache.backends.redis import RedisBackend
    backend = RedisBackend(redis.asyncio.Redis(unix_socket_path=SOCKET))
    asyncio.run(backend.clear(namespace="f"))


@program("starsessions", "starsessions[redis]")
def starsessions():
    from starsessions.stores.redis import RedisStore

    async def main():
        store = RedisStore(TCP_URL)
        await store.write("id", b"data", lifetime=60, ttl=60)
        assert await store.read("id", lifetime=60) == b"data"
        await store.remove("id")

    asyncio.run(main())


@program("Beaker", "beaker redis")
def beaker():
    from beaker.cache import CacheManager
    cache = CacheManager(type="ext:redis", url=UNIX_URL).get_cache("page", expire=60)
    assert cache.get(key="a", createfunc=lambda: [1]) == [1] and cache.get("a") == [1]
    cache.clear()


@program("walrus: cache", "walrus")
def walrus():
    from walrus import Database
    cache = Database(unix_socket_path=SOCKET).cache("c")
    assert cache.set("a", [1], 60) and cache.get("a") == [1]
    calls = []

    @cache.cached(timeout=60)
    def work(n):
        calls.append(n)
        return 2 * n

    assert [work(4), work(4)] == [8, 8] and calls == [4]


@program("walrus: lock", "walrus")
def walrus_lock():
    from walrus import Database
    with Database(unix_socket_path=SOCKET).lock("l", ttl=10000):
        pass


@program("requests-cache", "requests-cache redis")
def requests_cache():
    import http.server
    from requests_cache import CachedSession
    from requests_cache.backends import RedisCache

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = CachedSession(backend=RedisCache("pages", connection=client()))
    url = f"http://127.0.0.1:{server.server_port}/"
    assert not session.get(url).from_cache and session.get(url).from_cache


@program("python-socketio", "python-socketio redis")
def socketio():
    import socketio as library
    heard = []
    manager = library.RedisManager(TCP_URL)
    manager.server = type("Server", (), {"logger": None})()

    def listen():
        for message in manager._listen():
            heard.append(message)

    threading.Thread(target=listen, daemon=True).start()
    sender = library.RedisManager(TCP_URL, write_only=True)

    def arrives():
        sender.emit("event", {"a": 1}, room="room")
        return heard

    eventually(arrives)


@program("Flask-SSE", "flask flask-sse redis")
def flask_sse():
    from flask import Flask
    from flask_sse import sse
    app = Flask("app")
    app.config["REDIS_URL"] = TCP_URL
    app.register_blueprint(sse, url_prefix="/stream")
    with app.app_context():
        messages = sse.messages(channel="c")
        threading.Timer(0.5, lambda: publish(app, sse)).start()
        assert next(iter(messages)).data == {"a": 1}


def publish(app, sse):
    with app.app_context():
        sse.publish({"a": 1}, channel="c")


@program("django-channels: pub/sub layer", "channels_redis")
def channels_pubsub():
    from channels_redis.pubsub import RedisPubSubChannelLayer
    asyncio.run(one_message(RedisPubSubChannelLayer(hosts=[TCP_URL])))


@program("django-channels: core layer", "channels_redis")
def channels_core():
    from channels_redis.core import RedisChannelLayer
    asyncio.run(one_message(RedisChannelLayer(hosts=[TCP_URL])))


async def one_message(layer):
    name = await layer.new_channel()
    await layer.group_add("room", name)
    await layer.group_send("room", {"type": "hello"})
    assert (await asyncio.wait_for(layer.receive(name), 10))["type"] == "hello"


def celery_app(broker):
    from celery import Celery
    app = Celery("tasks", broker=broker, backend=f"redis+socket://{SOCKET}")
    app.conf.update(worker_pool="solo", broker_connection_retry_on_startup=False,
                    broker_connection_max_retries=0, broker_transport_options={"max_retries": 0})

    @app.task(name="add")
    def add(a, b):
        return a + b
    return app, add


@program("Celery: results", "celery[redis]")
def celery_results():
    from celery import group
    from celery.contrib.testing.worker import start_worker
    app, add = celery_app("memory://")
    with start_worker(app, perform_ping_check=False, pool="solo"):
        assert add.delay(1, 2).get(timeout=20) == 3
        assert group(add.s(i, 1) for i in range(3))().get(timeout=20) == [1, 2, 3]


@program("Celery: broker", "celery[redis]")
def celery_broker():
    _, add = celery_app(f"redis+socket://{SOCKET}")
    add.apply_async((1, 2), retry=False)


@program("rq", "rq")
def rq():
    from rq import Queue, SimpleWorker
    queue = Queue(connection=client())
    queue.enqueue(time.sleep, 0)
    SimpleWorker([queue], connection=client()).work(burst=True)


@program("arq", "arq")
def arq():
    from arq import create_pool
    from arq.connections import RedisSettings

    async def main():
        pool = await create_pool(RedisSettings(host="127.0.0.1", port=PORT, conn_retries=1))
        await pool.enqueue_job("work")

    asyncio.run(main())


@program("dramatiq", "dramatiq[redis]")
def dramatiq():
    import dramatiq as library
    from dramatiq.brokers.redis import RedisBroker
    broker = RedisBroker(url=TCP_URL)
    library.set_broker(broker)

    @library.actor
    def work():
        pass

    work.send()


@program("huey", "huey redis")
def huey():
    from huey import RedisHuey
    queue = RedisHuey("q", connection_pool=client().connection_pool)

    @queue.task()
    def work():
        return 1

    work()


@program("taskiq: pub/sub broker, results", "taskiq taskiq-redis")
def taskiq():
    from taskiq.api import run_receiver_task
    from taskiq_redis import PubSubBroker, RedisAsyncResultBackend

    async def main():
        broker = PubSubBroker(TCP_URL).with_result_backend(RedisAsyncResultBackend(TCP_URL))

        @broker.task
        async def add(a: int, b: int) -> int:
            return a + b

        broker.is_worker_process = True
        await broker.startup()
        worker = asyncio.create_task(run_receiver_task(broker))
        await asyncio.sleep(1)
        task = await add.kiq(1, 2)
        result = await task.wait_result(timeout=15)
        assert result.return_value == 3
        worker.cancel()

    asyncio.run(main())


@program("taskiq: list broker", "taskiq taskiq-redis")
def taskiq_list():
    from taskiq_redis import ListQueueBroker

    async def main():
        broker = ListQueueBroker(TCP_URL)

        @broker.task
        async def add(a: int, b: int) -> int:
            return a + b

        await broker.startup()
        await add.kiq(1, 2)

    asyncio.run(main())


@program("APScheduler: job store", "apscheduler<4 redis")
def apscheduler():
    from apscheduler.schedulers.background import BackgroundScheduler
    scheduler = BackgroundScheduler()
    scheduler.add_jobstore("redis", host="127.0.0.1", port=PORT)
    scheduler.start()
    scheduler.add_job(time.sleep, "interval", args=[0], hours=1)
    scheduler.shutdown()


@program("scrapy-redis", "scrapy-redis")
def scrapy_redis():
    from scrapy.http import Request
    from scrapy_redis.dupefilter import RFPDupeFilter
    filter_of_urls = RFPDupeFilter(client(), "seen")
    assert not filter_of_urls.request_seen(Request("http://localhost/"))


@program("django-q2", "django django-q2 redis")
def django_q():
    import django
    from django.conf import settings
    settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django_q"], SECRET_KEY="x",
                       Q_CLUSTER={"name": "q", "redis": {"host": "127.0.0.1", "port": PORT}})
    django.setup()
    from django_q.brokers import get_broker
    get_broker().enqueue("work")


@program("pyrate-limiter", "pyrate-limiter redis")
def pyrate_limiter():
    from pyrate_limiter import Duration, Limiter, Rate, RedisBucket
    bucket = RedisBucket.init([Rate(3, Duration.HOUR)], client(), "bucket")
    assert Limiter(bucket).try_acquire("a")


def main():
    if sys.argv[1:] == ["list"]:
        for name, (packages, _) in PROGRAMS.items():
            print(name, packages, sep="\t")
        return
    try:
        PROGRAMS[sys.argv[1]][1]()
    except BaseException as error:
        chain = [error]
        while chain[-1].__cause__ or chain[-1].__context__:
            chain.append(chain[-1].__cause__ or chain[-1].__context__)
        reason = next((one for one in chain if "unknown command" in str(one).lower()), error)
        print(f"{type(reason).__name__}: {reason}", file=sys.stderr, flush=True)
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


main()
